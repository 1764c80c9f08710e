"""Covariances by the sandwich: the information's under Gaussian noise, right where that is not."""

from types import SimpleNamespace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation import covariance as module
from skfedcausal.server.estimation.covariance import (
    Sandwich,
    ScoreProducts,
    _hotelling,
    _summed,
    effective_rows,
    lags_of,
)
from skfedcausal.statespace.matrices import Partition
from skfedcausal.statespace.timedomain import Contributions

from .._reference import structure_of


def messages_of(X, loadings=None):
    loadings = [None] * len(X) if loadings is None else loadings
    return {name: KalmanClient(C=C).fit(Y).message(Y) for (name, Y), C in zip(X.items(), loadings, strict=True)}


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("sparsity", ["fdr", None])
def test_gaussian_noise_makes_it_agree_with_the_information(missing, sparsity):
    """The relative error of a variance from T products of normal numbers is about ``sqrt(4 / T)``."""
    n_samples = 3000
    X, _ = make_granger_plant(
        3, n_samples=n_samples, links=[(0, 1)], missing=missing, n_states=[2, 1, 2], random_state=0
    )
    messages = messages_of(X)
    fits = {
        c: LikelihoodServer(covariance=c, options=LikelihoodOptions(sparsity=sparsity)).fit(messages)
        for c in ("information", "sandwich")
    }
    usual, robust = (fits[c].links_ for c in ("information", "sandwich"))
    np.testing.assert_array_equal(usual["norm"], robust["norm"])
    np.testing.assert_array_equal(fits["information"].transition_, fits["sandwich"].transition_)
    np.testing.assert_allclose(robust["stderr"], usual["stderr"], rtol=4 * np.sqrt(4 / n_samples))
    assert fits["sandwich"].link_intervals()["high"].gt(robust["norm"]).all()


def measured_var(rng, n_samples):
    """A vector autoregression seen without noise, its noise of a size that swings; one number per unit."""
    size = np.exp(np.sin(2 * np.pi * np.arange(n_samples) / 100))[:, None]
    noise, h = size * rng.normal(size=(n_samples, 3)), np.zeros((n_samples, 3))
    A = np.array([[0.5, 0.06, 0.0], [0.0, 0.3, 0.0], [0.05, 0.0, -0.4]])
    for t in range(1, n_samples):
        h[t] = A @ h[t - 1] + noise[t]
    return h - h.mean(axis=0)


@pytest.mark.parametrize("covariance", ["sandwich", "hac"])
def test_of_a_measured_var_it_is_that_of_least_squares(covariance, monkeypatch):
    """Against the heteroscedasticity-consistent covariances of statsmodels, which suppose large samples."""
    levels = []

    def hotelling(rows, dof, level):
        levels.append(level)
        return np.ones(len(rows))

    monkeypatch.setattr(module, "_hotelling", hotelling)
    h = measured_var(np.random.default_rng(0), 4000)
    unit = {"C": np.eye(1), "R": 1e-8 * np.eye(1), "Q": np.eye(1)}
    messages = {
        f"unit{k}": KalmanClient(A=np.zeros((1, 1)), **unit).fit(h[:, [k]]).message(h[:, [k]]) for k in range(3)
    }
    server = LikelihoodServer(covariance=covariance, options=LikelihoodOptions(sparsity=None)).fit(messages)
    links = server.links_.set_index(["cause", "effect"])
    settings = {"cov_type": "HC0"}
    if covariance == "hac":
        settings = {"cov_type": "HAC", "cov_kwds": {"maxlags": lags_of("hac", 4000)}}
    for effect in range(3):
        fit = sm.OLS(h[1:, effect], h[:-1]).fit(**settings)
        for cause in set(range(3)) - {effect}:
            link = links.loc[(f"unit{cause}", f"unit{effect}")]
            scale = h[:, cause].std() / h[:, effect].std()
            # ends of the record, and noise whose variance is an estimate in one and 1e-8 off in the other
            assert link["stderr"] == pytest.approx(fit.bse[cause] * scale, rel=0.01)
    np.testing.assert_allclose(levels, 0.05 / 6)  # of every pair, 0.05 of all


