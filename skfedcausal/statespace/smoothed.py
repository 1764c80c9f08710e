"""What a smoother finds out about a plant over one or several episodes."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class SmoothedSums:
    """Log-likelihood, its derivatives and what was asked for per time step.

    Attributes
    ----------
    n, k : int
        Number of states and inputs.
    value : float
        Log-likelihood less the terms free of the states.
    grad_A, grad_Q : ndarray of shape (n, n)
        Derivatives through the transitions.
    grad_B : ndarray of shape (n, k)
    grad_P0 : ndarray of shape (n, n)
        Derivative with respect to the covariance of the first state of an episode.
    levels : list of ndarray of shape (n,)
        Maximum-likelihood level of the states in each episode (zero if none was asked for).
    """

    n: int
    k: int = 0
    value: float = 0.0
    grad_A: np.ndarray = field(init=False)
    grad_B: np.ndarray = field(init=False)
    grad_Q: np.ndarray = field(init=False)
    grad_P0: np.ndarray = field(init=False)
    levels: list = field(default_factory=list)

    def __post_init__(self):
        n = self.n
        self.grad_A, self.grad_Q, self.grad_P0 = (np.zeros((n, n)) for _ in range(3))
        self.grad_B = np.zeros((n, self.k))


class SmoothedStates:
    """Smoothed states of every time step with the covariances of chosen blocks of them.

    Parameters
    ----------
    n_samples, n : int
    blocks : sequence of slice

    Attributes
    ----------
    states : ndarray of shape (n_samples, n)
        Less the level of the episode.
    covariances : list of ndarray of shape (n_samples, p, p)
    """

    def __init__(self, n_samples, n, blocks):
        self._blocks = tuple(blocks)
        self.states = np.empty((n_samples, n))
        self.covariances = [np.empty((n_samples, b.stop - b.start, b.stop - b.start)) for b in self._blocks]

    def store(self, rows, states, spread):
        """Take over the states and covariances of some rows."""
        self.states[rows] = states
        for covariance, block in zip(self.covariances, self._blocks, strict=True):
            covariance[rows] = spread[..., block, block]
