"""Forecasts with what they may miss."""

import numpy as np
from scipy import stats

from ..server.forecasts import forecast_covariances
from ..server.straight import expected_states


def check_band(confidence, return_std):
    """Refuse a confidence that is no probability, or one beside standard deviations."""
    if confidence is None:
        return
    is_number = isinstance(confidence, float | int | np.number) and not isinstance(confidence, bool)
    if not (is_number and 0 < confidence < 1):
        raise ValueError(f"Got confidence={confidence!r}; give a number between 0 and 1, such as 0.9.")
    if return_std:
        raise ValueError("Got `confidence` and `return_std`; ask for a band or for standard deviations.")


def banded_forecast(estimator, units, start, index, confidence, return_std):
    """Mean, low and high of the rows from `start` on, or mean and standard deviation."""
    check_band(confidence, return_std)
    run, predicted = expected_states(estimator.server_, units.messages(until=start))
    covariances = forecast_covariances(run, start, units.n_samples - start, confidence)
    answers = estimator._mapped(units, predicted[start:], covariances)
    mean, columns = estimator._measured(answers)
    std = np.sqrt(estimator._measured(answers, "variance")[0])
    found = [mean, std]
    if not return_std:
        half = stats.norm.ppf((1 + confidence) / 2) * std
        found = [mean, mean - half, mean + half]
    return tuple(estimator._framed(part, columns, index) for part in found)
