"""A few pseudo-observations that keep a nearly degenerate plant feasible.

Real units can move almost together (pressures that equalise within a sampling period): their process noise
is then almost perfectly correlated and influences between them are hardly identified. Or they
drift so slowly that the likelihood would rather have them unstable. The prior is worth a handful of time
steps, in which noise is independent with the variances of the units' own models, off-diagonal elements of
the transition matrix have unit variance and each unit's states have the variance of the record (all in
standardised states). Of how states of different units move together it says nothing: strong links make them.
It is used only where the process noise of different units is correlated, a unit's own noise is nearly
singular or a unit is close to a unit root.
"""

from dataclasses import dataclass

import numpy as np

from ...statespace.fisher import Evaluation
from ...statespace.matrices import floor_eigenvalues
from ...statespace.riccati import adjoint_lyapunov, stationary_covariance
from .tuning import TUNING


@dataclass(frozen=True)
class Prior:
    """Gaussian prior on off-diagonal blocks of A, inverse Wishart on Q, states of bounded variance."""

    covariance: np.ndarray  # (n, n)
    coupling: np.ndarray  # (n, n)
    n_samples: int
    states: np.ndarray | None = None  # (n, n) or None

    @classmethod
    def for_units(cls, A, Q, partition, n_samples):
        """Prior around the units' own models, none of their process covariances singular."""
        states = None
        if partition.n_known:
            own = stationary_covariance(A[:, : len(Q)], Q)
            states = np.eye(len(Q)) - floor_eigenvalues(np.eye(len(Q)) - own, 0.0)  # at most the record's
            states = floor_eigenvalues(states, TUNING.prior_variance_floor)
        return cls(floor_eigenvalues(Q, TUNING.prior_variance_floor), ~partition.block_diagonal, n_samples, states)

    def evaluate(self, A, Q):
        """Log-prior and its derivatives per time step, zero for the columns of B in A."""
        n_inputs = A.shape[1] - len(Q)
        A = A[:, : len(Q)]
        inverse = np.linalg.inv(Q)
        spread = inverse @ self.covariance @ inverse
        trace = np.trace(inverse @ self.covariance)
        linked = np.where(self.coupling, A, 0.0) / TUNING.prior_link_scale**2
        value = -TUNING.prior_pseudo_steps / 2 * (np.linalg.slogdet(Q)[1] + trace) - 0.5 * (linked * A).sum()
        grad_Q = TUNING.prior_pseudo_steps / 2 * (spread - inverse)
        start = _stationary_prior(A, Q, np.eye(len(Q)) if self.states is None else self.states, ~self.coupling)
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
        matrix[split:, split:] += TUNING.prior_pseudo_steps * half[:, None] * half[None, :] * products / self.n_samples


def _stationary_prior(A, Q, states, own):
    """Log-density of pseudo-states with covariance `states` under the plant's stationary distribution, unit by unit.

    Of all units together they would say that their states are independent, against any link that is strong.
    """
    S = stationary_covariance(A, Q)
    of_units = np.where(own, S, 0.0)
    inverse = np.linalg.inv(of_units)
    value = -TUNING.prior_pseudo_steps / 2 * (np.linalg.slogdet(of_units)[1] + np.trace(inverse @ states))
    through = adjoint_lyapunov(A, TUNING.prior_pseudo_steps / 2 * (inverse @ states @ inverse - inverse))
    return Evaluation(value, 2 * through @ A @ S, through)


class WithPrior:
    """A likelihood with a prior added to it."""

    def __init__(self, likelihood, prior):
        self._likelihood, self.prior = likelihood, prior
        self.n_samples, self.budget = likelihood.n_samples, getattr(likelihood, "budget", None)
        self.information, self.unit_information = likelihood.information, likelihood.unit_information

    @property
    def work(self):
        """Operations of an evaluation, about."""
        return self._likelihood.work

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q)."""
        data, prior = self._likelihood.evaluate(A, Q), self.prior.evaluate(A, Q)
        return Evaluation(data.value + prior.value, data.grad_A + prior.grad_A, data.grad_Q + prior.grad_Q)
