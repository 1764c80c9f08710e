"""Exports of historians: forms, formats, zones, quality codes, the grid."""

import io

import numpy as np
import pandas as pd
import pytest

from skfedcausal import read_historian
from skfedcausal.historian.forms import is_good
from skfedcausal.historian.written import Dialect

HOUR = pd.Timedelta("1h")


def text(*lines):
    return io.StringIO("\n".join(lines))


def local_record(start, periods, every, zone="Europe/Berlin"):
    """True times, and what a clock on the wall shows."""
    times = pd.date_range(start, periods=periods, freq=every, tz=zone)
    return times, times.tz_localize(None)


WIDE = ("time,FIT101,LIT101", "2026-03-01 00:00:00,1.5,7", "2026-03-01 00:00:10,2.5,8")
LONG = (
    "Timestamp;TagName;Value",
    "01.03.2026 00:00:00;FIT101;1,5",
    "01.03.2026 00:00:00;LIT101;7",
    "01.03.2026 00:00:10;FIT101;2,5",
    "01.03.2026 00:00:10;LIT101;8",
)
SPLIT = ("Date\tTime\tFIT101\tLIT101", "2026/03/01\t00:00:00\t1.5\t7", "2026/03/01\t00:00:10\t2.5\t8")
NEWEST_FIRST = (WIDE[0], WIDE[2], WIDE[1])


@pytest.mark.parametrize("lines", [WIDE, LONG, SPLIT, NEWEST_FIRST], ids=["wide", "long", "split", "newest first"])
def test_forms_of_one_record_give_one_table(lines):
    X = read_historian({"P1": text(*lines)}, every="10s")
    index = pd.DatetimeIndex(["2026-03-01 00:00:00", "2026-03-01 00:00:10"])
    expected = pd.DataFrame({"P1__FIT101": [1.5, 2.5], "P1__LIT101": [7.0, 8.0]}, index=index)
    pd.testing.assert_frame_equal(X, expected, check_freq=False, check_index_type=False)


def test_files_frames_and_lists_of_exports(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("\n".join(WIDE), encoding="utf-8-sig")
    second.write_text("time,FIT101,LIT101\n2026-03-01 00:00:20,3.5,9", encoding="cp1252")
    frame = pd.read_csv(first, parse_dates=["time"])
    X = read_historian({"P1": [first, second], "P2": frame, "P3": frame.set_index("time")}, every="10s")
    assert X["P1__FIT101"].tolist() == [1.5, 2.5, 3.5]
    for unit in ("P2", "P3"):
        np.testing.assert_array_equal(X[f"{unit}__LIT101"], [7, 8, np.nan])


def test_polars_frames():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"time": ["2026-03-01 00:00:00", "2026-03-01 00:00:10"], "T": [1.0, None]})
    X = read_historian({"P1": frame}, every="10s")
    np.testing.assert_array_equal(X["P1__T"], [1, np.nan])


# -- times ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["as recorded", "sorted", "newest first", "long"])
def test_the_hour_that_occurs_twice_is_told_apart(order):
    true, wall = local_record("2025-10-26 00:00", 360, "1min")
    frame = pd.DataFrame({"time": wall.astype(str), "T": np.arange(360.0)})
    if order == "sorted":
        frame = frame.sort_values("time", kind="stable")
    elif order == "newest first":
        frame = frame[::-1]
    elif order == "long":
        frame = pd.concat([frame.rename(columns={"T": "value"}).assign(tag=tag) for tag in "TU"])
    X = read_historian({"P1": frame}, tz="Europe/Berlin", every="1min")
    assert (X.index == true).all()
    np.testing.assert_array_equal(X["P1__T"], np.arange(360.0))


def test_the_hour_that_occurs_twice_needs_a_zone():
    _, wall = local_record("2025-10-26 00:00", 360, "1min")
    frame = pd.DataFrame({"time": wall.astype(str), "T": np.arange(360.0)})
    with pytest.raises(
        ValueError, match=r"02:00 to 03:00 occurs twice on 26 October 2025.*Pass tz=.*nothing was dropped"
    ):
        read_historian({"P1": frame}, every="1min")


def test_an_hour_that_should_occur_twice_and_does_not_is_said():
    frame = pd.DataFrame({"time": ["2025-10-26 02:10:00", "2025-10-26 03:10:00"], "T": [1.0, 2.0]})
    with pytest.warns(UserWarning, match="should occur twice in unit 'P1' and is there once"):
        X = read_historian({"P1": frame}, tz="Europe/Berlin", every="10min")
    assert X.index[0].utcoffset() == 2 * HOUR


def test_times_that_do_not_exist_are_refused():
    frame = pd.DataFrame({"time": ["2026-03-29 02:30:00", "2026-03-29 03:30:00"], "T": [1.0, 2.0]})
    with pytest.raises(ValueError, match="does not exist in Europe/Berlin"):
        read_historian({"P1": frame}, tz="Europe/Berlin", every="1h")
    assert len(read_historian({"P1": frame}, tz="Etc/GMT-1", every="30min")) == 3


