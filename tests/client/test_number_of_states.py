"""How many states a unit finds: those that its past predicts, and those that sensors share in a row."""

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient
from skfedcausal.datasets import make_granger_plant


def _unit(n_samples, seed, n_sensors=6):
    """Two states, eigenvalues of the transition at most 0.7, loadings of any size, noise like the states'."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2, 2))
    A *= rng.uniform(0.4, 0.7) / np.abs(np.linalg.eigvals(A)).max()
    H, h = [], np.zeros(2)
    for _ in range(n_samples + 50):
        h = A @ h + rng.standard_normal(2)
        H.append(h)
    C = rng.standard_normal((n_sensors, 2))
    return np.array(H[50:]) @ C.T + rng.standard_normal((n_samples, n_sensors))


@pytest.mark.parametrize("seed", range(12))
def test_both_states_are_found_where_the_past_hardly_predicts_one(seed):
    assert KalmanClient().fit(_unit(2000, seed)).n_states_ == 2


@pytest.mark.parametrize(("n_sensors", "n_states"), [(8, 2), (4, 1), (12, 3)])
def test_no_more_states_than_there_are(n_sensors, n_states):
    plant = {"n_sensors": n_sensors, "n_states": n_states, "n_samples": 2000}
    for seed in range(5):
        X, _ = make_granger_plant(3, random_state=seed, **plant)
        assert {KalmanClient().fit(Y).n_states_ for Y in X.values()} == {n_states}


def test_a_state_that_only_the_input_of_another_unit_moves():
    rng, n = np.random.default_rng(0), 4000
    u, C = rng.standard_normal((n, 1)), rng.standard_normal((20, 3))
    A = np.diag([0.7, 0.8, 0.6, 0.03])
    A[1, 0] = 0.3
    B, noise = np.array([1, 0, 0, 0.8]), np.array([0.5, 0.5, 0.5, 0.05])
    H = np.zeros((n, 4))
    for t in range(1, n):
        H[t] = A @ H[t - 1] + B * u[t - 1] + noise * rng.standard_normal(4)
    own = rng.standard_normal((4, 1))
    X = {"a": H[:, :1] @ own.T, "b": H[:, 1:] @ C.T}
    X = {name: Y + 0.5 * rng.standard_normal(Y.shape) for name, Y in X.items()}
    plant = FederatedCounterfactualEstimator().fit(X, inputs=[u, None])
    assert plant.clients_["b"].n_states_ == 3
    found = plant.counterfactual("a", [0], [1.0], horizon=8)
    h, expected = np.zeros(4), []
    for _ in range(8):
        h = A @ h + B
        expected.append(C @ h[1:])
    error = found.filter(like="b__").to_numpy() - expected
    assert np.linalg.norm(error) < 0.06 * np.linalg.norm(expected)
