"""The paper's table of flag pairs answers every pair, and so does the rule for many units."""

from itertools import product

import numpy as np
import pytest

from skfedcausal.server.watching.flags import TABLE_1, roots_of_flags

PAIRS = list(product((0, 1), repeat=2))


def test_every_pair_of_flag_pairs_is_answered():
    assert set(TABLE_1) == set(product(PAIRS, PAIRS))


@pytest.mark.parametrize(("first", "second"), list(product(PAIRS, PAIRS)))
def test_table_is_symmetric_and_agrees_with_the_rule(first, second):
    answer, turned = TABLE_1[first, second], TABLE_1[second, first]
    swap = {"first": "second", "second": "first", None: None}
    root = int(roots_of_flags(np.array([[first, second]]))[0])
    if isinstance(answer, tuple):
        assert turned == tuple(swap[name] for name in answer)
        assert root == {"first": 0, "second": 1}[answer[0]]
    else:
        assert turned == answer
        if answer == "violates assumptions":
            assert root == -2
        elif answer == "imperfect training":
            assert root == (-2 if (1, 1) in (first, second) else -1)
        else:
            assert root == -1


@pytest.mark.parametrize(
    ("pair", "answer"),
    [
        (((1, 1), (0, 0)), ("first", None)),
        (((0, 0), (1, 1)), ("second", None)),
        (((1, 1), (1, 0)), ("first", "second")),
        (((0, 1), (1, 1)), "imperfect training"),
        (((1, 1), (0, 1)), "imperfect training"),
        (((1, 0), (1, 1)), ("second", "first")),
        (((0, 0), (0, 0)), "no anomaly"),
        (((1, 0), (1, 0)), "neither"),
        (((0, 1), (0, 1)), "independent clients"),
        (((1, 1), (1, 1)), "violates assumptions"),
    ],
)
def test_the_ten_printed_entries(pair, answer):
    assert TABLE_1[pair] == answer


def test_horizon_wants_a_majority():
    flags = np.zeros((6, 2, 2), dtype=int)
    flags[1, 0] = flags[3, 0] = flags[4, 0] = (1, 1)
    flags[2, 1] = (1, 1)
    assert list(roots_of_flags(flags)) == [-1, 0, 1, 0, 0, -1]
    assert list(roots_of_flags(flags, horizon=3, needed=2)) == [-1, -1, -1, 0, 0, 0]
