"""A record replayed under other inputs or with held sensors, and what a move of inputs did to a plant."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..arguments import check_choice, check_confidence
from ..beside import beside
from ..containers.arrays import SEPARATOR, flat_name, listed
from ..message.requests import Measurements
from ..message.states import EffectReply
from ..server.planning import held_effects
from ..statespace.episodes import episodes
from ._interventions import (
    CANNOT_TELL,
    EFFECT,
    LOOPS,
    NO_MOVE,
    NOT_YET,
    NOTHING,
    SAY_WHEN,
    factual_measurements,
    in_doubt,
    limits_of,
    recorded_inputs,
    replaced_input,
    two_sided,
    verdicts,
    whatif_table,
    window_rows,
)
from .relays import reacting, relays_that_react
from .tuning import TUNING

# A record replayed under other inputs, or with sensors that are held.

_SENSORS = ("controller", "force")
_SETTLED = 1000  # rows after which a controller has brought its sensor to where it ends


class Replay(NamedTuple):
    """What a record would have been under other inputs, and what speaks against it."""

    table: pd.DataFrame
    error: pd.Series | None  # standard error by column of the mean over a window of what would have been, if any
    notes: list  # sentences about columns at a limit
    doubted: set  # columns whose effects in the window, or from the move on, hang on the timing of inputs


class SourceEffect(NamedTuple):
    """What one source does to a record: the effect and its variance, (n_samples, d), the error of its mean, (d,).

    The mean is that over a window. And columns whose effect hangs on the timing of inputs, (d,) of bool.
    """

    effect: np.ndarray
    variance: np.ndarray
    error: np.ndarray
    doubted: np.ndarray


def replayed_record(effects, asking, do, *, confidence, loops, split, sensors, limits=None, window=None):
    """The :class:`Replay` that answers :meth:`FederatedCounterfactualEstimator.whatif`.

    `effects` are :class:`InputEffects`, and `asking` reaches the units, which is entered once the question is checked.
    """
    check_choice("loops", loops, LOOPS)
    check_choice("sensors", sensors, _SENSORS)
    check_confidence(confidence)
    do = _questions(do, effects.server.names_)
    if limits and split:
        raise ValueError("`limits` are about all inputs together, and `split` about each alone: leave one out.")
    relays = relays_that_react(effects.relays, do, split)
    with asking as units:
        messages = units.messages()
        recorded, factual = recorded_inputs(units, messages), factual_measurements(effects.server, units, messages)
        shape, operated = factual.values.shape, effects.above_level(recorded)
        moves, holds = _sorted_out(effects, do, factual.columns)
        replaced = _replaced(effects, units, moves, recorded)
        held = HeldSensors(effects, units, holds, factual.columns, factual.values) if holds else None

        def effect_of(values):
            (part, still, how), *_ = _input_parts(effects, recorded, values, moves | relays, False, loops).values()
            return effects.replayed(units, part, operated, still, how, shape)[0]

        known, values = effects.spec.written, factual.values
        replaced, reactions = reacting(relays, units, known, recorded, replaced, values, effect_of, factual.columns)
        parts = _input_parts(effects, recorded, replaced, moves | relays, split, loops)
        if held is not None and sensors == "controller":
            parts |= _controller_part(effects, held, recorded, factual.values, split, parts)
        rows = None if window is None else window_rows(window, units.n_samples, units.index)
        found = _source_effects(effects, units, parts, operated, shape, rows, confidence)
        if held is not None and sensors == "force":
            before = sum((one.effect for one in found.values()), np.zeros(shape))
            _add(found, ", ".join(held.names) if split else None, *held.by_force(messages, before))
    stops = np.array([[-np.inf], [np.inf]]) if split else factual.stops
    *ends, notes = limits_of(limits, factual.columns, factual.values, stops)
    tables = {name: _table(units, parts.get(name), one, factual, ends, confidence) for name, one in found.items()}
    table = tables[None] if not split else pd.concat(tables, names=["source", None]).reset_index("source")
    table = table.reset_index(drop=True)
    table.attrs |= {"relays": reactions, "engine": effects.engine_for("react" if holds else loops)}
    doubted = {name for one in found.values() for name in compress(factual.columns, one.doubted)}
    return Replay(table, None if rows is None else _error_of_mean(found[None], factual, rows), notes, doubted)


def _source_effects(effects, units, parts, operated, shape, rows, confidence):
    """The :class:`SourceEffect` of each part of a change, their means over some rows of the record, if any."""
    found = {}
    for source, (part, held, how) in parts.items():  # each given those before it, so that they add up
        replay = partial(effects.replayed, units, part, operated, held, how, shape)
        effect, variance, error = replay(slice(0, 0) if rows is None else rows)
        found[source] = SourceEffect(effect, variance, error, np.zeros(shape[1], dtype=bool))
        if effects.engine.timing is not None and how == "hold" and part.any():
            seen = _since(units, part) if rows is None else rows
            found[source] = _with_doubt(effects, replay, found[source], seen, confidence)
        operated = operated + part
    return found


def _with_doubt(effects, replay, one, rows, confidence):
    """The :class:`SourceEffect` with the doubt that the timing of inputs leaves, as it shows in some rows."""
    apart, variance, error = replay(effects=effects.between_timings)[0], one.variance, one.error
    if effects.engine.responses is None:  # whose bands have it
        variance, error = variance + np.square(apart), np.hypot(error, apart[rows].mean(axis=0))
    rest = np.sqrt((variance - np.square(apart)).clip(0))
    return SourceEffect(one.effect, variance, error, in_doubt(apart[rows], rest[rows], confidence))


def _add(found, source, effect, variance):
    """Add an effect to that of a source, or as that of another one."""
    if source in found:
        one = found[source]
        found[source] = SourceEffect(one.effect + effect, one.variance + variance, one.error, one.doubted)
    else:
        none = np.zeros(effect.shape[1])
        found[source] = SourceEffect(effect, variance, none, none.astype(bool))


def _table(units, part, one, factual, ends, confidence):
    """Long table of the effect of a source, which is a `part` of a change or sensors that are held by force."""
    effect = np.clip(factual.values + one.effect, *ends) - factual.values
    times = np.arange(units.n_samples) if units.index is None else units.index
    told = _told(units, part, effect, one.variance, np.nanstd(factual.values, axis=0), confidence, one.doubted)
    std = np.sqrt(one.variance + factual.variance)
    return whatif_table(times, factual.columns, factual.values, effect, std, told.items(), confidence, ends)


def _error_of_mean(one, factual, rows):
    """Standard error by column of the mean over some rows of what would have been."""
    recorded = np.sqrt(np.broadcast_to(factual.variance, factual.values.shape)[rows]).mean(axis=0)
    return pd.Series(np.hypot(one.error, recorded), factual.columns)


def _told(units, part, effect, variance, spread, confidence, doubted):
    """Trust and verdict by column, (d,), of an effect (n_samples, d) from the first move of each episode on."""
    moved = effect.any(axis=1) if part is None else part[0].any(axis=1) | effect.any(axis=1)
    if not moved.any():
        return {"trust": np.zeros(len(spread)), "verdict": [NO_MOVE] * len(spread)}
    since = _since(units, moved[:, None])
    trust, verdict = verdicts(effect[since], np.sqrt(variance[since]), spread, confidence, doubted)
    return {"trust": trust, "verdict": verdict}


def _since(units, change):
    """Rows of each episode from the first move of a change (n_samples, k) on, (n_samples,) of bool."""
    since, moved = np.zeros(len(change), dtype=bool), change.any(axis=1)
    for start, stop in episodes(units.starts, len(moved)):
        since[start:stop] = np.logical_or.accumulate(moved[start:stop])
    return since


def _sorted_out(effects, do, columns):
    """Questions about inputs and those about sensors."""
    known = effects.spec.written.names
    moves = {name: value for name, value in do.items() if name in known}
    holds = {name: value for name, value in do.items() if name not in known and name in set(columns)}
    unknown = [name for name in do if name not in moves and name not in holds]
    if unknown:
        raise ValueError(
            f"Got unknown input {unknown[0]!r}; known inputs are {listed(known)}, and sensors that can be held are "
            f"{listed(columns)}."
        )
    return moves, holds


def _replaced(effects, units, moves, recorded):
    """Inputs (n_samples, n_inputs) with those that are moved replaced; what follows an instrument moves with it."""
    spec, replaced = effects.spec, recorded.copy()
    known = spec.written
    for name, value in moves.items():
        k = known.position(name)
        series = replaced_input(value, recorded[:, k], units.index, name, spec.levels.get(name))
        known.warn_outside(series[:, None], [k])
        replaced[:, k] = series
        if name in spec.idle:
            through, change = spec.instruments.followed(name, series - recorded[:, k], units.starts)
            if through in moves:
                raise ValueError(f"Got both {through!r} and its instrument {name!r}, which acts through it; give one.")
            replaced[:, known.position(through)] += change
            replaced[:, k] = recorded[:, k]
    return replaced


def _input_parts(effects, recorded, replaced, moves, split, loops):
    """Changes of what is sent, (n_samples, n_sent), by source.

    Each with the columns that no controller moves, (n_sent,) of bool, and how the others behave.
    """
    change, owners = effects.spec.change(recorded, replaced), effects.spec.owners
    at = {name: effects.spec.written.position(effects.spec.through(name)) for name in moves}
    held = np.isin(owners, list(at.values()))
    if not split:
        return {None: (change, held, loops)}
    return {name: (np.where(owners == k, change, 0.0), held, loops) for name, k in at.items()}


def _controller_part(effects, held_sensors, recorded, factual, split, parts):
    """The change of set points that brings sensors where they are to be held; only their controllers respond."""
    change = effects.spec.change(recorded, recorded + held_sensors.by_controllers(factual))
    units = {name.split("__")[0] for name in held_sensors.names}
    owners = [effects.spec.written.units[k] not in units for k in effects.spec.owners]
    if split or not parts[None][0].any():
        return {", ".join(held_sensors.names) if split else None: (change, np.array(owners, dtype=bool), "react")}
    raise ValueError("Inputs and controllers of sensors are moved at once: ask with split=True, or sensors='force'.")


# -- sensors that are held -------------------------------------------------------------------------


def _questions(do, units):
    """What is to be replaced by flat name, of a dict in which units may have dicts of their columns."""
    if not isinstance(do, Mapping):
        raise ValueError(f"Got do={do!r}; give a dict from the name of an input, 'unit__input', to what replaces it.")
    flat: dict = {}
    for name, value in do.items():
        if name in units and not isinstance(value, (Mapping, pd.DataFrame)):
            raise ValueError(
                f"Got a {type(value).__name__} for unit {name!r}; give a dict from its sensors or inputs to values."
            )
        inner = value.items() if name in units else [(None, value)]
        flat |= {name if own is None else flat_name(name, str(own)): one for own, one in inner}
    if not flat:
        raise ValueError("Got an empty `do`: name an input or a sensor, and what replaces it.")
    return flat


class HeldSensors:
    """Sensors that are held over a record, and what that does to all others."""

    def __init__(self, effects, units, do, columns, factual):
        self._effects, self._units, self._columns = effects, units, list(columns)
        self.names = list(do)
        self._at = [self._columns.index(name) for name in do]
        self._values = np.column_stack([self._series(name, value, factual) for name, value in do.items()])

    def _series(self, name, value, factual):
        recorded = factual[:, self._columns.index(name)]
        if callable(value) or np.ndim(value) == 0:
            return replaced_input(value, recorded, self._units.index, name)
        series = np.asarray(value, dtype=float)
        if series.shape != recorded.shape:
            raise ValueError(
                f"Got {series.shape} values for sensor {name!r}, expected a number or {len(recorded)} rows."
            )
        return series

    def by_force(self, messages, effect):
        """Effect and its variance (n_samples, n_sensors) beside that of inputs, of whatever it takes to hold them."""
        server = self._effects.server
        self._effects.check_covariances("what holding a sensor does")
        C, _ = self._units.loadings()
        rows = C[self._at]
        states = server.filter(messages).filtered
        shown = self._expected(states)[:, self._at] + effect[:, self._at]
        parts = []
        for start, stop in episodes(self._units.starts, len(shown)):
            parts.append(held_effects(server, rows, self._values[start:stop] - shown[start:stop]))
        moved, draws = (np.concatenate(part, axis=k - 2) for k, part in enumerate(zip(*parts, strict=True)))
        replies = {}
        for name, own in self._units.state_slices.items():
            spread = (draws - moved)[:, :, own]
            V = np.einsum("dti,dtj->tij", spread, spread) / max(len(spread), 1)
            replies[name] = EffectReply(np.ascontiguousarray(moved[:, own]), V)
        answers = self._units.exchange.ask(replies, Measurements)
        found, variance, _ = self._units.with_variance(answers)
        variance[:, self._at] = np.where(np.isnan(self._values), variance[:, self._at], 0.0)  # held is held
        return found, variance

    def _expected(self, states):
        """Measurements that states stand for, (n_samples, n_sensors)."""
        return self._units.measured(self._units.mapped(states))[0]

    def by_controllers(self, factual):
        """Changes (n_samples, n_inputs) of set points of the controllers of these sensors that bring them there.

        In the mean and in the end: what the controller's law does on the way, it does.
        """
        server, found = self._effects.server, None
        for k, (name, at) in enumerate(zip(self.names, self._at, strict=True)):
            values = self._values[:, k]
            unit = name.split(SEPARATOR)[0]
            if unit not in server.laws_:
                known = listed(server.laws_) or "none"
                raise ValueError(
                    f"No law of a controller of {unit!r} is known that could hold {name!r} (known are those of "
                    f"{known}). Ask with sensors='force' for what would be if it were held, whatever it takes."
                )
            if np.isnan(values).any() or np.ptp(values):
                raise ValueError(f"A controller holds {name!r} at one value; give a number, or sensors='force'.")
            gains = {j: self._gain(j, at) for j in self._effects.inputs_of(unit)}
            j = max(gains, key=lambda one: abs(gains[one]))
            if abs(gains[j]) * self._effects.excitation["std"].iloc[j] < TUNING.replay_nothing * factual[:, at].std():
                raise ValueError(f"No input of {unit!r} moves {name!r}, so that its controller cannot hold it.")
            found = np.zeros((len(values), len(self._effects.spec.written.names))) if found is None else found
            found[:, j] += (values - factual[:, at].mean()) / gains[j]
        return found

    def _gain(self, j, at):
        """Where a sensor ends after a change of an input's set point by one while its controller goes on."""
        change = np.zeros((_SETTLED, len(self._effects.spec.written.names)))
        change[:, j] = 1.0
        none_held = np.zeros(change.shape[1], dtype=bool)
        replies = self._effects.of_states(change, np.zeros_like(change), none_held, "react")
        return self._units.measured(self._units.exchange.ask(replies, Measurements))[0][-1, at]


