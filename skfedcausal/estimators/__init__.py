"""The three estimators."""
