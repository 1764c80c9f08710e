"""Minima of p-values, adjustments of unequal weights, and responses to pushes against brute force."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from skfedcausal import Baseline, FederatedGrangerEstimator, KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.changes.hypotheses import Group, UnitInnovations, shifted, unit_innovations
from skfedcausal.server.changes.tests import (
    UnitTests,
    _log_tail,
    _one_sided,
    _variance_since,
    effective_tests,
    log_p_of_minimum,
    weighted_holm,
    window_starts,
)


def innovations_of(est, Y):
    with est._asking(Y, None, None) as units:
        server = est.server_
        record = server.joint_record(units.messages())
        return unit_innovations(server.unshrunk_plant_.run(record), record, server.unshrunk_transition_[None])


@pytest.fixture(scope="module")
def alone():
    """Two units without links, sensors as many as states, learned with their true models."""
    X, truth = make_granger_plant(2, n_sensors=2, links=[], n_samples=1500, random_state=0)
    clients = [KalmanClient(baseline=Baseline(center=False), **model) for model in truth.clients().values()]
    return FederatedGrangerEstimator(clients).fit(X), truth, X


def test_minima_of_independent_p_values_are_of_as_many_tests():
    drawn = np.log(np.random.default_rng(0).uniform(size=(12, 20_000)))
    assert effective_tests(drawn.min(axis=0)) == pytest.approx(12, rel=0.25)  # of 200 in the tail: seven per cent


def test_p_value_of_a_minimum():
    p = np.array([1e-3, 0.2, 1e-40])
    np.testing.assert_allclose(np.exp(log_p_of_minimum(np.log(p), 5)), [1 - 0.999**5, 1 - 0.8**5, 5e-40])


@pytest.mark.medium
def test_equal_weights_give_holm():
    p = np.random.default_rng(1).uniform(size=30) ** 4
    adjusted = weighted_holm(np.log(p), np.full(30, 1 / 30))
    np.testing.assert_allclose(adjusted, multipletests(p, method="holm")[1])


def test_unequal_weights_share_the_level():
    adjusted = weighted_holm(np.log([0.01, 0.2]), np.array([0.2, 0.8]))
    np.testing.assert_allclose(adjusted, [0.05, 0.2])


def test_tails_too_small_for_a_number_go_on_falling():
    ratio = np.array([1.0, 10.0, 1e4, 1e5])
    tail = _log_tail(ratio, 2.0, 400.0)
    np.testing.assert_allclose(tail[:2], stats.f.logsf(ratio[:2], 2, 400))
    assert (np.diff(tail) < 0).all()
    assert np.isfinite(tail).all()


def test_starts_leave_rows_behind_them():
    assert window_starts(400)[[0, -1]].tolist() == [0, 350]
    assert window_starts(40).tolist() == [0]


def test_a_kernel_moves_by_rows():
    kernel = np.arange(1.0, 3.0).reshape(2, 1, 1)
    assert shifted(kernel, 2, 5).ravel().tolist() == [0, 0, 1, 2, 0]
    assert shifted(kernel, -1, 5).ravel().tolist() == [2, 0, 0, 0, 0]


def test_innovations_are_those_of_the_measurements(alone):
    """As many sensors as states: nothing is lost in the message, and ``w'w`` is ``e' S^-1 e``."""
    est, truth, X = alone
    model = truth.clients()["unit0"]
    A, Q = (x[:2, :2] for x in (est.server_.unshrunk_transition_, est.server_.process_cov_))
    C, R = model["C"], model["R"]
    P, x, expected = np.linalg.solve(np.eye(4) - np.kron(A, A), Q.ravel()).reshape(2, 2), np.zeros(2), []
    for y in X["unit0"][:50]:
        S, e = C @ P @ C.T + R, y - C @ x
        expected.append(e @ np.linalg.solve(S, e))
        gain = P @ C.T @ np.linalg.inv(S)
        x, P = A @ (x + gain @ e), A @ (P - gain @ C @ P) @ A.T + Q
    white = innovations_of(est, X)[0].white[:50]
    np.testing.assert_allclose(np.square(white).sum(axis=1), expected, rtol=1e-6)


@pytest.mark.parametrize("gap", [False, True])
def test_responses_are_what_a_push_adds(alone, gap):
    """Measurements of a unit that is pushed differ by what the push adds to its states, and innovations as told."""
    est, truth, X = alone
    rng, A = np.random.default_rng(0), est.server_.unshrunk_transition_[:2, :2]
    push, series, state = np.zeros((300, 2)), rng.standard_normal(300), np.zeros(2)
    push[:, 1] = series
    Y = {name: y[:300].copy() for name, y in X.items()}
    if gap:
        Y["unit0"][40:50] = np.nan
        Y["unit0"][70:80, 0] = np.nan
    Z = {name: y.copy() for name, y in Y.items()}
    for t, d in enumerate(push):
        state = A @ state + d
        Z["unit0"][t] += truth.clients()["unit0"]["C"] @ state
    before, after = innovations_of(est, Y)[0], innovations_of(est, Z)[0]
    told = np.einsum("tij,tj->ti", before.maps, before.responses(series[:, None])[:, :, 1, 0])
    np.testing.assert_allclose(after.white - before.white, told, atol=1e-8)


def test_one_side_has_half_of_both_where_the_sign_is_right():
    both = np.log([0.04, 0.04, 1.0])
    np.testing.assert_allclose(np.exp(_one_sided(both, np.array([1, -1, 0]))), [0.02, 0.98, 1.0])


@pytest.mark.parametrize("side", [-1, 1])
def test_p_values_of_a_side_are_uniform_before_they_are_over_their_share(side):
    rng, n = np.random.default_rng(0), 400
    z, white = rng.standard_normal((n, 1, 1)), rng.standard_normal((n, 1, 3000))
    told = UnitInnovations(white[..., 0], None, None, np.ones(n, dtype=int), None, (0,))
    share, one = 0.5, np.ones(1)
    group = Group(np.zeros(1, int), ("scaled",), np.zeros(1, int), z, np.zeros((n, 1)), side * one, share * one)
    tests = UnitTests(told, [group], np.array([0]), 1000)
    p = np.exp(tests.log_p_values(white.reshape(n, -1), exact=True)[0][0, 0])
    # 3000 draws: two and a half standard errors of a share of 0.05 are 0.01
    assert np.mean(p * share <= 0.05) == pytest.approx(0.05, abs=0.01)
    pushed = np.exp(tests.log_p_values(white.reshape(n, -1) + 0.3 * side * z[:, 0], exact=True)[0][0, 0])
    assert np.median(pushed) < 1e-4


@pytest.mark.parametrize("log_p", [-1e-3, -30.0, -700.0, -1e6, -np.inf])
def test_minima_of_any_size_are_of_a_finite_number_of_tests(log_p):
    n_tests = effective_tests(np.full(100, log_p))
    assert 1 <= n_tests < np.inf
    p = np.exp(log_p_of_minimum(np.array([0.0, -1.0, log_p]), n_tests))
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_innovations_that_stand_still_have_another_variance_from_the_first_row_on():
    squares, told = np.append(np.ones(50), np.zeros(50)), np.ones(100)
    assert _variance_since(squares, told, 60) == 50
