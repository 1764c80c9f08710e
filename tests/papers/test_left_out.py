"""Links by any regressor: what it loses on stretches left out without the past of a cause."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.dummy import DummyRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector, RegressorServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.inspection import link_effects
from skfedcausal.papers.server.regressor import left_out

KERNEL = KernelRidge(alpha=1.0, kernel="rbf", gamma=0.1)


def squared_plant(seed, n_samples=1000, sizes=(0.9, 0.0)):
    """Three units of one state: the first acts on the third by its square, or by its product with the second."""
    rng = np.random.default_rng(seed)
    h, news = np.zeros((n_samples + 100, 3)), rng.standard_normal((n_samples + 100, 3))
    for t in range(1, len(h)):
        a, b, _ = np.clip(h[t - 1], -2.5, 2.5)
        h[t] = 0.5 * h[t - 1] + news[t]
        h[t, 2] += sizes[0] * (a**2 - 1.3) / 1.6 + sizes[1] * a * b
    C = rng.standard_normal((3, 4))
    return {f"u{m}": np.outer(h[100:, m], C[m]) + 0.1 * rng.standard_normal((n_samples, 4)) for m in range(3)}


def links(X, estimator):
    table = FederatedGrangerEstimator(server=RegressorServer(estimator, random_state=0)).fit(X).links_
    return table.set_index(["cause", "effect"])


def test_a_kernel_tells_of_a_square_that_a_line_does_not():
    X = squared_plant(0)
    curved, straight = links(X, KERNEL), links(X, Ridge())
    assert curved.loc[("u0", "u2"), "verdict"] == "influence"
    assert (curved.drop(("u0", "u2"))["verdict"] == "cannot tell").all()
    assert curved["norm"].idxmax() == ("u0", "u2")
    assert straight.loc[("u0", "u2"), "verdict"] == "cannot tell"
    assert not straight["verdict"].isin(["no influence", "negligible"]).any()


def test_a_product_is_told_of_both_of_its_causes():
    found = links(squared_plant(1, sizes=(0.0, 0.6)), KERNEL)
    assert (found.loc[[("u0", "u2"), ("u1", "u2")], "verdict"] == "influence").all()
    assert (found.loc[[("u2", "u0"), ("u2", "u1")], "verdict"] == "cannot tell").all()


@pytest.mark.medium
@pytest.mark.parametrize("estimator", [Ridge(), make_pipeline(StandardScaler(), BayesianRidge())], ids=["all", "one"])
def test_units_without_links_are_called_linked_no_more_often_than_asked(estimator):
    """Thirty records of white news: 180 pairs and not one told, where five in a hundred records may tell one."""
    rng, told = np.random.default_rng(3), 0
    for _ in range(30 if isinstance(estimator, Ridge) else 3):
        series = rng.standard_normal((600, 3))
        for t in range(1, 600):
            series[t] += 0.6 * series[t - 1]
        X = {f"u{m}": series[:, [m]] @ np.ones((1, 2)) + 0.2 * rng.standard_normal((600, 2)) for m in range(3)}
        told += (links(X, estimator)["p_adjusted"] <= 0.05).any()
    assert told <= 3


def test_the_jacobian_of_a_line_is_its_coefficients():
    series = np.random.default_rng(0).standard_normal((800, 3))
    series[1:, 2] += 2 * series[:-1, 0]
    found = left_out(series, [slice(0, 1), slice(1, 3)], (0,), Ridge(1e-6))
    slope = found.jacobian.mean(axis=0)[0, 2, 0]  # one lag, of standardised states
    assert slope == pytest.approx(2 * series[:, 0].std() / series[:, 2].std(), rel=0.05)
    assert_allclose(found.squares, found.jacobian**2, rtol=1e-8)
    assert found.gains.shape == (2, 2, 20)
    assert found.gains[1, 0].min() > 1


def test_a_regressor_that_looks_at_nothing_loses_nothing():
    series = np.random.default_rng(0).standard_normal((800, 2))
    found = left_out(series, [slice(0, 1), slice(1, 2)], (0,), DummyRegressor())
    assert_allclose(found.gains, 0.0, atol=1e-12)
    assert_allclose(found.jacobian, 0.0)


def test_what_units_share_in_the_same_row_makes_no_influence():
    """A driver of both with a memory: the later gain is no larger than what they have in common in a row."""
    rng = np.random.default_rng(4)
    driver = np.zeros(1500)
    for t in range(1, 1500):
        driver[t] = 0.6 * driver[t - 1] + rng.standard_normal()
    X = {f"u{m}": np.outer(driver + 0.5 * rng.standard_normal(1500), np.ones(2)) for m in range(2)}
    X = {name: Y + 0.1 * rng.standard_normal(Y.shape) for name, Y in X.items()}
    assert (links(X, Ridge())["verdict"] != "influence").all()


def test_short_records_and_training_together_answer_no_links():
    X, _ = make_granger_plant(2, n_states=1, n_samples=150, random_state=0)
    table = links(X, Ridge())
    assert (table["verdict"] == "cannot tell").all()
    assert table["because"].str.contains("too few rows").all()
    with pytest.raises(ValueError, match="FederatedGrangerEstimator needs a LikelihoodServer"):
        FederatedGrangerEstimator(server=RegressorServer(labels="augmented")).fit(X)


def test_links_go_along_with_a_copy_and_rows_do_not():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], link_strength=0.3, n_samples=1000, random_state=0)
    est = FederatedGrangerEstimator(server=RegressorServer(Ridge())).fit(X)
    copy = pickle.loads(pickle.dumps(est))
    assert copy.links_.equals(est.links_)
    assert link_effects(copy)[["cause", "effect"]].to_numpy().tolist() == [["unit0", "unit2"]]
    detector = FederatedRCADetector(server=RegressorServer(Ridge()), false_alarm_rate=0.05).fit(X)
    server = pickle.loads(pickle.dumps(detector.server_))
    with pytest.raises(AttributeError, match="Nothing is known of links"):
        _ = server.links_
