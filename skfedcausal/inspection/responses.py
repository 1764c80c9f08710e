"""What inputs do to sensors: over time, frequency and doses, in an engineer's numbers, and how sure that is."""

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arguments import Inputs, Lengths, Record, Setting, Unit, as_numbers, check_choice, check_confidence, check_number
from ..containers.arrays import refuse_unknown
from ..estimators._interventions import long_table, two_sided, unit_name
from ..estimators._parts import AskedInputs
from ..message.requests import AggregateRequest, Measurements
from ..message.states import EffectReply
from ..server.estimation.input_checks import HELD
from ..server.planning import impulses, lasting_covariances
from ..server.responses.runs import radius_of
from ._asked import asked_of, fitted
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators.counterfactual import FederatedCounterfactualEstimator


# What an engineer reads off a step response: gain, dead time, time constant, settling time.

_DEAD, _RISEN, _SETTLED = 0.02, 1 - np.exp(-1), 0.02  # shares of the way


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


# What inputs do to sensors: over time, over frequency, over doses, and how sure that is.

_NUMBERS = ("gain", "dead_time", "time_constant", "settling_time")


def gain_table(
    est: "FederatedCounterfactualEstimator", *, confidence: float = 0.9, times: str = "rows"
) -> pd.DataFrame:
    """Gain, dead time, time constant and settling time of every input and sensor, with intervals.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    confidence : float, default=0.9
        Of every interval.
    times : {"rows", "seconds"}, default="rows"
        What dead time, time constant and settling time are counted in; seconds for a record whose rows have times.

    Returns
    -------
    DataFrame
        One row per pair of an input (column of `input_`) and a sensor: ``input, output``, and of each of the
        following a value and the ends ``_low`` and ``_high`` of its interval. ``gain``: where the sensor ends
        after the input has moved by one and stayed there, in the units of both. In `times`: ``dead_time``, in
        which less than 2 % of the way is done; ``time_constant``, from the last of these until 63 % of it are;
        ``settling_time``, from the move until the sensor stays within 2 % of its end. NaN for times of
        pairs whose gain is zero, and for intervals where the server has no sampling covariance.

    Raises
    ------
    ValueError
        If no input moved in `fit`, `confidence` is no probability, or rows have no times.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import gain_table
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> table = gain_table(FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs))
    >>> table.shape
    (32, 14)
    """
    asked = fitted(est, AskedInputs, "gain_table")
    check_confidence(confidence)
    row_time, effects = _row_length(asked.row_time, times), asked.effects()
    factors = np.array([1.0, *[row_time] * (len(_NUMBERS) - 1)])
    found, names, columns = _learned_impulses(effects, asked, _length(effects.server))
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


def step_response(
    est: "FederatedCounterfactualEstimator",
    input: str,
    output: str,
    *,
    n_steps: int | None = None,
    confidence: float = 0.9,
) -> pd.DataFrame:
    """What a sensor does after an input has moved by one and stayed there.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    input, output : str
        Column of `input_` by its name, and sensor, ``unit__sensor``.
    n_steps : int, default=None
        Rows from the move on. None: until it has come to its end.
    confidence : float, default=0.9

    Returns
    -------
    DataFrame
        One row per row from that of the move, 0, on: ``step, response, response_low, response_high``.

    Raises
    ------
    ValueError
        If the input or sensor is unknown, the input never moved in `fit`, or a setting is invalid.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import step_response
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> step_response(est, "unit0__u0", "unit1__x0", n_steps=10).shape
    (10, 4)
    """
    asked = fitted(est, AskedInputs, "step_response")
    mean, draws = _pair(asked, input, output, confidence, n_steps)
    table = _with_ends({"response": np.cumsum(mean)}, {"response": np.cumsum(draws, axis=1)}, confidence)
    return pd.DataFrame({"step": np.arange(len(mean)), **table})


def frequency_response(
    est: "FederatedCounterfactualEstimator",
    input: str,
    output: str,
    *,
    frequencies: ArrayLike | None = None,
    confidence: float = 0.9,
) -> pd.DataFrame:
    """Gain and phase of a sensor beside an input over frequency: the numbers of a Bode plot.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    input, output : str
        As in :func:`step_response`.
    frequencies : sequence of float, default=None
        Radians per row, from 0 to pi; None for 200 of them.
    confidence : float, default=0.9

    Returns
    -------
    DataFrame
        One row per frequency: ``frequency, gain, gain_low, gain_high, phase, phase_low, phase_high``, the phase in
        radians.

    Raises
    ------
    ValueError
        If `frequencies` are none, and as :func:`step_response`.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import frequency_response
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> frequency_response(est, "unit0__u0", "unit1__x0", frequencies=[0.0, 0.1]).shape
    (2, 7)
    """
    asked = fitted(est, AskedInputs, "frequency_response")
    mean, draws = _pair(asked, input, output, confidence)
    usual = np.geomspace(1e-3 * np.pi, np.pi, TUNING.responses_frequencies)
    frequencies = usual if frequencies is None else as_numbers(frequencies, "frequencies")
    if (frequencies < 0).any() or (frequencies > np.pi).any():
        raise ValueError("Give `frequencies` as a list of radians per step from 0 to pi.")
    turn = np.exp(-1j * np.outer(np.arange(len(mean)), frequencies))
    G, drawn = mean @ turn, draws @ turn
    phase = np.unwrap(np.angle(G))
    spread = phase + np.angle(drawn / np.where(G == 0, 1.0, G))  # the turn that is nearest to that of the mean
    table = _with_ends({"gain": np.abs(G), "phase": phase}, {"gain": np.abs(drawn), "phase": spread}, confidence)
    return pd.DataFrame({"frequency": frequencies, **table})


