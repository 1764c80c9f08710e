"""Small training problems for the tests of the augmented models, with their series."""

from dataclasses import dataclass

import numpy as np

from skfedcausal.papers.numerics.augmented import augmented_problem
from skfedcausal.papers.numerics.descent import Rates


@dataclass
class Record:
    """Series over pairs of successive rows and the constants of one unit's problem."""

    A: np.ndarray
    C: np.ndarray
    measurements: np.ndarray
    drivers: np.ndarray
    residuals: np.ndarray
    n_inputs: int = 0
    constant: bool = False
    xi: float = 0.0

    def problem(self, rows=slice(None)):
        return augmented_problem(
            self.A,
            self.C,
            self.measurements[rows],
            self.drivers[rows],
            self.residuals[rows],
            n_inputs=self.n_inputs,
            constant=self.constant,
            xi=self.xi,
        )

    def losses(self, parameters, blocks):
        """Client loss, server loss and penalty straight from the series."""
        d, k = self.measurements.shape[1], self.drivers.shape[1] - self.n_inputs
        theta = parameters[:, :d]
        phi = parameters[:, d] if self.constant else np.zeros(len(self.A))
        turned = self.measurements @ theta.T @ self.A.T
        own = self.residuals - (turned + phi) @ self.C.T
        server = self.drivers @ blocks.T - turned - phi
        penalty = turned - self.drivers[:, :k] @ blocks[:, :k].T
        return [np.mean((x**2).sum(axis=1)) for x in (own, server, penalty)]


def make_record(seed=0, *, p=2, d=3, n_states=3, n_inputs=0, n_pairs=60, constant=False, xi=0.0):
    """Random record whose series have something in common, so that nothing cancels."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n_pairs, 2)) + 0.5

    def mix(size):
        return common @ rng.standard_normal((2, size)) + rng.standard_normal((n_pairs, size))

    return Record(
        A=0.6 * rng.standard_normal((p, p)),
        C=rng.standard_normal((d, p)),
        measurements=mix(d),
        drivers=mix(n_states + n_inputs),
        residuals=mix(d),
        n_inputs=n_inputs,
        constant=constant,
        xi=xi,
    )


def random_point(problem, seed=1):
    """Random parameters and blocks."""
    rng = np.random.default_rng(seed)
    p = len(problem.transition)
    return rng.standard_normal((p, problem.n_local)), rng.standard_normal((p, problem.n_drivers))


def safe_rates(problem, client_weight=1.0, share=0.9):
    """Step sizes below the stability limit, from the eigenvalues of the second derivative."""
    top = np.linalg.eigvalsh(problem.moments)[-1] * (1 + problem.xi)
    own = client_weight * np.linalg.eigvalsh(problem.gram)[-1] + 1
    size = max(np.linalg.norm(problem.transition, 2) ** 2, 1.0 if problem.n_local > problem.n_outputs else 0.0)
    step, turn = share / (2 * top * own * size), share / (2 * top)
    return Rates.constant(problem, client_weight * step, step, turn)
