"""What a plant of several lags is learned from: the climb, shared noise, and the search for what acts on a unit."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from ...statespace.lagged.kernels import (
    FIRST,
    FIRST_SCALE,
    Channel,
    Nuisance,
    PriorCoordinates,
    efficient,
    prior_root,
    rescaled,
    swept,
)
from ...statespace.lagged.likelihood import Elements, LaggedLikelihood, RowInformation
from ...statespace.matrices import Partition, floor_eigenvalues, symmetric_basis
from ..estimation.evidence import benjamini_hochberg
from ..estimation.scoring import Budget
from .misfit import kernel_p_values, lag_bases
from .tuning import TUNING

# What a plant of several lags is learned from, and the climb to the top of its likelihood.

_SETTLED = 0.5  # log-likelihood that a last step promises


@dataclass
class LaggedProblem:
    """A record's likelihood and spectrum, and which coefficients there may be: lags of states and inputs."""

    likelihood: LaggedLikelihood
    periodogram: np.ndarray
    partition: Partition
    state_lags: np.ndarray  # 1..p
    input_lags: list  # of each input, its lags
    budget: Budget
    known_links: Any = None  # a `LinkKnowledge`, or None
    first_noise: np.ndarray | None = None  # process noise of the plant of one lag
    _last: tuple | None = None  # the plant that was evaluated last, and its point
    _informed: tuple | None = None  # the same with its information
    _elements: dict = field(default_factory=dict)  # of units' rows, by unit and the sources of their channels

    def point(self, coefficients, Q):
        """The likelihood and its gradients at a plant; a climb comes back to where it was last."""
        if self._last is None or self._last[0] is not coefficients or self._last[1] is not Q:
            self._last = coefficients, Q, self.likelihood.evaluate(coefficients, Q)
        return self._last[2]

    def information(self, coefficients, Q):
        """The :class:`RowInformation` at a plant, kept as its point is."""
        if self._informed is None or not all(map(np.array_equal, self._informed[0], (coefficients, Q))):
            found = RowInformation(self.likelihood, coefficients, Q, self.periodogram)
            self._informed = (coefficients.copy(), Q.copy()), found
        return self._informed[1]

    def lags_of(self, unit, cause):
        """Lags at which the states of another unit may act on one."""
        known = self.known_links
        return self.state_lags if known is None else known.lags(unit, cause, self.state_lags)

    def channels(self, unit, linked, driven):
        """Channels of a unit's rows: of itself, of the units linked to it and of the inputs driving it."""
        p = self.partition.sizes[unit]
        sources = [unit, *(n for n in np.flatnonzero(linked[unit]) if n != unit)]
        found = []
        for n in sources:
            own = self.partition.slices[n]
            cols = tuple(range(own.start, own.stop))
            found.append(Channel(("unit", int(n)), cols, self.lags_of(unit, int(n)), p * len(cols)))
        for k in np.flatnonzero(driven[unit]):
            col = self.partition.n_states + int(k)
            found.append(Channel(("input", int(k)), (col,), self.input_lags[k], p))
        return found

    def elements(self, unit, channels):
        """The :class:`Elements` of a unit's rows in the order of their channels."""
        key = unit, tuple(channel.source for channel in channels)
        if key not in self._elements:
            rows = self.partition.slices[unit]
            parts = [Elements.of(rows, [(col, each.lags) for col in each.cols]) for each in channels]
            self._elements[key] = Elements.joined(parts)
        return self._elements[key]

    def spent(self, n_coordinates=0):
        """Count the work of one evaluation, or of the algebra of some coordinates."""
        if n_coordinates:
            self.budget.spend(0.5 * n_coordinates**3)
        else:
            n, c = self.likelihood.n, self.likelihood.c
            self.budget.spend(self.likelihood.n_fft * 0.8 * (12 * n**3 + 4 * n * n * c + 2 * n * c * c))


class Rows(NamedTuple):
    """Quadratic of one unit's rows at a point, in the order of their channels: channel, row, column, lag."""

    channels: list
    elements: Elements
    G: np.ndarray
    b: np.ndarray  # G theta + score
    theta: np.ndarray
    score: np.ndarray


