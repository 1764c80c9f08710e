"""Energy statistic: by how much, and in how many steps, a unit surprises a model of the whole plant.

The unit's states are predicted from all units' last states by a ridge regression. The unit's own surprise is
the part of it that the others' innovations of the same step do not explain: with innovation covariance C and
``L = C^-1`` the conditional innovation of block m is ``e_m - E[e_m | others] = L_mm^-1 (L e)_m``, and

    a_m = e_m' C_mm^-1 e_m + g_m            (own innovation)
    q_m = (L e)_m' L_mm^-1 (L e)_m + g_m    (given the other units of the same step)

where g_m is the unit's off-subspace number: the distance of its measurements from those its states can
show. Sums of ``log(1 + q / mean q)`` are log-likelihood ratios of a Cauchy-like tail: it counts for how long
and in how many steps a unit surprises, not how far its victims are pushed.

The regression is meant for rows as they are measured nominally. Where the last row was seen worse, or not at
all, the uncertainty about it goes on into the prediction: the rows are the states of a Kalman filter whose
noise is that of a row beyond its nominal noise, and an innovation is judged by the covariance that this
filter gives it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg, sparse

from ..partition import slices_of

PENALTIES = (1e-5, 1e-4, 0.001, 0.01, 0.03, 0.1, 0.3)
_SETTLED = 1e-10
_TOGETHER = 256  # rows whose covariances are inverted together
_MANY = 200  # rows of a block-diagonal matrix beyond which it is sparse

# -- prediction of a row from the last one ---------------------------------------------------------------


class Predictor(Protocol):
    """Predicts rows from the rows before them; `slopes` is the derivative, shape (n, n), at one row."""

    def predict(self, past: np.ndarray, /) -> np.ndarray: ...

    def slopes(self, past: np.ndarray, /) -> np.ndarray: ...


@dataclass(frozen=True)
class LinearMap:
    """Prediction of a row from the last: ``x_(t-1) @ matrix + level``."""

    matrix: np.ndarray
    level: np.ndarray | float = 0.0

    def predict(self, past):
        """Predicted rows."""
        return past @ self.matrix + self.level

    def slopes(self, past):
        """Derivatives of the predicted row by the last, shape (n, n)."""
        return self.matrix.T


@dataclass(frozen=True)
class ScaledMap:
    """A regressor of standardised rows, in the units of the rows."""

    model: Any
    mean: np.ndarray
    scale: np.ndarray

    def predict(self, past):
        """Predicted rows."""
        inside = (past - self.mean) / self.scale
        return self.model.predict(inside) * self.scale + self.mean

    def slopes(self, past):
        """Derivatives of the predicted row by the last, shape (n, n), over a tenth of each state's spread."""
        steps = 0.1 * np.diag(self.scale)
        ahead, behind = np.split(self.predict(np.concatenate([past + steps, past - steps])), 2)
        return ((ahead - behind) / (0.2 * self.scale[:, None])).T


def ridge_transition(past, present, penalty):
    """``argmin |present - past B|^2 + penalty T |B|^2`` over T rows, shape (n, n)."""
    n = past.shape[1]
    gram = past.T @ past + penalty * len(past) * np.eye(n)
    return np.linalg.solve(gram, past.T @ present)


def held_out_errors(x: np.ndarray, folds: Sequence[tuple[int, int]], fit: Callable) -> list[np.ndarray]:
    """Errors of every fold (start, stop) without its first row under ``fit(past, present)`` to the others."""
    pairs = [(x[start : stop - 1], x[start + 1 : stop]) for start, stop in folds]
    errors = []
    for k, (past, present) in enumerate(pairs):
        others = pairs[:k] + pairs[k + 1 :]
        model = fit(np.concatenate([p for p, _ in others]), np.concatenate([q for _, q in others]))
        errors.append(present - model.predict(past))
    return errors


def held_out_innovations(x, folds, penalties=PENALTIES):
    """Errors of every fold under the ridge regression fitted to the others, and the best penalty.

    Its held-out errors are smallest in the geometric mean over the states: slow ones count as much.
    """

    def ridge(past, present, penalty):
        return LinearMap(ridge_transition(past, present, penalty))

    def error(found):
        return np.log(sum((e**2).sum(axis=0) for e in found[0])).sum()

    return min(((held_out_errors(x, folds, partial(ridge, penalty=p)), p) for p in penalties), key=error)


# -- surprises -------------------------------------------------------------------------------------------


def block_diagonal(blocks):
    """Matrix of blocks (rows, columns) on its diagonal, sparse where it has many rows."""
    if sum(map(len, blocks)) <= _MANY:
        return linalg.block_diag(*blocks)
    return sparse.csr_array(sparse.block_diag(blocks, format="csr"))


def block_sums(slices):
    """Matrix that sums the columns of each block, shape (n, n_blocks)."""
    return block_diagonal([np.ones((b.stop - b.start, 1)) for b in slices])


