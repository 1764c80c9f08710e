"""Blocks of the plant matrices pair by pair, padded where units differ in size."""

import numpy as np


def padded_blocks(x, partition):
    """Blocks of a square matrix (or stack), zero-padded: shape (..., n_units, p, n_units, p)."""
    states = partition.padded
    if len(partition.groups) > 1:
        widths = [(0, 0)] * (x.ndim - 2) + [(0, 1), (0, 1)]
        x = np.pad(x, widths)[..., states.ravel()[:, None], states.ravel()[None, :]]
    m, p = states.shape
    return x.reshape(*x.shape[:-2], m, p, m, p)


def diagonal_blocks(x, partition):
    """Blocks of every unit with itself, zero-padded: a stack of shape (f, n, n) as (n_units, f, p, p)."""
    units = np.arange(partition.n_units)
    return padded_blocks(x, partition)[:, units, :, units, :]


def pair_blocks(matrix, partition):
    """Off-diagonal blocks as rows, shape (n_pairs, p * p), zero where padded."""
    blocks = padded_blocks(matrix, partition)
    effect, cause = partition.pairs.T
    p = blocks.shape[-1]
    return np.moveaxis(blocks, -2, -3)[effect, cause].reshape(len(effect), p * p)


def transition_pair_information(info, partition):
    """Information of each off-diagonal block of A with itself, shape (n_pairs, e, e), e = p * p.

    Padded elements get a unit on the diagonal, so that they change no solve and no statistic.
    """
    n = partition.n_states
    U, V = (diagonal_blocks(x, partition) for x in (info.U, info.V[..., :n, :n]))
    own = _unit_products(U, V, partition)  # (pairs, k, i, j, l)
    W = padded_blocks(info.W[..., :n, :], partition)
    effect, cause = partition.pairs.T
    cross = W[:, cause, :, effect, :]  # (pairs, freq, j, k)
    cross = np.einsum("xfjk,xfli->xijkl", cross, cross).real / cross.shape[1]
    return _as_matrices(np.transpose(own, (0, 2, 3, 1, 4)) + cross, partition)


def input_pair_information(info, partition, family):
    """Information of each block of a family of pairs of B with itself, shape (n_pairs, e, e).

    `family` is ``partition.input_pairs`` or ``partition.step_pairs``.
    """
    return _elementwise_information(info, partition, family, states=False)


def lagged_pair_information(info, partition):
    """The same as :func:`transition_pair_information` for the blocks of all lags of each pair."""
    return _elementwise_information(info, partition, partition, states=True)


def _elementwise_information(info, partition, family, states):
    """Information of blocks given by their elements."""
    c = partition.n_regressors
    padded = family.pair_elements == family.n_elements
    rows, cols = np.divmod(np.where(padded, 0, family.pair_elements), c)
    matrices = np.empty((*padded.shape, padded.shape[1]))
    for x, (i, j) in enumerate(zip(rows, cols, strict=True)):
        V, U = info.V[:, j[:, None], j], info.U[:, i, i[:, None]]
        products = V * U
        if states:  # inputs are known: their rows of W are zero
            W = info.W[:, j[:, None], i]
            products += W * np.swapaxes(W, 1, 2)
        matrices[x] = products.real.mean(axis=0)
    matrices[padded[:, :, None] | padded[:, None, :]] = 0.0
    pair, element = np.nonzero(padded)
    matrices[pair, element, element] = 1.0
    return matrices


def covariance_pair_information(info, partition):
    """Information of each off-diagonal block of Q with itself, shape (n_pairs, e, e).

    A block and its transpose are one parameter.
    """
    own = diagonal_blocks(info.U, partition)
    own = _unit_products(own, own, partition)  # (pairs, c, c', d', d)
    U = padded_blocks(info.U, partition)
    effect, cause = partition.pairs.T
    cross = U[:, cause, :, effect, :]  # (pairs, freq, d, c)
    cross = np.einsum("xfda,xfbc->xcdab", cross, cross).real / cross.shape[1]
    return _as_matrices(np.transpose(own, (0, 1, 4, 2, 3)) + cross, partition)


