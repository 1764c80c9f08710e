"""Scores of what the estimators answer."""

from .root_cause import alarm_report, expected_calibration_error, incident_report, naming_report

__all__ = ["alarm_report", "expected_calibration_error", "incident_report", "naming_report"]
