"""The responses of a plant from its units' messages: lags, ridge, and what rows left out say of them."""

from dataclasses import dataclass

import numpy as np

from ..joint import JointRecord
from .answers import Chosen, Responses
from .held_out import EVERY, FEWEST, HeldOut, smooth
from .moments import Rows
from .runs import STABLE, radius_of, rows_until_far, settled
from .trust import probability_real, slopes
from .tuning import TUNING

_LAGS = (8, 4, 2, 1)  # eight, since scores of noisy sensors are no autoregression of few lags
_RIDGES = (1e-6, 1e-2, 1e-1)  # of every row; the last for short and wide records


@dataclass(frozen=True, eq=False)
class Record:
    """Scores of all units side by side, NaN where they are not known, and inputs as they are sent.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n)
    inputs : ndarray of shape (n_samples, q)
    starts : tuple of int
        First row of each episode.
    slices : dict of str to slice
        States of each unit.
    """

    states: np.ndarray
    inputs: np.ndarray
    starts: tuple
    slices: dict

    @classmethod
    def of(cls, messages):
        """The record that messages by unit are about."""
        joint = JointRecord.from_messages(messages)
        inputs = np.zeros((joint.n_samples, 0)) if joint.u is None else joint.u
        slices = dict(zip(joint.names, joint.partition.slices, strict=True))
        return cls(joint.scores_of(slice(None)), inputs, joint.starts, slices)


def chosen_lags(record, now, looped=False):
    """What runs over rows left out choose, a `Chosen` or None; arguments as in :func:`learned_responses`."""
    states, inputs, n_columns = record.states, record.inputs, record.states.shape[1] + record.inputs.shape[1]
    most = min(TUNING.learning_share * np.isfinite(states).all(axis=1).sum(), TUNING.learning_most)
    lags = [p for p in _LAGS if p * n_columns <= most]
    if not (lags and 0 < inputs.shape[1] * states.shape[1] <= TUNING.learning_pairs):
        return None
    scale, input_scale = _spread(states), _spread(inputs)
    standard = (states - np.nanmean(states, axis=0)) / scale, (inputs - inputs.mean(axis=0)) / input_scale
    rows = Rows.cut(*standard, record.starts, lags[0])
    if min(map(len, rows.stretches)) < FEWEST + EVERY:
        return None
    radius = _radius(rows.moments, lags, now)
    held_out = HeldOut.of(rows, TUNING.learning_horizon if radius <= STABLE else rows_until_far(radius))
    if held_out is None:
        return None
    tried = [(p, ridge) for p in lags for ridge in _RIDGES]
    losses = np.array([held_out.loss(*one, now) for one in tried])[:, : 1 if looped else None]
    least = np.maximum(smooth(losses.min(axis=0)), TUNING.learning_least)
    missed = (losses / least).mean(axis=(1, 2))
    best = int(missed.argmin())
    one_lag = float(missed[[p == 1 for p, _ in tried]].min() / missed[best])
    found = {"radius": radius, "chosen": tried[best], "losses": losses[best], "one_lag": one_lag, "held_out": held_out}
    return Chosen(scale=scale, input_scale=input_scale, **found)


def learned_responses(record, now, looped=False):
    """Responses to inputs, or None where the record tells too little.

    Parameters
    ----------
    record : Record
    now : ndarray of bool of shape (q,) or (q, n)
        Inputs, as they are sent, that may act in the row that they stand in, on all scores or on some.
    looped : bool, default=False
        Whether controllers set inputs by what they read: these then tell of the disturbances on the way of a run, and
        single rows ahead have to choose.

    Returns
    -------
    Responses or None
    """
    lags = chosen_lags(record, now, looped)
    if lags is None:
        return None
    held_out = lags.held_out
    rows = held_out.rows
    models = [rows.moments.solved(*lags.chosen, now, f) for f in (None, *range(len(rows.stretches)))]
    A, C = np.array([settled(A, lags.radius) for _, A, _ in models]), np.array([C for _, _, C in models])
    seen = held_out.effects(A[1:], C[1:], [level for level, _, _ in models[1:]])
    missed, means = (
        {name: held_out.missed(*seen, own, over) for name, own in record.slices.items()} for over in (False, True)
    )
    return Responses(
        slices=record.slices,
        A=A,
        C=C,
        trust=_trust(seen, missed),
        missed=missed,
        missed_mean=means,
        jumps=_jumps(rows, now),
        low=record.inputs.min(axis=0),
        high=record.inputs.max(axis=0),
        **vars(lags),
    )


def _trust(seen, missed):
    """Probability that what an input does to a state is real, and that what all do together is, (q, n)."""
    variance = np.hstack([np.diagonal(V, axis1=1, axis2=2) for V in missed.values()]).clip(TUNING.learning_least)
    weight = 1 / np.sqrt(variance)[:, None]
    pairs = [(what * weight, foretold * weight) for what, foretold in zip(*seen, strict=True)]
    together = [(what, foretold.sum(axis=0, keepdims=True)) for what, foretold in pairs]
    return probability_real(*slopes(pairs)) * probability_real(*slopes(together))


def _jumps(rows, now):
    """Share of the variance of each score's news that comes in jumps, zero of Gaussian ones."""
    p = rows.n_lags  # of fewer, inputs that act after a dead time would be news
    moments = rows.moments
    level, A, C = moments.solved(p, _RIDGES[0], now)
    n, q, first = moments.n_states, len(now), 1 + moments.n_states * rows.n_lags
    news = []
    for stretch in rows.stretches:
        F = rows.regressors(stretch)
        news.append(rows.states[stretch] - level - F[:, 1 : 1 + n * p] @ A - F[:, first : first + (p + 1) * q] @ C)
    left = np.vstack(news)
    calm = np.square(TUNING.learning_gaussian * np.median(np.abs(left), axis=0))
    return np.clip(1 - calm / np.maximum(left.var(axis=0), TUNING.learning_least**2), 0.0, 1.0)


def _radius(moments, lags, now):
    """What a plant under given inputs keeps from row to row, more than one where only its controllers hold it.

    A ridge would hide that, and few lags might feign it: the smallest of all numbers of lags, without one.
    """
    n = moments.n_states
    models = (moments.solved(p, _RIDGES[0], now)[1] for p in lags)
    return min(radius_of(A.reshape(-1, n, n).transpose(0, 2, 1)) for A in models)


def _spread(series):
    """Standard deviations, one for series that stand still."""
    found = np.nanstd(series, axis=0)
    return np.where(found > 1e-9 * np.maximum(1.0, np.abs(np.nanmean(series, axis=0))), found, 1.0)
