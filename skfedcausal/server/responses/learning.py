"""The responses of a plant: sums over segments, lags, ridge, and how much of an effect is real."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, stats

from ...statespace.episodes import episodes
from ..joint import JointRecord
from .answers import Chosen, Responses
from .runs import EVERY, FEWEST, STABLE, HeldOut, radius_of, rows_until_far, run, settled, smooth
from .tuning import TUNING

# How much of an effect is real: what moves in rows left out say of it.


def slopes(pairs):
    """Slopes of what was seen on what was foretold, and their standard errors by the jackknife over stretches.

    Parameters
    ----------
    pairs : list of (ndarray of shape (h, s, n), ndarray of shape (k, h, s, n))
        Of every stretch what was seen, and what each of k causes was foretold to do.

    Returns
    -------
    slope, error : ndarray of shape (k, n)
    """
    squares = np.array([np.einsum("jhsd,khsd->djk", x, x) for _, x in pairs])
    products = np.array([np.einsum("jhsd,hsd->dj", x, y) for y, x in pairs])
    k, whole, right = squares.shape[2], squares.sum(axis=0), products.sum(axis=0)
    ridge = (1e-4 * np.trace(whole, axis1=1, axis2=2) / k + 1e-9)[:, None, None] * np.eye(k)
    slope = np.linalg.solve(whole + ridge, right[:, :, None])[:, :, 0]
    without = np.linalg.solve(whole - squares + ridge, (right - products)[..., None])[..., 0]
    n_folds = len(pairs)
    spread = np.square(without - without.mean(axis=0)).sum(axis=0)
    return slope.T, np.sqrt((n_folds - 1) / n_folds * spread).T


def probability_real(slope, error):
    """Probability of every slope that it is about one and not zero.

    Notes
    -----
    Two groups: real effects have slopes of 1 with a standard deviation of 0.25 around it, others 0, each seen with
    its error. The share of real ones is that which all slopes together make most likely (EM).
    """
    error = np.clip(error, TUNING.trust_floor, 1e3)
    real = _density(slope - 1, np.hypot(error, TUNING.trust_tau))
    nothing, share = _density(slope, error), 0.5
    probability = np.full(slope.shape, share)
    for _ in range(TUNING.trust_rounds):
        probability = share * real / (share * real + (1 - share) * nothing)
        share = (probability.sum() + 1) / (probability.size + 2)
    return probability


def _density(x, std):
    return np.exp(-0.5 * np.square(x / std)) / std + 1e-30


# Sums over segments of the record of what a row follows from, and the regressions that these sums give.

N_FOLDS = 10  # enough for error bars by the jackknife, and rows enough in each


@dataclass(frozen=True, eq=False)
class Rows:
    """Standardised scores and inputs of a record, and the segments of the record that are left out in turn.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n)
    inputs : ndarray of shape (n_samples, q)
    n_lags : int
        Most lags that are looked at.
    stretches : tuple of ndarray of int
        Rows of each stretch: those before which `n_lags` rows of the same episode tell all scores.
    """

    states: np.ndarray
    inputs: np.ndarray
    n_lags: int
    stretches: tuple

    @classmethod
    def cut(cls, states, inputs, starts, n_lags, n_folds=N_FOLDS):
        """Rows of a record with NaN where scores are not known, in stretches of equally many."""
        there = np.isfinite(states).all(axis=1)
        whole = []
        for start, stop in episodes(starts, len(states)):
            known = np.concatenate([[0], np.cumsum(there[start:stop])])
            rows = np.arange(start + n_lags, stop)
            whole.append(rows[known[rows - start + 1] - known[rows - start - n_lags] == n_lags + 1])
        return cls(states, inputs, n_lags, tuple(np.array_split(np.concatenate(whole), n_folds)))

    def regressors(self, rows):
        """A constant, scores of lags 1 to `n_lags` and inputs of lags 0 to `n_lags`, side by side."""
        parts = [np.ones((len(rows), 1))]
        parts += [self.states[rows - k] for k in range(1, self.n_lags + 1)]
        parts += [self.inputs[rows - k] for k in range(self.n_lags + 1)]
        return np.hstack(parts)

    @cached_property
    def moments(self):
        """Sums of products of the regressors, and of these with the scores, by stretch."""
        squares, products = [], []
        for rows in self.stretches:
            F = self.regressors(rows)
            squares.append(F.T @ F)
            products.append(F.T @ self.states[rows])
        return Moments(np.array(squares), np.array(products), self.n_lags, self.states.shape[1])

    def _further(self):
        """Sums of inputs over lags beyond `n_lags`, until twice and until four times as many, (n_samples, 2 q)."""
        total, rows = np.cumsum(np.vstack([0 * self.inputs[:1], self.inputs]), axis=0), np.arange(len(self.inputs))
        near, far, last = (total[np.maximum(rows - k * self.n_lags, 0)] for k in (1, 2, 4))
        return np.hstack([near - far, far - last])

    def followed(self):
        """P-values that inputs do not follow earlier scores, given their own past, ndarray of shape (q,).

        Notes
        -----
        Granger's test from scores to inputs: k times an F statistic, chi-squared of k coefficients with a mean of k and
        a variance of 2 k. Of an input whose news has the excess kurtosis c, as where it moves in a few of T rows only,
        the variance is about 2 k + c k^2 / T, and the law is that of the chi-squared with this mean and variance. Sums
        of inputs two and four times as far back are part of that past: of a pump that runs for some hours levels tell
        for how long it did, so that they would seem to say when it stops.
        """
        k, q = self.states.shape[1] * self.n_lags, self.inputs.shape[1]
        further, S = self._further(), self.moments.total[0]
        crossed = sum(self.regressors(rows).T @ further[rows] for rows in self.stretches)
        S = np.block([[S, crossed], [crossed.T, sum(further[rows].T @ further[rows] for rows in self.stretches)]])
        own, read, now = np.r_[0, 1 + k + q : len(S)], np.r_[1 : 1 + k], np.r_[1 + k : 1 + k + q]
        less, left = (_left(S, now, used) for used in (own, np.r_[own, read]))
        statistic = (less / left - 1) * max(S[0, 0] - k - len(own), 1)
        wider = 1 + 0.5 * stats.kurtosis(np.diff(self.inputs, axis=0), axis=0).clip(0) * k / S[0, 0]
        return stats.chi2.sf(statistic / wider, k / wider)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums by stretch, of which regressions of fewer lags and without a stretch follow.

    Attributes
    ----------
    squares : ndarray of shape (n_folds, c, c)
    products : ndarray of shape (n_folds, c, n)
    n_lags, n_states : int
    """

    squares: np.ndarray
    products: np.ndarray
    n_lags: int
    n_states: int

    @cached_property
    def total(self):
        """Sums over all stretches, (c, c) and (c, n)."""
        return self.squares.sum(axis=0), self.products.sum(axis=0)

    def solved(self, p, ridge, now, left_out=None):
        """Coefficients of `p` lags, with a ridge for each row and without a stretch.

        Parameters
        ----------
        p : int
        ridge : float
        now : ndarray of bool of shape (q,) or (q, n)
            Inputs that may act in their own row, on all scores or on some.
        left_out : int, default=None

        Returns
        -------
        level : ndarray of shape (n,)
        A : ndarray of shape (p * n, n)
        C : ndarray of shape ((p + 1) * q, n)
            What scores of lags 1 to p and inputs of lags 0 to p add.
        """
        n, q = self.n_states, len(now)
        squares, products = self.total
        if left_out is not None:
            squares, products = squares - self.squares[left_out], products - self.products[left_out]
        level, A, C = np.zeros(n), np.zeros((n * p, n)), np.zeros(((p + 1) * q, n))
        now = np.broadcast_to(now.reshape(q, -1), (q, n))
        for acting in np.unique(now, axis=1).T:  # one, unless inputs act at once on some scores only
            own = (now == acting[:, None]).all(axis=0)
            at_once = np.flatnonzero(acting)
            first = 1 + n * self.n_lags
            used = np.concatenate([np.arange(1 + n * p), first + at_once, first + q + np.arange(p * q)])
            S = squares[np.ix_(used, used)]
            penalty = np.full(len(used), ridge * S[0, 0])
            penalty[0] = TUNING.moments_level_ridge * S[0, 0]
            found = linalg.solve(S + np.diag(penalty), products[np.ix_(used, own)], assume_a="pos")
            level[own], A[:, own] = found[0], found[1 : 1 + n * p]
            C[np.ix_(np.concatenate([at_once, q + np.arange(p * q)]), own)] = found[1 + n * p :]
        return level, A, C


