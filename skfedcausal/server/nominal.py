"""What is usual: complete records out of partial ones, stretches to hold out, budgets the data support."""

import warnings
from dataclasses import replace

import numpy as np

from ..statespace.episodes import episodes
from ..statespace.lagcov import TransitionMoments, lag_covariances
from ..statespace.plant_em import expectation_maximisation
from ..statespace.units import moment_start
from .joint import JointRecord

_N_FOLDS = 4
_MIN_ROWS = 40


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


def usual_pattern(part):
    """The information matrix that holds most of the time, or the average one if there is none."""
    if part.is_constant:
        return part.patterns[0]
    counts = np.bincount(part.index, minlength=len(part.patterns))
    most = counts.argmax()
    return part.patterns[most] if 2 * counts[most] > len(part.index) else part.mean_information


def unusual_share(record):
    """Largest share of rows in which the sensors of a unit are not those that are there most of the time."""
    counts = (np.bincount(part.index) for part in record.parts if not part.is_constant)
    return 1.0 - min((c.max() / c.sum() for c in counts), default=1.0)


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


def learned_plant(x, starts, N, n_steps):
    """Plant learned from states as measured: closed form, then steps towards maximum likelihood.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n)
        Centred.
    starts : sequence of int
    N : ndarray of shape (n, n)
        Covariance of the states as measured around the states.
    n_steps : int

    Returns
    -------
    A, Q : ndarray of shape (n, n)
    """
    moments = TransitionMoments.from_sums(lag_covariances(x, range(3), starts), x, starts)
    A, Q = moment_start(moments, N)
    return expectation_maximisation(x, N, A, (Q + Q.T) / 2, starts, n_steps)


def inverse_root(covariance, ridge=1e-9):
    """L with ``L L' = covariance^-1``, a trace of ridge added."""
    n = len(covariance)
    covariance = np.atleast_2d(covariance) + ridge * np.trace(np.atleast_2d(covariance)) / n * np.eye(n)
    return np.linalg.cholesky(np.linalg.inv(covariance))


def filled_states(record, predicted):
    """States as measured, by the plant's prediction where a unit's sensors do not determine them."""
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        index = np.zeros(len(x), dtype=np.intp) if part.is_constant else part.index
        condition = np.linalg.cond(part.patterns)
        regular = condition < 1e8
        inverse = np.zeros_like(part.patterns)
        inverse[regular] = np.linalg.inv(part.patterns[regular])
        states = np.einsum("tij,tj->ti", inverse[index], part.z)
        x[:, b] = np.where(regular[index][:, None], states, predicted[:, b])
    return x


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
        raise ValueError("The episodes are too short to hold one out; give longer ones.")
    return folds


def part_of(record, start, stop):
    """Rows of one episode of a record."""
    parts = tuple(
        replace(
            part,
            z=part.z[start:stop],
            index=None if part.index is None else part.index[start:stop],
            const=None,
        )
        for part in record.parts
    )
    return JointRecord(record.names, parts, (0,))
