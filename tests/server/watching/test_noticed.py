"""What units notice, in answers to incidents."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.server.watching.noticed import ALL_HELD, CHANGED, HELD, event_ages, kind_of, revised
from skfedcausal.server.watching.posterior import Answer

from ._rows import evidence

ANSWER = Answer("energy", 5.0, np.array([0.1, 0.2, 0.7]), 28)
PRIOR = np.full(3, 1 / 3)


def rows_with(*noticed):
    events = np.zeros((40, 3), dtype=np.uint8)
    for row, unit, code in noticed:
        events[row - 20 :, unit] = code
    return evidence(40, 3, first=20, events=events)


def test_ages_by_hand_and_in_batches():
    codes = (np.random.default_rng(0).random((60, 2)) < 0.7).astype(np.uint8)
    expected, age = [], np.zeros(2, dtype=int)
    for row in codes:
        age = np.where(row > 0, age + 1, 0)
        expected.append(age)
    assert_array_equal(event_ages(codes, 0), expected)
    first = event_ages(codes[:17], 0)
    assert_array_equal(np.concatenate([first, event_ages(codes[17:], first[-1])]), expected)


def test_nothing_noticed_changes_nothing():
    answer, kind = revised(ANSWER, rows_with(), 30, PRIOR)
    assert answer is ANSWER
    assert kind == ""


def test_who_notices_first_is_the_root():
    answer, kind = revised(ANSWER, rows_with((29, 1, CHANGED), (31, 0, CHANGED)), 30, PRIOR)
    second = np.exp(-1.0 * 2)
    noticed = np.array([second, 1.0, 0.0]) / (1 + second)
    assert_allclose(answer.probability, 0.02 * ANSWER.probability + 0.98 * noticed)
    assert (answer.start, kind) == (29, "status")


def test_a_constant_that_changes_late_may_be_a_consequence():
    answer, kind = revised(ANSWER, rows_with((36, 0, CHANGED)), 30, PRIOR)
    assert_allclose(answer.probability, 0.7 * ANSWER.probability + 0.3 * np.array([1.0, 0, 0]))
    assert (answer.start, kind) == (28, "")


def test_values_held_late_are_no_consequence():
    answer, kind = revised(ANSWER, rows_with((36, 0, HELD)), 30, PRIOR)
    assert answer.probability.argmax() == 0
    assert (answer.start, kind) == (30, "sensor held")


def test_a_unit_that_cannot_be_the_root_is_none():
    answer, kind = revised(ANSWER, rows_with((29, 0, HELD)), 30, np.array([0.0, 0.5, 0.5]))
    assert answer is ANSWER
    assert kind == ""


@pytest.mark.parametrize(
    ("code", "kind"), [(CHANGED, "status"), (HELD, "sensor held"), (HELD | ALL_HELD | CHANGED, "unit held")]
)
def test_kinds(code, kind):
    assert kind_of(code) == kind
