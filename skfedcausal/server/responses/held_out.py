"""Runs over segments of the record that a model does not know, under the inputs of the record."""

import numpy as np

from .runs import run
from .tuning import TUNING

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
        mean = total / sum(map(len, self.starts))
        return np.nan_to_num(mean, nan=TUNING.held_out_runs_away, posinf=TUNING.held_out_runs_away).clip(
            max=TUNING.held_out_runs_away
        )


def smooth(series):
    """Means over the rows around each row."""
    return np.array(
        [
            series[max(0, i - TUNING.held_out_around) : i + TUNING.held_out_around + 1].mean(axis=0)
            for i in range(len(series))
        ]
    )


def _starts(stretch, horizon):
    """Rows of a stretch from which as many rows as the horizon follow each other, one in every few."""
    whole = stretch[: max(len(stretch) - horizon + 1, 0)]
    whole = whole[stretch[horizon - 1 :] == whole + horizon - 1]
    return whole[::EVERY]
