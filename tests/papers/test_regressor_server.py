"""Any scikit-learn regressor as the model of the whole plant."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfedcausal import FederatedRCADetector, RegressorServer
from skfedcausal.datasets import make_granger_plant, make_nonlinear_plant

REGRESSORS = {
    "ridge": Ridge(),
    "nearest neighbours": KNeighborsRegressor(20),
    "pipeline, one output": make_pipeline(StandardScaler(), BayesianRidge()),
    "forest": RandomForestRegressor(5, min_samples_leaf=5),
    "boosting, one output": HistGradientBoostingRegressor(max_iter=30),
}
SLOW = ("forest", "boosting, one output")


@pytest.fixture(scope="module")
def records():
    nominal = make_nonlinear_plant(n_samples=1500, size=0, random_state=1).data
    return nominal, make_nonlinear_plant(n_samples=500, size=4.0, random_state=2)


@pytest.mark.medium
@pytest.mark.parametrize("name", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in REGRESSORS])
def test_faults_are_found_and_named(records, name):
    """Four faults at units drawn anew, as large as twice the radius of the cycle."""
    nominal, plant = records
    server = RegressorServer(REGRESSORS[name])
    detector = FederatedRCADetector(server=server, false_alarm_rate=1 / 500, random_state=0).fit(nominal)
    for first, stop, unit in plant.faults:
        assert detector.attribute(plant.data, start=first, end=stop).client[0] == unit


@pytest.mark.medium
def test_same_seed_same_thresholds(records):
    nominal, _ = records
    fits = [
        FederatedRCADetector(
            server=RegressorServer(REGRESSORS["forest"]), false_alarm_rate=1 / 500, random_state=seed
        ).fit(nominal)
        for seed in (3, 3, 4)
    ]
    assert fits[0].thresholds_ == fits[1].thresholds_
    assert fits[0].thresholds_ != fits[2].thresholds_
    assert np.isfinite(list(fits[0].thresholds_.values())).all()


def test_a_perceptron_is_one_network_for_all_states():
    """Equation 5 has one f_s with shared layers, not a network for every state."""
    f_s = MLPRegressor(hidden_layer_sizes=(7,), max_iter=2, random_state=0)
    assert isinstance(RegressorServer(f_s).regressor, MLPRegressor)
    assert isinstance(RegressorServer(make_pipeline(StandardScaler(), f_s)).regressor[-1], MLPRegressor)
    X, _ = make_granger_plant(3, n_samples=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = RegressorServer(f_s, labels="augmented", n_epochs=1)
        detector = FederatedRCADetector(server=server, false_alarm_rate=0.05).fit(X)
    network, n_states = detector.server_.network_.model, len(detector.transition_)
    assert [w.shape for w in network.coefs_] == [(n_states, 7), (7, n_states)]
