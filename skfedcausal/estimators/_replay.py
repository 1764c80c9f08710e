"""A record replayed under other inputs, or with sensors that are held."""

from collections.abc import Mapping
from functools import partial
from itertools import compress
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..containers.layout import listed
from ..statespace.episodes import episodes
from ._engine import engine_of
from ._input_effects import above_level, factual_measurements, recorded_inputs, replayed, timing_effects
from ._interventions import (
    LOOPS,
    NO_MOVE,
    check_choice,
    check_confidence,
    in_doubt,
    limits_of,
    replaced_input,
    verdicts,
    whatif_table,
    window_rows,
)
from ._sensors import HeldSensors, flat_questions
from .relays import reacting, relays_that_react

_SENSORS = ("controller", "force")


class Replay(NamedTuple):
    """What a record would have been under other inputs, and what speaks against it."""

    table: pd.DataFrame
    error: pd.Series  # standard error by column of the mean over a window of what would have been, from all that moves
    notes: list  # sentences about columns at a limit
    doubted: set  # columns whose effects in the window, or from the move on, hang on the timing of inputs


def asked_whatif(estimator, X, do, inputs, lengths, *, confidence, loops, split, sensors, limits=None, window=None):
    """The :class:`Replay` that answers :meth:`FederatedCounterfactualEstimator.whatif`."""
    check_choice("loops", loops, LOOPS)
    check_choice("sensors", sensors, _SENSORS)
    check_confidence(confidence)
    if not isinstance(do, Mapping):
        raise ValueError(f"Got do={do!r}; give a dict from the name of an input, 'unit__input', to what replaces it.")
    do = flat_questions(do, estimator.client_names_)
    if not do:
        raise ValueError("Got an empty `do`: name an input or a sensor, and what replaces it.")
    if limits and split:
        raise ValueError("`limits` are about all inputs together, and `split` about each alone: leave one out.")
    with estimator._asking(X, inputs, lengths) as units:
        messages = units.messages()
        recorded = recorded_inputs(units, messages)
        relays = relays_that_react(estimator.relays, do, split)
        factual, spread, columns, stops = factual_measurements(estimator, units, messages)
        moves, holds = _sorted_out(estimator, do, columns)
        replaced = _replaced(estimator, units, moves, recorded)
        asked = HeldSensors(estimator, units, holds, columns, factual) if holds else None

        def effect_of(values):
            (part, held, how), *_ = _input_parts(estimator, recorded, values, moves | relays, False, loops).values()
            return replayed(estimator, units, part, operated, held, how, factual.shape)[0]

        operated = above_level(estimator, estimator._input_map.values(recorded))
        known = estimator._plant_inputs
        replaced, reactions = reacting(relays, units, known, recorded, replaced, factual, effect_of, columns)
        parts = _input_parts(estimator, recorded, replaced, moves | relays, split, loops)
        if asked is not None and sensors == "controller":
            parts |= _controller_part(estimator, asked, recorded, factual, split, parts)
        effects, doubts = {}, {}
        over = slice(0, 0) if window is None else window_rows(window, units.n_samples, units.index)
        for source, (part, held, how) in parts.items():  # each given those before it, so that they add up
            replay = partial(replayed, estimator, units, part, operated, held, how, factual.shape)
            *found, error = replay(over)
            if estimator._engine.timing is not None and how == "hold" and part.any():
                rows = _since(units, part) if window is None else over
                found, error, doubts[source] = _with_doubt(estimator, replay, found, error, rows, confidence)
            effects[source], operated = tuple(found), operated + part
        if asked is not None and sensors == "force":
            before = sum((effect for effect, _ in effects.values()), np.zeros_like(factual))
            forced = asked.by_force(messages, before)
            _add(effects, ", ".join(asked.names) if split else None, forced)
        times = np.arange(units.n_samples) if units.index is None else units.index
        scale, tables = np.nanstd(factual, axis=0), {}
        *ends, notes = limits_of(limits, columns, factual, np.array([[-np.inf], [np.inf]]) if split else stops)
        for source, (effect, variance) in effects.items():
            effect = np.clip(factual + effect, *ends) - factual
            doubted = doubts.get(source, np.zeros(len(columns), dtype=bool))
            told = _told(units, parts.get(source), effect, variance, scale, confidence, doubted)
            tables[source] = whatif_table(
                times, columns, factual, effect, np.sqrt(variance + spread), told.items(), confidence, ends
            )
        if window is not None:
            error = pd.Series(
                np.hypot(error, np.sqrt(np.broadcast_to(spread, factual.shape)[over]).mean(axis=0)), columns
            )
    if not split:
        found = tables[None]
    else:
        found = pd.concat(tables, names=["source", None]).reset_index("source").reset_index(drop=True)
    found.attrs["relays"] = reactions
    found.attrs["engine"] = engine_of(estimator, "react" if holds else loops)
    return Replay(found, error, notes, {name for doubt in doubts.values() for name in compress(columns, doubt)})


