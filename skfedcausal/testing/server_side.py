"""Checks of parts on the server's side: servers, and transports that carry packets to the units."""

import hashlib
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from sklearn.neural_network import MLPRegressor

from ..client.augmenter import RegressorAugmenter
from ..client.extended_kalman import ExtendedKalmanClient
from ..client.kalman import KalmanClient
from ..client.worker import UnitWorker
from ..datasets import make_granger_plant
from ..federation.exchange import Site
from ..message.packet import Failure, Packet
from ..message.requests import Acknowledgement, Ask, RecordRequest
from ..message.states import StateMessage, StateReply
from . import _rules as check

# -- servers -----------------------------------------------------------------------------------------

_ROWS = 240
_SIZES = {"mill": 2, "kiln": 1, "fan": 2}  # states of units whose names are in no order
_LEARNED = ("names_", "state_slices_", "transition_", "process_cov_")
_LINKS = ["cause", "effect", "kind", "norm", "p_adjusted", "verdict"]
_VERDICTS = ["influence", "no influence", "cannot tell"]


def check_server(server: Any) -> None:
    """Check whether an object can be the server of an estimator.

    The rules are those of :class:`~skfedcausal.ServerLearner`, checked in fits of a small simulated plant of
    three units; questions that a server has no method for are not asked. The object that is given is cloned
    and stays as it is.

    Parameters
    ----------
    server : ServerLearner or object
        Unfitted.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        With the first rule that does not hold, what was seen and what to do.

    Examples
    --------
    >>> from skfedcausal import LikelihoodServer
    >>> from skfedcausal.testing import check_server
    >>> check_server(LikelihoodServer())
    """
    check.check_rules(_SERVER, _SeenServer(server))


def _plant(n_samples=_ROWS, seed=0):
    """Records of the three units."""
    settings = {"n_states": list(_SIZES.values()), "random_state": seed}
    X, _ = make_granger_plant(3, n_samples=n_samples, links=[(0, 1)], **settings)
    return dict(zip(_SIZES, X.values(), strict=True))


class _Fit:
    """One fit: its questions, the messages that the server was sent, and the error that ended it."""

    def __init__(self, server, records):
        self.server, self.error = server, None
        augmenter: Any = None
        clients: dict[str, Any] = {name: KalmanClient(n_states=n) for name, n in _SIZES.items()}
        if getattr(server, "trains_corrections", False):  # which needs units that can be corrected
            clients = dict.fromkeys(records, ExtendedKalmanClient(random_state=0))
            augmenter = RegressorAugmenter(MLPRegressor(hidden_layer_sizes=(4,), random_state=0), n_lags=2)
        else:
            gaps = {name: np.random.default_rng(0).random(Y.shape) < 0.02 for name, Y in records.items()}
            records = {name: np.where(gaps[name], np.nan, Y) for name, Y in records.items()}
        self.records = records
        parts = {name: (Y, None, (0,), None, clients[name], augmenter) for name, Y in records.items()}
        self.units = {name: Site(UnitWorker(name, *own)) for name, own in parts.items()}
        self.n_questions, self.sent, self.told, self.learned = 0, [], {}, True
        try:
            self._run(server.dialogue(tuple(records), inputs=False))
        except Exception as error:
            self.error = error

    def _run(self, dialogue):
        most, answers = 100 + 240 * getattr(self.server, "n_rounds_at_most", 0), None
        while self.n_questions <= most:
            try:
                question = dialogue.send(answers)
            except StopIteration:
                return
            if self.n_questions == 1:
                self.learned = all(hasattr(self.server, name) for name in _LEARNED)
            missing = [name for name in self.units if name not in question.requests]
            check.require(self.n_questions or not missing, f"The first question leaves out {missing}.")
            answers = self.answers(question)
            self.n_questions += 1
            self.told |= question.requests if question.answer is Acknowledgement else {}
            if self.n_questions <= 3:
                self.sent += [(message, check.bits(message)) for message in answers.values()]
        check.require(False, f"After {most} questions it still asks.")

    def answers(self, question):
        """Answers of the units, in copies that a server could change."""
        answers = {}
        for name, request in question.requests.items():
            unit, packet = self.units[name], request.to_packet(self.n_questions + 1)
            came, _ = unit.handle(packet, unit.state)
            arrays = {key: np.array(value) for key, value in came.arrays.items()}
            answers[name] = question.answer.from_packet(Packet(came.op, came.round, arrays, came.scalars))
        return answers

    def finished(self):
        if self.error is not None:
            raise self.error
        return self.server


