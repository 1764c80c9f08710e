"""Tags to blame and their trends, asked of a detector; nothing leaves the units for it."""

from copy import copy

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedRCADetector, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import TagDisplay


@pytest.fixture(scope="module")
def found():
    X, _ = make_granger_plant(3, n_samples=3200, n_sensors=4, container="frame", random_state=0)
    X.index = pd.date_range("2026-03-01", periods=len(X), freq="10s")
    detector = FederatedRCADetector().fit(X[:2600])
    later = X[2600:].copy()
    later.iloc[200:, list(later).index("unit2__s1")] += 5 * later["unit2__s1"].std()
    incidents = detector.incidents(later)
    return detector, later, incidents[incidents["detected"] >= later.index[200]].iloc[0]


def test_the_tag_that_is_wrong_comes_first_and_nothing_is_sent(found):
    detector, later, incident = found
    sent = len(detector.ledger_.table)
    table = inspection.tags(detector, later, incident)
    assert table.columns.tolist() == ["unit", "tag", "explained", "why"]
    assert table["tag"].iloc[0] == "unit2__s1"
    assert sorted(table["tag"]) == [f"unit2__s{k}" for k in range(4)]
    assert table["explained"].between(0, 1).all()
    assert len(detector.ledger_.table) == sent


def test_the_trend_leaves_its_band_by_the_size_of_the_fault(found):
    detector, later, incident = found
    trend = inspection.tag_trend(detector, later, incident)
    assert trend.index.name == "unit2__s1"
    fault = trend.index >= later.index[200]
    off = (trend["measured"] - trend["expected"])[fault]
    size = 5 * later["unit2__s1"][:200].std()
    std = ((trend["high"] - trend["low"]) / 4)[fault]
    assert abs(off.mean() - size) < 3 * std.mean()
    before = trend[~fault].dropna()
    assert before["measured"].between(before["low"], before["high"]).mean() > 0.8
    TagDisplay.from_detector(detector, later, incident, title="bias").figure_.canvas.draw()


def test_a_record_of_episodes_and_rows_without_times(found):
    detector, later, incident = found
    both = pd.concat([later[:100], later])
    both.index = pd.RangeIndex(len(both))
    row = incident.copy()
    row["start"], row["detected"], row["end"] = 300, 300, np.nan
    assert inspection.tags(detector, both, row, lengths=[100, len(later)])["tag"].iloc[0] == "unit2__s1"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda incident: incident.drop("ranking"), "without ranking"),
        (lambda incident: pd.DataFrame(), "without incidents"),
    ],
)
def test_what_is_no_incident(found, change, match):
    detector, later, incident = found
    with pytest.raises(ValueError, match=match):
        inspection.tags(detector, later, change(incident))


def test_a_tag_of_another_unit(found):
    detector, later, incident = found
    with pytest.raises(ValueError, match="'unit2' has 'unit2__s0'"):
        inspection.tag_trend(detector, later, incident, "unit1__s0")


def test_a_unit_at_a_site_of_its_own(found):
    detector, later, incident = found
    there = copy(detector)
    there._units = {}
    with pytest.raises(ValueError, match="at its site"):
        inspection.tags(there, later, incident)