# What a move of inputs did to a plant: a record beside what it would have been, row by row and in total.

_WORDS = {"did": "the move of {}", "would": "other values of {} would have"}
_SAID_OF = {
    "did": {
        NOTHING: "It hardly moved {}.",
        NOT_YET: "It could not show yet in {}.",
        CANNOT_TELL: "What it did to {} cannot be determined.",
    },
    "would": {
        NOTHING: "They would hardly have moved {}.",
        NOT_YET: "They could not have shown yet in {}.",
        CANNOT_TELL: "What they would have done to {} cannot be determined.",
    },
}


@dataclass(frozen=True, eq=False)
class Impact:
    """What a move did, the answer of :meth:`~skfedcausal.FederatedCounterfactualEstimator.impact`.

    Attributes
    ----------
    table : DataFrame
        One row per time and column: ``time, column, factual, counterfactual, effect, low, high, effect_low,
        effect_high``. The effect is what was recorded less what would have been; `low` and `high` are the band of
        the counterfactual. All rows of the record, before the window without an effect.
    total : DataFrame
        One row per column, over the rows of the window: ``column``; ``total, low, high``, the sum of the effect;
        ``mean, mean_low, mean_high``, of a row; ``relative``, the mean beside that of the counterfactual;
        ``verdict``: "no effect to be seen" where the band lies within the margin around zero, "effect" where it leaves
        out zero, "not yet" where that is so and an effect shows only in later rows, "there was no move" where the
        record has the values that were given, "cannot tell" else; ``trust`` as of ``whatif``; ``shows``, the time
        from which an effect is a fifth of the most that it is in the window. The band of a sum of responses follows
        their errors through all rows; that of a plant takes those of all rows to be of one sign, as of a gain.
    summary : str
        The sentence, and others about columns at a limit and inputs whose timing nobody has said.
    inputs : tuple of str
        Inputs that were moved.
    window : tuple
        Times of the first and the last row of the window.
    confidence : float
    question : {"did", "would"}
        "did": effects are what was recorded less what would have been. "would": what would have been less what was
        recorded.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> found = est.impact(X, {"unit0__u0": 0.0}, (1000, 1030), inputs=truth.inputs)
    >>> found.total["verdict"].isin(["effect", "no effect to be seen", "cannot tell"]).all()
    np.True_
    """

    table: pd.DataFrame
    total: pd.DataFrame
    summary: str
    inputs: tuple
    window: tuple
    confidence: float
    question: str = "did"

    @property
    def other(self):
        """What is beside the record, in words."""
        return "without the move" if self.question == "did" else "with other inputs"

    @property
    def effect_is(self):
        """What effects are, in words."""
        parts = "what was recorded", f"what would have been {self.other}"
        return " less ".join(parts if self.question == "did" else parts[::-1])

    def plot(self, column=None, **settings):
        """Three panels as :class:`~skfedcausal.displays.ImpactDisplay` draws them.

        Parameters
        ----------
        column : str, default=None
            None for the column with the clearest effect.
        **settings
            Of :meth:`~skfedcausal.displays.ImpactDisplay.from_impact`.

        Returns
        -------
        ImpactDisplay
        """
        return beside("ImpactDisplay").from_impact(self, column=column, **settings)

    def report(self, path, *, title="What the move did"):
        """Write a page for people who were not there: the sentence, the totals, pictures.

        Parameters
        ----------
        path : str or Path
            HTML file.
        title : str

        Returns
        -------
        Path
        """
        return beside("impact_page")(self, title).write(path)