class _SeenServer(check.Seen):
    """A server, one fit of it, and messages about the same record."""

    @cached_property
    def fit(self):
        fit = _Fit(self.new(), _plant())
        missing = [name for name in _LEARNED if not hasattr(fit.server, name)]
        check.require(not missing or fit.finished() is None, f"Nothing set {missing}. Set them in `fit`.")
        return fit

    @property
    def one(self):
        return self.fit.server

    @cached_property
    def messages(self):
        """Messages about the record from the units as they are after the fit."""
        request = RecordRequest(local_model=True, const=True)
        return self.fit.answers(Ask(dict.fromkeys(self.fit.units, request), StateMessage))

    @cached_property
    def slices(self):
        """Slices that hold every state once, in the order of the units."""
        stops = np.cumsum([0, *(message.z.shape[1] for message in self.messages.values())]).tolist()
        return dict(zip(self.messages, map(slice, stops, stops[1:]), strict=False))

    @property
    def n(self):
        return sum(message.z.shape[1] for message in self.messages.values())

    def filter(self, messages):
        run = self.one.filter(messages)
        return {"predicted": run.predicted, "filtered": run.filtered, "likelihood": run.log_likelihood()}

    @property
    def series(self):
        return [*(one.z for one in self.messages.values()), *self.fit.records.values()]

    def learned(self, server):
        return [getattr(server, name) for name in _LEARNED]

    def again(self):
        """A server that was fitted to other messages before."""
        used = self.new()
        _Fit(used, _plant(180, seed=5)).finished()
        return _Fit(used, _plant()).finished()

    def real_states(self, replies, n_rows, block="states"):
        """Whether every unit has a reply with finite numbers for each of its states."""
        missing = [name for name in self.slices if name not in replies]
        check.require(not missing, f"It leaves out {missing}. Give one reply for every unit.")
        return all(
            check.real(getattr(replies[name], block), (n_rows, rows.stop - rows.start), f"That of {name!r}")
            for name, rows in self.slices.items()
        )


def _matrices(seen):
    for name in ("transition_", "process_cov_"):
        check.real(getattr(seen.one, name), (seen.n, seen.n), f"`{name}`")
    return check.covariance(seen.one.process_cov_, "`process_cov_`")


def _fits(seen):
    if not hasattr(seen.given, "fit") or seen.one.needs_replies:
        return True
    used = seen.new()
    return check.require(used.fit(seen.messages) is used, "End `fit` with `return self`.")


def _messages_stay(seen):
    stayed = all(check.bits(message) == was for message, was in seen.fit.sent)
    return stayed and check.asked("filter", seen.filter, seen.messages)


def _same_order(seen):
    if hasattr(seen.given, "random_state"):
        return True  # may start elsewhere
    other = _Fit(seen.new(), dict(reversed(_plant().items()))).finished()
    at = np.concatenate([np.r_[other.state_slices_[name]] for name in seen.slices])
    first, second = other.transition_[np.ix_(at, at)], other.process_cov_[np.ix_(at, at)]
    return check.close(first, seen.one.transition_, 1e-3) and check.close(second, seen.one.process_cov_, 1e-3)


def _past(seen):
    run, t = seen.filter(seen.messages), 100
    part = seen.filter({name: message.rows(0, t) for name, message in seen.messages.items()})
    return all(check.close(part[name], run[name][:t]) for name in run)


