"""The server's exchange with the units, the only code that calls a transport: who is late or lost, one ledger."""

import logging
import math
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral, Real
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import ThreadingBackend, get_active_backend
from sklearn.utils._param_validation import Interval, StrOptions

from ..arguments import check_choice, check_number, warn
from ..bases import ParameterGroup
from ..message.packet import NOTHING, Failure, Packet, PacketError
from ..message.requests import Acknowledgement, Ask, CommonRows, FitRequest, OrderAnswer, PrivacyPromise
from ..message.schema import Message
from ..message.states import WIRE_DTYPES, StateMessage
from ..statespace.matrices import few_threads
from .tuning import TUNING

# Units that are late, lost or send what cannot be used: what a fit does then.


class ClientError(RuntimeError):
    """A client did not answer, or not as it should have, and the fit cannot do without it."""


class LostUnitWarning(UserWarning):
    """A fit went on without some answers of some units."""


@dataclass(frozen=True)
class LostUnits:
    """Rule for lost units: how many a fit can lose, how long it waits, and what it does instead.

    Attributes
    ----------
    quorum : int or float
        Units that have to answer in every round: a number, or a share above 0 and up to 1. A fit that gets
        fewer ends with a :class:`~skfedcausal.federation.ClientError`.
    timeout : float or None
        Seconds to wait for the answers of a round; None leaves it to the transport.
    stale : {"hold", "skip"}
        What gradient training does about a unit that does not answer in a round: "hold" goes on with what
        it said last, "skip" also lets the unit's own block row rest until it is back.
    max_states : int
        States that a unit may send; one that sends more is left out.
    max_seconds : float
        Seconds that a fit may take because of one unit, which has more than twice as many states as the unit in the
        middle. If the fit ends in time without that unit and not with it, the unit is left out.

    Notes
    -----
    With a rule every message is also judged by its content, alone and before anything joint is computed: its rows
    (those of most units), its sizes, whether somebody asked for its parts, and its series against the precision
    that it names: no state of a record to learn from stands still or is a combination of others. Series that are
    nearly all zero, or move in one row of a hundred, are named in a warning and taken. If a fit then fails all the
    same, or finds a plant that more than doubles with every row, it is tried without each of the units, the oddest
    first. A unit that is found to be the reason counts as lost, and ``lost_units_`` says why. In a question about a
    record such a message is an error that names the unit. One that does not come in time is one, too, but where the
    answer is a likelihood or the states of the plant (`score`, `score_samples`, `transform`): there the late unit
    is left out, as if it had measured nothing, and a warning names it.

    For :class:`~skfedcausal.LikelihoodServer` lost answers are missing data. A unit that never sent a message
    is not part of the plant: the estimate is the maximum of the likelihood of the others' measurements. One
    that is lost in a later round keeps its message, which stays true. One that does not take its reply has an
    estimate at the server and no augmenter in the unit.

    Examples
    --------
    >>> from skfedcausal.federation import LostUnits
    >>> LostUnits(quorum=0.75, timeout=60.0).needed(10)
    8
    """

    quorum: int | float = 0.5
    timeout: float | None = None
    stale: Literal["hold", "skip"] = "hold"
    max_states: int = 16
    max_seconds: float = 8.0

    def __post_init__(self):
        whole = isinstance(self.quorum, Integral) and not isinstance(self.quorum, bool)
        share = isinstance(self.quorum, Real) and not isinstance(self.quorum, Integral)
        if not ((whole and self.quorum >= 1) or (share and 0 < self.quorum <= 1)):
            raise ValueError(f"quorum={self.quorum!r}; give a number of units, or a share above 0 and up to 1.")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout!r}; give seconds above 0, or None.")
        check_choice("stale", self.stale, ("hold", "skip"))
        check_number(self.max_states, "max_states")
        if not isinstance(self.max_seconds, Real) or not self.max_seconds > 0:
            raise ValueError(f"max_seconds={self.max_seconds!r}; give seconds above 0.")

    def needed(self, n_units: int) -> int:
        """Units of `n_units` that have to answer.

        Parameters
        ----------
        n_units : int

        Returns
        -------
        int
        """
        return int(self.quorum if isinstance(self.quorum, Integral) else -(-self.quorum * n_units // 1))


class Answers(dict):
    """Messages of a round by unit; `skipped` names the units whose block rows rest in it.

    With a `rule` for lost units, ``leave_out(name, reason, error)`` says that a message cannot be used after all, and
    ``then(server, messages)`` learns what else rests on them.
    """

    skipped: frozenset[str] = frozenset()
    rule: LostUnits | None = None
    leave_out: Callable[..., Any] | None = None
    then: Callable[..., Any] | None = None
    earlier: Mapping[str, Any] = MappingProxyType({})
    packets: Mapping[str, Any] = MappingProxyType({})  # what the units were asked with

    def followed_by(self, newer):
        """These answers with newer ones in the place of theirs, which stay for units whose newer one is of no use."""
        found = Answers({**self, **newer})
        found.skipped, found.rule, found.then = self.skipped, self.rule, self.then
        found.earlier = {name: self[name] for name in newer}

        def leave_out(name, reason, error):
            tell: Any = (newer if name in newer else self).leave_out
            tell(name, reason, error)

        found.leave_out = leave_out
        return found


# The server's exchange with the units, the only code that calls a transport: all packets in one ledger.

_LOG = logging.getLogger(__name__)


class Attendance:
    """Units that answered in a fit, and whether they are enough."""

    def __init__(self, names, rule=None):
        self._names, self.rule = tuple(names), rule
        self.lost, self.dropped = [], set()
        self.timeout = None if rule is None else rule.timeout  # None where the transport knows
        self.skips = rule is not None and rule.stale == "skip"  # whether blocks rest in a round of training

    def settle(self, names):
        """The units of a plant that was learned; what was lost until then is no more counted."""
        self._names, self.dropped = names, set()

    def note(self, packets, problems, needed=None):
        """Take note of a round."""
        if not problems:
            return
        text = "\n".join(f"Client {name!r} {problem}" for name, problem in problems.items())
        if self.rule is None:
            raise ClientError(text)
        there = len(self._names) - len(self.dropped | set(problems))
        needed = self.rule.needed(len(self._names)) if needed is None else needed
        if there < needed:
            raise ClientError(f"{text}\n{there} of {len(self._names)} units are there; the quorum is {needed}.")
        for name, problem in problems.items():
            packet = packets[name]
            _LOG.warning("Without unit %r in round %d (%s): it %s", name, packet.round, packet.op, problem)
            self.lost.append((name, packet.round, packet.op, problem))


class Exchange:
    """The units of a plant as the server reaches them."""

    def __init__(
        self, transport, ledger, *, dtype="float64", lost_units=None, names=None, monitor=False, guard=None, follow=None
    ):
        for method in ("clients", "exchange", "close"):
            if not hasattr(transport, method):
                raise TypeError(
                    f"The transport is a {type(transport).__name__} without `{method}`. Give an object with the "
                    "methods of an InProcessTransport."
                )
        self._transport, self.ledger, self.dtype = transport, ledger, dtype
        self.one_way = getattr(transport, "one_way", False)
        self.names = tuple(transport.clients() if names is None else names)
        self.attendance = Attendance(self.names, lost_units)
        self._monitor, self._guard, self._follow = monitor, guard, follow
        self.messages, self.promises, self.round = {}, {}, 0
        self.lengths: tuple[int, ...] = ()
        self.expected: Any = None  # of the content of messages, where a rule for lost units has it judged
        self.then: Any = None  # what else is learned from messages, for which they have to do too
        self.timed: dict[str, StateMessage] = {}  # messages that told when their rows were taken
        self._settled = False
        if lost_units is not None:
            from .content import Expected

            self.expected = Expected()

    # -- learning --------------------------------------------------------------------------------

    def learn(self, server, inputs=False):
        """All rounds of a fit: whatever the server asks, until it has no more questions.

        Over a one-way link only the first message can be had, and no replies go back.
        """
        dialogue, answers = server.dialogue(self.names, inputs=inputs), None
        while True:
            try:
                question = dialogue.send(answers)
            except StopIteration:
                return
            _check_question(question, server)
            if self.one_way and self.round:
                if question.needed != 0:
                    raise ValueError(
                        f"{type(server).__name__} needs several rounds here, and nothing can be sent over a "
                        "one-way link. Use a LikelihoodServer with n_rounds=1."
                    )
                return
            answers = self._answered(question)

    def _answered(self, question):
        """Answers to a question of the server; to messages that it learns from, those that it can use together."""
        requests = question.requests
        request = next(iter(requests.values()))
        if self._monitor and isinstance(request, FitRequest):
            requests = {k: replace(one, monitor=True) for k, one in requests.items() if isinstance(one, FitRequest)}
        self.round += request.NEW_ROUND
        if request.NEW_STATES and self.expected is not None:
            self.expected.forget(requests)
        answers = self.ask(requests, question.answer, needed=question.needed)
        if question.answer is OrderAnswer and self.expected is not None:
            self.expected.forget(name for name, answer in answers.items() if answer.grown)
        if request.OPENS:
            self.messages = {}
            self.attendance.dropped = set(self.names) - set(answers)
        if question.answer.OF_RECORD:
            has_times = request.OPENS and any(each.clock is not None for each in answers.values())
            if has_times or (request.OPENS and len({tuple(each.lengths) for each in answers.values()}) > 1):
                answers = self._on_common_rows(requests, answers, question)
            self._accept(answers)
        return answers

    def _on_common_rows(self, requests, answers, question):
        """First messages about the rows that all units have; who cannot be put beside the others is lost."""
        from .content import common_grid, moved_from  # of units that tell times

        grid, problems = common_grid(answers)
        self._without({name: answers.packets[name] for name in problems}, problems, question.needed)
        packets = answers.packets
        answers = Answers({name: message for name, message in answers.items() if name not in problems})
        answers.packets = packets
        self.attendance.dropped = set(self.names) - set(answers)
        if grid is not None:
            _LOG.info("Rows that all units have: %s", grid.in_words())
            answers = self._cut(answers, moved_from(answers, grid), grid, question)
        self.attendance.dropped = set(self.names) - set(answers)
        if question.answer is StateMessage:
            self.timed = answers
        return answers

    def _cut(self, answers, moved, grid, question):
        """The messages with those of `moved` units cut to the rows of the grid, which these units are told."""
        if question.answer is not StateMessage:
            clocks = "; ".join(f"{name!r}: {clock.in_words()}" for name, clock in moved.items())
            raise ClientError(
                f"Units have other rows, and training by gradients cannot leave any out ({clocks}; rows that all have: "
                f"{grid.in_words()}). Cut the records to the rows that all have, or use LikelihoodServer."
            )
        requests, packets = {name: CommonRows(grid.numbers, grid.lengths) for name in moved}, answers.packets
        if not self.one_way:
            there = self.ask(requests, Acknowledgement, needed=question.needed)
            packets = {**packets, **there.packets}
            moved = {name: clock for name, clock in moved.items() if name in there}
        cut = {name: answers[name].at(clock.rows(grid), grid.lengths) for name, clock in moved.items()}
        told_clock = {"clock": grid.numbers, "grid": grid.digest}
        rest = {name: message for name, message in answers.items() if name not in requests}
        found = Answers(rest | {name: replace(message, **told_clock) for name, message in cut.items()})
        found.packets = packets
        return found

    def _accept(self, answers):
        """Take messages to learn from, some of which the server may find that it cannot use."""
        before, self.messages = self.messages, self.messages | answers
        self.lengths = tuple(int(k) for k in next(iter(answers.values())).lengths)
        if self.expected is None:
            return
        self.expected.learn(answers)
        packets = answers.packets

        def leave_out(name, reason, error):
            try:
                self._without({name: packets[name]}, {name: reason})
            except ClientError as too_few:
                raise too_few from error
            self.messages.pop(name)
            if name in before:
                self.messages[name] = before[name]
            else:
                self.attendance.dropped.add(name)

        answers.rule, answers.leave_out, answers.then = self.attendance.rule, leave_out, self.then

    def expect(self, n_states=None, n_inputs=None, lengths=()):
        """Sizes of messages that are known before they come, where their content is judged."""
        if self.expected is not None:
            self.expected = replace(
                self.expected, n_states=dict(n_states or {}), n_inputs=dict(n_inputs or {}), lengths=tuple(lengths)
            )

    def settle(self, names):
        """End learning: from here on questions go to the units of the plant, and need every one of them."""
        self.names, self._settled = tuple(names), True
        self.attendance.settle(self.names)

    # -- asking ----------------------------------------------------------------------------------

    def ask(self, requests, answer, *, needed=None):
        """Messages of the type `answer` in reply to one message to each named unit."""
        packets = self._packets(requests)
        came = self._carried(packets, self.attendance.timeout)
        needed = len(packets) if needed is None and self._settled else needed
        return self._read(packets, came, answer, needed, requests)

    def ask_those_there(self, request, answer):
        """The same for one message to every unit, without those that are late where a rule for lost units allows it."""
        requests = dict.fromkeys(self.names, request)
        packets = self._packets(requests)
        came = self._carried(packets, self.attendance.timeout)
        failed = {name: came[name] for name in packets if isinstance(came.get(name), Failure)}
        late = {name: _problem(packets[name], one, answer) for name, one in failed.items() if one.kind == "timeout"}
        if self.attendance.rule is None or not late:
            return self._read(packets, came, answer, len(packets), requests)
        self._without({name: packets[name] for name in late}, late, self.attendance.rule.needed(len(packets)), came)
        there = {name: packet for name, packet in packets.items() if name not in late}
        return self._read(there, {name: came[name] for name in there if name in came}, answer, len(there), requests)

    def ask_all(self, request, answer):
        """The same for one message to every unit."""
        return self.ask(dict.fromkeys(self.names, request), answer)

    def ask_when_there(self, request, answer, wait):
        """Messages of all units that may not have them yet, asked for again and again for `wait` seconds.

        Over a one-way link nobody is asked, and what is not there after so long is not there yet. None if
        some units have nothing to say yet.
        """
        requests = dict.fromkeys(self.names, request)
        packets = self._packets(requests)
        end, pause, waiting = time.monotonic() + wait, TUNING.exchange_pause, packets
        answers: dict[str, Packet | Failure] = {}
        while True:
            answers |= self._carried(waiting, wait if self.one_way else None)
            waiting = {name: packets[name] for name in packets if self._may_come(answers.get(name))}
            left = end - time.monotonic()
            if not waiting or self.one_way or left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, TUNING.exchange_longest_pause)
        there = {name: packet for name, packet in packets.items() if name not in waiting}
        answers = {name: one for name, one in answers.items() if name not in waiting}
        messages = self._read(there, answers, answer, len(there), requests)
        return None if waiting else messages

    def tell(self, replies):
        """One message to each named unit, which only says that it came; nothing over a one-way link."""
        if not self.one_way:
            self.ask(replies, Acknowledgement, needed=0)  # what is known is known

    def connect(self, transport):
        """Reach the same units over another transport."""
        self._transport = transport

    def __getstate__(self):
        return {**vars(self), "_transport": None}  # neither keys nor records of units go into a pickle

    def close(self):
        """Let go of the transport."""
        self._transport.close()

    # -- packets ---------------------------------------------------------------------------------

    def _packets(self, requests):
        if self._transport is None:
            raise ClientError(
                "This estimator comes from a pickle or a copy, which holds neither keys nor records of the "
                "sites. Call `connect(transport)` to reach them again."
            )
        known = self._transport.clients()
        unknown = [name for name in requests if name not in known]
        if unknown:
            raise ClientError(f"The transport does not know the clients {unknown}; it reaches {list(known)}.")
        requests = requests if self._guard is None else self._guard(requests)
        written: dict[int, Packet] = {}  # the same question to many units is written once
        for request in requests.values():
            if id(request) not in written:
                written[id(request)] = request.to_packet(self.round, self.dtype)
        return {name: written[id(request)] for name, request in requests.items()}

    def _carried(self, packets, timeout):
        """Answers of the transport, every packet in the ledger before it goes and when it came.

        An answer that could not have crossed a border is a failure of its unit.
        """
        op = next(iter(packets.values())).op if packets else "nothing"
        with nullcontext() if self._follow is None else self._follow(op):
            if not self.one_way:
                for name, packet in packets.items():
                    self.ledger.record(name, "down", packet)
            came = self._brought(packets, timeout)
            if not isinstance(came, Mapping):
                raise ClientError(
                    f"`exchange` of the {type(self._transport).__name__} gave a {type(came).__name__}; a "
                    f"transport gives a dict with an answer of each unit that was asked {op!r}."
                )
            answers = dict(came)
            for name, answer in answers.items():
                if isinstance(answer, Packet):
                    answers[name] = self._received(name, answer)
            _LOG.info("%s: %d units asked, %d answered", op, len(packets), len(answers))
        return answers

    def _brought(self, packets, timeout):
        """What the transport brings; a unit in this process that refuses its packet is one without an answer."""
        try:
            return self._transport.exchange(packets, timeout=timeout)
        except PacketError as error:
            if self.attendance.rule is None:
                raise
            if len(packets) == 1:
                return dict.fromkeys(packets, Failure("refused", str(error)))
        return {k: v for name in packets for k, v in self._brought({name: packets[name]}, timeout).items()}

    def _received(self, name, packet):
        """An answer without the promise that may ride on it."""
        try:
            self.ledger.record(name, "up", packet)
        except PacketError as error:
            return Failure("client-error", str(error))
        if not packet.scalars and "added_noise" not in packet.arrays:
            return packet
        try:
            packet, promise = PrivacyPromise.taken_off(packet)
        except PacketError as error:
            return Failure("refused", str(error))
        if promise is not None:
            self.promises[name] = promise
        return packet

    def _may_come(self, answer):
        """Whether this says that an answer may come later."""
        if isinstance(answer, Failure):
            return self.one_way and answer.kind == "timeout"
        return isinstance(answer, Packet) and answer.op == NOTHING

    def _read(self, packets, answers, kind, needed, requests):
        """Messages in the answers to packets; who gave none is noted, and too few are an error."""
        unasked = [name for name in answers if name not in packets]
        if unasked:
            raise ClientError("\n".join(f"Client {name!r} answered without being asked." for name in unasked))
        messages, problems, cause = Answers(), {}, None
        for name, packet in packets.items():
            answer = answers.get(name)
            problem = _problem(packet, answer, kind)
            if problem is None:
                try:
                    messages[name] = kind.from_packet(answer)
                except PacketError as error:
                    cause, problem = error, f"sent a message that cannot be used. {error}"
            if problem is not None:
                problems[name] = problem
        if self.expected is not None:
            from .content import unusable

            found = unusable(messages, requests, self.expected, self.attendance.rule)
            problems |= found
            messages = Answers({name: message for name, message in messages.items() if name not in found})
        messages.packets = packets
        try:
            self._without(packets, problems, needed, answers)
        except ClientError as error:
            raise error from cause
        if self.attendance.skips:
            messages.skipped = frozenset(packets.keys() - messages.keys())
        return messages

    def _without(self, packets, problems, needed=None, answers=None):
        """Go on without answers; the transport does not remember as answers those that came and cannot be used."""
        forget: Any = getattr(self._transport, "forget", None)
        for name, problem in problems.items() if forget is not None else ():
            if answers is None or isinstance(answers.get(name), Packet):
                forget(name, packets[name], problem)
        self.attendance.note(packets, problems, needed)


def _check_question(question, server):
    """Refuse what a server of the user's own asks with, if it is no question."""
    who = f"`dialogue` of {type(server).__name__}"
    if not isinstance(question, Ask):
        raise TypeError(f"{who} asked with a {type(question).__name__}; yield an Ask.")
    for name, one in question.requests.items():
        if not isinstance(one, Message):
            raise TypeError(f"{who} has a {type(one).__name__} for unit {name!r}; give a message.")


def _problem(packet, answer, kind):
    """Problem with an answer, or None."""
    if answer is None:
        return "gave no answer."
    if isinstance(answer, Failure):
        return f"gave no answer: {answer.kind} {answer.detail}".rstrip()
    if not isinstance(answer, Packet):
        return f"answered with a {type(answer).__name__} instead of a packet."
    if answer.op != kind.OP:
        expected = "an acknowledgement" if kind is Acknowledgement else "a message"
        return f"answered with {answer.op!r} instead of {expected}."
    if answer.round != packet.round:
        return f"answered to round {answer.round} when asked in round {packet.round}."
    if kind is Acknowledgement and (answer.arrays or answer.scalars):
        return "sent data with its acknowledgement."
    return None


# How an estimator reaches its units, as one object.


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Communication(ParameterGroup):
    """What carries the messages of a fit, how precisely, how many bytes, and what is done about units that are lost.

    Parameters
    ----------
    transport : callable, default=None
        Called with a dict of the units' workers by name, returns what carries the packets: an object with
        the methods ``clients()``, ``exchange(packets, timeout=)`` and ``close()``. None keeps everything
        in this process.
    wire_dtype : {"float64", "float32", "float16"}, default="float64"
        Precision of the series in the messages; inputs travel in single precision at least.
    lost_units : LostUnits, default=None
        What the fit does about units that do not answer, see
        :class:`~skfedcausal.federation.LostUnits`. None: every unit has to answer.
    max_bytes : int, default=None
        Most bytes that may leave all units together, in `fit` and when the estimator is asked about records
        afterwards (streams aside): what would exceed it is not sent, and a
        :class:`~skfedcausal.federation.ByteLimitError` says so. Sites of their own have limits of their own.

    Examples
    --------
    >>> from skfedcausal import Communication, FederatedGrangerEstimator
    >>> est = FederatedGrangerEstimator(communication=Communication(wire_dtype="float32"))
    >>> est.set_params(communication__max_bytes=10**6).communication
    Communication(max_bytes=1000000, wire_dtype='float32')
    """

    transport: Callable | None = None
    wire_dtype: str = "float64"
    lost_units: LostUnits | None = None
    max_bytes: int | None = None

    _parameter_constraints = {
        "transport": [callable, None],
        "wire_dtype": [StrOptions(set(WIRE_DTYPES))],
        "lost_units": [LostUnits, None],
        "max_bytes": [Interval(Integral, 0, None, closed="left"), None],
    }


# The seam between the estimators and whatever carries packets to the clients.

_WORTH = 0.3  # seconds of work from which on it is handed over to threads
_WORTH_PROCESSES = 5.0  # to processes, which take seconds to start and to be sent what is measured
_TRIED = 8  # workers whose answers say what those of others take, where a fit has processes at hand
_listening = Lock()


class Worker(Protocol):
    """A client's side. It owns its private data and knows no engine.

    State goes in and comes out as a flat dict whose values pickle. It never leaves the site: whatever runs
    the worker there keeps it between packets (in memory, or in a store of the run for engines that start a
    process per message), and nothing else survives in the worker. The same packet with the state from
    before it gives the same answer, and so does a packet that comes twice in a row.

    Examples
    --------
    A worker that counts what it was asked:

    >>> from skfedcausal.federation import Packet
    >>> class Counter:
    ...     def handle(self, packet, state):
    ...         n = state.get("n", 0) + 1
    ...         return Packet("count", scalars={"n": n}), {"n": n}
    >>> answer, state = Counter().handle(Packet("hello"), {})
    >>> Counter().handle(Packet("hello"), state)[0].scalars["n"]
    2
    """

    def handle(self, packet: Packet, state: dict[str, Any]) -> tuple[Packet, dict[str, Any]]:
        """Answer one packet.

        Parameters
        ----------
        packet : Packet
        state : dict
            What an earlier answer left.

        Returns
        -------
        answer : Packet
        state : dict
            To be given with the next packet.
        """


class Site:
    """A worker together with what it keeps between packets, where one process holds both.

    A site is a worker itself: whoever lets it handle a packet leaves the new state here, where the one who
    made the site finds it. A transport that lets a copy answer in another process sets `state` itself.
    """

    def __init__(self, worker, state=None):
        self.worker = worker
        self.state = self._first = {} if state is None else state

    def handle(self, packet, state):
        """Let the worker answer one packet and remember the state it is in then."""
        answer, self.state = self.worker.handle(packet, state or self._first)
        return answer, self.state


@runtime_checkable
class Transport(Protocol):
    """The server's side: all that estimators see of the clients.

    See Also
    --------
    skfedcausal.testing.check_transport : Whether a callable makes transports.

    Examples
    --------
    Any object with these three methods is one, such as :class:`InProcessTransport`:

    >>> from skfedcausal.federation import InProcessTransport
    >>> InProcessTransport({}).clients()
    ()
    """

    def clients(self) -> tuple[str, ...]:
        """Names of the clients, always in the same order.

        Returns
        -------
        tuple of str
        """

    def exchange(self, out: Mapping[str, Packet], *, timeout: float | None = None) -> dict[str, Packet | Failure]:
        """Send one packet to each named client and collect the answers.

        A client that does not answer within `timeout` seconds (None: the transport's own limit) is a
        :class:`~skfedcausal.federation.Failure` in the result, never an exception.

        Parameters
        ----------
        out : dict of str to Packet
        timeout : float, default=None
            Seconds.

        Returns
        -------
        dict of str to Packet or Failure
        """

    def close(self) -> None:
        """Let go of whatever the transport holds."""


class InProcessTransport:
    """Clients living in the server's process.

    Parameters
    ----------
    workers : dict of str to Worker
        Where all of them have an attribute ``n_columns`` that is small, linear algebra keeps to one thread.
    n_jobs : int, default=None
        Clients handled at the same time, as in joblib; None handles one after the other, unless a
        ``joblib.parallel_config`` says otherwise.
    backend : str, default=None
        Joblib backend. None takes that of ``joblib.parallel_config`` ("loky", "dask", "ray"), and threads
        without one. With a process backend workers and state travel by joblib's own means, which is meant
        for one machine or one cluster under one administration.

    Notes
    -----
    Programming errors in a worker are raised, not turned into a :class:`~skfedcausal.federation.Failure`:
    there is no border here that an exception's text could leak across.

    Examples
    --------
    >>> from skfedcausal.federation import InProcessTransport, Packet
    >>> class Echo:
    ...     def handle(self, packet, state):
    ...         return Packet("echo", scalars={"heard": packet.op}), state
    >>> transport = InProcessTransport({"boiler": Echo()})
    >>> transport.exchange({"boiler": Packet("hello")})["boiler"].scalars["heard"]
    'hello'
    """

    def __init__(self, workers, n_jobs=None, backend=None):
        self._sites = {name: worker if isinstance(worker, Site) else Site(worker) for name, worker in workers.items()}
        self._n_jobs = n_jobs
        self._backend = backend

    def clients(self) -> tuple[str, ...]:
        """Names of the clients, in the order they were given.

        Returns
        -------
        tuple of str
        """
        return tuple(self._sites)

    def state(self, name: str) -> dict[str, Any]:
        """State that a client keeps between packets.

        Parameters
        ----------
        name : str

        Returns
        -------
        dict
        """
        return self._sites[name].state

    def exchange(self, out: Mapping[str, Packet], *, timeout: Any = None) -> dict[str, Packet]:
        """Let every named worker answer its packet.

        Parameters
        ----------
        out : dict of str to Packet
        timeout : ignored
            Nothing is waited for in one process.

        Returns
        -------
        dict of str to Packet
        """
        del timeout  # nothing can be late inside one process
        sites = [self._sites[name] for name in out]
        quick = bool(sites) and all(getattr(site.worker, "is_quick", False) for site in sites)
        pairs = list(zip(sites, out.values(), strict=True))
        results = [one.worker.handle(packet, one.state) for one, packet in pairs] if quick else self._with_care(pairs)
        for site, (_, state) in zip(sites, results, strict=True):  # once all of them have answered
            site.state = state
        return {name: answer for name, (answer, _) in zip(out, results, strict=True)}

    def _with_care(self, pairs):
        """Results of workers on their packets, with as many threads and processes as are of use."""
        widest = max((getattr(site.worker, "n_columns", np.inf) for site, _ in pairs), default=0)
        with few_threads(widest):
            n_jobs = effective_n_jobs(self._n_jobs)
            processes = self._processes([site for site, _ in pairs]) if n_jobs > 1 else None
            results: list = []
            began = time.monotonic()
            for site, packet in pairs:
                if n_jobs > 1 and self._are_worth_help(len(results), len(pairs), began, processes):
                    break
                results.append(site.worker.handle(packet, site.state))
            left = pairs[len(results) :]
            if not left:
                return results
            return results + (self._by_several(left, n_jobs) if processes is None else _by(processes, left, widest))

    def _processes(self, sites):
        """Processes on this machine that a fit of many units has at hand anyway, for workers that may go there."""
        if self._backend is not None:
            return None
        from ..parallel import open_workers  # of plants of many units

        processes = open_workers()
        if processes is None or not processes.sender.is_here:
            return None
        return processes if all(getattr(site.worker, "may_go_elsewhere", False) for site in sites) else None

    def _are_worth_help(self, n_done, n_workers, began, processes):
        """Whether those that are left take so long that handing them over pays, which costs as much as many answers."""
        if self._backend is not None:
            return True  # the user has said who is to help
        is_near = isinstance(get_active_backend(prefer="threads")[0], ThreadingBackend)
        worth = _WORTH if is_near or processes is not None else _WORTH_PROCESSES
        least = 1 if processes is None else _TRIED
        return n_done >= least and (time.monotonic() - began) / n_done * (n_workers - n_done) > worth

    def _by_several(self, pairs, n_jobs):
        """Results of workers on their packets, as many at a time as there are jobs."""
        # what a batch costs to hand over hardly depends on the clients in it
        share = math.ceil(len(pairs) / (2 * n_jobs))
        how = {"prefer": "threads"} if self._backend is None else {"backend": self._backend}
        run = Parallel(self._n_jobs, **how, batch_size=share, pre_dispatch="all")
        return run(delayed(site.worker.handle)(packet, site.state) for site, packet in pairs)

    def close(self) -> None:
        """Drop the workers."""
        self._sites = {}


def _by(processes, pairs, widest):
    """Results of workers on their packets, in processes that are there, a little of their records at a time."""
    from ..parallel import run

    largest = max(site.worker.n_bytes for site, _ in pairs)
    tasks = [(widest, site.worker, packet, site.state) for site, packet in pairs]
    return _warned(run(handled, tasks, processes, most=max(1, TUNING.transport_bytes // largest)))


def _warned(results):
    """Answers and states, of which everything is said that workers warned of."""
    for message, category in (said for _, _, caught in results for said in caught):
        warn(message, category)
    return [(answer, state) for answer, state, _ in results]


def handled(widest, worker, packet, state):
    """A worker's answer, its state after it, and what it warns of, wherever that is to be heard."""
    with few_threads(widest), _listening, warnings.catch_warnings(record=True) as caught:  # which all threads share
        warnings.simplefilter("always")
        answer, state = worker.handle(packet, state)
    return answer, state, [(each.message, each.category) for each in caught]
