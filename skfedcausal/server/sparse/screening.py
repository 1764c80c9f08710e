"""Score tests of all pairs of units from three matrix products, whatever their number.

At a plant (A, Q) with ``x = Phi^-1 r`` of the residuals and the smoothed states h the gradient of the log-likelihood
is ``x' h`` for links and ``x' x`` for correlated noise: one product each for all pairs. What a pair's information
takes are the spectra of its two units.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import chdtrc

from ...parallel import chunks, in_threads
from ...statespace.episodes import episodes
from ...statespace.matrices import few_threads
from ...statespace.partition import Partition, uncoupled_pair_information
from ..estimation.block_tests import _profiled
from .tuning import TUNING

NOWHERE = np.iinfo(np.int64).max  # place of what a unit has not
_PIECE, _PIECES = 128, 8  # rows, and how many of these a thread takes together
_COLUMNS = 128  # of a product that a thread takes together


class Products(NamedTuple):
    """Gradients per time step and the covariance of the smoothed states, (n, n) each."""

    links: np.ndarray
    noise: np.ndarray | None  # None where it is not asked for, as the next
    states: np.ndarray | None


class Spectra(NamedTuple):
    """Spectra of all units, (n_units, n_frequencies, p, p): of inverse residuals, smoothed states, and across."""

    U: np.ndarray
    V: np.ndarray
    W: np.ndarray


def products(
    pushes, series, A, noise, starts, n_transitions, *, parallel=None, known=None, with_noise=False, with_states=False
):
    """:class:`Products` at a plant; A and the noise of the scores are sparse, `known` inputs count as states."""
    states = smoothed(pushes, series, A, noise, starts, parallel)
    if known is not None and known.shape[1]:
        states = np.hstack([states, known])
    few = [pushes[:, part.start : part.stop] for part in chunks(pushes.shape[1], _COLUMNS)]
    pairs = [(each, states) for each in few]
    if with_noise:
        pairs.append((pushes, pushes))
    if with_states:
        pairs.append((states, states))
    found = in_threads(_product, pairs, parallel)
    links, more = np.concatenate(found[: len(few)]), iter(found[len(few) :])
    noise, own = (next(more) / n_transitions if asked else None for asked in (with_noise, with_states))
    return Products(links / n_transitions, noise, own)


def _product(left, right):
    return left.T @ right


def smoothed(pushes, series, A, noise, starts, parallel=None):
    """States smoothed over the record, ``h[t] = s[t] - N (x[t - 1] - A' x[t])``; zero in the last rows of episodes."""
    states, turned = np.empty_like(series), csr_array(A.T)

    def smooth(some):
        for first in some[::_PIECE]:  # that stay in cache, a state in a row
            rows = slice(first, first + _PIECE)
            here = np.ascontiguousarray(pushes[rows].T)
            back = -(turned @ here)
            back[:, 1:] += here[:, :-1]
            if first > 0:
                back[:, 0] += pushes[first - 1]
            np.subtract(series[rows], (noise @ back).T, out=states[rows])

    in_threads(smooth, [(some,) for some in chunks(len(series), _PIECES * _PIECE)], parallel)
    states[[stop - 1 for _, stop in episodes(starts, len(series))]] = 0.0
    return states


class PairRows(NamedTuple):
    """Gradients of pairs (effect, cause): of the link, of the opposite one, of their noise (None: not looked at)."""

    there: np.ndarray  # (n_pairs, e)
    back: np.ndarray
    noise: np.ndarray | None

    @classmethod
    def of(cls, pairs, found, partition, with_noise=False):
        """Those of pairs among products."""
        effect, cause = pairs.T
        own = block_rows(found.noise, effect, cause, partition) if with_noise else None
        there, back = (block_rows(found.links, *ends, partition) for ends in ((effect, cause), (cause, effect)))
        return cls(there, back, own)


def tested(pairs, spectra, rows, sizes, n_samples):
    """Estimates, covariances and p-values of pairs (effect, cause) of units that are no near neighbours.

    Of their noise where the rows have it, with both links profiled out, otherwise of the link, with the opposite one.
    """
    p = spectra.U.shape[-1]
    estimate, covariance = np.zeros((len(pairs), p * p)), np.zeros((len(pairs), p * p, p * p))
    for first in range(0, len(pairs), TUNING.screening_pairs):
        part = slice(first, first + TUNING.screening_pairs)
        few = PairRows(rows.there[part], rows.back[part], None if rows.noise is None else rows.noise[part])
        estimate[part], covariance[part] = _some(pairs[part], spectra, few, sizes)
    covariance /= n_samples
    dof = np.asarray(sizes)[pairs].prod(axis=1)
    return estimate, covariance, chdtrc(dof, statistics(estimate, covariance))


def p_values_of(U, V, W, links, noise, pairs, sizes, n_samples, of_noise):
    """The p-values alone, with one thread, from spectra and gradients of the plant."""
    with few_threads(0):
        rows = PairRows.of(pairs, Products(links, noise, None), Partition(sizes), of_noise)
        return tested(pairs, Spectra(U, V, W), rows, sizes, n_samples)[2]


def statistics(estimate, covariance):
    """Wald statistics of blocks."""
    solved = np.linalg.solve(covariance, estimate[..., None])[..., 0]
    return np.einsum("xi,xi->x", estimate, solved)


def _some(pairs, spectra, rows, sizes):
    e = rows.there.shape[1]
    has_noise = rows.noise is not None
    joint = uncoupled_pair_information(pairs, spectra, sizes, with_noise=has_noise, products=_pair_products)
    if not has_noise:
        return _profiled(joint, rows.there, rows.back, slice(0, e), slice(e, 2 * e))
    both = np.concatenate([rows.there, rows.back], axis=1)
    return _profiled(joint, rows.noise, both, slice(2 * e, 3 * e), slice(0, 2 * e))


def _pair_products(left, right, pairs):
    """Products of the columns of pairs of units (m, f, e), shape (n_pairs, e, e)."""
    effect, cause = pairs.T
    (_, n_rows, e), (units, first) = left.shape, np.unique(effect, return_index=True)
    if len(pairs) < 4 * len(units) or (np.diff(effect) < 0).any():
        return np.swapaxes(left[effect], 1, 2) @ right[cause]
    out = np.empty((len(pairs), e, e))  # a row of pairs is one product
    for unit, start, stop in zip(units, first, [*first[1:], len(pairs)], strict=True):
        others = right[cause[start:stop]].transpose(1, 0, 2).reshape(n_rows, -1)
        out[start:stop] = (left[unit].T @ others).reshape(e, stop - start, e).transpose(1, 0, 2)
    return out


def block_rows(matrix, effect, cause, partition):
    """Blocks of a matrix as rows, zero where padded."""
    states = partition.padded
    rows, cols = states[effect][:, :, None], states[cause][:, None, :]
    real = (rows < len(matrix)) & (cols < len(matrix))
    taken = matrix[np.minimum(rows, len(matrix) - 1), np.minimum(cols, len(matrix) - 1)]
    return np.where(real, taken, 0.0).reshape(len(effect), -1)


def given_others(estimate, covariance, states, pairs, known, partition):
    """Estimates and covariances of pairs (effect, cause), given the regressors that the effects' rows have already.

    `states` is the covariance of the smoothed states, `known` by unit those that are regressors of its row: the
    information of a block shrinks with the share of its cause's states that they leave.
    """
    columns = np.where(partition.padded < partition.n_states, partition.padded, NOWHERE)
    return given_others_of(estimate, covariance, states, pairs, known, (columns, columns.shape[1]))


def given_others_of(estimate, covariance, states, pairs, known, blocks):
    """The same for blocks of the `columns` (n_units, q) of every cause and p rows each, ``blocks = columns, p``."""
    (columns, p), (effect, cause) = blocks, pairs.T
    real, rows = columns[cause] < NOWHERE, np.where(columns[cause] < NOWHERE, columns[cause], 0)
    whole = states[rows[:, :, None], rows[:, None, :]] * (real[:, :, None] & real[:, None, :])
    q = columns.shape[1]
    left, sizes = whole + np.eye(q) * ~real[:, :, None], np.array([len(own) for own in known])
    root = np.linalg.cholesky(left)
    for size in np.unique(sizes[effect]):
        of_size = np.flatnonzero(sizes[effect] == size)
        for first in range(0, len(of_size), TUNING.screening_pairs):
            chosen = of_size[first : first + TUNING.screening_pairs]
            units, place = np.unique(effect[chosen], return_inverse=True)
            own = np.array([known[unit] for unit in units])
            inverse = np.linalg.inv(states[own[:, :, None], own[:, None]])[place]
            cross = np.where(real[chosen, :, None], states[rows[chosen][:, :, None], own[place][:, None]], 0.0)
            left[chosen] -= cross @ inverse @ np.swapaxes(cross, 1, 2)
    back = root @ np.linalg.inv(np.linalg.cholesky((left + np.swapaxes(left, 1, 2)) / 2))
    back = np.einsum("ab,xij->xaibj", np.eye(p), back).reshape(len(pairs), p * q, p * q)
    score = np.linalg.solve(covariance, estimate[..., None])
    covariance = np.swapaxes(back, 1, 2) @ covariance @ back
    return (covariance @ score)[..., 0], covariance
