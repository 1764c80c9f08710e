"""Levels that a watch follows, and what they are worth."""

import numpy as np
import pytest

from skfedcausal.server.watching.operating import FOLLOWED, Followed, Level, OperatingPoint
from skfedcausal.statespace.detection.shift import ConditionalEnergy

from ._rows import evidence

DIMS = np.array([3, 3])


@pytest.fixture
def level():
    return Level(ConditionalEnergy(np.eye(6), (slice(0, 3), slice(3, 6))), 1.0, 10**6, 10**4, DIMS)


def test_means_of_blocks_are_worth_what_they_vary_by():
    """The first one is that of a block alone; later ones vary less, down to a third of that."""
    rng = np.random.default_rng(0)
    runs = []
    for _ in range(400):
        followed, path = Followed(), []
        for _ in range(4):
            noise = rng.standard_normal((FOLLOWED, 6))
            rows = evidence(FOLLOWED, 2, 6, errors=noise, distance=np.ones((FOLLOWED, 2)))
            followed.add(rows, np.ones(FOLLOWED, dtype=bool))
            path.append((followed.means()[0], followed.n_rows))
            followed = followed.next()
        runs.append(path)
    for k in range(4):
        n_rows = runs[0][k][1]
        squares = n_rows * np.concatenate([path[k][0] for path in runs]) ** 2
        assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / len(squares))
    assert runs[0][0][1] == FOLLOWED
    assert 2.5 * FOLLOWED < runs[0][3][1] < 3 * FOLLOWED


def test_the_first_block_after_a_start_hardly_ever_is_a_drift(level):
    rng = np.random.default_rng(1)
    means = rng.standard_normal((2000, 6)) / np.sqrt(FOLLOWED)
    assert sum(level.drifted(mean, FOLLOWED, DIMS) for mean in means) <= 10  # 4 are expected


def test_a_level_that_was_followed_is_known_from_few_rows():
    """Alarms are that much rarer there until more rows came."""
    point = OperatingPoint.nominal(6, 2)
    moved = point.followed(np.ones((3, 6)), np.ones(2), np.ones(2), 120, moves=False)
    assert point.spread == 1.0
    assert moved.is_new
    assert moved.spread == pytest.approx(np.sqrt(1 + 39 / 120))
    assert moved.better_known(np.zeros(6), np.zeros(6)).spread < moved.spread
    assert (point.level_rows, moved.level_rows) == (np.inf, 120)
    assert moved.better_known(np.zeros(6), np.zeros(6)).level_rows == 240


def test_a_level_that_moves_by_itself_is_known_from_the_rows_that_were_followed():
    """Alarms are as rare as before: thresholds were learned from a record whose level moves."""
    moved = OperatingPoint.nominal(6, 2).followed(np.ones((3, 6)), np.ones(2), np.ones(2), 120, moves=True)
    assert (moved.spread, moved.is_new, moved.level_rows) == (1.0, False, 120)


def test_a_drift_is_followed_for_what_lasts_before_it_is_told(level):
    """And hardly anything of what chance makes."""
    rng, nothing = np.random.default_rng(2), np.ones(2)
    found = [
        level.drifting((mean, mean, mean), nothing, FOLLOWED, DIMS, nothing).states / mean
        for mean in rng.standard_normal((500, 6)) / np.sqrt(FOLLOWED)
    ]
    assert np.mean(found) < 0.1
    mean = np.array([0.3, *np.zeros(5)])
    assert not level.drifted(mean, FOLLOWED, DIMS)
    followed = level.drifting((mean, mean, mean), 1 + 0.3 * nothing, FOLLOWED, DIMS, 5 * nothing)
    assert 0.3 * 0.4 < followed.states[0] < 0.3
    assert (followed.off > 1.2).all()
    assert (followed.off < 1.3).all()


@pytest.mark.parametrize("dims", [np.ones(8, dtype=int), np.full(6, 2), np.full(20, 3)])
def test_levels_that_do_not_move_are_not_taken_to_move(dims):
    n, moved = dims.sum(), []
    slices = tuple(slice(*pair) for pair in zip(np.cumsum(dims) - dims, np.cumsum(dims), strict=True))
    energy = ConditionalEnergy(np.eye(n), slices)
    for seed in range(50):
        errors = np.random.default_rng(seed).standard_normal((3000, n))
        moved.append(Level.learned(energy, np.split(errors, 4), slices).moves)
    assert np.mean(moved) <= 0.04  # 0.01 by chance
    wander = np.cumsum(np.random.default_rng(0).standard_normal((3000, n)), axis=0) / 100
    assert Level.learned(energy, np.split(errors + wander, 4), slices).moves
