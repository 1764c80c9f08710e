"""Rules of incidents on levels made by hand, and their tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skfedcausal.server.watching.incidents import (
    HORIZON,
    LOOKBACK,
    Incident,
    KnownFaults,
    Verdict,
    _is_of,
    fault_row,
    follow,
    incident_row,
    incident_table,
    root_of,
    roots_per_step,
    same_faults,
)

# --- when incidents start and end ---------------------------------------------------------------------


def followed(levels, sizes=None, starts=None):
    """(detected, last, peak, open) of every incident in levels that come in batches."""
    incidents, begin = [], 0
    for batch in np.split(np.asarray(levels, dtype=float), np.cumsum(sizes or [])):
        if len(batch):
            follow(incidents, batch, begin, None if starts is None else starts[begin : begin + len(batch)])
            begin += len(batch)
    return [(i.detected, i.last, i.peak, i.open) for i in incidents]


def levels(n_rows, **at):
    """Half the threshold but for some rows, `row12=1.4`."""
    series = np.full(n_rows, 0.5)
    for row, level in at.items():
        series[int(row.removeprefix("row"))] = level
    return series


def test_an_incident_lasts_from_its_first_to_its_last_alarm():
    assert followed(levels(20, row5=1.2, row6=1.7, row7=1.1)) == [(5, 7, 1.7, True)]


def test_the_threshold_itself_is_no_alarm():
    assert followed(levels(20, row5=1.0)) == []


@pytest.mark.parametrize(("pause", "together"), [(20, True), (21, False)])
def test_alarms_up_to_twenty_rows_apart_are_one_incident(pause, together):
    found = followed(levels(60, row5=1.5, **{f"row{5 + pause}": 1.2}))
    if together:
        assert found == [(5, 25, 1.5, False)]
    else:
        assert found == [(5, 5, 1.5, False), (26, 26, 1.2, False)]


@pytest.mark.parametrize(("level", "together"), [(1.59, True), (1.61, False)])
def test_an_alarm_after_a_pause_that_begins_a_tenth_higher_is_another_incident(level, together):
    """Than the highest level so far; what it rises to afterwards does not matter."""
    series = levels(40, row5=1.3, row6=1.5, row10=level, row11=2.5)
    found = followed(series)
    assert len(found) == (1 if together else 2)
    assert found[-1][1:3] == (11, 2.5)
    if not together:
        assert found == [(5, 6, 1.5, False), (10, 11, 2.5, False)]
        assert followed(series[:15]) == [
            (5, 6, 1.5, False),
            (10, 11, 2.5, True),
        ]  # over with the other's start


def test_alarms_that_go_on_are_one_incident_however_they_rise():
    """Also from one batch to the next."""
    series = levels(12, row5=1.1, row6=3.0, row7=9.0)
    for sizes in (None, [6], [5, 1, 1, 1], [7]):
        assert followed(series, sizes) == [(5, 7, 9.0, True)]


@pytest.mark.parametrize(("n_rows", "is_open"), [(28, True), (29, False)])
def test_an_incident_is_over_after_more_than_twenty_rows_of_silence(n_rows, is_open):
    assert followed(levels(n_rows, row7=1.2))[0][3] == is_open
    assert followed(levels(n_rows, row7=1.2), [8, 3])[0][3] == is_open


@pytest.mark.parametrize("sizes", [[1] * 119, [7, 50, 3], [26, 1, 20]])
def test_batches_give_what_the_whole_gives(sizes):
    series = np.random.default_rng(0).gamma(2.0, 0.25, 120)
    assert len(followed(series)) > 3
    assert followed(series, sizes) == followed(series)


def test_an_incident_starts_where_it_may_and_one_that_is_open_goes_on():
    series, starts = levels(60, row5=1.9, row6=1.3, row7=1.1, row20=1.2, row50=1.2), np.ones(60, dtype=bool)
    starts[[5, 20, 50]] = False
    assert followed(series, starts=starts) == [(6, 20, 1.3, False)]
    assert followed(series, [6, 1, 30], starts) == [(6, 20, 1.3, False)]


@pytest.mark.parametrize("sizes", [[1] * 119, [7, 50, 3], [26, 1, 20]])
def test_batches_start_incidents_where_the_whole_starts_them(sizes):
    rng = np.random.default_rng(1)
    series, starts = rng.gamma(2.0, 0.2, 600), rng.random(600) < 0.3
    assert 3 < len(followed(series, starts=starts)) < len(followed(series))
    assert followed(series, sizes, starts) == followed(series, starts=starts)


def test_an_incident_that_was_closed_is_not_continued():
    incidents = [Incident(3, 5, 1.5, open=False)]
    follow(incidents, np.array([0.0, 1.2, 0.0]), 20)
    assert [(i.detected, i.last) for i in incidents] == [(3, 5), (21, 21)]


def test_windows_of_incidents():
    assert (LOOKBACK, HORIZON) == (100, 80)


# --- tables -------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")


def verdict(probability=(0.2, 0.5, 0.3), first_rows=(14, -1, 12), **changes):
    values = {"start": 10, "detected": 13, "last": 17, "open": False, "statistic": "shift", "kind": "process"}
    return Verdict(**values | changes, probability=np.array(probability), first_rows=np.array(first_rows))


def test_a_root_has_half_of_the_probability():
    assert root_of(verdict((0.2, 0.5, 0.3)), NAMES) == "b"
    assert root_of(verdict((0.2, 0.499, 0.301)), NAMES) == "undecided"


def test_rows_tell_places_path_and_ranking():
    row = incident_row(verdict(), NAMES, offset=100)
    assert row == {
        "start": 110,
        "detected": 113,
        "end": 117,
        "root": "b",
        "probability": 0.5,
        "undecided": 0.5,
        "path": [("c", 2), ("a", 4)],
        "ranking": [("b", 0.5), ("c", 0.3), ("a", 0.2)],
        "kind": "process",
        "repeats": [],
        "status": "ended",
    }
    assert np.isnan(incident_row(verdict(open=True), NAMES)["end"])
    assert incident_row(verdict(first_rows=(0, -1, -1), start=0), NAMES)["path"] == [("a", 0)]


def test_rows_of_records_with_times_tell_times():
    index = pd.date_range("2026-01-01", periods=50, freq="min")
    row = incident_row(verdict(), NAMES, offset=5, index=index)
    assert (row["start"], row["detected"], row["end"]) == (index[15], index[18], index[22])


def test_equal_units_keep_their_order():
    row = incident_row(verdict((0.3, 0.3, 0.4), first_rows=(11, 11, 11)), NAMES)
    assert [name for name, _ in row["ranking"]] == ["c", "a", "b"]
    assert [name for name, _ in row["path"]] == ["a", "b", "c"]


def test_tables_have_their_columns_also_without_incidents():
    columns = ["start", "detected", "end", "root", "probability", "undecided", "path", "ranking", "kind", "repeats"]
    columns.append("status")
    empty = incident_table([])
    assert list(empty.columns) == columns
    assert len(empty) == 0
    empty["more"] = []  # a copy
    assert list(incident_table([]).columns) == columns
    table = incident_table([incident_row(verdict(), NAMES), incident_row(verdict(start=1), NAMES)])
    assert list(table.columns) == columns
    assert table.start.tolist() == [10, 1]


def test_roots_of_steps_from_the_onset_to_the_last_alarm():
    """Where nobody is named from the alarm on; a drift that was followed is no step of a fault."""
    open_end = verdict((0.4, 0.3, 0.3), start=6, detected=7, last=8)
    verdicts = [verdict(start=2, last=4), open_end, verdict(start=0, last=1, kind="drift")]
    assert roots_per_step(verdicts, NAMES, 9).tolist() == ["", "", "b", "b", "b", "", "", "undecided", "undecided"]


@pytest.mark.parametrize(("share", "labelled"), [(0.81, 20), (0.79, 3)])
def test_a_change_that_lasts_is_a_fault_for_long_where_its_unit_is_sure(share, labelled):
    """It is how the plant runs from there on; where nobody is surely at fault that is so at once."""
    settled = verdict((0.1, share, 0.0), start=2, detected=2, last=4, end=4, settled=True)
    assert roots_per_step([settled], NAMES, 22).tolist() == ["", "", *["b"] * labelled, *[""] * (20 - labelled)]


def test_a_fault_that_is_over_before_its_alarm_ends_labels_no_aftermath():
    assert roots_per_step([verdict(start=2, last=6, end=3)], NAMES, 8).tolist() == ["", "", "b", "b", "", "", "", ""]
    assert incident_row(verdict(start=2, last=6, end=3), NAMES)["end"] == 3


def test_an_alarm_that_goes_on_as_a_drift_is_none():
    alarm, drift = verdict((0.2, 0.6, 0.2)), verdict((0.0, 0.9, 0.1), kind="drift", detected=60, start=60, last=60)
    row = fault_row([alarm, drift], NAMES)
    assert (row["kind"], row["probability"], row["detected"]) == ("process", 0.9, 13)
    assert fault_row([drift], NAMES)["kind"] == "drift"


def test_later_alarms_make_a_root_surer_unless_its_beginning_is_against_it():
    first, later = verdict((0.2, 0.6, 0.2)), verdict((0.0, 0.9, 0.1), detected=60, last=60)
    assert fault_row([first, later], NAMES)["probability"] == 0.9
    assert fault_row([replace(first, doubted=True), later], NAMES)["probability"] == 0.6
    nobody = verdict((0.4, 0.4, 0.2))
    assert fault_row([replace(nobody, doubted=True), later], NAMES)["probability"] == 0.9


# --- alarms of the same fault --------------------------------------------------------------------------


def test_alarms_of_a_fault_that_lasts_are_one_row_with_repeats():
    first = verdict((0.1, 0.8, 0.1), detected=13, last=90, end=90)
    again = verdict((0.0, 0.9, 0.1), detected=200, last=210, end=210, lasting=frozenset({13}))
    nobody = verdict((0.3, 0.3, 0.4), detected=300, last=301, end=301, lasting=frozenset({13}))
    other = verdict((0.9, 0.0, 0.1), detected=400, last=401, lasting=frozenset({13}), open=True)
    faults = same_faults([first, again, nobody, other])
    assert [[one.detected for one in fault] for fault in faults] == [[13, 200, 300], [400]]
    row = fault_row(faults[0], NAMES, offset=1000)
    assert (row["detected"], row["end"], row["root"], row["probability"]) == (1013, 1301, "b", 0.9)
    assert row["repeats"] == [(1200, 1210), (1300, 1301)]


def test_an_alarm_is_of_the_fault_before_it_where_that_went_on():
    went_on = np.array([False, True, False])
    before, after = verdict(detected=13), verdict(detected=60, resumes=went_on)
    assert len(same_faults([before, after])) == 1
    assert len(same_faults([before, verdict(detected=60, resumes=~went_on)])) == 2
    between = verdict((1.0, 0.0, 0.0), detected=40)
    assert len(same_faults([before, between, after])) == 3


def test_faults_that_are_known_row_by_row_are_those_of_all_verdicts():
    rng = np.random.default_rng(0)
    for _ in range(30):
        known, verdicts = KnownFaults(), {}
        for _ in range(25):
            detected = int(rng.integers(0, 60)) if verdicts and rng.random() < 0.4 else 60 + len(verdicts)
            probability = rng.dirichlet([0.3, 0.3, 0.3])
            before = [row for row in verdicts if row < detected]
            lasting = frozenset(rng.choice(before, min(2, len(before)), replace=False).tolist() if before else ())
            told = {"resumes": rng.random(3) < 0.5, "lasting": lasting if rng.random() < 0.5 else frozenset()}
            where = detected, detected, detected + 1, False, "shift"
            verdicts[detected] = Verdict(*where, probability, np.full(3, -1), "undecided", **told)
            known.take([verdicts[detected]])
            assert known.of(known.verdicts) == _by_brute_force([verdicts[row] for row in sorted(verdicts)])


def _by_brute_force(verdicts):
    """Every alarm compared with every fault before it."""
    faults = []
    for verdict in verdicts:
        of = [fault for fault in faults if _is_of(fault, verdict, faults[-1])]
        of[-1].append(verdict) if of else faults.append([verdict])
    return faults


def test_a_stronger_alarm_that_may_not_start_an_incident_goes_on_with_the_open_one():
    above, starts, incidents = np.zeros(40), np.ones(40, dtype=bool), []
    above[5], above[8:30], starts[8:30] = 1.2, 3.0, False
    follow(incidents, above, 0, starts)
    assert [(each.detected, each.last, each.peak) for each in incidents] == [(5, 29, 3.0)]
