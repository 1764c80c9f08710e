"""Information between units by lag: against its formula, and clocks that are off by a few rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.datasets import make_granger_plant
from skfedcausal.quality.clocks import RowsApart, clock_offsets

LOOPS = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0), (0, 3)]
N = 20_000


def noise(seed, n=N):
    return np.random.default_rng(seed).standard_normal((n, 1))


def later(x, rows):
    moved = np.roll(x, rows, axis=0)
    moved[: max(rows, 0)] = 0.0
    return moved


def plant(seed):
    """Units that share what they do within a row: means over six steps of a plant of loops."""
    X, _ = make_granger_plant(
        4, n_samples=18_000, n_states=2, n_sensors=4, links=LOOPS, link_strength=0.3, random_state=seed
    )
    return {name: Y.reshape(3000, 6, -1).mean(axis=1) for name, Y in X.items()}


def late(X, unit, rows):
    """A plant in which what a unit measured is told so many rows late, early where negative."""
    first, last = slice(abs(rows), None), slice(None, -abs(rows))
    return {name: Y[last] if (name == unit) == (rows > 0) else Y[first] for name, Y in X.items()}


def told(X):
    offsets = clock_offsets(X, min(720, len(next(iter(X.values()))) // 4))
    return {name: offset.rows for name, offset in offsets.items() if offset is not None and offset.rows}


@pytest.mark.parametrize("rows", [0, 2, -3])
def test_what_white_series_share_is_at_the_lag_between_them(rows):
    """1/2 log(1 / (1 - r^2)) there and nothing elsewhere, give or take four standard errors."""
    x, r = noise(0), 0.6
    y = r * later(x, rows) + np.sqrt(1 - r**2) * noise(1)
    apart = RowsApart({"x": x, "y": y})
    for lag in range(-5, 6):
        found = apart.at([1], [0], lag)
        exact = -0.5 * np.log(1 - r**2) if lag == rows else 0.0
        assert_allclose(found.value, exact, atol=4 * r / np.sqrt(N) if exact else 4 * 5 * found.noise)
        assert found.clear or lag != rows


def test_all_that_series_share_is_the_sum_over_the_lags():
    """Two echoes: the sum is -1/2 int log(1 - coherence) (Geweke 1982)."""
    x = noise(0)
    y = 0.6 * later(x, 1) + 0.5 * later(x, 2) + noise(1)
    w = np.linspace(-np.pi, np.pi, 20_001)
    gain = np.abs(0.6 * np.exp(-1j * w) + 0.5 * np.exp(-2j * w)) ** 2
    whole = 0.5 * np.mean(np.log(1 + gain))
    apart = RowsApart({"x": x, "y": y})
    # the sum of eleven lags; 4 rows of the past leave less than a hundredth of an information of a quarter
    assert_allclose(apart.around([1], [0], 1), whole, rtol=0.05)


def test_a_unit_that_copies_another_shares_a_finite_amount():
    x = noise(0)
    assert np.isfinite(RowsApart({"x": x, "y": x.copy()}).at([0], [1], 0).value)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("seed", "unit", "rows"), [(3, "unit0", -1), (3, "unit2", -1), (0, "unit0", 3), (2, "unit2", 60)]
)
def test_a_clock_that_is_off_is_found_in_a_plant_that_shares_within_rows(seed, unit, rows):
    assert told(late(plant(seed), unit, rows)) == {unit: rows}


@pytest.mark.medium
@pytest.mark.parametrize("dead_time", [0, 1, 2])
def test_a_unit_downstream_is_not_accused_and_accuses_nobody(dead_time):
    X, rng = plant(0), np.random.default_rng(0)
    assert told(X) == {}
    source, down = X["unit0"][:, :2] / X["unit0"][:, :2].std(axis=0), np.zeros((3000, 2))
    for t in range(dead_time, 3000):
        down[t] = 0.5 * down[t - 1] + source[t - dead_time] + 0.5 * rng.standard_normal(2)
    assert told(X | {"down": down}) == {}


def test_single_upsets_that_coincide_say_nothing_of_clocks():
    X = {name: noise(k, 600) for k, name in enumerate("abc")}
    upset = np.zeros((600, 1))
    upset[300:302] = 50.0
    assert told(X | {"d": upset, "e": later(upset, 40)}) == {}
