"""Units with more states than sensors: identified at home in observer form."""

import numpy as np
import pytest

from skfedcausal import Baseline, FederatedCounterfactualEstimator, KalmanClient


def _second_order(n_samples, seed, n_sensors=1):
    """x behind one more state that the input drives; sensors of x, or of it and something of first order."""
    rng = np.random.default_rng(seed)
    A = np.array([[0.8, 0, 0], [0.2, 0.75, 0], [0, 0, 0.6]])
    B, u, H = np.array([0.5, 0, 0.2]), rng.standard_normal((n_samples, 1)), np.zeros((n_samples, 3))
    for t in range(1, n_samples):
        H[t] = A @ H[t - 1] + B * u[t - 1] + 0.1 * rng.standard_normal(3)
    Y = H[:, 1 : 1 + n_sensors] + 0.05 * rng.standard_normal((n_samples, n_sensors))
    truth = {"A": A[: n_sensors + 1, : n_sensors + 1], "B": B[: n_sensors + 1, None]}
    truth |= {"C": np.eye(n_sensors, n_sensors + 1, k=1), "Q": 0.01 * np.eye(n_sensors + 1)}
    return Y, u, KalmanClient(R=np.full(n_sensors, 0.0025), baseline=Baseline(center=False), **truth)


@pytest.mark.parametrize("n_sensors", [1, 2])
def test_a_second_order_unit_is_more_than_half_way_to_the_true_model(n_sensors):
    Y, u, truth = _second_order(6000, 0, n_sensors)
    known, later = slice(0, 4000), slice(4000, None)
    best = truth.fit(Y[known], inputs=u[known]).score(Y[later], inputs=u[later])
    client = KalmanClient(n_states=n_sensors + 1).fit(Y[known], inputs=u[known])
    assert client.observation_.shape == (n_sensors, n_sensors + 1)
    first = KalmanClient(n_states=n_sensors).fit(Y[known], inputs=u[known])
    found, short = (one.score(Y[later], inputs=u[later]) for one in (client, first))
    assert best - found < 0.5 * (best - short)


def test_the_order_shows_in_the_response_to_the_input():
    Y, u, truth = _second_order(4000, 1)
    client, h, g = KalmanClient(n_states=2).fit(Y, inputs=u), np.zeros(2), np.zeros(2)
    true = truth.fit(Y, inputs=u)
    for step in range(8):
        h = client.transition_ @ h + client.input_[:, 0] * (step == 0)
        g = true.transition_ @ g + true.input_[:, 0] * (step == 0)
        assert (client.observation_ @ h).item() == pytest.approx((true.observation_ @ g).item(), abs=0.03)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:The plant does not explain all:UserWarning")
@pytest.mark.parametrize("seed", range(3))
def test_with_them_or_with_several_lags_a_plant_knows_what_inputs_do(seed):
    Y, u, _ = _second_order(3000, seed)
    A, h, expected = np.array([[0.8, 0], [0.2, 0.75]]), np.zeros(2), []
    for _ in range(15):
        h = A @ h + [0.5, 0]
        expected.append(h[1])
    errors = []
    for client in (KalmanClient(n_states=2), KalmanClient(n_states=1)):
        plant = FederatedCounterfactualEstimator(client).fit({"a": Y}, inputs=[u])
        found = plant.counterfactual("a", [0], [1.0], horizon=15).to_numpy()[:, 0]
        errors.append(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    assert errors[0] < 0.15
    assert errors[1] < 0.03


def test_more_lags_than_identification_looks_at_are_refused():
    Y, u, _ = _second_order(300, 3)
    with pytest.raises(ValueError, match=r"n_states=6 .*Use at most 5: 5 lags of each"):
        KalmanClient(n_states=6).fit(Y, inputs=u)


@pytest.mark.parametrize(("n_sensors", "n_states"), [(2, 3), (2, 5), (3, 10), (1, 5)])
def test_any_number_of_states_up_to_that(n_sensors, n_states):
    rng = np.random.default_rng(4)
    Y = np.zeros((800, n_sensors))
    for t in range(2, 800):
        Y[t] = 1.2 * Y[t - 1] - 0.5 * Y[t - 2] + rng.standard_normal(n_sensors)
    client = KalmanClient(n_states=n_states).fit(Y)
    assert client.transition_.shape == (n_states, n_states)
    gaps = Y.copy()
    gaps[rng.random(Y.shape) < 0.1] = np.nan
    assert np.isfinite(KalmanClient(n_states=n_states).fit(gaps).score(gaps))
    assert client.score(Y) > KalmanClient(n_states=n_sensors).fit(Y).score(Y)
