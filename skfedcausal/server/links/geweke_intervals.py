"""How far Geweke's measures of a fitted plant may be off, by the delta method."""

from dataclasses import dataclass

import numpy as np

from ...statespace.fisher import FreeElements
from ...statespace.geweke import geweke_gradients, geweke_measures, geweke_spectrum
from ...statespace.whittle import midpoints
from .bootstrap import NO_MEASURE, root_intervals

_MOST_FREQUENCIES = 128  # at which standard errors are computed


@dataclass(frozen=True)
class FittedParameters:
    """Estimated plant in standardised states with the covariance of its free elements."""

    A: np.ndarray  # (n, n)
    Q: np.ndarray  # (n, n)
    free: FreeElements
    covariance: np.ndarray  # (n_free, n_free)
    state_scale: np.ndarray  # (n, n)

    @classmethod
    def of(cls, point, free, covariance, state_scale):
        """Those of states and their noise among all free elements."""
        n = len(point.Q)
        kept = np.concatenate([free.cols < n, np.ones(len(free.first), dtype=bool)])
        states = kept[: free.n_transition]
        own = FreeElements(free.rows[states], free.cols[states], free.first, free.second)
        return cls(point.A[:, :n], point.Q, own, covariance[np.ix_(kept, kept)], state_scale)

    def information(self, information):
        """Information matrix of measurements in standardised states."""
        return self.state_scale.T @ information @ self.state_scale

    def nearby(self):
        """Pairs of plants one standard error to both sides of the estimate, along independent directions."""
        root = np.linalg.cholesky(self.covariance + 1e-14 * np.diag(self.covariance.diagonal()))
        for direction in root.T:
            A, Q = self.free.scatter(direction, self.A.shape)
            yield (self.A + A, self.Q + Q), (self.A - A, self.Q - Q)


def measure_intervals(parameters, information, partition, level):
    """Geweke's measure of every pair and the ends of its interval, each of shape (n_units, n_units).

    Normal on the scale of the measure's root. NaN where the measure is zero because the plant has no way from
    cause to effect.
    """
    A, Q, J = parameters.A, parameters.Q, parameters.information(information)
    partition = partition.without_inputs
    measures = geweke_measures(A, Q, J, partition)
    stderr = np.zeros_like(measures)
    for effect, cause, grad_A, grad_Q in geweke_gradients(A, Q, J, partition, measures > NO_MEASURE):
        gradient = parameters.free.gradient(grad_A, grad_Q)
        variance = gradient @ parameters.covariance @ gradient
        stderr[effect, cause] = np.sqrt(variance) / (2 * np.sqrt(measures[effect, cause]))
    return measures, *root_intervals(measures, stderr, level)


def spectrum_intervals(parameters, information, partition, pair, found, conditional, level):
    """Ends of the interval of a spectrum at every frequency, on the scale of its root.

    Derivatives are differences over two standard errors, along independent combinations of the estimates, and
    interpolated between frequencies where there are many.
    """
    J, partition = parameters.information(information), partition.without_inputs
    n_frequencies = min(len(found.frequency), _MOST_FREQUENCIES)
    settings = {"conditional": conditional, "n_frequencies": n_frequencies}

    def root(plant):
        measure = geweke_spectrum(*plant, J, partition, *pair, **settings).measure
        return np.sqrt(np.maximum(measure, 0.0))

    variance = sum(((root(ahead) - root(behind)) / 2) ** 2 for ahead, behind in parameters.nearby())
    stderr = np.interp(found.frequency, midpoints(n_frequencies), np.sqrt(variance))
    return root_intervals(np.maximum(found.measure, 0.0), stderr, level)
