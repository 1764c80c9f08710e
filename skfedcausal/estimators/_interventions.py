"""Other inputs as users write them down, and what they do to the sensors of all units."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from ..client.records import ends_of
from ..containers.arrays import listed, refuse_unknown
from ..message.requests import FactualRequest, Measurements
from ..server.estimation.evidence import benjamini_hochberg
from ..server.responses import Engine, chosen_engine
from ..server.responses.runs import STABLE, rows_until_far
from ..statespace.episodes import episodes
from ._input_spec import InputSpec
from .tuning import TUNING

# What users write down about other inputs, as arrays, and the tables they get back.

EFFECT, NOTHING, CANNOT_TELL, NOT_YET = "effect", "no effect to be seen", "cannot tell", "not yet"
NO_MOVE, SAY_WHEN = "there was no move", "cannot tell: say when it acts"
LOOPS = "hold", "react"
_SPEAK, _SMALL = 0.1, 0.2  # standard deviations that there is an effect to speak of, and up to which there is none


def unit_name(n, names):
    """Name of a unit given by name or position."""
    if isinstance(n, str):
        if n in names:
            return n
    elif isinstance(n, int | np.integer) and not isinstance(n, bool) and 0 <= n < len(names):
        return names[n]
    raise ValueError(
        f"Got unknown unit {n!r}; give a name or a position from 0 to {len(names) - 1}. Known are {listed(names)}."
    )


def two_sided(confidence):
    """Standard deviations to either side that hold a Gaussian number with this probability."""
    return stats.norm.ppf((1 + confidence) / 2)


def window_rows(window, n_samples, index=None):
    """Rows of a window ``(start, stop)`` of positions, or of times or other labels of the index, as a slice."""
    try:
        start, stop = window
    except (TypeError, ValueError):
        raise ValueError(
            f"Got window={window!r}; give (start, stop), the first row and the one after the last."
        ) from None
    by_position = all(isinstance(edge, Integral) and not isinstance(edge, bool) for edge in (start, stop))
    by_label = not isinstance(index, pd.DatetimeIndex) and index is not None and {start, stop} <= {*index}
    if by_label and not (by_position and 0 <= start < stop <= n_samples):
        first, last = index.get_loc(start), index.get_loc(stop)
    elif by_position:
        first, last = int(start), int(stop)
    elif isinstance(index, pd.DatetimeIndex):
        first, last = (_place_of(edge, index) for edge in (start, stop))
    else:
        raise ValueError(f"Got window={window!r}; give positions of rows, or times for a record with a time index.")
    if not 0 <= first < last <= n_samples:
        raise ValueError(
            f"Got window={window!r}, which are the rows from {first} to {last} of {n_samples}: it holds none, or "
            "leaves the record. Give the first row of the window and the one after the last."
        )
    return slice(first, last)


def _place_of(edge, index):
    """Position of the first row from a time on."""
    try:
        return int(index.searchsorted(pd.Timestamp(edge)))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Got {edge!r} in `window`, which is no time like those of the record: {error}. Give times with the "
            "same time zone, or positions of rows."
        ) from error


def trajectory(value, what, horizon, names):
    """Inputs of one unit at each step from a constant or a trajectory, shape (horizon, n_inputs)."""
    array = _as_numbers(value, f"{what} of input {listed(names)}")
    k = len(names)
    if array.ndim < 2 and array.size == k:
        array = np.broadcast_to(array, (horizon, k))
    elif array.shape == (horizon,) and k == 1:
        array = array[:, None]
    if array.shape != (horizon, k):
        raise ValueError(
            f"{what} has shape {np.shape(value)}; give {k} constant(s), one for each of the inputs "
            f"{listed(names)}, or a trajectory of shape ({horizon}, {k})."
        )
    return array


def replaced_input(value, recorded, index, name, levels=None):
    """Series that stands for a recorded input in a counterfactual, shape (n_samples,); codes of its `levels`."""
    if callable(value):
        came = recorded.copy() if levels is None else levels.words(recorded)
        value = value(pd.Series(came, index=index, name=name))
    if isinstance(value, pd.Series) and index is not None and not value.index.equals(index):
        raise ValueError(f"The series for input {name!r} has another time index than the record.")
    if levels is not None:
        value = levels.code(value, name) if np.ndim(value) == 0 else levels.codes(value, name)
    series = _as_numbers(value, f"Input {name!r}")
    if not series.ndim:
        series = np.full(len(recorded), float(series))
    if series.shape != recorded.shape:
        raise ValueError(f"Got {np.shape(value)} values for input {name!r}, expected a number or {len(recorded)} rows.")
    return series


def whatif_table(times, columns, factual, effect, std, told, confidence, ends):
    """Long table of an episode replayed, one row per time and column.

    `told` is trust and verdict by column, `ends` what no measurement goes below or above.
    """
    half, other = two_sided(confidence) * std, factual + effect
    blocks = {"factual": factual, "counterfactual": other, "effect": effect}
    blocks |= {"low": np.clip(other - half, *ends), "high": np.clip(other + half, *ends)}
    blocks |= {name: np.tile(np.array(own, object if name == "verdict" else float), len(times)) for name, own in told}
    return long_table("time", times, columns, blocks)


def long_table(name, rows, columns, blocks):
    """One row per row, of this name, and column; `blocks` are columns of the table, (n_rows, n_columns) or flat."""
    places = {name: np.repeat(np.asarray(rows), len(columns))}
    places["column"] = np.tile(np.array(columns, dtype=object), len(rows))
    return pd.DataFrame(places | {name: np.ravel(block) for name, block in blocks.items()})


def limits_of(limits, columns, factual, stops):
    """Lowest and highest values of all measurements, (n_samples, d) each, widened where the record was beyond.

    Those that are named, and stops (2, d) that the record of `fit` shows of other columns. Behind them sentences about
    columns that stand at one, where an effect may be that of a valve that is not at its stop.
    """
    limits, (low, high) = limits or {}, stops
    refuse_unknown(limits, columns, "`limits` names", "columns are")
    for name, pair in limits.items():
        edges = _as_numbers(pair, f"The limits of {name!r}")
        if edges.shape != (2,) or not edges[0] < edges[1]:
            raise ValueError(f"Got limits {pair!r} for {name!r}; give (low, high), the low one below the high one.")
        k = list(columns).index(name)
        low[k], high[k] = edges
    notes = []
    for k, at in enumerate(np.mean((factual <= low) | (factual >= high), axis=0)):
        if at > 0:
            shown = "" if columns[k] in limits else f" ({low[k]:.4g} to {high[k]:.4g}, as the record of `fit` shows)"
            notes.append(
                f"{columns[k]!r} stands at a limit in {at:.0%} of the rows of this record{shown}: what it does to "
                "others there is not what a plant learned elsewhere says."
            )
    return np.minimum(low, factual), np.maximum(high, factual), notes


def verdicts(effect, std, spread, confidence, doubted):
    """How far an effect on each column is to be trusted, from 0 to 1, and whether there is one.

    Parameters
    ----------
    effect, std : ndarray of shape (n_rows, d)
        Of the rows from a move on.
    spread : ndarray of shape (d,)
        Standard deviation of each column; NaN where it is not known.
    confidence : float
    doubted : ndarray of bool of shape (d,)
        Columns of which effects with another timing of inputs are others, and nobody knows which one is right.

    Returns
    -------
    trust : ndarray of shape (d,)
        Share of the squares of effect and error that is effect; NaN without errors.
    verdict : list of str
        "effect" where a band that leaves out zero in a tenth of the rows does so beside those of the other columns
        (false discovery rate), the trust is above a half and there is more than a tenth of a standard deviation, "no
        effect to be seen" where the band stays within a fifth of one, "not yet" where it is zero and nothing else could
        be seen, "cannot tell: say when it acts" of columns in doubt, "cannot tell" else.
    """
    half = two_sided(confidence) * std
    squares = np.square(effect).sum(axis=0)
    trust = squares / np.maximum(squares + np.square(std).sum(axis=0), np.finfo(float).tiny)
    far = np.sort(np.abs(effect) / np.maximum(std, np.finfo(float).tiny ** 0.5), axis=0)
    chance = 2 * stats.norm.sf(far[-1 - int(TUNING.interventions_clear * len(effect))])
    most = (np.abs(effect) + half).max(axis=0, initial=0.0)
    real = benjamini_hochberg(chance, 1 - confidence) & (trust > TUNING.interventions_real)
    cases = [most == 0, most < _SPEAK * spread, real, most < _SMALL * spread, doubted]
    return trust, np.select(cases, [NOT_YET, NOTHING, EFFECT, NOTHING, SAY_WHEN], CANNOT_TELL).tolist()


def in_doubt(apart, std, confidence):
    """Columns whose effects with two timings of inputs lie further apart than the band in a tenth of the rows, (d,)."""
    return (np.abs(apart) > two_sided(confidence) * std).mean(axis=0) > TUNING.interventions_clear


def _said(value):
    """A value that was asked for, in an error; of a series, which may be one of a record, the kind alone."""
    if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
        return repr(value)
    return f"a {type(value).__name__} of length {len(value)}"


def _as_numbers(value, what):
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} was given {_said(value)}, which is no number and no table of numbers in the units of the input."
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(f"{what} has values that are missing or infinite; give a finite number for every row.")
    if np.abs(array).max(initial=0.0) > TUNING.interventions_absurd:
        raise ValueError(f"{what} was given {np.abs(array).max():.3g}, which no input can be set to.")
    return array


class Realisation(NamedTuple):
    """Matrices of ``h[t] = A h[t-1] + B u[t-1]``, ``y[t] = C h[t] + D u[t]``; D is None where nothing acts at once."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray | None


