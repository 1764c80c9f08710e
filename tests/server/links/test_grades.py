"""Grades of links: what is told of plants with and without one, and under moves that units make together."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedGrangerEstimator, KalmanClient, Knowledge, LikelihoodServer
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.links.grades import VALUES, fewest_rows, grades, grades_of, holds, with_grades


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


def test_units_that_are_nearly_one_are_coupled_and_so_is_what_acts_on_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    x[1:, 1] += 0.8 * x[:-1, 0]
    series = np.column_stack([x, x[:, 1] + 0.2 * rng.normal(size=3000)])  # a copy of the effect
    found = grades(series, tuple(slice(k, k + 1) for k in range(3)))
    assert found.same_row[2, 1] > 0.75
    assert [found.verdict[1, 0], found.verdict[2, 0]] == ["coupled"] * 2
    assert grades(series[:, :2], (slice(0, 1), slice(1, 2))).verdict[1, 0] == "influence"


def test_a_driver_that_is_measured_couples_nothing():
    rng = np.random.default_rng(0)
    rain = rng.normal(size=(3000, 1))
    x = np.zeros((3000, 2))
    for t in range(1, len(x)):
        x[t] = 0.6 * x[t - 1] + rng.normal(size=2) + 2 * rain[t] + [0.0, 2 * rain[t - 1, 0]]
    slices = (slice(0, 1), slice(1, 2))
    assert grades(x, slices).verdict[1, 0] in ("influence", "coupled")
    assert grades(x, slices, known=rain).verdict[1, 0] == "negligible"


def test_the_lag_is_that_of_the_link():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2))
    x[2:, 1] += 0.6 * x[:-2, 0]
    found = grades(x, (slice(0, 1), slice(1, 2)))
    assert found.verdict[1, 0] == "influence"
    assert found.lag[1, 0] == 2
    np.testing.assert_allclose(found.carried[:, 1, 0], [0, 0.6], atol=0.07)


# -- in the table of links


def table(*rows):
    """A table of links of the likelihood, from (cause, effect, verdict)."""
    named = pd.DataFrame(rows, columns=["cause", "effect", "verdict"])
    return named.assign(kind="state", because="strict", norm=0.1, p_value=0.5, p_adjusted=0.5)


@pytest.mark.parametrize(
    ("strict", "of_grade"),
    [
        ("influence", ["influence", "likelihood"]),
        ("no influence", ["influence", "held-out gain"]),
        ("cannot tell", ["influence", "held-out gain"]),
        ("shared driver", ["coupled", "held-out gain"]),
    ],
)
def test_the_grade_says_what_the_likelihood_leaves_open(strict, of_grade):
    found = graded(plant(0, link=0.4))
    told = with_grades(table(("u0", "u1", strict)), found, ("u0", "u1"))
    assert told[["verdict", "basis"]].iloc[0].tolist() == of_grade
    assert told["strength"].iloc[0] == found.strength[1, 0]
    assert (told["because"].iloc[0] == "strict") == (of_grade[1] == "likelihood")


@pytest.mark.parametrize(
    ("low", "same_row", "said"),
    [(0.02, 0.11, "11% of their unpredicted variation"), (0.2, 0.0008, "a gain between 20%")],
)
def test_what_keeps_a_pair_coupled_is_what_is_said(low, same_row, said):
    found, full = graded(plant(0)), np.full((2, 2), 1.0)
    found = replace(found, verdict=np.full((2, 2), "coupled"), low=low * full, same_row=same_row * full)
    told = with_grades(table(("u0", "u1", "cannot tell")), found, ("u0", "u1"))
    assert told["because"].iloc[0].startswith(said)
    assert told["because"].iloc[0].endswith("a common driver or a link both ways")


def test_verdicts_of_the_likelihood_stand_beside_weaker_grades():
    found = graded(plant(0))
    told = with_grades(table(("u0", "u1", "influence"), ("u1", "u0", "no influence")), found, ("u0", "u1"))
    assert told["verdict"].tolist() == ["influence", "no influence"]
    assert set(told["basis"]) == {"likelihood"}


def test_an_influence_that_only_a_slow_move_tells_gives_way():
    moved = {name: Y + ramp() for name, Y in plant(201).items()}
    found = graded(moved)
    assert found.is_slow[1, 0]
    told = with_grades(table(("u0", "u1", "influence")), found, ("u0", "u1"))
    assert told[["verdict", "basis"]].iloc[0].tolist() != ["influence", "likelihood"]
    assert told["verdict"].iloc[0] != "influence"


def test_links_of_inputs_and_of_no_rows_have_no_shares():
    links = table(("u0", "u1", "influence")).assign(kind="input")
    for found in (graded(plant(0)), None):
        told = with_grades(links, found, ("u0", "u1"))
        assert told[list(VALUES)].isna().all(axis=None)
        assert told[["verdict", "basis", "because"]].iloc[0].tolist() == ["influence", "likelihood", "strict"]


def test_a_fit_has_both_layers():
    est = FederatedGrangerEstimator().fit(plant(0, link=0.4))
    told = est.links_.set_index(["cause", "effect"])
    assert list(est.links_)[:5] == ["cause", "effect", "kind", "verdict", "basis"]
    assert told.loc[("u0", "u1"), "verdict"] == "influence"
    assert told.loc[("u0", "u1"), "strength"] == pytest.approx(graded(plant(0, link=0.4)).strength[1, 0])
    assert set(told["basis"]) <= {"likelihood", "held-out gain"}


def test_too_few_rows_leave_shares_open():
    X = plant(0, n=250)
    assert 200 < fewest_rows((slice(0, 1), slice(1, 2))) < 250
    few = {name: Y[:200] for name, Y in X.items()}
    server = LikelihoodServer().fit({name: KalmanClient().fit(Y).message(Y) for name, Y in few.items()})
    assert server.links_["evidence"].isna().all()
    assert set(server.links_["basis"]) == {"likelihood"}


def test_of_many_units_the_likelihood_is_enough_where_it_holds():
    links = table(*[("u0", "u1", "cannot tell")] * 20)
    assert not holds(links)
    assert holds(links.assign(because=["strict"] + [""] * 19))


def test_what_is_known_is_given():
    est = FederatedGrangerEstimator(server=LikelihoodServer(knowledge=Knowledge(forbidden=[("u0", "u1")]))).fit(
        plant(0, link=0.4)
    )
    told = est.links_.set_index(["cause", "effect"]).loc[("u0", "u1")]
    assert (told["verdict"], told["basis"]) == ("no influence", "given")
