"""What a message leaves of a unit's measurements: regression on the unit's own past, against brute force."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skfedcausal import FederatedGrangerEstimator, KalmanClient
from skfedcausal.client.moments import _OWN_RIDGE, OwnPast
from skfedcausal.client.unit_model import expected_measurements
from skfedcausal.datasets import make_granger_plant
from skfedcausal.statespace.episodes import episodes


def _with_valve(n_samples=1200, seed=0):
    """A unit of five sensors: noisy ones, and two that follow the row before of the first nearly exactly."""
    rng = np.random.default_rng(seed)
    X, _ = make_granger_plant(2, n_states=1, n_sensors=3, n_samples=n_samples, random_state=seed)
    Y = X["unit0"]
    early = np.vstack([Y[:1], Y[:-1]])
    valves = early[:, :1] * [0.7, -0.4] + 0.01 * rng.standard_normal((n_samples, 2))
    return np.hstack([Y, valves]), X["unit1"]


@pytest.mark.parametrize("lengths", [(40,), (13, 1, 2, 3, 21), (4, 36)])
def test_sums_over_rows_with_a_past_are_exact(lengths):
    rng = np.random.default_rng(0)
    x, starts = rng.standard_normal((40, 3)), tuple(np.cumsum([0, *lengths[:-1]]))
    found = OwnPast.of(x, 3, starts, (None, None, None))
    rows = [t for a, b in episodes(starts, 40) for t in range(a + 2, b)]
    stacked = np.hstack([x[rows], x[np.array(rows) - 1], x[np.array(rows) - 2]])
    np.testing.assert_allclose(found.products, stacked.T @ stacked, atol=1e-12)
    assert found.n_rows == len(rows)


def test_it_is_the_least_squares_regression_on_states_and_past():
    Y, _ = _with_valve()
    model = KalmanClient().fit(Y).model
    found = model.residual_model
    x = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    p = found.n_lags
    assert p >= 1
    rows = np.arange(2, len(x))
    known = np.hstack([x[rows] @ found.to_states.T, *(x[rows - lag] for lag in range(1, p + 1))])
    target = x[rows] @ found.complement.T
    ridge = np.sqrt(_OWN_RIDGE * (known**2).sum(axis=0))
    rows_of_ridge = np.zeros((len(ridge), target.shape[1]))
    expected, *_ = np.linalg.lstsq(np.vstack([known, np.diag(ridge)]), np.vstack([target, rows_of_ridge]), rcond=None)
    np.testing.assert_allclose(found.coefficients, expected.T, atol=1e-7)
    errors = target - known @ expected
    np.testing.assert_allclose(found.noise, errors.T @ errors / len(rows), atol=1e-7)


def test_the_constant_makes_a_density_of_all_measurements():
    """p(y | h) of a message and its constant is p(s | h) p(r | s, past) with the Jacobian of y -> (s, r)."""
    Y, _ = _with_valve(300)
    client = KalmanClient().fit(Y)
    model = client.model
    found, h = model.residual_model, np.full(model.n_states, 0.3)
    message = client.message(Y, const=True)
    J = message.patterns[0]
    density = message.const + message.z @ h - 0.5 * h @ J @ h
    x = (Y - model.mean) / Y.std(axis=0)
    s, r = x @ found.to_states.T, x @ found.complement.T
    jacobian = np.vstack([found.to_states, found.complement]) / Y.std(axis=0)
    past = [x[2 - lag : len(x) - lag] for lag in range(1, found.n_lags + 1)]
    mean = np.hstack([s[2:], *past]) @ found.coefficients.T
    expected = multivariate_normal(h, np.linalg.inv(J)).logpdf(s[2:])
    expected += multivariate_normal(np.zeros(len(found.noise)), found.noise).logpdf(r[2:] - mean)
    expected += np.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(density[2:], expected, rtol=1e-8)


def test_rows_without_all_of_their_past_keep_the_factor_model():
    Y, _ = _with_valve(300)
    client = KalmanClient().fit(Y)
    lags = client.model.residual_model.n_lags
    gaps = Y.copy()
    gaps[100, 3] = np.nan
    factor = client.model.information(gaps, with_const=True).const
    found = client.message(gaps, const=True, lengths=[150, 150]).const
    kept = [*range(lags), *range(100, 101 + lags), *range(150, 150 + lags)]
    assert np.flatnonzero(found == factor).tolist() == kept


@pytest.mark.medium
def test_sensors_with_a_memory_of_their_own_are_predicted_by_it():
    rng, n = np.random.default_rng(1), 3000
    X, _ = make_granger_plant(2, n_states=1, n_sensors=4, n_samples=n, random_state=0)
    drift = np.zeros(n)
    for t in range(1, n):
        drift[t] = 0.95 * drift[t - 1] + rng.standard_normal()
    X["unit0"][:, 3] = 0.2 * X["unit0"][:, 0] + drift
    estimator = FederatedGrangerEstimator(KalmanClient(n_states=1)).fit({k: v[:2000] for k, v in X.items()})
    later = {k: v[2000:] for k, v in X.items()}
    for model in ("augmented", "client"):
        predicted = np.asarray(estimator.predict(later, model=model))
        error = (predicted[:, :4] - later["unit0"])[5:]
        assert error[:, 3].std() < 0.5 * drift.std()
    again = np.asarray(estimator.predict({k: v[:100] for k, v in later.items()}, model=model))
    np.testing.assert_allclose(again, predicted[:100], atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_independent_sensor_noise_is_left_as_it_is(seed):
    X, _ = make_granger_plant(3, n_samples=2000, random_state=seed)
    for Y in X.values():
        assert KalmanClient().fit(Y).model.residual_model is None


def test_given_matrices_are_used_as_they_are():
    Y, _ = _with_valve(400)
    fitted = KalmanClient(n_states=1).fit(Y)
    given = KalmanClient(C=fitted.observation_, R=fitted.measurement_cov_).fit(Y)
    assert given.model.residual_model is None


def test_inputs_of_the_unit_are_part_of_its_past():
    rng = np.random.default_rng(3)
    u, Y = rng.standard_normal((900, 1)), rng.standard_normal((900, 3)) * [1, 1, 0.01]
    for t in range(1, 900):
        Y[t, 0] += 0.9 * Y[t - 1, 0]
    Y[:, 1] = Y[:, 0] + 0.3 * Y[:, 1]
    Y[1:, 2] += u[:-1, 0]
    client = KalmanClient(n_states=1).fit(Y, inputs=u)
    expected = expected_measurements(client, client.model.predict(Y, u), Y, u)
    assert np.std(expected[5:, 2] - Y[5:, 2]) == pytest.approx(0.01, rel=0.2)
