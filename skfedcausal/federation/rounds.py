"""The rounds that estimators run over a transport."""

import time

from ..message.packet import NOTHING, Failure, Packet, PacketError
from ..message.states import ACKNOWLEDGEMENT, LAW_REQUEST, REQUEST, FeedbackLaw, StateMessage
from .lost import Attendance, ClientError

_PAUSE, _LONGEST_PAUSE = 0.1, 30.0  # seconds before clients that had nothing to say are asked again


def learn_plant(channel, server, names, *, dtype="float64", pool=None, attendance=None, replies=True):
    """All rounds of a fit: messages up, the server's estimate, replies down."""
    attendance = Attendance(names) if attendance is None else attendance
    wishes = {"dtype": dtype, "local_model": server.needs_local_model}
    n_rounds = getattr(server, "n_rounds", 1)
    for round in range(1, n_rounds + 1):
        if round == 1:
            messages = collect_messages(channel, names, **wishes, attendance=attendance)
            attendance.drop_all_but(messages)
        else:
            smoothed = server.smoothed(messages)
            messages = messages | refine_messages(
                channel, smoothed, **wishes, round=round, attendance=attendance
            )
        messages = messages if pool is None else pool(messages)
        server.fit(messages)
    if not replies:
        return
    controlled = getattr(server, "controlled_units_", ())
    if controlled:
        laws = collect_laws(channel, controlled, round=n_rounds, attendance=attendance)
        server.take_laws(laws)
    deliver_replies(channel, server.replies(messages), dtype=dtype, round=n_rounds, attendance=attendance)


def collect_messages(
    channel, names=None, *, dtype="float64", const=False, local_model=False, round=1, attendance=None
):
    """Ask every client for its message."""
    request = Packet(REQUEST, round, scalars={"dtype": dtype, "const": const, "local_model": local_model})
    asked = channel.clients() if names is None else names
    return messages_of(channel, dict.fromkeys(asked, request), StateMessage, attendance)


def refine_messages(channel, replies, *, dtype="float64", local_model=False, round, attendance=None):
    """Give every client its smoothed states and collect the messages it sends then."""
    wishes = {"dtype": dtype, "const": False, "local_model": local_model}
    packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
    packets = {name: Packet(p.op, p.round, p.arrays, wishes) for name, p in packets.items()}
    return messages_of(channel, packets, StateMessage, attendance)


def collect_laws(channel, names, *, round, attendance=None):
    """Ask units how their inputs follow their measurements."""
    request = Packet(LAW_REQUEST, round)
    return messages_of(channel, dict.fromkeys(names, request), FeedbackLaw, attendance)


def deliver_replies(channel, replies, *, dtype="float64", round=1, attendance=None):
    """Send every client its reply."""
    packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
    ask(channel, packets, ACKNOWLEDGEMENT, attendance, needed=0)  # what was learned is learned


def messages_of(channel, packets, kind, attendance=None):
    """Messages of one kind in the answers of the clients."""
    return ask(channel, packets, kind.OP, attendance, kind.from_packet)


def ask(channel, packets, op, attendance=None, read=lambda packet: packet, *, needed=None):
    """Clients' answers to their packets, in the order of `packets`; those that count are of the kind `op`."""
    attendance = Attendance(packets) if attendance is None else attendance
    known = channel.clients()
    unknown = [name for name in packets if name not in known]
    if unknown:
        raise ClientError(f"The transport does not know the clients {unknown}; it reaches {list(known)}.")
    return _read(packets, channel.exchange(packets, timeout=attendance.timeout), op, attendance, read, needed)


def ask_until_there(channel, packets, kind, wait):
    """Ask for messages that clients may not have yet, again and again for `wait` seconds.

    Over a one-way link nobody is asked, and what is not there after so long is not there yet.
    """
    end, pause, answers, open_ = time.monotonic() + wait, _PAUSE, {}, dict(packets)
    while True:
        answers |= channel.exchange(open_, timeout=wait if channel.one_way else None)
        open_ = {name: packet for name, packet in packets.items() if _may_come(answers.get(name), channel)}
        left = end - time.monotonic()
        if not open_ or channel.one_way or left <= 0:
            break
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
    there = {name: packet for name, packet in packets.items() if name not in open_}
    answers = {name: answer for name, answer in answers.items() if name not in open_}
    messages = _read(there, answers, kind.OP, Attendance(packets), kind.from_packet)
    return None if open_ else messages


def _may_come(answer, channel):
    """Whether this says that an answer may come later."""
    if isinstance(answer, Failure):
        return channel.one_way and answer.kind == "timeout"
    return isinstance(answer, Packet) and answer.op == NOTHING


def _read(packets, answers, op, attendance, read, needed=None):
    """Messages in the answers to packets."""
    unasked = [name for name in answers if name not in packets]
    if unasked:
        raise ClientError("\n".join(f"Client {name!r} answered without being asked." for name in unasked))
    messages, problems, cause = {}, {}, None
    for name, packet in packets.items():
        problem = _problem(packet, answers.get(name), op)
        if problem is None:
            try:
                messages[name] = read(answers[name])
            except PacketError as error:
                cause = error
                problem = f"sent a message that cannot be used. {error}"
        if problem is not None:
            problems[name] = problem
    try:
        attendance.note(packets, problems, needed)
    except ClientError as error:
        raise error from cause
    return messages


def _problem(packet, answer, op):
    """What is wrong with an answer, or nothing."""
    if answer is None:
        return "gave no answer."
    if isinstance(answer, Failure):
        return f"gave no answer: {answer.kind} {answer.detail}".rstrip()
    if not isinstance(answer, Packet):
        return f"answered with a {type(answer).__name__} instead of a packet."
    if answer.op != op:
        expected = "an acknowledgement" if op == ACKNOWLEDGEMENT else "a message"
        return f"answered with {answer.op!r} instead of {expected}."
    if answer.round != packet.round:
        return f"answered to round {answer.round} when asked in round {packet.round}."
    if op == ACKNOWLEDGEMENT and (answer.arrays or answer.scalars):
        return "sent data with its acknowledgement."
    return None
