"""The rounds of gradient training over a transport."""

from ..message.packet import Packet
from ..message.states import ACKNOWLEDGEMENT
from ..message.training import ANSWERS, REQUEST, LocalModel, later_answer
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
    """All rounds of training: local models up, then replies down and messages up until the server is done.

    A unit that is lost before it has said all that training starts with is left out, and the others start
    again. One that is lost later is held at its last message, from which it goes on when it is back. Training
    step by step needs every unit at every step.
    """
    attendance = Attendance(names) if attendance is None else attendance
    going, round = tuple(names), 0
    while True:
        round += 1
        told = {**server.request(), "constant": inputs, "dtype": dtype}
        asked = dict.fromkeys(going, Packet(REQUEST, round, scalars=told))
        models = messages_of(channel, asked, LocalModel, attendance)
        attendance.drop_all_but(models)
        if look is not None:
            look(models)
        rounds = _Rounds(channel, dtype, inputs, pool, guard, attendance, round)
        going = rounds.run(server.dialogue(models))
        round = rounds.round
        if going is None:
            break
    ends = {name: end.to_packet(round) for name, end in server.end().items()}
    ask(channel, ends, ACKNOWLEDGEMENT, attendance, needed=0)


class _Rounds:
    """Rounds of one training, from the plan on."""

    def __init__(self, channel, dtype, inputs, pool, guard, attendance, round):
        self._channel, self._dtype, self._inputs, self._pool = channel, dtype, inputs, pool
        self._guard, self._attendance, self.round = guard, attendance, round

    def run(self, dialogue):
        """Train; None when it is done, else the units that can start again."""
        replies, held = next(dialogue), {}
        mode = next(iter(replies.values())).mode
        expected = ANSWERS[mode]
        while True:
            self.round += 1
            came = self._answers(replies, expected, mode)
            held = {name: message for name, message in held.items() if isinstance(message, expected)} | came
            if len(held) < len(replies):
                dialogue.close()
                return tuple(name for name in replies if name in held)
            messages = Answers({name: held[name] for name in replies})
            if self._attendance.rule is not None and self._attendance.rule.stale == "skip":
                messages.skipped = frozenset(replies.keys() - came.keys())
            try:
                replies = dialogue.send(messages)
            except StopIteration:
                return None
            expected = later_answer(mode, self._inputs)

    def _answers(self, replies, expected, mode):
        replies = replies if self._guard is None else self._guard(replies)
        if self._pool is not None:
            return self._pool(replies)
        packets = {name: reply.to_packet(self.round, self._dtype) for name, reply in replies.items()}
        everybody = mode == "steps" and self.round > 2  # a unit that misses a step is at another step
        return messages_of(self._channel, packets, expected, None if everybody else self._attendance)
