"""Small training problems for the tests of the augmented models, with their series."""

from dataclasses import dataclass

import numpy as np

from skfedcausal.papers.numerics.descent import AugmentedProblem, Rates, augmented_problem


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


def stack_problems(problems):
    """Problems of several units as one stack, padded with zeros, where parameters that start at zero stay."""
    p = max(len(one.transition) for one in problems)
    d = max(one.n_outputs for one in problems)
    k_states = max(one.n_states for one in problems)
    k_inputs = max(one.n_drivers - one.n_states for one in problems)
    q = d + problems[0].n_local - problems[0].n_outputs
    n, size = len(problems), q + k_states + k_inputs
    transition, gram, target = np.zeros((n, p, p)), np.zeros((n, p, p)), np.zeros((n, p, q))
    moments = np.zeros((n, size, size))
    for m, one in enumerate(problems):
        rows, n_inputs = slice(len(one.transition)), one.n_drivers - one.n_states
        parts = (0, one.n_outputs), (d, q - d), (q, one.n_states), (q + k_states, n_inputs)
        cols = np.concatenate([start + np.arange(length) for start, length in parts])
        transition[m, rows, rows], gram[m, rows, rows] = one.transition, one.gram
        moments[m][np.ix_(cols, cols)] = one.moments
        target[m][rows, cols[: one.n_local]] = one.target
    energy, xi = (np.array([getattr(one, name) for one in problems], float) for name in ("energy", "xi"))
    return AugmentedProblem(transition, gram, moments, target, energy, d, q, k_states, xi)
