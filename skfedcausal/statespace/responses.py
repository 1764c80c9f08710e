"""What a change of inputs does to the states of a linear plant, and how well that is known."""

import numpy as np

from .recurrence import driven_recurrence


def input_response(A, B, change):
    """Effect of a change of inputs on the states one step later and on.

    Parameters
    ----------
    A : ndarray of shape (n, n)
    B : ndarray of shape (n, k)
    change : ndarray of shape (n_steps, k)
        Row j is the change of the inputs at time t + j.

    Returns
    -------
    effect : ndarray of shape (n_steps, n)
        Row j is the effect at time t + j + 1, ``sum_(i <= j) A^(j-i) B change[i]``.
    """
    return driven_recurrence(A, (np.ascontiguousarray(change), B))


def response_covariances(theta, rows, cols, covariance, change, blocks):
    """Covariance of an estimated effect by the delta method.

    With ``x[j] = [h[j]; change[j]]`` the derivatives follow the same equation as the effect, ``dh[j+1] = A
    dh[j] + d[A | B] x[j]``; they are run for the columns of a square root of the covariance.

    Parameters
    ----------
    theta : ndarray of shape (n, n + k)
        ``[A | B]``.
    rows, cols : ndarray of int, shape (n_free,)
        Elements of `theta` that are estimated.
    covariance : ndarray of shape (n_free, n_free)
        Their covariance.
    change : ndarray of shape (n_steps, k)
        As in :func:`input_response`.
    blocks : sequence of slice
        Groups of states whose covariances are wanted.

    Returns
    -------
    list of ndarray of shape (n_steps, p, p)
    """
    n = len(theta)
    A, B = theta[:, :n], theta[:, n:]
    effect = input_response(A, B, change)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # (n_free, n_free)
    regressors = np.hstack([np.vstack([np.zeros(n), effect[:-1]]), change])
    order = np.argsort(rows, kind="stable")
    root, cols = root[order], cols[order]
    present, first = np.unique(rows[order], return_index=True)
    derivative = np.zeros((n, root.shape[1]))
    found = [np.empty((len(change), b.stop - b.start, b.stop - b.start)) for b in blocks]
    for j, x in enumerate(regressors):
        derivative = A @ derivative
        if len(present):
            derivative[present] += np.add.reduceat(root * x[cols, None], first, axis=0)
        for out, block in zip(found, blocks, strict=True):
            out[j] = derivative[block] @ derivative[block].T
    return found
