"""The rounds of gradient training over a transport."""

from ..message import ACKNOWLEDGEMENT
from ..network_message import FINISH as NETWORKS_TRAINED
from ..network_message import PredictedStates
from ..training_message import ANSWERS, REQUEST, LocalModel, later_answer
from .packet import Packet
from .rounds import ask, collect_messages, messages_of


def train_plant(channel, server, names, *, dtype="float64", inputs=False, pool=None, guard=None):
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
    guard : callable, default=None
        Makes of the server's replies those that leave it.

    Raises
    ------
    ClientError
        If a client failed or sent something that is not a message of training.
    """
    told = {**server.request(), "constant": inputs, "dtype": dtype}
    models = messages_of(channel, dict.fromkeys(names, Packet(REQUEST, 1, scalars=told)), LocalModel)
    dialogue = server.dialogue(models)
    replies, round = next(dialogue), 1
    mode = next(iter(replies.values())).mode
    expected = ANSWERS[mode]
    while replies is not None:
        round += 1
        replies = replies if guard is None else guard(replies)
        if pool is None:
            packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
            messages = messages_of(channel, packets, expected)
        else:
            messages = pool(replies)
        try:
            replies = dialogue.send(messages)
        except StopIteration:
            replies = None
        expected = later_answer(mode, inputs)
    ask(channel, {name: end.to_packet(round) for name, end in server.end().items()}, ACKNOWLEDGEMENT)


def train_corrections(channel, server, names, *, dtype="float64", pool=None):
    """The rounds of Algorithm 1 of the third paper: one message per unit, then batches until all are trained.

    Parameters
    ----------
    channel : Transport
    server : RegressorServer
        Trained here.
    names : sequence of str
    dtype : str, default="float64"
        Precision of series on the wire.
    pool : None
        A correction that is trained at a unit has no pooled form.

    Raises
    ------
    ClientError
        If a client failed or sent something that is not a message of training.
    """
    if pool is not None:
        raise ValueError("Corrections trained at the units have no pooled form; use labels='next'.")
    messages = collect_messages(channel, names, dtype=dtype)
    server.fit(messages)
    dialogue = server.corrections(messages)
    replies, round = next(dialogue), 1
    while replies is not None:
        round += 1
        packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
        try:
            replies = dialogue.send(messages_of(channel, packets, PredictedStates))
        except StopIteration:
            replies = None
    ask(channel, dict.fromkeys(names, Packet(NETWORKS_TRAINED, round + 1)), ACKNOWLEDGEMENT)
