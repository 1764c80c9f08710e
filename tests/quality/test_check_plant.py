"""The check of a record on simulated plants with known defects."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2

from skfedcausal import check_plant
from skfedcausal.datasets import make_granger_plant
from skfedcausal.quality.check import duration
from skfedcausal.quality.clocks import (
    PairEvidence,
    evidence_by_lag,
    pooled_offsets,
    score_by_lag,
    unit_offsets,
    unit_series,
)
from skfedcausal.quality.tags import Tag

from ._defects import DEFECTS, clean_plant, swinging_door

pytestmark = pytest.mark.medium

NUMBERS = pytest.mark.parametrize("n_plants", [3, pytest.param(8, marks=pytest.mark.slow)])


def plant(n_units=3, n_samples=1500, seed=0, **options):
    options = {"links": [(k, k + 1) for k in range(n_units - 1)], "link_strength": 0.4} | options
    X, _ = make_granger_plant(n_units, n_samples=n_samples, container="frame", random_state=seed, **options)
    return X.set_axis(pd.date_range("2026-03-02", periods=n_samples, freq="10s"))


def kinds(report, column=None, unit=None):
    found = report.findings
    for name, value in (("column", column), ("unit", unit)):
        found = found if value is None else found[found[name] == value]
    return found["kind"].tolist()


@NUMBERS
@pytest.mark.parametrize("defect", list(DEFECTS))
def test_planted_defects_are_found(defect, n_plants):
    """At least 95 %: as few as this sample allows at a level of 1 %."""
    hits = 0
    for seed in range(500, 500 + n_plants):
        X, tags = clean_plant(seed)
        X, (place, wanted) = DEFECTS[defect](np.random.default_rng([seed, 1]), X, tags)
        findings = check_plant(X).findings
        where = findings["column"].where(findings["column"] != "", findings["unit"])
        hits += bool(((where == place) & findings["kind"].isin(wanted)).any())
    assert hits >= binom.ppf(0.01, n_plants, 0.95)


@NUMBERS
def test_clean_plants_have_few_findings(n_plants):
    """At most 5 % of the plants: as many as this sample allows at a level of 1 %."""
    with_findings = sum(not check_plant(clean_plant(seed)[0]).ok for seed in range(500, 500 + n_plants))
    assert with_findings <= binom.ppf(0.99, n_plants, 0.05)


@pytest.mark.parametrize("container", ["dict", "list", "array"])
def test_containers(container):
    X = plant()
    X.iloc[500:800, 2] = 3.14159265
    tables = {name: X.filter(like=name).to_numpy() for name in ("unit0", "unit1", "unit2")}
    if container == "array":
        report = check_plant(X.to_numpy(), client_labels=[c.split("__")[0] for c in X])
    else:
        report = check_plant(tables if container == "dict" else list(tables.values()))
    assert kinds(report) == ["stuck"]
    assert report.findings.loc[0, ["start", "end"]].tolist() == [500, 799]


def test_polars_tables():
    polars = pytest.importorskip("polars")
    X = plant()
    X.iloc[500:800, 2] = 3.14159265
    assert kinds(check_plant(polars.DataFrame({c: X[c].to_numpy() for c in X}))) == ["stuck"]


def test_units_with_clocks_of_their_own():
    X = plant()
    parts = {name: X.filter(like=name) for name in ("unit0", "unit1", "unit2")}
    parts["unit1"] = parts["unit1"].set_axis(parts["unit1"].index + pd.Timedelta("120s"))
    parts["unit2"] = parts["unit2"].drop(index=parts["unit2"].index[300:400])
    report = check_plant(parts)
    clock = report.findings[report.findings["kind"] == "clock"]
    assert clock["unit"].tolist() == ["unit1"]
    assert abs(clock["value"].iloc[0] - 120) <= 10
    assert kinds(report, unit="unit2") == ["outage"]
    assert report.units.set_index("unit").loc["unit1", "verdict"] == "fix first"


def test_the_advice_for_a_clock_mends_it():
    X = plant()
    X.update(X.filter(like="unit1").shift(9))
    report = check_plant(X)
    assert kinds(report) == ["clock"]
    rows = int(report.findings.loc[0, "value"] / 10)
    mended = X.copy()
    mended[X.filter(like="unit1").columns] = X.filter(like="unit1").shift(-rows)
    assert check_plant(mended.iloc[20:-20]).ok


def test_where_two_units_differ_it_is_said_at_both():
    X = plant(2, links=[("unit0", "unit1")])
    X.update(X.filter(like="unit0").shift(9))
    findings = check_plant(X).findings.query("kind == 'clock'")
    assert findings["unit"].tolist() == ["unit0", "unit1"]
    first, second = findings["value"]
    assert first == -second
    assert findings["advice"].str.contains("correct one of them, not both").all()


def test_a_weak_tie_shows_in_the_states_where_no_single_lag_does():
    """Many states and few rows dilute every lag; an influence adds up over its response."""
    X, _ = make_granger_plant(2, n_samples=700, links=[(0, 1)], link_strength=0.25, random_state=3)
    first, second = (unit_series(Y) for Y in (X["unit0"][:-20], X["unit1"][20:]))
    lags = np.arange(-150, 151)
    degrees = second.innovations.shape[1] * first.states.shape[1]
    scores = score_by_lag(second, first, 150)
    assert lags[scores.argmax()] == pytest.approx(-20, abs=2)
    alone = evidence_by_lag(second.innovations, first.innovations, 150)
    assert chi2.logsf(scores.max(), degrees) < chi2.logsf(alone.max(), degrees)


def test_scores_of_states_are_chi_squared_without_influence():
    """Whatever the states' own dynamics: what a unit's past does not tell is white."""
    X, _ = make_granger_plant(2, n_samples=4000, links=[], random_state=0)
    first, second = (unit_series(Y) for Y in X.values())
    scores = score_by_lag(second, first, 200)
    degrees = second.innovations.shape[1] * first.states.shape[1]
    # neighbouring lags are dependent over some ten lags: 401 say about as much as 40
    share = (scores > chi2.isf(0.1, degrees)).mean()
    assert share < 0.1 + 3 * np.sqrt(0.1 * 0.9 / 40)


def test_uncoupled_units_are_not_judged():
    report = check_plant(plant(2, links=[], n_samples=1000))
    assert report.ok
    assert report.units["clock"].tolist() == ["cannot tell"] * 2


def test_offsets_are_looked_for_as_far_as_asked():
    X = plant()
    X.update(X.filter(like="unit1").shift(9))
    assert check_plant(X, max_offset="60s").ok
    assert kinds(check_plant(X, max_offset="3min")) == ["clock"]
    with pytest.raises(ValueError, match="rows without times"):
        check_plant(X.reset_index(drop=True), max_offset="3min")


def test_evidence_is_chi_squared_without_correlation():
    rng = np.random.default_rng(0)
    S = evidence_by_lag(rng.standard_normal((5000, 2)), rng.standard_normal((5000, 3)), 1000)
    assert abs(S.mean() - 6) < 5 * np.sqrt(12 / len(S))
    e = rng.standard_normal((5000, 1))
    assert np.argmax(evidence_by_lag(np.roll(e, 7, axis=0), e, 50)) - 50 == 7


# -- kinds of findings --------------------------------------------------------------------------------


def test_hours_that_are_left_out_or_missing():
    X = plant(n_samples=3000)
    wall = pd.date_range("2026-03-29 00:00", periods=3000, freq="10s", tz="Europe/Berlin").tz_localize(None)
    assert kinds(check_plant(X.set_axis(wall))) == ["skipped hour"]
    assert kinds(check_plant(X.drop(index=X.index[100:150]))) == ["gap"]


def test_slow_held_and_sparse_tags():
    X = plant()
    rows = np.arange(len(X))
    X["unit0__s0"] = X["unit0__s0"].to_numpy()[rows // 6 * 6]
    X.loc[X.index[rows % 6 != 0], "unit0__s1"] = np.nan
    held = X["unit1__s0"].to_numpy().copy()
    for t in rows[1:]:  # a new value once it has moved by more than a dead band
        if abs(held[t] - held[t - 1]) < 1.5 * X["unit1__s0"].std():
            held[t] = held[t - 1]
    X["unit1__s0"] = held
    report = check_plant(X)
    assert kinds(report, "unit0__s0") == ["slow"]
    assert kinds(report, "unit0__s1") == ["slow"]
    assert kinds(report, "unit1__s0") == ["held"]
    assert report.findings.loc[0, "detail"] == "a new value every 60 s"


def test_a_slow_unit_is_usable_from_its_step():
    X = plant()
    rows = np.arange(len(X)) // 6 * 6
    own = X.filter(like="unit2").columns
    X[own] = X[own].to_numpy()[rows]
    table = check_plant(X).units.set_index("unit")
    assert table["usable"].tolist() == ["10 s", "10 s", "60 s"]
    assert table.loc["unit2", "verdict"] == "usable from 60 s"


def test_fill_values_and_empty_tags():
    X = plant()
    X.iloc[::40, 1] = -999.0
    X["unit2__s3"] = np.nan
    report = check_plant(X)
    assert kinds(report, "unit0__s1") == ["fill value"]
    assert kinds(report, "unit2__s3") == ["no data"]


@pytest.mark.parametrize(("value", "expected"), [(55.0, []), (0.125, []), (55.83619274, ["stuck"])])
def test_a_constant_tag_is_a_setpoint_unless_it_looks_measured(value, expected):
    X = plant().assign(unit0__s0=value)
    assert kinds(check_plant(X), "unit0__s0") == expected


def test_a_unit_that_repeats_its_last_values_is_out():
    X = plant()
    own = X.filter(like="unit1").columns
    X.loc[X.index[700:900], own] = X.loc[X.index[700], own].to_numpy()
    assert kinds(check_plant(X)) == ["outage"]


def test_integers_of_a_slow_state_are_neither_lines_nor_stuck():
    rng = np.random.default_rng(0)
    X = plant(2, radius=(0.97, 0.98))
    for column in X:
        X[column] = np.round(rng.uniform(1, 5) * X[column] / X[column].std())
    assert check_plant(X).ok


def test_compression_is_found_before_and_after_rounding():
    X = plant()
    y = X["unit0__s2"].to_numpy()
    X["unit0__s2"] = swinging_door(y, 0.5)
    X["unit1__s2"] = np.round(swinging_door(X["unit1__s2"].to_numpy(), 1.0), 2)
    report = check_plant(X)
    assert kinds(report, "unit0__s2") == ["interpolated"]
    assert kinds(report, "unit1__s2") == ["interpolated"]


def test_setpoints_with_ramps_modes_and_smooth_curves_are_no_defects():
    X = plant()
    corners = [0, 300, 340, 800, 900, 1400, 1450, 1499]
    X["unit0__ramp"] = np.interp(np.arange(1500), corners, [20, 20, 55.5, 55.5, 31.2, 31.2, 40, 40])
    X["unit1__mode"] = np.random.default_rng(0).choice([0.0, 1.0, 2.0, 3.0], 1500)
    X.iloc[200:700, X.columns.get_loc("unit1__mode")] = 2.0
    X["unit2__season"] = 50 + 5 * np.sin(2 * np.pi * np.arange(1500) / 20_000)
    X = X[sorted(X)]
    findings = check_plant(X).findings
    assert findings["unit"].tolist() == ["unit2"]  # the curve is no defect, but it moves
    assert findings["kind"].isin(["trend", "level shift", "wandering"]).all()


def test_lattice_of_a_tag():
    assert Tag(np.array([0.1, 0.3, 0.2, np.nan, 0.5]), np.array([0])).resolution == pytest.approx(0.1)
    assert Tag(np.random.default_rng(0).standard_normal(100), np.array([0])).resolution == 0


def test_the_report_prints_as_a_table():
    text = repr(check_plant(plant(2)))
    assert text.splitlines()[0].split() == ["unit", "tags", "usable", "gaps", "clock", "verdict", "findings"]
    assert "<table" in check_plant(plant(2))._repr_html_()


def test_a_clock_that_no_pair_of_units_shows_is_found_from_all_ties_together():
    X, _ = make_granger_plant(4, n_samples=1500, n_sensors=4, random_state=522)
    series = {name: unit_series(Y[40:] if name != "unit3" else Y[:-40]) for name, Y in X.items()}
    by_pairs = unit_offsets(series, 300)
    assert by_pairs["unit3"] is None
    found = pooled_offsets(series, by_pairs, 300)
    assert abs(found["unit3"].rows - 40) <= 2
    assert [found[name].rows for name in ("unit0", "unit1", "unit2") if found[name]] == [0, 0, 0]


def test_evidence_of_pairs_is_that_of_the_series_as_they_were_moved():
    X, _ = make_granger_plant(3, n_samples=400, random_state=1)
    series = {name: unit_series(Y) for name, Y in X.items()}
    evidence, moved = PairEvidence(series, 20), PairEvidence(series, 20)
    moved.move("unit1", 5)
    first = {name: evidence.of(name) for name in series}
    evidence.move("unit1", 5)
    for name, others in first.items():
        for other, S in evidence.of(name).items():
            np.testing.assert_array_equal(S, evidence.of(other)[name][::-1])
            np.testing.assert_array_equal(S, moved.of(name)[other])
            assert np.array_equal(others[other], S) == ("unit1" not in (name, other))


def test_evidence_for_ties_of_all_units_together_keeps_its_level():
    """Units that nothing ties, clocks of all sorts: no more offsets than the binomial allows at 1 %."""
    rng = np.random.default_rng(0)
    n_plants, wrong = 60, 0
    for _ in range(n_plants):
        noise = rng.standard_normal((3, 600, 4))
        x = np.zeros_like(noise)
        for t in range(1, 600):
            x[:, t] = 0.8 * x[:, t - 1] + noise[:, t]
        series = {str(k): unit_series(Y) for k, Y in enumerate(x)}
        found = pooled_offsets(series, dict.fromkeys(series), 100)
        wrong += any(offset is not None and offset.rows for offset in found.values())
    assert wrong <= binom.ppf(0.99, n_plants, 0.01)


@pytest.mark.parametrize(("delta", "words"), [("58s", "58 s"), ("150min", "2.5 h")])
def test_time_differences_in_words(delta, words):
    assert duration(pd.Timedelta(delta)) == words


# -- units that do not stay around one level ---------------------------------------------------------


def _steady(n_samples=1500):
    return make_granger_plant(3, n_samples=n_samples, random_state=3)[0]


def _kinds(X):
    report = check_plant(X)
    return dict(zip(report.findings["unit"], report.findings["kind"], strict=True)), report


def _moved(pattern, units=("unit0", "unit1", "unit2")):
    return {name: Y + (pattern[:, None] * Y.std(axis=0) if name in units else 0) for name, Y in _steady().items()}


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        (1.5 * np.sin(2 * np.pi * np.arange(1500) / 24), "season"),
        (1.5 * np.sin(2 * np.pi * np.arange(1500) / 144), "season"),
        (np.linspace(0, 4, 1500), "trend"),
        (np.where(np.arange(1500) < 700, 0.0, 3.0), "level shift"),
        (4.0 * (np.searchsorted([90, 250, 310, 520, 680, 790, 1000, 1110, 1300], np.arange(1500)) % 2), "modes"),
        (np.random.default_rng(5).standard_normal(1500).cumsum() * 0.1, "wander"),
    ],
)
def test_what_moves_is_named(pattern, kind):
    kinds, report = _kinds(_moved(pattern, ("unit1",)))
    said = {"wander": ("wandering", "level shift", "trend")}.get(kind, (kind,))
    assert kinds.pop("unit1") in said
    assert kinds == {}
    assert report.units.set_index("unit")["verdict"].to_dict() == {
        "unit0": "ok",
        "unit1": "level not constant",
        "unit2": "ok",
    }


def test_the_advice_can_be_followed():
    _, report = _kinds(_moved(1.5 * np.sin(2 * np.pi * np.arange(1500) / 24)))
    assert (
        report.findings["advice"]
        .str.contains(r"KalmanClient\(baseline=Baseline\(harmonics=\[24.0\]\)\)", regex=True)
        .all()
    )


def test_spikes_in_the_same_rows():
    X, rng = _steady(), np.random.default_rng(0)
    rows = rng.choice(1500, 12, replace=False)
    for Y in X.values():
        Y[rows] += 40 * Y.std(axis=0) * rng.choice([-1.0, 1.0], (12, 1))
    kinds, _ = _kinds(X)
    assert set(kinds.values()) == {"common spikes"}
    alone = _steady()
    alone["unit0"][rows] += 40 * alone["unit0"].std(axis=0)
    assert _kinds(alone)[0] == {}


def test_a_unit_and_a_sensor_that_are_there_twice():
    X = _steady()
    X["copy"] = X["unit0"].copy()
    assert _kinds(X)[0] == {"copy": "same unit"}
    X = _steady()
    X["unit1"] = np.column_stack([X["unit1"], X["unit1"][:, 2]])
    assert _kinds(X)[0] == {"unit1": "same sensor"}


@pytest.mark.slow
def test_units_that_stay_are_rarely_said_to_move():
    # each of six kinds at 0.1 % per unit and only approximately so: 5 of 120 has a chance below 1 %
    moved = 0
    for seed in range(40):
        X, _ = make_granger_plant(3, n_samples=1200, random_state=100 + seed)
        moved += len(check_plant(X).findings)
    assert moved < 5
