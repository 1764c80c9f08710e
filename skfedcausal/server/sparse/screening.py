"""Score tests of all pairs of units from three matrix products, whatever their number.

At a plant (A, Q) with ``x = Phi^-1 r`` of the residuals and the smoothed states h the gradient of the log-likelihood
is ``x' h`` for links and ``x' x`` for correlated noise: one product each for all pairs. What a pair's information
takes are the spectra of its two units.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from ...statespace.episodes import episodes
from ..estimation.block_tests import _profiled

_PAIRS = 20_000  # that are looked at together


class Products(NamedTuple):
    """Gradients per time step and the covariance of the smoothed states, (n, n) each."""

    links: np.ndarray
    noise: np.ndarray
    states: np.ndarray


class Spectra(NamedTuple):
    """Spectra of all units, (n_units, n_frequencies, p, p): of inverse residuals, smoothed states, and across."""

    U: np.ndarray
    V: np.ndarray
    W: np.ndarray


def products(pushes, series, A, noise, starts, n_transitions, with_noise=True):
    """:class:`Products` at a plant; A and the noise of the scores are sparse."""
    states = smoothed(pushes, series, A, noise, starts)
    cross = pushes.T @ pushes / n_transitions if with_noise else None
    return Products(pushes.T @ states / n_transitions, cross, states.T @ states / n_transitions)


def smoothed(pushes, series, A, noise, starts):
    """States smoothed over the record, ``h[t] = s[t] - N (x[t - 1] - A' x[t])``; zero in the last rows of episodes."""
    back = -(A.T @ pushes.T).T
    back[1:] += pushes[:-1]
    states = series - (noise @ back.T).T
    states[[stop - 1 for _, stop in episodes(starts, len(series))]] = 0.0
    return states


def tested(pairs, spectra, found, partition, n_samples, of="links"):
    """Estimates, covariances and p-values of pairs (effect, cause) of units without links, noise or near neighbours.

    The opposite link is profiled out of a link, both links of correlated noise.
    """
    p = spectra.U.shape[-1]
    estimate, covariance = np.zeros((len(pairs), p * p)), np.zeros((len(pairs), p * p, p * p))
    for first in range(0, len(pairs), _PAIRS):
        rows = slice(first, first + _PAIRS)
        estimate[rows], covariance[rows] = _some(pairs[rows], spectra, found, partition, of)
    covariance /= n_samples
    dof = np.asarray(partition.sizes)[pairs].prod(axis=1)
    return estimate, covariance, chdtrc(dof, statistics(estimate, covariance))


def statistics(estimate, covariance):
    """Wald statistics of blocks."""
    solved = np.linalg.solve(covariance, estimate[..., None])[..., 0]
    return np.einsum("xi,xi->x", estimate, solved)


def _some(pairs, spectra, found, partition, of):
    joint = joint_information(pairs, spectra, partition)
    e = joint.shape[1] // 3
    effect, cause = pairs.T
    there, back = block_rows(found.links, effect, cause, partition), block_rows(found.links, cause, effect, partition)
    if of == "links":
        return _profiled(joint, there, back, slice(0, e), slice(e, 2 * e))
    own = block_rows(found.noise, effect, cause, partition)
    return _profiled(joint, own, np.concatenate([there, back], axis=1), slice(2 * e, 3 * e), slice(0, 2 * e))


def block_rows(matrix, effect, cause, partition):
    """Blocks of a matrix as rows, zero where padded."""
    states = partition.padded
    rows, cols = states[effect][:, :, None], states[cause][:, None, :]
    real = (rows < len(matrix)) & (cols < len(matrix))
    taken = matrix[np.minimum(rows, len(matrix) - 1), np.minimum(cols, len(matrix) - 1)]
    return np.where(real, taken, 0.0).reshape(len(effect), -1)


def joint_information(pairs, spectra, partition):
    """Information of the blocks A_mn, A_nm and Q_mn of pairs of units that nothing couples, (n_pairs, 3e, 3e)."""
    terms = (  # as in `uncoupled_pair_information`
        (0, 0, "U", "V", (2, 3, 1, 4)),
        (1, 1, "V", "U", (4, 1, 3, 2)),
        (0, 1, "W", "W", (2, 3, 4, 1)),
        (2, 2, "U", "U", (1, 4, 2, 3)),
        (0, 2, "U", "W", (2, 3, 1, 4)),
        (1, 2, "W", "U", (4, 1, 2, 3)),
    )
    k, p = len(pairs), spectra.U.shape[-1]
    e = p * p
    joint = np.empty((k, 3, e, 3, e))
    for first, second, x, y, axes in terms:
        product = _pair_products(getattr(spectra, x), getattr(spectra, y), pairs).reshape(k, p, p, p, p)
        block = np.transpose(product, (0, *axes)).reshape(k, e, e)
        joint[:, first, :, second, :] = block
        if first != second:
            joint[:, second, :, first, :] = np.swapaxes(block, 1, 2)
    joint = joint.reshape(k, 3 * e, 3 * e)
    sizes = np.asarray(partition.sizes)
    real = np.arange(p) < sizes[pairs][:, :, None]  # (pairs, 2, p)
    padded = ~(real[:, 0, :, None] & real[:, 1, None, :]).reshape(k, e)
    turned = ~(real[:, 1, :, None] & real[:, 0, None, :]).reshape(k, e)
    element = np.arange(3 * e)
    joint[:, element, element] += np.hstack([padded, turned, padded])
    return joint


def _pair_products(x, y, pairs):
    """``mean_w Re x_m[a, b] y_n[c, d]`` of pairs (m, n), shape (n_pairs, p * p, p * p)."""
    m, n_frequencies, p, _ = x.shape
    left = np.concatenate([x.real, -x.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    right = np.concatenate([y.real, y.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    effect, cause = pairs.T
    units, first = np.unique(effect, return_index=True)
    if len(pairs) >= 4 * len(units) and (np.diff(effect) >= 0).all():  # a row of pairs is one product
        out = np.empty((len(pairs), p * p, p * p))
        ends = np.append(first[1:], len(pairs))
        for unit, start, stop in zip(units, first, ends, strict=True):
            others = np.moveaxis(right[cause[start:stop]], 1, 0).reshape(2 * n_frequencies, -1)
            product = (left[unit].T @ others).reshape(p * p, stop - start, p * p)
            out[start:stop] = np.moveaxis(product, 1, 0)
        return out / n_frequencies
    return np.swapaxes(left[effect], 1, 2) @ right[cause] / n_frequencies


def given_others(estimate, covariance, states, pairs, known, partition):
    """Estimates and covariances of pairs of one effect, given the regressors that its row has already.

    `states` is the covariance of the smoothed states, `known` the states of these regressors: the information of a
    block shrinks with the share of its cause's states that they leave.
    """
    p, cause = partition.padded.shape[1], pairs[:, 1]
    whole = block_rows(states, cause, cause, partition).reshape(-1, p, p)
    rows = np.minimum(partition.padded[cause], len(states) - 1)
    real = partition.padded[cause] < len(states)
    cross = np.where(real[:, :, None], states[rows[:, :, None], known], 0.0)
    solved = np.linalg.solve(states[np.ix_(known, known)], cross.reshape(-1, len(known)).T).T.reshape(cross.shape)
    empty = np.eye(p) * ~real[:, :, None]
    left = whole - cross @ np.swapaxes(solved, 1, 2) + empty
    back = np.linalg.cholesky(whole + empty) @ np.linalg.inv(np.linalg.cholesky((left + np.swapaxes(left, 1, 2)) / 2))
    back = np.einsum("ab,xij->xaibj", np.eye(p), back).reshape(len(pairs), p * p, p * p)
    score = np.linalg.solve(covariance, estimate[..., None])
    covariance = np.swapaxes(back, 1, 2) @ covariance @ back
    return (covariance @ score)[..., 0], covariance
