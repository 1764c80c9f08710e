"""What a fit says when its result is not to be relied on."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

# a plant drifts if T (1 - |eigenvalue|) is below this (three of four random walks without
# measurement noise are, by the distribution of Dickey and Fuller's coefficient), in long and short records
_DRIFT = 8.0
_SLOW = 0.98
_USER = 6  # frames from here to whoever called `fit` of an estimator


def warn_of_convergence(server):
    """Say that the climb ended early."""
    if not server.converged_:
        warnings.warn(
            f"The likelihood did not converge: after {server.n_iter_} iterations its gradient per time "
            f"step has length {server.gradient_norm_:.2e} (tol={server.tol:.0e}). Raise max_iter, give "
            "fewer states or more data; the links are tested at the point reached.",
            ConvergenceWarning,
            stacklevel=_USER,
        )


def warn_of_drift(server, n_samples):
    """Say which units cannot be told from random walks."""
    values, modes = np.linalg.eig(server.unshrunk_transition_)
    slow = np.abs(values) > max(1 - _DRIFT / n_samples, _SLOW)
    carriers = {int(np.abs(mode).argmax()) for mode in modes.T[slow]}
    drifting = [
        name
        for name, rows in server.state_slices_.items()
        if carriers.intersection(range(rows.start, rows.stop))
    ]
    if drifting:
        warnings.warn(
            f"Units whose states drift like a random walk within this record: {', '.join(drifting)}. "
            "Units that drift on their own seem to influence each other. Give differences or detrended "
            "measurements, or a record that is long against the drift.",
            UserWarning,
            stacklevel=_USER,
        )
