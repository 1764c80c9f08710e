"""Maximum likelihood of the plant with a given structure, by Fisher scoring on its free elements."""

import math
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotri

from ...statespace.fisher import InformationColumns
from ...statespace.matrices import cap_radius, companion, spectral_radius

MAX_RADIUS = 1 - 1e-6
_CORRELATION_FLOOR = 1e-6  # smallest eigenvalue of the correlations of process noise
_RIDGE = 1e-12
_SMALL = 2**28  # bytes that every machine has
_INDEFINITE = 1e-6  # relative ridge that cures no rounding but a negative eigenvalue
_DIFFERENCE = 1e-5  # step of numerical derivatives, in standardised units
_ROUNDING = 1e-12  # relative differences of log-likelihoods that may be rounding errors
_FAST = 0.1  # share of what a step found that it may leave where the climb goes on because it is fast
_ROUNDING_GAIN = 1e-9  # log-likelihood that a step may promise when rounding keeps it from rising


@dataclass(frozen=True)
class Point:
    """Plant matrices with the value and gradients of the likelihood there.

    A stands for the coefficients ``[A | B]`` where the plant has inputs.
    """

    A: np.ndarray
    Q: np.ndarray
    evaluation: object

    @classmethod
    def at(cls, objective, A, Q):
        """Evaluate `objective` at (A, Q)."""
        return cls(A, Q, objective.evaluate(A, Q))


class Scoring:
    """Information and scoring step at one point for one structure."""

    def __init__(self, objective, structure, point, *, observed=False):
        self.structure, self.point = structure, point
        self.n_samples = objective.n_samples
        _check_memory(structure)
        self._objective, self._observed = objective, observed
        self.estimates = {}
        matrix = observed_information(objective, structure.free, point) if observed else self.columns.square()
        self.forget()
        self.add_prior(matrix)
        self._factor = _metric(matrix) if structure.partition.n_known else positive_factor(matrix)
        self.gradient = self.gradient_at(point)
        self.step = self.solved(self.gradient)

    def add_prior(self, matrix):
        """Add what a prior says, if there is one, to the information of the free elements per time step."""
        if getattr(self._objective, "prior", None) is not None:
            self._objective.prior.add_information(matrix, self.structure.free, self.point.Q)

    @cached_property
    def info(self):
        """Expected information of all elements; large ones are not kept while the search goes on."""
        return self._objective.information(self.point.A, self.point.Q)

    @cached_property
    def columns(self):
        """Columns of the information matrix, one per free element; large ones are not kept either."""
        return InformationColumns(self.info, self.structure.free)

    def forget(self):
        """Give back the memory of what can be computed again, where it is large."""
        if "columns" in self.__dict__ and self.columns.is_large:
            del self.columns
            self.__dict__.pop("info", None)

    def gradient_at(self, point):
        """Derivatives with respect to the free elements at a point."""
        return self.structure.free.gradient(point.evaluation.grad_A, point.evaluation.grad_Q)

    @property
    def gain(self):
        """Log-likelihood that the step promises, ``T g' I^-1 g`` (twice the quadratic gain)."""
        return self.n_samples * float(self.gradient @ self.step)

    @property
    def vector(self):
        """Free elements at the point, A first."""
        return self.structure.free.gather(self.point.A, self.point.Q)

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

        The elements that stay move to their expectation given that, to first order.
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
    """Observed information of the free elements, by central differences of the gradient."""
    x, shape = free.gather(point.A, point.Q), point.A.shape
    matrix = np.empty((len(x), len(x)))
    steps = np.full(len(x), _DIFFERENCE)  # either side of a covariance has to be one
    steps[free.n_transition :] = min(_DIFFERENCE, np.linalg.eigvalsh(point.Q)[0] / 10)
    on_diagonal = np.where(free.first == free.second, 2.0, 1.0)
    for k, direction in enumerate(np.diag(steps)):
        A, Q = free.scatter(direction, shape)
        ahead = objective.evaluate(point.A + A, point.Q + Q)
        behind = objective.evaluate(point.A - A, point.Q - Q)
        of_A = (behind.grad_A - ahead.grad_A) / (2 * steps[k])
        of_Q = (behind.grad_Q - ahead.grad_Q) / steps[k]
        matrix[k] = np.concatenate([of_A[free.rows, free.cols], of_Q[free.first, free.second] / on_diagonal])
    return (matrix + matrix.T) / 2


def memory_needed(n_elements):
    """Bytes of the information matrix of so many free elements, its factor, inverse and a copy."""
    return 4 * 8 * n_elements**2


def _check_memory(structure):
    """Raise an error if the information of the free elements cannot be kept in this machine's memory."""
    n_elements = structure.free.n_elements
    needed = memory_needed(n_elements)
    if needed > _SMALL and needed > (available := _memory()):
        raise MemoryError(
            f"{n_elements} elements of the plant of {structure.partition.n_units} units are free: their "
            f"information matrix needs {needed / 2**30:.3g} GiB of memory, this machine has "
            f"{available / 2**30:.3g} GiB. Let the server search for links (sparsity='fdr'), give units "
            "fewer states, or fit parts of the plant."
        )