@dataclass
class Fitted:
    """A plant of several lags on the way to the top, in standardised states and inputs."""

    coefficients: np.ndarray  # (n_lags + 1, n, c)
    Q: np.ndarray
    priors: dict = field(default_factory=dict)  # (unit, source) -> (scale, decay)
    posteriors: list = field(default_factory=list)  # by unit: (Rows, Posterior)
    value: float = -np.inf  # log-likelihood
    converged: bool = False

    @property
    def criterion(self):
        """Log-likelihood less the effective number of coefficients."""
        return self.value - self.n_effective

    @cached_property
    def n_effective(self):
        """Effective number of coefficients."""
        return sum(np.einsum("ij,ij->", found.root, rows.G @ found.root) for rows, found in self.posteriors)


def rows_at(problem, info, point, coefficients, unit, channels):
    """The :class:`Rows` of a unit at a point."""
    elements = problem.elements(unit, channels)
    G, theta = info.of_rows(problem.partition.slices[unit], elements), coefficients[elements]
    score = point.grad[elements] * problem.likelihood.n_rows
    return Rows(channels, elements, G, G @ theta + score, theta, score)


def climb(problem, fitted, masks, n_steps=10, n_sweeps=3):
    """Towards the maximum of the likelihood under the prior, whose scales come from the evidence."""
    likelihood, fresh, swept_times = problem.likelihood, not fitted.priors, 0
    linked, driven = masks
    is_good, settled, best, is_level = not fresh, False, None, False
    for n_step in range(n_steps):
        if problem.budget.is_spent:
            break
        point = problem.point(fitted.coefficients, fitted.Q)
        info = problem.information(fitted.coefficients, fitted.Q)
        problem.spent()
        sweeps = is_good and swept_times < n_sweeps and (n_step % 2 == 1 or settled)
        swept_times += sweeps
        proposal, found, priors = np.zeros_like(fitted.coefficients), [], dict(fitted.priors)
        slope = bend = 0.0
        for unit in range(problem.partition.n_units):
            channels = problem.channels(unit, linked, driven)
            rows = rows_at(problem, info, point, fitted.coefficients, unit, channels)
            after = _unit_step(problem, rows, unit, priors, sweeps, fresh and swept_times <= 1)
            change = after.mean - rows.theta
            slope, bend = slope + rows.score @ change, bend + change @ rows.G @ change
            proposal[rows.elements] = after.mean
            found.append((rows, after))
        base = likelihood.n_rows * point.value
        step, coefficients = _search_line(problem, fitted, proposal, base, slope, bend)
        if step is None:
            if not is_good:
                break
            is_good = False
            continue
        is_good = step >= 0.5
        gain = slope - 0.5 * bend
        Q, value = _noise_step(problem, coefficients, fitted.Q)
        fitted = Fitted(coefficients, Q, priors, found, value)
        settled = step == 1.0 and abs(gain) < _SETTLED * len(problem.partition.slices)
        if best is None or fitted.criterion > best.criterion:
            best, is_level = fitted, settled
        if settled and not sweeps and swept_times >= min(n_sweeps, 2):
            fitted.converged = True
            break
    # scales and kernels may wander where noise and states can hardly be told apart
    if best is None or fitted.criterion >= best.criterion - _SETTLED * len(problem.partition.slices):
        return fitted
    best.converged = fitted.converged and is_level  # what came after led nowhere better
    return best


def _unit_step(problem, rows, unit, priors, sweeps, coarse):
    """Posterior of a unit's coefficients, its priors updated in place."""
    keys = [(unit, channel.source) for channel in rows.channels]
    scales, decays = prior_of(priors, unit, rows.channels)
    problem.spent(len(rows.theta))
    if sweeps:
        problem.spent(2 * len(rows.theta))
        scales, decays = swept(rows.G, rows.b, rows.channels, scales, decays, coarse=coarse)
    prior = PriorCoordinates(rows.G, rows.b, rows.channels, decays)
    found = prior.posterior(scales)
    if not sweeps and any(key in priors for key in keys):
        for _ in range(2):
            scales = rescaled(found, rows.channels, scales, decays)
            found = prior.posterior(scales)
    priors.update({key: (c, int(d)) for key, c, d in zip(keys, scales, decays, strict=True)})
    return found


def prior_of(priors, unit, channels):
    """Scales and decays of the kernels of a unit's channels."""
    known = [priors.get((unit, channel.source), (FIRST_SCALE, FIRST)) for channel in channels]
    return np.array([scale for scale, _ in known]), np.array([decay for _, decay in known])


