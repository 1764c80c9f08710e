"""Step sizes of training, what a round takes off and when it is over."""

import numpy as np
import pytest

from skfedcausal.papers.numerics.descent import (
    Rates,
    correction_curvature,
    divergence_limit,
    is_still,
    parameter_update,
    safe_step,
)

from ._training import make_record


def test_a_safe_step_leaves_a_twentieth_of_the_way_to_two_over_the_curvature_of_all_groups():
    assert safe_step(4.0) == pytest.approx(0.95 * 2 / (2 * 4.0), rel=1e-15)
    assert safe_step(4.0, 3) == pytest.approx(0.95 * 2 / (3 * 4.0), rel=1e-15)
    assert safe_step(0.5, 1) == pytest.approx(0.95 * 2 / 0.5, rel=1e-15)
    assert safe_step(0.0) == 1.0  # a flat loss takes any step


def test_curvatures_of_a_correction_are_those_of_both_losses_along_the_worst_direction():
    """Losses ``top |C A x|^2`` and ``top |A x|^2`` of one column of theta."""
    rng = np.random.default_rng(0)
    A, C = rng.standard_normal((3, 3)), rng.standard_normal((4, 3))
    top = 5.0
    expected = [2 * top * np.linalg.norm(matrix, 2) ** 2 for matrix in (C @ A, A)]
    np.testing.assert_allclose(correction_curvature(A, C.T @ C, top), expected, rtol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_a_round_takes_off_both_slopes_and_that_of_the_ridge_in_the_clients_loss(ridge):
    problem = make_record(constant=True).problem()
    rates = Rates.constant(problem, 0.5, 0.25, 0.125, ridge)
    assert (rates.client.shape, rates.server.shape, rates.blocks.shape) == ((1, 4), (1, 4), (1, 3))
    rng = np.random.default_rng(0)
    client, server, parameters = rng.standard_normal((3, 2, 4))
    expected = 0.5 * (client + ridge * 2 * parameters) + 0.25 * server
    np.testing.assert_allclose(parameter_update(rates, client, server, parameters), expected, rtol=1e-12)


def test_rates_have_no_ridge_unless_told():
    problem = make_record().problem()
    assert Rates.constant(problem, 1.0, 2.0, 3.0).ridge == 0
    assert Rates(np.ones(1), np.ones(1), np.ones(1)).ridge == 0


def test_a_round_is_still_up_to_its_tolerance_of_the_largest_element():
    value = np.array([[1.0, -4.0], [2.0, 0.0]])
    assert is_still(np.array([0.5, -1.0]), value, 0.25)
    assert not is_still(np.array([0.5, -1.001]), value, 0.25)
    assert is_still(np.zeros(2), np.zeros(2), 0.1)
    assert is_still(np.zeros(0), np.zeros(0), 0.1)


def test_a_loss_has_diverged_at_a_hundred_million_times_the_first():
    assert divergence_limit(3.0) == 3e8
    assert divergence_limit(0.0) > 0
