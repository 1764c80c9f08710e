"""Likelihood ratio, Wald and score tests of links agree, and keep their size."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter
from statsmodels.stats.multitest import multipletests

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.links.questions import screen
from skfedcausal.server.links.tables import METHODS

pytestmark = pytest.mark.medium


def server_for(n_samples, seed, links=(), sparsity=None, **settings):
    X, _ = make_granger_plant(2, n_samples=n_samples, links=links, random_state=seed, **settings)
    messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
    server = LikelihoodServer(options=LikelihoodOptions(sparsity=sparsity)).fit(messages)
    return server, partial(server.test_links, messages)


def test_wald_inside_and_score_outside_are_the_statistics_of_the_links_table():
    server, tests = server_for(2000, 0, links=[(0, 1)], sparsity="fdr")
    table = tests("wald")
    assert table["in_model"].tolist() == [False, True] or table["in_model"].tolist() == [True, False]
    links, inside = server.links_["statistic"], table["in_model"]
    np.testing.assert_allclose(table["statistic"][inside], links[inside], rtol=1e-6)
    np.testing.assert_allclose(tests("score")["statistic"][~inside], links[~inside], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sparsity", ["fdr", None])
def test_the_three_tests_agree_in_large_samples(sparsity):
    """Statistics of empty pairs differ by terms of order ``T**-1/2``."""
    apart = {}
    for n_samples in (400, 6400):
        distance = []
        for seed in range(4):
            _, tests = server_for(n_samples, seed, sparsity=sparsity)
            found = [tests(method)["statistic"].to_numpy() for method in METHODS]
            distance.append(np.ptp(found, axis=0))
        apart[n_samples] = np.mean(distance)
    assert apart[6400] < apart[400] / 2
    assert apart[6400] < 0.2


def test_likelihood_ratio_of_a_measured_var_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    n_samples, A = 4000, np.array([[0.5, 0.06, 0.0], [0.0, 0.3, 0.0], [0.05, 0.0, -0.4]])
    h = np.zeros((n_samples, 3))
    for t in range(1, n_samples):
        h[t] = A @ h[t - 1] + rng.normal(size=3)
    unit = {"C": np.eye(1), "Q": np.eye(1), "R": 1e-8 * np.eye(1)}
    clients = [KalmanClient(A=A[[k]][:, [k]], **unit) for k in range(3)]
    X = {f"unit{k}": h[:, [k]] for k in range(3)}
    est = FederatedGrangerEstimator(
        client=clients, server=LikelihoodServer(options=LikelihoodOptions(sparsity=None))
    ).fit(X)
    table = est.test_links(X, "lr")
    centred = h - h.mean(axis=0)
    past, now = centred[:-1], centred[1:]

    def residual(effect, causes):
        coefficients = np.linalg.lstsq(past[:, causes], now[:, effect], rcond=None)[0]
        return np.sum((now[:, effect] - past[:, causes] @ coefficients) ** 2)

    for row in table.itertuples():
        cause, effect = int(row.cause[-1]), int(row.effect[-1])
        without = [k for k in range(3) if k != cause]
        expected = n_samples * np.log(residual(effect, without) / residual(effect, [0, 1, 2]))
        # a row more or less at the ends changes a statistic by its root over the root of the rows
        assert row.statistic == pytest.approx(expected, abs=4 * np.sqrt(max(expected, 1) / n_samples))


def test_adjusted_p_values_are_those_of_holm_and_of_benjamini_and_hochberg():
    table = server_for(1000, 0, sparsity="fdr")[1]("score")
    np.testing.assert_allclose(table["p_value"], stats.chi2.sf(table["statistic"], table["dof"]))
    for column, method in (("p_holm", "holm"), ("p_fdr", "fdr_bh")):
        np.testing.assert_allclose(table[column], multipletests(table["p_value"], method=method)[1])


def test_an_unknown_test_is_refused():
    with pytest.raises(ValueError, match="'lr', 'wald' or 'score'"):
        server_for(200, 0)[1]("t")


@pytest.mark.slow
def test_size_of_the_likelihood_ratio_without_coupling():
    p_values = []
    for seed in range(100):
        server, tests = server_for(2000, seed)
        # where the test of misfit errs, at its level, there are several lags to test
        p_values.extend(tests("lr" if len(server.lag_transitions_) == 1 else "score")["p_value"])
    rejected = np.mean(np.array(p_values) < 0.05)
    assert abs(rejected - 0.05) < 3 * np.sqrt(0.05 * 0.95 / len(p_values))


def heavy_tailed(rng, n_samples):
    return rng.standard_t(4, size=(n_samples, 2)) / np.sqrt(2)


def heavy_tailed_together(rng, n_samples):
    return rng.normal(size=(n_samples, 2)) / np.sqrt(rng.chisquare(4, size=(n_samples, 1)) / 2)


def swinging_apart(rng, n_samples):
    """Standard deviations that swing by a factor of four, each unit's in its own phase."""
    phase = np.arange(n_samples)[:, None] / 40 + rng.uniform(0, 2 * np.pi, size=2)
    return rng.normal(size=(n_samples, 2)) * np.exp(0.7 * np.sin(phase))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [heavy_tailed, heavy_tailed_together, swinging_apart])
def test_size_without_coupling_under_noise_that_is_not_normal(noise):
    rng = np.random.default_rng(0)
    n_samples, p_values = 1000, []
    for _ in range(200):
        drive = noise(rng, n_samples)
        h = np.column_stack([lfilter([1.0], [1.0, -a], drive[:, k]) for k, a in enumerate((0.7, 0.5))])
        messages = {}
        for k in range(2):
            Y = h[:, [k]] * [1.0, -0.5, 0.8] + 0.5 * rng.normal(size=(n_samples, 3))
            messages[f"unit{k}"] = KalmanClient(n_states=1).fit(Y).message(Y)
        server = LikelihoodServer(options=LikelihoodOptions(level_shifts=None))
        p_values.extend(screen(server, messages)["p_value"])
    rejected = np.mean(np.array(p_values) < 0.05)
    assert abs(rejected - 0.05) < 3 * np.sqrt(0.05 * 0.95 / len(p_values))