def _search_line(problem, fitted, proposal, base, slope, bend):
    """The longest halved step that keeps what the quadratic promises of the likelihood of the data, and its end.

    Penalised values cannot be compared: under new scales the old point may be all but impossible.
    """
    step = 1.0
    while step >= TUNING.problem_least_step:
        trial = fitted.coefficients + step * (proposal - fitted.coefficients)
        promised = step * slope - 0.5 * step**2 * bend
        if not (problem.likelihood.N.any() and problem.likelihood.winds(trial)):
            value = problem.likelihood.n_rows * problem.point(trial, fitted.Q).value
            problem.spent()
            if value >= base + promised - max(1.0, TUNING.problem_keeps * abs(promised)):
                return step, trial
        step /= 2
    return None, None


def _noise_step(problem, coefficients, Q):
    """One scoring step of every unit's process covariance; the covariance and the log-likelihood there."""
    likelihood = problem.likelihood
    point = problem.point(coefficients, Q)
    problem.spent()
    stepped = Q.copy()
    for own in problem.partition.slices:
        basis = symmetric_basis(own.stop - own.start)
        products = point.inverse[:, own, own] @ basis[:, None]
        weighted = (likelihood.weights[:, None, None] * products).reshape(len(basis), -1)
        information = 0.5 * (weighted @ np.swapaxes(products, 2, 3).reshape(len(basis), -1).T).real
        gradient = np.einsum("kij,ij->k", basis, point.grad_Q[own, own])
        change = np.tensordot(np.linalg.solve(information, gradient), basis, 1)
        floor = TUNING.problem_q_floor * np.linalg.eigvalsh(Q[own, own])[0]
        if problem.first_noise is not None and likelihood.N[own, own].any():
            floor = max(floor, TUNING.problem_q_least * np.linalg.eigvalsh(problem.first_noise[own, own])[0])
        stepped[own, own] = floor_eigenvalues(Q[own, own] + change, floor)
    value = problem.point(coefficients, stepped).value
    problem.spent()
    if value < point.value:  # the quadratic does not reach that far
        stepped, value = Q, point.value
    return stepped, likelihood.n_rows * value


# Process noise that units of a plant of several lags share.

_NOISE_SETTLED = 0.01  # log-likelihood that a step gains


def with_shared_noise(problem, fitted, alpha):
    """The plant with the noise of units correlated where a test says that it is; nothing else changes.

    Everywhere if `alpha` is None.
    """
    partition = problem.partition
    mask = np.ones_like(partition.block_diagonal) if alpha is None else _correlated(problem, fitted, alpha)
    if (mask == partition.block_diagonal).all():
        return fitted
    likelihood, Q = problem.likelihood, fitted.Q
    point = likelihood.evaluate(fitted.coefficients, Q)
    for _ in range(TUNING.noise_n_steps):
        change = np.where(mask, 2 * Q @ point.grad_Q @ Q, 0.0)  # of expectation maximisation, where all is free
        for step in 0.5 ** np.arange(7):
            trial = Q + step * (change + change.T) / 2
            problem.spent()
            if np.linalg.eigvalsh(trial)[0] > 0:
                found = likelihood.evaluate(fitted.coefficients, trial)
                if found.value >= point.value:
                    break
        else:
            break
        gain = likelihood.n_rows * (found.value - point.value)
        Q, point = trial, found
        if gain < _NOISE_SETTLED:
            break
    value = likelihood.n_rows * point.value
    return Fitted(fitted.coefficients, Q, fitted.priors, fitted.posteriors, value, fitted.converged)


def _correlated(problem, fitted, alpha):
    """Mask over Q of the blocks that score tests keep at a false discovery rate."""
    partition, likelihood = problem.partition, problem.likelihood
    point = likelihood.evaluate(fitted.coefficients, fitted.Q)
    problem.spent()
    score = 2 * point.grad_Q * likelihood.n_rows
    pairs = [(m, k) for m in range(partition.n_units) for k in range(m)]
    p_values = np.empty(len(pairs))
    own = [point.inverse[:, rows, rows] for rows in partition.slices]
    for number, (m, k) in enumerate(pairs):
        a, b = partition.slices[m], partition.slices[k]
        weighted = likelihood.weights[:, None, None] * own[m]
        info = np.einsum("fij,fkl->ikjl", weighted, np.conj(own[k])).real * likelihood.n_rows
        q = score[a, b].ravel()
        p_values[number] = chi2.sf(q @ np.linalg.solve(info.reshape(len(q), len(q)), q), len(q))
    kept = np.array(pairs, dtype=int).reshape(-1, 2)[benjamini_hochberg(p_values, alpha)]
    return partition.mask(np.vstack([kept, kept[:, ::-1]]), True)