class Surprises(NamedTuple):
    """What rows say beyond their prediction.

    errors : of the prediction, zero for absent units, (n_samples, n)
    own, given : surprise of each unit on its own and given the others, (n_samples, n_units)
    row : the :class:`RowBelief` about the last row, None where none is kept
    """

    errors: np.ndarray
    own: np.ndarray
    given: np.ndarray
    row: Any = None


@dataclass(frozen=True)
class ConditionalEnergy:
    """Surprise of every unit, on its own and given the other units' innovations of the same step.

    From the covariance C of the innovations, shape (n, n), and the states of each unit.
    """

    covariance: np.ndarray
    blocks: tuple[slice, ...]

    @cached_property
    def _precision(self):
        return np.linalg.inv(self.covariance)

    @cached_property
    def _sums(self):
        return block_sums(self.blocks)

    @cached_property
    def _own_root(self):
        return block_diagonal([np.linalg.cholesky(np.linalg.inv(self.covariance[b, b])) for b in self.blocks])

    @cached_property
    def given_root(self):
        """Whitens the errors of each unit given those of the others: ``e @ given_root``, (n, n)."""
        L = self._precision
        return np.hstack([L[:, b] @ np.linalg.cholesky(np.linalg.inv(L[b, b])) for b in self.blocks])

    def own(self, e):
        """``e_m' C_mm^-1 e_m``, shape (n_samples, n_units)."""
        return (e @ self._own_root) ** 2 @ self._sums

    def given_others(self, e):
        """``(L e)_m' L_mm^-1 (L e)_m``, shape (n_samples, n_units)."""
        return (e @ self.given_root) ** 2 @ self._sums

    def shared(self):
        """Share of each unit's innovations that the others' of the same step explain, shape (n_units,).

        ``1 - tr(C_mm^-1 L_mm^-1) / P_m``, the mean of the squared canonical correlations.
        """
        left = [np.linalg.inv(self._precision[b, b] @ self.covariance[b, b]) for b in self.blocks]
        return np.array([1 - np.trace(part) / len(part) for part in left])

    def with_covariance(self, covariance):
        """The same for innovations of another covariance."""
        return self if covariance is self.covariance else ConditionalEnergy(covariance, self.blocks)

    def without(self, absent):
        """The same without the units marked absent, shape (n_units,), and the states it is about."""
        kept = tuple(b for b, gone in zip(self.blocks, absent, strict=True) if not gone)
        columns = np.r_[kept]
        blocks = slices_of(b.stop - b.start for b in kept)
        return ConditionalEnergy(self.covariance[np.ix_(columns, columns)], blocks), columns


class OwnEnergy:
    """Surprise of every unit by its own innovations: those of the others hardly tell of them in a large plant.

    From the covariance of each unit's innovations, (p, p).
    """

    def __init__(self, covariances):
        precisions = [np.linalg.inv(C) for C in covariances]
        self.precision = block_diagonal(precisions)
        self.given_root = block_diagonal([np.linalg.cholesky(L) for L in precisions])
        self._sums = block_sums(slices_of(map(len, covariances)))

    def own(self, e):
        """``e_m' C_mm^-1 e_m``, shape (n_samples, n_units)."""
        return (e @ self.given_root) ** 2 @ self._sums

    given_others = own

    def shared(self):
        """Share of each unit's innovations that those of the others explain: none is looked for."""
        return np.zeros(self._sums.shape[1])


# -- rows with gaps --------------------------------------------------------------------------------------


class RowBelief(NamedTuple):
    """Knowledge of a row as it would have been measured nominally: mean (n,) and covariance (n, n).

    The covariance is None where the row was measured in full, with its nominal noise.
    """

    mean: np.ndarray
    covariance: np.ndarray | None = None


@dataclass(frozen=True)
class RowPattern:
    """Which units a row shows, shape (n_units,), and its noise covariance beyond the nominal, (n, n)."""

    seen: np.ndarray
    extra: np.ndarray

    @cached_property
    def is_nominal(self):
        """Whether nothing is missing from the row."""
        return bool(self.seen.all()) and not self.extra.any()


class _Step(NamedTuple):
    """Effect of a row of one pattern on a prediction of known covariance."""

    before: np.ndarray
    columns: np.ndarray
    gain: np.ndarray
    after: np.ndarray | None
    judged: np.ndarray  # covariance of the errors of the units that were seen

    @classmethod
    def make(cls, before, pattern, sizes):
        columns = np.flatnonzero(pattern.seen.repeat(sizes))
        if pattern.is_nominal:
            return cls(before, columns, np.eye(len(before)), None, before)
        if not len(columns):
            return cls(before, columns, np.zeros((len(before), 0)), before, np.zeros((0, 0)))
        judged = (before + pattern.extra)[np.ix_(columns, columns)]
        gain = np.linalg.solve(judged, before[columns]).T
        after = before - gain @ before[columns]
        return cls(before, columns, gain, (after + after.T) / 2, judged)


