"""Theorem 6.1, Corollary 6.2, Lemma 8.2 and Theorem 8.3 of the second paper against brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.papers.numerics.descent import Products, fixed_point, from_delta, recurrence
from skfedcausal.theory.disentanglement import disentanglement, normal_equations_of_client, oracle_bias

from ..papers._training import make_record, random_point, safe_rates


def stationary(seed, xi, client_weight=1.0):
    """Record, problem, rates and the point where training ends."""
    record = make_record(seed, n_inputs=2, constant=True, n_pairs=80, xi=xi)
    problem = record.problem()
    rates = safe_rates(problem, client_weight)
    return record, problem, rates, from_delta(problem, fixed_point(recurrence(problem, rates)))


def test_both_sides_of_theorem_6_1_and_corollary_6_2_are_means_over_the_record():
    record = make_record(2, n_inputs=2, constant=True)
    problem = record.problem()
    parameters, blocks = random_point(problem)
    told = disentanglement(problem, parameters, blocks)
    k = problem.n_states
    own = record.measurements @ parameters[:, :3].T @ record.A.T
    others, inputs = record.drivers[:, :k] @ blocks[:, :k].T, record.drivers[:, k:] @ blocks[:, k:].T
    assert_allclose(told["own_states"], own.mean(axis=0), rtol=1e-12)
    assert_allclose(told["other_states"], others.mean(axis=0), rtol=1e-12)
    assert_allclose(told["other_inputs"], inputs.mean(axis=0), rtol=1e-12)
    assert told["delta_d"] == pytest.approx(np.linalg.norm(parameters[:, 3] - inputs.mean(axis=0)))
    assert told["penalty"] == pytest.approx(np.mean(((own - others) ** 2).sum(axis=1)))


@pytest.mark.parametrize("seed", range(3))
def test_theorem_6_1_both_sides_meet_as_the_weight_grows(seed):
    """D falls with xi (penalty methods never raise it), and the distance of the means is at most sqrt(D)."""
    penalties, gaps = [], []
    for xi in (0.0, 1.0, 100.0, 1e4):
        _, problem, _, point = stationary(seed, xi)
        told = disentanglement(problem, *point)
        penalties.append(told["penalty"])
        gaps.append(np.linalg.norm(told["own_states"] - told["other_states"]))
    assert (np.diff(penalties) < 0).all()
    assert (np.array(gaps) <= np.sqrt(penalties)).all()
    assert penalties[-1] < 1e-6 * penalties[0]
    assert gaps[-1] < 1e-3


@pytest.mark.parametrize("xi", [0.0, 3.0, 1e4])
def test_corollary_6_2_holds_but_for_the_clients_own_pull(xi):
    """phi - E sum B u = E sum A h - E A theta y + gamma1 / gamma2 C' E r_a, exactly."""
    _, problem, rates, point = stationary(1, xi, client_weight=0.5)
    told = disentanglement(problem, *point)
    at = Products.at(problem, *point)
    d = problem.n_outputs
    pull = rates.client[0, d] / rates.server[0, d] * (problem.target - at.client)[:, d]
    expected = told["other_states"] - told["own_states"] + pull
    assert_allclose(told["constant"] - told["other_inputs"], expected, atol=1e-8)
    assert told["delta_d"] > 1e-3  # the corollary as printed says zero


def test_corollary_6_2_without_the_clients_pull():
    _, problem, rates, _ = stationary(1, 1e4)
    blind = type(rates)(0 * rates.client, rates.server, rates.blocks)
    start = np.concatenate([part.ravel(order="F") for part in reversed(random_point(problem))])
    point = from_delta(problem, fixed_point(recurrence(problem, blind), start))
    assert disentanglement(problem, *point)["delta_d"] < 1e-6


def test_lemma_8_2_holds_where_the_server_does_not_pull():
    _, problem, rates, _ = stationary(0, 1.0)
    alone = type(rates)(rates.client, 0 * rates.server, rates.blocks)
    point = from_delta(problem, fixed_point(recurrence(problem, alone)))
    told = normal_equations_of_client(problem, alone, *point)
    assert told["printed"] < 1e-9 * told["scale"]


