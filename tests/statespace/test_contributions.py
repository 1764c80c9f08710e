"""Contributions of time steps to the gradient: derivatives of each row's log-density given its past."""

import numpy as np
import pytest

from skfedcausal.statespace.inputs import input_term
from skfedcausal.statespace.kalman import filter_rows, stationary_covariance
from skfedcausal.statespace.timedomain import TimeDomainLikelihood, score_contributions

STARTS = (0, 13)
N_SAMPLES = 25
STEP = 1e-6


def plant(rng, n=3, k=2):
    A = rng.normal(size=(n, n + k))
    A[:, :n] *= 0.8 / np.abs(np.linalg.eigvals(A[:, :n])).max()
    L = rng.normal(size=(n, n))
    return A, np.eye(n) + L @ L.T / n


def series(rng, gaps, n=3, k=2):
    L = rng.normal(size=(N_SAMPLES, n, n)) if gaps else np.repeat(rng.normal(size=(1, n, n)), N_SAMPLES, axis=0)
    J = L @ np.swapaxes(L, 1, 2)
    if gaps:
        J[rng.random(N_SAMPLES) < 0.2] = 0.0
    z = np.einsum("tij,tj->ti", J, rng.normal(size=(N_SAMPLES, n)))
    return z, lambda rows: J[rows], J.mean(axis=0), rng.normal(size=(N_SAMPLES, k))


def terms(A, Q, z, matrices, known, P0):
    exogenous = input_term(A[:, len(Q) :], known, STARTS)
    rows = filter_rows(A[:, : len(Q)], Q, P0, z, matrices, starts=STARTS, exogenous=exogenous)
    return np.concatenate([part.terms for part in rows])


def joined(A, Q, z, matrices, **settings):
    parts = list(score_contributions(A, Q, z, matrices, starts=STARTS, **settings))
    assert [part.rows.start for part in parts] == [0, *[part.rows.stop for part in parts][:-1]]
    return np.concatenate([p.grad_A for p in parts]), np.concatenate([p.grad_Q for p in parts])


@pytest.mark.parametrize("gaps", [False, True])
def test_contributions_are_the_derivatives_of_each_log_density(gaps):
    rng = np.random.default_rng(0)
    A, Q = plant(rng)
    z, matrices, J, known = series(rng, gaps)
    P0 = stationary_covariance(A[:, :3], Q)
    grad_A, grad_Q = joined(A, Q, z, matrices, J=J, known=known, memory=N_SAMPLES)
    for index in np.ndindex(A.shape):
        E = np.zeros_like(A)
        E[index] = STEP
        ahead, behind = (terms(A + s * E, Q, z, matrices, known, P0) for s in (1, -1))
        expected = (ahead - behind) / (2 * STEP)
        # central differences lose half the digits of terms of size ten
        np.testing.assert_allclose(grad_A[:, *index], expected, atol=1e-7, rtol=1e-6)
    for i, j in zip(*np.tril_indices(3), strict=True):
        E = np.zeros_like(Q)
        E[i, j] = E[j, i] = STEP
        ahead, behind = (terms(A, Q + s * E, z, matrices, known, P0) for s in (1, -1))
        expected = (ahead - behind) / (2 * STEP)
        both = grad_Q[:, i, j] * (1 if i == j else 2)
        np.testing.assert_allclose(both, expected, atol=1e-7, rtol=1e-6)


def test_rows_taken_in_pieces_contribute_the_same(monkeypatch):
    rng = np.random.default_rng(1)
    A, Q = plant(rng)
    z, matrices, J, known = series(rng, gaps=True)
    whole = joined(A, Q, z, matrices, J=J, known=known, memory=6)
    monkeypatch.setattr("skfedcausal.statespace.timedomain._PIECE", 4 * 9)
    monkeypatch.setattr(
        "skfedcausal.statespace.kalman.chunks",
        lambda start, stop, n, n_bytes: [slice(a, min(a + 7, stop)) for a in range(start, stop, 7)],
    )
    for cut, once in zip(joined(A, Q, z, matrices, J=J, known=known, memory=6), whole, strict=True):
        np.testing.assert_allclose(cut, once, atol=1e-12)


def test_the_sum_is_the_gradient_but_for_the_start():
    """Of the exact likelihood; what it has besides is the dependence of the first state, once an episode."""
    rng = np.random.default_rng(2)
    n_samples = 4000
    A, Q = plant(rng, k=0)
    J = np.diag([1.0, 2.0, 0.5])
    w, h = rng.multivariate_normal(np.zeros(3), Q, size=n_samples), np.zeros((n_samples, 3))
    for t in range(1, n_samples):
        h[t] = A @ h[t - 1] + w[t]
    z = h @ J + rng.normal(size=h.shape) * np.sqrt(np.diag(J))
    z -= z.mean(axis=0)
    exact = TimeDomainLikelihood(
        z, lambda rows: np.broadcast_to(J, (len(z[rows]), 3, 3)), [(1.0, J)], (0,), 12, is_constant=True
    ).evaluate(A, Q)
    parts = list(score_contributions(A, Q, z, lambda rows: np.broadcast_to(J, (len(z[rows]), 3, 3)), J=J))
    for name in ("grad_A", "grad_Q"):
        each = np.concatenate([getattr(part, name) for part in parts])
        # one row's worth at the start, and what is cut off where the filter has forgotten
        error = each.sum(axis=0) - n_samples * getattr(exact, name)
        assert np.abs(error).max() < 4 * each.std(axis=0).max()