# -- A plant of several lags learned in coordinates in which the noise of all its units is white ---


class Coordinates(NamedTuple):
    """A plant in coordinates ``W s`` of the standardised states."""

    problem: LaggedProblem
    fitted: Fitted
    W: np.ndarray  # (n, n)
    value: float  # log-likelihood of s, not of W s

    @property
    def criterion(self):
        """Log-likelihood less the effective number of coefficients and the correlations of the noise."""
        n = len(self.W)
        return self.value - self.fitted.n_effective - np.count_nonzero(self.fitted.Q[np.tril_indices(n, -1)])

    def in_standard_states(self):
        """Coefficients and covariance of the noise in the standardised states."""
        n, back = len(self.W), np.linalg.inv(self.W)
        coefficients = back @ self.fitted.coefficients
        coefficients[..., :n] = coefficients[..., :n] @ self.W
        return coefficients, back @ self.fitted.Q @ back.T


def unchanged(problem, fitted):
    """The plant as it was learned."""
    return Coordinates(problem, fitted, np.eye(problem.likelihood.n), fitted.value)


def whitened(problem, sums, fitted):
    """The plant learned anew in coordinates that whiten its noise, as often as that makes it likelier.

    None where that costs too much or leads nowhere.
    """
    n_coefficients = problem.likelihood.n * len(problem.state_lags) + sum(map(len, problem.input_lags))
    if problem.likelihood.n == 1 or n_coefficients > TUNING.noise_most_coefficients:
        return None
    best, point = None, (fitted.coefficients, fitted.Q)
    for _ in range(TUNING.noise_most_turns):
        found = None if problem.budget.is_spent else _learned_in(problem, sums, *point)
        if found is None or (best is not None and found.criterion < best.criterion + TUNING.noise_worthwhile):
            break
        best, point = found, found.in_standard_states()
    return best


def _learned_in(problem, sums, coefficients, Q):
    """The plant learned in the coordinates that whiten a noise, from a point on."""
    n, k = problem.likelihood.n, problem.partition.n_inputs
    values, axes = np.linalg.eigh(floor_eigenvalues(Q, TUNING.noise_floor * np.linalg.norm(Q, 2)))
    W = (axes / np.sqrt(values)).T
    W /= np.sqrt(np.diag(W @ sums.sums[0][:n, :n] @ W.T) / sums.n_rows)[:, None]
    there, back = np.eye(n + k), np.eye(n + k)
    there[:n, :n], back[:n, :n] = W, np.linalg.inv(W)
    likelihood = LaggedLikelihood(sums.transformed(there), W @ problem.likelihood.N @ W.T)
    partition = Partition((1,) * n, (k, *(0,) * (n - 1)))
    spectrum = there @ problem.periodogram @ there.T
    white = LaggedProblem(likelihood, spectrum, partition, problem.state_lags, problem.input_lags, problem.budget)
    start = Fitted(W @ coefficients @ back, np.diag(np.diag(W @ Q @ W.T)))
    everything = np.ones((n, n), dtype=bool), np.ones((n, k), dtype=bool)
    found = climb(white, start, everything, n_steps=TUNING.noise_most_steps, n_sweeps=TUNING.noise_most_sweeps)
    if not found.posteriors:
        return None
    found = with_shared_noise(white, found, 1.0)
    return Coordinates(white, found, W, found.value + likelihood.n_rows * float(np.linalg.slogdet(W)[1]))


# Which units and inputs act on a unit, by tests over all lags, and the search that adds and drops.


class Channels(NamedTuple):
    """Tests of everything that may act on a unit: p values, efficient scores and informations by source."""

    p_values: np.ndarray  # (n_units, n_sources): units first, then the units whose inputs may act
    scores: dict  # (unit, source) -> (S, q)


