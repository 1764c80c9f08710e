"""What no method can beat: the Cramer-Rao error of the links, and tests by someone who knows the plant.

Written out densely over frequencies, in the spectral density of the scores; shares no code with the
library, so that it can serve as a check of it.
"""

from functools import cached_property

import numpy as np
from scipy import stats
from scipy.linalg import block_diag


def block_elements(slices, effect, cause):
    """Flat positions in A (row by row) of the block from cause to effect."""
    n = slices[-1].stop
    rows = np.arange(slices[effect].start, slices[effect].stop)
    cols = np.arange(slices[cause].start, slices[cause].stop)
    return (rows[:, None] * n + cols).ravel()


class Clairvoyant:
    """Efficient estimates around the true plant: every other parameter's *role* is known, not its value.

    The free elements are the blocks of the true links, the diagonal blocks and the units' own process
    covariances; a pair that is tested is added to them.

    Parameters
    ----------
    truth : PlantTruth
        Of a plant whose units have equally many states.
    X : dict of str to ndarray
        Complete measurements in one episode.
    """

    def __init__(self, truth, X):
        self.A, self.Q = truth.transition, truth.process_cov
        self.slices = list(truth.state_slices.values())
        self.n_samples = len(truth.states)
        scores, noise = [], []
        for name, C, R in zip(truth.names, truth.observation, truth.measurement_cov, strict=True):
            J = C.T @ np.linalg.solve(R, C)
            scores.append(np.linalg.solve(J, C.T @ np.linalg.solve(R, X[name].T)).T)
            noise.append(np.linalg.inv(J))
        self._scores, self._noise = np.hstack(scores), block_diag(*noise)
        m = len(self.slices)
        self.pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
        linked = {(e, c) for e, c in self.pairs if np.any(self.A[self.slices[e], self.slices[c]])}
        self.is_link = np.array([pair in linked for pair in self.pairs])
        blocks = [block_elements(self.slices, *pair) for pair in self.pairs]
        self._blocks = np.array(blocks)
        diagonal = np.concatenate([block_elements(self.slices, k, k) for k in range(m)])
        self._links = np.concatenate([b for b, on in zip(blocks, self.is_link, strict=True) if on])
        self._free = np.concatenate([self._links, diagonal, len(self.A) ** 2 + np.arange(len(self._tril[0]))])

    @cached_property
    def _tril(self):
        """Rows and columns of the free elements of Q."""
        rows, cols = np.tril_indices(len(self.A))
        same = np.zeros(len(rows), dtype=bool)
        for s in self.slices:
            same |= (cols >= s.start) & (rows < s.stop) & (rows >= s.start)
        return rows[same], cols[same]

    def _filters(self, w):
        n = len(self.A)
        G = np.linalg.inv(np.exp(1j * w)[:, None, None] * np.eye(n) - self.A)
        states = G @ self.Q @ np.conj(np.swapaxes(G, 1, 2))
        return G, states, np.linalg.inv(states + self._noise)

    @cached_property
    def information(self):
        """Fisher information of (vec A, free elements of Q), all steps together."""
        n, n_frequencies = len(self.A), 64
        w = (np.arange(n_frequencies) + 0.5) * np.pi / n_frequencies
        a, b = self._tril
        total = n * n + len(a)
        info = np.zeros((total, total))
        half = np.where(a == b, 0.5, 1.0)
        for G, S, inverse in zip(*self._filters(w), strict=True):
            GH = G.conj().T
            U, W, V = GH @ inverse @ G, S @ inverse @ G, S @ inverse @ S
            AA = np.einsum("jk,li->ijkl", W, W) + np.einsum("jl,ki->ijkl", V, U)
            info[: n * n, : n * n] += AA.real.reshape(n * n, n * n)
            left, right = W[:, a], U[b]  # (j, q), (q, i)
            other, mirrored = W[:, b], U[a]
            AQ = np.einsum("jq,qi->ijq", left, right) + np.einsum("jq,qi->ijq", other, mirrored)
            info[: n * n, n * n :] += (AQ.real * half).reshape(n * n, -1)
            # covariance of two symmetric elements: 1/2 tr(U D U D')
            D = np.zeros((len(a), n, n))
            D[np.arange(len(a)), a, b] = D[np.arange(len(a)), b, a] = 1.0
            UD = U @ D
            info[n * n :, n * n :] += 0.5 * np.einsum("pij,qji->pq", UD, UD).real
        info[n * n :, : n * n] = info[: n * n, n * n :].T
        return info * self.n_samples / n_frequencies

    @cached_property
    def gradient(self):
        """Derivatives of the Whittle log-likelihood at the truth, from the whole periodogram."""
        n, T = len(self.A), self.n_samples
        transform = np.fft.fft(self._scores - self._scores.mean(axis=0), axis=0) / np.sqrt(T)
        kept = np.arange(1, T)  # every frequency but zero, which the mean has taken
        grad_A, grad_Q = np.zeros((n, n)), np.zeros((n, n))
        for rows in np.array_split(kept, max(1, T // 512)):
            G, S, inverse = self._filters(2 * np.pi * rows / T)
            z = (inverse @ transform[rows][:, :, None])[:, :, 0]
            M = z[:, :, None] * z[:, None, :].conj() - inverse
            grad_A += (S @ M @ G).sum(axis=0).real.T
            grad_Q += (np.conj(np.swapaxes(G, 1, 2)) @ M @ G).sum(axis=0).real
        a, b = self._tril
        grad_Q = (grad_Q + grad_Q.T) / 2
        return np.concatenate([grad_A.ravel(), grad_Q[a, b] * np.where(a == b, 0.5, 1.0)])

    def error_bound(self):
        """Root of the trace of the Cramer-Rao bound of the links, relative to their norm."""
        covariance = np.linalg.inv(self.information[np.ix_(self._free, self._free)])
        k = len(self._links)
        return float(np.sqrt(np.trace(covariance[:k, :k])) / np.linalg.norm(self.A.ravel()[self._links]))

    def error(self):
        """Relative error of the efficient estimate with the links known, on these data."""
        step = np.linalg.solve(self.information[np.ix_(self._free, self._free)], self.gradient[self._free])
        k = len(self._links)
        return float(np.linalg.norm(step[:k]) / np.linalg.norm(self.A.ravel()[self._links]))

    @cached_property
    def estimates(self):
        """Efficient estimate and covariance of every off-diagonal block, the other links known."""
        info, score = self.information, self.gradient
        means, covariances = [], []
        for block in self._blocks:
            rest = self._free[~np.isin(self._free, block)]
            cross = info[np.ix_(block, rest)]
            solved = np.linalg.solve(info[np.ix_(rest, rest)], np.column_stack([cross.T, score[rest]]))
            covariance = np.linalg.inv(info[np.ix_(block, block)] - cross @ solved[:, :-1])
            residual = score[block] - cross @ solved[:, -1]
            covariances.append(covariance)
            means.append(self.A.ravel()[block] + covariance @ residual)
        return np.array(means), np.array(covariances)

    def statistics(self):
        """Chi-squared statistics of every pair and their p-values."""
        means, covariances = self.estimates
        solved = np.linalg.solve(covariances, means[:, :, None])[:, :, 0]
        statistic = np.einsum("pi,pi->p", means, solved)
        return statistic, stats.chi2.sf(statistic, means.shape[1])
