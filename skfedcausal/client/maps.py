"""Differentiable maps of states: given as functions, or read off a fitted regressor."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neural_network import MLPRegressor

from ..statespace.networks import FeedForward, numeric_jacobian


@dataclass(frozen=True)
class GivenMap:
    """A map of one state given as functions; the Jacobian by central differences if there is none."""

    function: Callable
    derivative: Callable | None = None

    def value(self, X):
        """Values of every row."""
        return np.array([self.function(x) for x in X], dtype=float).reshape(len(X), -1)

    def jacobian(self, X):
        """Jacobians of every row."""
        return np.array([self.slope(x) for x in X], dtype=float)

    def slope(self, x):
        """Jacobian of one state, as given."""
        if self.derivative is None:
            return numeric_jacobian(lambda z: np.atleast_1d(self.function(z)), x)
        return np.atleast_2d(np.asarray(self.derivative(x), dtype=float))


@dataclass(frozen=True)
class LinearMap:
    """``x -> matrix x + level``."""

    matrix: np.ndarray
    level: np.ndarray

    def value(self, X):
        """Values of every row."""
        return X @ self.matrix.T + self.level

    def jacobian(self, X):
        """The matrix for every row."""
        return np.broadcast_to(self.matrix, (len(X), *self.matrix.shape))


@dataclass(frozen=True)
class ScaledOutput:
    """A map whose outputs are stretched and moved: ``level + scale * inner(x)``."""

    inner: Any  # another map
    level: np.ndarray
    scale: np.ndarray

    def value(self, X):
        """Values of every row."""
        return self.level + self.scale * self.inner.value(X)

    def jacobian(self, X):
        """Jacobians of every row."""
        return self.scale[:, None] * self.inner.jacobian(X)


def fitted_map(estimator):
    """A fitted regressor as a differentiable map."""
    if hasattr(estimator, "network_"):
        return estimator.network_
    if isinstance(estimator, MLPRegressor):
        return FeedForward(tuple(estimator.coefs_), tuple(estimator.intercepts_), estimator.activation)
    raise TypeError(
        f"An extended Kalman filter needs the derivative of its maps, which a {type(estimator).__name__} "
        "does not give. Use an MLPRegressor, LSTMRegressor or SELURegressor, or give functions."
    )


def check_derivative(given, name, x, n_outputs=None):
    """Refuse a given map whose shapes are wrong or whose Jacobian is not its derivative at a state."""
    value = np.atleast_1d(np.asarray(given.function(x), dtype=float))
    if value.ndim != 1 or not np.isfinite(value).all() or n_outputs not in (None, len(value)):
        wanted = "a vector" if n_outputs is None else f"{n_outputs} numbers"
        raise ValueError(f"`{name}` takes a state {x} to {value}; it must be {wanted}, all finite.")
    slope, shape = given.slope(x), (len(value), len(x))
    if slope.shape != shape:
        raise ValueError(f"`{name}_jacobian` gives shape {slope.shape}, expected {shape}.")
    numeric = numeric_jacobian(lambda z: np.atleast_1d(given.function(z)), x)
    gap = np.abs(slope - numeric).max()
    if not gap <= 1e-3 * max(np.abs(numeric).max(), np.abs(slope).max(), 1e-6):
        raise ValueError(
            f"`{name}_jacobian` is not the derivative of `{name}`: at the state {x} it is {slope.tolist()}, central "
            f"differences give {numeric.tolist()}. Correct it, or leave it out: None takes central differences."
        )