def one_lag_realisation(A, B, at_once, C):
    """The :class:`Realisation` with the response of a plant of lags (p, n, n) and (q, n, k) and same-row (n, k).

    The observer form: state k holds what rows from k - 1 before on still do to a row. States that nothing
    reaches are left out.
    """
    n_lags, n, k = max(len(A), len(B)), A.shape[1], B.shape[2]
    lags, driven = np.zeros((n_lags, n, n)), np.zeros((n_lags, n, k))
    lags[: len(A)], driven[: len(B)] = A, B
    shift = np.eye(n * n_lags, k=n)
    shift[:, :n] += lags.reshape(-1, n)
    reached = np.any(lags, axis=2) | np.any(driven, axis=2)
    kept = np.logical_or.accumulate(reached[::-1])[::-1]
    kept[0] = True
    at = np.flatnonzero(kept)
    inputs = np.vstack(driven + lags @ at_once)
    seen = np.hstack([C, np.zeros((len(C), n * (n_lags - 1)))])
    return Realisation(shift[np.ix_(at, at)], inputs[at], seen[:, at], C @ at_once if at_once.any() else None)


# What a change of inputs does to the sensors of all units: asked of the server, answered by the units.

_SET_POINT = re.compile(r"(?<![a-z])(sp|set_?point|schedule)(?![a-z])", re.IGNORECASE)


