"""What is usual: complete records out of partial ones, stretches to hold out, budgets the data support."""

import warnings

import numpy as np
from scipy.stats import chi2

from ...statespace.detection.alarms import alarm_runs
from ...statespace.detection.shift import likelihood_ratios, step_information, step_scores
from ...statespace.em import expectation_maximisation
from ...statespace.episodes import TransitionMoments, episodes, lag_covariances
from ...statespace.units import moment_start

_N_FOLDS = 4
_MOST_ABSENT = 0.5  # share of the nominal rows in which a unit may be absent
_MOST_GAPS = 8  # stretches without some unit that are cut out of the nominal record
_LEAST_RUN = 4  # rows after the first that a stretch must have to learn from it
LEAST_ATTENDED = 0.2  # share of the rows with all units for these to be learned from alone
_MIN_ROWS = 4
_TAIL = 0.05  # share of nominal windows beyond the quantile that ratios are compared at


def watch_budget(run_length, n_samples):
    """Warn of a run length that the nominal record cannot support.

    A record shows nothing about events rarer than about two of its lengths.
    """
    if run_length > n_samples / 2:
        warnings.warn(
            f"One false alarm per {run_length:.0f} steps is asked for, but there are only {n_samples} "
            "nominal steps to set thresholds on; the rate achieved will be uncertain. Give more nominal "
            "data, or ask for a higher rate.",
            UserWarning,
            stacklevel=3,
        )


def check_enough_rows(n_rows, n_states):
    """Refuse a record whose states have no covariance of full rank."""
    if n_rows <= n_states:
        raise ValueError(
            f"{n_rows} nominal rows are too few to learn what is usual of {n_states} states of all units "
            "together. Give several times as many rows as states, or fewer states."
        )


def usual_pattern(part):
    """The information matrix that a unit has most of the time it is there.

    The average one if most of the time sensors are missing that are there at other times.
    """
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


def off_subspace(messages, record):
    """The units' off-subspace numbers side by side, zero for units that send none."""
    table = np.zeros((record.n_samples, len(record.names)))
    for m, name in enumerate(record.names):
        if messages[name].off_subspace is not None:
            table[:, m] = messages[name].off_subspace
    return table


def mean_dims(distance):
    """Degrees of freedom of the off-subspace numbers: their nominal mean, to the next integer."""
    return np.round(distance.mean(axis=0))


def learned_plant(x, starts, N, n_steps, support=None):
    """Plant learned from states as measured: closed form, then steps towards maximum likelihood.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n)
        Centred.
    starts : sequence of int
    N : ndarray of shape (n, n)
        Covariance of the states as measured around the states.
    n_steps : int
    support : ndarray of bool of shape (n, n), default=None
        Elements of A that may differ from zero.

    Returns
    -------
    A, Q : ndarray of shape (n, n)
    """
    moments = TransitionMoments.from_sums(lag_covariances(x, range(3), starts), x, starts)
    A, Q = moment_start(moments, N)
    return expectation_maximisation(x, N, A, (Q + Q.T) / 2, starts, n_steps, support)


def inverse_root(covariance, ridge=1e-9):
    """L with ``L L' = covariance^-1``, a trace of ridge added."""
    covariance = np.atleast_2d(covariance)
    n = len(covariance)
    covariance = covariance + ridge * np.trace(covariance) / n * np.eye(n)
    return np.linalg.cholesky(np.linalg.inv(covariance))


def direct_causes(A, covariance, slices, least=0.02):
    """Which units' states enter the next states of which: their share of its variance.

    Returns
    -------
    ndarray of bool, shape (n_units, n_units)
        Row: effect, column: cause; a unit is not its own.
    """
    causes = np.zeros((len(slices),) * 2, dtype=bool)
    for m, effect in enumerate(slices):
        for k, cause in enumerate(slices):
            carried = A[effect, cause] @ covariance[cause, cause] @ A[effect, cause].T
            shares = np.linalg.solve(covariance[effect, effect], carried)
            causes[m, k] = m != k and np.trace(shares) > least * len(shares)
    return causes


def filled_states(record, predicted):
    """States as measured, sensors that are missing at the plant's prediction of them.

    Where the information matrix is ``J_t`` instead of the usual J, ``J^-1 (z + (J - J_t) predicted)``.
    """
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        usual = usual_pattern(part)
        lacking = np.einsum("tij,tj->ti", (usual - part.patterns)[part.pattern_of], predicted[:, b])
        x[:, b] = np.linalg.solve(usual, (part.z + lacking).T).T
    return x


