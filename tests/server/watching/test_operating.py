"""The level that a watch follows: what of a block is chance, and how much of it is taken."""

import numpy as np
import pytest

from skfedcausal.server.watching.operating import FOLLOWED, Level, OperatingPoint
from skfedcausal.statespace.detection.energy import ConditionalEnergy

SLICES = (slice(0, 2), slice(2, 5))
DIMS = np.array([2, 3])


@pytest.fixture(scope="module")
def level():
    return Level(ConditionalEnergy(np.eye(5), SLICES), 1.0, 10**6, 10**6 // FOLLOWED, DIMS)


def blocks(n, rng):
    """Means of blocks of independent errors of variance one."""
    return rng.standard_normal((n, 5)) / np.sqrt(FOLLOWED)


def test_means_of_blocks_are_seldom_beyond_chance(level):
    rng = np.random.default_rng(0)
    found = np.mean([level.drifted(mean, DIMS, 0.0) for mean in blocks(4000, rng)])
    # 3 % of the blocks, and four standard errors of a share of 4000
    assert abs(found - 0.03) < 4 * np.sqrt(0.03 * 0.97 / 4000)


def test_a_level_that_moves_by_little_is_followed_and_one_that_stays_is_hardly_left(level):
    rng, levels = np.random.default_rng(1), []
    for slope in (0.0, 0.05):
        point, off = OperatingPoint.nominal(5, 2), []
        for k, noise in enumerate(blocks(400, rng)):
            mean = noise + slope * k - point.errors
            means = mean, mean, np.ones(2), np.ones(2)
            point = point.followed(means, np.ones(2), level.drifted(mean, DIMS, point.variance))
            off.append(point.errors - slope * k)
        levels.append(np.array(off))
    # a quarter of every block leaves 0.25 / 1.75 of its variance; the 3 % that are taken whole, far out as they are,
    # add about as much again: less than half of what following whole blocks has
    assert levels[0].var() < 0.4 / FOLLOWED
    # a quarter of it lags by three steps and less where that is beyond chance
    assert -0.15 < levels[1][50:].mean() < 0.0


def test_a_block_beyond_chance_is_taken_as_it_is(level):
    point = OperatingPoint.nominal(5, 2)
    means = np.full(5, 0.8), np.full(5, 0.4), np.array([2.0, 1.0]), np.ones(2)
    assert level.drifted(means[0], DIMS, 0.0)
    moved = point.followed(means, np.ones(2), True)
    np.testing.assert_allclose(moved.errors, 0.8)
    assert moved.variance == pytest.approx(1 / FOLLOWED)
    np.testing.assert_allclose(moved.whole, [2.0, 1.0])
    little = point.followed(means, np.ones(2), False)
    np.testing.assert_allclose(little.errors, 0.2)
    assert little.variance == pytest.approx(1 / 16 / FOLLOWED)
