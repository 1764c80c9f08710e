"""Which rules for lost units can be meant, and how many units they need."""

import numpy as np
import pytest

from skfedcausal.federation.exchange import Answers, LostUnits


def test_half_of_the_units_have_to_answer_where_nothing_is_said():
    assert LostUnits() == LostUnits(quorum=0.5, timeout=None, stale="hold")
    assert [LostUnits().needed(n) for n in (1, 2, 3, 4, 5)] == [1, 1, 2, 2, 3]
    assert Answers().skipped == frozenset()


@pytest.mark.parametrize("quorum", [1, 7, np.int64(2), 1e-9, 0.5, 1.0, np.float32(0.25)])
def test_a_number_or_a_share_of_units_is_a_quorum(quorum):
    assert LostUnits(quorum).quorum == quorum


@pytest.mark.parametrize("quorum", [0, -1, True, False, 0.0, -0.5, 1.0001, 2.0, float("nan"), "half", None])
def test_what_is_neither_is_refused(quorum):
    with pytest.raises(ValueError, match="give a number of units, or a share above 0 and up to 1"):
        LostUnits(quorum)


@pytest.mark.parametrize(
    ("quorum", "n_units", "needed"), [(0.5, 3, 2), (1e-9, 3, 1), (1.0, 3, 3), (5, 3, 5), (1, 3, 1)]
)
def test_a_share_of_units_is_rounded_up_and_a_number_stays(quorum, n_units, needed):
    found = LostUnits(quorum).needed(n_units)
    assert (found, type(found)) == (needed, int)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_time_that_is_not_above_zero_is_refused(timeout):
    with pytest.raises(ValueError, match="give seconds above 0, or None"):
        LostUnits(timeout=timeout)
    assert LostUnits(timeout=0.5).timeout == 0.5


def test_other_ways_than_to_hold_and_to_skip_are_refused():
    assert LostUnits(stale="skip").stale == "skip"
    with pytest.raises(ValueError, match="choose 'hold' or 'skip'"):
        LostUnits(stale="guess")