@pytest.mark.medium
def test_blocks_in_and_outside_the_model_have_the_same_covariance_in_large_records():
    """Score and Wald estimates of an empty pair differ by terms of higher order."""
    h = measured_var(np.random.default_rng(1), 8000)
    unit = {"C": np.eye(1), "R": 0.1 * np.eye(1), "Q": np.eye(1)}
    Y = h + np.sqrt(0.1) * np.random.default_rng(2).normal(size=h.shape)
    messages = {
        f"unit{k}": KalmanClient(A=np.zeros((1, 1)), **unit).fit(Y[:, [k]]).message(Y[:, [k]]) for k in range(3)
    }
    score = LikelihoodServer(covariance="sandwich").fit(messages).links_
    wald = LikelihoodServer(covariance="sandwich", options=LikelihoodOptions(sparsity=None)).fit(messages).links_
    np.testing.assert_allclose(score["stderr"], wald["stderr"], rtol=0.03)
    usual = LikelihoodServer(options=LikelihoodOptions(sparsity=None)).fit(messages).links_
    assert (wald["stderr"] > 1.15 * usual["stderr"]).any()  # the variance that swings matters here


def test_moving_sums_give_bartletts_weights():
    rng = np.random.default_rng(0)
    n_lags, g = 3, rng.normal(size=(20, 2, 2))
    pieces = [slice(0, 7), slice(7, 9), slice(9, 20)]
    parts = [Contributions(rows, g[rows], g[rows]) for rows in pieces]
    sums = np.concatenate([grad_A for grad_A, _ in _summed(parts, n_lags)]).reshape(-1, 4)
    flat = g.reshape(-1, 4)
    expected = flat.T @ flat
    for lag in range(1, n_lags + 1):
        late = flat[lag:].T @ flat[:-lag]
        expected += (1 - lag / (n_lags + 1)) * (late + late.T)
    np.testing.assert_allclose(sums.T @ sums, expected)


@pytest.mark.medium
def test_links_of_inputs_and_standard_errors_of_answers_follow():
    X, truth = make_granger_plant(2, n_samples=2000, n_inputs=1, links=[(0, 1)], input_links=[(0, 1)], random_state=0)
    found = {}
    for covariance in ("information", "sandwich"):
        est = FederatedCounterfactualEstimator(server=LikelihoodServer(covariance=covariance))
        est.fit(X, inputs=truth.inputs)
        _, std = est.counterfactual(0, 0.0, 1.0, horizon=3, return_std=True)
        found[covariance] = est.links_["stderr"].to_numpy(), std.to_numpy()
    for usual, robust in zip(found["information"], found["sandwich"], strict=True):
        assert not np.array_equal(usual, robust)
        np.testing.assert_allclose(robust, usual, rtol=0.25)  # a sandwich of 2000 rows, standard errors of sums


@pytest.mark.medium
def test_wald_and_score_tests_take_the_covariance_into_account_and_the_ratio_refuses():
    X, _ = make_granger_plant(2, n_samples=1000, links=[(0, 1)], random_state=0)
    messages = messages_of(X)
    server = LikelihoodServer(covariance="sandwich").fit(messages)
    links = server.links_["statistic"]
    wald, score = (server.test_links(messages, method) for method in ("wald", "score"))
    inside = wald["in_model"]
    np.testing.assert_allclose(wald["statistic"][inside], links[inside], rtol=1e-4)
    np.testing.assert_allclose(score["statistic"][~inside], links[~inside], rtol=1e-4)
    with pytest.raises(ValueError, match="method='lr' with covariance='sandwich'"):
        server.test_links(messages)


def test_effective_rows_of_normal_vectors_are_their_number():
    rng, n_rows, d = np.random.default_rng(0), 20_000, 4
    squared = (rng.normal(size=(n_rows, d)) ** 2).sum(axis=1)
    bursts = np.where(np.arange(n_rows) % 10 == 0, 1.0, 0.0) * squared  # every tenth row is all there is
    sizes = np.array([[q.sum(), (q**2).sum()] for q in (squared, 7 * squared, bursts)])
    rows = effective_rows(sizes, np.full(3, d))
    np.testing.assert_allclose(rows, [n_rows, n_rows, n_rows / 10], rtol=0.05)
    np.testing.assert_allclose(effective_rows(sizes, np.full(3, d), n_lags=5), rows / 4)


