"""Can the effects of the inputs be told apart, and do the inputs depend on the measurements?

A controller computes its input from noisy measurements. Moment estimates are biased then; a likelihood made
of one-step prediction errors, given the inputs up to then, is not. But the expected information supposes
inputs that do not depend on the noise, and counterfactuals have to say whether the controllers respond.
"""

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from scipy import stats
from scipy.linalg import pinvh

from ...statespace.episodes import (
    PIECE,
    add_product,
    block_toeplitz,
    episode_lengths,
    episodes,
    lag_covariances,
    symmetric,
)
from .tuning import TUNING

N_LAGS = 5  # rows between an input and a measurement that are tested
_ROWS_PER_LAG = 4  # and at least so many rows of the record for each of them and each input


class InputsNotSeparableError(ValueError):
    """Inputs that are linear combinations of each other."""

    def __init__(self, inputs, names=None):
        self.inputs = list(inputs)
        names = [f"number {k}" for k in self.inputs] if names is None else names
        super().__init__(
            f"The inputs {', '.join(names)} are linear combinations of each other: no record of this kind can tell "
            "their effects apart. Leave out what is redundant, or add time steps in which they moved separately. An "
            "input that acts on several units is given once: inputs={(unit, other): U}."
        )


def check_independent(correlation):
    """Refuse inputs whose correlation matrix is singular."""
    values, vectors = np.linalg.eigh(correlation)
    null = vectors[:, values < TUNING.input_checks_same]
    if null.size:
        involved = np.flatnonzero(np.abs(null).max(axis=1) > 1e-4)
        raise InputsNotSeparableError(involved)


