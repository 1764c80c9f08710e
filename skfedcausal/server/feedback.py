"""Do the inputs depend on the measurements?

A controller computes its input from noisy measurements. Moment estimates are biased then; a likelihood made
of one-step prediction errors, given the inputs up to then, is not. But the expected information supposes
inputs that do not depend on the noise, and counterfactuals have to say whether the controllers respond.
"""

import numpy as np
import pandas as pd
from scipy import stats

from ..statespace.episodes import episodes
from ..statespace.lagcov import PIECE, lag_covariances

_N_LAGS = 5
_LEVEL = 1e-3  # below which a test of no feedback rejects
_RANK = 1e-9


def feedback_table(record, updates):
    """Tests of no feedback from a unit's measurements to a unit's inputs.

    What a measurement adds to the filter, ``E[h_t | to t] - E[h_t | to t - 1]``, is white and independent of
    inputs that do not look at the measurements. The inputs are freed of their own linear past first (Granger
    causality from innovations to inputs [1]_); lags 0 to 4 are tested together.

    Parameters
    ----------
    record : JointRecord
        With inputs.
    updates : ndarray of shape (n_samples, n)
        Filtered less predicted states.

    Returns
    -------
    DataFrame
        With columns ``measured, controlled`` (units), ``statistic, p_value, p_adjusted`` (Bonferroni).

    References
    ----------
    .. [1] Caines, Chan (1975), Feedback between stationary stochastic processes, IEEE Transactions on
           Automatic Control 20(4).
    """
    rest = _without_own_past(record.standard_inputs, record.starts)
    partition = record.partition
    cross = _cross_sums(rest, updates, record.starts)
    own = [_inverse(rest[:, inputs].T @ rest[:, inputs]) for inputs in partition.input_slices]
    seen = [_inverse(updates[:, states].T @ updates[:, states]) for states in partition.slices]
    rows = []
    for n, inputs in enumerate(partition.input_slices):
        for m, states in enumerate(partition.slices):
            if inputs.start == inputs.stop:
                continue
            (left, left_rank), (right, right_rank) = own[n], seen[m]
            blocks = cross[:, inputs, states]
            statistic = record.n_samples * sum(np.trace(left @ C @ right @ C.T) for C in blocks)
            p_value = stats.chi2.sf(statistic, len(blocks) * left_rank * right_rank)
            rows.append((record.names[m], record.names[n], statistic, p_value))
    table = pd.DataFrame(rows, columns=["measured", "controlled", "statistic", "p_value"])
    return table.assign(p_adjusted=np.minimum(table["p_value"] * len(table), 1.0))


def _without_own_past(u, starts):
    """Residuals of a long autoregression of the inputs."""
    n_lags, k = _N_LAGS, u.shape[1]
    G = lag_covariances(u, range(n_lags + 1), starts)
    blocks = [[G[j - i] if j >= i else G[i - j].T for j in range(n_lags)] for i in range(n_lags)]
    past, cross = np.block(blocks), np.hstack(list(G[1:]))
    coefficients = np.linalg.lstsq(past, cross.T, rcond=1e-10)[0]
    rest = np.empty_like(u)
    for start, stop in episodes(starts, len(u)):
        rest[start:stop] = u[start:stop]
        for lag in range(1, min(n_lags, stop - start - 1) + 1):
            rest[start + lag : stop] -= u[start : stop - lag] @ coefficients[(lag - 1) * k : lag * k]
    return rest


def _cross_sums(late, early, starts):
    """``sum_t late[t] early[t-lag]'`` for lags 0 to 4, shape (n_lags, k, n)."""
    sums = np.zeros((_N_LAGS, late.shape[1], early.shape[1]))
    for start, stop in episodes(starts, len(late)):
        for first in range(start, stop, PIECE):
            for lag in range(_N_LAGS):
                last = min(first + PIECE, stop - lag)
                if first < last:
                    sums[lag] += late[first + lag : last + lag].T @ early[first:last]
    return sums


def _inverse(S):
    """Pseudo-inverse of a positive semidefinite matrix and its rank; an empty one has none."""
    if not S.size:
        return S, 0
    values, vectors = np.linalg.eigh(S)
    kept = values > _RANK * max(values[-1], np.finfo(float).tiny)
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return (vectors * inverse) @ vectors.T, int(kept.sum())


def controlled_units(table, names):
    """Units among `names` whose inputs depend on measurements, by the tests in a :func:`feedback_table`."""
    rejected = set(table.loc[table["p_adjusted"] < _LEVEL, "controlled"])
    return tuple(name for name in names if name in rejected)
