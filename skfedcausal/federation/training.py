"""The rounds of gradient training over a transport."""

from ..training_message import FINISH, REQUEST, TO_SERVER
from .packet import Failure, Packet, PacketError
from .rounds import ClientError


def train_plant(channel, server, names, *, dtype="float64", inputs=False, pool=None):
    """All rounds of training: local models up, then replies down and messages up until the server is done.

    Parameters
    ----------
    channel : Transport
    server : GradientServer
        Trained here.
    names : sequence of str
        Clients of the plant, in the order of its matrices.
    dtype : str, default="float64"
        Precision of series on the wire.
    inputs : bool, default=False
        Whether the plant has inputs: corrections then have a constant.
    pool : callable, default=None
        Takes replies and gives messages in place of the channel, for training without a message.

    Raises
    ------
    ClientError
        If a client failed or sent something that is not a message of training.
    """
    request = Packet(REQUEST, 1, scalars={**server.request, "constant": inputs, "dtype": dtype})
    models = _ask(channel, dict.fromkeys(names, request))
    dialogue = server.dialogue(models)
    replies, round = next(dialogue), 1
    while replies is not None:
        if pool is None:
            packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
            messages = _ask(channel, packets)
        else:
            messages = pool(replies)
        round += 1
        try:
            replies = dialogue.send(messages)
        except StopIteration:
            replies = None
    _ask(channel, dict.fromkeys(names, Packet(FINISH, round)))


def _ask(channel, packets):
    """Messages in the answers of the clients; nothing where a client only says that it is done."""
    answers = channel.exchange(packets)
    return {name: _message(name, answers[name]) for name in packets}


def _message(name, answer):
    if isinstance(answer, Failure):
        raise ClientError(f"Client {name!r} gave no message: {answer.kind} {answer.detail}".rstrip())
    if answer.op == "done":
        return None
    if answer.op not in TO_SERVER:
        raise ClientError(f"Client {name!r} answered with {answer.op!r} instead of a message of training.")
    try:
        return TO_SERVER[answer.op].from_packet(answer)
    except PacketError as error:
        raise ClientError(f"Client {name!r} sent a message that cannot be used. {error}") from error
