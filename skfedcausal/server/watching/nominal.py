"""The nominal record: complete rows of it to learn from, and how far nominal windows stray.

Imputed measurements have to vary as the missing ones would have. Their expectations do not: a record filled
with these looks calmer than the plant is, and thresholds set on it are too low. So the server draws them
from their distribution given the rest of the record.
"""

from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from ...statespace.detection.energy import block_diagonal, block_sums
from ...statespace.detection.shift import InnovationModel, likelihood_ratios, step_scores
from ...statespace.episodes import episodes, inner_rows
from ...statespace.matrices import eigen_root, floor_eigenvalues
from ...statespace.simulation import simulated_information, simulated_states
from .thresholds import alarm_runs
from .tuning import TUNING

LEAST_ATTENDED = 0.2  # share of the rows with all units for these to be learned from alone


class NominalRows(NamedTuple):
    """Complete nominal rows: usual information matrix (n, n), states (n_rows, n), off-subspace numbers
    (n_rows, n_units), first rows of segments, and (start, stop) of the folds that are held out in turn.
    """

    J: np.ndarray
    x: np.ndarray
    distance: np.ndarray
    starts: tuple[int, ...]
    folds: list[tuple[int, int]]

    @classmethod
    def of(cls, plant, messages, record, rng):
        """Rows of the messages that a plant was fitted to; raises ValueError if these are too few."""
        rows, starts = rows_to_learn_from(record)
        n_states = record.partition.n_states
        if len(rows) <= n_states:
            known = f"{len(rows)} nominal rows are too few to learn what is usual of {n_states} states of all units"
            raise ValueError(f"{known} together. Give several times as many rows as states, or fewer states.")
        folds = held_out_folds(starts, len(rows))
        distance = complete_distance(off_subspace(messages, record), record, rng)[rows]
        x = complete_states(plant, messages, record, rng)[rows]
        J = record.block_diagonal([usual_pattern(part) for part in record.parts])
        return cls(J, x, distance, starts, folds)

    def held_out(self, series):
        """A series of these rows by fold, without the first row of each."""
        return [series[start + 1 : stop] for start, stop in self.folds]


# -- rows to learn from ----------------------------------------------------------------------------------


def attended_rows(record):
    """Rows with every unit there, a few in a row at least: their positions, starts of segments."""
    there = np.ones(record.n_samples, dtype=bool)
    for part in record.parts:
        if not part.is_constant:
            there &= part.determined_rows
    rows, starts, n_rows = [np.arange(0)], [], 0
    for start, stop in episodes(record.starts, record.n_samples):
        for first, last in alarm_runs(there[start:stop], 1):
            if last - first >= TUNING.nominal_least_run:
                starts.append(n_rows)
                rows.append(np.arange(start + first, start + last + 1))
                n_rows += last + 1 - first
    return np.concatenate(rows), tuple(starts)


def rows_to_learn_from(record):
    """Rows from which the nominal spread is learned, and the first of each segment of them.

    Those with all units; all rows where these are few or scattered. ValueError if a unit was absent in most of them.
    """
    for name, part in zip(record.names, record.parts, strict=True):
        share = 0.0 if part.is_constant else 1 - np.mean(part.determined_rows)
        if share > TUNING.nominal_most_absent:
            found = (
                f"Unit {name!r} is absent in {100 * share:.0f} % of the nominal rows, too many to tell what is usual"
            )
            raise ValueError(f"{found} there. Give rows in which its sensors are there, or leave the unit out.")
    rows, starts = attended_rows(record)
    scattered = len(starts) > len(record.starts) + TUNING.nominal_most_gaps
    if scattered or len(rows) < LEAST_ATTENDED * record.n_samples:
        return np.arange(record.n_samples), record.starts
    return rows, starts


def held_out_folds(starts, n_samples):
    """(start, stop) of segments of similar length, two at least, that no episode border crosses."""
    if n_samples < TUNING.nominal_min_rows:
        needs = f"setting thresholds on rows held out needs at least {TUNING.nominal_min_rows}"
        raise ValueError(f"Got {n_samples} rows of nominal operation; {needs}.")
    wanted = n_samples / TUNING.nominal_n_folds
    folds = []
    for start, stop in episodes(starts, n_samples):
        bounds = np.linspace(start, stop, max(1, round((stop - start) / wanted)) + 1).astype(int).tolist()
        folds += [(i, j) for i, j in zip(bounds[:-1], bounds[1:], strict=True) if j - i > 1]
    if len(folds) < 2:
        found = f"The {len(starts)} segments of rows in which every unit is there are too short to hold one out"
        raise ValueError(f"{found}; give longer episodes, or rows with fewer gaps.")
    return folds


