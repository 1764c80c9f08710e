"""Maximum likelihood of the plant with a given structure, by Fisher scoring on its free elements, and its prior."""

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotri

from ...statespace.kalman import adjoint_lyapunov, stationary_covariance
from ...statespace.matrices import cap_radius, floor_eigenvalues, spectral_radius
from ...statespace.whittle import Evaluation, FreeElements, InformationColumns
from ..sparse.memory import of_machine
from .tuning import TUNING

# Maximum likelihood of the plant with a given structure, by Fisher scoring on its free elements.

MAX_RADIUS = 1 - 1e-6
_ROUNDED = np.finfo(float).eps ** (1 / 3)
_RIDGE = 1e-12
_SMALL = 2**28  # bytes that every machine has
_FAST = 0.1  # share of what a step found that it may leave where the climb goes on because it is fast
RATE = 2e9  # operations a second of the machine that the costs were measured on


class Structure:
    """Which blocks of the plant matrices are estimated, as boolean masks.

    Over pairs of units: `linked` states, `correlated` noise (both orders of a pair), `driven` by the inputs
    of others; over units: their own dynamics, noise and inputs; over pairs (unit, step): `shifted` levels.
    Left out, no pair is linked or correlated, and all else is free.
    """

    _PAIRS = ("linked", "correlated", "driven", "shifted")
    _KNOWN = ("allowed", "required")
    _UNITS = ("free_dynamics", "free_noise", "own_inputs")

    def __init__(self, partition, **masks):
        self.partition = partition
        units, none = np.ones(partition.n_units, dtype=bool), np.zeros(len(partition.pairs), dtype=bool)
        self.free_dynamics = masks.get("free_dynamics", units)
        self.free_noise = masks.get("free_noise", units)
        self.own_inputs = masks.get("own_inputs", units)
        # links that there may be, and that there are, whatever a search proposes
        self.allowed, self.required = masks.get("allowed", ~none), masks.get("required", none)
        self.linked = masks.get("linked", none) & self.allowed | self.required
        self.correlated = masks.get("correlated", none)
        self.driven = masks.get("driven", np.ones(partition.n_input_pairs, dtype=bool))
        self.shifted = masks.get("shifted", np.tile(self.free_noise, partition.n_steps))
        self.key = b"".join(getattr(self, name).tobytes() for name in self._PAIRS)  # hashable identity

    def with_masks(self, **masks):
        """The same structure with other masks."""
        names = self._PAIRS + self._UNITS + self._KNOWN
        return Structure(self.partition, **{n: getattr(self, n) for n in names} | masks)

    def within(self, other):
        """The same structure without the blocks that another one does not have."""
        return self.with_masks(**{name: getattr(self, name) & getattr(other, name) for name in self._PAIRS})

    def family(self, kind):
        """Pairs of a kind of blocks, "state", "input" or "step", and which of them are inside."""
        if kind == "state":
            return self.partition, self.linked
        if kind == "input":
            return self.partition.input_pairs, self.driven
        return self.partition.step_pairs, self.shifted

    @cached_property
    def transition_mask(self):
        """Free elements of the coefficients ``[A | B]``."""
        partition = self.partition
        transition = partition.mask(partition.pairs[self.linked], self.free_dynamics)
        if not partition.n_known:
            return transition
        inputs = partition.mask(partition.input_pairs.pairs[self.driven], self.own_inputs, of_inputs=True)
        return np.hstack([transition, inputs, partition.step_mask(self.shifted)])

    @cached_property
    def covariance_mask(self):
        """Free elements of the process covariance."""
        return self.partition.mask(self.partition.pairs[self.correlated], self.free_noise)

    @cached_property
    def free(self):
        """The free elements in the order of the parameter vector."""
        return FreeElements.from_masks(self.transition_mask, self.covariance_mask)


class Point(NamedTuple):
    """Plant matrices with the value and gradients of the likelihood there."""

    A: np.ndarray
    Q: np.ndarray
    evaluation: Evaluation | None  # None where nobody needs it

    @classmethod
    def at(cls, objective, A, Q):
        """Evaluate `objective` at (A, Q)."""
        return cls(A, Q, objective.evaluate(A, Q))


