"""The learned plant as a transfer function."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import signal
from scipy.linalg import block_diag, eig

from .arguments import as_numbers, check_kind, checked
from .containers.arrays import listed
from .optional import import_optional
from .statespace.kalman import stationary_covariance
from .statespace.matrices import spectral_radius


@dataclass(frozen=True, eq=False)
class TransferFunction:
    """``G(z) = C (z I - A)^-1 B + D``, which does not depend on the choice of the states.

    Attributes
    ----------
    A : ndarray of shape (n, n)
        Of a plant of several lags: of as many states as make it one of a single lag.
    B : ndarray of shape (n, k)
    C : ndarray of shape (d, n)
    input_names, output_names : tuple of str
    D : ndarray of shape (d, k) or None
        What inputs do in their own row; None for a plant in which none acts at once.

    References
    ----------
    .. [1] Kailath (1980), Linear systems, Prentice-Hall.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.transfer import TransferFunction
    >>> G = TransferFunction(np.array([[0.5]]), np.array([[1.0]]), np.array([[2.0]]), ("u",), ("y",))
    >>> G.poles()
    array([0.5+0.j])
    >>> float(G.steady_gain().loc["y", "u"])
    4.0
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    D: np.ndarray | None = None

    def __repr__(self):
        inputs, outputs = (listed(names, 6) for names in (self.input_names, self.output_names))
        return f"TransferFunction of {len(self.A)} states from {inputs} to {outputs}"

    @property
    def direct(self) -> np.ndarray:
        """D, zero where there is none."""
        return np.zeros((len(self.C), self.B.shape[1])) if self.D is None else self.D

    def poles(self) -> np.ndarray:
        """Eigenvalues of A, largest first, shape (n,).

        Returns
        -------
        ndarray of complex of shape (n,)
        """
        values = np.linalg.eigvals(self.A).astype(complex)
        return values[np.lexsort((values.imag, -np.abs(values)))]

    @checked
    def zeros(self, tol: float = 1e-6) -> np.ndarray:
        """Transmission zeros: where the pencil ``[A - z I, B; C, D]`` loses rank.

        A plant with more outputs than inputs (or fewer) is squared down by two random combinations; zeros of
        the plant are zeros of both [1]_.

        Parameters
        ----------
        tol : float, default=1e-6
            Distance below which zeros of two squared-down plants are the same.

        Returns
        -------
        ndarray of complex

        References
        ----------
        .. [1] Emami-Naeini, Van Dooren (1982), Computation of zeros of linear multivariable systems,
               Automatica 18(4).
        """
        k, d = self.B.shape[1], self.C.shape[0]
        if min(k, d) == 0:
            return np.empty(0, dtype=complex)
        D = self.direct
        if k == d:
            return _square_zeros(self.A, self.B, self.C, D)
        rng = np.random.default_rng(0)
        combinations = (rng.standard_normal((k, d)) for _ in range(2))
        squared = ((self.B, K @ self.C, K @ D) if d > k else (self.B @ K, self.C, D @ K) for K in combinations)
        first, second = (_square_zeros(self.A, *matrices) for matrices in squared)
        distance = np.abs(first[:, None] - second).min(axis=1, initial=np.inf)
        return first[distance <= tol * np.maximum(np.abs(first), 1)]

    def response(self, frequencies: ArrayLike) -> np.ndarray:
        """``G(exp(i w))`` at frequencies in radians per step, shape (n_frequencies, d, k).

        Parameters
        ----------
        frequencies : array-like of shape (n_frequencies,)
            In radians per time step, 0 to pi.

        Returns
        -------
        ndarray of complex of shape (n_frequencies, d, k)
        """
        z = np.exp(1j * as_numbers(frequencies, "frequencies"))
        resolvent = z[:, None, None] * np.eye(len(self.A)) - self.A
        return self.C @ np.linalg.solve(resolvent, np.broadcast_to(self.B, (len(z), *self.B.shape))) + self.direct

    def singular_values(self, frequencies: ArrayLike) -> np.ndarray:
        """Singular values of the response, largest first, shape (n_frequencies, min(d, k)).

        Parameters
        ----------
        frequencies : array-like of shape (n_frequencies,)
            In radians per time step, 0 to pi.

        Returns
        -------
        ndarray of shape (n_frequencies, min(d, k))
        """
        return np.linalg.svd(self.response(frequencies), compute_uv=False)

    def steady_gain(self) -> pd.DataFrame:
        """Effect of a permanent change, ``C (I - A)^-1 B + D``, a DataFrame of outputs by inputs.

        Returns
        -------
        DataFrame of shape (d, k)
        """
        gain = self.C @ np.linalg.solve(np.eye(len(self.A)) - self.A, self.B) + self.direct
        return pd.DataFrame(gain, index=list(self.output_names), columns=list(self.input_names))

    def norm(self) -> float:
        """H2 norm: root of the summed squared impulse responses.

        Returns
        -------
        float
        """
        if spectral_radius(self.A) >= 1:
            return np.inf
        S = stationary_covariance(self.A, self.B @ self.B.T)
        return float(np.sqrt(max(np.trace(self.C @ S @ self.C.T), 0.0) + np.square(self.direct).sum()))

    def distance(self, other: "TransferFunction") -> float:
        """H2 norm of the difference to another plant with the same inputs and outputs, over its own norm.

        Parameters
        ----------
        other : "TransferFunction"
            For example the true plant.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If it has other numbers of inputs or outputs.
        """
        check_kind(other, "`other`", (TransferFunction,), "a TransferFunction")
        if (other.C.shape[0], other.B.shape[1]) != (len(self.C), self.B.shape[1]):
            raise ValueError(f"Got {other!r} beside {self!r}; give a plant with the same inputs and outputs.")
        A, B, C = block_diag(self.A, other.A), np.vstack([self.B, other.B]), np.hstack([self.C, -other.C])
        D = self.direct - other.direct
        return TransferFunction(A, B, C, self.input_names, self.output_names, D).norm() / other.norm()

    def to_scipy(self) -> Any:
        """The plant as a discrete-time :class:`scipy.signal.StateSpace`.

        Returns
        -------
        scipy.signal.StateSpace
        """
        return signal.StateSpace(self.A, self.B, self.C, self.direct, dt=True)

    def to_control(self) -> Any:
        """The plant as a :class:`control.StateSpace`; needs python-control.

        Returns
        -------
        control.StateSpace

        Raises
        ------
        ImportError
            Without python-control.
        """
        control = import_optional("control", "control", "A control.StateSpace")
        labels = {"inputs": list(self.input_names), "outputs": list(self.output_names)}
        return control.ss(self.A, self.B, self.C, self.to_scipy().D, True, **labels)


def _square_zeros(A, B, C, D):
    """Finite generalised eigenvalues of the Rosenbrock pencil of a square plant."""
    left, right = np.block([[A, B], [C, D]]), block_diag(np.eye(len(A)), np.zeros_like(D))
    alpha, beta = eig(left, right, right=False, homogeneous_eigvals=True)
    finite = np.abs(beta) > 1e-9 * np.abs(alpha)
    values = alpha[finite] / beta[finite]
    return values[np.lexsort((values.imag, -np.abs(values)))]
