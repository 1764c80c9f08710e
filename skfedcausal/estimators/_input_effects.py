"""What a change of inputs does to the sensors of all units: asked of the server, answered by the units."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..client.habits import ends_of
from ..containers.layout import listed
from ..message.requests import FactualRequest, Measurements
from ..server.responses import Engine, chosen_engine
from ..server.responses.runs import STABLE, rows_until_far
from ..statespace.episodes import episodes
from ._input_spec import InputSpec
from ._interventions import trajectory, unit_name
from .tuning import TUNING

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
