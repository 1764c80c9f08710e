"""Levels that a nominal record visits: where they begin and end, which are the same, and what is no switch."""

import numpy as np
import pytest

from skfedcausal.server.watching.operating import visited


def plant(seed, n_rows, push, n=6, radius=0.9):
    """States of a stable autoregression whose noise has standard deviation one, pushed (n_rows,) in a direction."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    direction = rng.standard_normal(n)
    noise = rng.standard_normal((n_rows, n)) + np.multiply.outer(push, direction / np.linalg.norm(direction))
    x = np.zeros((n_rows, n))
    for t in range(1, n_rows):
        x[t] = A @ x[t - 1] + noise[t]
    return x


@pytest.mark.parametrize("seed", range(4))
def test_a_switch_is_found_where_it_is(seed):
    found = visited(plant(seed, 1500, 2.0 * (np.arange(1500) >= 1000)), (0,))
    assert [stretch.level for stretch in found] == [0, 1]
    assert abs(found[0].stop - 1000) <= 5
    assert found[0].start == 0
    assert found[1].stop == 1500
    assert found[1].start == found[0].stop + 40  # rows in which the plant settles


@pytest.mark.parametrize("seed", range(4))
def test_a_level_that_is_visited_again_is_the_same(seed):
    x = plant(seed, 2000, 1.0 * (np.arange(2000) // 500 % 2))
    assert [stretch.level for stretch in visited(x, (0,))] == [0, 1, 0, 1]
    x = plant(seed, 2000, 1.5 * np.array([0, 1, -1, 0])[np.arange(2000) // 500])
    assert [stretch.level for stretch in visited(x, (0,))] == [0, 1, 2, 0]


def test_stretches_end_with_their_episodes():
    x = np.concatenate([plant(0, 500, np.zeros(500)), plant(0, 1000, 1.0 * (np.arange(1000) >= 500))])
    found = visited(x, (0, 500))
    assert [stretch.level for stretch in found] == [0, 0, 1]
    assert (found[0].stop, found[1].start) == (500, 500)


@pytest.mark.parametrize("radius", [0.5, 0.9, 0.99])
def test_steady_plants_visit_no_levels(radius):
    for seed in range(20):
        assert visited(plant(seed, 1500, np.zeros(1500), radius=radius), (0,)) == []


@pytest.mark.slow
def test_what_drifts_visits_no_levels():
    for seed in range(20):
        rng = np.random.default_rng(100 + seed)
        assert visited(plant(seed, 2000, np.cumsum(rng.standard_normal(2000)) / 45), (0,)) == []
        assert visited(plant(seed, 2000, np.linspace(0, 1.5, 2000)), (0,)) == []
        walk = np.cumsum(rng.standard_normal((2000, 6)), axis=0) / 45  # of the sensors, not of what drives them
        assert visited(plant(seed, 2000, np.zeros(2000)) + walk, (0,)) == []


def test_short_records_say_nothing():
    assert visited(plant(0, 150, np.zeros(150)), (0,)) == []
    assert visited(np.zeros((0, 3)), (0,)) == []


def test_states_that_determine_each_other_or_never_move_count_once():
    x = plant(0, 1500, 2.0 * (np.arange(1500) >= 1000))
    once, rng = visited(x, (0,)), np.random.default_rng(0)
    assert once
    for k in range(1, 6):  # what is left of them beside the others is rounding, and differs between processors
        twice = np.column_stack([x, x @ rng.standard_normal((6, k)), np.full((1500, 2), 0.1 * k)])
        assert visited(twice[:, rng.permutation(8 + k)], (0,)) == once
    for value in (0.0, 0.1, 1.0):
        assert visited(np.full((1500, 3), value), (0,)) == []
