"""What lasts: return periods, news of them, alarms that are pulses, and the unit without which all is as usual."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedRCADetector
from skfedcausal.server.watching.slow import (
    CLOCKS,
    GIVEN,
    KINDS,
    N_KINDS,
    QUIETER,
    SHIFT,
    SPREADS,
    Pulses,
    SlowWatch,
    root_of,
    share_of_budget,
)
from skfedcausal.server.watching.thresholds import ABSENT, GAP, NOTHING, NominalRows, ReturnPeriods

UNITS = "ABC"
PRIOR = np.full(3, 1 / 3)


def record(n_rows, seed):
    """A chain of three units with three sensors each."""
    rng = np.random.default_rng(seed)
    x, noise = np.zeros((n_rows, 3)), rng.normal(size=(n_rows, 3))
    gains = np.random.default_rng(99).uniform(0.5, 1.5, (3, 3))
    for t in range(1, n_rows):
        x[t] = 0.7 * x[t - 1] + 0.4 * np.array([0.0, *x[t - 1, :2]]) + noise[t]
    sensors = [x[:, [j]] * gains[j] + 0.3 * rng.normal(size=(n_rows, 3)) for j in range(3)]
    index = pd.date_range("2026-01-01", periods=n_rows, freq="15min") + pd.Timedelta(days=seed * 1000)
    return pd.DataFrame(np.hstack(sensors), index, columns=[f"{unit}__s{k}" for unit in UNITS for k in range(3)])


@pytest.fixture(scope="module")
def detector():
    return FederatedRCADetector(false_alarm_rate=1e-3).fit(record(3000, 0))


def states(n_rows, seed):
    """States of three units that hardly know of each other."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n_rows, 6))
    for t in range(1, n_rows):
        x[t] = 0.8 * x[t - 1] + rng.normal(size=6)
    return x


SLICES = [slice(0, 2), slice(2, 4), slice(4, 6)]


@pytest.fixture(scope="module")
def watch():
    x = states(4000, 0)
    return SlowWatch.learn(NominalRows(np.eye(6), x, np.zeros((4000, 3)), (0,), []), SLICES, 1000.0)


def followed(watch, x, sizes=None, there=None):
    there, state, found, first = np.ones((len(x), 3), dtype=bool) if there is None else there, None, [], 0
    for size in (len(x),) if sizes is None else sizes:
        here = slice(first, first + size)
        *rows, state = watch.rows(x[here], np.zeros((size, 3)), there[here], state)
        found.append(rows)
        first += size
    return tuple(np.concatenate(series) for series in zip(*found, strict=True))


def test_exponential_maxima_have_the_return_periods_of_their_tail():
    maxima = np.random.default_rng(0).exponential(2.0, (4000, 1))
    rare = ReturnPeriods.learn(maxima, np.zeros(1, dtype=int)).of(np.array([[2 * np.log(1e3)], [2 * np.log(1e6)]]))
    assert_allclose(rare[:, 0], [3.0, 6.0], rtol=0.06)


def test_of_nothing_there_is_no_return_period():
    rare = ReturnPeriods.learn(np.random.default_rng(0).normal(size=(90, 2)), np.zeros(2, dtype=int))
    assert (rare.of(np.full((1, 2), NOTHING)) == ABSENT).all()


def test_a_step_of_half_a_deviation_is_told_within_a_day_and_of_its_unit(watch):
    x = states(800, 1)
    x[400:, 2:4] += 1.5 * states(4000, 0).std(axis=0)[2:4]
    levels, rare = followed(watch, x)
    alarms = np.flatnonzero((levels > watch.threshold).any(axis=1))
    first = alarms[alarms >= 400][0]
    assert first < 496
    assert root_of(rare, first, 32, PRIOR).probability.argmax() == 1


@pytest.mark.parametrize("sizes", [[1] * 40 + [360], [37] * 10 + [30], [400]])
def test_rows_in_pieces_have_the_levels_of_the_whole(watch, sizes):
    x = states(400, 2)
    there = np.ones((400, 3), dtype=bool)
    there[100:130, 1] = False
    for one, other in zip(followed(watch, x, sizes, there), followed(watch, x, there=there), strict=True):
        assert_allclose(one, other, atol=1e-9)


def test_what_is_followed_of_a_level_moves_without_a_jump(watch):
    """Rows before are told beside the level that is known now, as those after are."""
    x, moved = states(160, 2), np.array([3.0, -2.0, 0.0, 1.0, 0.0, 4.0])
    rows = (np.zeros((160, 3)), np.ones((160, 3), dtype=bool))
    *_, state = watch.rows(x - moved, *rows, None)
    *_, before = watch.rows(x, *rows, None)
    assert_allclose(watch.beside(before, moved, np.ones(3)).states, state.states, atol=1e-9)


@pytest.mark.medium
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_whose_readings_have_the_other_sign_is_named(detector, unit):
    X = record(800, 12)
    X.loc[X.index[400] :, [c for c in X if c.startswith(unit)]] *= -1
    found = detector.incidents(X).loc[lambda table: table["detected"] >= X.index[395]].iloc[0]
    assert found["root"] == unit


def test_what_stood_for_a_day_is_no_news(watch):
    rare = np.zeros((40, N_KINDS, 3))
    rare[10:, SHIFT, 1] = 9.0
    news = watch.news(rare)[:, SHIFT, 1]
    assert news[10] == 9.0
    assert news[30] < 1.0


