"""Energy statistic against conditioning of Gaussians written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.statespace.detection.energy import ConditionalEnergy, held_out_innovations, ridge_transition

BLOCKS = (slice(0, 2), slice(2, 3), slice(3, 6))


@pytest.fixture
def energy():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    return ConditionalEnergy(root @ root.T + np.eye(6), BLOCKS), rng.standard_normal((7, 6))


def test_conditional_surprise_is_the_distance_from_the_conditional_mean(energy):
    model, e = energy
    C = model.covariance
    for m, b in enumerate(BLOCKS):
        own, rest = np.arange(6)[b], np.delete(np.arange(6), b)
        gain = np.linalg.solve(C[np.ix_(rest, rest)], C[np.ix_(rest, own)])
        left = e[:, own] - e[:, rest] @ gain
        S = C[np.ix_(own, own)] - C[np.ix_(own, rest)] @ gain
        expected = np.einsum("ti,ij,tj->t", left, np.linalg.inv(S), left)
        assert_allclose(model.given_others(e)[:, m], expected, rtol=1e-10)
        marginal = np.einsum("ti,ij,tj->t", e[:, own], np.linalg.inv(C[np.ix_(own, own)]), e[:, own])
        assert_allclose(model.own(e)[:, m], marginal, rtol=1e-10)


def test_absent_unit_is_marginalised(energy):
    model, e = energy
    less, columns = model.without(np.array([False, True, False]))
    assert_allclose(columns, [0, 1, 3, 4, 5])
    assert_allclose(less.covariance, model.covariance[np.ix_(columns, columns)])
    assert less.given_others(e[:, columns]).shape == (7, 2)


def test_ridge_solves_its_normal_equations():
    rng = np.random.default_rng(1)
    past, present = rng.standard_normal((2, 50, 3))
    B = ridge_transition(past, present, 0.1)
    assert_allclose(past.T @ (present - past @ B), 0.1 * 50 * B, atol=1e-10)


def test_held_out_innovations_never_saw_their_fold():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((90, 2))
    folds = [(0, 30), (30, 60), (60, 90)]
    innovations, penalty = held_out_innovations(x, folds)
    past = np.concatenate([x[30:59], x[60:89]])
    present = np.concatenate([x[31:60], x[61:90]])
    B = ridge_transition(past, present, penalty)
    assert_allclose(innovations[0], x[1:30] - x[:29] @ B, rtol=1e-10)
