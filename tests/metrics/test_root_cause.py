"""How well incidents were found and named."""

import pandas as pd
import pytest

from skfedcausal.metrics import expected_calibration_error, incident_report


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