class Scoring:
    """Information and scoring step at one point for one structure.

    `gradient`, `step` and `vector` are those of the free elements, A first; `gain` is the log-likelihood that
    the step promises, ``T g' I^-1 g`` (twice the quadratic gain). `estimates` keeps block estimates by kind.
    With `observed` the information is the observed one, for which columns are not formed.
    """

    def __init__(self, objective, structure, point, *, observed=False):
        self.structure, self.point = structure, point
        self.n_samples, self.objective = objective.n_samples, objective
        self.estimates = {}
        _check_memory(structure)
        spend(objective, 0.5 * structure.free.n_elements**3)
        self._columns: InformationColumns | None = None
        if observed:
            matrix = observed_information(objective, structure.free, point)
        else:
            matrix = self.form().square()
            self.forget()
        self.add_prior(matrix)
        self._factor = _metric(matrix) if structure.partition.n_known else positive_factor(matrix)
        self.stand_at(point)

    def stand_at(self, point):
        """Take the vector, gradient and step of a point in this metric."""
        free = self.structure.free
        self.vector = free.gather(point.A, point.Q)
        self.gradient = free.gradient(point.evaluation.grad_A, point.evaluation.grad_Q)
        self.step = self.solved(self.gradient)
        self.gain = self.n_samples * float(self.gradient @ self.step)

    def start_of(self, objective, point):
        """Where a climb of another likelihood starts, in the metric of this one; of no use for tests."""
        start = copy(self)
        start.n_samples, start.objective, start.point = objective.n_samples, objective, point
        start.stand_at(point)
        return start

    def form(self):
        """Columns of the expected information of the free elements, with that of all of them."""
        if self._columns is None:
            info = self.objective.information(self.point.A, self.point.Q)
            self._columns = InformationColumns(info, self.structure.free)
            self.is_large = self._columns.is_large
        return self._columns

    def forget(self):
        """Give back the memory of what :meth:`form` forms, where it is large."""
        if self.is_large:
            self._columns = None

    def release(self):
        """Give back what only tests of blocks ask for, where that is much: it can be formed again."""
        if self._columns is not None and self._columns.n_bytes > TUNING.scoring_much:
            self._columns = None

    def add_prior(self, matrix):
        """Add what a prior says, if there is one, to the information of the free elements per time step."""
        if getattr(self.objective, "prior", None) is not None:
            self.objective.prior.add_information(matrix, self.structure.free, self.point.Q)

    @cached_property
    def covariance(self):
        """Covariance of the maximum-likelihood estimate of the free elements."""
        lower = dpotri(self._factor[0], lower=True)[0]
        return np.where(np.tri(len(lower), dtype=bool), lower, lower.T) / self.n_samples

    @property
    def precision(self):
        """Inverse of :attr:`covariance`."""
        lower = np.tril(self._factor[0])
        return self.n_samples * (lower @ lower.T)

    def solved(self, x):
        """``I^-1 x`` with the information I per time step."""
        return cho_solve(self._factor, x, check_finite=False)

    def whitened(self, x):
        """``L^-1 x`` with the information ``I = L L'``."""
        if x.ndim == 2:  # rows of x as columns: no copy in another order
            return dtrsm(1.0, self._factor[0], x.T, side=1, lower=1, trans_a=1).T
        return solve_triangular(self._factor[0], x, lower=True, check_finite=False)

    def unwhitened(self, x):
        """``L'^-1 x``, so that ``unwhitened(whitened(g))`` is the scoring step."""
        return solve_triangular(self._factor[0], x, lower=True, trans="T", check_finite=False)

    def without(self, structure):
        """Plant matrices when the free elements that `structure` does not have are set to zero.

        The other free elements follow to where the quadratic approximation has its maximum then.
        """
        kept_A, kept_Q = structure.transition_mask, structure.covariance_mask
        dropped = ~self.structure.free.gather(kept_A, kept_Q).astype(bool)
        x = self.vector
        within = self.covariance[np.ix_(dropped, dropped)]
        x = x - self.covariance[:, dropped] @ np.linalg.solve(within, x[dropped])
        x[dropped] = 0.0
        return self.matrices(x)

    def matrices(self, vector):
        """Plant matrices with the given free elements."""
        A, Q = self.structure.free.scatter(vector, self.point.A.shape)
        A = np.where(self.structure.transition_mask, A, self.point.A)
        return A, np.where(self.structure.covariance_mask, Q, self.point.Q)


