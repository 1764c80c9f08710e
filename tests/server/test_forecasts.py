"""Bands of forecasts: shapes, what they hold, and where they come from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.forecasts import _calibrated, _memory
from skfedcausal.statespace.kalman import filtered_covariance, predicted_covariance

X, TRUTH = make_granger_plant(2, n_samples=1600, links=[(0, 1)], n_inputs=1, random_state=0)
U = TRUTH.inputs


@pytest.fixture(scope="module")
def fitted():
    known = {name: Y[:1000] for name, Y in X.items()}
    return FederatedCounterfactualEstimator().fit(known, inputs=[u[:1000] for u in U])


@pytest.mark.medium
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


@pytest.mark.medium
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


def test_a_filter_forgets_what_it_began_with_as_fast_as_its_closed_loop():
    A, J, Q = np.array([[0.95]]), np.array([[0.5]]), np.array([[0.02]])
    P = filtered_covariance(predicted_covariance(A, J, Q), J)
    share = abs(0.95 * (1 - P[0, 0] * 0.5))
    assert _memory(A, J, P) == np.ceil(np.log(0.01) / np.log(share))
    lags = np.diag(np.ones(6), -1)  # what happened seven rows ago, seen by nobody
    assert _memory(lags, np.zeros((7, 7)), np.eye(7)) == 7


def test_a_record_that_begins_far_off_has_the_bands_of_one_that_does_not(fitted):
    """What a forecast from the first rows misses says nothing of what later ones do."""
    part, inputs = {name: Y[1300:1440].copy() for name, Y in X.items()}, [u[1300:1440] for u in U]
    _, *calm = fitted.forecast(part, 130, inputs=inputs, confidence=0.9)
    for Y in part.values():
        Y[:3] += 30 * Y.std(axis=0)
    _, *far = fitted.forecast(part, 130, inputs=inputs, confidence=0.9)
    ratio = (far[1] - far[0]) / (calm[1] - calm[0])
    assert_allclose(ratio, 1, atol=0.1)  # at most 1 % of 30 standard deviations is left when misses begin to count


@pytest.mark.parametrize("start", [1, 2, 5])
def test_without_a_past_the_plant_speaks_for_itself(fitted, start):
    with pytest.warns(UserWarning, match=f"There are {start} rows before"):
        mean, std = fitted.forecast(X, start, inputs=U, return_std=True)
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert len(mean) == 1600 - start


@pytest.mark.medium
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


def calibrated_by_loops(own, missed, confidence):
    """Of one unit with a single state, row by row as the definition says: variances by number of rows ahead."""
    found = []
    for k in range(1, len(own) + 1):
        errors = missed[k - 1, k:, 0]
        variances = []
        for row in range(len(errors) + 1):
            weights = 0.5 ** (np.arange(row)[::-1] / 25)
            n_rows = weights.sum() ** 2 / max((weights**2).sum(), 1e-300)
            seen = n_rows * (weights @ errors[:row] ** 2) / max(weights.sum(), 1e-300)
            variances.append((seen + 2 * own[k - 1, 0, 0]) / (n_rows + 2))
        # the band at a row is that of the misses known k rows before
        known = np.array([variances[max(row - k + 1, 0)] for row in range(len(errors))])
        shares = (np.abs(errors) / np.sqrt(known))[-120:]
        worth = len(shares) / max(k / 3, 1)
        level = min(confidence * (1 + 1 / worth), 1 - (1 - confidence) / 5)
        factor = (np.quantile(shares, level) / stats.norm.ppf((1 + confidence) / 2)) ** (worth / (worth + 20))
        dof = max(worth, 3)
        widening = stats.t.ppf((1 + confidence) / 2, dof) / stats.norm.ppf((1 + confidence) / 2)
        found.append(variances[-1] * (factor * widening) ** 2)
    return found


def test_bands_come_from_misses_and_from_how_bands_before_have_held():
    rng = np.random.default_rng(0)
    missed = np.full((6, 300, 1), np.nan)
    for k in range(1, 7):
        missed[k - 1, k:, 0] = np.sqrt(k) * rng.standard_normal(300 - k) * np.repeat([1.0, 3.0], 150)[k:]
    own = np.arange(1.0, 7.0)[:, None, None]
    found = _calibrated(own, missed, 0.9)[:, 0, 0]
    assert_allclose(found, calibrated_by_loops(own, missed, 0.9), rtol=1e-9)


def test_bands_of_misses_with_rare_large_ones_hold_as_often_as_they_say():
    """The Gaussian band of their variance would be too wide: nine in ten misses are ten times smaller."""
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(200):
        errors = rng.standard_normal(400) * np.where(rng.random(400) < 0.05, 10.0, 1.0)
        missed = np.full((1, 300, 1), np.nan)
        missed[0, 1:, 0] = errors[1:300]
        half = stats.norm.ppf(0.95) * np.sqrt(_calibrated(np.ones((1, 1, 1)), missed, 0.9)[0, 0, 0])
        hits.append((np.abs(errors[300:]) <= half).mean())
    assert 0.86 < np.mean(hits) < 0.95


def test_too_few_rows_to_see_what_forecasts_miss_are_said(fitted):
    part, inputs = {name: Y[:130] for name, Y in X.items()}, [u[:130] for u in U]
    with pytest.warns(UserWarning, match=r"90 rows before `start`.*forecasts of 40 rows miss: from 31 rows ahead on"):
        fitted.forecast(part, 90, inputs=inputs, confidence=0.9)
    fitted.forecast(part, 98, inputs=inputs, confidence=0.9)  # 32 rows
    fitted.forecast(part, 90, inputs=inputs)  # a mean misses nothing that it claims