def test_inflated_covariances_reject_as_hotelling_does():
    """Mean over normal vectors against its estimated covariance: the nominal share at the level asked for."""
    rng, n_rows, d, level = np.random.default_rng(1), 30, 3, 0.05
    x = rng.normal(size=(20_000, n_rows, d))
    mean, middle = x.sum(axis=1), np.einsum("kti,ktj->kij", x, x)
    statistic = np.einsum("ki,kij,kj->k", mean, np.linalg.inv(middle), mean)
    statistic /= 1 - statistic / n_rows  # vectors that are not those of the mean, as in other records
    statistic *= (n_rows - 1) / n_rows
    factor = _hotelling(np.array([n_rows - 1]), np.array([d]), level)
    share = np.mean(statistic / factor > stats.chi2.isf(level, d))
    assert share == pytest.approx(level, abs=4 * np.sqrt(level / len(x)))


@pytest.mark.parametrize("n_lags", [None, 2])
def test_products_of_gradients_are_those_of_time_steps_or_of_sums_over_neighbouring_ones(n_lags):
    """Of free elements with themselves, of all elements of A with these, and of the elements of each pair."""
    rng, partition = np.random.default_rng(0), Partition((2, 1))
    structure = structure_of(partition, linked=[(0, 1)])
    grad_A, grad_Q = rng.standard_normal((2, 30, 3, 3))
    grad_Q = grad_Q + np.swapaxes(grad_Q, 1, 2)
    pieces = [Contributions(rows, grad_A[rows], grad_Q[rows]) for rows in (slice(0, 17), slice(17, 30))]
    metric = np.array([np.diag([1.0, 2.0, 3.0, 4.0])] * 2)
    blocks = {"state": SimpleNamespace(covariance=metric)}
    given = {} if n_lags is None else {"n_lags": n_lags}
    found = ScoreProducts(structure, pieces, blocks, weighed=True, **given)
    if n_lags:
        padding = np.zeros((n_lags, 3, 3))
        grad_A, grad_Q = (np.concatenate([padding, x, padding]) for x in (grad_A, grad_Q))
        grad_A, grad_Q = (sum(x[k : len(x) - n_lags + k] for k in range(n_lags + 1)) for x in (grad_A, grad_Q))
        grad_A, grad_Q = (x / np.sqrt(n_lags + 1) for x in (grad_A, grad_Q))
    gradients = np.array([structure.free.gradient(a, q) for a, q in zip(grad_A, grad_Q, strict=True)])
    flat = np.hstack([grad_A.reshape(len(grad_A), 9), np.zeros((len(grad_A), 1))])
    np.testing.assert_allclose(found.inside, gradients.T @ gradients)
    np.testing.assert_allclose(found.mixed, flat.T @ gradients, atol=1e-12)
    for pair, elements in enumerate(partition.pair_elements):
        own = flat[:, elements]
        np.testing.assert_allclose(found.own["state"][pair], own.T @ own, atol=1e-12)
        squared = own**2 @ np.array([1.0, 2.0, 3.0, 4.0])
        np.testing.assert_allclose(found.sizes["state"][pair], [squared.sum(), (squared**2).sum()])
    assert not ScoreProducts(structure, pieces, blocks, **given).sizes["state"].any()


def test_a_sandwich_takes_time_steps_as_uncorrelated_unless_told():
    contributions = [Contributions(slice(0, 9), *np.random.default_rng(0).standard_normal((2, 9, 3, 3)))]
    structure, solved = structure_of(Partition((2, 1))), SimpleNamespace(n_samples=9, solved=lambda x: x)
    scoring = SimpleNamespace(structure=structure, **vars(solved))
    alone, together = (Sandwich(scoring, contributions, {}, *n_lags).covariance() for n_lags in ((), (1,)))
    inside = ScoreProducts(structure, contributions, {}).inside
    np.testing.assert_allclose(alone, inside / 81)
    assert np.abs(together - alone).max() > 1e-3