def observed_information(objective, free, point):
    """Observed information of the free elements per time step, by central differences of the gradient."""
    x, shape = free.gather(point.A, point.Q), point.A.shape
    matrix = np.empty((len(x), len(x)))
    steps = np.full(len(x), TUNING.scoring_difference)  # either side of a covariance has to be one
    steps[free.n_transition :] = min(TUNING.scoring_difference, np.linalg.eigvalsh(point.Q)[0] / 10)
    for k, direction in enumerate(np.diag(steps)):
        A, Q = free.scatter(direction, shape)
        ahead = objective.evaluate(point.A + A, point.Q + Q)
        behind = objective.evaluate(point.A - A, point.Q - Q)
        width = 2 * steps[k]
        matrix[k] = free.gradient((behind.grad_A - ahead.grad_A) / width, (behind.grad_Q - ahead.grad_Q) / width)
    return (matrix + matrix.T) / 2


def _check_memory(structure):
    """Raise an error if the information of the free elements cannot be kept in this machine's memory."""
    n_elements = structure.free.n_elements
    needed = 4 * 8 * n_elements**2  # bytes of the information matrix, its factor, inverse and a copy
    if needed > _SMALL and needed > (available := of_machine()):
        raise MemoryError(
            f"{n_elements} elements of the plant of {structure.partition.n_units} units are free: their information "
            f"matrix needs {needed / 2**30:.3g} GiB of memory, this machine has {available / 2**30:.3g} GiB. Let the "
            "server search for links (sparsity='fdr'), give units fewer states, or fit parts of the plant."
        )


def positive_factor(matrix, largest_ridge=1.0):
    """Lower Cholesky factor, with the smallest relative ridge that makes it exist.

    What nothing is known of, a row of zeros, counts as known next to nothing beside what least is known of.
    """
    diagonal, known, ridge = np.arange(len(matrix)), matrix.diagonal(), _RIDGE
    least = known[known > 0].min() if (known > 0).any() else 0.0
    while True:
        ridged = np.array(matrix, order="F")
        ridged[diagonal, diagonal] *= 1 + ridge
        ridged[diagonal, diagonal] += ridge * least * (known == 0)
        try:
            return cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            ridge *= 100
            if ridge > largest_ridge:
                raise


def _metric(matrix):
    """Lower Cholesky factor of the matrix, or where it is indefinite of the one with absolute eigenvalues.

    Inputs under feedback can make the expected information indefinite, which supposes that there is none.
    """
    try:
        return positive_factor(matrix, largest_ridge=TUNING.scoring_indefinite)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(np.abs(values), TUNING.scoring_indefinite * np.abs(values).max())
        return positive_factor((vectors * values) @ vectors.T)


def is_valid(A, Q):
    """Whether the plant is stable and its noise covariance is safely positive definite."""
    variances = np.diag(Q)
    if not (np.isfinite(A).all() and np.isfinite(Q).all() and variances.min() > 0):
        return False
    scale = np.sqrt(variances)
    smallest = np.linalg.eigvalsh(Q / np.outer(scale, scale))[0]
    return bool(smallest > TUNING.scoring_correlation_floor and _vanishes(A[:, : len(Q)]))


def _vanishes(A):
    """Whether powers of a matrix vanish, when they are formed by squaring in floating point as well.

    Those of a double root of modulus r grow to ``g = d / (e (1 - r))``, d the departure from a normal matrix, and
    rounding of ``eps g**2`` moves the roots of a square by ``sqrt(eps g**3)``, which has to be less than one.
    """
    moduli = np.abs(np.linalg.eigvals(A))
    departure = np.sqrt(max(np.sum(A * A) - np.sum(moduli * moduli), 0.0))
    return moduli.max() < min(MAX_RADIUS, 1 - _ROUNDED / math.e * departure)


