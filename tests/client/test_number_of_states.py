"""How many states a unit finds: those that its past predicts, and those that sensors share in a row."""

import numpy as np
import pytest
from scipy.special import chdtrc

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient
from skfedcausal.client import kalman
from skfedcausal.client.kalman import _near_past, _predicted_states
from skfedcausal.client.moments import Moments
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


def _link_free(n_samples, seed, **options):
    plant = {"links": (), "measurement_noise": 8**0.5, "n_samples": n_samples, "random_state": seed}
    return make_granger_plant(40, **{**plant, **options})[0].values()


def test_states_that_neither_the_long_past_nor_a_row_shows_for_sure():
    # the long past and what sensors share, each by itself, miss 19 of the first 40 and 2 of the others
    missed = [KalmanClient().fit(Y).n_states_ != 2 for Y in _link_free(600, 0)]
    assert sum(missed) < 10
    missed = [KalmanClient().fit(Y).n_states_ != 2 for Y in _link_free(2000, 1)]
    assert sum(missed) < 2


@pytest.mark.parametrize(("n_states", "n_sensors"), [(1, 8), (1, 4), (2, 6)])
def test_what_tells_of_a_further_state_is_as_its_law_says(n_states, n_sensors):
    found = []
    for seed in range(6):
        for Y in _link_free(2000, seed, n_states=n_states, n_sensors=n_sensors, measurement_noise=1.0):
            moments = Moments(Y, None, (0,))
            if _predicted_states(moments, n_sensors) == n_states:
                statistic, freedom, _ = _near_past(moments, n_states)
                found.append(chdtrc(freedom, statistic))
    found = np.array(found)
    assert len(found) > 200
    for level in (0.5, 0.1, 0.05):
        assert abs(np.mean(found < level) - level) < 4 * np.sqrt(level * (1 - level) / len(found))


def test_rare_large_noise_that_sensors_share_is_no_state():
    rng, n, more = np.random.default_rng(3), 3000, 0
    for _ in range(40):
        h, w, a = np.zeros(n), rng.standard_t(5, n), rng.uniform(0.3, 0.9)
        for t in range(1, n):
            h[t] = a * h[t - 1] + w[t]
        size = np.sqrt(5 / rng.chisquare(5, (n, 1)))  # one for all sensors of a row
        Y = h[:, None] * rng.standard_normal(8) + 2 * size * rng.standard_normal((n, 8))
        more += KalmanClient().fit(Y).n_states_ > 1
    assert more <= 5


def test_a_record_that_no_number_of_states_explains_keeps_its_first(monkeypatch):
    Y = next(iter(_link_free(600, 5)))
    monkeypatch.setattr(kalman, "_lacks_a_state", lambda moments, order: True)
    kept = KalmanClient().fit(Y).n_states_
    monkeypatch.setattr(kalman, "_with_faint_states", lambda *about: None)
    assert KalmanClient().fit(Y).n_states_ == kept
