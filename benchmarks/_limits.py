"""What no method can beat: the Cramer-Rao error of the links, best selection, tests and roots by who knows the plant.

`Clairvoyant` is written out densely over frequencies, in the spectral density of the scores; it shares no code with
the library, so that it can serve as a check of it.
"""

from functools import cached_property

import numpy as np
from scipy import stats
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_discrete_are
from scipy.stats import chi2

from skfedcausal.datasets._faults import N_SENSORS, PROCESS_NOISE, SENSOR_NOISE, VALVE_NOISE, states_of
from skfedcausal.server.estimation.evidence import BlockEstimates, corrected, shrink
from skfedcausal.server.estimation.scoring import Structure
from skfedcausal.server.sparse.filter import cores, neighbours, with_halo
from skfedcausal.statespace.matrices import Partition
from skfedcausal.statespace.whittle import InformationColumns, WhittleLikelihood

_LEAST = 6.0  # statistic below which a pair is as good as empty
_DRAWS, _CELLS = 1000, 15
_CORE, _BLOCK = 6, 30  # units of a block, and with their neighbours: what is further away changes nothing to see
_TIMES = (3.0, 20.0)  # by which noise of a unit with a fault may have grown
_SUMS = 4e-3  # noise of the sums of controllers, so that the filter forgets where they began


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
    def _information(self):
        """Fisher information of (vec A, free elements of Q), all steps together.

        Returns
        -------
        against_free : ndarray of shape (n * n + n_q, n_free)
            Of every element against the free ones.
        own : ndarray of shape (n_pairs, e, e)
            Within every off-diagonal block.
        """
        n, n_frequencies = len(self.A), 64
        w = (np.arange(n_frequencies) + 0.5) * np.pi / n_frequencies
        a, b = self._tril
        half = np.where(a == b, 0.5, 1.0)
        free = self._free[self._free < n * n]
        k, m = np.divmod(free, n)
        i, j = np.divmod(self._blocks, n)  # (pairs, e)
        AA = np.zeros((n, n, len(free)))
        AQ = np.zeros((n, n, len(a)))
        QQ = np.zeros((len(a), len(a)))
        own = np.zeros((*self._blocks.shape, self._blocks.shape[1]))
        for G, S, inverse in zip(*self._filters(w), strict=True):
            GH = G.conj().T
            U, W, V = GH @ inverse @ G, S @ inverse @ G, S @ inverse @ S
            AA += _product(W[m].T, W[:, k]) + _product(U[k].T, V[:, m])
            AQ += (_product(U[b].T, W[:, a]) + _product(U[a].T, W[:, b])) * half
            QQ += _covariance_information(U, a, b) * half[:, None] * half
            own += (
                W[j[:, :, None], i[:, None, :]] * W[j[:, None, :], i[:, :, None]]
                + V[j[:, :, None], j[:, None, :]] * U[i[:, None, :], i[:, :, None]]
            ).real
        AA, AQ = AA.reshape(n * n, -1), AQ.reshape(n * n, -1)
        against_free = np.block([[AA, AQ], [AQ[free].T, QQ]])
        return against_free * self.n_samples / n_frequencies, own * self.n_samples / n_frequencies

    @cached_property
    def information(self):
        """Fisher information of the free elements."""
        return self._information[0][self._free]

    @cached_property
    def gradient(self):
        """Derivatives of the Whittle log-likelihood at the truth, from the whole periodogram."""
        n, T = len(self.A), self.n_samples
        transform = np.fft.rfft(self._scores - self._scores.mean(axis=0), axis=0) / np.sqrt(T)
        kept = np.arange(1, len(transform))  # every frequency but zero, which the mean has taken
        weight = np.where(2 * kept == T, 1.0, 2.0)  # a frequency and its negative
        grad_A, grad_Q = np.zeros((n, n)), np.zeros((n, n))
        for chunk in np.array_split(np.arange(len(kept)), max(1, len(kept) * n * n // 2**20)):
            rows = kept[chunk]
            G, S, inverse = self._filters(2 * np.pi * rows / T)
            z = (inverse @ transform[rows][:, :, None])[:, :, 0]
            M = (z[:, :, None] * z[:, None, :].conj() - inverse) * weight[chunk, None, None]
            right = M @ G
            grad_A += (S @ right).sum(axis=0).real.T
            grad_Q += (np.conj(np.swapaxes(G, 1, 2)) @ right).sum(axis=0).real
        a, b = self._tril
        grad_Q = (grad_Q + grad_Q.T) / 2
        return np.concatenate([grad_A.ravel(), grad_Q[a, b] * np.where(a == b, 0.5, 1.0)])

    def error_bound(self):
        """Root of the trace of the Cramer-Rao bound of the links, relative to their norm."""
        covariance = np.linalg.inv(self.information)
        k = len(self._links)
        return float(np.sqrt(np.trace(covariance[:k, :k])) / np.linalg.norm(self.A.ravel()[self._links]))

    def error(self):
        """Relative error of the efficient estimate with the links known, on these data."""
        step = np.linalg.solve(self.information, self.gradient[self._free])
        k = len(self._links)
        return float(np.linalg.norm(step[:k]) / np.linalg.norm(self.A.ravel()[self._links]))

    @cached_property
    def estimates(self):
        """Efficient estimate and covariance of every off-diagonal block, the other links known."""
        against_free, own = self._information
        score = self.gradient
        everything = np.arange(len(self._free))
        factor = cho_factor(self.information)
        means, covariances = [], []
        for block, mine, is_link in zip(self._blocks, own, self.is_link, strict=True):
            rest = everything
            if is_link:
                rest = everything[~np.isin(self._free, block)]
                rest_factor = cho_factor(self.information[np.ix_(rest, rest)])
            cross = against_free[np.ix_(block, rest)]
            right = np.column_stack([cross.T, score[self._free[rest]]])
            solved = cho_solve(rest_factor if is_link else factor, right)
            covariance = np.linalg.inv(mine - cross @ solved[:, :-1])
            residual = score[block] - cross @ solved[:, -1]
            covariances.append(covariance)
            means.append(self.A.ravel()[block] + covariance @ residual)
        return np.array(means), np.array(covariances)

    @cached_property
    def estimates_given_values(self):
        """The same by someone who also knows the values of all other elements."""
        covariances = np.linalg.inv(self._information[1])
        steps = np.einsum("pij,pj->pi", covariances, self.gradient[self._blocks])
        return self.A.ravel()[self._blocks] + steps, covariances

    def statistics(self, *, given_values=False):
        """Chi-squared statistics of every pair and their p-values."""
        means, covariances = self.estimates_given_values if given_values else self.estimates
        solved = np.linalg.solve(covariances, means[:, :, None])[:, :, 0]
        statistic = np.einsum("pi,pi->p", means, solved)
        return statistic, stats.chi2.sf(statistic, means.shape[1])


def _product(left, right):
    """Real part of ``left[i, f] right[j, f]`` for every i, j, f."""
    return left.real[:, None] * right.real[None] - left.imag[:, None] * right.imag[None]


def _covariance_information(U, a, b):
    """``1/2 tr(U D_p U D_q)``, every D with ones at its element (a, b) and at (b, a)."""
    same, crossed = U[np.ix_(b, a)], U[np.ix_(b, b)]
    return (same * same.T + crossed * U[np.ix_(a, a)].T).real


def best_selection(blocks, covariances, n_pairs, level, n_repeats=4, seed=0):
    """Mean errors over the bound of the posterior mean and of empirical Bayes, and F1 at a level of two corrections.

    What the best selection of links could do: estimates as precise as the known links', among all pairs of units.
    Every link is seen with the error of its Cramer-Rao bound, every other pair with that of some link. The best
    estimate is the posterior mean of someone who knows how many links there are and how strong they are; only which
    pairs are linked is unknown. Nothing that looks at pairs one by one can err less, whatever it costs.
    """
    rng = np.random.default_rng(seed)
    found = [_selected(rng, blocks, covariances, n_pairs, level) for _ in range(n_repeats)]
    names = "best error / bound", "shrunk error / bound", "F1 at the false discovery rate", "F1 family-wise"
    return dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))


