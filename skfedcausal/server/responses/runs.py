"""Runs of several models of lags at once, and over segments of a record that a model does not know."""

import numpy as np

from ...statespace.matrices import companion, spectral_radius
from .tuning import TUNING

# Runs of several models of lags at once.

STABLE = 1.005  # radius up to which a plant is a stable one whose levels drift


def run(A, C, moves, history=None, level=0.0):
    """What models make of inputs, from a history on.

    Parameters
    ----------
    A : ndarray of shape (m, p * n, n)
    C : ndarray of shape (m, (b + 1) * q, n)
    moves : ndarray of shape (b + n_steps, s, q)
        Inputs of s runs, `b` rows before the first step first.
    history : ndarray of shape (p, s, n), default=None
        Scores of the rows before; None for zero.
    level : float or ndarray of shape (n,), default=0
        What every row adds.

    Returns
    -------
    ndarray of shape (m, n_steps, s, n)
    """
    m, n = len(A), A.shape[2]
    p, (n_rows, s, q) = A.shape[1] // n, moves.shape
    before = C.shape[1] // q - 1
    found = np.zeros((m, p + n_rows - before, s, n))
    for k in range(before + 1):
        if C[:, k * q : (k + 1) * q].any():
            found[:, p:] += moves[before - k : n_rows - k] @ C[:, None, k * q : (k + 1) * q]
    found[:, p:] += level
    found[:, :p] = 0.0 if history is None else history
    for t in range(p, found.shape[1]):
        past = found[:, t - p : t][:, ::-1].transpose(0, 2, 1, 3).reshape(m, s, p * n)
        found[:, t] += past @ A
    return found[:, p:]


