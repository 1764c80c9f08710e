"""What a user was promised, in the words of the promise: client arrays in pipelines and searches, and questions."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline

from skfedcausal import (
    ClientArrays,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    UnitScaler,
)
from skfedcausal.datasets import make_granger_plant, make_nonlinear_plant

pytestmark = pytest.mark.medium


def test_client_arrays_with_inputs_in_a_pipeline_in_a_grid_search_over_time():
    X, truth = make_granger_plant(3, links=[(0, 1)], n_inputs=1, n_samples=900, random_state=0)
    client_arrays = ClientArrays(X)
    grid = {
        "federatedcounterfactualestimator__client__n_states": [1, 2],
        "federatedcounterfactualestimator__server__alpha": [0.1],
    }
    with sklearn.config_context(enable_metadata_routing=True):
        model = FederatedCounterfactualEstimator().set_fit_request(inputs=True).set_score_request(inputs=True)
        est = GridSearchCV(make_pipeline(UnitScaler(), model), grid, cv=TimeSeriesSplit(2))
        est.fit(client_arrays, inputs=truth.inputs)
        assert np.isfinite(est.score(client_arrays, inputs=truth.inputs))
    assert np.isfinite(est.cv_results_["mean_test_score"]).all()
    found = est.best_estimator_[-1]
    assert found.client_names_ == tuple(X)
    assert found.input_names_ == tuple(f"{name}__u0" for name in X)


@pytest.mark.parametrize("container", [ClientArrays, list, dict])
def test_fit_of_client_arrays(container):
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    client_arrays = container(X.values() if container is list else X)
    est = FederatedGrangerEstimator()
    assert est.fit(client_arrays) is est
    links = est.links_.query("verdict == 'influence'")
    assert [(cause[-1], effect[-1]) for cause, effect in zip(links.cause, links.effect, strict=True)] == [("0", "2")]


def test_counterfactual_of_a_unit_and_two_inputs():
    X, truth = make_granger_plant(2, links=[(0, 1)], n_inputs=1, input_links=[(0, 1)], n_samples=800, random_state=0)
    est = FederatedCounterfactualEstimator().fit(ClientArrays(X), inputs=ClientArrays(list(truth.inputs)))
    n, u0, u1 = 0, 0.0, 1.0
    effect = est.counterfactual(n, u0, u1)
    assert effect.shape[-1] == sum(Y.shape[1] for Y in X.values())
    assert np.abs(np.asarray(effect)).max() > 0


def test_root_causes_of_a_stream():
    nominal = make_nonlinear_plant(n_samples=3000, size=0, random_state=1).data
    faulty = make_nonlinear_plant(n_samples=600, size=2.0, random_state=3).data
    detector = FederatedRCADetector().fit(ClientArrays(nominal))
    whole = detector.predict_root_cause(ClientArrays(faulty))
    stream = ({name: Y[i : i + 50] for name, Y in faulty.items()} for i in range(0, 600, 50))
    roots = np.empty(600, dtype=object)
    for rows, found in detector.predict_root_cause(stream):
        roots[rows] = found
    np.testing.assert_array_equal(roots, whole)
    np.testing.assert_array_equal(whole, detector.predict_root_cause(faulty))