def _selected(rng, blocks, covariances, n_pairs, level):
    n_links, e = blocks.shape
    roots = np.linalg.cholesky(covariances)
    noise = rng.standard_normal((n_pairs, e))
    seen = np.square(noise).sum(axis=1) > _LEAST
    seen[:n_links] = True
    which = np.concatenate([np.arange(n_links), rng.integers(n_links, size=n_pairs - n_links)])[seen]
    estimate = np.einsum("kij,kj->ki", roots[which], noise[seen])
    estimate[:n_links] += blocks
    truth = np.zeros_like(estimate)
    truth[:n_links] = blocks
    V = covariances[which]
    statistic = np.einsum("ki,ki->k", estimate, np.linalg.solve(V, estimate[..., None])[..., 0])
    p = np.concatenate([chi2.sf(statistic, e), np.ones(n_pairs - len(which))])
    shrunk = shrink(BlockEstimates(estimate, V, np.full(len(V), e)), n_empty=n_pairs - len(V)).posterior_mean
    best = _posterior_means(rng, estimate, V, statistic, np.linalg.norm(blocks, axis=1), n_links / n_pairs)
    size = np.trace(covariances, axis1=1, axis2=2).sum()
    errors = (np.sqrt(np.square(x - truth).sum() / size) for x in (best, shrunk))
    return *errors, *(_f1(corrected(p, how) < level, n_links) for how in ("fdr", "family-wise"))