class _Judged:
    """Errors of rows and the covariances that they are judged by, gathered to be judged together.

    Rows of a plant with gaps mostly have covariances of their own, all of the same size while the same units are seen.
    """

    def __init__(self, energy, n_rows):
        self._energy, self._complete = energy, []
        self._groups: dict[bytes, tuple] = {}
        self.own = np.zeros((n_rows, len(energy.blocks)))
        self.given = np.zeros_like(self.own)
        self.errors = np.zeros((n_rows, len(energy.covariance)))

    def add(self, t, e, step, seen):
        """Take note of the errors of row t, those of the units that are `seen`."""
        self.errors[t, step.columns] = e
        if step.judged is self._energy.covariance:
            self._complete.append(t)
        elif len(step.columns):
            group = self._groups.setdefault(seen.tobytes(), (seen, step.columns, [], []))
            group[2].append(t)
            group[3].append(step.judged)

    def judge(self):
        """Surprises own and given of all rows, and their errors as far as the rows tell them.

        What a row with gaps is expected to say of the errors had nothing been missing: its own are noisier, and levels
        learned from these would be of noise.
        """
        e = self.errors[self._complete]
        self.own[self._complete], self.given[self._complete] = self._energy.own(e), self._energy.given_others(e)
        for seen, columns, rows, steps in self._groups.values():
            blocks, units = self._energy.without(~seen)[0].blocks, np.flatnonzero(seen)
            for k in range(0, len(rows), _TOGETHER):
                some, covariances = rows[k : k + _TOGETHER], np.array(steps[k : k + _TOGETHER])
                own, given, weighted = own_and_given(self.errors[np.ix_(some, columns)], covariances, blocks)
                self.own[np.ix_(some, units)], self.given[np.ix_(some, units)] = own, given
                expected = self._energy.covariance[np.ix_(columns, columns)] @ weighted[:, :, None]  # row by row
                self.errors[np.ix_(some, columns)] = expected[:, :, 0]
        return self.own, self.given, self.errors


def own_and_given(e, covariances, blocks):
    """Surprises of every unit in rows that have a covariance each, (n_rows, n, n): on its own, given the others.

    And the errors over these covariances.
    """
    precision, e = np.linalg.inv(covariances), e[:, :, None]
    weighted = precision @ e
    own, given = np.empty((2, len(e), len(blocks)))
    for m, b in enumerate(blocks):
        own[:, m] = (e[:, b] * np.linalg.solve(covariances[:, b, b], e[:, b])).sum(axis=(1, 2))
        given[:, m] = (weighted[:, b] * np.linalg.solve(precision[:, b, b], weighted[:, b])).sum(axis=(1, 2))
    return own, given, weighted[:, :, 0]


def surprises_with_gaps(regression: Predictor, energy, first, x, patterns, pattern_of, belief, level=0.0):
    """:class:`Surprises` of consecutive rows of one episode.

    `energy` is that of nominal rows after nominal rows, `first` the RowBelief about the first row of an
    episode, which is not judged, `belief` that about the row before (None: there is none). Row t of
    `x`, shape (n_samples, n), has ``patterns[pattern_of[t]]``; its numbers for absent units are not used. `level`,
    (n,), is the mean of errors that is taken off; absent units are believed to follow it too, while the belief about
    the others stays theirs. Errors are those that rows in full are expected to have, which the noise of rows with gaps
    does not make larger.
    """
    judged, steps = _Judged(energy, len(x)), dict[int, _Step]()
    sizes = [b.stop - b.start for b in energy.blocks]
    levels = np.zeros(x.shape[1]) + level
    for t, k in enumerate(pattern_of.tolist()):
        mean, covariance = _predicted(regression, energy, belief, first)
        off = levels if belief is not None else np.zeros_like(levels)
        step = steps.get(k)
        if step is None or np.abs(step.before - covariance).max() > _SETTLED * np.abs(covariance).max():
            step = steps[k] = _Step.make(covariance, patterns[k], sizes)
        beyond = x[t, step.columns] - mean[step.columns]
        e = beyond - off[step.columns]
        if belief is not None:
            judged.add(t, e, step, patterns[k].seen)
        updated = mean + off + step.gain @ e
        updated[step.columns] = mean[step.columns] + step.gain[step.columns] @ beyond
        belief = RowBelief(x[t] if step.after is None else updated, step.after)
    own, given, errors = judged.judge()
    return Surprises(errors, own, given, belief)


def _predicted(regression, energy, belief, first):
    """Mean and covariance of a row before it is looked at."""
    if belief is None:
        return first.mean, first.covariance
    mean = regression.predict(belief.mean[None])[0]
    if belief.covariance is None:
        return mean, energy.covariance
    slopes = regression.slopes(belief.mean)
    return mean, slopes @ belief.covariance @ slopes.T + energy.covariance
