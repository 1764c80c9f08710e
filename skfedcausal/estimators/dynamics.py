"""What an engineer reads off a step response: gain, dead time, time constant, settling time, with intervals."""

from numbers import Integral

import numpy as np
import pandas as pd

from ..containers.layout import listed
from ..server.planning import impulses
from ..server.responses.runs import radius_of
from ._interventions import check_confidence

_DEAD, _RISEN, _SETTLED = 0.02, 1 - np.exp(-1), 0.02  # shares of the way
_LEFT, _LEAST, _MOST = 1e-4, 60, 3000  # of a step response when it is cut off; its rows
_DRAWS, _FREQUENCIES = 60, 200
_NUMBERS = ("gain", "dead_time", "time_constant", "settling_time")


def gains(effects, asking, confidence, row_time):
    """The table of :meth:`FederatedCounterfactualEstimator.gain_table`, times in rows of this length.

    Here as below `effects` are :class:`InputEffects`, and `asking` reaches the units, which is entered once the
    question is checked.
    """
    check_confidence(confidence)
    factors = np.array([1.0, *[row_time] * (len(_NUMBERS) - 1)])
    found, names, columns = _learned_impulses(effects, asking, _length(effects.server))
    values = step_numbers(np.cumsum(found.mean, axis=1))
    drawn = np.array([step_numbers(np.cumsum(found.mean + draw, axis=1)) for draw in found.draws])
    pairs = pd.MultiIndex.from_product([names, columns], names=["input", "output"])
    table = {}
    for k, name in enumerate(_NUMBERS):
        table[name] = values[k].T.ravel() * factors[k]
        for edge, level in _levels(confidence).items():
            ends = _quantile(drawn[:, k], level).T.ravel() if len(drawn) else np.nan
            table[f"{name}_{edge}"] = ends * factors[k]
    return pd.DataFrame(table, index=pairs).reset_index()


def row_length(row_time, times):
    """From row to row in the unit that times are counted in, where it takes `row_time`, if that is known."""
    if times not in ("rows", "seconds"):
        raise ValueError(f"Got times={times!r}; choose 'rows' or 'seconds'.")
    if times == "rows":
        return 1.0
    if row_time is None:
        raise ValueError("Rows of this record had no regular times: ask with times='rows', or fit with a time index.")
    return row_time.total_seconds()


def step_table(effects, asking, input, output, n_steps, confidence):
    """The table of :meth:`FederatedCounterfactualEstimator.step_response`."""
    n_steps = _length(effects.server) if n_steps is None else n_steps
    mean, draws = _pair(effects, asking, input, output, confidence, n_steps)
    table = _with_ends({"response": np.cumsum(mean)}, {"response": np.cumsum(draws, axis=1)}, confidence)
    return pd.DataFrame({"step": np.arange(len(mean)), **table})


def frequency_table(effects, asking, input, output, frequencies, confidence):
    """The table of :meth:`FederatedCounterfactualEstimator.frequency_response`."""
    mean, draws = _pair(effects, asking, input, output, confidence, _length(effects.server))
    if frequencies is None:
        frequencies = np.geomspace(1e-3 * np.pi, np.pi, _FREQUENCIES)
    frequencies = np.asarray(frequencies, dtype=float)
    if frequencies.ndim != 1 or not ((frequencies >= 0) & (frequencies <= np.pi)).all():
        raise ValueError("Give `frequencies` as a list of radians per step from 0 to pi.")
    turn = np.exp(-1j * np.outer(np.arange(len(mean)), frequencies))
    G, drawn = mean @ turn, draws @ turn
    phase = np.unwrap(np.angle(G))
    spread = phase + np.angle(drawn / np.where(G == 0, 1.0, G))  # the turn that is nearest to that of the mean
    table = _with_ends({"gain": np.abs(G), "phase": phase}, {"gain": np.abs(drawn), "phase": spread}, confidence)
    return pd.DataFrame({"frequency": frequencies, **table})


def _pair(effects, asking, input, output, confidence, n_steps):
    """Impulse response of a sensor to an input, (n_steps,), and draws of it."""
    check_confidence(confidence)
    if isinstance(n_steps, bool) or not isinstance(n_steps, Integral) or n_steps < 1:
        raise ValueError(f"Got n_steps={n_steps!r}; give a number of rows of at least 1.")
    found, names, columns = _learned_impulses(effects, asking, int(n_steps))
    for what, name, known in (("input", input, names), ("sensor", output, list(columns))):
        if name not in known:
            raise ValueError(f"Got unknown {what} {name!r}; known are {listed(known)}.")
    i, j = list(columns).index(output), names.index(input)
    return found.mean[i, :, j], found.mean[i, :, j] + found.draws[:, i, :, j]


def _learned_impulses(effects, asking, n_steps):
    """Answers of all sensors to one unit of every input that moved, the names of these inputs, those of the sensors."""
    spec = effects.spec
    if not spec.active.any():
        raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
    with asking as units:
        C, columns = units.loadings()
    found = impulses(effects.server, C, n_steps, spec.early[spec.active], _DRAWS)
    return found, list(spec.sent.active_names), columns


def _with_ends(values, drawn, confidence):
    """Columns of values (n,) and of the ends of their intervals by draws (n_draws, n); NaN where there are none."""
    table = {}
    for name, value in values.items():
        table[name] = value
        for edge, level in _levels(confidence).items():
            table[f"{name}_{edge}"] = np.quantile(drawn[name], level, axis=0) if len(drawn[name]) else np.nan
    return table


def _levels(confidence):
    """Quantiles at the ends of an interval."""
    return {"low": (1 - confidence) / 2, "high": (1 + confidence) / 2}


def _length(server):
    """Rows after which a step response of a learned plant has come to its end."""
    radius = min(radius_of(getattr(server, "lag_transitions_", server.transition_[None])), 1 - 1e-6)
    rows = len(getattr(server, "lag_inputs_", server.input_[None])) + 1
    if radius > 0:
        rows += int(np.log(_LEFT) / np.log(radius)) + 1
    return int(np.clip(rows, _LEAST, _MOST))


def _quantile(values, level):
    """Quantiles along the first axis of what is there of (n_draws, ...); NaN where hardly any draw has a value."""
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
    """First row of each series (n_sensors, n_rows, k) in which something is true, (n_sensors, k)."""
    return np.argmax(there, axis=1)


def _crossing(share, level):
    """Row, by interpolation, in which series (n_sensors, n_rows, k) first reach a level, (n_sensors, k)."""
    at = _first(share >= level)
    now = np.take_along_axis(share, at[:, None], axis=1)[:, 0]
    before = np.where(at > 0, np.take_along_axis(share, np.maximum(at - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    part = np.divide(now - level, now - before, out=np.zeros_like(now), where=now != before)
    return at - part.clip(0, 1)
