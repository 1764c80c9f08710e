"""Searches that end early since responses will answer."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedCounterfactualEstimator, LikelihoodServer
from skfedcausal.bases import configured
from skfedcausal.server.responses import choice

_LATE = 6  # rows until an input acts


@pytest.fixture
def short(monkeypatch):
    """A first stage that settles nothing."""
    monkeypatch.setattr(choice, "_FIRST", 1e-3)


def late_plant(delay, link=0.2, n_samples=1500):
    """Two units, of which the second follows the first and an input that acts after some rows; little noise."""
    rng = np.random.default_rng(0)
    u = np.repeat(rng.choice([-1.0, 1.0], size=-(-n_samples // 5)), 5)[:n_samples]
    x, w = np.zeros((n_samples, 2)), 0.1 * rng.normal(size=(n_samples, 2))
    for t in range(1, n_samples):
        moved = u[t - delay] if t >= delay else 0.0
        x[t] = 0.3 * x[t - 1] + np.array([moved, link * x[t - 1, 0]]) + w[t]
    return pd.DataFrame({"a__x": x[:, 0], "b__x": x[:, 1], "a__u": u})


def fitted(X, **settings):
    """The estimator and the warnings of searches that ended."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = FederatedCounterfactualEstimator(input_columns=["a__u"], **settings).fit(X)
    return found, [str(one.message) for one in told if issubclass(one.category, ConvergenceWarning)]


def test_a_search_ends_where_its_first_stage_is_outdone_and_responses_answer(short):
    """A plant of one lag foretells nothing of an input that acts six rows later."""
    found, told = fitted(late_plant(_LATE))
    assert found.server_.outdone_
    assert not told
    assert found.engine_ == "responses"
    assert found._engine.losses["plant"] > 2 * found._engine.losses["responses"]
    effect = found.counterfactual("a", 0.0, 1.0, horizon=_LATE)["a__x"].to_numpy()
    # coefficients of an input of unit variance have errors of 0.1 / sqrt(1500) each, 0.0026, and neighbours that are
    # alike in 4 of 5 rows make that 1 / sqrt(1 - 0.8 ** 2) times as much; an effect in six rows adds six of them: 0.011
    np.testing.assert_allclose(effect, [0.0] * (_LATE - 1) + [1.0], atol=4 * 0.011)
    assert not len(found.server_.level_shifts_)
    assert found.counterfactual("a", 0.0, 1.0, horizon=2, loops="react").attrs["engine"] == "plant"


def test_a_plant_that_foretells_as_much_is_searched_for(short):
    found, _ = fitted(late_plant(1, link=0.0))
    assert not found.server_.outdone_


def test_a_search_with_hardly_more_time_than_its_first_stage_takes_all_of_it():
    found, told = fitted(late_plant(_LATE), server=LikelihoodServer(max_time=0.01))
    assert not found.server_.outdone_
    assert told


@pytest.mark.parametrize("beyond", [0.99, 1.01])
def test_a_settled_plant_is_given_up_where_it_misses_more_than_one_lag_of_a_regression(monkeypatch, beyond):
    """Further lags might mend the rest, and cost much more than the first stage."""

    def losses_of(ahead, found, record):
        return {"plant": beyond * choice.CLEARLY * found.one_lag, "responses": 1.0}

    monkeypatch.setattr(choice, "losses_of", losses_of)
    monkeypatch.setattr(choice, "TUNING", replace(choice.TUNING, early_quick=0.0))
    found, _ = fitted(late_plant(1, n_samples=800), server=LikelihoodServer(max_time=2.0))
    assert found.server_.outdone_ == (beyond > 1)


@pytest.mark.parametrize("is_led", [False, True])
def test_plants_whose_inputs_follow_measurements_are_given_up_beyond_doubt_only(monkeypatch, short, is_led):
    """And their inputs act later, since a controller's reading would pass for an effect in the same row."""
    seen = []

    def chosen_lags(record, now):
        seen.append(now.tolist())
        return known_lags(record, now)

    known_lags = choice.chosen_lags
    monkeypatch.setattr(choice, "chosen_lags", chosen_lags)
    monkeypatch.setattr(choice, "losses_of", lambda *about: {"plant": 1.5, "responses": 1.0})
    X = late_plant(1, link=0.0, n_samples=500)
    if is_led:
        rest = np.random.default_rng(1).normal(size=len(X))
        X["a__u"] = 0.1 * rest - 0.5 * X["a__x"].shift(1, fill_value=0.0)
    found, _ = fitted(X, server=LikelihoodServer(max_time=1.0))
    assert found.server_.outdone_ != is_led
    assert seen == [[True], [False]][: 1 + is_led]


@pytest.mark.slow
def test_a_first_stage_that_settles_leaves_everything_as_it_was():
    found, _ = fitted(late_plant(_LATE))
    assert not found.server_.outdone_
    assert len(found.lag_transitions_) > 1 or len(found.lag_inputs_) > 1


@pytest.mark.parametrize("settings", [{"forbidden": [("a", "b")]}, {"sampled": "before"}])
def test_what_is_known_of_links_or_timing_is_not_given_up(short, settings):
    found, _ = fitted(late_plant(_LATE), server=configured(LikelihoodServer, {"max_time": 1.0} | settings))
    assert not found.server_.outdone_


def test_servers_that_are_asked_for_links_search_to_the_end():
    assert not LikelihoodServer().yields_to_responses
