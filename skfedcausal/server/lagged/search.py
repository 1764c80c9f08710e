"""Which units and inputs act on a unit, by tests over all lags, and the search that adds and drops."""

from typing import NamedTuple

import numpy as np

from ...statespace.lagged.information import Elements
from ...statespace.lagged.kernels import Nuisance, efficient, prior_root
from ..estimation.evidence import benjamini_hochberg
from .misfit import kernel_p_values, lag_bases
from .problem import climb, prior_of, rows_at
from .tuning import TUNING


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
