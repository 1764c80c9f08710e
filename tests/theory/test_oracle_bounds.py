"""The first paper's statements about the oracle: what holds, what is only printed."""

import numpy as np
import pytest

from skfedcausal import KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.statespace.matrices import Partition
from skfedcausal.theory.oracle_bounds import filter_radius, oracle_gaps, unit_dependence


def filtered_states(seed=0, n_samples=2000):
    """Plant, its central filter's states and its units' own."""
    X, truth = make_granger_plant(3, n_samples=n_samples, link_strength=(0.2, 0.4), random_state=seed)
    C = np.zeros((24, 6))
    for m in range(3):
        C[8 * m : 8 * m + 8, 2 * m : 2 * m + 2] = truth.observation[m]
    central = KalmanClient(truth.transition, None, C, truth.process_cov, np.ones(24))
    units = [KalmanClient(**model) for model in truth.clients().values()]
    own = np.hstack([unit.filter(Y) for unit, Y in zip(units, X.values(), strict=True)])
    return truth, central.filter(np.hstack(list(X.values()))), own


def test_theorem_6_3_where_server_and_oracle_predict_alike():
    """The proof needs ``A_mm h_m,c + sum_n learned_mn h_n,c = A h_o``; made true, the bound holds."""
    for seed in range(5):
        truth, central, _ = filtered_states(seed, 300)
        A, partition = truth.transition, Partition((2, 2, 2))
        off = np.where(partition.block_diagonal, 0.0, np.random.default_rng(seed).standard_normal((6, 6)))
        learned = A + 0.1 * off
        own = np.linalg.solve(learned, A @ central.T).T
        for one in oracle_gaps(A, learned, partition, central, own):
            assert 0 < one["coupling"] <= one["bound"]


def test_the_repaired_bound_is_never_below_the_printed_one():
    for seed in range(5):
        truth, central, own = filtered_states(seed, 300)
        rng = np.random.default_rng(seed)
        learned = truth.transition + 0.3 * rng.standard_normal((6, 6))
        for one in oracle_gaps(truth.transition, learned, Partition((2, 2, 2)), central, own):
            assert one["printed_bound"] <= one["bound"] * (1 + 1e-12)
            assert one["error_bound"] > 0


def test_theorem_6_1_prediction_gap_is_measured_not_assumed():
    truth, central, own = filtered_states()
    augmented = np.vstack([np.zeros(6), (own @ truth.transition.T)[:-1]])
    told = oracle_gaps(truth.transition, truth.transition, Partition((2, 2, 2)), central, own, augmented)
    for one in told:
        assert 1e-3 < one["prediction_gap"] <= one["bound"]


def test_units_of_different_sizes_have_no_printed_bound():
    A = 0.3 * np.eye(3)
    states = np.random.default_rng(0).standard_normal((20, 3))
    told = oracle_gaps(A, A + 0.1, Partition((1, 2)), states, 0.9 * states)
    assert np.isnan(told[0]["error_bound"])
    assert told[0]["bound"] > 0


def test_filter_radius_is_that_of_the_filters_error():
    A, C = np.array([[0.9]]), np.array([[1.0]])
    assert filter_radius(A, C, np.array([[0.5]])) == pytest.approx(0.45)


def test_theorem_a_14_units_are_neither_alike_nor_independent():
    A = np.array([[0.8, 0.1], [0.3, 0.5]])
    (pair,) = unit_dependence(A, np.eye(2), Partition((1, 1)))
    S = np.eye(2)
    for _ in range(2000):
        S = A @ S @ A.T + np.eye(2)
    assert pair["covariance_difference"] == pytest.approx(abs(S[0, 0] - S[1, 1]))
    assert pair["cross_covariance"] == pytest.approx(abs(S[0, 1]))
    assert pair["cross_covariance"] > 0.1
    (alone,) = unit_dependence(np.diag([0.8, 0.5]), np.eye(2), Partition((1, 1)))
    assert alone["cross_covariance"] == pytest.approx(0)
