"""What a change of inputs does to the sensors of all units: asked of the server, answered by the units."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ..client.habits import ends_of
from ..containers.layout import listed
from ..message.requests import FactualRequest, Measurements
from ..statespace.episodes import episodes
from ._engine import check_held_loops, engine_of
from ._interventions import trajectory, unit_name


def asked_counterfactual(estimator, n, u0, u1, horizon, level, return_std, loops, split):
    """The tables of :meth:`FederatedCounterfactualEstimator.counterfactual`."""
    known = estimator._plant_inputs
    own, series = operated_inputs(estimator, n, u0, u1, horizon)
    change, owners = estimator._change(*series), estimator._input_map.owners
    held = np.isin(owners, own)
    operated = _only(above_level(estimator, estimator._input_map.values(series[0])), held)
    parts = {known.names[k]: _only(change, owners == k) for k in own} if split else {None: change}
    frames = []
    for part in parts.values():  # each given those before it, so that they add up
        frames.append(_effect_frames(estimator, part, operated, held, loops, level))
        operated = operated + part
    tables = [
        pd.concat(dict(zip(parts, some, strict=True)), axis=1, names=["input", "column"]) if split else some[0]
        for some in zip(*frames, strict=True)
    ]
    tables[0].attrs["engine"] = engine_of(estimator, loops)
    return tuple(tables) if return_std else tables[0]


def operated_inputs(estimator, n, u0, u1, horizon):
    """Positions of the inputs of a unit or of several, and all inputs under either operation, (2, horizon, k)."""
    if not isinstance(n, (list, tuple)):
        n, u0, u1 = [n], {n: u0}, {n: u1}
    known, own = estimator._plant_inputs, []
    series = np.zeros((2, horizon, len(known.names)))
    for one in n:
        at = inputs_of(estimator, unit_name(one, estimator.client_names_))
        twice = [known.names[k] for k in at if k in own]
        if twice:
            raise ValueError(f"Inputs {listed(twice)} act on several of the units asked about; name one of these.")
        own += at
        names = [known.names[j] for j in at]
        for k, values in enumerate((u0, u1)):
            if not isinstance(values, Mapping) or one not in values:
                raise ValueError(
                    f"Got no u{k} for unit {one!r}; give inputs of several units as a dict by unit, as in n."
                )
            series[k][:, at] = trajectory(estimator._coded(values[one], names), f"u{k}", horizon, names)
            known.warn_outside(series[k][:, at], at)
    return own, series


def inputs_of(estimator, name):
    """Positions of the inputs that act on a unit, of which there has to be one."""
    own = estimator._acting_on(name)
    if not own:
        with_inputs = [unit for unit in estimator.client_names_ if estimator._acting_on(unit)]
        raise ValueError(f"Unit {name!r} has no inputs; units with inputs are {', '.join(with_inputs) or 'none'}.")
    return own


def above_level(estimator, values):
    """What is sent in place of the inputs, less its level in `fit`."""
    return values - estimator._sent_inputs.expand(_level(estimator)[None])


def _level(estimator):
    """Level in `fit` of the inputs that moved there."""
    return getattr(estimator.server_, "input_level_", np.zeros(int(estimator._sent_inputs.active.sum())))


def state_effects(estimator, change, operated, held, loops, over=None):
    """What a change of inputs does to every unit's states, from how they were operated, less its level.

    Responses add a row for the mean over some rows.
    """
    known = estimator._sent_inputs
    known.check_known(change)
    if not known.active.any():
        raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
    held = held[known.active] if loops == "react" else None
    inputs = estimator._input_map
    at_once = known.active & estimator.input_at_once_.any(axis=0) & ~inputs.early[inputs.owners]
    if held is not None and at_once.any():
        raise ValueError(
            f"Inputs {listed(np.array(known.names)[at_once])} act in the row that they stand in, as `sampled` "
            "says or the record shows: a controller that responds to measurements cannot follow those of the same "
            "row. Ask with loops='hold', or fit with sampled='after' for the inputs that a controller sets."
        )
    settings = {}
    responses = estimator._engine.responses
    if held is None:
        check_held_loops(estimator, len(change) - int(np.argmax(change.any(axis=1))) - estimator._acts_at_once)
    if held is None and responses is not None:
        change, operated = change[:, known.active], operated[-len(change) :, known.active]
        now = change[-len(operated) :] + operated + _level(estimator)
        return responses.effects(change, np.vstack([now[: len(change) - len(now)], now]), over)
    if getattr(estimator.server_, "knows_curvature", False):
        settings["before"] = operated[:, known.active]
    change = change[:, known.active]
    replies = estimator.server_.effects(change, held=held, **settings)
    return replies if held is not None else estimator._engine.doubted(replies, change)


def _effect_frames(estimator, change, operated, held, loops, level):
    """Effect and standard error (NaN where the server has none) as labelled tables."""
    steps, rows = pd.RangeIndex(1, len(change) + 1, name="step"), slice(None)
    if estimator._acts_at_once:
        rows = slice(1, -1)
        change, operated = (estimator._input_map.asked(x, holds=True) for x in (change, operated))
    replies = state_effects(estimator, change, operated, held, loops)
    if level == "state":
        if estimator._channel is not None:  # each site maps the effect on its own sensors, for itself
            estimator._channel.tell({name: replace(reply, keep=True) for name, reply in replies.items()})
        known = [replies[name] for name in estimator.client_names_]
        effect, columns = np.hstack([reply.states for reply in known]), estimator.get_feature_names_out()
        variance = np.full_like(effect, np.nan)
        if all(reply.covariances is not None for reply in known):
            own = [np.diagonal(reply.covariances, axis1=1, axis2=2) for reply in known]
            variance = np.hstack(own).clip(0)
    else:
        with estimator._asking_models() as exchange:
            effect, variance, columns = with_variance(estimator, exchange.ask(replies, Measurements), np.nan)
    blocks = effect, np.sqrt(variance)
    return tuple(pd.DataFrame(block[rows], index=steps, columns=list(columns)) for block in blocks)


def with_variance(estimator, answers, unknown):
    """Measurements in answers, their variance (`unknown` where some unit has none), names of columns."""
    values, columns = estimator._measured(answers)
    if any(answer.variance is None for answer in answers.values()):
        return values, np.full_like(values, unknown), columns
    return values, estimator._measured(answers, "variance")[0], columns


def timing_effects(estimator, change, operated, held, loops, over):
    """What a change of inputs does to every unit's states, less that with another timing of inputs."""
    return estimator._engine.timing.between_timings(change[:, estimator._sent_inputs.active])


