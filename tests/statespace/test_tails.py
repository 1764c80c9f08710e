"""Noise with heavier tails than a Gaussian's, against scipy and by integration."""

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm, t

from skfedcausal.statespace.matrices import are_heavy
from skfedcausal.statespace.timedomain import Tails, heavy_tails


def test_gaussian_rows_have_no_tails():
    assert heavy_tails(np.random.default_rng(0).standard_normal((4000, 3))) is None
    assert Tails.learned(np.random.default_rng(1).standard_normal((4000, 3))) is None


def test_few_rows_tell_nothing_of_tails():
    assert heavy_tails(np.random.default_rng(0).standard_t(2, (100, 3))) is None


def test_what_they_add_makes_the_density_of_students_t():
    x = np.random.default_rng(0).standard_normal((20, 3)) * 3
    tails = Tails(np.array([3.0, np.inf, 10.0]), np.array([0.5, 1.0, 2.0]))
    expected = t.logpdf(x[:, 0], 3, scale=0.5) + norm.logpdf(x[:, 1]) + t.logpdf(x[:, 2], 10, scale=2)
    np.testing.assert_allclose(norm.logpdf(x).sum(axis=1) + tails.gain(x), expected, rtol=1e-12)


def test_a_density_stays_one():
    tails = heavy_tails(np.random.default_rng(0).standard_t(3, (3000, 1)) / np.sqrt(3))
    total, _ = quad(lambda x: np.exp(norm.logpdf(x) + tails.gain(np.array([[x]]))[0]), -30, 30, limit=200)
    assert abs(total - 1) < 1e-3  # what lies beyond 30 scales of a t of three degrees of freedom is less


def test_freedom_and_scale_are_those_that_were_drawn():
    rng = np.random.default_rng(0)
    white = np.column_stack([2 * rng.standard_t(3, 5000), rng.standard_normal(5000)])
    tails = heavy_tails(white)
    assert tails.freedom[0] in (2.5, 3.0, 4.0)  # of the listed ones those next to it
    assert abs(tails.size[0] - 2) < 0.15  # three standard errors
    assert np.isinf(tails.freedom[1])


def test_values_that_come_again_exactly_have_no_endless_density():
    x = np.random.default_rng(0).standard_t(2, (3000, 1))
    x[np.arange(3000) % 3 > 0] = 0.0
    assert heavy_tails(x).size[0] >= 1e-3


def test_a_column_that_stands_still_has_no_heavy_tails():
    white = np.random.default_rng(0).standard_normal((1000, 2))
    assert not are_heavy(white * [1.0, 0.0])
    assert not are_heavy(np.zeros((1000, 2)))
    white[::100, 0] *= 20
    assert are_heavy(white * [1.0, 0.0])