def test_a_unit_raises_one_alarm_until_it_was_quiet():
    levels = np.zeros((30, 2))
    levels[3:12, 0] = levels[8:10, 1] = levels[20:, 0] = 9.0
    told, _ = Pulses(np.full(2, GAP), np.zeros(2)).after(levels, 3.0, 4)
    assert [tuple(map(int, place)) for place in np.argwhere(told > 3.0)] == [(3, 0), (8, 1), (20, 0)]


def test_the_root_is_the_unit_without_which_nothing_is_left():
    rare = np.zeros((150, N_KINDS, 3))
    rare[110:, SHIFT, 1] = 6.0
    rare[110:, GIVEN, 0] = rare[110:, GIVEN, 2] = 5.0  # both follow a sensor that lies
    found = root_of(rare, 110, 32, PRIOR)
    assert (found.probability.argmax(), found.kind) == (1, "level")
    assert found.probability.max() <= 0.85  # or it came in from outside
    assert root_of(rare, 130, 16, PRIOR).probability.max() < 0.5  # of later rows nothing is new


def test_a_unit_that_cannot_be_the_root_is_none():
    rare = np.zeros((150, N_KINDS, 3))
    rare[110:, QUIETER, 1] = 9.0
    assert root_of(rare, 110, 32, np.array([0.5, 0.0, 0.5])).probability[1] < 1e-9


def test_short_records_and_episodes_are_not_watched_for_what_lasts():
    for n_rows, starts in ((900, (0,)), (2000, tuple(range(0, 2000, 50)))):
        rows = NominalRows(np.eye(6), states(n_rows, 0), np.zeros((n_rows, 3)), starts, [])
        assert SlowWatch.learn(rows, SLICES, 1000.0) is None


@pytest.mark.medium
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("factor", [0.05, 0.3])
def test_a_unit_that_gets_quieter_is_not_blamed_on_those_that_hear_of_it(detector, unit, factor):
    X = record(800, 10)
    X.loc[X.index[400] :, [c for c in X if c.startswith(unit)]] *= factor
    found = detector.incidents(X).loc[lambda table: table["detected"] >= X.index[400]].iloc[0]
    assert (found["root"], found["kind"]) == (unit, "quieter")


@pytest.mark.medium
def test_faults_that_last_run_at_a_new_level_until_they_end(detector):
    X = record(1400, 21)
    X.loc[X.index[400] : X.index[899], ["B__s0", "B__s1", "B__s2"]] += 4.0
    lasts = detector.incidents(X[:900]).loc[lambda table: table["detected"] >= X.index[395]].iloc[0]
    assert lasts["status"] == f"running at a new level since {lasts['start']}"
    assert detector.incidents(X).loc[lambda table: table["detected"] >= X.index[395]].iloc[0]["status"] == "ended"


def test_a_profile_of_the_day_is_taken_off_rows_that_are_watched():
    """And a record that begins with a start-up has no levels to switch between."""
    index = pd.date_range("2026-01-05", periods=3000, freq="15min")
    X = record(3000, 3).set_index(index)
    X["A__s0"] += 5 * np.isin(index.hour, (7, 8, 18))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The nominal record")
        detector = FederatedRCADetector(false_alarm_rate="1 per week").fit(X)
    assert [term.name for term in detector.clients_["A"].baseline_.profile] == ["profile by time of day and weekend"]


@pytest.mark.parametrize("share", [0.9, 0.97])
def test_records_of_hardly_any_measurements_are_refused_in_a_sentence(share):
    X, rng = record(600, 4), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"absent in|shows the states of any unit"):
            FederatedRCADetector(false_alarm_rate=1e-2).fit(X.where(rng.random(X.shape) > share))


def test_kinds_are_numbered_in_their_order():
    assert list(KINDS) == list(range(len(KINDS)))


def test_levels_are_told_where_windows_are_long_and_no_inputs_move_the_plant(detector):
    """Elsewhere surprises forget nothing, and what is left to be told is who is quieter or louder."""
    usual = record(3000, 0)
    points = {"A": np.repeat(np.random.default_rng(1).normal(size=(60, 1)), 50, axis=0)}
    untimed = FederatedRCADetector(false_alarm_rate=1e-3).fit(usual.reset_index(drop=True))
    moved = FederatedRCADetector(false_alarm_rate=1e-3).fit(usual, inputs=points)
    told = [set(one._root_cause.slow.model.told) for one in (detector, untimed, moved)]
    assert told == [set(KINDS), set(SPREADS), set(SPREADS)]
    assert share_of_budget(SPREADS, is_long=True) < share_of_budget(KINDS, is_long=False)


def test_a_nominal_record_with_upsets_keeps_the_budget():
    """What one stretch has and no other lets expect is rarer than anything, and is no alarm more than asked for."""
    x = states(4000, 0)
    for begin in (100, 340, 580):
        x[begin : begin + 60, :2] = 0.0
    watch = SlowWatch.learn(NominalRows(np.eye(6), x, np.zeros((4000, 3)), (0,), []), SLICES, 2000.0)
    assert watch.n_alarms <= 2


def test_kinds_that_are_not_told_are_absent():
    rows = NominalRows(np.eye(6), states(2000, 0), np.zeros((2000, 3)), (0,), [])
    watch = SlowWatch.learn(rows, SLICES, 1000.0, SPREADS)
    _, rare, _ = watch.rows(states(200, 1) + 2, np.zeros((200, 3)), np.ones((200, 3), dtype=bool), None)
    by_kind = rare.reshape(len(rare), len(CLOCKS), len(KINDS), 3)
    others = [kind for kind in KINDS if kind not in SPREADS]
    assert (by_kind[:, :, others] == ABSENT).all()
    assert (by_kind[-1][:, SPREADS] > ABSENT).all()
