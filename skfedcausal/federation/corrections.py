"""The rounds in which units train nonlinear corrections of their models, over a transport."""

from ..message.packet import Packet
from ..message.states import ACKNOWLEDGEMENT
from ..message.training import FINISH, PredictedStates
from .lost import Attendance
from .rounds import ask, collect_messages, messages_of


def train_corrections(channel, server, names, *, dtype="float64", pool=None, attendance=None, look=None):
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
    attendance : Attendance, default=None
        Takes note of who is lost before training; in training every unit is needed.
    look : callable, default=None
        Called with the units' first messages.

    Raises
    ------
    ClientError
        If a client failed or sent something that is not a message of training.
    """
    if pool is not None:
        raise ValueError("Corrections trained at the units have no pooled form; use labels='next'.")
    attendance = Attendance(names) if attendance is None else attendance
    messages = collect_messages(channel, names, dtype=dtype, attendance=attendance)
    attendance.drop_all_but(messages)
    messages = messages if look is None else look(messages)
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
    ask(channel, dict.fromkeys(messages, Packet(FINISH, round + 1)), ACKNOWLEDGEMENT)
