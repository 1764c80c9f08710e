"""Plants whose search for links may end early, since responses will answer what their inputs do."""

from dataclasses import replace

from ..dynamics import Plant
from ..estimation.estimate import estimate_plant
from ..prediction import OperatingPoint
from .choice import BEYOND_DOUBT, CLEARLY, losses_of
from .learning import Record, chosen_lags
from .tuning import TUNING

_FIRST = 0.5  # seconds of work of the first stage of a search: what these do not settle takes all that there are


def outdone_plant(record, messages, settings, budget, may_act):
    """The plant after the first stage of its search if responses surely miss less of rows left out, else None.

    A plant that the first stage does not settle gets no further lags in time: it is given up where it misses more than
    responses, level shifts aside. One that is settled may miss much because it has one lag, and be learned with more;
    it is given up where it misses more than even the best regression on one lag, which more lags do not mend, unless
    the stage was so quick that there is nothing to save. Responses act in the row of an input where it may, unless it
    follows measurements: what a controller reads would pass for what its input does. Of such a plant it is asked how
    controllers react, which only the plant tells: it has to miss at least twice as much.

    Parameters
    ----------
    record : JointRecord
        With inputs.
    messages : dict of str to StateMessage
        That it was made of.
    settings : Settings
    budget : Budget
        Of the whole work, of which the first stage takes a part.
    may_act : ndarray of bool of shape (q,)
        Inputs that may act in the row that they stand in.

    Returns
    -------
    PlantEstimate or None
    """
    if budget.left < 2 * _FIRST:  # the stage would be the search
        return None
    first = budget.part(_FIRST / budget.left)
    estimate = estimate_plant(record, replace(settings, budget=first, level_shifts=None))
    if not first.is_spent and _FIRST - first.left < TUNING.early_quick:
        return None
    A, scale = estimate.shrunk_A, estimate.parameters.state_scale
    point = OperatingPoint.of(record, A, estimate.steps, estimate.levels, scale)
    run = Plant.of_one_lag(A, estimate.shrunk_B, estimate.Q, point=point).run(point.placed(record))
    known = Record.of(messages)
    found = chosen_lags(known, may_act)
    if found is None:
        return None
    is_set = found.held_out.rows.followed() <= TUNING.early_level / len(may_act)
    if is_set.any():
        found = chosen_lags(known, may_act & ~is_set)
    losses = losses_of(run.ahead, found, known)
    least = TUNING.early_misses if first.is_spent else CLEARLY * found.one_lag
    least = max(least, BEYOND_DOUBT) if is_set.any() else least
    return estimate if losses["plant"] > least * losses["responses"] else None
