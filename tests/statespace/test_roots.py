"""Posterior over roots."""

import numpy as np
from numpy.testing import assert_allclose
from scipy import stats

from skfedcausal.statespace.detection.roots import (
    inclusion,
    log_bayes_factor,
    log_prior_of_sets,
    log_scale_factor,
    root_sets,
    tempered,
)


def test_bayes_factor_integrates_the_size_out():
    """b ~ N(M f, M), f ~ N(0, n M^-1): numerically the ratio of marginal densities of b."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2, 2))
    M, n = root @ root.T + np.eye(2), 50
    b = rng.standard_normal(2) * 3

    def log_density(cov):
        return -0.5 * (np.linalg.slogdet(cov)[1] + b @ np.linalg.solve(cov, b))

    expected = log_density(M + n * M) - log_density(M)
    assert_allclose(log_bayes_factor(b @ np.linalg.solve(M, b), 2, n), expected, rtol=1e-12)


def test_pairs_are_rarer_than_single_roots():
    sets = root_sets(4)
    assert len(sets) == 4 + 6
    weights = np.exp(log_prior_of_sets(sets, np.full(4, 0.25), 0.2))
    assert_allclose(weights[:4].sum(), 1.0)
    assert_allclose(weights[4:].sum(), 0.1)


def test_two_roots_are_both_included():
    sets = root_sets(3)
    logs = np.array([0.0, 0.0, 0.0, 20.0, 0.0, 0.0])  # the pair of units 0 and 1
    members = np.array([[m in s for m in range(3)] for s in sets])
    probability, weights = inclusion(members, logs, np.array([0.0, 1.0, 0.0]))
    assert probability[0] > 0.99
    assert probability[1] > 0.99
    assert probability[2] < 0.01
    assert probability[1] > probability[0]  # it explains more on its own
    assert_allclose(weights.sum(), 1.0)


def test_units_of_the_same_probability_stay_in_the_order_of_what_they_explain():
    """Also once probabilities are multiplied by how certain it is that anything happened."""
    alone = np.array([0.3, 0.1, 0.2])
    probability, _ = inclusion(np.eye(3), np.zeros(3), alone)
    for factor in np.linspace(0.1, 1, 50):
        assert (factor * probability).argsort().tolist() == alone.argsort().tolist()
    assert_allclose(probability, 1 / 3, rtol=1e-12)


def test_scale_factor_is_the_likelihood_ratio_of_a_normal_variance():
    rng = np.random.default_rng(0)
    x = 1.7 * rng.standard_normal((50, 2))
    scale = (x**2).mean()
    ratio = stats.norm.logpdf(x, scale=np.sqrt(scale)).sum() - stats.norm.logpdf(x).sum()
    assert_allclose(log_scale_factor(scale, 2, 50), ratio - 0.5 * np.log(51))
    assert_allclose(log_scale_factor(0.5, 2, 50), -0.5 * np.log(51))  # less than nominal is no fault


def test_prior_moves_a_tie_and_a_zero_prior_excludes():
    p = tempered(np.array([3.0, 3.0]), 10, 8.0, np.array([0.8, 0.2]))
    assert_allclose(p, [0.8, 0.2])
    assert tempered(np.array([3.0, 9.0]), 10, 8.0, np.array([1.0, 0.0]))[1] == 0.0


def test_no_unit_is_more_than_certain():
    """Every set holds the unit: shares that add up to one but for rounding."""
    members = np.ones((3, 1), dtype=bool)
    for seed in range(200):
        logs = np.random.default_rng(seed).normal(size=3)
        assert inclusion(members, logs, np.zeros(1))[0][0] <= 1.0