def learned_engine(spec, relays, server, messages):
    """The engine that answers for a server which has just learned from messages, and who sets inputs by themselves."""
    known = spec.sent
    messages = {name: messages[name] for name in server.names_ if name in messages}
    if len(messages) < len(server.names_) or not known.active.any() or getattr(server, "batches_", None) is not None:
        return Engine(None, {})
    words = [spec.map.words[k] for k in spec.owners]
    if isinstance(sampled := getattr(server, "sampled", "auto"), str) and sampled != "auto":
        words = [sampled] * len(words)  # of sites
    now = ~spec.early & np.array([word != "after" for word in words], dtype=bool)
    looped = looped_units(spec, relays, server)
    is_set = np.array([_SET_POINT.search(name) is not None for name in known.names], dtype=bool)
    in_doubt = np.array([word == "auto" for word in words], dtype=bool) & np.isin(known.units, looped) & ~is_set
    readers = [unit if name in relays else None for unit, name in zip(known.units, known.names, strict=True)]
    active = np.flatnonzero(known.active)
    return chosen_engine(server, messages, now[active], in_doubt[active], bool(looped), [readers[k] for k in active])


def looped_units(spec, relays, server):
    """Units whose inputs depend on measurements of rows before; what moves with them in a row may as well act there.

    Those whose inputs are all relays do not count: how these depend on measurements is known.
    """
    known = spec.written
    others = {unit for unit, name in zip(known.units, known.names, strict=True) if name not in relays}
    return sorted(others.intersection(getattr(server, "controlled_units_", ())))


