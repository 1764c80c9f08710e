"""The paper's table of flag pairs, its rule for many units and steps, and incidents from flags."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skfedcausal.server.watching.incidents import FlagState, FlagWatch, needed_answers, roots_of_flags
from skfedcausal.theory.root_cause_bounds import TABLE_1, causal_network, local_verdicts, table_1_answers

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


def counted(flags, horizon, needed):
    """The rule for a horizon step by step."""
    roots = []
    for t in range(len(flags)):
        window = (flags[max(t + 1 - horizon, 0) : t + 1] == 1).all(axis=2).sum(axis=0)
        first = [m for m in range(flags.shape[1]) if window[m] >= needed and window[m] == window.max()]
        roots.append(first[0] if len(first) == 1 else -2 if first else -1)
    return roots


@pytest.mark.parametrize(("horizon", "needed"), [(1, 2), (2, 1), (3, 2), (5, 3), (50, 10)])
def test_a_root_is_in_enough_of_the_last_steps_and_in_more_than_any_other(horizon, needed):
    flags = (np.random.default_rng(0).uniform(size=(60, 3, 2)) < 0.65).astype(int)
    roots = roots_of_flags(flags, horizon, needed).tolist()
    assert roots == counted(flags, horizon, needed)
    assert len(set(roots)) > 2 or needed > horizon


def test_words_for_every_pair_of_three_units():
    columns = ["a__b__Z_c", "a__b__Z_a", "c__Z_c", "c__Z_a", "d__Z_c", "d__Z_a"]
    flags = pd.DataFrame([[1, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]], columns=columns, index=[5, 9])
    table = table_1_answers(flags)
    assert table.index.tolist() == [5, 9]
    assert table.to_dict("list") == {
        "a__b, c": ["a__b", "no anomaly"],
        "a__b, d": ["a__b -> d", "no anomaly"],
        "c, d": ["neither", "no anomaly"],
    }


# --- randomised answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [5, 10, 40])
@pytest.mark.parametrize(("kept", "other", "nominal", "rate"), [(0.71, 0.1, 0.05, 1e-3), (0.4, 0.2, 0.1, 0.02)])
def test_needed_answers_are_rare_by_chance_and_usual_of_a_root(horizon, kept, other, nominal, rate):
    """The smallest number with both properties, by the binomial law of nominal answers."""
    share = nominal * kept + (1 - nominal) * other
    majority = horizon // 2 + 1
    expected = majority * kept + (horizon - majority) * other
    rare = [k for k in range(horizon + 2) if binom.sf(k - 1, horizon, share) <= rate]
    smallest = max(int(np.ceil(expected)), rare[0])
    if smallest > horizon:
        pytest.skip("there is no such number")
    assert needed_answers(horizon, kept, other, nominal, rate) == smallest


def test_simulated_nominal_flags_raise_alarms_at_the_rate():
    horizon, kept, other, nominal, rate = 12, 0.7, 0.1, 0.05, 0.01
    needed = needed_answers(horizon, kept, other, nominal, rate)
    share = nominal * kept + (1 - nominal) * other
    answers = np.random.default_rng(0).uniform(size=(400_000, horizon)) < share
    assert (answers.sum(axis=1) >= needed).mean() <= rate


def test_horizons_in_which_no_root_can_be_told_are_warned_about():
    """The one that is long enough is told, and is the shortest."""
    with pytest.warns(UserWarning, match="Give a horizon of at least 7,"):
        needed = needed_answers(3, 0.5, 0.2, 0.1, 1e-4)
    assert needed > 3
    assert needed_answers(7, 0.5, 0.2, 0.1, 1e-4) == 7
    with pytest.warns(UserWarning, match="at least 7,"):
        needed_answers(6, 0.5, 0.2, 0.1, 1e-4)


# --- incidents ----------------------------------------------------------------------------------------


def flags_of(roots, n_units=3):
    """Flags in which these units alone are roots; -2: two of them."""
    flags = np.zeros((len(roots), n_units, 2), dtype=int)
    for t, root in enumerate(roots):
        if root >= 0:
            flags[t, root] = 1
        elif root == -2:
            flags[t, :2] = 1
    return flags


def incidents(roots, horizon=1, needed=1, sizes=()):
    """Verdicts after the last batch that changed them, by first step."""
    state, found = FlagState(), {}
    for batch in np.split(flags_of(roots), np.cumsum(sizes).astype(int)):
        for verdict in FlagWatch(horizon, needed).push(batch, state):
            found[verdict.detected] = verdict
    return list(found.values())


def test_an_incident_is_a_run_of_steps_with_a_root():
    (found,) = incidents([-1, -1, 1, 1, -1, 0, -2, -1])
    assert (found.start, found.detected, found.last, found.open) == (2, 2, 6, True)
    assert (found.statistic, found.kind) == ("flags", "undecided")
    np.testing.assert_allclose(found.probability, [1 / 4, 2 / 4, 0])
    assert found.first_rows.tolist() == [5, 2, -1]


@pytest.mark.parametrize(("pause", "together"), [(10, True), (11, False)])
def test_steps_up_to_ten_apart_are_one_incident(pause, together):
    roots = [0] + [-1] * (pause - 1) + [1] + [-1] * 11
    for sizes in ((), (pause // 2,), (1, pause - 1)):
        found = incidents(roots, sizes=sizes)
        assert [(i.detected, i.last) for i in found] == ([(0, 10)] if together else [(0, 0), (11, 11)])
        assert not any(i.open for i in found)


@pytest.mark.parametrize(("n_rows", "is_open"), [(11, True), (12, False)])
def test_an_incident_is_over_after_ten_steps_of_silence(n_rows, is_open):
    (found,) = incidents([0] + [-1] * (n_rows - 1))
    assert found.open == is_open


def test_only_steps_up_to_the_horizon_count():
    """80 steps after the first; the incident goes on."""
    (found,) = incidents([0] * 41 + [1] * 60)
    np.testing.assert_allclose(found.probability, [41 / 81, 40 / 81, 0])
    assert found.last == 100
    (late,) = incidents([0] * 81 + [1] * 5)
    assert late.first_rows.tolist() == [0, -1, -1]
    (last,) = incidents([0] * 80 + [1] * 5)
    assert last.first_rows.tolist() == [0, 80, -1]


@pytest.mark.parametrize("sizes", [[1] * 299, [3, 40, 5], [2, 2, 2]])
@pytest.mark.parametrize(("horizon", "needed"), [(1, 1), (4, 3)])
def test_batches_of_flags_give_what_the_whole_gives(sizes, horizon, needed):
    rng = np.random.default_rng(1)
    busy = np.where(np.arange(300) % 60 < 15, 0.7, 0.02)
    roots = np.where(rng.uniform(size=300) < busy, rng.integers(0, 4, 300) // 3, -1)
    whole, pieces = incidents(roots, horizon, needed), incidents(roots, horizon, needed, sizes)
    assert len(whole) > 2
    for one, other in zip(whole, pieces, strict=True):
        assert (one.detected, one.last, one.open) == (other.detected, other.last, other.open)
        np.testing.assert_array_equal(one.probability, other.probability)
        np.testing.assert_array_equal(one.first_rows, other.first_rows)


def test_a_stream_of_flags_keeps_the_horizon_and_no_more():
    state, watch = FlagState(), FlagWatch(4, 3)
    for size in (2, 1, 5, 30):
        verdicts = watch.push(flags_of([0] * size), state)
        assert len(state.tail) == min(3, state.position)
    assert state.position == 38
    earlier = verdicts[0].first_rows
    watch.push(flags_of([1] * 9), state)
    assert earlier.tolist() == [2, -1, -1]  # verdicts that were given do not change


def test_units_that_hear_all_flags_say_what_the_server_would():
    flags = np.random.default_rng(0).integers(0, 2, (500, 3, 2))
    roots, said = roots_of_flags(flags), local_verdicts(flags)
    np.testing.assert_array_equal((said == "root").sum(axis=1) == 1, roots >= 0)
    named = roots >= 0
    np.testing.assert_array_equal((said[named] == "root").argmax(axis=1), roots[named])
    np.testing.assert_array_equal(said == "", (flags == 0).all(axis=2))


def test_a_unit_that_hears_nobody_takes_itself_for_the_root():
    flags = np.array([[[1, 1], [1, 1]], [[1, 0], [1, 1]]])
    assert local_verdicts(flags, heard=[[], []]).tolist() == [["root", "root"], ["undecided", "root"]]
    assert local_verdicts(flags).tolist() == [["undecided", "undecided"], ["effect", "root"]]


def test_the_network_of_a_driven_pair():
    """Faults of the driving unit show at the driven one, not the other way round."""
    flags = np.zeros((100, 2, 2), dtype=int)
    flags[10:20, 0], flags[12:20, 1, 0] = 1, 1
    columns = ["a__Z_c", "a__Z_a", "b__Z_c", "b__Z_a"]
    found = causal_network(pd.DataFrame(flags.reshape(100, 4), columns=columns))
    assert found.to_dict("records") == [{"cause": "a", "effect": "b", "steps": 8, "share": 0.8}]