def _left(S, at, used):
    """Sums of squares that a regression on some columns leaves of others; S has those of products."""
    least = TUNING.moments_level_ridge * S[0, 0]
    explained = linalg.solve(S[np.ix_(used, used)] + least * np.eye(len(used)), S[np.ix_(used, at)], assume_a="pos")
    return np.maximum(np.diag(S)[at] - (S[np.ix_(used, at)] * explained).sum(axis=0), least)


# The responses of a plant from its units' messages: lags, ridge, and what rows left out say of them.

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
    held_out, rows = lags.held_out, lags.held_out.rows
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
        wider=_wider(rows, lags.chosen, models[0], now, A, C),
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


def _wider(rows, chosen, model, now, A, C):
    """Times the errors by stretches that those of what each input does to each state are at least, (q, n).

    States that are slower than a stretch move on their own as if inputs moved them, the same way in stretches beside
    each other. The record tells how much: inputs that are shifted in time by long, beside those that acted, do nothing,
    and the effects that they seem to have are errors.
    """
    (p, ridge), (q, n), moments = chosen, (rows.inputs.shape[1], rows.states.shape[1]), rows.moments
    first, width = 1 + n * rows.n_lags, (p + 1) * q
    used = np.concatenate([np.arange(1 + n * p), np.arange(first, first + width)])
    shifts = np.linspace(0, len(rows.inputs), TUNING.learning_shifts + 2)[1:-1].astype(int)
    crossed = squares = products = np.zeros(())
    for stretch in rows.stretches:
        F = rows.regressors(stretch)[:, used]
        left = rows.states[stretch] - F @ np.vstack(model)
        moved = np.array([np.hstack([rows.inputs[stretch - k - s] for k in range(p + 1)]) for s in shifts])
        crossed = crossed + F.T @ moved
        squares, products = squares + moved.swapaxes(1, 2) @ moved, products + moved.swapaxes(1, 2) @ left
    S = moments.total[0][np.ix_(used, used)]
    least = ridge * S[0, 0]
    inside = np.linalg.solve(S + least * np.eye(len(S)), crossed)
    apart = TUNING.learning_apart * max(least, TUNING.learning_least * S[0, 0])  # a shift by a period is none
    seeming = np.linalg.solve(squares - crossed.swapaxes(1, 2) @ inside + apart * np.eye(width), products)
    seeming[:, :q] *= np.broadcast_to(now.reshape(q, -1), (q, n))
    steps = np.concatenate([np.zeros((p, q, q)), np.broadcast_to(np.eye(q), (TUNING.learning_horizon, q, q))])
    found, nothing = run(A[1:], C[1:], steps), run(np.repeat(A[:1], len(shifts), axis=0), seeming, steps)
    errors = (len(found) - 1) * found.var(axis=0).mean(axis=0)
    return np.sqrt(np.maximum(np.square(nothing).mean(axis=(0, 1)) / np.maximum(errors, TUNING.learning_least**2), 1.0))


def _radius(moments, lags, now):
    """What a plant under given inputs keeps from row to row, more than one where only its controllers hold it.

    A ridge would hide that, and few lags might feign it: the smallest of all numbers of lags, without one.
    """
    n = moments.n_states
    return min(radius_of(moments.solved(p, _RIDGES[0], now)[1].reshape(-1, n, n).transpose(0, 2, 1)) for p in lags)


def _spread(series):
    """Standard deviations, one for series that stand still."""
    found = np.nanstd(series, axis=0)
    return np.where(found > 1e-9 * np.maximum(1.0, np.abs(np.nanmean(series, axis=0))), found, 1.0)
