"""What a plant of several lags is learned from, and the climb to the top of its likelihood."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...statespace.lagged.information import Elements, RowInformation
from ...statespace.lagged.kernels import FIRST, FIRST_SCALE, Channel, PriorCoordinates, rescaled, swept
from ...statespace.lagged.likelihood import LaggedLikelihood
from ...statespace.matrices import floor_eigenvalues, symmetric_basis
from ...statespace.partition import Partition
from ..estimation.scoring import Budget
from .tuning import TUNING

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
