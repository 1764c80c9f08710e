"""Scores of what the estimators answer."""

from .root_cause import expected_calibration_error, incident_report, naming_report
from .run_lengths import alarm_report

__all__ = ["alarm_report", "expected_calibration_error", "incident_report", "naming_report"]
