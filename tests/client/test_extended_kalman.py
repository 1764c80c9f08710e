"""Extended Kalman filter: gradients checked numerically, linear maps give the ordinary filter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.neural_network import MLPRegressor

from skfedcausal import ExtendedKalmanClient, FederatedRCADetector, MomentServer
from skfedcausal.client.maps import fitted_map
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.statespace.filter import covariance_schedule, filtered_states


def test_jacobian_of_a_network_is_its_derivative():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    network = MLPRegressor(
        hidden_layer_sizes=(8,), activation="tanh", max_iter=500, tol=0.1, random_state=0
    ).fit(X, np.sin(X) @ rng.standard_normal((3, 2)))
    found, step = fitted_map(network), 1e-6
    steps = step * np.eye(3)
    numeric = (found.value(X[0] + steps) - found.value(X[0] - steps)) / (2 * step)
    assert_allclose(found.jacobian(X[:1])[0], numeric.T, atol=1e-8)
    assert_allclose(found.value(X), network.predict(X), rtol=1e-10)


def test_linear_maps_give_the_kalman_filter():
    rng = np.random.default_rng(1)
    A, C = np.array([[0.8, 0.2], [-0.1, 0.6]]), rng.standard_normal((3, 2))
    Q, R = 0.3 * np.eye(2), np.diag([0.5, 1.0, 0.7])
    Y = rng.standard_normal((40, 3))
    client = ExtendedKalmanClient(
        lambda x: A @ x, lambda x: C @ x, f_jacobian=lambda x: A, h_jacobian=lambda x: C, Q=Q, R=R
    ).fit(Y)
    J = C.T @ np.linalg.solve(R, C)
    schedule = covariance_schedule(A, Q, J, P0=10 * Q + np.eye(2))
    expected = filtered_states(schedule, (Y @ np.linalg.solve(R, C), None))
    prior, _, posterior, posterior_cov = client.filter_moments(Y)
    assert_allclose(posterior, expected, rtol=1e-9, atol=1e-12)
    assert_allclose(prior[1:], expected[:-1] @ A.T, rtol=1e-9, atol=1e-12)
    assert_allclose(posterior_cov[-1], schedule.filtered[-1], rtol=1e-9)


def test_missing_measurements_leave_the_prediction():
    Y = make_nonlinear_plant(n_samples=500, size=0, random_state=0).data["unit0"]
    client = ExtendedKalmanClient(random_state=0).fit(Y)
    gap = Y.copy()
    gap[300:305] = np.nan
    prior, prior_cov, posterior, posterior_cov = client.filter_moments(gap)
    assert_allclose(posterior[300:305], prior[300:305])
    assert_allclose(posterior_cov[302], prior_cov[302])


def test_half_given_models_are_refused():
    with pytest.raises(ValueError, match="without"):
        ExtendedKalmanClient(f=lambda x: x).fit(np.zeros((5, 2)))


@pytest.mark.slow
def test_detector_takes_it_as_the_model_of_a_unit():
    nominal = make_nonlinear_plant(n_samples=2000, size=0, random_state=0).data
    clients = {name: ExtendedKalmanClient(random_state=0).fit(Y) for name, Y in nominal.items()}
    detector = FederatedRCADetector(clients, server=MomentServer(), false_alarm_rate=0.002).fit(nominal)
    faulty = make_nonlinear_plant(n_samples=150, roots=[1], size=3.0, random_state=1)
    assert detector.attribute(faulty.data, start=100, end=110).client[0] == "unit1"