def made_valid(A, Q, partition, radius=0.99):
    """The plant with its off-diagonal blocks made smaller until it is safely valid."""
    n, diagonal = len(Q), partition.block_diagonal
    A, B = A[:, :n], A[:, n:]
    for share in (1.0, 0.5, 0.25, 0.125, 0.0):
        weight = np.where(diagonal, 1.0, share)
        trial = weight * A
        if is_valid(trial, weight * Q) and (share == 0 or spectral_radius(trial) < radius):
            return np.hstack([trial, B]), weight * Q
    return np.hstack([cap_radius(np.where(diagonal, A, 0.0), radius), B]), np.where(diagonal, Q, 0.0)


class Goal(NamedTuple):
    """The log-likelihood that a last step promises, and the iterations that getting there may take."""

    gain: float
    max_iter: int

    def is_near(self, gain, before, n_iter):
        """Whether it is still ahead and a step that left `gain` of `before` says that it is close."""
        return self.gain < gain <= _FAST * before and n_iter < self.max_iter


class Ascent(NamedTuple):
    """Where :func:`ascend` ended: what a step from there promises, iterations, those beyond the goal."""

    point: Point
    gain: float
    n_iter: int
    converged: bool
    n_further: int = 0


def ascend(objective, scoring, *, gain_tol, further=None, max_iter=300):
    """Climb towards the maximum with a fixed structure, one gradient an iteration.

    Steps are those of BFGS in the metric of the information at the start, until one promises `gain_tol`;
    while it is fast, on to the goal `further`.
    """
    scoring.release()
    point, x, free = scoring.point, scoring.vector, scoring.structure.free
    slope = scoring.whitened(scoring.gradient)
    curvature, before, n_further = InverseCurvature(), np.inf, 0
    for n_iter in range(max_iter):
        if is_spent(objective):
            return Ascent(point, scoring.n_samples * float(slope @ slope), n_iter, False, n_further)
        direction = curvature @ slope
        gain = scoring.n_samples * float(slope @ direction)
        if gain <= gain_tol:
            if further is None or not further.is_near(gain, before, n_further):
                return Ascent(point, gain, n_iter, True, n_further)
            n_further += 1
        before = gain
        trial = _search_line(objective, scoring, point, x, direction, float(slope @ direction))
        if trial is None:
            if not curvature.pairs:
                return Ascent(point, gain, n_iter, gain <= TUNING.scoring_rounding_gain)
            curvature = InverseCurvature()
            continue
        point, length = trial
        x = free.gather(point.A, point.Q)
        new_slope = scoring.whitened(free.gradient(point.evaluation.grad_A, point.evaluation.grad_Q))
        curvature.learn(length * direction, slope - new_slope)
        slope = new_slope
    return Ascent(point, gain, max_iter, False)


