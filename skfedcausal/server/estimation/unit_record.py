"""One unit on its own, as the search for level shifts looks at it.

Where a step would split its scores best, what the likelihood of its own model gains by it, and where the
innovations of that model want it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from ...statespace.detection.shift import InnovationModel, best_onset
from ...statespace.episodes import (
    TransitionMoments,
    episodes,
    lag_covariances,
    recentre_lag_sums,
    remove_episode_means,
)
from ...statespace.inputs import input_term
from ...statespace.kalman import filtered_states, predicted_states
from ...statespace.matrices import floor_eigenvalues
from ...statespace.units import fit_units, moment_start
from ..joint import step_series

SHORTEST = 20  # rows between two shifts, and between a shift and the end of an episode
_FLOOR = 1e-9
_PIECE = 1 << 13  # rows of a stretch of which each is looked at as the first of another level
_SUMS = 3  # lagged products, from lag zero, of which the covariance in the long run is made
_LOW = 16  # frequencies that count as low: steps are slower than the fastest of them
_MOST_LAGS = 60  # a shift makes a unit without it look like a random walk, which asks for many


@dataclass(frozen=True)
class UnitRecord:
    """What is known about one unit."""

    scores: np.ndarray  # (n_samples, p)
    present: np.ndarray | None  # (n_samples, p) or None
    N: np.ndarray  # (p, p)
    inputs: np.ndarray  # (n_samples, k)
    starts: tuple[int, ...]
    n_lags: int
    sums: np.ndarray | None = None  # (n, p, p) or None

    def steps(self, onsets):
        """Centred steps, shape (n_samples, n_onsets)."""
        return remove_episode_means(step_series(sorted(onsets), self.starts, len(self.scores)), self.starts)

    def fit(self, onsets):
        """Maximum likelihood of the unit alone, its level shifting at the onsets."""
        columns = np.hstack([self.scores, self.inputs, self.steps(onsets)])
        present = self.present
        if present is not None:
            known = columns.shape[1] - present.shape[1]
            present = np.hstack([present, np.ones((len(present), known))])
        sums = lag_covariances(columns, range(min(self.n_lags, _MOST_LAGS) + 2), self.starts, present)
        moments = TransitionMoments.from_sums(sums, columns, self.starts)
        return fit_units(moments.blocks([slice(0, columns.shape[1])]), self.N[None])

    def best_split(self, onsets):
        """Row that splits a stretch of constant level best, and about what likelihood ratio to expect of it.

        The split is the best for white scores; the ratio is that of a step in scores as correlated in time
        as they are around both levels, by a moment estimate.
        """
        best = (None, 0.0)
        for start, stop in episodes(sorted({*self.starts, *onsets}), len(self.scores)):
            if stop - start >= 2 * SHORTEST:
                best = max(best, self._split(start, stop), key=lambda split: split[1])
        if best[0] is None:
            return best
        long_run = self._long_run_covariance([*onsets, best[0]])
        whitened = self._root.T @ long_run @ self._root
        return best[0], best[1] / float(np.linalg.eigvalsh(whitened)[-1])

    def _split(self, start, stop):
        """Best row to split a stretch, with its statistic: of every few rows in long records, and of all
        around the best of them.
        """
        counts, total = None, stop - start
        if self.present is not None:
            counts = np.cumsum(self.present[start:stop, 0])
            total = counts[-1]
        if total < 2 * SHORTEST:
            return None, 0.0
        before, after = (self._walk(row, row, 1)[1] for row in (start, stop))

        def best_of(first, last, step):
            rows, walk = self._walk(first, last, step)
            n = (rows - start).astype(float) if counts is None else counts[rows - start - 1]
            walk -= before
            walk -= np.multiply.outer(n, (after - before)[0] / total)
            walk = walk @ self._root
            statistic = np.einsum("tp,tp->t", walk, walk)
            statistic /= np.maximum(n * (total - n), total) / total
            k = int(statistic.argmax())
            return int(rows[k]), float(statistic[k])

        first, last = start + SHORTEST, stop - SHORTEST
        if stop - start <= _PIECE:
            return best_of(first, last, 1)
        row, _ = best_of(first, last, self._step)
        return best_of(max(row - self._step, first), min(row + self._step, last), 1)

    @cached_property
    def _root(self):
        """Matrix whose transpose whitens the scores."""
        sample = self._lag_sums[0] / len(self.scores)
        floor = np.trace(sample) * _FLOOR
        return np.linalg.cholesky(np.linalg.inv(floor_eigenvalues(sample, floor)))

    @property
    def _step(self):
        """Rows of a block whose sum is kept."""
        return -(-len(self.scores) // _PIECE)

    @cached_property
    def _sums_before_blocks(self):
        """Sums of the scores before every block, shape (n_blocks + 1, p)."""
        step, p = self._step, len(self.N)
        whole = len(self.scores) // step
        add = np.tile(np.eye(p), (step, 1))  # one product is several times faster than sums of few rows
        sums = np.zeros((whole + 1, p))
        np.cumsum(self.scores[: whole * step].reshape(whole, -1) @ add, axis=0, out=sums[1:])
        return sums

    def _walk(self, first, last, step):
        """Rows from `first` to `last`, and sums of the scores before each of them.

        Every row, or where `step` is the size of a block the first rows of blocks.
        """
        blocks = self._sums_before_blocks
        if step > 1:
            chosen = np.arange(-(-first // step), last // step + 1)
            return chosen * step, blocks[chosen]
        block = min(first // self._step, len(blocks) - 1)
        sums = blocks[block] + np.cumsum(self.scores[block * self._step : last], axis=0)
        sums = np.concatenate([blocks[block : block + 1], sums])
        return np.arange(first, last + 1), sums[first - block * self._step :]

    @cached_property
    def _lag_sums(self):
        """Sums of lagged products of the scores for the first few lags."""
        if self.sums is not None and len(self.sums) >= _SUMS:
            return self.sums[:_SUMS]
        return lag_covariances(self.scores, range(_SUMS), self.starts)

    def _long_run_covariance(self, onsets):
        """Of the scores around the levels between the onsets."""
        starts = sorted({*self.starts, *onsets})
        if self.present is None:
            borders = sorted({*onsets} - {*self.starts})
            sums = _centred_lag_sums(self.scores, self._lag_sums, borders, starts)
        else:
            sums = lag_covariances(remove_episode_means(self.scores, starts), range(3), starts, self.present)
        moments = TransitionMoments.from_sums(sums, np.zeros_like(self.scores), starts)
        A, Q = moment_start(moments, self.N)
        gain = np.linalg.inv(np.eye(len(A)) - A)
        return gain @ Q @ gain.T + self.N

    def moved(self, onset, others, fit):
        """The onset that the innovations of the unit's filter ask for, the other steps given.

        `fit` has the onset and the other steps in order of time.
        """
        place = len(self.N) + self.inputs.shape[1] + sorted([*others, onset]).index(onset)
        model, u = self._innovations(np.delete(fit.A[0], place, axis=1), fit.Q[0], others)
        for start, stop in episodes(self.starts, len(u)):
            if start < onset < stop:
                return start + best_onset(model, u[start:stop], SHORTEST)
        raise ValueError(f"Row {onset} is the first of an episode.")

    def _innovations(self, A, Q, onsets):
        """The filter of the unit's model ``[A | B]`` and its scaled innovations."""
        p, known = len(self.N), np.hstack([self.inputs, self.steps(onsets)])
        model = InnovationModel(A[:, :p], Q, np.linalg.inv(self.N))
        term = input_term(A[:, p:], known, self.starts) if known.shape[1] else None
        z = self.scores @ model.J
        settings = {"starts": self.starts, "exogenous": term}
        filtered = filtered_states(model.schedule, (z, None), **settings)
        return model, model.scaled(z, predicted_states(model.A, filtered, **settings))

    def misfit(self, onsets, fit):
        """What chance makes of a likelihood ratio of steps where the model does not fit, at least one.

        Twice the log-likelihood that a step gains is chi-square if innovations are white. If they are not, as
        where a unit has slow states that its model lacks, sums of them over long stretches vary by their
        power at low frequencies instead. That is the geometric mean of the lowest ordinates of their
        periodogram, corrected for its bias: steps that are still to be found fill few ordinates and hardly
        move it. Where measurements are missing innovations have no common scale; the model is trusted then.
        """
        if self.present is not None:
            return 1.0
        u = remove_episode_means(self._innovations(fit.A[0], fit.Q[0], onsets)[1], self.starts)
        power = np.abs(np.fft.rfft(u, axis=0)[1 : _LOW + 1]) ** 2
        p = u.shape[1]
        ordinates = (power / np.einsum("ti,ti->i", u, u)).mean(axis=1)
        return max(float(np.exp(np.log(ordinates).mean() + np.log(p) - special.digamma(p))), 1.0)


def _centred_lag_sums(series, sums, borders, starts):
    """Lag sums of a series less its mean between the starts, from those within its episodes."""
    sums = sums.copy()
    n_lags = len(sums)
    for border in borders:
        for lag in range(1, n_lags):
            sums[lag] -= series[border : border + lag].T @ series[border - lag : border]
    for start, stop in episodes(starts, len(series)):
        rows = series[start:stop]
        total = np.ones(len(rows)) @ rows
        ends = rows[:n_lags], rows[-n_lags:]
        recentre_lag_sums(sums, range(n_lags), total / len(rows), total, len(rows), *ends)
    return sums