def _posterior_means(rng, estimate, V, statistic, strengths, share):
    """Under a share of links of these strengths in any direction, by draws around every estimate."""
    density, edges = np.histogram(strengths, bins=_CELLS, density=True)
    e = estimate.shape[1]
    sphere = chi2.pdf(1.0, e) / (np.exp(-0.5) / (2 * np.pi) ** (e / 2)) * 2  # surface of the unit ball
    means, roots = np.zeros_like(estimate), np.linalg.cholesky(V)
    empty = np.exp(-0.5 * statistic) / np.sqrt((2 * np.pi) ** e) / np.prod(np.diagonal(roots, axis1=1, axis2=2), axis=1)
    for k in np.flatnonzero(statistic > _LEAST):
        draws = estimate[k] + rng.standard_normal((_DRAWS, e)) @ roots[k].T
        norm = np.linalg.norm(draws, axis=1)
        cell = np.clip(np.searchsorted(edges, norm) - 1, 0, _CELLS - 1)
        weight = np.where((norm >= edges[0]) & (norm <= edges[-1]), density[cell], 0.0) / (sphere * norm ** (e - 1))
        if weight.any():
            linked = share * weight.mean()
            means[k] = linked / (linked + (1 - share) * empty[k]) * (weight @ draws) / weight.sum()
    return means


def _f1(decided, n_links):
    return float(2 * decided[:n_links].sum() / max(1, decided.sum() + n_links))


# -- large plants ------------------------------------------------------------------------------------


def known_links(truth, linked, n_rows):
    """Blocks of the `linked` pairs [effect, cause], (k, p * p), and their Cramer-Rao covariances in a record of rows.

    Which links there are is known. Block by block, some units and their neighbours, so that large plants can be asked.
    """
    n, p = len(truth.names), truth.observation[0].shape[1]
    pairs, blocks = np.argwhere(linked), truth.transition.reshape(n, p, n, p)
    near = neighbours(n, pairs, [np.linalg.norm(blocks[e, :, c]) for e, c in pairs], [])
    causes = [np.flatnonzero(row).tolist() for row in linked]
    sensors = zip(truth.observation, truth.measurement_cov, strict=True)
    noise = [np.linalg.inv(C.T @ np.linalg.solve(R, C)) for C, R in sensors]
    found, covariances = [], []
    for core in cores(near, _CORE):
        members = with_halo(core, near, causes, _BLOCK)
        at = (np.array(members)[:, None] * p + np.arange(p)).ravel()
        A, Q = (M[np.ix_(at, at)] for M in (truth.transition, truth.process_cov))
        inside = linked[np.ix_(members, members)]
        mine = _covariances(A, Q, block_diag(*(noise[m] for m in members)), inside, n_rows)
        for (effect, cause), covariance in mine.items():
            if effect < len(core):
                found.append(blocks[members[effect], :, members[cause]].ravel())
                covariances.append(covariance)
    return np.array(found), np.array(covariances)