def found_impact(effects, asking, do, window, *, loops, limits, confidence, margin, question):
    """The :class:`Impact` of a move within a window of rows; `effects` and `asking` as of :func:`replayed_record`."""
    if margin is None or not margin >= 0:
        raise ValueError(f"Got margin={margin!r}; give a share of a standard deviation, at least 0.")
    check_choice("question", question, ("did", "would"))
    if hasattr(do, "items"):
        _check_inputs(do, effects.spec.written.names)
        moved = {name: _within(value, window, name) for name, value in do.items()}
    else:
        moved = do  # `whatif` says what is wrong with it
    how = {"loops": loops, "limits": limits, "split": False, "sensors": "controller"}
    replay = replayed_record(effects, asking, moved, confidence=confidence, window=window, **how)
    found, error = replay.table, replay.error
    told = found.groupby("column", sort=False)[["verdict", "trust"]].first()
    still = (told["verdict"] == NO_MOVE).all()
    table = _as_impact(found.drop(columns=["verdict", "trust"]), question)
    times = table["time"].drop_duplicates()
    rows = window_rows(window, len(times), pd.Index(times))
    place = np.repeat(np.arange(len(times)), len(table) // len(times))
    inside, later = table[np.isin(place, np.r_[rows])], table[place >= rows.stop]
    half = two_sided(confidence) * error
    sd = table.groupby("column", sort=False)["factual"].std()
    total = _totals(inside, later, half, sd, margin, effects.rows_to_show(loops), question)
    told = told.reindex(total["column"])
    doubted = total["column"].isin(replay.doubted) & (total["verdict"] == CANNOT_TELL)
    total.loc[doubted, "verdict"] = SAY_WHEN
    total["trust"] = told["trust"].to_numpy()
    total["shows"] = _shown(inside).where((total["verdict"] == EFFECT).to_numpy()).to_numpy()
    edges = times.iloc[rows.start], times.iloc[rows.stop - 1]
    if still:
        total["verdict"] = NO_MOVE
        summary = (
            f"From {edges[0]} to {edges[1]} there was no move of {listed(tuple(do))}: the record has the values that "
            "were given, so that there is nothing to report."
        )
    else:
        doubts = [effects.timing_in_doubt(total.loc[doubted, "column"])] if doubted.any() else []
        summary = " ".join([_sentence(total, tuple(do), edges, confidence, question), *replay.notes, *doubts])
    return Impact(table, total, summary, tuple(do), edges, confidence, question)


def _check_inputs(do, known):
    """Refuse names that are no inputs: a sensor that is held in a window would have to be let go after it."""
    unknown = [name for name in do if name not in known]
    if unknown:
        raise ValueError(
            f"Got unknown input {unknown[0]!r}; known inputs are {listed(known)}. What a move did is reported for "
            "inputs, by their names 'unit__input'; ask `whatif` about sensors that are held."
        )


def _within(value, window, name):
    """A function of a recorded input that replaces the rows of a window."""

    def replaced(series):
        rows = window_rows(window, len(series), series.index)
        part = series.iloc[rows]
        new = value(part.copy()) if callable(value) else value
        if np.ndim(new) and len(new) == len(series) and not callable(value):
            new = new.iloc[rows] if isinstance(new, pd.Series) else new[rows]
        if np.ndim(new) and len(new) != len(part):
            raise ValueError(
                f"Got {len(new)} values for input {name!r} in a window of {len(part)} rows; give a number, one value "
                "for each row of the window or of the record, or a function of the recorded series there."
            )
        if isinstance(new, pd.Series) and isinstance(part.index, pd.DatetimeIndex) and not new.index.equals(part.index):
            raise ValueError(f"The series for input {name!r} has other times than the window.")
        is_words = not pd.api.types.is_numeric_dtype(series)
        if isinstance(new, str) and not is_words:
            raise ValueError(f"Input {name!r} was given {new!r}, but it is a number in the record.")
        other = series.astype(object) if is_words else series.copy()
        new = np.asarray(new) if np.ndim(new) else new
        other.iloc[rows] = new if is_words else np.asarray(new, dtype=float)  # of truth values, too
        return other

    return replaced


def _as_impact(found, question):
    """The table of `whatif` with the effect that was asked for, and its band."""
    factual = found["factual"]
    if question == "would":
        return found.assign(effect_low=found["low"] - factual, effect_high=found["high"] - factual)
    edges = {"effect_low": factual - found["high"], "effect_high": factual - found["low"]}
    return found.assign(effect=-found["effect"], **edges)


def _totals(inside, later, half, sd, margin, needed, question):
    """Sums and means of the effect over the rows of a window by column, with verdicts.

    The band of a mean is `half` to either side, and within the mean of the bands of the rows. Where an effect shows
    only in rows after the window, or after more rows than are left of it, it is not there yet.
    """
    groups = inside.groupby("column", sort=False)
    before = "factual" if question == "would" else "counterfactual"
    sums = groups[["effect", "effect_low", "effect_high", before]].sum(min_count=1)
    size = groups.size()
    sums.loc[groups["effect_low"].apply(lambda x: x.isna().any()), ["effect_low", "effect_high"]] = np.nan
    mean, half = sums.div(size, axis=0), half.reindex(sums.index)
    low = np.maximum(mean["effect_low"], mean["effect"] - half)
    high = np.minimum(mean["effect_high"], mean["effect"] + half)
    small = margin * sd.reindex(sums.index)
    most = _largest(inside).reindex(sums.index)
    after = _largest(later).reindex(sums.index).fillna(0.0)
    n_rows = (inside["effect"] != 0).groupby(inside["column"], sort=False).sum().reindex(sums.index)
    soon = (most == 0) | (n_rows < needed) | ((after > TUNING.impact_later * most) & (after > small))
    clear = np.maximum(low, -high) > TUNING.impact_speak * small
    none = (low >= -small) & (high <= small)
    verdict = np.select([(most == 0) | (none & soon), none, clear], [NOT_YET, NOTHING, EFFECT], CANNOT_TELL)
    columns = {"column": sums.index, "total": sums["effect"], "low": low * size, "high": high * size}
    columns |= {"mean": mean["effect"], "mean_low": low, "mean_high": high}
    level = mean[before].abs()
    columns |= {"relative": mean["effect"] / level.where(level > 0), "verdict": verdict}
    return pd.DataFrame(columns).reset_index(drop=True)


def _shown(inside):
    """Time of the first row of a window in which an effect is a fifth of the most that it is there, by column."""
    size = inside["effect"].abs()
    return (
        inside[size >= TUNING.impact_fifth * size.groupby(inside["column"]).transform("max")]
        .groupby("column", sort=False)["time"]
        .first()
        .reindex(inside["column"].unique())
    )


def _largest(rows):
    """Largest distance from zero that an effect or an end of its band has, by column."""
    ends = rows[["effect", "effect_low", "effect_high"]].abs().max(axis=1)
    return ends.groupby(rows["column"], sort=False).max()


def _sentence(total, inputs, edges, confidence, question):
    """What the move did, or what other inputs would have done, in one sentence or more."""
    what = f"From {edges[0]} to {edges[1]} {_WORDS[question].format(listed(inputs))}"
    clear = total[total["verdict"] == EFFECT]
    clear = clear.assign(size=(clear["mean"] / (clear["mean_high"] - clear["mean_low"]).where(lambda w: w > 0)).abs())
    clear = clear.sort_values("size", ascending=False, na_position="first")
    parts = [
        f"{'raised' if row.mean > 0 else 'lowered'} {row.column} by {abs(row.mean):.4g} a row ({confidence:.0%} band "
        f"{min(abs(row.mean_low), abs(row.mean_high)):.4g} to {max(abs(row.mean_low), abs(row.mean_high)):.4g}), "
        f"{abs(row.total):.4g} in total"
        for row in clear.head(TUNING.impact_named).itertuples(index=False)
    ]
    more = f"; and moved {len(clear) - TUNING.impact_named} other columns" if len(clear) > TUNING.impact_named else ""
    nothing = "had no effect that this record shows" if (total["verdict"] == NOTHING).all() else "had no clear effect"
    words = [f"{what} {'; '.join(parts) or nothing}{more}."]
    if total["low"].isna().all():
        words = [f"{what} had an effect that has no band: the plant was learned without standard errors."]
    for verdict, said in _SAID_OF[question].items():
        names = total.loc[total["verdict"] == verdict, "column"].tolist()
        if names:
            rest = f" and {len(names) - TUNING.impact_named} more" if len(names) > TUNING.impact_named else ""
            words.append(said.format(f"{', '.join(names[: TUNING.impact_named])}{rest}"))
    return " ".join(words)