def uncoupled_pair_information(info, partition):
    """Joint information of the blocks A_mn, A_nm and Q_mn of each pair when no unit is coupled.

    Every other cross term vanishes then, unless inputs drive the states of several units.

    Parameters
    ----------
    info : SpectralInformation
        Of every unit: arrays of shape (n_units, n_frequencies, p, p), zero where padded.
    partition : Partition

    Returns
    -------
    ndarray of shape (n_pairs, 3 e, 3 e)
        For the ordered pair (m, n): A_mn, A_nm and Q_mn one below the other, e = p * p.
    """
    p = partition.padded.shape[1]
    e = p * p
    U, V, W = info.U, info.V, info.W
    UV = _unit_products(U, V, partition)  # U of the effect, V of the cause
    VU = _unit_products(V, U, partition)
    WW = _unit_products(W, W, partition)
    UU = _unit_products(U, U, partition)
    UW = _unit_products(U, W, partition)
    WU = _unit_products(W, U, partition)
    joint = np.empty((len(UV), 3, e, 3, e))
    # indices of _unit_products: (pair, a, b, c, d) = x_effect[a, b] y_cause[c, d]
    joint[:, 0, :, 0, :] = _flat(UV, (2, 3, 1, 4))  # V_n[j, l] U_m[k, i]
    joint[:, 1, :, 1, :] = _flat(VU, (4, 1, 3, 2))  # V_m[j, l] U_n[k, i] for rows i of n
    joint[:, 0, :, 1, :] = _flat(WW, (2, 3, 4, 1))  # W_n[j, k] W_m[l, i], (k, l) of A_nm
    joint[:, 2, :, 2, :] = _flat(UU, (1, 4, 2, 3))  # U_m[c, c'] U_n[d', d]
    joint[:, 0, :, 2, :] = _flat(UW, (2, 3, 1, 4))  # W_n[j, d] U_m[c, i]
    joint[:, 1, :, 2, :] = _flat(WU, (4, 1, 2, 3))  # W_m[j, c] U_n[d, i]
    joint[:, 1, :, 0, :] = np.swapaxes(joint[:, 0, :, 1, :], 1, 2)
    joint[:, 2, :, 0, :] = np.swapaxes(joint[:, 0, :, 2, :], 1, 2)
    joint[:, 2, :, 1, :] = np.swapaxes(joint[:, 1, :, 2, :], 1, 2)
    joint = joint.reshape(len(UV), 3 * e, 3 * e)
    if len(partition.groups) > 1:
        padded = np.zeros((partition.n_units, partition.n_units, p, p), dtype=bool)
        present = partition.padded < partition.n_states
        padded[:] = ~(present[:, None, :, None] & present[None, :, None, :])
        effect, cause = partition.pairs.T
        own, opposite = padded[effect, cause].reshape(-1, e), padded[cause, effect].reshape(-1, e)
        element = np.arange(3 * e)
        joint[:, element, element] += np.concatenate([own, opposite, own], axis=1)
    return joint


def _flat(products, order):
    e = products.shape[1] ** 2
    return np.transpose(products, (0, *order)).reshape(len(products), e, e)


def _unit_products(x, y, partition):
    """``mean_w Re x_m[a, b] y_n[c, d]`` of the units' blocks, for each pair (m, n): (n_pairs, a, b, c, d)."""
    m, n_frequencies, p, _ = x.shape
    left = np.concatenate([x.real, -x.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    right = np.concatenate([y.real, y.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    left = np.swapaxes(left, 1, 2).reshape(m * p * p, -1)
    right = np.swapaxes(right, 0, 1).reshape(-1, m * p * p)
    product = (left @ right / n_frequencies).reshape(m, p, p, m, p, p)
    effect, cause = partition.pairs.T
    return np.moveaxis(product, 3, 1)[effect, cause]


def _as_matrices(blocks, partition):
    """Blocks as (n_pairs, e, e) with a unit diagonal where padded."""
    p = blocks.shape[1]
    matrices = blocks.reshape(len(blocks), p * p, p * p)
    padded = partition.pair_elements == partition.n_elements
    rows, cols = np.nonzero(padded)
    matrices[rows, cols, cols] += 1.0
    return matrices