class Sources:
    """Units, and units with inputs, that may act on others, and their columns of `[s; u]`."""

    def __init__(self, problem):
        partition = problem.partition
        self.n_units, n = partition.n_units, partition.n_states
        self.with_inputs = [k for k, size in enumerate(partition.input_sizes) if size]
        inputs = [partition.input_slices[k] for k in self.with_inputs]
        self.columns = [list(range(rows.start, rows.stop)) for rows in partition.slices]
        self.columns += [list(range(n + rows.start, n + rows.stop)) for rows in inputs]
        self._problem = problem
        self._n_inputs, self._input_slices = partition.n_inputs, partition.input_slices
        # a unit's own states, and its own inputs, always act on it
        self.own = np.eye(self.n_units, len(self.columns), dtype=bool)
        self.own[self.with_inputs, range(self.n_units, len(self.columns))] = True
        self.forbidden, self.required = np.zeros((2, *self.own.shape), dtype=bool)
        if problem.known_links is not None:
            self.forbidden[:, : self.n_units] = problem.known_links.forbidden
            self.required[:, : self.n_units] = problem.known_links.required

    def lags(self, unit, source):
        """Lags of each column of a source that may act on a unit."""
        problem, cols = self._problem, self.columns[source]
        if source < self.n_units:
            return [problem.lags_of(unit, source)] * len(cols)
        return [problem.input_lags[col - problem.partition.n_states] for col in cols]

    def masks(self, active):
        """Links (n_units, n_units) and driven units (n_units, n_inputs) of the sources that act."""
        driven = np.zeros((self.n_units, self._n_inputs), dtype=bool)
        for k, unit in enumerate(self.with_inputs):
            driven[:, self._input_slices[unit]] = active[:, [self.n_units + k]]
        return active[:, : self.n_units], driven


def tested(problem, fitted, sources, active):
    """Every source of every unit tested given the others that act, :class:`Channels`."""
    point = problem.point(fitted.coefficients, fitted.Q)
    info = problem.information(fitted.coefficients, fitted.Q)
    linked, driven = sources.masks(active)
    p_values, scores = np.ones(active.shape), {}
    for unit in range(sources.n_units):
        channels = problem.channels(unit, linked, driven)
        rows = rows_at(problem, info, point, fitted.coefficients, unit, channels)
        found = _inside(fitted, unit, rows, sources, active)
        found |= _outside(problem, fitted, unit, rows, info, point, sources, active)
        problem.spent(2 * len(rows.theta))
        for group in _alike(found):
            S, q = (np.array([found[k][i] for k in group]) for i in range(2))
            n_lags = found[group[0]][2]
            p_values[unit, group] = kernel_p_values(S, q, n_lags, lag_bases(n_lags), of_each_lag=True)
        scores.update({(unit, k): found[k] for k in found})
    return Channels(p_values, scores)


def _alike(found):
    """Sources in groups of the same numbers of coefficients and lags."""
    groups: dict = {}
    for source, (_, q, n_lags) in found.items():
        groups.setdefault((len(q), n_lags), []).append(source)
    return groups.values()


def _inside(fitted, unit, rows, sources, active):
    """Efficient information and score of the sources that act on a unit, given one another."""
    (scales, decays), found = prior_of(fitted.priors, unit, rows.channels), {}
    for source in np.flatnonzero(active[unit] & ~sources.own[unit]):
        chosen = np.array([set(channel.cols).issubset(sources.columns[source]) for channel in rows.channels])
        S, q = efficient(rows.G, rows.b, rows.channels, scales, decays, chosen)
        found[int(source)] = S, q, len(rows.channels[chosen.argmax()].lags)
    return found


def _outside(problem, fitted, unit, rows, info, point, sources, active):
    """The same of the sources that do not act on it, given those that do."""
    own_rows, found = problem.partition.slices[unit], {}
    R, _ = prior_root(rows.channels, *prior_of(fitted.priors, unit, rows.channels))
    nuisance = Nuisance(rows.G, rows.b, R)
    outside = np.flatnonzero(~active[unit] & ~sources.own[unit] & ~sources.forbidden[unit])
    for lags, group in _of_same_lags(sources, unit, outside):
        columns = np.array([sources.columns[source] for source in group])
        elements = [Elements.of(own_rows, list(zip(cols, lags, strict=True))) for cols in columns]
        there = Elements.joined(elements)
        cross = info.between(own_rows, rows.elements, there)
        cross = cross.reshape(len(cross), len(group), -1).transpose(1, 0, 2)
        own = info.of_each(own_rows, columns, lags)
        score = point.grad[there].reshape(len(group), -1) * problem.likelihood.n_rows
        S, q = _given(nuisance, cross, own, score, rows)
        for k in _not_positive(S):  # far from the maximum
            if problem.budget.is_spent:  # what is not tested does not act
                S[k], q[k] = np.eye(len(q[k])), 0.0
                continue
            G, cross_k, own_k = _floored(info, own_rows, rows.elements, elements[k])
            problem.spent(3 * len(G))  # with the eigenvalues that floor it
            other = Nuisance(G, rows.b, R)
            S[k], q[k] = (x[0] for x in _given(other, cross_k[None], own_k[None], score[[k]], rows))
        found.update({int(source): (S[k], q[k], len(lags[0])) for k, source in enumerate(group)})
    return found