def _replies(seen):
    replies = {name: one for name, one in seen.fit.told.items() if isinstance(one, StateReply)}
    if hasattr(seen.one, "replies"):
        replies = seen.one.replies(seen.messages)
    for name, reply in replies.items():
        A, Q = (block[(seen.slices[name],) * 2] for block in (seen.one.transition_, seen.one.process_cov_))
        own = check.close(reply.transition, A) and check.close(reply.process_cov, Q)
        check.require(own, f"`transition` or `process_cov` of {name!r} is not its block of the plant's.")
    return not replies or seen.real_states(replies, _ROWS, "cross_term")


def _links(seen):
    if not getattr(seen.one, "tests_links", True):
        return True
    links, units = seen.one.links_[_LINKS], seen.slices.keys()
    pairs = links.loc[links["kind"] == "state", ["cause", "effect"]].itertuples(index=False, name=None)
    check.require(sorted(pairs) == sorted(permutations(units, 2)), "It needs a row for each ordered pair.")
    return links["verdict"].isin(_VERDICTS).all() and links["p_adjusted"].between(0, 1).all()


_SERVER = {
    "`dialogue` asks each unit by name with an `Ask`, learns, and ends": lambda seen: seen.one is not None,
    "`needs_replies` is True or False": lambda seen: isinstance(seen.one.needs_replies, bool),
    "`names_` and `state_slices_` hold every state of every unit in order": lambda seen: (
        [seen.one.names_, *seen.one.state_slices_.items()] == [tuple(seen.slices), *seen.slices.items()]
    ),
    "`transition_` and `process_cov_` are finite matrices, the second a covariance": _matrices,
    "a dialogue goes on without an error": lambda seen: seen.fit.finished() is seen.one,
    "`fit(messages)` of one that learns in one round returns the server": _fits,
    "messages are not changed: work on copies": _messages_stay,
    "another order of the units gives the same plant: take states by `state_slices_`": _same_order,
    "`filter(messages)` gives states of every row": lambda seen: all(
        check.real(value, (_ROWS, seen.n)[: value.ndim], f"`{name}`")
        for name, value in seen.filter(seen.messages).items()
    ),
    "a filter looks at earlier rows only": _past,
    "every unit is told what was learned": lambda seen: seen.fit.told.keys() == seen.slices.keys(),
    "a reply is about the unit's own part of the plant": _replies,
    "smoothed states come for every unit": lambda seen: all(
        seen.real_states(getattr(seen.one, name)(seen.messages), _ROWS)
        for name in {"smoothed", "abducted"} & set(dir(seen.one))
    ),
    "one round is enough to learn, or `needs_replies`": lambda seen: seen.one.needs_replies or seen.fit.learned,
    "a server that tests links leaves a table `links_` of all pairs, or sets `tests_links = False`": _links,
} | check.FITTED

# -- transports --------------------------------------------------------------------------------------

_NAMES = ("mill", "boiler", "fan")
_SECRET = "pressure 17.25"  # what an error at a site may hold
_KINDS = ("timeout", "offline", "client-error", "crashed", "refused")


def check_transport(make: Callable[..., Any]) -> None:
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
    check.check_rules(_TRANSPORT, _SeenTransport(make))


class Probe:
    """A worker that says which unit it is, what came and how often, and sends back what it was given."""

    def __init__(self, name):
        self.name = name

    def handle(self, packet, state):
        """Answer a packet; one that asks for an error raises it."""
        if packet.op == "raise":
            raise RuntimeError(f"{self.name}: {_SECRET}")
        n, kept = state.get("n", 0) + 1, np.append(state.get("kept", []), 1.0)
        scalars = {"unit": self.name, "n": n, "n_kept": len(kept), "digest": _digest(packet)}
        return Packet("probed", packet.round, dict(packet.arrays), scalars), {"n": n, "kept": kept}


def _digest(packet):
    return hashlib.sha256(packet.encode()).hexdigest()


