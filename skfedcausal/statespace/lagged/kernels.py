"""Prior of the coefficients of a channel over lags, and its scales from the marginal likelihood.

The coefficients ``a_1, ..., a_l`` by which one state or input acts on another over l lags have the prior
``N(0, c K)``. Of the kernels K the stable splines ``K_ij = d^max(i, j)`` [1]_ are smooth in the lag, the
diagonal ones ``K_ii = d^i`` are not; all fall towards large lags, those of the smallest d so fast that one
lag is left. A channel is what one unit, or one input, does to a unit: its coefficients share scale and
kernel, which are those of the largest evidence. A scale of nothing is what takes a channel out.

All is done on the quadratic ``-1/2 x'G x + b'x`` of a log-likelihood in coordinates ``x = sqrt(c) R y``, ``K
= R R'``, in which the prior is the unit one and nothing is near singular.

References
----------
.. [1] Pillonetto, Dinuzzo, Chen, De Nicolao, Ljung (2014), Kernel methods in system identification, machine
   learning and function estimation: a survey, Automatica 50.
"""

from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular

from .tuning import TUNING

# one lag; then slower ones, and the diagonal kernels of resonances
_SPLINES = (0.02, 0.15, 0.3, 0.5, 0.65, 0.75, 0.82, 0.88, 0.92, 0.95, 0.97, 0.985, 0.995)
_DIAGONALS = (0.15, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)
DECAYS = np.array(_SPLINES + _DIAGONALS)
_COARSE = np.array([0, 2, 4, 6, 8, 10, 12, 14, 16, 18])
_ALIKE = {k: int(np.abs(np.array(_SPLINES) - d).argmin()) for k, d in enumerate(_DIAGONALS, len(_SPLINES))}
_ALIKE |= {k: len(_SPLINES) + int(np.abs(np.array(_DIAGONALS) - d).argmin()) for k, d in enumerate(_SPLINES)}
CHANNEL_SCALES = 10.0 ** np.arange(-7, 1.1, 0.25)
FIRST = 2  # decay and scale to begin with
FIRST_SCALE = 0.03


class Channel(NamedTuple):
    """Coefficients of one unit's rows that share a prior: `n_vectors` vectors of `n_lags` lags, in a row."""

    source: tuple[str, int]  # ("unit" or "input", number)
    cols: tuple[int, ...]  # of `[s; u]`
    lags: np.ndarray
    n_vectors: int

    @property
    def size(self):
        """Number of coefficients."""
        return self.n_vectors * len(self.lags)


@cache
def kernel_root(n_lags, number):
    """R with ``R R' = K`` for the kernel of a number over so many lags, without columns that vanish.

    Numbers from the count of kernels on are those of the same kernels that begin one lag later, and so on.
    """
    dead, number = divmod(number, len(DECAYS))
    if dead:
        root = kernel_root(n_lags - dead, number)
        return np.concatenate([np.zeros((dead, root.shape[1])), root])
    decay = DECAYS[number]
    n_kept = max(1, int((decay ** np.arange(n_lags) > TUNING.kernels_vanished).sum()))
    variances = decay ** np.arange(n_kept)
    if number >= len(_SPLINES):
        return np.eye(n_lags, n_kept) * np.sqrt(variances)
    # of the differences between neighbouring lags, the last of which goes down to zero
    steps = np.sqrt(np.append(-np.diff(variances), variances[-1]))
    return np.eye(n_lags, n_kept)[:, :n_kept] @ (np.triu(np.ones((n_kept, n_kept))) * steps)


@cache
def _single_lags(n_lags):
    """Roots of the kernel of a single lag after every dead time, (n_lags, n_lags, k)."""
    roots = [kernel_root(n_lags, dead * len(DECAYS)) for dead in range(n_lags)]
    return np.stack([np.pad(root, ((0, 0), (0, roots[0].shape[1] - root.shape[1]))) for root in roots])


def prior_root(channels, scales, decays):
    """Block-diagonal R of all channels, shape (n_coefficients, n_coordinates), and the end of each block."""
    known = zip(channels, scales, decays, strict=True)
    roots = [[np.sqrt(c) * kernel_root(len(each.lags), d)] * each.n_vectors for each, c, d in known]
    return block_diag(*chain.from_iterable(roots)), np.cumsum([root[0].shape[1] * len(root) for root in roots])


