"""Do the inputs move enough, and differently enough, to tell their effects apart?"""

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from ...statespace.episodes import episodes

_MAX_ORDER = 20
_WINDOWS = 5000  # stretches of an input that are looked at, evenly spread
_EXCITED = 1e-6  # share of an input's variance that steps before it must leave unexplained
_SAME = 1e-10  # share of an input's variance below which the other inputs determine it


class InputsNotSeparableError(ValueError):
    """Inputs that are linear combinations of each other."""

    def __init__(self, inputs, names=None):
        self.inputs = list(inputs)
        names = [f"number {k}" for k in self.inputs] if names is None else names
        super().__init__(
            f"The inputs {', '.join(names)} are linear combinations of each other: no record of this kind "
            "can tell their effects apart. Leave out what is redundant, or add time steps in which they "
            "moved separately."
        )


def check_separable(record):
    """Refuse inputs that determine each other."""
    if record.u is None:
        return
    u = record.standard_inputs
    check_independent(u.T @ u / len(u))


def check_independent(correlation):
    """Refuse inputs whose correlation matrix is singular."""
    values, vectors = np.linalg.eigh(correlation)
    null = vectors[:, values < _SAME]
    if null.size:
        involved = np.flatnonzero(np.abs(null).max(axis=1) > 1e-4)
        raise InputsNotSeparableError(involved)


def excitation_table(record, regressors):
    """How well each input is excited."""
    u = record.standard_inputs
    longest = min(_MAX_ORDER, max(min(np.diff([*record.starts, len(u)])) // 2, 1))
    orders = [_persistent_order(u[:, k], longest, record.starts) for k in range(u.shape[1])]
    precision = np.linalg.pinv(regressors, hermitian=True)
    k = u.shape[1]
    share = 1 / (np.diag(regressors) * np.diag(precision))[-k:]
    return pd.DataFrame({"std": record.input_scale, "order": orders, "share": np.clip(share, 0.0, 1.0)})


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