def excitation_table(record, regressors):
    """How well each input is excited."""
    u, scale = record.standard_known
    longest = min(TUNING.input_checks_max_order, max(min(episode_lengths(record.starts, len(u))) // 2, 1))
    orders = [_persistent_order(u[:, k], longest, record.starts) for k in range(u.shape[1])]
    precision = np.linalg.pinv(regressors, hermitian=True)
    k = u.shape[1]
    share = 1 / (np.diag(regressors) * np.diag(precision))[-k:]
    return pd.DataFrame({"std": scale, "order": orders, "share": np.clip(share, 0.0, 1.0)})


def _persistent_order(u, longest, starts):
    """Number of steps of an input that do not determine each other, by elimination."""
    thin = max(len(u) // TUNING.input_checks_windows, 1)
    windows = [sliding_window_view(u[start:stop], longest)[::thin] for start, stop in episodes(starts, len(u))]
    gram = sum(w.T @ w for w in map(np.ascontiguousarray, windows))
    rest = gram / gram[0, 0]
    for order in range(longest):
        if rest[order, order] <= TUNING.input_checks_excited:
            return order
        rest = rest - np.outer(rest[:, order], rest[order]) / rest[order, order]
    return longest


def feedback_table(record, updates, sums=None):
    """Tests of every pair of a unit's measurements and a unit's inputs: feedback, same row, misfit.

    What a measurement adds to the filter, ``E[h_t | to t] - E[h_t | to t - 1]``, is white and independent of
    inputs that do not look at the measurements. The inputs are freed of their own linear past first (Granger
    causality from innovations to inputs [1]_), of so many rows that what a plant of the wrong dynamics leaves
    of earlier inputs in the updates is in there. Then

    - updates correlated with what is new in *later* inputs (1 to 4 rows): feedback;
    - with what is new in the inputs of the same row: feedback within the row, or inputs that act at once;
    - with what was new in *earlier* inputs (1 to 5 rows): the plant's dynamics do not fit, whoever sets the
      inputs.

    .. [1] Caines, Chan (1975), Feedback between stationary stochastic processes, IEEE Transactions on
           Automatic Control 20(4).
    """
    partition = record.partition
    cross, inputs_squared, updates_squared = input_sums(record, updates) if sums is None else sums
    own = [pseudo_inverse(inputs_squared[inputs, inputs]) for inputs in partition.input_slices]
    seen = [pseudo_inverse(updates_squared[states, states]) for states in partition.slices]
    rows = []
    for n, inputs in enumerate(partition.input_slices):
        for m, states in enumerate(partition.slices):
            if inputs.start == inputs.stop:
                continue
            (left, left_rank), (right, right_rank) = own[n], seen[m]
            blocks = cross[:, inputs, states]
            by_lag = record.n_samples * np.array([np.trace(left @ C @ right @ C.T) for C in blocks])
            row = [record.names[m], record.names[n]]
            for lags in (slice(N_LAGS + 1, None), slice(N_LAGS, N_LAGS + 1), slice(N_LAGS)):
                freedom = len(by_lag[lags]) * left_rank * right_rank
                row += [by_lag[lags].sum(), stats.chi2.sf(by_lag[lags].sum(), freedom)]
            rows.append(row)
    kinds = ("", "same_row_", "misfit_")
    columns = [f"{kind}{name}" for kind in kinds for name in ("statistic", "p_value")]
    table = pd.DataFrame(rows, columns=["measured", "controlled", *columns])
    table.insert(4, "p_adjusted", np.minimum(table["p_value"] * len(table), 1.0))
    return table


def input_sums(record, updates):
    """Products of the inputs, freed of their own past, with the updates, and of either with itself.

    The first index of the former is how many rows the input comes later, from -`N_LAGS` on.
    """
    u, partition = record.standard_known.series, record.partition
    coefficients = _own_past(u, record.starts)
    n, k = partition.n_states, partition.n_inputs
    lags = range(-N_LAGS, N_LAGS)
    cross, inputs_squared, updates_squared = np.zeros((len(lags), k, n)), np.zeros((k, k)), np.zeros((n, n))
    for start, stop in episodes(record.starts, len(u)):
        for first in range(start, stop, PIECE):
            last = min(first + PIECE, stop)
            early = updates(first, last)
            ahead = min(first - start, N_LAGS)  # rows before this piece
            rest = _without_own_past(u[start:stop], coefficients, first - start - ahead, last - start + N_LAGS - 1)
            there = rest[ahead : ahead + last - first]
            add_product(inputs_squared, there, there)
            add_product(updates_squared, early, early)
            for lag in lags:
                begin = max(-lag - ahead, 0)  # the first update that has an input so far back
                both = min(len(rest) - ahead - lag, last - first) - begin
                if both > 0:
                    late = rest[ahead + lag + begin :][:both]
                    add_product(cross[lag + N_LAGS], late, early[begin : begin + both])
    return cross, symmetric(inputs_squared), symmetric(updates_squared)


def n_past_rows(u):
    """Rows of their own past that inputs (n_samples, k) are freed of."""
    return int(np.clip(len(u) // (_ROWS_PER_LAG * u.shape[1]), N_LAGS, TUNING.input_checks_max_past))


def _own_past(u, starts):
    """Coefficients of a long autoregression of the inputs, one matrix per lag."""
    n_lags = n_past_rows(u)
    G = lag_covariances(u, range(n_lags + 1), starts)
    past, cross = block_toeplitz(G[:n_lags]), np.hstack(list(G[1:]))
    return np.linalg.lstsq(past, cross.T, rcond=1e-10)[0].reshape(n_lags, *G[0].shape)


def _without_own_past(u, coefficients, first, last):
    """Rows of an episode's inputs less what the rows before them predict."""
    rest = u[first:last].copy()
    for lag, weights in enumerate(coefficients, 1):
        before = max(lag - first, 0)  # rows that have no row so far back
        if before < len(rest):
            rest[before:] -= u[first + before - lag : first + len(rest) - lag] @ weights
    return rest


def pseudo_inverse(S):
    """Pseudo-inverse of a positive semidefinite matrix and its rank; an empty one has none."""
    if not S.size:
        return S, 0
    return pinvh(S, rtol=TUNING.input_checks_rank, return_rank=True)


def controlled_units(table, names):
    """Units among `names` whose inputs depend on measurements, by the tests in a :func:`feedback_table`."""
    rejected = set(table.loc[table["p_adjusted"] < TUNING.input_checks_level, "controlled"])
    return tuple(name for name in names if name in rejected)