def test_zones_by_unit_offsets_and_seconds_since_1970_agree():
    frames = {
        "Berlin": pd.DataFrame({"time": ["2026-01-01 13:00:00", "2026-01-01 13:00:10"], "T": [1.0, 2.0]}),
        "UTC": pd.DataFrame({"time": ["2026-01-01T12:00:00Z", "2026-01-01T13:00:10+01:00"], "T": [1.0, 2.0]}),
        "epoch": pd.DataFrame({"ts": [1767268800, 1767268810], "T": [1.0, 2.0]}),
        "ms": pd.DataFrame({"ts": [1767268800000, 1767268810000], "T": [1.0, 2.0]}),
    }
    X = read_historian(frames, tz={"Berlin": "Europe/Berlin"})
    assert X.index[0] == pd.Timestamp("2026-01-01 12:00", tz="UTC")
    assert (X.to_numpy() == [[1.0], [2.0]]).all()


def test_mixed_zones_are_refused():
    local = pd.DataFrame({"time": ["2026-01-01 13:00:00"], "T": [1.0]})
    utc = pd.DataFrame({"time": ["2026-01-01T12:00:00Z"], "T": [1.0]})
    with pytest.raises(ValueError, match="'P1__T' have no zone"):
        read_historian({"P1": local, "P2": utc}, every="1s")


@pytest.mark.parametrize(
    ("stamp", "dayfirst", "expected"),
    [
        ("03/04/2026 00:00", True, "2026-04-03"),
        ("03/04/2026 00:00", False, "2026-03-04"),
        ("13/04/2026 00:00", None, "2026-04-13"),
        ("04/13/2026 00:00", None, "2026-04-13"),
        ("03.04.2026 00:00", None, "2026-04-03"),
    ],
)
def test_day_and_month(stamp, dayfirst, expected):
    frame = pd.DataFrame({"time": [stamp], "T": [1.0]})
    X = read_historian({"P1": frame}, every="1h", dayfirst=dayfirst)
    assert X.index[0] == pd.Timestamp(expected)


def test_day_and_month_that_could_be_either_are_refused():
    frame = pd.DataFrame({"time": ["03/04/2026 00:00"], "T": [1.0]})
    with pytest.raises(ValueError, match="can be read both ways"):
        read_historian({"P1": frame}, every="1h")


def test_a_clock_is_corrected():
    frame = pd.DataFrame({"time": pd.date_range("2026-01-01", periods=3, freq="10s"), "T": [1.0, 2.0, 3.0]})
    X = read_historian({"P1": frame, "P2": frame}, every="10s", clock={"P2": "-20s"})
    np.testing.assert_array_equal(X["P2__T"], [1, 2, 3, np.nan, np.nan])
    np.testing.assert_array_equal(X["P1__T"], [np.nan, np.nan, 1, 2, 3])


# -- values and quality -------------------------------------------------------------------------------


def test_bad_texts_become_missing_and_unknown_ones_are_refused():
    lines = ("time,T", "2026-03-01 00:00:00,1", "2026-03-01 00:00:10,I/O Timeout", "2026-03-01 00:00:20,")
    np.testing.assert_array_equal(read_historian({"P1": text(*lines)})["P1__T"], [1, np.nan, np.nan])
    lines = (*lines[:2], "2026-03-01 00:00:10,RUNNING")
    with pytest.raises(ValueError, match=r"Got 'RUNNING' in column 'T' of unit 'P1'.*bad_values=\['RUNNING'\]"):
        read_historian({"P1": text(*lines)})
    X = read_historian({"P1": text(*lines)}, bad_values=["Running"])
    np.testing.assert_array_equal(X["P1__T"], [1, np.nan])


@pytest.mark.parametrize(
    ("codes", "good"),
    [
        ([192, 0, 216, 64], [1, 0, 1, 0]),
        ([0, 0x80000000, 0x40000000, 1024], [1, 0, 0, 1]),
        ([100, 0, 50, 100], [1, 0, 0, 1]),
        ([1, 0, 1, 1], [1, 0, 1, 1]),
        (["Good", "Bad", "Good, non-specific", "Uncertain"], [1, 0, 1, 0]),
    ],
    ids=["OPC DA", "OPC UA", "per cent", "flag", "words"],
)
def test_quality_codes(codes, good):
    assert is_good(pd.Series(codes), Dialect(), "P1").tolist() == [bool(g) for g in good]


def test_uncertain_values_can_be_kept():
    assert is_good(pd.Series([192, 64, 0]), Dialect(keep_uncertain=True), "P1").tolist() == [
        True,
        True,
        False,
    ]
    assert is_good(pd.Series(["ok", "uncertain", "bad"]), Dialect(keep_uncertain=True), "P1").tolist() == [
        True,
        True,
        False,
    ]


