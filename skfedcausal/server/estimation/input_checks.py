"""Can the effects of inputs be told apart, and do inputs move with what they cannot have caused?"""

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
    lagged_rows,
    symmetric,
)
from ..lagged.misfit import combined
from .tuning import TUNING

# Can the effects of the inputs be told apart, and do the inputs depend on the measurements?
#
# A controller computes its input from noisy measurements. Moment estimates are biased then; a likelihood made
# of one-step prediction errors, given the inputs up to then, is not. But the expected information supposes
# inputs that do not depend on the noise, and counterfactuals have to say whether the controllers respond.

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


# Do inputs move with what they cannot have caused? Then something that nobody measures may move both.
#
# What a measurement adds to the filter comes before what is new in later inputs. Where the two go together, either a
# hidden cause moves both, or somebody sets the input by what was measured. A record cannot say which, and with a hidden
# cause the effect of the input is wrong. Units read what they measure themselves, so that only measurements of other
# units are suspicious.

_DECAYS = (0.5, 0.8)  # of the weights by which the rows that an input comes later are added up
HELD = (1, 2, 4, 8, 16, 32, 64)  # rows over which inputs are averaged
_LONGEST = 50_000  # rows that a suspicion is looked into with


def hidden_cause_table(record, updates, sums):
    """Tests of the inputs of every unit against measurements of every other one, a row each.

    `updates` and `sums` as in :func:`~.input_checks.feedback_table`. Where inputs are suspect, the test is made once
    more with what is left of them given the measurements of their own unit up to their row: what other units have done
    to these comes on to the inputs through a controller that reads them.
    """
    partition, names = record.partition, record.names
    cross, inputs_squared, updates_squared = sums
    with_inputs = [n for n, inputs in enumerate(partition.input_slices) if inputs.stop > inputs.start]
    pairs = [(n, m) for n in with_inputs for m in range(partition.n_units) if m != n]
    p_values: list[float] = []
    for n in with_inputs:
        inputs = partition.input_slices[n]
        others = [partition.slices[m] for own, m in pairs if own == n]
        later, squared = cross[N_LAGS + 1 :, inputs], inputs_squared[inputs, inputs]
        first = [_p_value(later, squared, updates_squared, rows, record.n_samples) for rows in others]
        if any(p * len(pairs) < TUNING.hidden_causes_level for p in first):
            later, squared = _given_own_measurements(record, updates, n)
            n_rows = min(record.n_samples, _LONGEST)
            again = [_p_value(later, squared, updates_squared, rows, n_rows) for rows in others]
            first = [max(both) for both in zip(first, again, strict=True)]
        p_values += first
    table = pd.DataFrame([(names[n], names[m]) for n, m in pairs], columns=["input_of", "measured"], dtype=object)
    table["p_value"] = np.array(p_values)
    table["p_adjusted"] = np.minimum(table["p_value"] * len(table), 1.0)
    return table.assign(suspect=table["p_adjusted"] < TUNING.hidden_causes_level)


def held_variances(u, starts):
    """Variance of means of inputs (n_samples, k) over 1, 2, 4, ... rows times their number, (n_windows, k).

    That of the row for inputs that are new in every row, more for those that stay. The last one stands for windows
    that no episode holds.
    """
    found: list[np.ndarray] = []
    for n_rows in HELD:
        pieces = []
        for start, stop in episodes(starts, len(u)):
            total = np.vstack([np.zeros_like(u[:1]), np.cumsum(u[start:stop], axis=0)])
            pieces.append(total[n_rows:] - total[:-n_rows])
        sums = np.concatenate(pieces)
        found.append(sums.var(axis=0) / n_rows if len(sums) > n_rows else found[-1])
    return np.array(found)


def _p_value(cross, inputs_squared, updates_squared, states, n_rows):
    """From sums of products (n_lags, k, n) of updates with inputs of 1, 2, ... rows later, and of each with itself.

    Lags are independent of each other if nothing goes together, so that their sums by weights that decay are tests
    as well as all of them together; the p-values are combined by Cauchy's rule.
    """
    (L, n_left), (R, n_right) = pseudo_inverse(inputs_squared), pseudo_inverse(updates_squared[states, states])
    blocks = cross[:, :, states]
    weights = [decay ** np.arange(len(blocks)) for decay in _DECAYS]
    weighted = [np.tensordot(w, blocks, 1) / np.linalg.norm(w) for w in weights]
    by_lag, by_weight = ([n_rows * np.trace(L @ C @ R @ C.T) for C in part] for part in (blocks, weighted))
    freedom = n_left * n_right
    p_values = [stats.chi2.sf(size, freedom) for size in by_weight]
    return float(combined(np.array([*p_values, stats.chi2.sf(sum(by_lag), len(blocks) * freedom)])))


def _given_own_measurements(record, updates, unit):
    """Such sums for the inputs of a unit freed of all inputs' past and of what the unit has measured so far."""
    inputs = record.partition.input_slices[unit]
    u, z = record.standard_known.series, record.parts[unit].z
    n_past, left = n_past_rows(u), _LONGEST
    pieces = []
    for start, stop in episodes(record.starts, len(u)):
        stop = min(stop, start + left)
        left -= stop - start
        if stop - start > 1:
            rows = slice(start, stop)
            read = z[rows], lagged_rows(z[rows], TUNING.hidden_causes_read - 1)
            known = np.hstack([lagged_rows(u[rows], n_past), *read])
            pieces.append((u[rows, inputs], known, updates(start, stop)))
    known = np.vstack([piece[1] for piece in pieces])
    known = (known - known.mean(axis=0)) / np.maximum(known.std(axis=0), np.finfo(float).tiny)
    there = np.vstack([piece[0] for piece in pieces])
    rest = there - known @ np.linalg.lstsq(known, there, rcond=1e-10)[0]
    cross, first = np.zeros((N_LAGS - 1, rest.shape[1], record.partition.n_states)), 0
    for own, _, early in pieces:
        late = rest[first : first + len(own)]
        first += len(own)
        for k in range(1, min(N_LAGS, len(own))):
            cross[k - 1] += late[k:].T @ early[:-k]
    return cross, rest.T @ rest