def attended_rows(record):
    """Rows in which every unit was there, a few in a row at least: their positions, and where rows lack."""
    there = np.ones(record.n_samples, dtype=bool)
    for part in record.parts:
        if not part.is_constant:
            there &= part.determined_rows
    rows, starts, n_rows = [], [], 0
    for start, stop in episodes(record.starts, record.n_samples):
        for first, last in alarm_runs(there[start:stop], 1):
            if last - first >= _LEAST_RUN:
                starts.append(n_rows)
                rows.append(np.arange(start + first, start + last + 1))
                n_rows += last + 1 - first
    return (np.concatenate(rows) if rows else np.zeros(0, dtype=int)), tuple(starts)


def rows_to_learn_from(record):
    """Rows from which the nominal spread is learned, and the first of each stretch of them.

    Those in which all units were there; all rows where these are few, or single ones lack here and there.

    Raises
    ------
    ValueError
        If some unit was absent in most of the rows.
    """
    for name, part in zip(record.names, record.parts, strict=True):
        if part.is_constant:
            continue
        share = 1 - np.mean(part.determined_rows)
        if share > _MOST_ABSENT:
            raise ValueError(
                f"Unit {name!r} is absent in {100 * share:.0f} % of the nominal rows, too many to tell what "
                "is usual there. Give rows in which its sensors are there, or leave the unit out."
            )
    rows, starts = attended_rows(record)
    scattered = len(starts) > len(record.starts) + _MOST_GAPS
    if scattered or len(rows) < LEAST_ATTENDED * record.n_samples:
        return np.arange(record.n_samples), record.starts
    return rows, starts


def held_out_folds(starts, n_samples):
    """Stretches of similar length that no episode border crosses, at least four.

    Returns
    -------
    list of tuple (start, stop)
    """
    if n_samples < _MIN_ROWS:
        raise ValueError(
            f"Got {n_samples} rows of nominal operation; setting thresholds on rows held out needs at least "
            f"{_MIN_ROWS}."
        )
    wanted = n_samples / _N_FOLDS
    folds = []
    for start, stop in episodes(starts, n_samples):
        bounds = np.linspace(start, stop, max(1, round((stop - start) / wanted)) + 1).astype(int)
        folds += [(int(i), int(j)) for i, j in zip(bounds[:-1], bounds[1:], strict=True) if j - i > 1]
    if len(folds) < 2:
        raise ValueError(
            f"The {len(starts)} stretches of rows in which every unit is there are too short to hold one "
            "out; give longer episodes, or rows with fewer gaps."
        )
    return folds


def usual_windows(held_out, slices, horizon, least):
    """Mean square of whitened innovations that nominal windows hardly pass, and by how much their ratios
    exceed chi-square there, at least `least`.

    Slow drifts that the plant's model does not have make innovations coherent without any fault.

    Parameters
    ----------
    held_out : sequence of tuple (InnovationModel, ndarray of shape (n_rows, n))
        Plant learned without a stretch, and the scaled innovations of the stretch.
    slices : sequence of slice
        States of each unit.
    horizon : int
        Rows of a window.
    least : float
    """
    squares, ratios = [], []
    for model, scaled in held_out:
        information = step_information(model.carry, model.weight, horizon)[-1:]
        for first in range(0, len(scaled) - horizon + 1, horizon // 2):
            window = scaled[first : first + horizon]
            squares.append(((window @ model.whitening) ** 2).mean())
            b = step_scores(model, window)[:1]
            ratios += [
                likelihood_ratios(b, information, s)[0] / chi2.isf(_TAIL, s.stop - s.start) for s in slices
            ]
    if not squares:
        return 1.0, least
    return float(np.quantile(squares, 1 - _TAIL)), max(float(np.quantile(ratios, 1 - _TAIL)), least)


def scale_dispersion(series, dof, horizon):
    """By how much log-likelihood ratios of a scale in nominal windows exceed chi-square.

    Parameters
    ----------
    series : sequence of ndarray of shape (n_rows, n_units)
        Squares over what is expected of them.
    dof : ndarray of shape (n_units,)
        Their degrees of freedom.
    horizon : int
        Rows of a window.
    """
    found = []
    for rows in series:
        for first in range(0, len(rows) - horizon + 1, horizon // 2):
            excess = np.maximum(rows[first : first + horizon].mean(axis=0), 1e-300)
            found += (horizon * dof * (excess - 1 - np.log(excess)))[dof > 0].tolist()
    return float(np.quantile(found, 1 - _TAIL)) / chi2.isf(_TAIL, 1) if found else 1.0
