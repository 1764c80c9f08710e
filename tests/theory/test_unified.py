"""Theorem 5.4: training as one linear recurrence; Lemma 5.5: its limit; Theorems 5.6 and 5.7: its rate."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.papers.numerics.descent import Products, Rates, fixed_point, from_delta, gradients, recurrence
from skfedcausal.theory.descent import descend, descend_step
from skfedcausal.theory.unified import (
    after_rounds,
    codependence,
    normal_equations,
    rate_conditions,
    spectral_radius,
    to_delta,
)

from ..papers._training import make_record, random_point, safe_rates
from ..papers.test_augmented import KINDS

RATES = (0.01, 0.02, 0.03)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_theorem_5_4_averaged_over_time(kind):
    problem = make_record(**kind).problem()
    rates = Rates.constant(problem, *RATES, ridge=0.2)
    parameters, blocks = random_point(problem)
    unified = recurrence(problem, rates)
    end = descend(problem, rates, parameters, blocks, max_iter=1)
    expected = to_delta(end.parameters, end.blocks)
    assert_allclose(unified.H @ to_delta(parameters, blocks) + unified.J, expected, rtol=1e-12, atol=1e-12)


def test_theorem_5_4_of_a_single_step():
    record = make_record()
    rates = Rates.constant(record.problem(), *RATES)
    point = random_point(record.problem())
    for t in (0, 11):
        one = recurrence(record.problem(slice(t, t + 1)), rates)
        y, v, c = record.measurements[t], record.drivers[t], record.residuals[t]
        step = descend_step(record.A, record.C, rates, *point, y=y, v=v, c=c)
        assert_allclose(one.H @ to_delta(*point) + one.J, to_delta(*step[:2]), rtol=1e-12, atol=1e-12)


def test_most_eigenvalues_of_a_single_steps_matrix_are_one():
    problem = make_record(d=5, n_states=4).problem(slice(0, 1))
    values = np.linalg.eigvals(recurrence(problem, Rates.constant(problem, *RATES)).H)
    moved = np.count_nonzero(np.abs(values - 1) > 1e-10)
    assert len(values) == 18
    assert moved <= 4  # p directions of the correction and p of the blocks


def test_vectors_and_matrices_go_over_into_each_other():
    problem = make_record(n_inputs=1, constant=True).problem()
    point = random_point(problem)
    back = from_delta(problem, to_delta(*point))
    assert_allclose(back[0], point[0])
    assert_allclose(back[1], point[1])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_lemma_5_5_limit_of_the_iteration(kind):
    problem = make_record(**kind).problem()
    unified = recurrence(problem, safe_rates(problem, client_weight=2.0))
    assert spectral_radius(unified.H) < 1
    limit = fixed_point(unified)
    end = after_rounds(unified, to_delta(*random_point(problem)), 10**6)
    assert_allclose(end, limit, rtol=0, atol=1e-6 * np.abs(limit).max())
    assert_allclose(unified.H @ limit + unified.J, limit, rtol=0, atol=1e-12 * np.abs(limit).max())


def test_powers_of_the_matrix_are_executed_rounds():
    problem = make_record().problem()
    rates, point = safe_rates(problem), random_point(problem)
    end = descend(problem, rates, *point, max_iter=137)
    powers = after_rounds(recurrence(problem, rates), to_delta(*point), 137)
    assert_allclose(powers, to_delta(end.parameters, end.blocks), rtol=1e-11, atol=1e-12)


def test_with_equal_ratios_the_fixed_point_minimises_the_weighted_loss():
    problem = make_record(n_inputs=1, constant=True, xi=2.0).problem()
    parameters, blocks = from_delta(problem, fixed_point(recurrence(problem, safe_rates(problem, 3.0))))
    slope = gradients(problem, Products.at(problem, parameters, blocks))
    size = np.abs(slope.client).max()
    assert_allclose(3.0 * slope.client + slope.server, 0, atol=1e-10 * size)
    assert_allclose(slope.blocks, 0, atol=1e-10 * size)


def test_with_unequal_ratios_the_stationarity_equations_hold():
    problem = make_record(constant=True).problem()
    safe = safe_rates(problem, 2.0)
    client = safe.client * np.array([1, 1, 1, 0.2])  # gamma1 / gamma2 is not eta1 / eta2
    rates = Rates(client, safe.server, safe.blocks)
    unified = recurrence(problem, rates)
    slope = gradients(problem, Products.at(problem, *from_delta(problem, fixed_point(unified))))
    size = np.abs(slope.client).max()
    assert_allclose(client * slope.client + safe.server * slope.server, 0, atol=1e-10 * size * client.max())


@pytest.mark.parametrize("case", ["collinear states", "fewer rows than sensors", "baseline without server"])
def test_where_the_equations_are_singular_the_limit_starts_from_the_start(case):
    record = make_record(n_pairs=4 if case == "fewer rows than sensors" else 60, d=6)
    if case == "collinear states":
        record.drivers[:, 2] = record.drivers[:, 0] + record.drivers[:, 1]
    problem = record.problem()
    rates = safe_rates(problem)
    if case == "baseline without server":
        rates = Rates(rates.client, 0 * rates.server, 0 * rates.blocks)
    unified = recurrence(problem, rates)
    start = to_delta(*random_point(problem))
    limit = fixed_point(unified, start)
    end = after_rounds(unified, start, 10**8)
    assert_allclose(limit, end, rtol=0, atol=1e-6 * np.abs(end).max())
    assert np.abs(limit - fixed_point(unified)).max() > 1e-3  # another start, another limit


def test_rates_of_convergence():
    """Theorem 5.6 and 5.7 on descent of one quadratic, where all their terms are known."""
    problem = make_record().problem()
    rates = safe_rates(problem, client_weight=1.0)
    unified = recurrence(problem, rates)
    told = rate_conditions(unified)
    assert told["sublinear"]
    assert told["linear"]
    assert_allclose(told["norm"], told["smoothness"])
    assert_allclose(told["spectral_radius"], 1 - told["strong_convexity"])
    start, limit = to_delta(*random_point(problem)), fixed_point(unified)
    rounds = 4 * told["rounds"]  # the faster directions are gone by then
    one, ten = (after_rounds(unified, start, round(k)) - limit for k in (rounds, rounds + told["rounds"]))
    assert_allclose(np.linalg.norm(ten) / np.linalg.norm(one), 0.1, rtol=0.02)


@pytest.mark.parametrize(("share", "stable"), [(0.99, True), (1.01, False)])
def test_the_largest_factor_is_where_training_stops_converging(share, stable):
    problem = make_record().problem()
    rates = safe_rates(problem)
    factor = share * rate_conditions(recurrence(problem, rates))["largest_factor"]
    changed = Rates(factor * rates.client, factor * rates.server, factor * rates.blocks)
    assert (spectral_radius(recurrence(problem, changed).H) < 1) == stable


def test_theorem_5_1_each_side_depends_on_the_others_last_value():
    problem = make_record().problem()
    rates = safe_rates(problem)
    both = codependence(recurrence(problem, rates), problem)
    assert min(both.values()) > 1e-3
    alone = Rates(rates.client, 0 * rates.server, rates.blocks)
    assert codependence(recurrence(problem, alone), problem)["client_on_server"] == 0


def test_proposition_5_3_holds_for_the_server_but_not_for_a_client_that_the_server_pulls():
    problem = make_record().problem()
    rates = safe_rates(problem)
    left = normal_equations(problem, *from_delta(problem, fixed_point(recurrence(problem, rates))))
    assert left["server"] < 1e-10
    assert left["client"] > 1e-3
    alone = Rates(rates.client, 0 * rates.server, rates.blocks)
    left = normal_equations(problem, *from_delta(problem, fixed_point(recurrence(problem, alone))))
    assert left["client"] < 1e-10


def test_a_flat_direction_that_is_driven_has_no_limit():
    problem = make_record().problem()
    unified = recurrence(problem, safe_rates(problem))
    unified.H[:] = np.eye(len(unified.H))
    unified.H[0, 0] = 0.5
    with pytest.raises(ValueError, match="no fixed point"):
        fixed_point(unified)