def off_subspace(messages, record):
    """The units' off-subspace numbers, shape (n_samples, n_units), zero for units that send none."""
    table = np.zeros((record.n_samples, len(record.names)))
    for m, name in enumerate(record.names):
        if messages[name].off_subspace is not None:
            table[:, m] = messages[name].off_subspace
    return table


# -- imputation ------------------------------------------------------------------------------------------


def usual_pattern(part):
    """Information matrix that a unit mostly has, the average one if sensors come and go most of the time."""
    if part.is_constant:
        return part.patterns[0]
    counts = np.bincount(part.index, minlength=len(part.patterns))
    counts *= part.regular_patterns  # of the rows in which the unit was there
    if not counts.any():
        return part.mean_information
    most, full = counts.argmax(), np.trace(part.patterns, axis1=1, axis2=2).argmax()
    if most == full and 2 * counts[most] > counts.sum():
        return part.patterns[most]
    return np.tensordot(counts / counts.sum(), part.patterns, 1)


def filled_states(record, predicted):
    """States as measured, missing sensors at the plant's prediction of them.

    Where the information matrix is ``J_t`` instead of the usual J, ``J^-1 (z + (J - J_t) predicted)``.
    """
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        usual = usual_pattern(part)
        lacking = np.einsum("tij,tj->ti", (usual - part.patterns)[part.pattern_of], predicted[:, b])
        x[:, b] = np.linalg.solve(usual, (part.z + lacking).T).T
    return x


def complete_states(plant, messages, record, rng):
    """States as measured, shape (n_samples, n), had every unit's usual sensors been there.

    ``J^-1 (z + (J - J_t) h + e)`` with a draw h of the states given the record and one e of covariance ``J - J_t``.
    """
    states = None if record.is_constant else draw_states(plant, messages, record, rng)
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        usual, z = usual_pattern(part), part.z
        if states is not None and not part.is_constant:
            lacking = floor_eigenvalues(usual - part.patterns, 0.0)
            z = z + simulated_information(lacking, part.index, states[:, b], rng)
        x[:, b] = np.linalg.solve(usual, z.T).T
    return x


def complete_distance(distance, record, rng):
    """Off-subspace numbers, (n_samples, n_units), those of rows without a unit drawn from its others."""
    distance = distance.copy()
    for m, part in enumerate(record.parts):
        if not part.is_constant:
            there = part.determined_rows
            distance[~there, m] = rng.choice(distance[there, m], np.count_nonzero(~there))
    return distance


def draw_states(plant, messages, record, rng):
    """States of the plant, shape (n_samples, n), drawn from their distribution given the whole record.

    A simulated plant shows by how much smoothed states miss the true ones (Durbin & Koopman 2002, A simple
    and efficient simulation smoother for state space time series analysis).
    """
    A, Q = getattr(plant, "lag_transitions_", plant.transition_), plant.process_cov_
    model = InnovationModel(A, Q, record.mean_information())
    states = simulated_states(model.transition, model.process_cov, record.starts, record.n_samples, rng)
    simulated = states[:, : model.n_states]
    rest = {}
    for name, part, b in zip(record.names, record.parts, record.partition.slices, strict=True):
        seen = simulated_information(part.patterns, part.pattern_of, simulated[:, b], rng)
        rest[name] = replace(messages[name], z=part.z - seen)
    return simulated + plant._abducted_states(rest)


# -- nominal spread --------------------------------------------------------------------------------------


def inverse_root(covariance, ridge=1e-9):
    """L with ``L L' = covariance^-1``, a share of the mean variance added as a ridge."""
    C = np.atleast_2d(covariance)
    try:
        return np.linalg.cholesky(np.linalg.inv(C + ridge * np.trace(C) / len(C) * np.eye(len(C))))
    except np.linalg.LinAlgError:
        raise ValueError(
            "States of units determine each other, or hardly vary beside others: a detector cannot tell them "
            "apart. Leave out units seen in few rows, copies of units, and sensors that are computed from others."
        ) from None


