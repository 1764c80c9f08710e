"""What adjusted p-values of links are about does not depend on how a plant is learned."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant

X, TRUTH = make_granger_plant(4, n_states=1, n_sensors=3, n_samples=600, random_state=0)
MANY, OF_MANY = make_granger_plant(34, n_states=1, n_sensors=2, n_samples=200, random_state=0)


def fitted(record, truth, **settings):
    clients = [KalmanClient(C=C) for C in truth.observation]
    return FederatedGrangerEstimator(clients, server=configured(LikelihoodServer, settings)).fit(record)


def test_it_says_what_it_is_about():
    found = {how: fitted(X, TRUTH, correction=how) for how in ("auto", "family-wise", "fdr")}
    assert [each.server_.correction_ for each in found.values()] == ["family-wise", "family-wise", "fdr"]
    assert found["auto"].links_.equals(found["family-wise"].links_)
    links = found["fdr"].links_
    np.testing.assert_allclose(links["p_adjusted"], false_discovery_control(links["p_value"]))
    assert ((links["p_adjusted"] <= 0.05) >= (links["verdict"] == "influence")).all()


@pytest.mark.medium
@pytest.mark.parametrize("covariance", ["information", "sandwich"])  # in blocks, and as a whole
def test_of_many_units_it_is_the_false_discovery_rate_however_they_are_learned(covariance):
    estimator = fitted(MANY, OF_MANY, covariance=covariance, level_shifts=None)
    assert estimator.server_.correction_ == "fdr"
    links = estimator.links_
    np.testing.assert_allclose(links["p_adjusted"], false_discovery_control(links["p_value"]), rtol=1e-6)


@pytest.mark.medium
def test_of_many_units_the_family_wise_rate_can_be_asked_for():
    strict = fitted(MANY, OF_MANY, level_shifts=None, correction="family-wise")
    links = strict.links_.sort_values("p_value")
    first = links.iloc[0]
    assert first["p_adjusted"] == pytest.approx(min(first["p_value"] * len(links), 1.0), rel=1e-6)