def test_lemma_8_2_at_the_joint_fixed_point_only_the_sum_with_the_servers_pull_vanishes():
    record, problem, rates, point = stationary(0, 1.0)
    told = normal_equations_of_client(problem, rates, *point)
    assert told["repaired"] < 1e-9 * told["scale"]
    theta, phi = point[0][:, :3], point[0][:, 3]
    y = record.measurements
    r_a = record.residuals - (y @ theta.T @ record.A.T + phi) @ record.C.T
    printed = [(record.C @ record.A).T @ r_a.T @ y / len(y), record.C.T @ r_a.mean(axis=0)]
    assert told["printed"] == pytest.approx(max(np.abs(part).max() for part in printed))
    assert told["printed"] > 0.01 * told["scale"]


def plant_series(seed, shift):
    """Series of a unit with its own and another's inputs, and random parameters."""
    rng = np.random.default_rng(seed)
    n, d, k, p = 400, 4, 3, 2
    u = rng.standard_normal((n, k)) + shift
    h = 0.5 * rng.standard_normal((n, p)) + shift
    y = h @ rng.standard_normal((p, d)) + rng.standard_normal((n, d)) + u @ rng.standard_normal((k, d))
    now = y @ rng.standard_normal((d, d)) + u @ rng.standard_normal((k, d)) + rng.standard_normal((n, d))
    model = [rng.standard_normal(shape) for shape in ((p, p), (p, k), (d, p), (p, d + 1))]
    return model, {"now": now, "measurements": y, "inputs": u, "filtered": h}


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_theorem_8_3_against_least_squares(shift):
    (A, B, C, parameters), series = plant_series(0, shift)
    own = np.array([True, False, False])
    told = oracle_bias(A, B, C, parameters, own=own, **series)
    z = np.hstack([series["measurements"], series["inputs"], series["filtered"]])
    oracle = z @ np.linalg.lstsq(z, series["now"], rcond=None)[0]
    corrected = series["filtered"] + series["measurements"] @ parameters[:, :4].T
    augmented = (corrected @ A.T + series["inputs"][:, :1] @ B[:, :1].T + parameters[:, 4]) @ C.T
    e = (parameters[:, 4] - series["inputs"][:, 1:] @ B[:, 1:].T) @ C.T
    assert_allclose(told["bias"], (oracle - augmented).mean(axis=0), rtol=1e-9)
    assert_allclose(told["J"], np.linalg.lstsq(z, e, rcond=None)[0].T, rtol=1e-8, atol=1e-12)
    assert_allclose(told["printed"], told["J"] @ z.mean(axis=0), rtol=1e-9)
    assert_allclose(told["repaired"], told["bias"], rtol=1e-8)


def test_theorem_8_3_as_printed_needs_what_its_proof_assumes():
    """It holds for a unit that is the oracle with a centred e, and not for others."""
    (A, B, C, parameters), series = plant_series(1, 0.5)
    own = np.array([True, False, False])
    told = oracle_bias(A, B, C, parameters, own=own, **series)
    assert np.abs(told["printed"] - told["bias"]).max() > 0.1 * np.abs(told["bias"]).max()
    # a unit whose residual is uncorrelated with z: take now as its prediction and noise orthogonal to z
    z = np.hstack([series["measurements"], series["inputs"], series["filtered"]])
    inputs = series["inputs"]
    parameters[:, 4] = inputs[:, 1:].mean(axis=0) @ B[:, 1:].T  # E e = 0
    corrected = series["filtered"] + series["measurements"] @ parameters[:, :4].T
    augmented = (corrected @ A.T + inputs[:, :1] @ B[:, :1].T + parameters[:, 4]) @ C.T
    noise = np.random.default_rng(2).standard_normal(augmented.shape)
    noise -= z @ np.linalg.lstsq(z, noise, rcond=None)[0]
    told = oracle_bias(A, B, C, parameters, own=own, **{**series, "now": augmented + noise})
    assert_allclose(told["printed"], told["bias"], atol=1e-9)
