"""Numbers of states that units choose: those that others' inputs alone move, they see with these inputs only.

A state that forgets within a row and that only the inputs of another unit drive looks like sensor noise that
sensors share: the past of the unit's own measurements says nothing of it. The server knows all inputs of a plant;
units that choose their number of states get those of the others, look again, and send another message if they find
more states than before.
"""

import numpy as np

from ..message.requests import Ask, InputsOfOthers, OrderAnswer, RecordRequest
from ..message.states import StateMessage


def with_inputs_of_others(messages, local_model):
    """A generator that tells inputs to units whose order is open; the answers after it."""
    told = {}
    for name, message in messages.items():
        others = [m.inputs for other, m in messages.items() if other != name and m.inputs is not None]
        if message.open_order and others:
            told[name] = InputsOfOthers(np.hstack(others))
    if not told:
        return messages
    answers = yield Ask(told, OrderAnswer, needed=0)
    grown = [name for name, answer in answers.items() if answer.grown]
    if not grown:
        return messages
    newer = yield Ask(dict.fromkeys(grown, RecordRequest(local_model=local_model)), StateMessage)
    return messages.followed_by(newer) if hasattr(messages, "followed_by") else {**messages, **newer}