def _covariances(A, Q, N, linked, n_rows):
    """Cramer-Rao covariance of every linked block of a plant by (effect, cause), its elements row by row."""
    n = len(linked)
    p, partition = len(A) // n, Partition([len(A) // n] * n)
    free = Structure(partition, linked=linked[tuple(partition.pairs.T)]).free
    information = WhittleLikelihood(_NoMoments(n_rows, len(A)), N).information(A, Q)
    covariance = np.linalg.inv(InformationColumns(information, free).square()) / n_rows
    pair, out = free.rows // p * n + free.cols // p, {}
    for effect, cause in np.argwhere(linked):
        own = np.flatnonzero(pair == effect * n + cause)
        own = own[np.lexsort((free.cols[own], free.rows[own]))]
        out[effect, cause] = covariance[np.ix_(own, own)]
    return out


class _NoMoments:
    """Lag covariances of nothing, for the expected information."""

    def __init__(self, n_rows, n, n_lags=24):
        self.n_transitions = n_rows
        self.late = self.early = np.zeros((n_lags + 1, n, n))

    def spectra(self, frequencies):
        return (np.zeros((len(frequencies), *self.late.shape[1:]), dtype=complex),) * 3


class KnownPlant:
    """What somebody who knows a plant under control (the true matrices of a FaultNetwork) and the onset names as root.

    A unit's score is the best of a steady fault of its states, valve or one sensor, and of more process or sensor
    noise, with the Schwarz penalty. There is no candidate for changed dynamics, so that it is no bound for these.
    """

    def __init__(self, network):
        self.network, self.m, self.n = network, network.n_units, len(network.A)
        p, i = network.gains.T
        self.F = network.closed_loop[:-1, :-1]
        read = N_SENSORS * np.arange(self.m)  # the sensors in the loops
        self.into = np.zeros((len(self.F), N_SENSORS * self.m))  # noise of sensors into states and sums
        self.into[: self.n, read], self.into[self.n + np.arange(self.m), read] = -network.B * p, 1.0
        rows = [np.r_[k * (N_SENSORS + 1) : k * (N_SENSORS + 1) + N_SENSORS] for k in range(self.m)]
        self.H = np.zeros((self.m * (N_SENSORS + 1), len(self.F)))
        self.shown = np.zeros((len(self.H), N_SENSORS * self.m))  # noise of sensors in what is shown
        valve = np.zeros((len(self.H), self.m))
        for k in range(self.m):
            at, last = states_of(k), rows[k][-1] + 1
            self.H[rows[k], at], self.H[last, at] = network.C[k], -p[k] * network.C[k, 0]
            self.H[last, self.n + k] = -i[k]
            self.shown[rows[k], N_SENSORS * k + np.arange(N_SENSORS)] = 1.0
            self.shown[last, read[k]] = -p[k]
            valve[last, k] = 1.0
        self.R0 = VALVE_NOISE**2 * valve @ valve.T

    def gain(self, process, sensors):
        """Filter gain and innovation covariance from variances of the noise of states and of sensors."""
        Q = self.into * sensors @ self.into.T + 1e-9 * np.eye(len(self.F))
        Q[: self.n, : self.n] += np.diag(process)
        Q[self.n :, self.n :] += _SUMS * np.eye(self.m)
        R, S = self.R0 + self.shown * sensors @ self.shown.T, self.into * sensors @ self.shown.T
        P = solve_discrete_are(self.F.T, self.H.T, Q, R, s=S)
        covariance = self.H @ P @ self.H.T + R
        return np.linalg.solve(covariance, (self.F @ P @ self.H.T + S).T).T, covariance

    @cached_property
    def usual(self):
        """Variances of noise in nominal operation."""
        return np.full(self.n, PROCESS_NOISE**2), np.full(N_SENSORS * self.m, SENSOR_NOISE**2)

    @cached_property
    def filters(self):
        """By unit: filters under more noise of its states, or of its sensors."""
        found = []
        for k in range(self.m):
            here = []
            for factor in _TIMES:
                for part, at in ((0, states_of(k)), (1, slice(N_SENSORS * k, N_SENSORS * (k + 1)))):
                    noise = [values.copy() for values in self.usual]
                    noise[part][at] *= 1 + factor
                    here.append(self.gain(*noise))
            found.append(here)
        return found

    def innovations(self, Y, K):
        """Errors of one-step predictions."""
        x, errors, step = np.zeros(len(self.F)), np.empty_like(Y), self.F - K @ self.H
        for t, y in enumerate(Y):
            errors[t] = y - self.H @ x
            x = step @ x + K @ y
        return errors

    def root(self, data, onset, stop):
        """Unit with the best candidate, as a position."""
        Y = np.hstack(list(data.values()))[:stop]
        K, covariance = self.gain(*self.usual)
        white = np.linalg.cholesky(np.linalg.inv(covariance))
        e = self.innovations(Y, K)[onset:] @ white
        usual = (e**2).sum() + len(e) * np.linalg.slogdet(covariance)[1]
        steps = self._steps(K, white, len(e))
        scores = np.zeros(self.m)
        for k in range(self.m):
            found = [ratio(part, e) for part in self._of(steps, k)]
            for gain, other in self.filters[k]:
                errors = self.innovations(Y, gain)[onset:]
                cost = (errors * np.linalg.solve(other, errors.T).T).sum() + len(e) * np.linalg.slogdet(other)[1]
                found.append(usual - cost - np.log(len(e)))
            scores[k] = max(found)
        return int(scores.argmax())

    def _steps(self, K, white, n_rows):
        """Mean of whitened innovations after steps of every state, valve and sensor, (n_rows, n_outputs, n_steps)."""
        G = np.zeros((len(self.F), self.n + self.m))
        G[: self.n, : self.n], G[: self.n, self.n :] = np.eye(self.n), self.network.B
        G = np.hstack([G, self.into])
        shown = np.hstack([np.zeros((len(self.H), self.n)), self._valves_shown, self.shown])
        x, step, answers = np.zeros_like(G), self.F - K @ self.H, np.empty((n_rows, len(self.H), G.shape[1]))
        for t in range(n_rows):
            answers[t] = white.T @ (self.H @ x + shown)
            x = step @ x + G - K @ shown
        return answers

    @property
    def _valves_shown(self):
        """A step of a valve shows in its position."""
        shown = np.zeros((len(self.H), self.m))
        shown[(N_SENSORS + 1) * np.arange(self.m) + N_SENSORS, np.arange(self.m)] = 1.0
        return shown

    def _of(self, steps, k):
        """Answers to steps of the states, valve and each sensor of one unit."""
        first = self.n + self.m + N_SENSORS * k
        columns = [states_of(k), [self.n + k], *([first + j] for j in range(N_SENSORS))]
        return [steps[:, :, each].reshape(steps.shape[0] * steps.shape[1], -1) for each in columns]


def ratio(signature, e):
    """Likelihood ratio of signatures in whitened innovations, with the Schwarz penalty."""
    b, J = signature.T @ e.ravel(), signature.T @ signature
    return float(b @ np.linalg.solve(J + 1e-9 * np.eye(len(b)), b) - len(b) * np.log(len(e)))