def direct_causes(A, covariance, slices, least=0.02):
    """Whether a unit's states enter the next states of another, by its share of their variance.

    A, (n, n p), has all lags side by side, and `covariance` is that of the states with them. Shape (n_units, n_units),
    row: effect, column: cause; a unit is not its own.
    """
    causes, lags = np.zeros((len(slices),) * 2, dtype=bool), np.arange(A.shape[1] // len(A))[:, None] * len(A)
    for m, k in permutations(range(len(slices)), 2):
        effect, cause = slices[m], (lags + np.arange(slices[k].start, slices[k].stop)).ravel()
        carried = A[effect, cause] @ covariance[np.ix_(cause, cause)] @ A[effect, cause].T
        shares = np.linalg.solve(covariance[effect, effect], carried)
        causes[m, k] = np.trace(shares) > least * len(shares)
    return causes


def curved_causes(x, starts, slices, least=0.02):
    """Whether the size of a unit's states, not their sign, moves those of another, (n_units, n_units).

    If only by way of others; by the squared correlation of what a linear model of rows x leaves of either. Row: effect,
    column: cause.
    """
    rows, z = inner_rows(len(x), starts), (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    past = np.column_stack([np.ones(len(rows)), z[rows - 1]])
    both = np.hstack([z[rows], np.abs(z[rows - 1])])
    left = both - past @ np.linalg.lstsq(past, both, rcond=None)[0]
    n = x.shape[1]
    shares = np.nan_to_num(np.corrcoef(left.T)[:n, n:] ** 2)
    shares = np.array([[shares[a, b].max() for b in slices] for a in slices])
    return by_way_of_others(shares > least + TUNING.nominal_curved_rows / len(rows))


def by_way_of_others(causes):
    """Which units act on which, if only by way of others, (n_units, n_units), from which do so directly."""
    itself = np.eye(len(causes), dtype=bool)
    return np.linalg.matrix_power(causes | itself, len(causes)) & ~itself


def usual_windows(held_out, slices, horizon, least):
    """Mean square of whitened innovations that nominal windows of `horizon` rows hardly pass, and by how much
    their likelihood ratios exceed chi-square, at least `least`.

    `held_out` are pairs of a model learned without a segment and the scaled innovations of the segment.
    """
    squares, ratios = [], []
    for model, scaled in held_out:
        information = model.step_information(horizon)[-1:]
        for first in range(0, len(scaled) - horizon + 1, horizon // 2):
            window = scaled[first : first + horizon]
            squares.append(((window @ model.whitening) ** 2).mean())
            b = step_scores(model, window)[:1]
            ratios += [
                likelihood_ratios(b, information, s)[0] / chi2.isf(TUNING.nominal_tail, s.stop - s.start)
                for s in slices
            ]
    if not squares:
        return 1.0, least
    return float(np.quantile(squares, 1 - TUNING.nominal_tail)), max(
        float(np.quantile(ratios, 1 - TUNING.nominal_tail)), least
    )


def scale_dispersion(series, dof, horizon):
    """By how much log-likelihood ratios of a scale in nominal windows exceed chi-square, at least one.

    From squares over their expectations, (n_rows, n_units) by segment, and their degrees of freedom, (n_units,).
    """
    found = []
    for rows in series:
        for first in range(0, len(rows) - horizon + 1, horizon // 2):
            excess = np.maximum(rows[first : first + horizon].mean(axis=0), 1e-300)
            found += (horizon * dof * (excess - 1 - np.log(excess)))[dof > 0].tolist()
    return (
        max(float(np.quantile(found, 1 - TUNING.nominal_tail)) / chi2.isf(TUNING.nominal_tail, 1), 1.0)
        if found
        else 1.0
    )


class OffSubspace:
    """Expected off-subspace numbers given the states, ``a_m + x_m' B_m x_m`` with B_m positive semidefinite.

    A victim whose states are pushed far shows it off its subspace as well; divided by the expectation, what the
    states do not explain has mean one. Learned from nominal states, (n_samples, n), and numbers, (n_samples, n_units),
    zero for units that send none: least squares weighted by the inverse squared expectation, which is maximum
    likelihood for gamma-distributed numbers.
    """

    def __init__(self, x, distance, slices):
        self._sums = block_sums(slices)
        self._least, roots = np.ones(len(slices)), [np.zeros((b.stop - b.start,) * 2) for b in slices]
        for m, b in enumerate(slices):
            if distance[:, m].any():
                self._least[m], roots[m] = quadratic_scale(x[:, b], distance[:, m])
        self._roots = block_diagonal(roots)

    def relative(self, x, distance):
        """Off-subspace numbers over their expectation from the states of the same rows."""
        return distance / (self._least + (x @ self._roots) ** 2 @ self._sums)


def quadratic_scale(x, g):
    """a and R of the expectation ``a + |x R|^2`` of g."""
    white = inverse_root(x.T @ x / len(x))
    x = x @ white
    i, j = np.triu_indices(x.shape[1])
    terms = np.column_stack([np.ones(len(x)), x[:, i] * x[:, j]])
    expected = np.full(len(x), g.mean())
    for _ in range(TUNING.nominal_reweightings):
        coefficients = np.linalg.lstsq(terms / expected[:, None], g / expected, rcond=None)[0]
        B = np.zeros((x.shape[1],) * 2)
        B[i, j] = coefficients[1:] / 2
        root = eigen_root(B + B.T)
        least = max(coefficients[0], 0.01 * g.mean())
        expected = least + ((x @ root) ** 2).sum(axis=1)
        scale = (g / expected).mean()
        expected *= scale
    return scale * least, np.sqrt(scale) * white @ root
