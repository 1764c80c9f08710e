"""Whether an object can carry packets between server and units."""

import hashlib

import numpy as np

from ..federation.transport import Site
from ..message.packet import Failure, Packet
from ._rules import Broken, check_rules, require

_NAMES = ("mill", "boiler", "fan")
_SECRET = "pressure 17.25"  # what an error at a site may hold
_KINDS = ("timeout", "offline", "client-error", "crashed", "refused")


class Probe:
    """A worker that says which unit it is, what came and how often, and sends back what it was given."""

    def __init__(self, name):
        self.name = name

    def handle(self, packet, state):
        """Answer a packet; one that asks for an error raises it."""
        if packet.op == "raise":
            raise RuntimeError(f"{self.name}: {_SECRET}")
        n = state.get("n", 0) + 1
        seen = state.get("seen", np.zeros(0)) if isinstance(state.get("seen"), np.ndarray) else np.zeros(0)
        digest = hashlib.sha256(packet.encode()).hexdigest()
        scalars = {"unit": self.name, "n": n, "n_seen": len(seen), "digest": digest}
        answer = Packet("probed", packet.round, dict(packet.arrays), scalars)
        return answer, {"n": n, "seen": np.append(seen, float(n))}


def check_transport(make):
    """Check whether a callable makes transports.

    The workers behind it count what comes and send it back. A transport that raises what a worker raises, as
    within one process, is as good as one that gives a :class:`~skfedcausal.federation.Failure`. Anything is
    waited for as long as the transport itself says.

    Parameters
    ----------
    make : callable
        Takes a dict of str to Worker, gives a transport: what an estimator takes as `transport`.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        With the first rule that does not hold, what was seen and what to do.

    Examples
    --------
    >>> from skfedcausal.federation import InProcessTransport
    >>> from skfedcausal.testing import check_transport
    >>> check_transport(InProcessTransport)
    """
    check_rules(getattr(make, "__name__", type(make).__name__), _RULES, make)


def _made(make, names=_NAMES):
    sites = {name: Site(Probe(name)) for name in names}
    return make(sites), sites


def _packets(names=_NAMES, round=1):
    """A packet of its own for each unit, with every kind of array and scalar."""
    packets = {}
    for k, name in enumerate(names):
        rng = np.random.default_rng([round, k])
        arrays: dict[str, np.ndarray] = {
            "series": rng.standard_normal((50 + k, 3)),
            "hardly": np.round(1000 + rng.standard_normal((40, 2)), 2),
            "single": rng.standard_normal(7).astype(np.float32),
            "half": rng.standard_normal((3, 2)).astype(np.float16),
            "bytes": rng.integers(0, 255, 9).astype(np.uint8),
            "whole": np.array([-(2**62), 0, k], dtype=np.int64),
            "odd": np.array([-0.0, 5e-324, 1.7e308]),
            "empty": np.zeros((0, 2)),
        }
        scalars = {"to": name, "k": k, "share": 0.1, "yes": True, "text": "Kühlung", "large": 2**53 + 1}
        packets[name] = Packet("probe", round, arrays, scalars)
    return packets


def _digest(packet):
    return hashlib.sha256(packet.encode()).hexdigest()


def _asked(transport, packets):
    answers = transport.exchange(packets)
    require(
        isinstance(answers, dict),
        f"`exchange` gave a {type(answers).__name__}. Give a dict with the answer of every "
        "unit that was asked.",
    )
    for name in packets:
        require(name in answers, f"There is no answer of {name!r}. Give a `Failure` for a unit without one.")
        require(
            isinstance(answers[name], Packet),
            f"Unit {name!r} answered, but what came is {answers[name]!r}. Give the packet of its worker.",
        )
    more = [name for name in answers if name not in packets]
    require(not more, f"There are answers of {more}, who were not asked.")
    return answers


def _closing(check):
    """A rule whose transport is closed afterwards."""

    def checked(make):
        transport, sites = _made(make)
        try:
            check(transport, sites)
        finally:
            transport.close()

    return checked


def _check_names(transport, sites):
    names = transport.clients()
    require(
        isinstance(names, tuple) and names == tuple(sites),
        f"It gave {names!r} for the units {tuple(sites)}. Give their names as a tuple in that order.",
    )
    require(transport.clients() == names, "The second time they have another order.")


def _check_answers(transport, sites):
    _asked(transport, _packets())


def _check_own(transport, sites):
    packets = _packets()
    for name, answer in _asked(transport, packets).items():
        unit = answer.scalars["unit"]
        require(
            unit == name, f"The answer under {name!r} is that of {unit!r}. Keep answers under their names."
        )
        whose = [other for other, one in packets.items() if _digest(one) == answer.scalars["digest"]]
        require(whose in ([], [name]), f"Unit {name!r} was asked what {whose} should have been.")


def _check_bytes(transport, sites):
    packets = _packets(round=3)
    before = {name: packet.encode() for name, packet in packets.items()}
    answers = _asked(transport, packets)
    for name, packet in packets.items():
        require(packet.encode() == before[name], f"The packet to {name!r} was changed in place.")
        answer = answers[name]
        require(
            answer.scalars["digest"] == _digest(packet),
            f"What came to {name!r} is not the packet that was sent. Carry `packet.encode()` and decode it.",
        )
        expected = Packet("probed", packet.round, packet.arrays, answer.scalars)
        require(
            answer.encode() == expected.encode(),
            f"What came back from {name!r} is not the packet that it sent. Carry "
            "`packet.encode()` and decode "
            "it.",
        )


