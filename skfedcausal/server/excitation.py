"""Do the inputs move enough, and differently enough, to tell their effects apart?"""

import numpy as np
import pandas as pd

from ..statespace.lagcov import lag_covariances, remove_episode_means

_MAX_ORDER = 20
_EXCITED = 1e-6  # share of an input's variance that its own past may leave unexplained at least
_SAME = 1e-10  # share of an input's variance below which the other inputs determine it


class InputsNotSeparableError(ValueError):
    """Inputs that are linear combinations of each other.

    Attributes
    ----------
    inputs : list of int
        Their positions among the inputs of the plant.
    """

    def __init__(self, inputs, names=None):
        self.inputs = list(inputs)
        names = [f"number {k}" for k in self.inputs] if names is None else names
        super().__init__(
            f"The inputs {', '.join(names)} are linear combinations of each other: no record of this kind "
            "can tell their effects apart. Leave out what is redundant, or add time steps in which they "
            "moved separately."
        )


def check_separable(record):
    """Refuse inputs that determine each other.

    Raises
    ------
    InputsNotSeparableError
    """
    if record.u is None:
        return
    centred = remove_episode_means(record.u, record.starts) / record.input_scale
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    null = vectors[:, values < _SAME]
    if null.size:
        involved = np.flatnonzero(np.abs(null).max(axis=1) > 1e-4)
        raise InputsNotSeparableError(involved)


def excitation_table(record, regressors):
    """How well each input is excited.

    Parameters
    ----------
    record : JointRecord
        With inputs.
    regressors : ndarray of shape (n + k, n + k)
        Covariance of states and inputs.

    Returns
    -------
    DataFrame
        One row per input: ``std`` within the episodes, ``order`` of persistent excitation (the number of
        lags of the input that are linearly independent, at most 20), ``share`` of its variance that is
        neither explained by the other inputs nor by the states of the same time step.
    """
    u = remove_episode_means(record.u, record.starts) / record.input_scale
    longest = min(_MAX_ORDER, max(min(np.diff([*record.starts, len(u)])) // 2, 1))
    orders = [_persistent_order(u[:, k : k + 1], longest, record.starts) for k in range(u.shape[1])]
    precision = np.linalg.pinv(regressors, hermitian=True)
    k = u.shape[1]
    share = 1 / (np.diag(regressors) * np.diag(precision))[-k:]
    return pd.DataFrame({"std": record.input_scale, "order": orders, "share": np.clip(share, 0.0, 1.0)})


def _persistent_order(u, longest, starts):
    """Number of lags until the input's own past determines it, by the Levinson-Durbin recursion."""
    G = lag_covariances(u, range(longest + 1), starts)[:, 0, 0]
    coefficients, error = np.zeros(0), G[0]
    for order in range(1, longest):
        reflection = (G[order] - coefficients @ G[order - 1 : 0 : -1]) / error
        coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
        error *= 1 - reflection**2
        if error <= _EXCITED * G[0]:
            return order
    return longest
