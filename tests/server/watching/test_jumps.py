"""A fault that begins with a jump is named by the row it begins in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.server.watching.jumps import Jumps
from skfedcausal.server.watching.root_answers import Answer
from skfedcausal.statespace.detection.energy import ConditionalEnergy

LIMIT = np.log1p(np.full(3, 4.0))  # of every unit


def revised(evidence, alone=False, prior=(1 / 3, 1 / 3, 1 / 3), detected=20):
    jumps = Jumps(LIMIT, np.array(prior), alone)
    answer = Answer("energy", 5.0, np.array([0.1, 0.2, 0.7]), start=3)
    return jumps.revised(answer, {"evidence": evidence}, 0, detected, len(evidence))


def quiet():
    return np.full((60, 3), 0.5)


def test_the_first_to_jump_is_the_root_whatever_follows():
    evidence = quiet()
    evidence[20, 0] = LIMIT[0] + 1
    evidence[21:, 2] = LIMIT[2] + 5
    answer = revised(evidence)
    assert answer.probability.argmax() == 0
    assert_allclose(answer.probability, [0.98 + 0.02 * 0.1, 0.02 * 0.2, 0.02 * 0.7])
    assert answer.start == 20


def test_one_that_only_just_passes_its_limit_says_nothing():
    evidence = quiet()
    evidence[20, 0] = LIMIT[0] + 0.3
    evidence[21:, 0] = LIMIT[0] + 5
    assert revised(evidence).start == 3


def test_where_rows_are_slow_no_other_may_pass_with_it():
    evidence = quiet()
    evidence[20] = LIMIT + np.array([2.0, 0.1, -1.0])
    assert revised(evidence).probability.argmax() == 0
    assert revised(evidence, alone=True).start == 3


def test_two_that_jump_alike_are_not_told_apart():
    evidence = quiet()
    evidence[20] = LIMIT + np.array([2.0, 1.9, -1.0])
    assert revised(evidence).start == 3


def test_jump_of_a_unit_that_cannot_be_the_root_is_not_heard():
    evidence = quiet()
    evidence[20, 0] = LIMIT[0] + 1
    assert revised(evidence, prior=(0, 0.5, 0.5)).start == 3


def test_jumps_before_the_alarm_belong_to_another_incident():
    evidence = quiet()
    evidence[10, 0] = LIMIT[0] + 1
    assert revised(evidence).start == 3


def test_limits_are_the_largest_nominal_surprises():
    given = [np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[2.0, 8.0]])]
    jumps = Jumps.learn(given, np.array([1.0, 2.0]), np.full(2, 0.5), np.array([0.3, 0.3]))
    assert_allclose(jumps.largest, np.log1p([3.0, 4.0]))
    assert jumps.alone


@pytest.mark.parametrize("r", [0.0, 0.6])
def test_share_of_the_others_is_the_squared_correlation(r):
    energy = ConditionalEnergy(np.array([[1.0, 2 * r], [2 * r, 4.0]]), (slice(0, 1), slice(1, 2)))
    assert_allclose(energy.shared(), [r**2, r**2], atol=1e-12)
