"""Extended Kalman filter: gradients checked numerically, linear maps give the ordinary filter."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor

from skfedcausal import ExtendedKalmanClient, FederatedRCADetector, KalmanClient, MomentServer
from skfedcausal.client.extended_kalman import NonlinearClient, fitted_map
from skfedcausal.client.monitor import NonlinearMonitor
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.statespace.kalman import covariance_schedule, filtered_states


def test_jacobian_of_a_network_is_its_derivative():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    network = MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=500, tol=0.1, random_state=0).fit(
        X, np.sin(X) @ rng.standard_normal((3, 2))
    )
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
    expected = filtered_states(schedule, Y @ np.linalg.solve(R, C))
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


def true_model(plant, name, f_jacobian=None):
    f, h = plant.f[name], plant.h[name]
    return ExtendedKalmanClient(
        lambda x: f.value(x[None])[0],
        lambda x: h.value(x[None])[0],
        f_jacobian=(lambda x: f.jacobian(x[None])[0]) if f_jacobian is None else f_jacobian,
        h_jacobian=lambda x: h.jacobian(x[None])[0],
        Q=0.01 * np.eye(2),
        R=np.eye(4),
    )


def test_filter_with_the_true_maps_knows_how_good_it_is():
    """Mean squared errors against the filter's own variances; the unit is driven by nobody."""
    plant = make_nonlinear_plant(
        n_samples=1200, size=0, dynamics="lstm", process_noise=0.02, sensor_noise=0.2, random_state=0
    )
    client = true_model(plant, "unit0").set_params(Q=0.02**2 * np.eye(2), R=0.2**2 * np.eye(4))
    Y = plant.data["unit0"]
    prior, prior_cov, posterior, posterior_cov = client.fit(Y).filter_moments(Y)
    for states, covariances in ((prior, prior_cov), (posterior, posterior_cov)):
        error = (states - plant.states[:, 0])[20:]
        normed = np.einsum("ti,tij,tj->t", error, np.linalg.inv(covariances[20:]), error)
        assert_allclose(normed.mean(), 2.0, rtol=0.15)  # two states; about 3 standard errors


def test_jacobian_by_differences_gives_the_same_filter():
    plant = make_nonlinear_plant(n_samples=60, size=0, dynamics="lstm", random_state=0)
    Y = plant.data["unit0"]
    given = true_model(plant, "unit0").fit(Y).filter_moments(Y)
    differences = true_model(plant, "unit0").set_params(f_jacobian=None, h_jacobian=None).fit(Y)
    for a, b in zip(given, differences.filter_moments(Y), strict=True):
        assert_allclose(a, b, atol=1e-7)


def test_wrong_jacobian_is_refused():
    plant = make_nonlinear_plant(n_samples=60, size=0, dynamics="lstm", random_state=0)
    client = true_model(plant, "unit0", f_jacobian=lambda x: plant.f["unit0"].jacobian(x[None])[0].T)
    with pytest.raises(ValueError, match="`f_jacobian` is not the derivative of `f`"):
        client.fit(plant.data["unit0"])


def test_regressor_without_derivative_is_refused():
    Y = make_nonlinear_plant(n_samples=200, size=0, random_state=0).data["unit0"]
    with pytest.raises(TypeError, match="KNeighborsRegressor"):
        ExtendedKalmanClient(KNeighborsRegressor()).fit(Y)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning")
def test_few_rows_make_small_networks_and_too_few_are_refused():
    Y = np.random.default_rng(0).standard_normal((30, 3))
    with pytest.warns(UserWarning, match="Only 29 pairs .* networks get 14 tanh units in place of 32"):
        assert len(ExtendedKalmanClient(random_state=0).fit(Y).transform(Y)) == 30
    Y[::2] = np.nan
    with pytest.raises(ValueError, match=r"Only 0 pairs of successive rows .* Give more nominal rows"):
        ExtendedKalmanClient().fit(Y)


