"""Bands of forecasts: shapes, what they hold, and where they come from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant

X, TRUTH = make_granger_plant(2, n_samples=1600, links=[(0, 1)], n_inputs=1, random_state=0)
U = TRUTH.inputs


@pytest.fixture(scope="module")
def fitted():
    known = {name: Y[:1000] for name, Y in X.items()}
    return FederatedCounterfactualEstimator().fit(known, inputs=[u[:1000] for u in U])


def test_the_mean_of_a_band_is_the_forecast(fitted):
    mean, low, high = fitted.forecast(X, 1500, inputs=U, confidence=0.9)
    assert_array_equal(mean, fitted.forecast(X, 1500, inputs=U))
    assert_allclose(high - mean, mean - low)
    assert mean.shape == low.shape == high.shape == (100, 16)
    assert (high > low).all()
    again, std = fitted.forecast(X, 1500, inputs=U, return_std=True)
    assert_array_equal(again, mean)
    # a band of a Student t is wider than that of a Gaussian of the same spread
    assert (high - mean > stats.norm.ppf(0.95) * std).all()


def test_bands_hold_what_comes(fitted):
    Y = np.hstack(list(X.values()))
    hits = []
    for start in range(1130, 1590, 10):
        part = {name: x[: start + 10] for name, x in X.items()}
        _, low, high = fitted.forecast(part, start, inputs=[u[: start + 10] for u in U], confidence=0.9)
        hits.append((low <= Y[start : start + 10]) & (Y[start : start + 10] <= high))
    # 46 forecasts of 16 sensors that share four states: about 180 trials, three standard errors of 0.022
    assert 0.83 < np.mean(hits) < 0.97


def test_measurements_after_the_start_do_not_count(fitted):
    hidden = {name: np.where(np.arange(1600)[:, None] < 1500, Y, np.nan) for name, Y in X.items()}
    for one, two in zip(
        fitted.forecast(X, 1500, inputs=U, confidence=0.8),
        fitted.forecast(hidden, 1500, inputs=U, confidence=0.8),
        strict=True,
    ):
        assert_array_equal(one, two)


def test_a_plant_that_has_become_noisier_has_wider_bands(fitted):
    rng = np.random.default_rng(0)
    noisy = {name: Y + 3 * Y.std(axis=0) * rng.standard_normal(Y.shape) for name, Y in X.items()}
    calm, loud = (fitted.forecast(record, 1500, inputs=U, return_std=True)[1] for record in (X, noisy))
    assert (loud[0] > 1.5 * calm[0]).mean() > 0.9


@pytest.mark.parametrize("start", [1, 2, 5])
def test_without_a_past_the_plant_speaks_for_itself(fitted, start):
    mean, std = fitted.forecast(X, start, inputs=U, return_std=True)
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert len(mean) == 1600 - start


def test_plants_without_inputs_have_bands_with_gaps_and_names():
    gappy = {name: Y[:600].copy() for name, Y in X.items()}
    gappy["unit0"][500:520, 1] = np.nan
    estimator = FederatedGrangerEstimator().fit(gappy).set_output(transform="pandas")
    mean, low, high = estimator.forecast(gappy, 590, confidence=0.5)
    assert list(low.columns) == list(mean.columns)
    assert ((high - low) > 0).all(axis=None)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, "high", True, np.nan])
def test_a_confidence_is_a_probability(fitted, confidence):
    with pytest.raises(ValueError, match=r"give a number between 0 and 1"):
        fitted.forecast(X, 1500, inputs=U, confidence=confidence)


def test_a_band_or_a_standard_deviation(fitted):
    with pytest.raises(ValueError, match="ask for a band or for standard deviations"):
        fitted.forecast(X, 1500, inputs=U, confidence=0.9, return_std=True)
