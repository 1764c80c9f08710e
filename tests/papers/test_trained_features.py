"""Other functions of the measurements in gradient training (Appendix A.2 of the first paper)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

from skfedcausal import (
    Baseline,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    GradientServer,
    KalmanClient,
    LinearAugmenter,
    RegressorAugmenter,
    papers,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.papers import TrainingMechanism

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SQUARES = PolynomialFeatures(2)


def plant(n_inputs=0):
    given = {"n_inputs": n_inputs} if n_inputs else {}
    X, truth = make_granger_plant(2, n_states=2, n_sensors=3, n_samples=400, random_state=0, **given)
    clients = [KalmanClient(baseline=Baseline(center=False), **model) for model in truth.clients().values()]
    return X, clients, list(truth.inputs) if n_inputs else None


def fit(augmenter, **settings):
    X, clients, _ = plant()
    return FederatedGrangerEstimator(clients, augmenter=augmenter, server=configured(GradientServer, settings)).fit(
        X
    ), X


@pytest.mark.medium
@pytest.mark.parametrize(
    "settings",
    [
        {"exchange": "moments", "max_iter": 30},
        {"exchange": "series", "max_iter": 30},
        {"solve": "stationary"},
        {"update": "online", "max_iter": 1},
    ],
)
def test_measurements_as_their_own_features_are_the_papers_correction(settings):
    plain, X = fit(None, **settings)
    same, _ = fit(LinearAugmenter(features=FunctionTransformer()), **settings)
    assert_array_equal(same.transition_, plain.transition_)
    assert_array_equal(same.predict(X), plain.predict(X))
    assert_array_equal(papers.losses(same, X).client, papers.losses(plain, X).client)


@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_training_with_squares_equals_a_loop_of_ones_own(exchange):
    """Equations 17, 21 and 22 with ``psi(y)`` in the place of y."""
    rates = {"eta1": 1e-4, "eta2": 1e-4, "gamma": 1e-3, "max_iter": 20, "tol": 0.0}
    fitted, X = fit(LinearAugmenter(features=SQUARES), exchange=exchange, **rates)
    names, n = list(X), len(X["unit0"]) - 1
    H = {name: fitted.clients_[name].filter(X[name])[:-1] for name in names}
    for name, other in (names, names[::-1]):
        model, psi = fitted.clients_[name].model, SQUARES.fit_transform(X[name])[:-1]
        theta, W = np.zeros((2, psi.shape[1])), np.zeros((2, 2))
        own, now = H[name] @ model.A.T, X[name][1:]
        for _ in range(20):
            e = psi @ theta.T @ model.A.T
            rest, gap = now - (own + e) @ model.C.T, H[other] @ W.T - e
            client = -2 / n * model.A.T @ model.C.T @ rest.T @ psi
            server = -2 / n * model.A.T @ gap.T @ psi
            theta, W = theta - 1e-4 * client - 1e-4 * server, W - 1e-3 * 2 / n * gap.T @ H[other]
        rows, columns = fitted.state_slices_[name], fitted.state_slices_[other]
        assert_allclose(fitted.augmenters_[name].theta_, theta, rtol=1e-9, atol=1e-13)
        assert_allclose(fitted.transition_[rows, columns], W, rtol=1e-9, atol=1e-13)
    predicted = fitted.predict(X)[1:, :3]
    model, psi = fitted.clients_["unit0"].model, SQUARES.fit_transform(X["unit0"])[:-1]
    corrected = H["unit0"] + psi @ fitted.augmenters_["unit0"].theta_.T
    assert_allclose(predicted, corrected @ model.A.T @ model.C.T, atol=1e-9)


def test_features_are_used_with_inputs_and_in_the_training_problem():
    X, clients, U = plant(n_inputs=1)
    server = GradientServer(solve="stationary", xi=1.0)
    augmenter = LinearAugmenter(features=PolynomialFeatures(2, include_bias=False))
    fitted = FederatedCounterfactualEstimator(clients, augmenter=augmenter, server=server).fit(X, inputs=U)
    assert fitted.augmenters_["unit0"].theta_.shape == (2, 9)
    problem, _ = papers.training_problems(fitted, X, inputs=U)["unit0"]
    assert (problem.n_outputs, problem.n_local) == (9, 10)


def test_least_squares_on_features_finds_a_square():
    Y = np.random.default_rng(0).standard_normal((500, 2)) + 1.0
    target = np.zeros((500, 1))
    target[1:, 0] = 0.5 * Y[:-1, 0] ** 2
    fitted = LinearAugmenter(alpha=0.0, features=SQUARES).fit(Y, target)
    assert_allclose(fitted.predict(Y)[1:], target[1:], atol=1e-8)
    level = np.array([1.0, 1.0])
    centred = LinearAugmenter(alpha=0.0, features=SQUARES).fit(Y - level, target)
    assert_allclose(centred.predict(Y - level)[1:], target[1:], atol=1e-8)


def test_what_cannot_be_trained_so_is_refused():
    with pytest.raises(TypeError, match=r"LinearAugmenter\(features=...\) for another function"):
        fit(RegressorAugmenter(MLPRegressor()))
    with pytest.raises(ValueError, match="gave shape"):
        fit(LinearAugmenter(features=FunctionTransformer(lambda Y: Y[1:])))
    X, clients, _ = plant()
    noise = TrainingMechanism(epsilon=1.0, delta=1e-5, clip_norm=9.0, protocol="paper")
    estimator = FederatedGrangerEstimator(
        clients, augmenter=LinearAugmenter(features=SQUARES), server=GradientServer(), privacy=noise
    )
    with pytest.raises(ValueError, match="moves the correction theta y, and no other"):
        estimator.fit(X)
    assert len(noise.account.table) == 0