def dose_response(
    est: "FederatedCounterfactualEstimator",
    X: Record,
    input: str,
    doses: ArrayLike,
    window: tuple[Any, ...],
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    confidence: float = 0.9,
    loops: str = "hold",
) -> pd.DataFrame:
    """Mean effect over a window of holding an input at each of several values there.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
    input : str
        Its flat name, ``unit__input``.
    doses : sequence
        Values, or names of levels.
    window : tuple
        As in `impact`.
    inputs, lengths
        As in `fit`.
    confidence : float, default=0.9
    loops : {"hold", "react"}, default="hold"

    Returns
    -------
    DataFrame
        One row per dose and column: ``dose, column, effect, low, high``, the effect a mean over the window
        and against the record as it is.

    Raises
    ------
    ValueError
        If `doses` is no list of values, and as `impact`.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import dose_response
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> table = dose_response(est, X, "unit0__u0", [0.0, 1.0], (1000, 1010), inputs=truth.inputs)
    >>> table["dose"].unique().tolist()
    [0.0, 1.0]
    """
    asked_of(est, AskedInputs, "dose_response")
    how: dict[str, Any] = {"inputs": inputs, "lengths": lengths, "loops": loops, "confidence": confidence}
    how |= {"margin": 0.0, "question": "would"}
    values = np.asarray(doses, dtype=object)  # words among them are levels
    if values.ndim != 1 or not len(values):
        raise ValueError(f"Got doses of shape {values.shape}; give a list of values of input {input!r}.")
    parts = []
    for dose in values.tolist():
        total = est.impact(X, {input: dose}, window, **how).total
        ends = {"effect": total["mean"], "low": total["mean_low"], "high": total["mean_high"]}
        parts.append(pd.DataFrame({"dose": dose, "column": total["column"], **ends}))
    return pd.concat(parts, ignore_index=True)


def sensitivity(
    est: "FederatedCounterfactualEstimator",
    n: Unit,
    u0: Setting,
    u1: Setting,
    *,
    horizon: int = 1,
    strength: float = 0.5,
    confidence: float = 0.9,
) -> pd.DataFrame:
    r"""How wrong an effect may be if something that nobody measures moves the input and the plant at once.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    n, u0, u1, horizon
        As in `counterfactual`.
    strength : float, default=0.5
        Share of the variance of the inputs that a hidden cause explains, at least 0 and below 1. It may be all of
        what disturbs the plant.
    confidence : float, default=0.9
        Of the band of the effect without a hidden cause, to which that of the cause is added.

    Returns
    -------
    DataFrame
        One row per step and sensor: ``step, column, effect, low, high``, and ``voided_at``, the strength from which
        on the band holds zero: how strong a hidden cause has to be to void the sign of the effect.

    Raises
    ------
    ValueError
        As `counterfactual`, or if the server has no standard errors.

    Notes
    -----
    A cause that explains a share s of the variance of an input and moves the sensor in k rows by as much as all
    disturbances do, :math:`\sigma_k`, looks like an effect of :math:`\sqrt{s / (1 - s)}\, \sigma_k` for every
    standard deviation that the input moves (omitted-variable bias [1]_). `hidden_causes_` says whether a record
    shows a hidden cause; a record that does not is no proof that there is none.

    References
    ----------
    .. [1] Cinelli, Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of the
           Royal Statistical Society B 82(1).

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import sensitivity
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> table = sensitivity(est, "unit0", 0.0, 1.0, horizon=3)
    >>> table.columns.tolist()
    ['step', 'column', 'effect', 'low', 'high', 'voided_at']
    """
    asked = fitted(est, AskedInputs, "sensitivity")
    effects = asked.effects()
    effects.check_covariances("a band against hidden causes")
    for name, value in (("strength", strength), ("confidence", confidence)):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
            raise ValueError(f"Got {name}={value!r}; give a number from 0 on and below 1.")
    effect, std = est.counterfactual(n, u0, u1, horizon=horizon, return_std=True)
    with asked.models() as units:
        like = _looks_like(effects, units, (n, u0, u1, horizon), len(effect))
    error, size = two_sided(confidence) * std.to_numpy(), effect.to_numpy()
    width = error + np.sqrt(strength / (1 - strength)) * like
    left = np.maximum(np.abs(size) - error, 0.0)
    voided = np.square(left) / np.maximum(np.square(left) + np.square(like), np.finfo(float).tiny)
    blocks = {"effect": size, "low": size - width, "high": size + width, "voided_at": voided}
    return long_table("step", effect.index, effect.columns, blocks)


