"""Strengths in states of unit variance where measurements are missing."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.covariance import in_unit_states, unit_state_roots
from skfedcausal.server.estimation.evidence import BlockEstimates
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord
from skfedcausal.statespace.matrices import Partition

SIZES = [2, 1, 2]


def plant_of(X, truth):
    clients = [KalmanClient(C=C, R=R) for C, R in zip(truth.observation, truth.measurement_cov, strict=True)]
    messages = {name: c.fit(Y).message(Y) for (name, Y), c in zip(X.items(), clients, strict=True)}
    return StandardisedPlant(JointRecord.from_messages(messages))


def posterior(plant, A, Q):
    """Mean and covariance of all states of a record given its measurements and their likeliest level."""
    record = plant.record.rescaled(plant._scale)
    T, n = record.n_samples, len(Q)
    covariance = np.empty((T, n, T, n))
    lagged = solve_discrete_lyapunov(A, Q)
    for lag in range(T):
        for t in range(T - lag):
            covariance[t + lag, :, t], covariance[t, :, t + lag] = lagged, lagged.T
        lagged = A @ lagged
    prior = covariance.reshape(T * n, T * n)
    J = block_diag(*record.matrices())
    spread = np.linalg.inv(np.linalg.inv(prior) + J)
    level = np.tile(np.eye(n), (T, 1))
    z = record.z.ravel()
    weights = J - J @ spread @ J  # of z / J, the inverse covariance of the scores
    mean = np.linalg.solve(level.T @ weights @ level, level.T @ (z - J @ spread @ z))
    h = (spread @ (z - J @ level @ mean)).reshape(T, n)
    spread = spread.reshape(T, n, T, n)
    return h, np.array([spread[t, :, t] for t in range(T)])


def test_covariances_are_those_of_the_states_given_all_measurements():
    X, truth = make_granger_plant(
        3, n_samples=40, n_sensors=3, n_states=SIZES, missing=0.3, missing_blocks=[(1, 5, 9)], random_state=0
    )
    plant = plant_of(X, truth)
    A, Q = np.linalg.solve(plant.state_scale, truth.transition @ plant.state_scale), np.eye(5)
    h, spread = posterior(plant, A, Q)
    covariance = (h.T @ h) / 40 + spread.mean(axis=0)
    found = plant.state_covariances(SimpleNamespace(A=A, Q=Q))
    for own, expected in zip(plant.partition.slices, found, strict=True):
        np.testing.assert_allclose(covariance[own, own], expected, rtol=1e-8)


def test_complete_records_are_in_states_of_unit_variance():
    X, truth = make_granger_plant(2, n_samples=200, random_state=0)
    plant = plant_of(X, truth)
    assert unit_state_roots(plant, SimpleNamespace(A=None, Q=None)) is None


def test_blocks_change_their_states_and_tests_stay():
    rng = np.random.default_rng(0)
    partition = Partition(tuple(SIZES))
    A = rng.normal(size=(5, 5))
    elements = partition.pair_elements
    e = elements.shape[1]
    covariance = np.array([np.cov(rng.normal(size=(e, 3 * e))) for _ in elements])
    empty = elements == partition.n_elements
    covariance[empty[:, :, None] | empty[:, None, :]] = 0.0
    blocks = BlockEstimates.padded(np.append(A.ravel(), 0.0)[elements], covariance, partition)
    roots = [np.linalg.cholesky(np.cov(rng.normal(size=(p, 9))).reshape(p, p)) for p in SIZES]
    found = in_unit_states(blocks, partition, roots)
    R = block_diag(*roots)
    changed = np.linalg.solve(R, A @ R)
    np.testing.assert_allclose(found.estimate, np.append(changed.ravel(), 0.0)[elements], atol=1e-12)
    np.testing.assert_allclose(found.statistic, blocks.statistic)
    assert in_unit_states(blocks, partition, None) is blocks


@pytest.mark.medium
def test_a_table_of_links_is_in_states_of_unit_variance():
    """As the fitted plant itself has them, up to the scatter of a record of its length."""
    X, truth = make_granger_plant(
        3, n_samples=3000, n_states=SIZES, links=[(0, 1)], missing=0.2, link_strength=0.4, random_state=0
    )
    est = FederatedGrangerEstimator([KalmanClient(C=C) for C in truth.observation]).fit(X)
    A, slices = est.server_.unshrunk_transition_, est.state_slices_
    P = solve_discrete_lyapunov(A, est.process_cov_)
    roots = {name: np.linalg.cholesky(P[own, own]) for name, own in slices.items()}
    block = A[slices["unit1"], slices["unit0"]] @ roots["unit0"]
    strength = np.linalg.norm(np.linalg.solve(roots["unit1"], block))
    row = est.links_.query("cause == 'unit0' and effect == 'unit1'").iloc[0]
    assert row["norm"] == pytest.approx(strength, abs=row["stderr"])


def test_effects_of_inputs_too():
    X, truth = make_granger_plant(
        2, n_samples=800, n_inputs=1, n_states=[2, 1], input_links=[(0, 1)], missing=0.1, random_state=0
    )
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    table = est.links_[est.links_["kind"] == "input"]
    assert np.isfinite(table[["norm", "stderr"]]).all(axis=None)
    assert table.set_index(["cause", "effect"])["p_value"]["unit0", "unit1"] < 1e-3