def replayed(estimator, units, change, operated, held, loops, shape, window=slice(0), effects=state_effects):
    """Effect and its variance over the rows of a record, every episode from its own start.

    Beside these the standard error of its mean over a window of rows.
    """
    effect, variance, mean_error = np.zeros(shape), np.zeros(shape), np.zeros(shape[1])
    operated = estimator._input_map.in_time(operated, units.starts)
    for start, stop in episodes(units.starts, len(change)):
        moved = np.flatnonzero(change[start:stop].any(axis=1))
        if not len(moved) or start + moved[0] + (not estimator._acts_at_once) >= stop:
            continue
        first = start + moved[0]
        if estimator._acts_at_once:
            asked, rows = estimator._input_map.asked(change[first:stop], holds=False)[:-1], slice(first, stop)
        else:
            asked, rows = change[first : stop - 1], slice(first + 1, stop)
        known = operated[start : rows.stop - (not estimator._acts_at_once)]
        over = slice(max(window.start or 0, rows.start) - rows.start, min(window.stop, rows.stop) - rows.start)
        n_over = max(over.stop - over.start, 0)
        replies = effects(estimator, asked, known, held, loops, over if n_over else None)
        found = with_variance(estimator, units.exchange.ask(replies, Measurements), np.nan)
        n_rows = rows.stop - rows.start
        effect[rows], variance[rows] = found[0][:n_rows], found[1][:n_rows]
        if n_over:  # what has no error of its mean has one of a single sign in all rows
            errors = np.sqrt(found[1][len(asked) :] if len(found[1]) > len(asked) else found[1][over])
            mean_error += errors.mean(axis=0) * n_over / (window.stop - window.start)
    return effect, variance, mean_error


def recorded_inputs(units, messages):
    """Inputs of all units side by side, as they were given or as units tell them, shape (n_samples, n_inputs)."""
    known = units.inputs or [message.inputs for message in messages.values()]
    return np.hstack([np.zeros((units.n_samples, 0)), *(U for U in known if U is not None)])


def factual_measurements(estimator, units, messages):
    """Measurements of the record, expected ones where they are missing, the variance of those, names, stops.

    The last as lowest and highest values of the columns, (2, d), infinite where the record of `fit` shows no stop.
    """
    request = dict.fromkeys(messages, FactualRequest())
    if not all(message.information.is_constant for message in messages.values()):
        states = estimator.server_.abducted(messages)
        request = {name: FactualRequest(one.states, one.covariances) for name, one in states.items()}
    answers = units.exchange.ask(request, Measurements)
    measured = with_variance(estimator, answers, 0.0)
    ends = np.repeat([[-np.inf], [np.inf]], measured[0].shape[1], axis=1)
    for where, answer in zip(estimator._places(answers)[0], answers.values(), strict=True):
        if answer.stops is not None:
            ends[:, where] = ends_of(answer.stops, answer.values.shape[1])
    return *measured, ends


def _only(change, columns):
    """The change of some columns, the others as they were."""
    return np.where(columns, change, 0.0)
