"""Noise inside gradient training: the papers' own for comparison, and a trusted server's gradients.

The papers calibrate every message and every gradient of every time step on its own, by the classical formula
and the sensitivity of that step, and add epsilons up. A measurement moves all later messages of its unit's
filter, a message that is sent again with fresh noise can be averaged, and the sum over steps and rounds says
nothing. The exact totals below hold for a correction `theta` that does not depend on the data; while it is
trained on them nothing bounds what its changes reveal.

The gradients of a trusted server, which may see the units' states while units must not see each other's, do
keep a promise: clipping bounds each of them, and nothing else about the trained plant has to be known.

References
----------
.. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent Clients
       with State Space Representation, section 7.
.. [2] Dwork, Roth (2014), The algorithmic foundations of differential privacy, appendix A: the classical
       formula, proven for epsilon below one.
"""

from dataclasses import dataclass

import numpy as np

from .accountant import Charge
from .calibration import check_promise, epsilon_from_mu
from .noise import grid_of, normal_noise, on_grid
from .sensitivity import gradient_sensitivity, gramian, root_of_largest


def classical_noise_multiplier(epsilon, delta):
    """Noise over sensitivity by the classical formula, ``sqrt(2 ln(1.25 / delta)) / epsilon``."""
    check_promise(epsilon, delta)
    return np.sqrt(2 * np.log(1.25 / delta)) / epsilon


def classical_epsilon(noise_multiplier, delta):
    """Epsilon that the classical formula reads off a noise multiplier."""
    return np.sqrt(2 * np.log(1.25 / delta)) / noise_multiplier


def message_noise(K, theta, radius, epsilon, delta):
    """Noise of the two states a unit sends at every step, each (epsilon, delta) by the papers' theorem.

    Standard deviations of the filtered and of the augmented state; sensitivities ``2 B_y ||K||`` and
    ``2 B_y (||K|| + ||theta||)`` for measurements of norm B_y (`radius`) at most.
    """
    multiplier = classical_noise_multiplier(epsilon, delta)
    gain, correction = np.linalg.norm(K, 2), np.linalg.norm(theta, 2)
    return 2 * radius * gain * multiplier, 2 * radius * (gain + correction) * multiplier


def messages_mu(F, K, theta, stds, radius, n_rounds=1):
    """Exact Gaussian-DP mu of the noised messages of a whole record about one time step.

    `stds` is the noise of the filtered and of the augmented state, `radius` the bound B_y on the norm of a
    measurement (two of them differ by twice as much), `n_rounds` how often the same states are sent with
    fresh noise.
    """
    of_filtered, of_augmented = (1 / std**2 for std in stds)
    eye, Kt = np.eye(len(F)), K + theta
    X = gramian(np.asarray(F, dtype=float), eye)
    total = of_filtered * K.T @ X @ K + of_augmented * (Kt.T @ Kt + K.T @ F.T @ X @ F @ K)
    return float(2 * radius * np.sqrt(n_rounds) * root_of_largest(total))


def run_mu(transitions, gains, epsilon, delta, n_augmented=1):
    """Largest Gaussian-DP mu of one round of the papers' messages about one time step, for any fixed theta.

    `gains` are the ``K_t`` and `transitions` the ``F_t = (I - K_t C) A`` from the first time step until the
    filter has settled. The noise is that of the settled filter, calibrated for `epsilon` and `delta` of each
    message by the papers' formulas; the gains of the first time steps, which are larger, count as they are.

    Reached for theta = 0 where one measurement moves the states most at once and later. The augmented state
    has the noise of ``||K|| + ||theta||``, more than a theta can add. `n_augmented` counts it and the state
    predicted from it, which a unit with inputs sends too, with ``||A||`` times its noise.
    """
    settled = np.asarray(gains[-1], dtype=float)
    X, worst = gramian(np.asarray(transitions[-1], dtype=float), np.eye(len(settled))), 0.0
    for k in reversed(range(len(gains))):
        K = np.asarray(gains[k], dtype=float)
        later = K.T @ (X - np.eye(len(X))) @ K
        augmented = np.linalg.norm(K, 2) ** 2 + root_of_largest(later) ** 2
        here = root_of_largest(K.T @ X @ K) ** 2 + n_augmented * augmented
        worst = max(worst, here)
        X = np.eye(len(X)) + transitions[k].T @ X @ transitions[k]
    return float(np.sqrt(worst) / (np.linalg.norm(settled, 2) * classical_noise_multiplier(epsilon, delta)))


def stated_and_true_epsilon(F, K, theta, radius, epsilon, delta, n_rounds):
    """Total the papers state for a run, and the exact one over rounds and later steps, at `delta` in total.

    `epsilon` is that of each message of each round; `delta` is shared evenly among the ``2 n_rounds``
    messages.
    """
    stds = message_noise(K, theta, radius, epsilon, delta / (2 * n_rounds))
    return 2 * n_rounds * epsilon, epsilon_from_mu(messages_mu(F, K, theta, stds, radius, n_rounds), delta)


def noised_gradients(gradients, clip, std, rng):
    """Gradients of shape (n_steps, n_states), clipped row by row, with noise on a grid."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    bounded = gradients * (clip / np.maximum(norms, clip))
    return on_grid(bounded, grid_of(std)) + normal_noise(gradients.shape, std, rng)


@dataclass(frozen=True)
class GradientGuard:
    """Clip and noise of all gradients that a trusted server sends in a run; `mu` of all of them together."""

    clip: float
    std: float
    mu: float

    @classmethod
    def calibrated(cls, clip, mu, n_steps, n_rounds, n_recipients, width):
        """Noise for a run whose gradients together are mu-GDP.

        `width` bounds the numbers in a gradient: rounding to the grid moves each of them.
        """
        std = gradient_sensitivity(clip, n_steps, n_rounds, n_recipients) / mu
        for _ in range(2):  # the grid follows the noise
            rounded = clip + np.sqrt(width) * grid_of(std) / 2
            std = gradient_sensitivity(rounded, n_steps, n_rounds, n_recipients) / mu
        return cls(clip, std, mu)

    def noised(self, gradients, rng):
        """Gradients, one a row, as they may leave the server."""
        return noised_gradients(gradients, self.clip, self.std, rng)

    def charge(self, name):
        """Cost of the run to every unit."""
        return Charge(name, "gradients", mu=self.mu, sensitivity=self.std * self.mu, noise_std=self.std)