@pytest.mark.medium
def test_constant_and_missing_columns_take_no_part():
    Y = make_nonlinear_plant(n_samples=400, size=0, random_state=0).data["unit0"]
    wide = np.column_stack([Y, np.full(400, 7.0)])
    with pytest.warns(UserWarning, match="constant"):
        client = ExtendedKalmanClient(random_state=0).fit(wide)
    states = client.filter_moments(wide)[2]
    wide[:, 4] += 5.0
    assert_allclose(client.filter_moments(wide)[2], states)
    assert_allclose(client.h_map_.value(states)[:, 4], 7.0, atol=0.2)


@pytest.mark.medium
def test_units_fit_it_at_home_and_the_detector_keeps_one_information_matrix():
    nominal = make_nonlinear_plant(n_samples=600, size=0, random_state=0).data
    detector = FederatedRCADetector(ExtendedKalmanClient(random_state=0), false_alarm_rate=0.01).fit(nominal)
    unit = detector._units["unit0"]["monitor"]
    message, _ = unit.message(nominal["unit0"], (0,))
    assert message.index is None
    assert message.off_subspace.shape == (600,)
    gap = nominal["unit0"].copy()
    gap[100, 1] = gap[200:203] = np.nan
    message, _ = unit.message(gap, (0,))
    assert set(np.flatnonzero(message.index)) == {100, 200, 201, 202}
    again = pickle.loads(pickle.dumps(detector))
    assert again.incidents(nominal).equals(detector.incidents(nominal))


@pytest.mark.parametrize("size", [1, 7, 60])
def test_stream_in_pieces_tells_what_the_whole_tells(size):
    plant = make_nonlinear_plant(n_samples=300, size=0, random_state=0)
    Y = plant.data["unit0"][:120].copy()
    Y[50:53, 1] = np.nan
    nominal = plant.data["unit0"]
    client = NonlinearClient(ExtendedKalmanClient(random_state=0)).fit(nominal)
    unit = NonlinearMonitor.learn(client, nominal, (0,))
    whole, _ = unit.message(Y, (0,))
    pieces, stands = [], None
    for first in range(0, 120, size):
        message, stands = unit.message(Y[first : first + size], (0,), stands)
        pieces.append(message)
    for series in ("z", "off_subspace"):
        joined = np.concatenate([getattr(message, series) for message in pieces])
        assert_allclose(joined, getattr(whole, series), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_detector_takes_it_as_the_model_of_a_unit():
    nominal = make_nonlinear_plant(n_samples=2000, size=0, random_state=0).data
    clients = {name: ExtendedKalmanClient(random_state=0).fit(Y) for name, Y in nominal.items()}
    detector = FederatedRCADetector(clients, server=MomentServer(), false_alarm_rate=0.002).fit(nominal)
    faulty = make_nonlinear_plant(n_samples=150, roots=[1], size=3.0, random_state=1)
    assert detector.attribute(faulty.data, start=100, end=110).client[0] == "unit1"


@pytest.mark.parametrize("missing", [False, True])
def test_with_linear_maps_it_answers_as_the_kalman_filter_does(missing):
    rng = np.random.default_rng(0)
    A, C = np.array([[0.8, 0.2], [-0.1, 0.7]]), rng.standard_normal((3, 2))
    Q, R = np.diag([0.5, 0.3]), np.diag([0.2, 0.4, 0.6])
    Y = rng.standard_normal((80, 3))
    if missing:
        Y[10:15], Y[30:40, 1] = np.nan, np.nan
    client = ExtendedKalmanClient(lambda x: A @ x, lambda x: C @ x, Q=Q, R=R).fit(Y)
    exact = KalmanClient(A=A, C=C, Q=Q, R=R)
    for method in ("transform", "predict", "score_samples"):
        found, expected = (getattr(c, method)(Y, lengths=[50, 30]) for c in (client, exact))
        settled = np.r_[25:50, 75:80]  # the two start from different beliefs
        assert_allclose(found[settled], expected[settled], atol=1e-6)
    assert client.fit_transform(Y).shape == (80, 2)
    assert np.isfinite(client.score(Y))
    with pytest.raises(ValueError, match="expecting 3 features"):
        client.transform(Y[:, :2])
