"""The rounds that estimators run over a transport."""

from ..message import StateMessage
from .packet import Failure, Packet, PacketError


class ClientError(RuntimeError):
    """A client did not answer, or not as it should have."""


def collect_messages(channel, *, dtype="float64", const=False, local_model=False, round=1):
    """Ask every client for its message.

    Parameters
    ----------
    channel : Transport
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
    scalars = {"dtype": dtype, "const": const, "local_model": local_model}
    request = Packet("fit", round, scalars=scalars)
    answers = channel.exchange(dict.fromkeys(channel.clients(), request))
    return {name: _message(name, answer) for name, answer in answers.items()}


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
    packets = {}
    for name, reply in replies.items():
        packet = reply.to_packet(round, dtype)
        packets[name] = Packet(packet.op, round, packet.arrays, wishes)
    answers = channel.exchange(packets)
    return {name: _message(name, answer) for name, answer in answers.items()}


def _message(name, answer):
    if isinstance(answer, Failure):
        raise ClientError(f"Client {name!r} gave no message: {answer.kind} {answer.detail}".rstrip())
    if answer.op != StateMessage.OP:
        raise ClientError(f"Client {name!r} answered with {answer.op!r} instead of a message.")
    try:
        return StateMessage.from_packet(answer)
    except PacketError as error:
        raise ClientError(f"Client {name!r} sent a message that cannot be used. {error}") from error


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
    packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
    for name, answer in channel.exchange(packets).items():
        if isinstance(answer, Failure):
            raise ClientError(f"Client {name!r} did not take its reply: {answer.kind} {answer.detail}")
