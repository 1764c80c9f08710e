"""Neural networks as maps of arrays: values and Jacobians, without the library that trained them.

Every network takes rows ``(n_samples, n_inputs)`` to rows ``(n_samples, n_outputs)`` with ``value`` and gives
``(n_samples, n_outputs, n_inputs)`` with ``jacobian``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from .tuning import TUNING


def _selu(z):
    return TUNING.networks_selu_scale * np.where(z > 0, z, TUNING.networks_selu_alpha * np.expm1(np.minimum(z, 0.0)))


def _selu_slope(z):
    return TUNING.networks_selu_scale * np.where(z > 0, 1.0, TUNING.networks_selu_alpha * np.exp(np.minimum(z, 0.0)))


def _logistic_slope(z):
    s = expit(z)
    return s * (1 - s)


#: Activation and its derivative by name.
ACTIVATIONS: dict[str, tuple[Callable, Callable]] = {
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "selu": (_selu, _selu_slope),
    "logistic": (expit, _logistic_slope),
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: (z > 0).astype(float)),
    "identity": (lambda z: z, np.ones_like),
}


@dataclass(frozen=True)
class FeedForward:
    """Layers ``act(x W + b)``, the last one without an activation."""

    weights: tuple  # (n_inputs, n_outputs)
    biases: tuple  # (n_outputs,)
    activation: str = "tanh"

    def value(self, X):
        """Outputs of every row."""
        act, _ = ACTIVATIONS[self.activation]
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            X = act(X @ W + b)
        return X @ self.weights[-1] + self.biases[-1]

    def jacobian(self, X):
        """Derivatives of the outputs in the inputs of every row."""
        act, slope = ACTIVATIONS[self.activation]
        J = np.broadcast_to(np.eye(X.shape[1]), (len(X), X.shape[1], X.shape[1]))
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            z = X @ W + b
            J = slope(z)[:, :, None] * (W.T @ J)
            X = act(z)
        return self.weights[-1].T @ J


def numeric_jacobian(value, x, step=1e-6):
    """Central differences of a map of one point, shape (n_outputs, n_inputs)."""
    x = np.asarray(x, dtype=float)
    h = step * np.maximum(np.abs(x), 1.0)
    columns = [(np.asarray(value(x + d)) - np.asarray(value(x - d))) / (2 * h[k]) for k, d in enumerate(np.diag(h))]
    return np.array(columns, dtype=float).T