def aggregate_counterfactual(est: "FederatedCounterfactualEstimator", unit: str | int, scale: float) -> pd.Series:
    """What a unit can answer alone: the effect of scaling the others' inputs all together.

    The unit knows the mean influence ``phi = sum_n B_mn mean(u_n)`` of the other units' inputs on its
    states, not which input it came from (question Q3 of the second paper): this is an aggregate.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    unit : str or int
        The unit that asks about its own sensors.
    scale : float
        Level of all other units' inputs, as a multiple of what it was.

    Returns
    -------
    Series
        Named "aggregate of all other units' inputs": change of the unit's sensors one step ahead,
        ``C_m phi (scale - 1)``.

    Raises
    ------
    ValueError
        If no unit has inputs that moved in `fit`.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import aggregate_counterfactual
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> aggregate_counterfactual(est, "unit1", 1.2).shape
    (8,)
    """
    asked = fitted(est, AskedInputs, "aggregate_counterfactual")
    name = unit_name(unit, est.client_names_)
    if not asked.effects().spec.written.active.any():
        raise ValueError("No unit of this plant has inputs that moved in `fit`.")
    with asked.models() as units:
        answer = units.exchange.ask({name: AggregateRequest(float(scale))}, Measurements)[name]
    return pd.Series(answer.values[0], index=list(answer.columns), name="aggregate of all other units' inputs")


def _row_length(row_time, times):
    """From row to row in the unit that times are counted in, where it takes `row_time`, if that is known."""
    check_choice("times", times, ("rows", "seconds"))
    if times == "rows":
        return 1.0
    if row_time is None:
        raise ValueError("Rows of this record had no regular times: ask with times='rows', or fit with a time index.")
    return row_time.total_seconds()


def _pair(asked, input, output, confidence, n_steps=None):
    """Impulse response of a sensor to an input, (n_steps,), and draws of it."""
    check_confidence(confidence)
    effects = asked.effects()
    n_steps = _length(effects.server) if n_steps is None else n_steps
    check_number(n_steps, "n_steps")
    found, names, columns = _learned_impulses(effects, asked, int(n_steps))
    for what, name, known in (("input", input, names), ("sensor", output, list(columns))):
        refuse_unknown([name], known, f"Got unknown {what}")
    i, j = list(columns).index(output), names.index(input)
    return found.mean[i, :, j], found.mean[i, :, j] + found.draws[:, i, :, j]


def _learned_impulses(effects, asked, n_steps):
    """Answers of all sensors to one unit of every input that moved, the names of these inputs, those of the sensors."""
    spec = effects.spec
    if not spec.active.any():
        raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
    with asked.models() as units:
        C, columns = units.loadings()
    found = impulses(effects.server, C, n_steps, spec.early[spec.active], TUNING.responses_draws)
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
        rows += int(np.log(TUNING.responses_left) / np.log(radius)) + 1
    return int(np.clip(rows, TUNING.responses_least, TUNING.responses_most))


def _quantile(values, level):
    """Quantiles along the first axis of what is there of (n_draws, ...); NaN where hardly any draw has a value."""
    there = np.isfinite(values).mean(axis=0) > 0.5
    filled = np.where(np.isfinite(values).any(axis=0), values, 0.0)
    return np.where(there, np.nanquantile(filled, level, axis=0), np.nan)


def _looks_like(effects, units, operation, n_steps):
    """What a cause that explains half of the inputs' variance looks like in their effect, (n_steps, n_sensors).

    As noise that lasts as long as the inputs stay, in standard deviations of inputs over as many rows.
    """
    _, (before, after) = effects.operated(*operation)
    change = effects.spec.change(before, after)[:, effects.spec.active]
    change = np.vstack([change, change[-1:]])[:n_steps]  # with a row more where inputs act at once
    rows = np.arange(1, n_steps + 1) + TUNING.responses_lasted
    held = effects.server.held_variances_
    variances = np.column_stack([np.interp(np.log(rows), np.log(HELD), own) for own in held.T])
    moved = np.linalg.norm(change / np.sqrt(np.maximum(variances, np.finfo(float).tiny)), axis=1)
    by_unit = lasting_covariances(effects.server, n_steps + TUNING.responses_lasted)
    lasted = [V[TUNING.responses_lasted :] for V in by_unit]
    names = zip(effects.server.names_, lasted, strict=True)
    states = {name: EffectReply(np.zeros(V.shape[:2]), V) for name, V in names}
    variance = units.measured(units.exchange.ask(states, Measurements), "variance")[0]
    return np.maximum.accumulate(moved)[:, None] * np.sqrt(np.maximum(variance, 0.0))