def prior_unit(M):
    """The prior's one, with what rounding may take off a near singular information of this size."""
    return 1.0 + TUNING.kernels_rounding * M.diagonal().max(initial=0.0)


class Posterior(NamedTuple):
    """Of the coefficients of one unit's rows."""

    mean: np.ndarray  # (n_coefficients,)
    root: np.ndarray  # (n_coefficients, n_coordinates): L of the covariance L L'
    log_evidence: float

    @property
    def covariance(self):
        """Covariance of the coefficients."""
        return self.root @ self.root.T


class PriorCoordinates:
    """Quadratic of one unit's rows in the coordinates of the prior's kernels, for any scales of them."""

    def __init__(self, G, b, channels, decays):
        self._R, ends = prior_root(channels, np.ones(len(channels)), decays)
        self._M, self._b, self._widths = self._R.T @ G @ self._R, b, np.diff(ends, prepend=0)

    def posterior(self, scales):
        """The :class:`Posterior` under priors of these scales."""
        size = np.repeat(np.sqrt(scales), self._widths)
        M = size[:, None] * self._M * size
        M[np.diag_indices(len(M))] += prior_unit(M)
        L = np.linalg.cholesky(M)
        root = solve_triangular(L, (self._R * size).T, lower=True, check_finite=False).T
        white = root.T @ self._b
        return Posterior(root @ white, root, 0.5 * float(white @ white) - float(np.log(np.diag(L)).sum()))


def rescaled(found, channels, scales, decays):
    """Scales after one step of expectation maximisation with the kernels as they are."""
    scales, start = scales.copy(), 0
    for k, channel in enumerate(channels):
        own = slice(start, start + channel.size)
        root, dead = kernel_root(len(channel.lags), decays[k]), decays[k] // len(DECAYS)
        rows = slice(dead, dead + root.shape[1])
        # second moments of the coordinates of the prior
        stacked = np.concatenate([found.mean[own, None], found.root[own]], axis=1)
        stacked = stacked.reshape(channel.n_vectors, len(channel.lags), -1)[:, rows]
        coordinates = np.linalg.solve(root[rows], stacked)
        mean_square = np.square(coordinates).sum() / (channel.n_vectors * root.shape[1])
        scales[k] = np.clip(mean_square, CHANNEL_SCALES[0], CHANNEL_SCALES[-1])
        start += channel.size
    return scales


def efficient(G, b, channels, scales, decays, chosen):
    """Information and score of some channels, `chosen` (n_channels,) bool, when the others are integrated out."""
    own, others = np.repeat(chosen, [channel.size for channel in channels]), np.flatnonzero(~chosen)
    if own.all():
        return G, b
    R, _ = prior_root([channels[k] for k in others], scales[others], decays[others])
    blocks = G[~own][:, own], G[own][:, own], b[own]
    return tuple(x[0] for x in Nuisance(G[~own][:, ~own], b[~own], R).efficient(*(x[None] for x in blocks)))


class Nuisance:
    """Coefficients with a prior root R that others, one set after another, are to be tested given."""

    def __init__(self, inner, b_inner, R):
        M = R.T @ inner @ R
        M[np.diag_indices(len(M))] += prior_unit(M)
        self._root, self._R = cho_factor(M, lower=True, check_finite=False), R
        self._mean = self._solved(R.T @ b_inner)

    def _solved(self, right):
        return cho_solve(self._root, right, check_finite=False)

    def efficient(self, cross, own, b_own):
        """Informations (m, e, e) and scores (m, e) given these, from blocks (m, n, e), (m, e, e) and (m, e)."""
        m, n, e = cross.shape
        turned = self._R.T @ cross.transpose(1, 0, 2).reshape(n, m * e)
        by_set = (len(turned), m, e)
        explained = self._solved(turned).reshape(by_set).transpose(1, 0, 2)
        turned = turned.reshape(by_set).transpose(1, 2, 0)
        return own - turned @ explained, b_own - turned @ self._mean


