"""Rows of evidence, and what revises answers: what units notice, and single rows of a wrong measurement."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import FederatedRCADetector, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.watching.incidents import (
    ALL_HELD,
    CHANGED,
    HELD,
    event_ages,
    is_glitch,
    kind_of,
    revised,
)
from skfedcausal.server.watching.posterior import Answer

from ._rows import evidence

# --- rows ---------------------------------------------------------------------------------------------


def test_rows_between_two_positions_and_joined_again():
    rng = np.random.default_rng(0)
    series = {name: rng.standard_normal((9, 2)) for name in ("scaled", "surprise", "outside")}
    rows = evidence(9, 2, 2, first=30, **series)
    assert rows.stop == 39
    head, tail = rows.between(30, 34), rows.between(34, 39)
    assert (head.first, head.stop, tail.first, tail.stop) == (30, 34, 34, 39)
    assert_array_equal(tail.surprise, series["surprise"][4:])
    whole = head.followed_by(tail)
    assert whole.first == 30
    for one, other in zip(whole[1:], rows[1:], strict=True):
        assert_array_equal(one, other)


def test_rows_of_some_units_have_their_series_and_innovations_of_their_own():
    rng = np.random.default_rng(0)
    series = {"surprise": rng.random((9, 3)), "levels": rng.random((9, 1, 3)), "errors": rng.random((9, 4))}
    rows = evidence(9, 3, 4, first=30, unknown=np.arange(9), **series)
    weight = rng.random((2, 2))
    part = rows.of_units(np.array([0, 2]), np.array([0, 3]), weight)
    assert (part.first, part.stop) == (30, 39)
    assert_array_equal(part.surprise, series["surprise"][:, [0, 2]])
    assert_array_equal(part.levels, series["levels"][:, :, [0, 2]])
    assert_array_equal(part.errors, series["errors"][:, [0, 3]])
    assert_array_equal(part.scaled, series["errors"][:, [0, 3]] @ weight)
    assert_array_equal(part.unknown, rows.unknown)  # the same for all units
    assert part.predicted.shape == (9, 2)


# --- what units notice ---------------------------------------------------------------------------------

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


# --- single rows of a wrong measurement ----------------------------------------------------------------

USUAL = np.full(40, 1.0)


def at(row, value, length=1):
    series = USUAL.copy()
    series[row : row + length] = value
    return series


@pytest.mark.parametrize(
    ("surprise", "outside", "expected"),
    [
        (at(5, 50.0), at(5, 30.0), True),  # other sensors of the unit contradict
        (at(5, 50.0, length=2), USUAL, True),  # back in the next row, a second surprise
        (at(5, 50.0), USUAL, False),  # a push of the process: it stays in the states
        (at(5, 50.0, length=10), at(5, 30.0, length=10), False),  # a sensor that is wrong for longer
        (USUAL, USUAL, False),
        (at(39, 50.0), at(39, 30.0), True),  # the last row there is
    ],
)
def test_what_is_a_glitch(surprise, outside, expected):
    assert is_glitch(surprise, outside) is expected


@pytest.fixture(scope="module")
def watched():
    X, _ = make_granger_plant(
        4, n_samples=4000, n_sensors=4, links=[("unit0", "unit1")], container="frame", random_state=0
    )
    return FederatedRCADetector().fit(X[:3000]), X[3000:].reset_index(drop=True)


@pytest.mark.parametrize("size", [15, 60, 1000])
def test_one_spike_in_one_tag_is_an_event_of_a_sensor(watched, size):
    detector, later = watched
    later = later.copy()
    later.loc[500, "unit1__s2"] += size * later["unit1__s2"].std()
    incident = detector.incidents(later).query("498 <= detected <= 510").iloc[0]
    assert (incident["kind"], incident["ranking"][0][0]) == ("sensor", "unit1")
    assert inspection.tags(detector, later, incident)["tag"].iloc[0] == "unit1__s2"


def test_a_lasting_push_of_the_process_is_none(watched):
    detector, later = watched
    pushed = later.copy()
    own = [name for name in later if name.startswith("unit1__")]
    direction = np.linalg.svd(later[own] - later[own].mean(), full_matrices=False)[2][0]
    pushed.loc[500:, own] += 6 * later[own].std().mean() * direction
    incident = detector.incidents(pushed).query("498 <= detected <= 510").iloc[0]
    assert incident["kind"] != "sensor"