class Budget:
    """Seconds of work, counted in operations: what is learned does not depend on the machine's load.

    What is counted as too little is stopped by the clock of the processor.
    """

    def __init__(self, max_time, whole=None):
        self.max_time, self._whole, self.first = max_time, whole, self if whole is None else whole.first
        self.operations_left, self.longest = max_time * RATE, TUNING.scoring_clock * max_time
        self.began, self.is_late = (perf_counter(), process_time()), False
        self.short_of: list[str] = []  # what searches that had a part of it looked for, and ended with that part

    def part(self, share):
        """A budget for the next part of the work, a share of what is left; what it does not take stays."""
        return Budget(share * self.left, self)

    def beside(self, share):
        """A budget for work beside this part: taken off the whole alone, a share of what that has left."""
        return (self if self._whole is None else self._whole).part(share)

    def widen(self, share):
        """Take a larger share of what the whole has left."""
        if self._whole is not None:
            self.operations_left = max(self.operations_left, share * self._whole.operations_left)
            self.max_time = max(self.max_time, self.operations_left / RATE)

    def leave(self, n_operations):
        """Leave time for what is done whatever was found: a fifth of it stays for finding."""
        taken = min(n_operations, TUNING.scoring_clock * self.operations_left)
        self.spend(taken)
        self.max_time -= taken / RATE

    def spend(self, n_operations):
        """Take some operations off."""
        self.operations_left -= n_operations
        if self._whole is not None:
            self._whole.spend(n_operations)

    def affords(self, n_operations):
        """Whether so much work is left; what cannot be begun ends the rest."""
        if n_operations > self.operations_left:
            self.spend(max(self.operations_left, 0.0))
            return False
        return True

    def times(self, n_operations, wanted):
        """How often some work is done that was wanted so many times: once at least.

        It is taken off the whole budget, and off this part only where the whole does not suffice.
        """
        whole = self if self._whole is None else self._whole
        number = int(np.clip(whole.operations_left // n_operations, 1, wanted))
        if number == wanted:
            whole.spend(n_operations * number)
        else:
            self.spend(max(whole.operations_left, 0.0))
        return number

    @property
    def left(self):
        """Seconds of work that are left."""
        return max(self.operations_left, 0.0) / RATE

    @property
    def stopped_by_clock(self):
        """Whether the work as a whole took longer than it was counted as.

        A busy machine, or a site that is waited for, is no work; nor are several threads more.
        """
        whole, (wall, processor) = self.first, self.first.began
        whole.is_late |= min(perf_counter() - wall, process_time() - processor) > whole.longest
        return whole.is_late

    @property
    def is_spent(self):
        """Whether there is nothing left."""
        return self.operations_left <= 0 or self.stopped_by_clock


def spend(objective, n_operations=None):
    """Count work on a likelihood, that of an evaluation unless said otherwise, where somebody counts."""
    if getattr(objective, "budget", None) is not None:
        objective.budget.spend(objective.work if n_operations is None else n_operations)


def is_spent(objective):
    """Whether no work is left for a likelihood."""
    budget = getattr(objective, "budget", None)
    return budget is not None and budget.is_spent


def _search_line(objective, scoring, point, x, direction, slope, n_halvings=25):
    """Longest halved step that leads to a valid plant and a sufficient rise (Armijo).

    Where rounding hides the rise, one along which the slope falls counts as well.
    """
    step, value = scoring.unwhitened(direction), point.evaluation.value
    for length in 0.5 ** np.arange(n_halvings):
        if length < 1 and is_spent(objective):
            break
        A, Q = scoring.matrices(x + length * step)
        if is_valid(A, Q):
            with np.errstate(over="ignore", invalid="ignore"):  # a filter that overflows has no likelihood: no rise
                found = objective.evaluate(A, Q)
            spend(objective)
            rise = found.value - value
            if rise >= 1e-4 * length * slope:
                return Point(A, Q, found), length
            if abs(rise) <= TUNING.scoring_rounding * abs(value):
                gradient = scoring.structure.free.gradient(found.grad_A, found.grad_Q)
                if abs(gradient @ step) <= 0.9 * slope:
                    return Point(A, Q, found), length
    return None


@dataclass
class InverseCurvature:
    """Inverse Hessian that BFGS learns from the identity, kept as steps and changes of slope."""

    pairs: list = field(default_factory=list)

    def learn(self, step, change):
        """Take in one step; it changes nothing if the curvature along it is not positive."""
        curvature = float(step @ change)
        if curvature > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            self.pairs.append((step, change, curvature))

    def __matmul__(self, x):
        x, weights = x.copy(), []
        for step, change, curvature in reversed(self.pairs):
            weights.append(step @ x / curvature)
            x -= weights[-1] * change
        for (step, change, curvature), weight in zip(self.pairs, reversed(weights), strict=True):
            x += (weight - change @ x / curvature) * step
        return x


# A few pseudo-observations that keep a nearly degenerate plant feasible.
#
# Real units can move almost together (pressures that equalise within a sampling period): their process noise
# is then almost perfectly correlated and influences between them are hardly identified. Or they
# drift so slowly that the likelihood would rather have them unstable. The prior is worth a handful of time
# steps, in which noise is independent with the variances of the units' own models, off-diagonal elements of
# the transition matrix have unit variance and each unit's states have the variance of the record (all in
# standardised states). Of how states of different units move together it says nothing: strong links make them.
# It is used only where the process noise of different units is correlated, a unit's own noise is nearly
# singular or a unit is close to a unit root.


@dataclass(frozen=True)
class Prior:
    """Gaussian prior on off-diagonal blocks of A, inverse Wishart on Q, states of bounded variance."""

    covariance: np.ndarray  # (n, n)
    coupling: np.ndarray  # (n, n)
    n_samples: int
    states: np.ndarray | None = None  # (n, n) or None
    weight: float = TUNING.prior_weights[0]  # time steps that it is worth

    @classmethod
    def for_units(cls, A, Q, partition, n_samples, weight=TUNING.prior_weights[0]):
        """Prior around the units' own models, none of their process covariances singular."""
        states = None
        if partition.n_known:
            own = stationary_covariance(A[:, : len(Q)], Q)
            states = np.eye(len(Q)) - floor_eigenvalues(np.eye(len(Q)) - own, 0.0)  # at most the record's
            states = floor_eigenvalues(states, TUNING.prior_variance_floor)
        own = floor_eigenvalues(Q, TUNING.prior_variance_floor)
        return cls(own, ~partition.block_diagonal, n_samples, states, weight)

    def evaluate(self, A, Q):
        """Log-prior and its derivatives per time step, zero for the columns of B in A."""
        n_inputs = A.shape[1] - len(Q)
        A = A[:, : len(Q)]
        inverse = np.linalg.inv(Q)
        spread = inverse @ self.covariance @ inverse
        trace = np.trace(inverse @ self.covariance)
        linked = np.where(self.coupling, A, 0.0) / TUNING.prior_link_scale**2
        value = -self.weight / 2 * (np.linalg.slogdet(Q)[1] + trace) - 0.5 * (linked * A).sum()
        grad_Q = self.weight / 2 * (spread - inverse)
        states = np.eye(len(Q)) if self.states is None else self.states
        start = _stationary_prior(A, Q, states, ~self.coupling, self.weight)
        grad_A, grad_Q = start.grad_A - linked, start.grad_Q + (grad_Q + grad_Q.T) / 2
        grad_A = np.pad(grad_A, [(0, 0), (0, n_inputs)])
        n = self.n_samples
        return Evaluation((value + start.value) / n, grad_A / n, grad_Q / n)

    def add_information(self, matrix, free, Q):
        """Add the curvature of the log-prior, per time step, to the information of the free elements."""
        inside = free.cols < len(Q)
        coupling = np.zeros(free.n_transition, dtype=bool)
        coupling[inside] = self.coupling[free.rows[inside], free.cols[inside]]
        linked, split = np.flatnonzero(coupling), free.n_transition
        matrix[linked, linked] += 1 / TUNING.prior_link_scale**2 / self.n_samples
        inverse = np.linalg.inv(Q)
        a, b = free.first, free.second
        mixed = inverse[np.ix_(b, a)]
        products = mixed * mixed.T + inverse[np.ix_(a, a)] * inverse[np.ix_(b, b)]
        half = free.half_on_diagonal
        matrix[split:, split:] += self.weight * half[:, None] * half[None, :] * products / self.n_samples


def _stationary_prior(A, Q, states, own, weight):
    """Log-density of pseudo-states with covariance `states` under the plant's stationary distribution, unit by unit.

    Of all units together they would say that their states are independent, against any link that is strong.
    """
    S = stationary_covariance(A, Q)
    of_units = np.where(own, S, 0.0)
    inverse = np.linalg.inv(of_units)
    value = -weight / 2 * (np.linalg.slogdet(of_units)[1] + np.trace(inverse @ states))
    through = adjoint_lyapunov(A, weight / 2 * (inverse @ states @ inverse - inverse))
    return Evaluation(value, 2 * through @ A @ S, through)


class WithPrior:
    """A likelihood with a prior added to it."""

    def __init__(self, likelihood, prior):
        self._likelihood, self.prior = likelihood, prior
        self.n_samples, self.budget = likelihood.n_samples, getattr(likelihood, "budget", None)
        self.information, self.unit_information = likelihood.information, likelihood.unit_information

    def with_weight(self, weight):
        """The same likelihood with the prior worth so many time steps."""
        return WithPrior(self._likelihood, replace(self.prior, weight=weight))

    @property
    def work(self):
        """Operations of an evaluation, about."""
        return self._likelihood.work

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q)."""
        data, prior = self._likelihood.evaluate(A, Q), self.prior.evaluate(A, Q)
        return Evaluation(data.value + prior.value, data.grad_A + prior.grad_A, data.grad_Q + prior.grad_Q)
