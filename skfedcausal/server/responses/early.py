"""Plants whose search for links may end early, since responses will answer what their inputs do."""

from dataclasses import replace

import numpy as np

from ..dynamics import Plant
from ..estimation.estimate import estimate_plant
from ..prediction import OperatingPoint
from .choice import BEYOND_DOUBT, losses_of
from .learning import Record, chosen_lags

_FIRST = 0.5  # seconds of work of the first stage of a search: what these do not settle takes all that there are


def outdone_plant(record, messages, settings, budget):
    """The plant after the first stage of its search if responses surely miss less of rows left out, else None.

    No plant is given up that the first stage comes to the end of, level shifts aside: such a plant may miss much
    because it has one lag, and be learned with more. One that it does not settle gets no further lags in time.

    Parameters
    ----------
    record : JointRecord
        With inputs.
    messages : dict of str to StateMessage
        That it was made of.
    settings : Settings
    budget : Budget
        Of the whole work, of which the first stage takes a part.

    Returns
    -------
    PlantEstimate or None
    """
    if budget.left < 2 * _FIRST:  # the stage would be the search
        return None
    first = budget.part(_FIRST / budget.left)
    estimate = estimate_plant(record, replace(settings, budget=first, level_shifts=None))
    if not first.is_spent:
        return None
    known = Record.of(messages)
    found = chosen_lags(known, np.zeros(known.inputs.shape[1], dtype=bool))
    if found is None:
        return None
    A, scale = estimate.shrunk_A, estimate.parameters.state_scale
    point = OperatingPoint.of(record, A, estimate.steps, estimate.levels, scale)
    run = Plant.of_one_lag(A, estimate.shrunk_B, estimate.Q, point=point).run(point.placed(record))
    losses = losses_of(run.ahead, found, known)
    return estimate if losses["plant"] > BEYOND_DOUBT * losses["responses"] else None
