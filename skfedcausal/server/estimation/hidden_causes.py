"""Do inputs move with what they cannot have caused? Then something that nobody measures may move both.

What a measurement adds to the filter comes before what is new in later inputs. Where the two go together, either a
hidden cause moves both, or somebody sets the input by what was measured. A record cannot say which, and with a hidden
cause the effect of the input is wrong. Units read what they measure themselves, so that only measurements of other
units are suspicious.
"""

import numpy as np
import pandas as pd
from scipy import stats

from ...statespace.episodes import episodes, lagged_rows
from ..lagged.misfit import combined
from .input_checks import N_LAGS, n_past_rows, pseudo_inverse
from .tuning import TUNING

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
