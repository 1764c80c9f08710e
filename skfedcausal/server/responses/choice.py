"""Which engine answers what inputs do, and plants whose search for links may end early for that."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...message.states import StateMessage
from ..dynamics import OperatingPoint, Plant
from ..estimation.estimate import estimate_plant
from .answers import Responses
from .learning import Record, chosen_lags, learned_responses
from .runs import STABLE, radius_of
from .tuning import TUNING

# Which engine answers what inputs do: the plant that was learned, or responses, by runs over rows left out.

CLEARLY = 1.05  # times the loss of responses up to which the plant stays, whose links make bands a third as wide
BEYOND_DOUBT = 2.0  # the same where controllers seem to set inputs


@dataclass(frozen=True, eq=False)
class Engine:
    """What answers questions about inputs.

    Attributes
    ----------
    responses : Responses or None
        None where the plant answers.
    losses : dict of str to float
        What runs of 1 to 100 rows under the inputs of the record miss of rows left out, by candidate: mean over rows
        ahead and states of mean squares in shares of the smallest one. The plant is not learned anew without these
        rows, so that its figure is a little too good.
    radius : float
        What is left of an effect from row to row where all inputs are held, more than one where it grows.
    trust : ndarray of shape (q, n) or None
        Probability that an input does something to a state, as moves in rows left out say.
    timing : Responses or None
        Where inputs may act in their own row or from the next one on, and both fit: responses that know both.
    """

    responses: Responses | None
    losses: dict
    radius: float = 0.0
    trust: np.ndarray | None = None
    timing: Responses | None = None

    @property
    def name(self):
        """Of the candidate that was chosen."""
        return "plant" if self.responses is None else "responses"

    def doubted(self, replies, change):
        """Answers of the plant with the doubt that rows left out leave whether inputs do anything to a state.

        Parameters
        ----------
        replies : dict of str to EffectReply
            By unit, in the order of the plant.
        change : ndarray of shape (n_steps, q)
            Of all inputs.

        Returns
        -------
        dict of str to EffectReply
        """
        if self.trust is None or not change.any() or any(one.covariances is None for one in replies.values()):
            return replies
        nothing, first, found = np.sqrt(1 - self.trust[change.any(axis=0)].max(axis=0).clip(0, 1)), 0, {}
        for name, reply in replies.items():
            last = first + reply.states.shape[1]
            doubt, first = reply.states * nothing[first:last], last
            found[name] = replace(reply, covariances=reply.covariances + doubt[:, :, None] * doubt[:, None, :])
        return found


def chosen_engine(server, messages, now, in_doubt, looped, readers):
    """Responses where they miss clearly less of rows left out, the plant that was learned else.

    Where news comes in jumps, the plant has to be the one that misses clearly less: its bands know of none. Where
    controllers seem to set inputs by what they measure it has to miss twice as much: runs under the inputs of the
    record cannot tell what an input does from the news that its controller answered, and only the plant is learned
    with that in mind. A plant whose search was ended for the sake of responses (`outdone_`) does not answer. Where one
    goes along curves, its runs are along these, which single rows confirm and long runs may not.

    Parameters
    ----------
    server : LikelihoodServer
        That learned a plant from the messages.
    messages : dict of str to StateMessage
        By unit, in the order of the plant.
    now : ndarray of bool of shape (q,)
        Inputs, as they are sent, that may act in the row that they stand in.
    in_doubt : ndarray of bool of shape (q,)
        Those of which only a controller knows whether they do.
    looped : bool
        Whether controllers seem to set inputs in a way that nobody knows.
    readers : list of (str or None)
        Units whose measurements switch an input that is a relay, which is how it is known to be set; None for others.

    Returns
    -------
    Engine
    """
    if not all(isinstance(message, StateMessage) for message in messages.values()):
        return Engine(None, {})
    record = Record.of(messages)
    found = _of_timing(record, now, in_doubt, readers)
    if found is None:
        return Engine(None, {})
    losses = losses_of(_forecasts(server, messages, record), found, record)
    margin = 1 / CLEARLY if np.median(found.jumps) > TUNING.choice_jumps else CLEARLY
    if looped and found.radius <= STABLE:  # no plant that is learned runs away
        margin = BEYOND_DOUBT
    stays = losses["plant"] <= margin * losses["responses"] and not getattr(server, "outdone_", False)
    radius = max(found.radius, radius_of(getattr(server, "lag_transitions_", server.transition_[None])))
    found = found.without_record()
    return Engine(None if stays else found, losses, radius, found.trust, None if found.other is None else found)


def _forecasts(server, messages, record):
    """What the plant that would answer foretells, as in :func:`losses_of`."""
    curved = getattr(server, "curved_", None)
    if curved is None:
        return server.filter(messages).plain.ahead
    return partial(curved.ahead, record.states - record.states.mean(axis=0), record.inputs - server.input_level_)


def losses_of(ahead, found, record):
    """What forecasts and responses miss of rows left out, see :class:`Engine`.

    `ahead` is called with rows, a number of steps and that of all rows, and gives states of rows after these in turn.
    """
    level = np.nanmean(record.states, axis=0)
    own = found.held_out.loss_of_forecasts(ahead, found.scale, level)[: len(found.losses)]
    least = np.maximum(np.minimum(own, found.losses), np.finfo(float).tiny)
    return {"plant": float((own / least).mean()), "responses": float((found.losses / least).mean())}


def _of_timing(record, now, in_doubt, readers):
    """Responses with those inputs acting in their own row that may, and the doubt that this leaves.

    What a controller reads before it sets an input looks like an effect of the input in the same row, and foretells
    well what is recorded. So inputs in doubt act from the next row on; unless that foretells clearly more, they may as
    well act in their own row, and the answers differ by a part of bands. A relay has read its unit before it switches:
    it acts in the same row on others alone.
    """
    may = np.ones((len(now), record.states.shape[1]), dtype=bool)
    for k, reader in enumerate(readers):
        may[k, record.slices.get(reader, slice(0))] = False
    if not in_doubt.any():
        return learned_responses(record, now[:, None] & may, looped=not may.all())
    both = (now & ~in_doubt, now | in_doubt)
    later, at_once = (learned_responses(record, some[:, None] & may, looped=True) for some in both)
    if later is None or at_once is None:
        return later
    ratio = (later.losses / at_once.losses).mean()
    return replace(later, other=at_once.without_record()) if ratio > 1 / TUNING.choice_both else later


# Plants whose search for links may end early, since responses will answer what their inputs do.

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