class ChannelEvidence:
    """Log evidence of a channel of `n_vectors` vectors of lags, from its efficient information and score."""

    def __init__(self, S, q, n_vectors):
        self.n_vectors, self.n_lags = n_vectors, len(q) // n_vectors
        by_pair = S.reshape(n_vectors, self.n_lags, n_vectors, self.n_lags)
        self._S, self._q = by_pair.transpose(0, 2, 1, 3).copy(), q.reshape(n_vectors, self.n_lags)

    def __call__(self, roots):
        """For kernel roots (m, n_lags, k) and every scale, shape (m, n_scales)."""
        size = self.n_vectors * roots.shape[2]
        C = np.swapaxes(roots, 1, 2)[:, None, None] @ (self._S @ roots[:, None, None])
        C = C.transpose(0, 1, 3, 2, 4).reshape(-1, size, size)
        values, axes = np.linalg.eigh((C + np.swapaxes(C, 1, 2)) / 2)
        values = np.maximum(values, 0.0)[:, None]
        z = np.square((self._q @ roots).reshape(-1, 1, size) @ axes)
        spread = 1 + CHANNEL_SCALES[:, None] * values
        return 0.5 * (CHANNEL_SCALES[:, None] * z / spread - np.log(spread)).sum(axis=2)


def swept(G, b, channels, scales, decays, *, coarse=False):
    """Scales and kernels, each channel's the best given the others', one channel after the other."""
    scales, decays = scales.copy(), decays.copy()
    for number, channel in enumerate(channels):
        S, q = efficient(G, b, channels, scales, decays, np.arange(len(channels)) == number)
        decays[number], scales[number] = _best_kernel(S, q, channel, int(decays[number]), coarse, number > 0)
    return scales, decays


def _best_kernel(S, q, channel, present, coarse, may_wait):
    """Number and scale of the kernel of the largest evidence, found by steps to neighbours."""
    tried: dict[int, tuple[float, float]] = {}
    of_roots = ChannelEvidence(S, q, channel.n_vectors)
    most = len(channel.lags) - 1 if may_wait else 0
    penalty = np.log(most + 1.0)  # half of the prior is for no dead time, as much for all others

    def note(kernels, values):
        at = values.argmax(axis=1)
        best, scales = values[np.arange(len(at)), at], CHANNEL_SCALES[at]
        for k, value, scale in zip(kernels, best.tolist(), scales.tolist(), strict=True):
            tried[k] = value - penalty * (k >= len(DECAYS)), scale

    def best_of(kernels):
        """The kernel of the largest evidence, the first one of equals; those of as many columns are tried at once."""
        new: dict[int, list] = {}
        for k in kernels:
            if k not in tried:
                root = kernel_root(len(channel.lags), k)
                new.setdefault(root.shape[1], []).append((k, root))
        for group in new.values():
            numbers, roots = zip(*group, strict=True)
            note(numbers, of_roots(np.array(roots)))
        return max(kernels, key=lambda k: tried[k][0])

    def climbed(k):
        while True:
            better = best_of([k, *_neighbours(k, most)])
            if better == k:
                return k
            k = better

    best = climbed(best_of([*(map(int, _COARSE) if coarse else ()), present, 0]))
    if most:
        # where a single lag says most is where a channel with a dead time begins
        single = range(0, (most + 1) * len(DECAYS), len(DECAYS))
        note(single, of_roots(_single_lags(len(channel.lags))))
        best = best_of([best, climbed(best_of(single))])
    return best, tried[best][1]


def _neighbours(number, most):
    """Kernels next to one: of its own kind, of the other, and that begin a lag earlier or later."""
    dead, number = divmod(number, len(DECAYS))
    kind = range(len(_SPLINES)) if number < len(_SPLINES) else range(len(_SPLINES), len(DECAYS))
    found = [k for k in (number - 1, number + 1) if k in kind] + [_ALIKE[number]]
    found = [dead * len(DECAYS) + k for k in found]
    return found + [k * len(DECAYS) + number for k in (dead - 1, dead + 1) if 0 <= k <= most]
