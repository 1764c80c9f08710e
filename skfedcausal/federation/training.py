"""The rounds of gradient training over a transport."""

from ..message import ACKNOWLEDGEMENT
from ..training_message import ANSWERS, FINISH, REQUEST, LocalModel
from .lost import Answers, Attendance
from .packet import Packet
from .rounds import ask, messages_of


def train_plant(channel, server, names, *, dtype="float64", inputs=False, pool=None, attendance=None):
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
    attendance : Attendance, default=None
        Takes note of who is lost; None: all have to answer.

    Raises
    ------
    ClientError
        If a client that is needed failed or sent something that is not a message of training.

    Notes
    -----
    A unit that is lost before its first message of training is left out, and training starts with the others.
    One that is lost later is held at its last message, from which it goes on when it is back: it did not move
    in between. Training step by step needs every unit at every step.
    """
    attendance = Attendance(names) if attendance is None else attendance
    told = {**server.request, "constant": inputs, "dtype": dtype}
    asked = dict.fromkeys(names, Packet(REQUEST, 1, scalars=told))
    models = messages_of(channel, asked, LocalModel, attendance)
    round = 1
    while True:
        attendance.drop_all_but(models)
        dialogue = server.dialogue(models)
        replies, round = next(dialogue), round + 1
        mode = next(iter(replies.values())).mode
        if pool is not None:
            messages = pool(replies)
            break
        messages = _told(channel, replies, mode, round, dtype, attendance)
        if len(messages) == len(models):
            break
        dialogue.close()
        models = {name: models[name] for name in messages}
    while True:
        try:
            replies = dialogue.send(messages)
        except StopIteration:
            break
        round += 1
        if pool is not None:
            messages = pool(replies)
            continue
        rule = attendance if mode != "steps" else None
        came = _told(channel, replies, mode, round, dtype, rule)
        messages = Answers(messages | came)
        if attendance.rule is not None and attendance.rule.stale == "skip":
            messages.skipped = frozenset(messages.keys() - came.keys())
    finish = dict.fromkeys(models, Packet(FINISH, round))
    ask(channel, finish, ACKNOWLEDGEMENT, attendance, needed=0)


def _told(channel, replies, mode, round, dtype, attendance):
    """What the units answer to the server's replies."""
    packets = {name: reply.to_packet(round, dtype) for name, reply in replies.items()}
    return messages_of(channel, packets, ANSWERS[mode], attendance)