def _packet(name, number=1):
    """A packet of its own for each unit and round, with several kinds of arrays and scalars."""
    rng = np.random.default_rng([number, len(name)])
    arrays: dict[str, np.ndarray] = {"series": rng.standard_normal((50 + number, 3)), "empty": np.zeros((0, 2))}
    arrays |= {"odd": np.array([-0.0, 5e-324, 1.7e308]), "single": np.ones(7, dtype=np.float32)}
    arrays |= {"bytes": np.arange(9, dtype=np.uint8), "whole": np.array([-(2**62), 0, 1])}
    return Packet("probe", number, arrays, {"to": name, "share": 0.1, "text": "Kühlung", "large": 2**53 + 1})


class _SeenTransport(check.Seen):
    """Makes transports, and one run of three rounds: all units, one of them, all in reverse order."""

    def opened(self):
        self.sites = {name: Site(Probe(name)) for name in _NAMES}
        return closing(self.given(self.sites))

    def asked(self, packets, **settings):
        """Names of the units and answers of a single round."""
        with self.opened() as transport:
            return transport.clients(), transport.exchange(packets, **settings)

    @cached_property
    def rounds(self):
        """Packets and answers of each round."""
        rounds = []
        with self.opened() as transport:
            for k, names in enumerate((_NAMES, ("boiler",), _NAMES[::-1])):
                packets = {name: _packet(name, k) for name in names}
                rounds.append((packets, transport.exchange(packets)))
        return rounds


def _carried(seen):
    for k, (packets, answers) in enumerate(seen.rounds):
        for name, answer in answers.items():
            own, sent = answer.scalars, _packet(name, k)
            check.require(own["unit"] == name, f"The answer under {name!r} is that of {own['unit']!r}.")
            check.require(_digest(packets[name]) == _digest(sent), f"The packet to {name!r} was changed in place.")
            check.require(own["digest"] == _digest(sent), f"What came to {name!r} is not what was sent.")
            given = Packet("probed", k, sent.arrays, own)
            check.require(_digest(answer) == _digest(given), f"What came back from {name!r} is not what it sent.")
    return True


def _counted(seen):
    for name in _NAMES:
        came = [answers[name].scalars for _, answers in seen.rounds if name in answers]
        counts = [(each["n"], each["n_kept"]) for each in came]
        expected = [(k, k) for k in range(1, len(came) + 1)]
        check.require(counts == expected, f"{name!r} counted {counts}, expected {expected}.")
        kept = seen.sites[name].state  # empty where another process has the worker
        check.require(not kept or kept["n"] == len(came), f"`Site.state` of {name!r} is an older one.")
    return True


def _failure(seen):
    try:
        answers = seen.asked({name: _packet(name) for name in _NAMES} | {"boiler": Packet("raise")})[1]
    except Exception:
        return True  # of the worker, in one process
    lost = answers.pop("boiler")
    check.require(isinstance(lost, Failure) and lost.kind in _KINDS, f"An error became {lost!r}.")
    check.require(_SECRET not in lost.detail, "The failure tells the text of the error.")
    return all(isinstance(answers[name], Packet) for name in ("mill", "fan"))


def _unknown(seen):
    try:
        answers = seen.asked({"nobody": Packet("probe")}, timeout=0.5)[1]
    except Exception:
        return True
    return isinstance(answers.get("nobody"), Failure)


_TRANSPORT = {
    "`clients` gives the names, `exchange` asks, `close` ends": lambda seen: seen.asked({}) == (_NAMES, {}),
    "every unit that is asked, and no other, gives its answer or a `Failure`": lambda seen: all(
        packets.keys() == answers.keys() and all(isinstance(answer, Packet) for answer in answers.values())
        for packets, answers in seen.rounds
    ),
    "every unit gets its own packet and gives its own answer, both as they were sent": _carried,
    "a worker answers every packet to it once, and the state it leaves is there at the next": _counted,
    "an error at a unit is raised, or becomes a `Failure` of that unit alone": _failure,
    "a unit that is not there gives an error or a `Failure`": _unknown,
    "every run starts afresh": lambda seen: seen.asked({"fan": _packet("fan")})[1]["fan"].scalars["n"] == 1,
}