def test_codes_that_could_mean_either_are_refused():
    with pytest.raises(ValueError, match="zero is good in OPC UA, bad in OPC DA"):
        is_good(pd.Series([0, 0]), Dialect(), "unit 'P1'")
    assert is_good(pd.Series([0, 3]), Dialect(good=[0]), "P1").tolist() == [True, False]
    assert is_good(pd.Series([0, 3]), Dialect(good=lambda code: code > 0), "P1").tolist() == [False, True]


def test_quality_columns_stand_beside_their_tags():
    lines = ("time,FIT.1,FIT.1.quality,T", "2026-03-01 00:00:00,1,192,5", "2026-03-01 00:00:10,2,24,6")
    X = read_historian({"P1": text(*lines)})
    assert list(X) == ["P1__FIT.1", "P1__T"]
    np.testing.assert_array_equal(X["P1__FIT.1"], [1, np.nan])


# -- grid ---------------------------------------------------------------------------------------------


def irregular():
    times = pd.to_datetime(["2026-01-01 00:00:01", "2026-01-01 00:00:04", "2026-01-01 00:00:25"])
    return pd.DataFrame({"time": times, "T": [1.0, 3.0, 5.0]})


def test_a_step_takes_what_came_since_the_step_before_and_nothing_later():
    X = read_historian({"P1": irregular()}, every="10s")
    assert X.index[0] == pd.Timestamp("2026-01-01 00:00:10")
    np.testing.assert_array_equal(X["P1__T"], [3, np.nan, 5])
    mean = read_historian({"P1": irregular()}, every="10s", how="mean")
    np.testing.assert_array_equal(mean["P1__T"], [2, np.nan, 5])


def test_values_hold_as_long_as_asked_and_not_over_bad_ones():
    held = read_historian({"P1": irregular()}, every="5s", hold="12s")
    np.testing.assert_array_equal(held["P1__T"], [3, 3, 3, np.nan, 5])
    bad = irregular().assign(T=["1", "Bad", "5"])
    np.testing.assert_array_equal(read_historian({"P1": bad}, every="5s", hold="1h")["P1__T"], [1, *[np.nan] * 3, 5])


def test_different_steps_need_a_choice():
    slow = pd.DataFrame({"time": pd.date_range("2026-01-01", periods=3, freq="60s"), "T": [1.0, 2.0, 3.0]})
    fast = pd.DataFrame({"time": pd.date_range("2026-01-01", periods=13, freq="10s"), "T": np.arange(13.0)})
    with pytest.raises(ValueError, match="different steps"):
        read_historian({"P1": slow, "P2": fast})
    X = read_historian({"P1": slow, "P2": fast}, every="10s")
    assert X["P1__T"].count() == 3
    assert X["P2__T"].count() == 13


@pytest.mark.parametrize(
    ("exports", "options", "error", "match"),
    [
        ("plant.csv", {}, TypeError, "give a dict"),
        ({}, {}, ValueError, "Got no exports"),
        ({"P1": pd.DataFrame({"a": [1.0]})}, {}, ValueError, "No time column in unit 'P1'"),
        ({"P1": pd.DataFrame({"time": ["2026-01-01"]})}, {}, ValueError, "No tags"),
        ({"P__1": irregular()}, {}, ValueError, "must not be empty or contain"),
        ({"P1": irregular()}, {"how": "median"}, ValueError, "choose 'last' or 'mean'"),
        ({"P1": irregular()}, {"every": "-1s"}, ValueError, "positive step"),
        ({"P1": irregular()}, {"clock": {"P9": "1s"}}, ValueError, "`clock` names 'P9'"),
        (
            {"P1": irregular().assign(time="soon")},
            {"every": "1s"},
            ValueError,
            "Cannot read the times of unit 'P1'",
        ),
    ],
)
def test_what_cannot_be_read_is_said(exports, options, error, match):
    with pytest.raises(error, match=match):
        read_historian(exports, **options)


def test_the_table_goes_straight_into_a_fit():
    from skfedcausal import FederatedGrangerEstimator
    from skfedcausal.datasets import make_granger_plant

    X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    times = pd.date_range("2026-01-01", periods=500, freq="10s", tz="UTC").strftime("%Y-%m-%dT%H:%M:%SZ")
    exports = {name: pd.DataFrame(Y).add_prefix("s").assign(time=times) for name, Y in X.items()}
    table = read_historian(exports, every="10s")
    same = FederatedGrangerEstimator().fit(X).transition_
    np.testing.assert_allclose(FederatedGrangerEstimator().fit(table).transition_, same, rtol=1e-9)


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("", {}, "The export is empty: found in unit 'P1'"),
        ("time;a\n01.03.2026 00:00;1\n", {"tz": "Europe/Berlinn"}, "'Europe/Berlinn' is not a time zone"),
        ("time;a\n01.03.2026 00:00;1\n", {"every": "10 sheep"}, "every='10 sheep' is no length of time"),
        ("time;a\n01.03.2026 00:00;1\n", {"clock": {"P1": "late"}}, "clock='late' is no length of time"),
    ],
)
def test_mistakes_are_said(text, options, match):
    with pytest.raises(ValueError, match=match):
        read_historian({"P1": io.StringIO(text)}, **options)
