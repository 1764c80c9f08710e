"""The rounds of gradient training over a transport."""

from ..message.states import ACKNOWLEDGEMENT
from .lost import Answers, Attendance
from .rounds import ask, messages_of


def train_plant(
    channel,
    server,
    names,
    *,
    dtype="float64",
    inputs=False,
    pool=None,
    guard=None,
    attendance=None,
    look=None,
):
    """All rounds of training: whatever the server's dialogue asks is exchanged until it is done.

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
    attendance : Attendance, default=None
        Takes note of who is lost; None: all have to answer.
    look : callable, default=None
        Called with the local models that training begins with.

    Raises
    ------
    ClientError
        If a client that is needed failed or sent something that is not a message of training.
    """
    attendance = Attendance(names) if attendance is None else attendance
    dialogue = server.dialogue(names, inputs)
    asked, round = next(dialogue), 0
    while asked.answer is not None:
        round += 1
        requests = asked.requests
        first = getattr(next(iter(requests.values()), None), "OPENS", False)
        if guard is not None and not first:
            requests = guard(requests)
        if pool is not None and not first:
            came = Answers(pool(requests))
        else:
            packets = {name: request.to_packet(round, dtype) for name, request in requests.items()}
            came = Answers(messages_of(channel, packets, asked.answer, None if asked.needed else attendance))
        if first:
            attendance.drop_all_but(came)
            if look is not None:
                look(came)
        elif attendance.rule is not None and attendance.rule.stale == "skip":
            came.skipped = frozenset(requests.keys() - came.keys())
        asked = dialogue.send(came)
    ends = {name: end.to_packet(round) for name, end in asked.requests.items()}
    ask(channel, ends, ACKNOWLEDGEMENT, attendance, needed=0)
