"""How well incidents were found and named."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal.metrics import expected_calibration_error, incident_report, naming_report


def test_incidents_told_by_times_are_matched_by_times():
    times = pd.date_range("2026-01-01", periods=100, freq="min")
    rows = pd.DataFrame({"detected": [12, 40], "root": ["a", "b"]})
    told = rows.assign(detected=times[rows["detected"]])
    expected = incident_report(rows, [(10, 20, "a")], 100)
    assert incident_report(told, [(times[10], times[20], "a")], 100, index=times) == expected
    assert incident_report(told, [(10, 20, "a")], 100, index=times) == expected
    with pytest.raises(TypeError, match="no times"):
        incident_report(told, [(10, 20, "a")], 100)


@pytest.mark.parametrize(
    ("probability", "correct", "message"),
    [([], [], "one answer"), ([0.5], [1, 0], "one of each"), ([1.5], [1], "between 0 and 1")],
)
def test_calibration_of_what_is_no_probability_is_refused(probability, correct, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(probability, correct)


def test_names_at_every_step_are_counted_as_the_paper_counts_them():
    roots = np.array(["", "a", "undecided", "a", "b", "a", "", "b"])
    report = naming_report(roots, [(2, 6, "a"), (6, 8, "b")])
    assert report["precision"] == pytest.approx(3 / 5)
    assert report["recall"] == pytest.approx(3 / 6)
    assert report["f1"] == pytest.approx(2 * 0.6 * 0.5 / 1.1)
    assert (report["delay"], report["delay_std"], report["named"]) == (1.0, 0.0, 1.0)


def test_nobody_named_is_no_precision_and_no_delay():
    report = naming_report(["", "undecided"], [(0, 2, "a")])
    assert (report["precision"], report["recall"], report["f1"], report["named"]) == (0.0, 0.0, 0.0, 0.0)
    assert np.isnan(report["delay"])
