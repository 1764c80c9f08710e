"""What a budget buys, before it is spent."""

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, GaussianMechanism, KalmanClient, PrivacyAccountant, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.privacy import UtilityWarning


def make_case(**settings):
    X, _ = make_granger_plant(3, link_strength=(0.3, 0.5), n_samples=2000, random_state=0)
    account = PrivacyAccountant(epsilon=0.5, delta=1e-6)
    mechanism = GaussianMechanism(
        **{
            "epsilon": 1.0,
            "delta": 1e-6,
            "clip_norm": 25.0,
            "event_radius": 3.0,
            "accountant": account,
            **settings,
        }
    )
    return FederatedGrangerEstimator(KalmanClient(n_states=2), privacy=mechanism), X, account


@pytest.mark.medium
def test_more_budget_buys_more_and_trying_costs_nothing():
    estimator, X, account = make_case()
    curve = inspection.privacy_curve(estimator, X, [30.0, 0.01, 6.0], random_state=0)
    assert list(curve["epsilon"]) == [0.01, 6.0, 30.0]
    assert len(account) == 0
    assert not hasattr(estimator, "server_")
    assert (np.diff(curve["noise_to_signal"]) < 0).all()
    assert list(curve["useful"]) == [False, True, True]
    assert curve.attrs["smallest_useful_epsilon"] == 6.0
    assert curve["links_kept"].iloc[-1] == 1.0
    assert curve["forecast_ratio"].iloc[-1] < 1.1
    assert curve.equals(inspection.privacy_curve(estimator, X, [0.01, 6.0, 30.0], random_state=0))


@pytest.mark.medium
def test_a_budget_that_buys_nothing_is_warned_of():
    estimator, X, _ = make_case(event_radius=None)
    with pytest.warns(UtilityWarning, match="No epsilon up to 0.1 leaves anything"):
        curve = inspection.privacy_curve(estimator, X, [0.05, 0.1], random_state=0)
    assert np.isnan(curve.attrs["smallest_useful_epsilon"])


@pytest.mark.parametrize("settings", [{"clip_norm": None}, {"delta": None}])
def test_a_curve_needs_a_mechanism_with_bounds(settings):
    estimator, X, _ = make_case(**settings)
    with pytest.raises(ValueError, match="with its delta, clip_norm and event_radius"):
        inspection.privacy_curve(estimator, X, [1.0])
    with pytest.raises(ValueError, match="with its delta, clip_norm and event_radius"):
        inspection.privacy_curve(estimator.set_params(privacy=None), X, [1.0])


@pytest.mark.parametrize("epsilons", [[], [1.0, 0.0], [-1.0]])
def test_epsilons_must_be_positive(epsilons):
    estimator, X, _ = make_case()
    with pytest.raises(ValueError, match=r"Got epsilons=\[.*; give (numbers that are all positive|a list of fin)"):
        inspection.privacy_curve(estimator, X, epsilons)
