"""Slopes of what was seen on what was foretold, and how sure these make that an effect is real."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.server.responses.learning import probability_real, slopes


@pytest.fixture(scope="module")
def pairs():
    """Ten stretches of 20 runs of five rows, two causes and three states: the first cause does nothing to the last."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10):
        foretold = rng.standard_normal((2, 5, 20, 3))
        gains = np.array([[1.0, 1.0, 0.0], [1.0, 0.5, 1.0]])
        seen = (gains[:, None, None] * foretold).sum(axis=0) + 0.5 * rng.standard_normal((5, 20, 3))
        found.append((seen, foretold))
    return found


def test_slopes_are_those_of_regressions(pairs):
    slope, error = slopes(pairs)
    for d in range(3):
        table = np.concatenate([x[..., d].reshape(2, -1).T for _, x in pairs])
        seen = np.concatenate([y[..., d].ravel() for y, _ in pairs])
        assert_allclose(slope[:, d], np.linalg.lstsq(table, seen, rcond=None)[0], atol=1e-3)
    assert (error > 0).all()
    assert (error < 0.1).all()  # 0.5 / sqrt(1000) is 0.016


def test_the_jackknife_leaves_out_stretches(pairs):
    _, error = slopes(pairs)
    without = np.array([slopes(pairs[:f] + pairs[f + 1 :])[0] for f in range(10)])
    expected = np.sqrt(0.9 * np.square(without - without.mean(axis=0)).sum(axis=0))
    assert_allclose(error, expected, rtol=0.02)


def test_real_effects_are_told_from_none(pairs):
    probability = probability_real(*slopes(pairs))
    assert probability[0, 2] < 0.05
    assert (probability[:, 0] > 0.95).all()


def test_what_is_not_known_has_the_share_of_the_others():
    slope, error = np.array([[1.0] * 18 + [0.0] * 2 + [0.5]]), np.array([[0.05] * 20 + [1e3]])
    assert probability_real(slope, error)[0, -1] == pytest.approx(0.87, abs=0.05)
