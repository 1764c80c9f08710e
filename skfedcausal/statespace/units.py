"""Maximum likelihood of every unit on its own, all units of one size in one batch."""

from dataclasses import dataclass

import numpy as np

from .positive import cap_radius, floor_eigenvalues, spectral_radius, symmetric_basis
from .whittle import WhittleLikelihood

_START_RADIUS = 0.98
_MAX_RADIUS = 0.999
_START_FLOOR = 0.05  # share of the sample variance a start leaves to the states at least
_COVARIANCE_FLOOR = 0.02  # share of the previous trace below which a step may not take an eigenvalue


def moment_start(moments, N):
    """Errors-in-variables estimate ``A = G1 (G0 - N)^-1`` and its residual covariance.

    Parameters
    ----------
    moments : TransitionMoments
        Of each unit's scores.
    N : ndarray of shape (..., p, p)
        Covariance of the scores around the states.

    Returns
    -------
    A, Q : ndarray of shape (..., p, p)
        With A inside the unit circle and Q positive definite.
    """
    G0, G1 = moments.early[0], moments.cross[0]
    scale = np.trace(G0, axis1=-2, axis2=-1) / G0.shape[-1]
    S = floor_eigenvalues(G0 - N, _START_FLOOR * scale)
    A = cap_radius(np.swapaxes(np.linalg.solve(S, np.swapaxes(G1, -1, -2)), -1, -2), _START_RADIUS)
    Q = floor_eigenvalues(S - A @ S @ np.swapaxes(A, -1, -2), 0.1 * _START_FLOOR * scale)
    return A, Q


def unit_information(info, basis):
    """Information matrix of (vec A, q) per time step, shape (..., p*p + len(basis), ...).

    Parameters
    ----------
    info : SpectralInformation
    basis : ndarray of shape (n_q, p, p)
        ``Q = sum_k q_k basis[k]``.
    """
    U, W, V = info.U, info.W, info.V
    p = U.shape[-1]
    n_frequencies = U.shape[-3]
    AA = np.einsum("...fjk,...fli->...ijkl", W, W) + np.einsum("...fjl,...fki->...ijkl", V, U)
    AA = AA.real.reshape(*AA.shape[:-4], p * p, p * p)
    WD = np.einsum("...fja,kab->...fkjb", W, basis)
    AQ = np.einsum("...fkjb,...fbi->...ijk", WD, U).real
    AQ = AQ.reshape(*AQ.shape[:-3], p * p, len(basis))
    UD = np.einsum("...fca,kab->...fkcb", U, basis)
    QQ = 0.5 * np.einsum("...fkcb,...flbc->...kl", UD, UD).real
    top = np.concatenate([AA, AQ], axis=-1)
    bottom = np.concatenate([np.swapaxes(AQ, -1, -2), QQ], axis=-1)
    return np.concatenate([top, bottom], axis=-2) / n_frequencies


@dataclass(frozen=True)
class UnitFit:
    """Maximum-likelihood models of units on their own.

    Attributes
    ----------
    A, Q : ndarray of shape (n_units, p, p)
    converged : ndarray of bool, shape (n_units,)
    """

    A: np.ndarray
    Q: np.ndarray
    converged: np.ndarray


def fit_units(moments, N, *, fixed_A=None, max_iter=30, tol=1e-3):
    """Fisher scoring on the Whittle likelihood of each unit.

    Parameters
    ----------
    moments : TransitionMoments
        Of each unit's scores, arrays of shape (n_lags + 1, n_units, p, p).
    N : ndarray of shape (n_units, p, p)
    fixed_A : ndarray of shape (n_units, p, p), default=None
        Transition matrices to keep; only the process covariances are estimated then.
    max_iter : int, default=30
    tol : float, default=1e-3
        Stop when ``T g' I^-1 g``, twice the gain in log-likelihood that a step promises, is less for every
        unit.

    Returns
    -------
    UnitFit
    """
    likelihood = WhittleLikelihood(moments, N)
    A, Q = moment_start(moments, N)
    if fixed_A is not None:
        A = fixed_A
    basis = symmetric_basis(A.shape[-1])
    current = likelihood.evaluate(A, Q)
    converged = np.zeros(len(A), dtype=bool)
    for _ in range(max_iter):
        step_A, step_Q, gain = _scoring_step(likelihood, current, A, Q, basis, fixed_A is not None)
        converged = likelihood.n_samples * gain < tol
        if converged.all():
            break
        A, Q, current = _line_search(likelihood, current, A, Q, step_A, step_Q)
    return UnitFit(A, Q, converged)


def _scoring_step(likelihood, current, A, Q, basis, keep_A):
    p = A.shape[-1]
    information = unit_information(likelihood.information(A, Q), basis)
    gradient = np.concatenate(
        [
            current.grad_A.reshape(*A.shape[:-2], p * p),
            np.einsum("...ab,kab->...k", current.grad_Q, basis),
        ],
        axis=-1,
    )
    first = p * p if keep_A else 0
    ridge = 1e-12 * np.trace(information, axis1=-2, axis2=-1)[..., None, None]
    information = information + ridge * np.eye(information.shape[-1])
    step = np.zeros_like(gradient)
    step[..., first:] = np.linalg.solve(information[..., first:, first:], gradient[..., first:, None])[..., 0]
    gain = (step * gradient).sum(axis=-1)
    step_A = step[..., : p * p].reshape(A.shape)
    step_Q = np.einsum("...k,kab->...ab", step[..., p * p :], basis)
    return step_A, step_Q, gain


def _line_search(likelihood, current, A, Q, step_A, step_Q, n_halvings=12):
    """Halve each unit's step until its likelihood rises; units that cannot rise stay."""
    floor = _COVARIANCE_FLOOR * np.trace(Q, axis1=-2, axis2=-1) / Q.shape[-1]
    length = np.ones(len(A))
    for _ in range(n_halvings):
        scale = length[:, None, None]
        new_A = A + scale * step_A
        new_Q = floor_eigenvalues(Q + scale * step_Q, floor * (length > 0))
        trial = likelihood.evaluate(new_A, new_Q)
        stable = spectral_radius(new_A) < _MAX_RADIUS
        accepted = stable & (trial.value >= current.value) | (length == 0)
        if accepted.all():
            return new_A, new_Q, trial
        length = np.where(accepted, length, length / 2)
    length = np.where(accepted, length, 0.0)[:, None, None]
    new_A = A + length * step_A
    new_Q = np.where(length > 0, floor_eigenvalues(Q + length * step_Q, floor), Q)
    return new_A, new_Q, likelihood.evaluate(new_A, new_Q)