def _with_doubt(estimator, replay, found, error, rows, confidence):
    """An effect, and the error of its mean, with the doubt that the timing of inputs leaves; columns in doubt."""
    (effect, variance), apart = found, replay(effects=timing_effects)[0]
    if estimator._engine.responses is None:  # whose bands have it
        variance, error = variance + np.square(apart), np.hypot(error, apart[rows].mean(axis=0))
    rest = np.sqrt((variance - np.square(apart)).clip(0))
    return (effect, variance), error, in_doubt(apart[rows], rest[rows], confidence)


def _told(units, part, effect, variance, spread, confidence, doubted):
    """Trust and verdict by column, of the rows of each episode from the first move on."""
    moved = effect.any(axis=1) if part is None else part[0].any(axis=1) | effect.any(axis=1)
    if not moved.any():
        return {"trust": np.zeros(len(spread)), "verdict": [NO_MOVE] * len(spread)}
    since = _since(units, moved[:, None])
    trust, verdict = verdicts(effect[since], np.sqrt(variance[since]), spread, confidence, doubted)
    return {"trust": trust, "verdict": verdict}


def _since(units, change):
    """Rows of each episode from the first move on."""
    since, moved = np.zeros(len(change), dtype=bool), change.any(axis=1)
    for start, stop in episodes(units.starts, len(moved)):
        since[start:stop] = np.logical_or.accumulate(moved[start:stop])
    return since


def _sorted_out(estimator, do, columns):
    """Questions about inputs and those about sensors."""
    known = estimator._plant_inputs.names
    moves = {name: value for name, value in do.items() if name in known}
    holds = {name: value for name, value in do.items() if name not in known and name in set(columns)}
    unknown = [name for name in do if name not in moves and name not in holds]
    if unknown:
        raise ValueError(
            f"Got unknown input {unknown[0]!r}; known inputs are {listed(known)}, and sensors that can be held are "
            f"{listed(columns)}."
        )
    return moves, holds


def _replaced(estimator, units, moves, recorded):
    """Inputs with those that are moved replaced; those that follow an instrument which is moved, follow it."""
    known, replaced = estimator._plant_inputs, recorded.copy()
    for name, value in moves.items():
        k = known.position(name)
        series = replaced_input(value, recorded[:, k], units.index, name, estimator._levels.get(name))
        known.warn_outside(series[:, None], [k])
        replaced[:, k] = series
        if name in estimator._idle:
            through, change = estimator._instruments.followed(name, series - recorded[:, k], units.starts)
            if through in moves:
                raise ValueError(f"Got both {through!r} and its instrument {name!r}, which acts through it; give one.")
            replaced[:, known.position(through)] += change
            replaced[:, k] = recorded[:, k]
    return replaced


def _input_parts(estimator, recorded, replaced, moves, split, loops):
    """Changes of what is sent by source, each with the inputs that no controller moves and how the others behave."""
    change, owners = estimator._change(recorded, replaced), estimator._input_map.owners
    at = {name: estimator._plant_inputs.position(estimator._through(name)) for name in moves}
    held = np.isin(owners, list(at.values()))
    if not split:
        return {None: (change, held, loops)}
    return {name: (np.where(owners == k, change, 0.0), held, loops) for name, k in at.items()}


def _controller_part(estimator, asked, recorded, factual, split, parts):
    """The change of set points that brings sensors where they are to be held; only their controllers respond."""
    change = estimator._change(recorded, recorded + asked.by_controllers(factual))
    units = {name.split("__")[0] for name in asked.names}
    owners = [estimator._plant_inputs.units[k] not in units for k in estimator._input_map.owners]
    if split or not parts[None][0].any():
        return {", ".join(asked.names) if split else None: (change, np.array(owners, dtype=bool), "react")}
    raise ValueError("Inputs and controllers of sensors are moved at once: ask with split=True, or sensors='force'.")


def _add(effects, source, more):
    there = effects.get(source)
    effects[source] = more if there is None else tuple(a + b for a, b in zip(there, more, strict=True))
