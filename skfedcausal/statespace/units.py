"""Maximum likelihood of every unit on its own, all units of one size in one batch."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import fractional_matrix_power

from .episodes import TransitionMoments, episodes, lag_covariances
from .matrices import absolute_values, cap_radius, floor_eigenvalues, spectral_radius, symmetric_basis
from .riccati import stationary_covariance
from .tuning import TUNING
from .whittle import WhittleLikelihood

_MAX_RADIUS = 0.999


def moment_start(moments, N):
    """Errors-in-variables estimate ``A = G1 (G0 - N)^-1`` and its residual covariance.

    N is (n_units, p, p); A (n_units, p, c) with the columns of inputs, Q (n_units, p, p).
    """
    return errors_in_variables(moments.early[0].copy(), moments.cross[0][..., : N.shape[-1], :], N)


def errors_in_variables(G0, G1, N):
    """The same from the covariances of regressors (..., c, c), overwritten, and of the next scores with them."""
    p = N.shape[-1]
    scale = np.trace(G0[..., :p, :p], axis1=-2, axis2=-1) / p
    explained = 0.0
    if G0.shape[-1] > p:  # what inputs do not explain of the states must stay positive, also under feedback
        with_inputs = G0[..., :p, p:]
        explained = with_inputs @ np.linalg.solve(G0[..., p:, p:], np.swapaxes(with_inputs, -1, -2))
    rest = floor_eigenvalues(G0[..., :p, :p] - N - explained, TUNING.units_start_floor * scale)
    G0[..., :p, :p] = rest + explained
    A = np.swapaxes(np.linalg.solve(G0, np.swapaxes(G1, -1, -2)), -1, -2)
    A[..., :p] = cap_radius(A[..., :p], TUNING.units_start_radius)
    carried = A @ G0 @ np.swapaxes(A, -1, -2)
    return A, floor_eigenvalues(G0[..., :p, :p] - carried, 0.1 * TUNING.units_start_floor * scale)


def unit_information(info, basis):
    """Information matrix of (vec A, q) per time step, shape (..., p*c + len(basis), ...)."""
    U, W, V = info.U, info.W, info.V
    p, c = U.shape[-1], V.shape[-1]
    batch = U.shape[:-3]
    VU, WW = _element_products(V, U), _element_products(W, W)
    WU, UU = _element_products(W, U), _element_products(U, U)
    # element (j, k) of the first factor by (l, i) of the second, or (j, l) by (k, i)
    AA = np.einsum("...jkli->...ijkl", WW) + np.einsum("...jlki->...ijkl", VU)
    AA = AA.reshape(*batch, p * c, p * c)
    AQ = np.einsum("...jabi,kab->...ijk", WU, basis).reshape(*batch, p * c, len(basis))
    half = np.einsum("...cabd,kab->...kcd", UU, basis)
    QQ = 0.5 * np.einsum("...kcd,ldc->...kl", half, basis)
    top = np.concatenate([AA, AQ], axis=-1)
    return np.concatenate([top, np.concatenate([np.swapaxes(AQ, -1, -2), QQ], axis=-1)], axis=-2)


def _element_products(x, y):
    """``mean_w Re x[a, b] y[c, d]`` of every two elements, shape (..., a, b, c, d)."""
    shape = x.shape[:-3]
    left = np.concatenate([x.real, -x.imag], axis=-3).reshape(*shape, 2 * x.shape[-3], -1)
    right = np.concatenate([y.real, y.imag], axis=-3).reshape(*shape, 2 * y.shape[-3], -1)
    products = np.swapaxes(left, -1, -2) @ right / x.shape[-3]
    return products.reshape(*shape, *x.shape[-2:], *y.shape[-2:])


class UnitFit(NamedTuple):
    """Maximum-likelihood models of units on their own."""

    A: np.ndarray  # (n_units, p, c)
    Q: np.ndarray  # (n_units, p, p)
    converged: np.ndarray  # (n_units,)
    value: np.ndarray  # (n_units,)
    n_iter: int


def fit_units(moments, N, *, fixed_A=None, max_iter=30, tol=1e-3):
    """Fisher scoring on the Whittle likelihood of each unit.

    It ends where no unit can rise, as at the border of stability: every further step would be the same again.

    N is (n_units, p, p), `fixed_A` likewise.
    """
    likelihood = WhittleLikelihood(moments, N)
    A, Q = moment_start(moments, N)
    p = N.shape[-1]
    free = np.ones(A.shape[-2:], dtype=bool)
    if fixed_A is not None:
        A[..., :p], free[:, :p] = fixed_A, False
    basis = symmetric_basis(p)
    current = likelihood.evaluate(A, Q)
    converged, n_iter = np.zeros(len(A), dtype=bool), 0
    while n_iter < max_iter:
        step_A, step_Q, gain = _scoring_step(likelihood, current, A, Q, basis, free)
        converged = likelihood.n_samples * gain < tol
        if converged.all():
            break
        before, n_iter = current, n_iter + 1
        A, Q, current = _line_search(likelihood, current, A, Q, step_A, step_Q)
        if current is before:
            break
    return UnitFit(A, Q, converged, current.value, n_iter)


def _scoring_step(likelihood, current, A, Q, basis, free):
    n_coefficients = free.size
    information = unit_information(likelihood.information(A, Q), basis)
    gradient = np.concatenate(
        [current.grad_A.reshape(*A.shape[:-2], n_coefficients), np.einsum("...ab,kab->...k", current.grad_Q, basis)],
        axis=-1,
    )
    chosen = np.flatnonzero(np.concatenate([free.ravel(), np.ones(len(basis), dtype=bool)]))
    if free.shape[1] > free.shape[0]:  # inputs under feedback can make the expected information indefinite
        information = absolute_values(information)
    ridge = 1e-12 * np.trace(information, axis1=-2, axis2=-1)[..., None, None]
    information = information + ridge * np.eye(information.shape[-1])
    step = np.zeros_like(gradient)
    square = information[..., chosen[:, None], chosen]
    step[..., chosen] = np.linalg.solve(square, gradient[..., chosen, None])[..., 0]
    gain = (step * gradient).sum(axis=-1)
    step_A = step[..., :n_coefficients].reshape(A.shape)
    return step_A, np.einsum("...k,kab->...ab", step[..., n_coefficients:], basis), gain


def _line_search(likelihood, current, A, Q, step_A, step_Q, n_halvings=12):
    """Halve each unit's step until its likelihood rises; units that cannot rise stay.

    A and `step_A` are (n_units, p, c), Q and `step_Q` (n_units, p, p).
    """
    floor = TUNING.units_covariance_floor * np.trace(Q, axis1=-2, axis2=-1) / Q.shape[-1]
    length = np.ones(len(A))
    for _ in range(n_halvings):
        scale = length[:, None, None]
        new_A = A + scale * step_A
        stable = spectral_radius(new_A[..., : Q.shape[-1]]) < _MAX_RADIUS
        if not stable.any():
            length, accepted = length / 2, stable
            continue
        new_Q = floor_eigenvalues(Q + scale * step_Q, floor * (length > 0))
        trial = likelihood.evaluate(new_A, new_Q)
        accepted = stable & (trial.value >= current.value) | (length == 0)
        if accepted.all():
            return new_A, new_Q, trial
        length = np.where(accepted, length, length / 2)
    if not accepted.any():
        return A, Q, current
    length = np.where(accepted, length, 0.0)[:, None, None]
    new_A = A + length * step_A
    new_Q = np.where(length > 0, floor_eigenvalues(Q + length * step_Q, floor), Q)
    return new_A, new_Q, likelihood.evaluate(new_A, new_Q)


def lag_shares(present, n_lags):
    """Share of products ``s_m[t+l] s_n[t]`` that are there, shape (n_lags + 1, n_units, n_units)."""
    T = len(present)
    shares = np.ones((n_lags + 1, *present.shape[1:] * 2))
    for lag in range(min(n_lags, T - 1) + 1):
        shares[lag] = present[lag:].T @ present[: T - lag] / (T - lag)
    return shares


def slow_start(scores, present, N, starts, period, n_lags):
    """Model (A, Q) at the rate of the record of a unit that reports in every `period`-th row.

    Its scores have no products at lags that are not multiples of the period, so nothing follows from their
    lag covariances at the rate of the record. At its own rate it is an ordinary unit with ``A^period`` for A.
    Of the roots of that, which the unit alone cannot tell apart, the principal one is taken, which turns
    least from row to row.

    `scores` is (n_samples, p), `present` (n_samples,), N (p, p).
    """
    chosen = []
    for start, stop in episodes(starts, len(scores)):
        offset = np.argmax([present[start + k : stop : period].sum() for k in range(period)])
        chosen.append(np.arange(start + offset, stop, period))
    first = np.cumsum([0, *(len(rows) for rows in chosen[:-1])])
    rows = np.concatenate(chosen)
    own = scores[rows]
    mask = np.repeat(present[rows, None], own.shape[1], axis=1)
    moments = TransitionMoments.from_sums(lag_covariances(own, range(n_lags + 2), first, mask), own, first)
    fit = fit_units(moments.blocks([slice(0, own.shape[1])]), N[None])
    A = cap_radius(fractional_matrix_power(fit.A[0], 1 / period).real, _MAX_RADIUS)
    states = stationary_covariance(fit.A[0], fit.Q[0])
    Q = floor_eigenvalues(states - A @ states @ A.T, TUNING.units_noise_floor * np.trace(states) / len(states))
    return A, Q
