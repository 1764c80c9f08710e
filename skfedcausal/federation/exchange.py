"""The server's exchange with the units, the only code that calls a transport: all packets in one ledger."""

import logging
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from ..message.packet import NOTHING, Failure, Packet, PacketError
from ..message.promise import PrivacyPromise
from ..message.requests import Acknowledgement, Ask, CommonRows, FitRequest, OrderAnswer
from ..message.schema import Message
from ..message.states import StateMessage
from .lost import Answers, ClientError
from .tuning import TUNING

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
        from .alignment import common_grid, moved_from  # of units that tell times

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
