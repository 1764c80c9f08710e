"""Forecasts with what they may miss."""

import warnings

import numpy as np
from scipy import stats

from ..server.forecasts import begin_of, counted_steps, forecast_covariances
from ..server.straight import expected_states
from ._interventions import check_confidence


def check_band(confidence, return_std):
    """Refuse a confidence that is no probability, or one beside standard deviations."""
    if confidence is None:
        return
    check_confidence(confidence)
    if return_std:
        raise ValueError("Got `confidence` and `return_std`; ask for a band or for standard deviations.")


def banded_forecast(estimator, units, start, index, confidence, return_std):
    """Mean, low and high of the rows from `start` on, or mean and standard deviation."""
    check_band(confidence, return_std)
    run, predicted = expected_states(estimator.server_, units.messages(until=start))
    n_steps = units.n_samples - start
    _warn_of_few_rows(run.plain.record, start, n_steps)
    covariances = forecast_covariances(run, start, n_steps, confidence)
    answers = estimator._mapped(units, predicted[start:], covariances)
    mean, columns = estimator._measured(answers)
    std = np.sqrt(estimator._measured(answers, "variance")[0])
    found = [mean, std]
    if not return_std:
        half = stats.norm.ppf((1 + confidence) / 2) * std
        found = [mean, mean - half, mean + half]
    return tuple(estimator._framed(part, columns, index) for part in found)


def _warn_of_few_rows(record, start, n_steps):
    """Say from where on no forecast of as many rows has shown what it misses."""
    counted = counted_steps(record, start)
    if n_steps > counted:
        warnings.warn(
            f"There are {start - begin_of(record, start)} rows before `start`, too few to see what forecasts of "
            f"{n_steps} rows miss: from {counted + 1} rows ahead on bands are what the plant says, which is often too "
            "sure. Give X three times as many rows before `start` as are forecast, or forecast fewer.",
            stacklevel=4,
        )