def _check_state(transport, sites):
    for k in range(1, 4):
        for name, answer in _asked(transport, _packets(round=k)).items():
            n, n_seen = answer.scalars["n"], answer.scalars["n_seen"]
            require(
                (n, n_seen) == (k, k - 1),
                f"At packet {k} the worker of {name!r} counted {n}, and found {n_seen} numbers in its state, "
                f"expected {k - 1}. Let every packet be answered once, with the whole state that the answer "
                "before left.",
            )


def _check_some(transport, sites):
    one = dict([list(_packets().items())[1]])
    _asked(transport, one)
    for name, answer in _asked(transport, _packets(round=2)).items():
        expected = 2 if name in one else 1
        require(
            answer.scalars["n"] == expected,
            f"The worker of {name!r} counted {answer.scalars['n']} packets after {expected}. "
            "Ask those who are "
            "named, and no others.",
        )


def _check_sites(transport, sites):
    _asked(transport, _packets())
    _asked(transport, _packets(round=2))
    for name, site in sites.items():
        require(
            not site.state or site.state["n"] == 2,
            f"`Site.state` of {name!r} is that of packet {site.state.get('n')}. Let the site handle every "
            "packet, or set its `state` to what its worker left.",
        )


def _check_reversed(transport, sites):
    packets = _packets()
    packets = {name: packets[name] for name in reversed(packets)}
    for name, answer in _asked(transport, packets).items():
        require(
            answer.scalars["unit"] == name,
            f"Asked in another order, the answer under {name!r} is that of {answer.scalars['unit']!r}.",
        )


def _check_failure(transport, sites):
    packets = _packets() | {"boiler": Packet("raise")}
    try:
        answers = transport.exchange(packets, timeout=30.0)
    except Exception:
        return  # of the worker, in one process
    lost = answers.get("boiler")
    require(
        isinstance(lost, Failure),
        f"The worker of 'boiler' raised an error, but {lost!r} came. Give a `Failure`, or raise the error.",
    )
    require(lost.kind in _KINDS, f"The failure is of the kind {lost.kind!r}. Choose one of {_KINDS}.")
    require(
        _SECRET not in f"{lost.kind} {lost.detail}",
        "The failure tells the text of the error at the site, which may hold measurements.",
    )
    for name in ("mill", "fan"):
        require(
            isinstance(answers.get(name), Packet),
            f"When 'boiler' failed, {answers.get(name)!r} came for {name!r}. Lose the answer "
            "of that unit only.",
        )


def _check_unknown(transport, sites):
    try:
        answers = transport.exchange({"nobody": Packet("probe")}, timeout=0.5)
    except Exception:
        return
    require(
        isinstance(answers.get("nobody"), Failure),
        f"For a unit that is not there it gave {answers!r}. Raise an error, or give a `Failure`.",
    )


def _check_runs(make):
    for _ in range(2):
        transport, _sites = _made(make)
        try:
            answers = _asked(transport, _packets())
        finally:
            transport.close()
        for name, answer in answers.items():
            n = answer.scalars["n"]
            require(
                n == 1, f"The first packet of a run found the state of an earlier one: {name!r} counted {n}."
            )


def _check_number(make):
    for names in (("alone",), tuple(f"unit {k}" for k in range(12))):
        transport, _sites = _made(make, names)
        try:
            require(transport.clients() == names, f"It knows {transport.clients()}, expected {names}.")
            answers = _asked(transport, _packets(names))
        finally:
            transport.close()
        wrong = [name for name in names if answers[name].scalars["unit"] != name]
        require(not wrong, f"Of {len(names)} units the answers of {wrong} are those of others.")


def _check_protocol(make):
    transport, _sites = _made(make)
    lacking = [
        name for name in ("clients", "exchange", "close") if not callable(getattr(transport, name, None))
    ]
    if lacking:
        raise Broken(f"The transport has no {', '.join(lacking)}.")
    require(transport.exchange({}) == {}, "Nobody was asked, and yet there are answers.")
    transport.close()


_RULES = {
    "a transport has `clients`, `exchange` and `close`": _check_protocol,
    "`clients()` names the units in their order": _closing(_check_names),
    "every unit that is asked has an answer": _closing(_check_answers),
    "every unit gets its own packet and gives its own answer": _closing(_check_own),
    "packets arrive as they were sent": _closing(_check_bytes),
    "a worker answers every packet once, and what it keeps stays": _closing(_check_state),
    "only those who are named are asked": _closing(_check_some),
    "a site has the state of its last answer": _closing(_check_sites),
    "answers do not depend on the order of the questions": _closing(_check_reversed),
    "an error at a unit is not passed over": _closing(_check_failure),
    "a unit that is not there does not answer": _closing(_check_unknown),
    "every run starts afresh": _check_runs,
    "one unit is served as well as many": _check_number,
}
