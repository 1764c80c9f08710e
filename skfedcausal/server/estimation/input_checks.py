"""Can the effects of the inputs be told apart, and do the inputs depend on the measurements?

A controller computes its input from noisy measurements. Moment estimates are biased then; a likelihood made
of one-step prediction errors, given the inputs up to then, is not. But the expected information supposes
inputs that do not depend on the noise, and counterfactuals have to say whether the controllers respond.
"""

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from scipy import stats

from ...statespace.episodes import (
    PIECE,
    add_product,
    block_toeplitz,
    episode_lengths,
    episodes,
    lag_covariances,
    symmetric,
)

_MAX_ORDER = 20
_WINDOWS = 5000  # stretches of an input that are looked at, evenly spread
_EXCITED = 1e-6  # share of an input's variance that steps before it must leave unexplained
_SAME = 1e-10  # share of an input's variance below which the other inputs determine it
_N_LAGS = 5
_LEVEL = 1e-3  # below which a test of no feedback rejects
_RANK = 1e-9


class InputsNotSeparableError(ValueError):
    """Inputs that are linear combinations of each other."""

    def __init__(self, inputs, names=None):
        self.inputs = list(inputs)
        names = [f"number {k}" for k in self.inputs] if names is None else names
        super().__init__(
            f"The inputs {', '.join(names)} are linear combinations of each other: no record of this kind can tell "
            "their effects apart. Leave out what is redundant, or add time steps in which they moved separately."
        )


def check_independent(correlation):
    """Refuse inputs whose correlation matrix is singular."""
    values, vectors = np.linalg.eigh(correlation)
    null = vectors[:, values < _SAME]
    if null.size:
        involved = np.flatnonzero(np.abs(null).max(axis=1) > 1e-4)
        raise InputsNotSeparableError(involved)


def excitation_table(record, regressors):
    """How well each input is excited."""
    u, scale = record.standard_known
    longest = min(_MAX_ORDER, max(min(episode_lengths(record.starts, len(u))) // 2, 1))
    orders = [_persistent_order(u[:, k], longest, record.starts) for k in range(u.shape[1])]
    precision = np.linalg.pinv(regressors, hermitian=True)
    k = u.shape[1]
    share = 1 / (np.diag(regressors) * np.diag(precision))[-k:]
    return pd.DataFrame({"std": scale, "order": orders, "share": np.clip(share, 0.0, 1.0)})


def _persistent_order(u, longest, starts):
    """Number of steps of an input that do not determine each other, by elimination."""
    thin = max(len(u) // _WINDOWS, 1)
    windows = [
        sliding_window_view(u[start:stop], longest)[::thin]
        for start, stop in episodes(starts, len(u))
        if stop - start >= longest
    ]
    gram = sum(w.T @ w for w in map(np.ascontiguousarray, windows))
    rest = gram / gram[0, 0]
    for order in range(longest):
        if rest[order, order] <= _EXCITED:
            return order
        rest = rest - np.outer(rest[:, order], rest[order]) / rest[order, order]
    return longest


def feedback_table(record, updates):
    """Tests of no feedback from a unit's measurements to a unit's inputs.

    What a measurement adds to the filter, ``E[h_t | to t] - E[h_t | to t - 1]``, is white and independent of
    inputs that do not look at the measurements. The inputs are freed of their own linear past first (Granger
    causality from innovations to inputs [1]_); lags 0 to 4 are tested together.

    .. [1] Caines, Chan (1975), Feedback between stationary stochastic processes, IEEE Transactions on
           Automatic Control 20(4).
    """
    partition = record.partition
    cross, inputs_squared, updates_squared = _sums(record, updates)
    own = [_inverse(inputs_squared[inputs, inputs]) for inputs in partition.input_slices]
    seen = [_inverse(updates_squared[states, states]) for states in partition.slices]
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


def _sums(record, updates):
    """Products of the inputs, freed of their own past, with the updates, and of either with itself."""
    u, partition = record.standard_known.series, record.partition
    coefficients = _own_past(u, record.starts)
    n, k = partition.n_states, partition.n_inputs
    cross, inputs_squared, updates_squared = np.zeros((_N_LAGS, k, n)), np.zeros((k, k)), np.zeros((n, n))
    for start, stop in episodes(record.starts, len(u)):
        for first in range(start, stop, PIECE):
            last = min(first + PIECE, stop)
            early = updates(first, last)
            late = _without_own_past(u[start:stop], coefficients, first - start, last - start + _N_LAGS - 1)
            n_late = min(len(late), last - first)
            there = late[:n_late]
            add_product(inputs_squared, there, there)
            add_product(updates_squared, early, early)
            for lag in range(_N_LAGS):
                both = min(len(late) - lag, last - first)
                if both > 0:
                    add_product(cross[lag], late[lag : lag + both], early[:both])
    return cross, symmetric(inputs_squared), symmetric(updates_squared)


def _own_past(u, starts):
    """Coefficients of a long autoregression of the inputs, one matrix per lag."""
    G = lag_covariances(u, range(_N_LAGS + 1), starts)
    past, cross = block_toeplitz(G[:_N_LAGS]), np.hstack(list(G[1:]))
    return np.linalg.lstsq(past, cross.T, rcond=1e-10)[0].reshape(_N_LAGS, *G[0].shape)


def _without_own_past(u, coefficients, first, last):
    """Rows of an episode's inputs less what the rows before them predict."""
    rest = u[first:last].copy()
    for lag, weights in enumerate(coefficients, 1):
        before = max(lag - first, 0)  # rows that have no row so far back
        if before < len(rest):
            rest[before:] -= u[first + before - lag : first + len(rest) - lag] @ weights
    return rest


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