@dataclass(frozen=True, eq=False)
class InputEffects:
    """What a plant has learned of its inputs, and the engine that answers questions about them."""

    server: Any
    spec: InputSpec
    engine: Engine
    relays: Mapping
    excitation: pd.DataFrame
    at_once: np.ndarray  # columns that are sent and act in the row in which users write them
    n_lags: int

    @property
    def acts_at_once(self):
        """Whether some input acts on the row that it stands in."""
        own = self.engine.responses
        at_once = getattr(self.server, "acts_at_once", False) or (own is not None and own.acts_at_once)
        return bool(at_once or self.spec.map.early.any())

    def engine_for(self, loops):
        """Name of the engine that answers; only the plant knows how controllers react."""
        return self.engine.name if loops == "hold" else "plant"

    def rows_to_show(self, loops):
        """Rows from a move on in which all that it does can be seen: as responses say, or lags of the plant."""
        own = self.engine.responses if loops == "hold" else None
        return min(1 + self.n_lags, TUNING.input_effects_seen) if own is None else own.rows_to_show

    def check_covariances(self, what):
        """Refuse a question whose answer rests on how sure the plant is."""
        if not getattr(self.server, "has_covariances", True):
            raise ValueError(
                f"{type(self.server).__name__} learns a point without a sampling covariance, and {what} weighs how "
                "sure the effects of inputs are. Fit with server=LikelihoodServer() to ask for it."
            )

    def _check_held_loops(self, n_rows):
        """Refuse what inputs do in so many rows if nobody knows what the plant does while controllers do not react."""
        radius, looped = self.engine.radius, looped_units(self.spec, self.relays, self.server)
        table = self.excitation
        if not looped:
            return
        is_led = table["unit"].isin(looped) & table["active"] & (table["share"] < TUNING.input_effects_led)
        led = [name for name in table.loc[is_led, "input"] if _SET_POINT.search(name) is None]
        if radius > STABLE:
            lasts = rows_until_far(radius)
            why = f"without them an effect grows by {radius - 1:.2%} a row"
        elif led:
            lasts = TUNING.input_effects_seen
            why = f"nothing but what they read moves {listed(led)}, which no record tells from the plant"
        else:
            return
        if n_rows > lasts:
            raise ValueError(
                f"Got {n_rows} rows of a question with loops='hold', and controllers of {listed(looped)} hold this "
                f"plant: {why}. With inputs as they were an answer means something for {lasts} rows; ask for as many, "
                "or with loops='react' for what happens while the controllers react."
            )

    def timing_in_doubt(self, columns):
        """Sentence about columns whose effects depend on when an input acts, which nobody has said."""
        known = self.spec.sent
        timing: Any = self.engine.timing  # which there is where somebody is in doubt
        names = np.array(known.names)[known.active][timing.in_doubt].tolist()
        first = {names[0]: "before"} if names else "before"
        return (
            f"What happens to {listed(list(columns))} cannot be determined: {listed(names)} may act in the row in "
            "which it stands or from the next row on. No record tells which, and the answers lie further apart than "
            f"the band. Say when it acts: fit with sampled={first!r} if it was set before its row was measured, or "
            "with 'after'."
        )

    # -- what units do -----------------------------------------------------------------------------

    def inputs_of(self, unit):
        """Positions of the inputs that act on a unit, of which there has to be one."""
        own = self.spec.acting_on(unit)
        if not own:
            with_inputs = [name for name in self.server.names_ if self.spec.acting_on(name)]
            raise ValueError(f"Unit {unit!r} has no inputs; units with inputs are {', '.join(with_inputs) or 'none'}.")
        return own

    def operated(self, n, u0, u1, horizon):
        """Positions of the inputs of a unit or of several, and all inputs under either operation, (2, horizon, k)."""
        if not isinstance(n, (list, tuple)):
            n, u0, u1 = [n], {n: u0}, {n: u1}
        known, own = self.spec.written, []
        series = np.zeros((2, horizon, len(known.names)))
        for one in n:
            at = self.inputs_of(unit_name(one, self.server.names_))
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
                coded = self.spec.coded_values(values[one], names)
                series[k][:, at] = trajectory(coded, f"u{k}", horizon, names)
                known.warn_outside(series[k][:, at], at)
        return own, series

    def above_level(self, inputs):
        """What is sent in place of inputs (n_samples, n_inputs), less its level in `fit`."""
        return self.spec.map.values(inputs) - self.spec.sent.expand(self._level[None])

    @property
    def _level(self):
        """Level in `fit` of the columns that moved there, (n_active,)."""
        return getattr(self.server, "input_level_", np.zeros(int(self.spec.active.sum())))

    def of_states(self, change, operated, held, loops, over=None):
        """What a change of inputs does to every unit's states, from how they were operated, less its level.

        Parameters
        ----------
        change : ndarray of shape (n_steps, n_sent)
            Of all columns that are sent.
        operated : ndarray of shape (n_samples, n_sent)
            In these rows and those before, less their level in `fit`.
        held : ndarray of bool of shape (n_sent,)
            Columns that no controller moves.
        loops : {"hold", "react"}
        over : slice, default=None
            Rows of whose mean responses add a row.

        Returns
        -------
        dict of str to EffectReply
        """
        known = self.spec.sent
        known.check_known(change)
        if not known.active.any():
            raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
        held = held[known.active] if loops == "react" else None
        at_once = known.active & self.at_once & ~self.spec.early
        if held is not None and at_once.any():
            raise ValueError(
                f"Inputs {listed(np.array(known.names)[at_once])} act in the row that they stand in, as `sampled` "
                "says or the record shows: a controller that responds to measurements cannot follow those of the same "
                "row. Ask with loops='hold', or fit with sampled='after' for the inputs that a controller sets."
            )
        settings = {}
        responses = self.engine.responses
        if held is None:
            self._check_held_loops(len(change) - int(np.argmax(change.any(axis=1))) - self.acts_at_once)
        if held is None and responses is not None:
            change, operated = change[:, known.active], operated[-len(change) :, known.active]
            now = change[-len(operated) :] + operated + self._level
            return responses.effects(change, np.vstack([now[: len(change) - len(now)], now]), over)
        if getattr(self.server, "knows_curvature", False):
            settings["before"] = operated[:, known.active]
        change = change[:, known.active]
        replies = self.server.effects(change, held=held, **settings)
        return replies if held is not None else self.engine.doubted(replies, change)

    def between_timings(self, change, operated, held, loops, over):
        """What a change of inputs does to every unit's states, less that with another timing of inputs."""
        timing: Any = self.engine.timing
        return timing.between_timings(change[:, self.spec.active])

    def replayed(self, units, change, operated, held, loops, shape, window=slice(0), effects=None):
        """Effect and its variance over the rows of a record, `shape` (n_samples, d), every episode from its own start.

        Beside these the standard error of its mean over a window of rows, (d,). `effects` of states: by default
        :meth:`of_states`.
        """
        effects = self.of_states if effects is None else effects
        effect, variance, mean_error = np.zeros(shape), np.zeros(shape), np.zeros(shape[1])
        spec, at_once = self.spec, self.acts_at_once
        operated = spec.map.in_time(operated, units.starts)
        for start, stop in episodes(units.starts, len(change)):
            moved = np.flatnonzero(change[start:stop].any(axis=1))
            if not len(moved) or start + moved[0] + (not at_once) >= stop:
                continue
            first = start + moved[0]
            if at_once:
                asked, rows = spec.map.asked(change[first:stop], holds=False)[:-1], slice(first, stop)
            else:
                asked, rows = change[first : stop - 1], slice(first + 1, stop)
            known = operated[start : rows.stop - (not at_once)]
            over = slice(max(window.start or 0, rows.start) - rows.start, min(window.stop, rows.stop) - rows.start)
            n_over = max(over.stop - over.start, 0)
            replies = effects(asked, known, held, loops, over if n_over else None)
            found = units.with_variance(units.exchange.ask(replies, Measurements))
            n_rows = rows.stop - rows.start
            effect[rows], variance[rows] = found[0][:n_rows], found[1][:n_rows]
            if n_over:  # what has no error of its mean has one of a single sign in all rows
                errors = np.sqrt(found[1][len(asked) :] if len(found[1]) > len(asked) else found[1][over])
                mean_error += errors.mean(axis=0) * n_over / (window.stop - window.start)
        return effect, variance, mean_error