def _memory():
    """Bytes of memory of this machine, infinite where it does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def positive_factor(matrix, largest_ridge=1.0):
    """Lower Cholesky factor, with the smallest relative ridge that makes it exist."""
    diagonal = np.arange(len(matrix))
    ridge = _RIDGE
    while True:
        ridged = np.array(matrix, order="F")
        ridged[diagonal, diagonal] *= 1 + ridge
        try:
            return cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            ridge *= 100
            if ridge > largest_ridge:
                raise


def _metric(matrix):
    """Lower Cholesky factor of the matrix, or where it is indefinite of the one with absolute eigenvalues.

    Inputs under feedback can make the expected information indefinite; it still has to be a metric to climb
    in.
    """
    try:
        return positive_factor(matrix, largest_ridge=_INDEFINITE)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(np.abs(values), _INDEFINITE * np.abs(values).max())
        return positive_factor((vectors * values) @ vectors.T)


def is_valid(A, Q, n_lags=1):
    """Whether the plant is stable and its noise covariance is safely positive definite."""
    variances = np.diag(Q)
    if not (np.isfinite(A).all() and np.isfinite(Q).all() and variances.min() > 0):
        return False
    scale = np.sqrt(variances)
    smallest = np.linalg.eigvalsh(Q / np.outer(scale, scale))[0]
    return bool(smallest > _CORRELATION_FLOOR and spectral_radius(companion(A, n_lags)) < MAX_RADIUS)


def made_valid(A, Q, partition, radius=0.99):
    """The plant with its off-diagonal blocks made smaller until it is safely valid.

    The diagonal blocks of `Q` have to be positive definite already.
    """
    n_lags, n = partition.n_lags, len(Q)
    diagonal, B = partition.block_diagonal, A[:, n * n_lags :]
    A = A[:, : n * n_lags]
    for share in (1.0, 0.5, 0.25, 0.125, 0.0):
        weight = np.where(diagonal, 1.0, share)
        trial = np.tile(weight, n_lags) * A
        if is_valid(trial, weight * Q, n_lags) and (
            share == 0 or spectral_radius(companion(trial, n_lags)) < radius
        ):
            return np.hstack([trial, B]), weight * Q
    first, later = np.where(diagonal, A[:, :n], 0.0), np.zeros_like(A[:, n:])
    return np.hstack([cap_radius(first, radius), later, B]), np.where(diagonal, Q, 0.0)


@dataclass(frozen=True)
class Goal:
    """The log-likelihood that a last step promises, and the iterations that getting there may take."""

    gain: float
    max_iter: int

    def is_near(self, gain, before, n_iter):
        """Whether it is still ahead and a step that left `gain` of `before` says that it is close."""
        return self.gain < gain <= _FAST * before and n_iter < self.max_iter


@dataclass(frozen=True)
class Ascent:
    """Result of :func:`ascend`: the point, what a step from it promises, the iterations it took, whether
    it reached its goal, how many of the iterations came after that.
    """

    point: Point
    gain: float
    n_iter: int
    converged: bool
    n_further: int = 0


def ascend(objective, scoring, *, gain_tol, further=None, max_iter=300):
    """Climb towards the maximum with a fixed structure, one gradient an iteration.

    BFGS in coordinates whitened by the information at the start: the first step is the scoring step, the
    later ones learn where the likelihood bends differently from what is expected [1]_. Steps are halved
    until they lead to a valid plant and the likelihood rises.

    .. [1] Nocedal, Wright (2006), Numerical Optimization, chapter 6.
    """
    point, x = scoring.point, scoring.vector
    slope = scoring.whitened(scoring.gradient)
    curvature, before, n_further = InverseCurvature(), np.inf, 0
    for n_iter in range(max_iter):
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
                return Ascent(point, gain, n_iter, gain <= _ROUNDING_GAIN)
            curvature = InverseCurvature()
            continue
        point, length = trial
        x = scoring.structure.free.gather(point.A, point.Q)
        new_slope = scoring.whitened(scoring.gradient_at(point))
        curvature.learn(length * direction, slope - new_slope)
        slope = new_slope
    return Ascent(point, gain, max_iter, False)


def _search_line(objective, scoring, point, x, direction, slope, n_halvings=25):
    """Longest halved step that leads to a valid plant and a sufficient rise (Armijo).

    Where the rise is lost in the rounding of the values, the slope along the step must have become smaller
    instead (the approximate Wolfe condition of Hager and Zhang 2005).
    """
    step = scoring.unwhitened(direction)
    value = point.evaluation.value
    length = 1.0
    for _ in range(n_halvings):
        A, Q = scoring.matrices(x + length * step)
        if is_valid(A, Q, scoring.structure.partition.n_lags):
            trial = Point.at(objective, A, Q)
            rise = trial.evaluation.value - value
            if rise >= 1e-4 * length * slope:
                return trial, length
            if abs(rise) <= _ROUNDING * abs(value) and abs(scoring.gradient_at(trial) @ step) <= 0.9 * slope:
                return trial, length
        length /= 2
    return None


class InverseCurvature:
    """Inverse Hessian that BFGS learns from the identity, kept as the steps and changes of slope behind it.

    A product costs two passes over the pairs (the two-loop recursion of Nocedal and Wright, algorithm 7.4);
    no pair is ever forgotten.
    """

    def __init__(self):
        self.pairs = []

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