def _of_same_lags(sources, unit, outside):
    """Lags of every column, and the sources with as many columns of these lags."""
    groups: dict = {}
    for source in outside:
        lags = sources.lags(unit, source)
        groups.setdefault(tuple(tuple(own) for own in lags), (lags, []))[1].append(source)
    return groups.values()


def _given(nuisance, cross, own, score, rows):
    """Efficient informations and scores of coefficients given those of the rows."""
    # the score of what is outside, less what a posterior of the inside other than the point explains
    S, q = nuisance.efficient(cross, own, score + rows.theta @ cross)
    return (S + np.swapaxes(S, 1, 2)) / 2, q


def _not_positive(S):
    """Which of some matrices are not positive."""
    try:
        np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return np.flatnonzero(np.linalg.eigvalsh(S)[:, 0] <= 0)
    return []


def _floored(info, own_rows, inside, outside):
    """Informations of elements of a unit's rows and of further ones, positive together."""
    G, n = info.of_rows(own_rows, Elements.joined([inside, outside])), len(inside.lag)
    return G[:n, :n], G[:n, n:], G[n:, n:]


def search(problem, fitted, sources, alpha, active=None):
    """Add and drop sources until their set repeats; the plant, the sources that act, their tests."""
    active = sources.own | sources.required if active is None else active & ~sources.forbidden | sources.own
    fitted = climb(problem, fitted, sources.masks(active))
    seen: list[np.ndarray] = []
    tests = None
    for _ in range(TUNING.search_max_rounds):
        tests = tested(problem, fitted, sources, active)
        proposed = _proposed(tests.p_values, active, sources, alpha, is_noisy=problem.likelihood.N.any())
        if any((proposed == earlier).all() for earlier in [*seen, active]) or problem.budget.is_spent:
            break
        seen.append(active)
        fitted = _without(problem, fitted, sources, active & ~proposed)
        active, tests = proposed, None
        fitted = climb(problem, fitted, sources.masks(active), n_steps=6, n_sweeps=2)
    if tests is None or not fitted.converged:
        fitted = climb(problem, fitted, sources.masks(active), n_steps=6, n_sweeps=2)
        tests = tested(problem, fitted, sources, active)
    return fitted, active, tests


def _proposed(p_values, active, sources, alpha, *, is_noisy):
    """Sources that false discovery control keeps, with a few more to each unit than there were.

    Behind noisy sensors every unit tells of what moves another, also the units that this one moves: only the
    most significant is added at a time, and nothing that its own effect may explain.
    """
    proposed = sources.own | sources.required
    for family in (slice(0, sources.n_units), slice(sources.n_units, None)):
        free = ~sources.own[:, family]
        p = p_values[:, family]
        wanted = np.zeros_like(free)
        wanted[free] = benjamini_hochberg(p[free], alpha)
        new = wanted & ~active[:, family]
        if is_noisy and family.start == 0:
            new &= ~(new.T & (p > p.T))
        for unit, row in enumerate(new):
            among = np.flatnonzero(row)
            order = np.argsort(p[unit, among], kind="stable")
            row[among[order[1 if is_noisy else TUNING.search_max_additions :]]] = False
        proposed[:, family] |= wanted & active[:, family] | new
    return proposed


def _without(problem, fitted, sources, dropped):
    """The plant without the coefficients of some sources."""
    coefficients = fitted.coefficients.copy()
    for unit, source in np.argwhere(dropped):
        coefficients[:, problem.partition.slices[unit], sources.columns[source]] = 0.0
    fitted.coefficients = coefficients
    return fitted