def counterfactual_tables(effects, answer, n, u0, u1, horizon, loops, split):
    """Effect of operating a unit otherwise and its standard error (NaN where the server has none), labelled tables.

    `answer` takes what happens to the states of each unit, and gives the effect, its variance and names of columns.
    """
    known, owners = effects.spec.written, effects.spec.owners
    own, series = effects.operated(n, u0, u1, horizon)
    change, held = effects.spec.change(*series), np.isin(owners, own)
    operated = np.where(held, effects.above_level(series[0]), 0.0)
    parts = {known.names[k]: np.where(owners == k, change, 0.0) for k in own} if split else {None: change}
    frames = []
    for part in parts.values():  # each given those before it, so that they add up
        frames.append(_frames(effects, answer, part, operated, held, loops))
        operated = operated + part
    effect, std = (
        pd.concat(dict(zip(parts, some, strict=True)), axis=1, names=["input", "column"]) if split else some[0]
        for some in zip(*frames, strict=True)
    )
    effect.attrs["engine"] = effects.engine_for(loops)
    return effect, std


def _frames(effects, answer, change, operated, held, loops):
    """Effect and standard error of one change (horizon, n_sent), one row per step and one column per sensor."""
    steps, rows = pd.RangeIndex(1, len(change) + 1, name="step"), slice(None)
    if effects.acts_at_once:
        rows = slice(1, -1)
        change, operated = (effects.spec.map.asked(x, holds=True) for x in (change, operated))
    effect, variance, columns = answer(effects.of_states(change, operated, held, loops))
    blocks = effect, np.sqrt(variance)
    return tuple(pd.DataFrame(block[rows], index=steps, columns=list(columns)) for block in blocks)


