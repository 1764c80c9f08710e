"""Sensitivity of linear filters: how far a change in one unit's measurements moves their output.

A unit's filter ``h[t] = F h[t-1] + K y[t]`` turns a change ``dy`` at time s into ``F^j K dy`` at every later
time s + j. All sensitivities here are Euclidean norms over the whole trajectory, which is what one or many
observers of all messages see; a bound for the message of one time step alone leaves the later ones out.

References
----------
.. [1] Le Ny, Pappas (2014), Differentially private filtering, IEEE Transactions on Automatic Control 59(2).
.. [2] Kellaris, Papadopoulos, Xiao, Papadias (2014), Differentially private event sequences over infinite
       streams, VLDB 7(12).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import minimize_scalar

from ..arguments import as_floats, check_not_negative, check_number, checked
from .calibration import SensitivityUnboundedError

_MAX_RADIUS = 1 - 1e-12
_N_FREQUENCIES = 2048


@checked
def event_sensitivity(F: Any, K: Any, radius: float = 1.0, n_steps: int | None = None) -> float:
    """Change of a filter's trajectory when one time step's measurements change.

    Parameters
    ----------
    F : array-like of shape (n_states, n_states)
    K : array-like of shape (n_states, n_features)
    radius : float, default=1.0
        Largest Euclidean norm of the change.
    n_steps : int, default=None
        Length of the record; None for any length.

    Returns
    -------
    float
        ``radius * sqrt(lambda_max(K' X K))``, ``X = sum_j F'^j F^j``: attained by a change along the top
        eigenvector at the first step.

    Raises
    ------
    SensitivityUnboundedError
        If the filter does not forget and `n_steps` is None.

    Examples
    --------
    >>> from skfedcausal.privacy import event_sensitivity
    >>> event_sensitivity([[0.6]], [[0.8]])  # 0.8 / sqrt(1 - 0.36)
    1.0
    """
    F, K = _filter_matrices(F, K, radius)
    X = gramian(F, np.eye(len(F)), n_steps)
    return float(radius * root_of_largest(K.T @ X @ K))


@checked
def window_sensitivity(F: Any, K: Any, window: int, radius: float = 1.0) -> float:
    """Bound on the change of a filter's trajectory when any `window` consecutive steps change.

    Parameters
    ----------
    F : array-like of shape (n_states, n_states)
    K : array-like of shape (n_states, n_features)
    window : int
    radius : float, default=1.0
        Largest norm of the change of each step.

    Returns
    -------
    float
        The smaller of ``sqrt(window) ||T||``, with T the map from the window to the trajectory, and
        `window` events.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.privacy import window_sensitivity
    >>> round(window_sensitivity(0.5 * np.eye(1), np.eye(1), 4), 2)
    3.34
    """
    F, K = _filter_matrices(F, K, radius)
    check_number(window, "window")
    X = gramian(F, np.eye(len(F)))
    KXK, later = K.T @ X @ K, [X @ K]
    for _ in range(window - 1):
        later.append(F.T @ later[-1])  # F'^j X K
    d = K.shape[1]
    gram = np.empty((window, d, window, d))
    for lag in range(window):
        block = KXK if lag == 0 else K.T @ later[lag]
        for i in range(window - lag):
            gram[i + lag, :, i], gram[i, :, i + lag] = block, block.T
    joint = np.sqrt(window) * root_of_largest(gram.reshape(window * d, window * d))
    return float(radius * min(joint, window * root_of_largest(KXK)))


@checked
def client_sensitivity(F: Any, K: Any, n_steps: int, radius: float = 1.0) -> float:
    """Bound on the change of a filter's trajectory when all of a record's measurements change.

    Parameters
    ----------
    F : array-like of shape (n_states, n_states)
        ``(I - K C) A`` of the filter.
    K : array-like of shape (n_states, n_features)
        Its gain.
    n_steps : int
    radius : float, default=1.0
        Largest norm of the change of each step.

    Returns
    -------
    float
        ``radius * sqrt(n_steps)`` times the largest gain over frequency of ``(I - F e^(-iw))^-1 K``.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.privacy import client_sensitivity
    >>> round(client_sensitivity(0.5 * np.eye(1), np.eye(1), 100), 2)
    20.0
    """
    F, K = _filter_matrices(F, K, radius)
    check_number(n_steps, "n_steps", 0)
    _check_forgets(F)
    eye = np.eye(len(F))

    def gain(w):
        return np.linalg.norm(np.linalg.solve(eye - F * np.exp(-1j * w), K), 2)

    grid = np.linspace(0, np.pi, _N_FREQUENCIES)
    values = [gain(w) for w in grid]
    k = int(np.argmax(values))
    around = (grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)])
    refined = minimize_scalar(lambda w: -gain(w), bounds=around, method="bounded", options={"xatol": 1e-12})
    return float(radius * np.sqrt(n_steps) * max(values[k], -refined.fun))


@checked
def augmented_message_sensitivity(
    A: Any, F: Any, K: Any, theta: Any, radius: float = 1.0, n_steps: int | None = None
) -> float:
    """Change of the whole trajectory of ``[h_c, h_a_filtered, h_a]`` when one time step changes.

    These are the messages of the papers' augmented clients: the unit's filtered state, ``h_c + theta y`` and
    its prediction ``A (h_c + theta y)`` for the next step, with `theta` public or fixed.

    Parameters
    ----------
    A : array-like of shape (n_states, n_states)
        Transition matrix of the unit.
    F : array-like of shape (n_states, n_states)
        ``(I - K C) A`` of the filter.
    K : array-like of shape (n_states, n_features)
        Its gain.
    theta : array-like of shape (n_states, n_features)
    radius : float, default=1.0
        Largest norm of the change of the step.
    n_steps : int, default=None
        Length of the record; None for the limit.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.privacy import augmented_message_sensitivity
    >>> A, F, K = 0.5 * np.eye(1), 0.3 * np.eye(1), 0.4 * np.eye(1)
    >>> round(augmented_message_sensitivity(A, F, K, 0.1 * np.eye(1)), 3)
    0.713
    """
    F, K = _filter_matrices(F, K, radius)
    A, theta = as_floats(A, "A"), as_floats(theta, "theta")
    eye, Kt = np.eye(len(F)), K + theta
    later = None if n_steps is None else n_steps - 1
    X = gramian(F, eye, n_steps)
    after = F.T @ gramian(F, eye + A.T @ A, later) @ F  # filtered and predicted, from the next step on
    total = K.T @ X @ K + Kt.T @ Kt + (K.T @ after @ K) + Kt.T @ A.T @ A @ Kt
    return float(radius * root_of_largest(total))


@checked
def server_gradient_sensitivity(
    A: np.ndarray,
    F: np.ndarray,
    K: np.ndarray,
    theta: np.ndarray,
    unit: int,
    slices: Sequence[slice],
    n_steps_averaged: int,
    radius: float = 1.0,
) -> float:
    """Change of all gradients the papers' server sends when one time step of one unit changes.

    Gradients ``2 (h_a - h_s) / T`` to every unit and step, with ``h_s = A h_c`` and the server's A fixed.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        The server's transition matrix.
    F : ndarray of shape (p, p)
        ``(I - K C) A`` of the filter of the unit whose measurement changes.
    K, theta : ndarray of shape (p, d)
        Its gain and its augmenter's matrix.
    unit : int
        Its position.
    slices : sequence of slice
        States of each unit.
    n_steps_averaged : int
        The T of the loss.
    radius : float, default=1.0

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.privacy import server_gradient_sensitivity
    >>> A, one = 0.5 * np.eye(2), np.eye(1)
    >>> slices = [slice(0, 1), slice(1, 2)]
    >>> round(server_gradient_sensitivity(A, 0.3 * one, 0.4 * one, 0.1 * one, 0, slices, 100), 4)
    0.001
    """
    F, K = _filter_matrices(F, K, radius)
    A = as_floats(A, "A")
    own = A[slices[unit], slices[unit]]
    others = np.vstack([A[rows, slices[unit]] for k, rows in enumerate(slices) if k != unit])
    Y = gramian(F, others.T @ others)
    shift = own @ as_floats(theta, "theta")  # of h_a against the part of h_s with the same h_c
    return float(2 / n_steps_averaged * radius * root_of_largest(K.T @ Y @ K + shift.T @ shift))


def gradient_sensitivity(clip, n_steps, n_rounds, n_recipients):
    """Change of all clipped gradients of a run, ``2 C sqrt(T R M)``, whatever changes in the data.

    The derivative in one unit's state at one time step contains the other units' states, so that one
    measurement moves the gradients of every recipient at every later step and in every round.
    """
    return 2 * clip * np.sqrt(n_steps * n_rounds * n_recipients)


@checked
def residual_sensitivity(A: Any, C: Any, F: Any, K: Any, S: Any, radius: float = 1.0, cap: float = np.inf) -> float:
    """Change of all whitened residuals ``S^-1/2 (y[t] - C A h[t-1])`` when one time step changes.

    With scores ``min(||S^-1/2 r||, cap)`` the same step's term is at most `cap`; norms and caps move less
    than what they are taken of.

    Parameters
    ----------
    A, C : array-like
        Transition and observation matrix of the unit.
    F : array-like of shape (n_states, n_states)
        ``(I - K C) A`` of the filter.
    K : array-like of shape (n_states, n_features)
        Its gain.
    S : array-like of shape (n_features, n_features)
        Covariance of the residuals.
    radius : float, default=1.0
        Largest norm of the change of a step.
    cap : float, default=inf
        Largest score.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.privacy import residual_sensitivity
    >>> A, C, K = 0.5 * np.eye(1), np.eye(1), 0.4 * np.eye(1)
    >>> F = (np.eye(1) - K @ C) @ A
    >>> round(residual_sensitivity(A, C, F, K, np.eye(1)), 3)
    1.022
    """
    F, K = _filter_matrices(F, K, radius)
    A, C, S = (as_floats(given, name) for name, given in {"A": A, "C": C, "S": S}.items())
    ahead = C @ A
    later = K.T @ gramian(F, ahead.T @ np.linalg.solve(S, ahead)) @ K
    same = np.linalg.inv(S)
    joint = radius**2 * root_of_largest(same + later) ** 2
    capped = cap**2 + radius**2 * root_of_largest(later) ** 2
    return float(np.sqrt(min(joint, capped)))


def _filter_matrices(F, K, radius):
    check_not_negative(radius=radius)
    F, K = as_floats(F, "F"), as_floats(K, "K")
    if F.ndim != 2 or F.shape[0] != F.shape[1] or K.ndim != 2 or len(K) != len(F):
        raise ValueError(f"F has shape {F.shape}, K {K.shape}; expected (n_states, n_states), (n_states, n_features).")
    return F, K


def _check_forgets(F):
    radius = np.abs(np.linalg.eigvals(F)).max(initial=0.0)
    if not radius < _MAX_RADIUS:
        raise SensitivityUnboundedError(
            f"The filter has spectral radius {radius:.6g}: it never forgets a measurement, so one of them "
            "moves the trajectory without bound. Give a stable filter, or add the noise to the measurements."
        )


def gramian(F, weight, n_steps=None):
    """Energy of a response, ``sum_(j < n_steps) F'^j weight F^j``, over all j when `n_steps` is None."""
    if n_steps is None:
        _check_forgets(F)
        X = solve_discrete_lyapunov(F.T, weight)
        return (X + X.T) / 2
    total, power = np.zeros_like(weight), np.eye(len(F))
    for _ in range(n_steps):
        total += power.T @ weight @ power
        power = F @ power
    return total


def root_of_largest(S):
    """Root of the largest eigenvalue of a positive semidefinite matrix."""
    return np.sqrt(max(np.linalg.eigvalsh((S + S.T) / 2)[-1], 0.0))
