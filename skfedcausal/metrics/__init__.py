"""Scores of what the estimators answer."""

from .root_cause import expected_calibration_error, incident_report

__all__ = ["expected_calibration_error", "incident_report"]