def run_plants(plants, change):
    """Effects of a change (n_steps, k) one row after each of its rows, (n_steps, n) for every plant.

    Of plants ``(A, B)`` of the same lags, (p, n, n) from 1 on and (b + 1, n, k) from 0 on.
    """
    A, B = (np.array(part).swapaxes(2, 3) for part in zip(*plants, strict=True))
    n, k = A.shape[3], change.shape[1]
    A, B = A.reshape(len(A), -1, n), B.reshape(len(B), -1, n)
    before = np.zeros((B.shape[1] // k - 1, k))
    moves = np.vstack([before, change, np.zeros_like(change[:1])])[:, None]  # what follows the last row is not known
    together = max(TUNING.runs_numbers // (len(moves) * n), 1)
    found = []
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(A), together):
            found += list(run(A[first : first + together], B[first : first + together], moves)[:, 1:, 0])
    return found


def settled(A, plant=0.0):
    """Transition matrices (p * n, n) with which every effect ends, or grows as those of a plant that is not stable."""
    p, n = len(A) // A.shape[1], A.shape[1]
    radius, most = radius_of(A.reshape(p, n, n).transpose(0, 2, 1)), plant if plant > STABLE else TUNING.runs_settles
    return A if radius <= most else A * np.repeat((most / radius) ** np.arange(1, p + 1), n)[:, None]


def radius_of(lags):
    """Spectral radius of a plant with transition matrices (p, n, n) of lags 1 to p."""
    return float(spectral_radius(companion(np.hstack(list(lags)), len(lags))))


def rows_until_far(radius):
    """Rows in which an effect of a plant that is not stable grows by the factor e."""
    return max(int(1 / np.log(radius)), 1)


# Runs over segments of the record that a model does not know, under the inputs of the record.

EVERY = 12  # one start in so many rows
FEWEST = 10  # rows of a run that say something of many rows


class HeldOut:
    """Runs from starts within each stretch of :class:`~.moments.Rows`."""

    def __init__(self, rows, horizon, starts):
        self.rows, self.horizon, self.starts = rows, horizon, starts

    @classmethod
    def of(cls, rows, horizon):
        """Runs of as many rows, or as every stretch has room for; None where these are too few."""
        horizon = min(max(horizon, FEWEST), min(len(stretch) for stretch in rows.stretches) - EVERY)
        while horizon >= FEWEST:
            starts = [_starts(stretch, horizon) for stretch in rows.stretches]
            if all(len(one) for one in starts):
                most = max(TUNING.held_out_numbers // (horizon * rows.states.shape[1] * rows.inputs.shape[1]), 1)
                return cls(rows, horizon, [one[:: -(-len(one) // most)] for one in starts])
            horizon //= 2
        return None

    def loss(self, p, ridge, now):
        """Mean squares of what runs of a regression miss of the stretch that it does not know, (h, n).

        Parameters
        ----------
        p, ridge, now
            As in :meth:`Moments.solved`.

        Returns
        -------
        ndarray of shape (h, n)
        """
        total = np.zeros((self.horizon, self.rows.states.shape[1]))
        for f, at in enumerate(self.starts):
            level, A, C = self.rows.moments.solved(p, ridge, now, f)
            states, inputs = self._around(at, p)
            with np.errstate(over="ignore", invalid="ignore"):
                found = run(A[None], C[None], inputs, states[:p], level)[0]
                total += np.square(states[p:] - found).sum(axis=1)
        return self._mean(total)

    def loss_of_forecasts(self, forecasts, scale, level):
        """The same of forecasts of the states, of which all rows are known.

        Parameters
        ----------
        forecasts : callable
            Called with rows, a number of steps and that of all rows, gives for 1, 2, ... rows after these the expected
            states, (n_rows, n) in turn, and further ones behind them.
        scale, level : ndarray of shape (n,)
            Of the states.

        Returns
        -------
        ndarray of shape (h, n)
        """
        at = np.concatenate(self.starts)
        states, _ = self._around(at, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            ahead = zip(states, forecasts(at - 1, self.horizon, len(self.rows.states)), strict=True)
            missed = (seen - (told[:, : len(level)] - level) / scale for seen, told in ahead)
            total = np.array([np.square(one).sum(axis=0) for one in missed])
        return self._mean(total)

    def effects(self, A, C, levels):
        """What happened beside runs whose inputs stay, and what each input was to do.

        Parameters
        ----------
        A, C : ndarray of shape (n_folds, p * n, n) and (n_folds, (p + 1) * q, n)
        levels : list of ndarray of shape (n,)
            Of the model without each stretch.

        Returns
        -------
        seen : list of ndarray of shape (h, s, n)
        foretold : list of ndarray of shape (q, h, s, n)
        """
        p, q = A.shape[1] // A.shape[2], self.rows.inputs.shape[1]
        seen, foretold = [], []
        for f, at in enumerate(self.starts):
            states, inputs = self._around(at, p)
            still = np.where(np.arange(len(inputs))[:, None, None] < p, inputs, inputs[p - 1])
            one, other = A[f : f + 1], C[f : f + 1]
            seen.append(states[p:] - run(one, other, still, states[:p], levels[f])[0])
            alone = np.where(np.arange(q) == np.arange(q)[:, None, None, None], inputs - still, 0.0)
            found = run(one, other, alone.transpose(1, 0, 2, 3).reshape(len(inputs), -1, q))[0]
            foretold.append(found.reshape(self.horizon, q, len(at), -1).transpose(1, 0, 2, 3))
        return seen, foretold

    def missed(self, seen, foretold, own, so_far):
        """Mean products of what effects leave of some states, or of the mean of that so far, (h, p, p)."""
        left = [(what - told.sum(axis=0))[:, :, own] for what, told in zip(seen, foretold, strict=True)]
        if so_far:
            left = [np.cumsum(part, axis=0) / np.arange(1, len(part) + 1)[:, None, None] for part in left]
        total = sum(np.einsum("hsi,hsj->hij", part, part) for part in left)
        return smooth(total / sum(map(len, self.starts)))

    def _around(self, at, before):
        """States and inputs from `before` rows before starts to the ends of the runs, (before + h, s, k)."""
        places = np.arange(-before, self.horizon)[:, None] + at
        return self.rows.states[places], self.rows.inputs[places]

    def _mean(self, total):
        far = TUNING.held_out_runs_away
        return np.nan_to_num(total / sum(map(len, self.starts)), nan=far, posinf=far).clip(max=far)


def smooth(series):
    """Means over the rows around each row."""
    near = TUNING.held_out_around
    return np.array([series[max(0, i - near) : i + near + 1].mean(axis=0) for i in range(len(series))])


def _starts(stretch, horizon):
    """Rows of a stretch from which as many rows as the horizon follow each other, one in every few."""
    whole = stretch[: max(len(stretch) - horizon + 1, 0)]
    whole = whole[stretch[horizon - 1 :] == whole + horizon - 1]
    return whole[::EVERY]