# -- records ---------------------------------------------------------------------------------------


def recorded_inputs(units, messages):
    """Inputs of all units side by side, as they were given or as units tell them, shape (n_samples, n_inputs)."""
    known = units.inputs or [message.inputs for message in messages.values()]
    return np.hstack([np.zeros((units.n_samples, 0)), *(U for U in known if U is not None)])


class Factual(NamedTuple):
    """Measurements of a record, expected ones where they are missing, and the variance of those, (n_samples, d) each.

    Names of columns, and stops: their lowest and highest values, (2, d), infinite where the record of `fit` shows none.
    """

    values: np.ndarray
    variance: np.ndarray
    columns: list
    stops: np.ndarray


def factual_measurements(server, units, messages):
    """The :class:`Factual` of the record that units were asked about."""
    request = dict.fromkeys(messages, FactualRequest())
    if not all(message.information.is_constant for message in messages.values()):
        states = server.abducted(messages)
        request = {name: FactualRequest(one.states, one.covariances) for name, one in states.items()}
    answers = units.exchange.ask(request, Measurements)
    values, variance, columns = units.with_variance(answers, 0.0)
    ends = np.repeat([[-np.inf], [np.inf]], len(columns), axis=1)
    for where, answer in zip(units.places(answers)[0], answers.values(), strict=True):
        if answer.stops is not None:
            ends[:, where] = ends_of(answer.stops, answer.values.shape[1])
    return Factual(values, variance, columns, ends)
