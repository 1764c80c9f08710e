"""Further rounds: where units ask for them, what they gain, and where there are none."""

import numpy as np
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    GaussianMechanism,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.client.moments import OwnPast, bic_penalty
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.fitting import Fit

ONE = LikelihoodServer(options=LikelihoodOptions(n_rounds=1))


def few_sensors(n_samples=1500, seed=0):
    """Two units of few sensors, whose loadings a look at the unit alone finds with errors."""
    X, _ = make_granger_plant(
        2, n_states=2, n_sensors=4, n_samples=n_samples, links=[("unit0", "unit1")], random_state=seed
    )
    return X


def narrow(n_rounds):
    server = LikelihoodServer(options=LikelihoodOptions(n_rounds=n_rounds))
    return FederatedGrangerEstimator(KalmanClient(n_states=2), server=server)


def test_rounds_raise_the_density_of_the_record_and_of_another():
    X, other = few_sensors(), few_sensors(seed=0, n_samples=3000)
    other = {name: Y[1500:] for name, Y in other.items()}
    one, auto = narrow(1).fit(X), narrow("auto").fit(X)
    assert one.server_.n_rounds_ == 1 < auto.server_.n_rounds_ <= 30
    assert auto.communication_["rounds"] == auto.server_.n_rounds_
    assert auto.score(X) > one.score(X)
    assert auto.score(other) > one.score(other)


@pytest.mark.medium
def test_they_end_at_the_maximum_of_as_many_full_rounds():
    """Full fits in every round climb the same likelihood."""
    X = few_sensors()
    auto = narrow("auto").fit(X)
    full = narrow(auto.server_.n_rounds_).fit(X)
    # what a round may leave, and what a search of links in every round finds elsewhere
    assert auto.score(X) == pytest.approx(full.score(X), abs=20 / 1500)


@pytest.mark.medium
def test_pooled_and_federated_rounds_agree():
    X = few_sensors()
    estimator = narrow("auto").fit(X)
    oracle = inspection.oracle(estimator, X)
    assert oracle.server_.n_rounds_ == estimator.server_.n_rounds_ > 1
    scale = np.abs(estimator.transition_).max()
    np.testing.assert_allclose(oracle.transition_, estimator.transition_, atol=1e-8 * scale)


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(4))
def test_units_with_adequate_models_take_one_round_with_the_same_result(seed):
    X, _ = make_granger_plant(4, n_samples=1500, links=[(0, 1), (1, 3)], random_state=seed)
    auto, one = FederatedGrangerEstimator().fit(X), FederatedGrangerEstimator(server=ONE).fit(X)
    assert auto.server_.n_rounds_ == 1
    np.testing.assert_array_equal(auto.transition_, one.transition_)
    np.testing.assert_array_equal(auto.links_["p_value"], one.links_["p_value"])
    assert auto.communication_["bytes_up"] == one.communication_["bytes_up"]


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::skfedcausal.privacy.WeakPrivacyWarning")
@pytest.mark.filterwarnings("ignore::skfedcausal.privacy.UtilityWarning")
def test_given_matrices_gaps_inputs_and_privacy_leave_it_at_one_round():
    X = few_sensors()
    C = {name: np.linalg.qr(np.random.default_rng(0).standard_normal((4, 2)))[0] for name in X}
    given = {name: KalmanClient(C=C[name]) for name in X}
    assert FederatedGrangerEstimator(given).fit(X).server_.n_rounds_ == 1
    gaps = {name: Y.copy() for name, Y in X.items()}
    for Y in gaps.values():
        Y[::50, 0] = np.nan
    assert narrow("auto").fit(gaps).server_.n_rounds_ == 1
    u = {"unit0": np.random.default_rng(1).standard_normal((1500, 1))}
    driven = FederatedCounterfactualEstimator(KalmanClient(n_states=2)).fit(X, inputs=u)
    assert driven.server_.n_rounds_ == 1
    private = narrow("auto").set_params(
        privacy=GaussianMechanism(mu=20.0, delta=1e-6, clip_norm=25.0, event_radius=3.0)
    )
    assert private.fit(X).server_.n_rounds_ == 1


def test_evidence_is_the_likelihood_of_least_squares_less_its_penalty():
    rng = np.random.default_rng(0)
    Y = np.cumsum(rng.standard_normal((300, 2)), axis=0) * 0.1 + rng.standard_normal((300, 2))
    scale = np.array([2.0, 0.5])
    x = Y / scale
    own = OwnPast.of(x, 2, (0,), (scale, np.ones(0), None))
    expected = []
    for n_lags in (1, 2):
        past, now = np.hstack([Y[2 - k : 300 - k] for k in range(1, n_lags + 1)]), Y[2:]
        errors = now - past @ np.linalg.lstsq(past, now, rcond=None)[0]
        S = errors.T @ errors / 298
        value = -0.5 * (2 * (np.log(2 * np.pi) + 1) + np.linalg.slogdet(S)[1])
        expected.append(value - bic_penalty(4 * n_lags + 3, 298))
    assert own.evidence() == pytest.approx(max(expected), rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_rounds_share_the_work_that_a_fit_may_take(monkeypatch):
    budgets, learn = [], Fit.learn
    monkeypatch.setattr(Fit, "learn", lambda fit: (budgets.append(fit.budget), fit.budget.spend(6e9), learn(fit))[-1])
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    FederatedGrangerEstimator(server=LikelihoodServer(max_time=9.0, options=LikelihoodOptions(n_rounds=3))).fit(X)
    assert [budget.max_time for budget in budgets] == pytest.approx([3.0, 3.0, 9.0], rel=0.02)
    assert all(budget.is_spent for budget in budgets)  # six billion operations are three seconds


def upset(n_rows, size, seed, units="AB"):
    """Units without links, all of which are far from their level for some rows."""
    rng = np.random.default_rng(seed)
    x = np.zeros((1500, len(units)))
    for t in range(1, len(x)):
        for k in range(len(units)):
            x[t, k] = 0.7 * x[t - 1, k] + rng.normal()
    gains = [rng.uniform(0.5, 1.5, 3) for _ in units]
    X = {u: x[:, [k]] * gains[k] + 0.5 * rng.normal(size=(len(x), 3)) for k, u in enumerate(units)}
    for Y in X.values():
        Y[700 : 700 + n_rows] += size
    return X


@pytest.mark.medium
def test_a_round_whose_states_have_no_covariance_is_the_last_one(monkeypatch):
    """Of a plant at the border of stability, whose smoother ends at -1e19 by some processors' products."""
    monkeypatch.setattr("skfedcausal.server.rounds.are_covariances", lambda covariances: False)
    with pytest.warns(UserWarning, match="has no covariance"):
        estimator = FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds="auto"))).fit(
            upset(60, 30, 102)
        )
    assert estimator.server_.n_rounds_ <= 2
    assert estimator.links_["p_value"].between(0, 1).all()
    assert not (estimator.links_["verdict"] == "influence").any()


@pytest.mark.parametrize("n_rounds", ["auto", 2])
def test_what_a_round_may_take_and_knows_ends_with_it(n_rounds):
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    server = (
        FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=n_rounds))).fit(X).server_
    )
    assert "_how" not in vars(server)
