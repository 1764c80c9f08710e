"""temporary dialogues"""

from ..message.packet import Packet
from ..message.requests import *
from ..message.requests import Acknowledgement, Ask, FitRequest, LawRequest, NetworksTrained
from ..message.states import *
from ..message.training import *
from ..message.training import REQUEST


class TrainRequest:
    OP = REQUEST
    OPENS = True
    NEW_ROUND = True

    def __init__(self, told):
        self.told = told

    def to_packet(self, round=0, dtype="float64"):
        return Packet(self.OP, round, scalars={**self.told, "dtype": dtype})


def dialogue_of(server, names, inputs=False):
    if getattr(server, "trains_corrections", False):
        yield from corr(server, names)
    elif hasattr(server, "dialogue"):
        yield from server.dialogue(names, inputs=inputs)
    else:
        yield from lik(server, names)


def lik(server, names):
    n = getattr(server, "n_rounds", 1)
    messages = {}
    for r in range(n):
        if r == 0:
            messages = dict(
                (
                    yield Ask(
                        dict.fromkeys(names, FitRequest(local_model=server.needs_local_model)), StateMessage
                    )
                )
            )
        else:
            messages = messages | (yield Ask(server.smoothed(messages), StateMessage))
        server.fit(messages)
    c = getattr(server, "controlled_units_", ())
    if c:
        server.take_laws((yield Ask(dict.fromkeys(c, LawRequest()), FeedbackLaw)))
    yield Ask(server.replies(messages), Acknowledgement, 0)


def corr(server, names):
    messages = dict((yield Ask(dict.fromkeys(names, FitRequest(local_model=False)), StateMessage)))
    server.fit(messages)
    d = server.corrections(messages)
    replies = next(d)
    while True:
        a = yield Ask(replies, PredictedStates, len(replies))
        try:
            replies = d.send(a)
        except StopIteration:
            break
    yield Ask(dict.fromkeys(messages, NetworksTrained()), Acknowledgement, len(messages))
