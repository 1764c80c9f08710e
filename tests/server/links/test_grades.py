"""Grades of links: what is told of plants with and without one, and under moves that units make together."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.links.grades import COLUMNS, fewest_rows, grades, grades_of


def plant(seed, *, n=1500, link=0.0, driver=0.0, memory=0.9, slow=(0.7, 0.7)):
    """Two units of three sensors, the second driven by the first, or both by something nobody measures."""
    rng = np.random.default_rng(seed)
    x, f = np.zeros((n, 2)), 0.0
    w = rng.normal(size=(n, 3))
    for t in range(1, n):
        f = memory * f + w[t, 2]
        x[t] = slow * x[t - 1] + [0.0, link * x[t - 1, 0]] + w[t, :2] + driver * f
    gains = rng.uniform(0.5, 1.5, (2, 3))
    return {f"u{k}": x[:, [k]] * gains[k] + 0.5 * rng.normal(size=(n, 3)) for k in range(2)}


def graded(X):
    """Grades from the messages of units, [effect, cause]."""
    return grades_of(JointRecord.from_messages({name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}))


def ramp(n=1500):
    return np.interp(np.arange(n), [0, 600, 650, 900, 950, n], [0, 0, 30, 30, 0, 0])[:, None]


@pytest.mark.parametrize("seed", range(4))
def test_a_link_is_told_one_way(seed):
    found = graded(plant(seed, link=0.4))
    assert found.verdict[1, 0] == "influence"
    assert found.verdict[0, 1] != "influence"
    assert found.evidence[1, 0] > found.evidence[0, 1]
    assert 0.01 < found.low[1, 0] <= found.strength[1, 0] <= found.high[1, 0]


@pytest.mark.parametrize("seed", range(4))
def test_units_without_a_link_are_negligible_to_each_other(seed):
    found = graded(plant(seed))
    assert [found.verdict[1, 0], found.verdict[0, 1]] == ["negligible"] * 2


@pytest.mark.parametrize("seed", range(4))
def test_a_common_ramp_is_no_influence_and_hides_none(seed):
    moved = {name: Y + ramp() for name, Y in plant(200 + seed).items()}
    assert "influence" not in {graded(moved).verdict[1, 0], graded(moved).verdict[0, 1]}
    linked = {name: Y + ramp() for name, Y in plant(300 + seed, link=0.4).items()}
    assert graded(linked).verdict[1, 0] == "influence"
    assert graded(linked).verdict[0, 1] != "influence"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("memory", [0.5, 0.9])
def test_a_driver_that_nobody_measures_makes_no_influence(memory, seed):
    found = graded(plant(seed, driver=0.6, memory=memory))
    assert {found.verdict[1, 0], found.verdict[0, 1]} <= {"coupled", "cannot tell"}
    assert found.same_row[1, 0] > 0.05


def test_a_link_of_units_that_hardly_settle_is_not_made_up():
    assert all(graded(plant(seed, slow=(0.99, 0.99))).verdict[1, 0] != "influence" for seed in range(4))


def test_grades_do_not_depend_on_scale_order_or_coordinates():
    X = plant(0, link=0.3)
    series = np.hstack(list(X.values()))
    slices = (slice(0, 3), slice(3, 6))
    first = grades(series, slices)
    turned = np.hstack([X["u1"] @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0] * 1e6, X["u0"] + 7])
    second = grades(turned, slices)
    np.testing.assert_allclose(second.strength[0, 1], first.strength[1, 0], rtol=1e-3)
    assert second.verdict[0, 1] == first.verdict[1, 0]


def test_the_driver_that_is_needed_explains_the_lower_bound():
    """Cinelli and Hazlett's robustness value r of a partial R2 f^2 / (1 + f^2) solves r^2 / (1 - r) = f^2."""
    found = graded(plant(0, link=0.4))
    r, low = found.driver_needed[1, 0], found.low[1, 0]
    assert r**2 / (1 - r) == pytest.approx(low)


def test_missing_rows_change_a_grade_by_little():
    X = plant(0, link=0.4, n=4000)
    whole = graded(X)
    rng = np.random.default_rng(1)
    for Y in X.values():
        Y[rng.random(len(Y)) < 0.02] = np.nan
    gaps = graded(X)
    assert gaps.verdict[1, 0] == whole.verdict[1, 0] == "influence"
    assert abs(gaps.strength[1, 0] - whole.strength[1, 0]) < 0.1 * whole.strength[1, 0]


def test_a_fit_leaves_a_table_with_the_clearest_pair_first():
    est = FederatedGrangerEstimator().fit(plant(0, link=0.4))
    assert tuple(est.grades_.columns) == COLUMNS
    assert est.grades_[["cause", "effect", "verdict"]].iloc[0].tolist() == ["u0", "u1", "influence"]
    assert est.grades_["because"].iloc[0].startswith("a driver nobody measures would have to explain ")
    assert est.grades_["evidence"].is_monotonic_decreasing
    pd.testing.assert_frame_equal(est.grades_, est.server_.grades_)


def test_too_few_rows_leave_an_empty_table():
    X = plant(0, n=250)
    assert 200 < fewest_rows((slice(0, 1), slice(1, 2))) < 250
    few = {name: Y[:200] for name, Y in X.items()}
    server = LikelihoodServer().fit({name: KalmanClient().fit(Y).message(Y) for name, Y in few.items()})
    assert server.grades_.empty
    assert tuple(server.grades_.columns) == COLUMNS
