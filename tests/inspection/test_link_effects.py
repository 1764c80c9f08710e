"""Links in the plant's time and in terms of its tags."""

import copy

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedGrangerEstimator, inspection
from skfedcausal.datasets import make_granger_plant


@pytest.fixture(scope="module", params=[0.4, -0.4])
def plant(request):
    A = np.array([[0.7, 0.0], [request.param, 0.6]])
    X, truth = make_granger_plant(
        2, transition=A, n_states=1, n_sensors=3, n_samples=6000, container="frame", random_state=0
    )
    X.index = pd.date_range("2026-01-01", periods=len(X), freq="15s")
    return FederatedGrangerEstimator().fit(X), truth


def test_delays_are_in_rows_and_in_seconds(plant):
    links = plant[0].links_
    found = links[links["verdict"] == "influence"].iloc[0]
    assert (found["delay"], found["delay_time"], found["delay_time_high"]) == (1.0, 15.0, 15.0)


def test_rows_without_times_have_no_delay_in_seconds():
    X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    assert "delay_time" not in FederatedGrangerEstimator().fit(X).links_


def test_signs_and_gains_are_those_of_the_measurements(plant):
    estimator, truth = plant
    row = inspection.link_effects(estimator).iloc[0]
    assert (row["cause"], row["effect"], row["delay_time"]) == ("unit0", "unit1", 15.0)
    cause, effect = (
        C[int(row[end][-1]), 0] for C, end in zip(truth.observation, ("cause_tag", "effect_tag"), strict=True)
    )
    # of one state each the gain is that of the states, from a tag to the state and from the state to a tag
    expected = effect * truth.transition[1, 0] / cause
    # three standard errors of the link, of 6000 rows and of noise as large as the states: 3 sqrt(2 / 6000) / 0.4
    assert row["gain"] == pytest.approx(expected, rel=0.15)
    assert abs(row["correlation"]) < 1


def test_no_link_gives_an_empty_table_with_its_columns():
    X, _ = make_granger_plant(2, links=[], n_samples=800, random_state=1)
    table = inspection.link_effects(FederatedGrangerEstimator().fit(X))
    assert table.empty
    assert "gain" in table


def test_a_link_that_rests_on_a_held_out_gain_has_the_gain_of_its_regression(plant):
    estimator, _ = plant
    by_likelihood = inspection.link_effects(estimator).iloc[0]
    graded = copy.copy(estimator)
    graded._links = estimator.links_.assign(basis="held-out gain")
    row = inspection.link_effects(graded).iloc[0]
    assert list(row[["cause", "effect", "cause_tag", "effect_tag", "delay_time"]]) == list(
        by_likelihood[["cause", "effect", "cause_tag", "effect_tag", "delay_time"]]
    )
    # a regression on one row's measurements, of which noise is a part, finds less of it
    assert 0.4 < row["gain"] / by_likelihood["gain"] <= 1
