"""Where a plant goes if its inputs stay."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.server.planning import held_forecast, held_run

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def bent():
    """A valve that acts through its square as well, and rests at its upper end in the last rows."""
    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(-1, 1, 200), 10)
    u[-20:] = 1.0
    x, Y = 0.0, np.zeros(2000)
    for t in range(2000):
        Y[t] = x + 0.02 * rng.standard_normal()
        x = 0.9 * x + 0.1 * (u[t] + 0.8 * u[t] ** 2) + 0.01 * rng.standard_normal()
    record = pd.DataFrame({"a__y": Y, "a__u": u})
    return record, FederatedCounterfactualEstimator(input_columns=["a__u"]).fit(record), x


def test_a_bent_plant_stays_where_its_input_holds_it(bent):
    record, estimator, x = bent
    assert any(form.moves for form in estimator.server_.curvature_.forms)
    with estimator._asking(record) as units:
        messages = units.messages()
        run, states = held_run(estimator.server_, messages, 60)
        linear = held_forecast(estimator.server_.filter(messages), 60)
        shown, line = (units.measured(units.mapped(h))[0][:, 0] for h in (states, linear))
    steps = np.arange(1, 61)
    truth = 1.8 + (x - 1.8) * 0.9 ** (steps - 1)
    # at the end of the valve's range little is known of the square; the linear forecast forgets what it adds
    assert np.abs(shown - truth).max() < 0.5 * np.abs(line - truth).max()
    assert len(run.filtered) == len(record)


def test_a_bend_that_moves_effects_goes_on_where_no_forecast_may_count_on_it(bent, monkeypatch):
    record, estimator, _ = bent
    server, curvature = estimator.server_, estimator.server_.curvature_
    assert curvature.foretells()
    sure, doubtful = (
        replace(curvature, forms=tuple(replace(form, foretold=share) for form in curvature.forms))
        for share in (1.0, 0.0)
    )
    monkeypatch.setattr(server, "curvature_", sure)
    with estimator._asking(record) as units:
        messages = units.messages()
        whole = held_run(server, messages, 60)[1]
        monkeypatch.setattr(server, "curvature_", doubtful)
        assert doubtful.foretells(1.0)
        assert not doubtful.foretells()
        run, found = held_run(server, messages, 60)
        counted = server.filter(messages)
    np.testing.assert_array_equal(found, whole)
    # what was fitted to a record, and to no other, does not make the misses that bands come from smaller
    np.testing.assert_array_equal(run.filtered, counted.filtered)


def test_without_inputs_that_bend_it_is_the_forecast():
    rng = np.random.default_rng(1)
    u, Y = rng.uniform(-1, 1, 600), np.zeros(600)
    for t in range(1, 600):
        Y[t] = 0.8 * Y[t - 1] + 0.2 * u[t - 1] + 0.1 * rng.standard_normal()
    record = pd.DataFrame({"a__y": Y, "a__u": u})
    estimator = FederatedCounterfactualEstimator(input_columns=["a__u"]).fit(record)
    with estimator._asking(record) as units:
        messages = units.messages()
        found = held_run(estimator.server_, messages, 10)[1]
        np.testing.assert_array_equal(found, held_forecast(estimator.server_.filter(messages), 10))


def test_a_forecast_keeps_what_is_not_linear(bent):
    record, estimator, _ = bent
    start = 1800
    mean, low, high = estimator.forecast(record, start, confidence=0.9)
    with estimator._asking(record) as units:
        run = estimator.server_.filter(units.messages(until=start))
        line = units.measured(units.mapped(run.predicted[start:]))[0][:, 0]
    Y = record["a__y"].to_numpy()[start:]
    error, linear = (np.sqrt(np.mean(np.square(one - Y))) for one in (np.ravel(mean), line))
    assert error < 0.7 * linear
    np.testing.assert_array_equal(estimator.forecast(record, start), mean)
    held = (np.ravel(low) <= Y) & (np.ravel(high) >= Y)
    assert 0.7 < held.mean() <= 1.0  # moves of ten rows: twenty draws, about four standard errors
