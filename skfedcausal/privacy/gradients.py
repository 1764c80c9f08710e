"""Noise on the gradients of a trusted server: it may see the units' states, they not each other's.

The derivative in one unit's state at one time step contains the other units' states, so that one measurement
moves the gradients of every recipient at every later step and in every round. Clipping bounds each of them,
and nothing else about the trained plant has to be known.
"""

from dataclasses import dataclass

import numpy as np

from .sampling import grid_of, normal_noise, on_grid


def gradient_sensitivity(clip, n_steps, n_rounds, n_recipients):
    """Largest change of all clipped gradients of a run, ``2 C sqrt(T R M)``, whatever changes in the data.

    Parameters
    ----------
    clip : float
        Bound C on the norm of each gradient.
    n_steps, n_rounds, n_recipients : int

    Returns
    -------
    float
    """
    return 2 * clip * np.sqrt(n_steps * n_rounds * n_recipients)


def noised_gradients(gradients, clip, std, rng):
    """Gradients clipped row by row, with noise on a grid.

    Parameters
    ----------
    gradients : ndarray of shape (n_steps, n_states)
    clip : float
    std : float
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_steps, n_states)
    """
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    bounded = gradients * np.minimum(1.0, clip / np.maximum(norms, np.finfo(float).tiny))
    return on_grid(bounded, grid_of(std)) + normal_noise(gradients.shape, std, rng)


@dataclass(frozen=True)
class GradientGuard:
    """Clip and noise of all gradients of a run.

    Attributes
    ----------
    clip, std : float
    """

    clip: float
    std: float

    @classmethod
    def calibrated(cls, clip, sensitivity, mu, width):
        """Noise for a run whose gradients together are mu-GDP.

        Parameters
        ----------
        clip : float
        sensitivity : callable
            Of all gradients of the run, from the largest norm of one.
        mu : float
        width : int
            Numbers in a gradient, at most; rounding to the grid moves each of them.
        """
        std = sensitivity(clip) / mu
        for _ in range(2):  # the grid follows the noise
            std = sensitivity(clip + np.sqrt(width) * grid_of(std) / 2) / mu
        return cls(clip, std)

    def noised(self, gradients, rng):
        """Gradients, one a row, as they may leave the server."""
        return noised_gradients(gradients, self.clip, self.std, rng)
