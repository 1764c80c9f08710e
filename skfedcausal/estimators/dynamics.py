"""What an engineer reads off a step response: gain, dead time, time constant, settling time, with intervals."""

import numpy as np
import pandas as pd

from ..server.planning import impulses
from ..statespace.matrices import companion, spectral_radius
from ._questions import told_loadings

_DEAD, _RISEN, _SETTLED = 0.02, 1 - np.exp(-1), 0.02  # shares of the way
_LEFT, _LEAST, _MOST = 1e-4, 60, 3000  # of a step response when it is cut off; its rows
_DRAWS = 60
_NUMBERS = ("gain", "dead_time", "time_constant", "settling_time")


def asked_gains(estimator, confidence):
    """The table of :meth:`FederatedCounterfactualEstimator.gain_table`."""
    if isinstance(confidence, bool) or not 0 < confidence < 1:
        raise ValueError(f"Got confidence={confidence!r}; give a number between 0 and 1.")
    active = estimator._sent_inputs.active
    if not active.any():
        raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
    with estimator._asking_models() as exchange:
        C, columns = told_loadings(estimator, exchange)
    early = estimator._input_map.early[estimator._input_map.owners][active]
    found = impulses(estimator.server_, C, _length(estimator), early, _DRAWS)
    values = step_numbers(np.cumsum(found.mean, axis=1))
    drawn = np.array([step_numbers(np.cumsum(found.mean + draw, axis=1)) for draw in found.draws])
    names = [name for name, moves in zip(estimator.input_names_, active, strict=True) if moves]
    pairs = pd.MultiIndex.from_product([names, columns], names=["input", "output"])
    table = {}
    for k, name in enumerate(_NUMBERS):
        table[name] = values[k].T.ravel()
        for edge, level in (("low", (1 - confidence) / 2), ("high", (1 + confidence) / 2)):
            table[f"{name}_{edge}"] = _quantile(drawn[:, k], level).T.ravel() if len(drawn) else np.nan
    return pd.DataFrame(table, index=pairs).reset_index()


def _length(estimator):
    """Rows after which a step response has come to its end."""
    A = estimator.lag_transitions_
    radius = min(float(spectral_radius(companion(np.hstack(list(A)), len(A)))), 1 - 1e-6)
    rows = len(estimator.lag_inputs_) + 1
    if radius > 0:
        rows += int(np.log(_LEFT) / np.log(radius)) + 1
    return int(np.clip(rows, _LEAST, _MOST))


def _quantile(values, level):
    """Quantiles along the first axis of what is there; NaN where hardly any draw has a value."""
    there = np.isfinite(values).mean(axis=0) > 0.5
    filled = np.where(np.isfinite(values).any(axis=0), values, 0.0)
    return np.where(there, np.nanquantile(filled, level, axis=0), np.nan)


def step_numbers(steps):
    """Gain, dead time, time constant, settling time of step responses (n_sensors, n_rows, k), each (n_sensors, k)."""
    gain = steps[:, -1]
    share = np.divide(steps, gain[:, None], out=np.full_like(steps, np.nan), where=gain[:, None] != 0)
    known = np.isfinite(share[:, -1])
    dead = _first(np.abs(share) > _DEAD).astype(float)
    risen = _crossing(share, _RISEN)
    unsettled = np.abs(share - 1) > _SETTLED
    settled = steps.shape[1] - np.argmax(unsettled[:, ::-1], axis=1).astype(float)
    settled[~unsettled.any(axis=1)] = 0.0
    times = (dead, np.maximum(risen - dead + 1, 0.0), settled)  # it rises from the row before the first that shows it
    return np.array([gain, *(np.where(known, time, np.nan) for time in times)])


def _first(there):
    """First row of each series in which something is true."""
    return np.argmax(there, axis=1)


def _crossing(share, level):
    """Row, between rows by interpolation, in which series first reach a level."""
    at = _first(share >= level)
    now = np.take_along_axis(share, at[:, None], axis=1)[:, 0]
    before = np.where(at > 0, np.take_along_axis(share, np.maximum(at - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    part = np.divide(now - level, now - before, out=np.zeros_like(now), where=now != before)
    return at - part.clip(0, 1)
