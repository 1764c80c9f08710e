"""Surprises of rows with gaps from the dense Gaussian of all of them."""

import numpy as np


def dense_rows(B, first_mean, first_covariance, innovation, level, n_rows):
    """Mean (T n,) and covariance (T n, T n) of rows ``r_t = B r_(t-1) + level + e_t``."""
    n = len(B)
    means, variances = [first_mean], [first_covariance]
    for _ in range(n_rows - 1):
        means.append(B @ means[-1] + level)
        variances.append(B @ variances[-1] @ B.T + innovation)
    covariance = np.zeros((n_rows, n, n_rows, n))
    for s in range(n_rows):
        for t in range(s, n_rows):
            block = np.linalg.matrix_power(B, t - s) @ variances[s]
            covariance[t, :, s], covariance[s, :, t] = block, block.T
    return np.concatenate(means), covariance.reshape(n_rows * n, n_rows * n)


def dense_surprises(mean, covariance, blocks, x, seen):
    """own and given_others, (T, n_units), of the units seen, (T, n_units), given all rows before.

    The first row is not judged, absent units have zero.
    """
    n_rows, n = x.shape
    own, given = np.zeros((n_rows, len(blocks))), np.zeros((n_rows, len(blocks)))
    past = np.arange(0)
    for t in range(n_rows):
        columns = [np.arange(b.start, b.stop) for b, there in zip(blocks, seen[t], strict=True) if there]
        if not columns:
            continue
        now = t * n + np.concatenate(columns)
        gain = np.linalg.solve(covariance[np.ix_(past, past)], covariance[np.ix_(past, now)]).T
        e = x.ravel()[now] - mean[now] - gain @ (x.ravel()[past] - mean[past])
        S = covariance[np.ix_(now, now)] - gain @ covariance[np.ix_(past, now)]
        L, offset = np.linalg.inv(S), 0
        for m in np.flatnonzero(seen[t]) if t else ():
            part = slice(offset, offset := offset + blocks[m].stop - blocks[m].start)
            own[t, m] = e[part] @ np.linalg.solve(S[part, part], e[part])
            given[t, m] = (L @ e)[part] @ np.linalg.solve(L[part, part], (L @ e)[part])
        past = np.concatenate([past, now])
    return own, given
