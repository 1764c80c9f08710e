"""The rounds that estimators run over a transport."""

from ..message import ACKNOWLEDGEMENT, LAW_REQUEST, REQUEST, FeedbackLaw, StateMessage
from .packet import Failure, Packet, PacketError


class ClientError(RuntimeError):
    """A client did not answer, or not as it should have."""


def learn_plant(channel, server, names, *, dtype="float64", pool=None):
    """All rounds of a fit: messages up, the server's estimate, replies down.

    Parameters
    ----------
    channel : Transport
    server : LikelihoodServer or similar
        Fitted here.
    names : sequence of str
        Clients of the plant, in the order of its matrices.
    dtype : str, default="float64"
        Precision of series on the wire.
    pool : callable, default=None
        Makes of the messages of a round those that the server gets to see in their place, for a server
        that knows more than the messages.

    Raises
    ------
    ClientError
        If a client failed or sent something that is not a message.
    """
    wishes = {"dtype": dtype, "local_model": server.needs_local_model}
    n_rounds = getattr(server, "n_rounds", 1)
    for round in range(1, n_rounds + 1):
        if round == 1:
            messages = collect_messages(channel, names, **wishes)
        else:
            messages = refine_messages(channel, server.smoothed(messages), **wishes, round=round)
        messages = messages if pool is None else pool(messages)
        server.fit(messages)
    controlled = getattr(server, "controlled_units_", ())
    if controlled:
        server.take_laws(collect_laws(channel, controlled, round=n_rounds))
    deliver_replies(channel, server.replies(messages), dtype=dtype, round=n_rounds)


def collect_messages(channel, names=None, *, dtype="float64", const=False, local_model=False, round=1):
    """Ask every client for its message.

    Parameters
    ----------
    channel : Transport
    names : sequence of str, default=None
        Clients to ask; None asks all.
    dtype : str
        Precision of the series on the wire.
    const : bool
        Ask for the constants that likelihood values need.
    local_model : bool
        Ask for the units' own transition matrices.
    round : int

    Returns
    -------
    dict of str to StateMessage

    Raises
    ------
    ClientError
        If a client failed or sent something that is not a message.
    """
    request = Packet(REQUEST, round, scalars={"dtype": dtype, "const": const, "local_model": local_model})
    asked = channel.clients() if names is None else names
    return messages_of(channel, dict.fromkeys(asked, request), StateMessage)


def refine_messages(channel, replies, *, dtype="float64", local_model=False, round):
    """Give every client its smoothed states and collect the messages it sends then.

    Parameters
    ----------
    channel : Transport
    replies : dict of str to SmoothedReply
    dtype : str
    local_model : bool
    round : int

    Returns
    -------
    dict of str to StateMessage
    """
    wishes = {"dtype": dtype, "const": False, "local_model": local_model}
    packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
    packets = {name: Packet(p.op, p.round, p.arrays, wishes) for name, p in packets.items()}
    return messages_of(channel, packets, StateMessage)


def collect_laws(channel, names, *, round):
    """Ask units how their inputs follow their measurements.

    Parameters
    ----------
    channel : Transport
    names : sequence of str
    round : int

    Returns
    -------
    dict of str to FeedbackLaw
    """
    request = Packet(LAW_REQUEST, round)
    return messages_of(channel, dict.fromkeys(names, request), FeedbackLaw)


def deliver_replies(channel, replies, *, dtype="float64", round=1):
    """Send every client its reply.

    Parameters
    ----------
    channel : Transport
    replies : dict of str to StateReply
    dtype : str
    round : int

    Raises
    ------
    ClientError
        If a client did not take its reply.
    """
    ask(channel, {name: reply.to_packet(round, dtype) for name, reply in replies.items()}, ACKNOWLEDGEMENT)


def messages_of(channel, packets, kind):
    """Messages of one kind in the answers of all clients.

    Parameters
    ----------
    channel : Transport
    packets : dict of str to Packet
    kind : type
        With an operation ``OP`` and a method ``from_packet``.

    Returns
    -------
    dict of str to message

    Raises
    ------
    ClientError
        If a client failed or answered with something else.
    """
    messages = {}
    for name, answer in ask(channel, packets, kind.OP).items():
        try:
            messages[name] = kind.from_packet(answer)
        except PacketError as error:
            raise ClientError(f"Client {name!r} sent a message that cannot be used. {error}") from error
    return messages


def ask(channel, packets, op):
    """Every client's answer to its packet, in the order of `packets`; all must be of the kind `op`."""
    known = channel.clients()
    unknown = [name for name in packets if name not in known]
    if unknown:
        raise ClientError(f"The transport does not know the clients {unknown}; it reaches {list(known)}.")
    answers = channel.exchange(packets, timeout=None)
    problems = [f"Client {name!r} answered without being asked." for name in answers if name not in packets]
    for name, packet in packets.items():
        problem = _problem(packet, answers.get(name), op)
        if problem:
            problems.append(f"Client {name!r} {problem}")
    if problems:
        raise ClientError("\n".join(problems))
    return {name: answers[name] for name in packets}


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
