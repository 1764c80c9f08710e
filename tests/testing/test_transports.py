"""`check_transport` passes our transports, and names the rule that a wrong one breaks."""

from functools import partial

import numpy as np
import pytest

from skfedcausal.federation import Failure, FileLoopback, InProcessTransport, Packet
from skfedcausal.testing import check_transport

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_transports_in_this_process_pass(n_jobs):
    check_transport(partial(InProcessTransport, n_jobs=n_jobs))


@pytest.mark.slow
def test_workers_in_other_processes_pass():
    check_transport(partial(InProcessTransport, n_jobs=2, backend="loky"))


def test_files_pass(tmp_path):
    check_transport(FileLoopback(tmp_path))


class Loses(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        return dict(list(super().exchange(out).items())[:-1]) if len(out) > 1 else super().exchange(out)


class MixesUp(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        return dict(zip(reversed(answers), answers.values(), strict=True))


class ByPosition(InProcessTransport):
    """Goes by the order of the units, not by their names."""

    def exchange(self, out, *, timeout=None):
        answers = super().exchange({name: out[name] for name in self.clients() if name in out})
        return dict(zip(out, answers.values(), strict=True))


class AsksWrong(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        return super().exchange(dict(zip(out, reversed(out.values()), strict=True)))


class Twice(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        super().exchange(out)
        return super().exchange(out)


class Rounds(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        short = {}
        for name, packet in out.items():
            arrays = {k: np.asarray(v, np.float32) if v.dtype == float else v for k, v in packet.arrays.items()}
            short[name] = Packet(packet.op, packet.round, arrays, packet.scalars)
        return super().exchange(short)


class RoundsAnswers(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        return {
            name: Packet(
                a.op,
                a.round,
                {k: np.abs(v) if v.dtype == float else v for k, v in a.arrays.items()},
                a.scalars,
            )
            for name, a in answers.items()
        }


class LosesRound(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        return {name: Packet(a.op, 0, a.arrays, a.scalars) for name, a in answers.items()}


class Forgets(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        for site in self._sites.values():
            site.state = {}
        return super().exchange(out)


class KeepsSome(InProcessTransport):
    """Keeps numbers, no arrays."""

    def exchange(self, out, *, timeout=None):
        for site in self._sites.values():
            site.state = {key: value for key, value in site.state.items() if isinstance(value, int)}
        return super().exchange(out)


class AsksAll(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        some = next(iter(out.values()), None)
        answers = super().exchange({name: out.get(name, some) for name in self.clients()} if out else {})
        return {name: answers[name] for name in out}


class AnswersForAll(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        some = next(iter(out.values()), None)
        return super().exchange({name: out.get(name, some) for name in self.clients()} if out else {})


class Swallows(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        answers = {}
        for name, packet in out.items():
            try:
                answers |= super().exchange({name: packet})
            except RuntimeError:
                answers[name] = Packet("done")
        return answers


class Tells(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        answers = {}
        for name, packet in out.items():
            try:
                answers |= super().exchange({name: packet})
            except RuntimeError as error:
                answers[name] = Failure("crashed", str(error))
        return answers


class LosesAllWithOne(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        try:
            return super().exchange(out)
        except RuntimeError:
            return {name: Failure("crashed") for name in out}


class Errors(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        answers = {}
        for name, packet in out.items():
            try:
                answers |= super().exchange({name: packet})
            except RuntimeError as error:
                answers[name] = error
        return answers


class Anybody(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        return super().exchange({name: packet for name, packet in out.items() if name in self.clients()})


class Lists(InProcessTransport):
    def clients(self):
        return list(super().clients())


class Sorted(InProcessTransport):
    def clients(self):
        return tuple(sorted(super().clients()))


class Values(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        return list(super().exchange(out).values())


class Junk(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        return dict.fromkeys(out, b"junk")


class ChangesPackets(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        for packet in out.values():
            for array in packet.arrays.values():
                array[...] = 0
        return answers


class Copies(InProcessTransport):
    """Leaves an old state at the sites."""

    def exchange(self, out, *, timeout=None):
        self.sites = self._sites
        first = {name: self._sites[name].state for name in out}
        states = self.__dict__.setdefault("_states", {})
        answers = {}
        for name, packet in out.items():
            answers[name], states[name] = self._sites[name].worker.handle(packet, states.get(name, {}))
        for name in out:
            self._sites[name].state = first[name] or states[name]
        return answers


class NoClose:
    def __init__(self, sites):
        self.inner = InProcessTransport(sites)
        self.clients, self.exchange = self.inner.clients, self.inner.exchange


def shared(sites, _kept={}):  # noqa: B006  what is wrong with it
    """Makes transports whose workers are those of the first run."""
    for name, site in sites.items():
        site.state = _kept.setdefault(name, site).state
    return InProcessTransport({name: _kept[name] for name in sites})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Loses, "every unit that is asked, and no other, gives its answer or"),
        (
            MixesUp,
            "every unit gets its own packet and gives its own answer,.*The answer under .fan. is that of",
        ),
        (
            ByPosition,
            "every unit gets its own packet and gives its own answer,.*The answer under .fan. is that of",
        ),
        (
            AsksWrong,
            "every unit gets its own packet and gives its own answer,.*What came to .mill. is not what",
        ),
        (
            Twice,
            "a worker answers every packet to it once, and the state it.*.mill. counted ..2, 2., .4, 4..,",
        ),
        (Rounds, "every unit gets its own packet and gives its own answer,.*What came to .mill. is not what"),
        (
            RoundsAnswers,
            "every unit gets its own packet and gives its own answer,.*What came back from .mill. is not",
        ),
        (
            LosesRound,
            "every unit gets its own packet and gives its own answer,.*What came back from .boiler. is",
        ),
        (
            ChangesPackets,
            "every unit gets its own packet and gives its own answer,.*The packet to .mill. was changed",
        ),
        (
            Forgets,
            "a worker answers every packet to it once, and the state it.*.mill. counted ..1, 1., .1, 1..,",
        ),
        (
            KeepsSome,
            "a worker answers every packet to it once, and the state it.*.mill. counted ..1, 1., .2, 1..,",
        ),
        (
            AsksAll,
            "a worker answers every packet to it once, and the state it.*.mill. counted ..1, 1., .3, 3..,",
        ),
        (AnswersForAll, "every unit that is asked, and no other, gives its answer or"),
        (
            Swallows,
            "an error at a unit is raised, or becomes a `Failure` of.*An error became Packet.op=.done.,",
        ),
        (Tells, "an error at a unit is raised, or becomes a `Failure` of.*The failure tells the text of the"),
        (LosesAllWithOne, "an error at a unit is raised, or becomes a `Failure` of"),
        (Errors, "an error at a unit is raised, or becomes a `Failure` of.*An error became"),
        (Anybody, "a unit that is not there gives an error or a `Failure`."),
        (Lists, "`clients` gives the names, `exchange` asks, `close` ends."),
        (Sorted, "`clients` gives the names, `exchange` asks, `close` ends."),
        (Values, "`clients` gives the names, `exchange` asks, `close` ends."),
        (Junk, "every unit that is asked, and no other, gives its answer or"),
        (Copies, "a worker answers every packet to it once, and the state it.*`Site.state` of .mill. is an"),
        (NoClose, "`clients` gives the names, `exchange` asks, `close` ends.*It raised AttributeError:"),
        (shared, "what it keeps stays|starts afresh"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_wrong_transport_is_named_with_its_rule(make, sentence):
    with pytest.raises(AssertionError, match=f"(?s)^{make.__name__} breaks the rule: .*(?:{sentence})"):
        check_transport(make)
