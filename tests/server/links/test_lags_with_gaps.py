"""Plants of several lags from records with gaps: the exact likelihood of an augmented plant."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from skfedcausal import FederatedGrangerEstimator, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.estimate import Settings
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.links.lags import fit_lags, without_shifts
from skfedcausal.statespace.matrices import companion
from skfedcausal.statespace.timedomain import TimeDomainLikelihood
from skfedcausal.statespace.whittle import WhittleLikelihood

from .test_lags import GOAL, delayed, messages_of

A = np.array([[0.4, 0.1, 0.2, 0.0], [0.3, 0.3, -0.1, 0.2]])
Q = np.array([[1.0, 0.2], [0.2, 0.7]])


def gappy_series(rng, T):
    """Scores of two states in noise of unit variance, some missing, with their information."""
    present = rng.random((T, 2)) > 0.3
    s = np.where(present, rng.normal(size=(T, 2)), 0.0)
    return s, present, np.array([np.diag(row.astype(float)) for row in present])


def dense_log_density(A, Q, s, present, starts):
    """Of the scores less their likeliest level in each episode, from their joint covariance."""
    A, T = companion(A, 2), len(s)
    total = 0.0
    for start, stop in zip(starts, [*starts[1:], T], strict=True):
        length = stop - start
        lagged = solve_discrete_lyapunov(A, block_diag(Q, np.zeros((2, 2))))
        full = np.empty((length, 2, length, 2))
        for lag in range(length):
            for t in range(length - lag):
                full[t + lag, :, t], full[t, :, t + lag] = lagged[:2, :2], lagged[:2, :2].T
            lagged = A @ lagged
        seen = present[start:stop].ravel()
        covariance = full.reshape(2 * length, -1)[np.ix_(seen, seen)] + np.eye(seen.sum())
        level = np.tile(np.eye(2), (length, 1))[seen]
        y = s[start:stop].ravel()[seen]
        weighed = np.linalg.solve(covariance, level)
        y = y - level @ np.linalg.solve(level.T @ weighed, weighed.T @ y)
        total += multivariate_normal(cov=covariance).logpdf(y)
    return total


def test_likelihood_and_gradient_are_those_of_the_joint_gaussian():
    rng, starts = np.random.default_rng(0), (0, 14)
    s, present, J = gappy_series(rng, 25)
    likelihood = TimeDomainLikelihood(s, lambda rows: J[rows], [(1.0, np.eye(2))], starts, 12, n_lags=2)
    at, other = likelihood.evaluate(A, Q), likelihood.evaluate(0.5 * A, 2 * Q)
    difference = dense_log_density(A, Q, s, present, starts) - dense_log_density(0.5 * A, 2 * Q, s, present, starts)
    assert 25 * (at.value - other.value) == pytest.approx(difference, abs=1e-9)

    def value(x):
        a, q = x[:8].reshape(2, 4), np.array([[x[8], x[9]], [x[9], x[10]]])
        return dense_log_density(a, q, s, present, starts)

    numeric = approx_fprime(np.concatenate([A.ravel(), [1.0, 0.2, 0.7]]), value, 1e-6)
    found = 25 * np.concatenate([at.grad_A.ravel(), at.grad_Q[[0, 0, 1], [0, 1, 1]] * [1, 2, 1]])
    np.testing.assert_allclose(found, numeric, atol=1e-4)


def test_information_of_a_constant_record_is_that_of_its_scores():
    X, clients, _ = delayed(300, 2, seed=0)
    record = JointRecord.from_messages(messages_of(X, clients))
    fit = fit_lags(record, 2, Settings(**GOAL))
    point, whittle = fit.scoring.point, fit.likelihood
    assert isinstance(whittle, WhittleLikelihood)
    J = np.linalg.inv(fit.plant.score_noise)
    exact = TimeDomainLikelihood(
        record.z, record.matrices, [(1.0, J)], (0,), whittle.n_covariances, n_lags=2
    ).information(point.A, point.Q)
    expected = whittle.information(point.A, point.Q)
    np.testing.assert_allclose(exact.U, expected.U, atol=1e-9)
    np.testing.assert_allclose(exact.H, expected.H, atol=1e-9)


@pytest.mark.parametrize("sparsity", ["fdr", None])
def test_one_lag_gives_the_plant_and_the_links_of_the_fit(sparsity):
    X, _ = make_granger_plant(2, n_samples=400, n_states=[2, 1], links=[(0, 1)], missing=0.1, random_state=0)
    messages = _messages(X)
    server = LikelihoodServer(sparsity=sparsity, level_shifts=None).fit(messages)
    record = without_shifts(JointRecord.from_messages(messages))
    fit = fit_lags(record, 1, Settings(sparsity=sparsity, max_iter=300, tol=1e-8))
    np.testing.assert_allclose(fit.transition, server.unshrunk_transition_, atol=1e-6)
    table = server.lagged_links(messages, 1)
    columns = ["cause", "effect", "strength", "stderr", "statistic", "p_value", "verdict"]
    pd.testing.assert_frame_equal(table[columns], server.links_[columns], rtol=1e-4)


def _messages(X):
    est = FederatedGrangerEstimator().fit(X)
    with est._asking(X) as units:
        return units.messages()


def test_a_delay_is_found_through_gaps_and_episodes():
    X, clients, h = delayed(1200, 2, seed=0, strength=0.4)
    rng = np.random.default_rng(1)
    for Y in X.values():
        Y[rng.random(Y.shape) < 0.1] = np.nan
    X["unit1"][300:340] = np.nan
    lengths = [700, 500]
    est = FederatedGrangerEstimator(clients).fit(X, lengths=lengths)
    table = est.lagged_links(X, 2, lengths=lengths)
    found = table[table["verdict"] == "influence"]
    assert found[["cause", "effect", "delay"]].to_numpy().tolist() == [["unit0", "unit1", 2.0]]
    true = 0.4 * np.sqrt(2) * h[:, 0].std() / h[:, 1].std()
    assert found.iloc[0]["delay_strength"] == pytest.approx(true, abs=3 * found.iloc[0]["stderr"])
    orders = est.lag_orders(X, 2, lengths=lengths)
    assert orders["aic"].idxmin() == orders["bic"].idxmin() == orders["held_out"].idxmax() == 2
