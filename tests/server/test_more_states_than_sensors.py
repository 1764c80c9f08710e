"""Units with more states than sensors: every server takes them, and nothing but words refuses."""

import numpy as np
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodServer,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant

X, TRUTH = make_granger_plant(2, links=[(0, 1)], n_samples=800, n_sensors=2, n_states=2, n_inputs=1, random_state=0)
X = {name: Y[:, :1] for name, Y in X.items()}
HIDDEN = KalmanClient(n_states=2)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.medium
@pytest.mark.parametrize("settings", [{}, {"sparsity": None}, {"covariance": "sandwich"}, {"fix_local": True}], ids=str)
def test_plants_of_hidden_states_are_learned_and_tested(settings):
    found = FederatedGrangerEstimator(HIDDEN, server=configured(LikelihoodServer, settings)).fit(X)
    assert np.isfinite(found.predict(X)).all()
    assert found.links_["p_value"].between(0, 1).all()
    assert found.test_links(X, "score")["p_value"].between(0, 1).all()


@pytest.mark.medium
def test_effects_of_inputs_on_hidden_states():
    found = FederatedCounterfactualEstimator(HIDDEN).fit(X, inputs=TRUTH.inputs)
    effect, std = found.counterfactual("unit0", 0.0, 1.0, horizon=4, return_std=True)
    assert np.isfinite(effect).all(axis=None)
    assert (std >= 0).all(axis=None)


def test_a_detector_asks_for_as_many_sensors():
    with pytest.raises(ValueError, match=r"n_states=2 for a unit with fewer sensors that vary, 1"):
        FederatedRCADetector(HIDDEN, false_alarm_rate=0.01).fit(X)
