"""From the inputs and modes that users write down to the columns that units send, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from types import MappingProxyType

import numpy as np
import pandas as pd

from ..arguments import warn
from ..containers.arrays import (
    SEPARATOR,
    as_native,
    as_table,
    column_names,
    is_called,
    listed,
    mode_codes,
    mode_indicators,
    modes_in,
    names_units,
    plain_modes,
    refuse_unknown,
    warn_of_mode,
)
from ..containers.plant import row_by_row
from ..server.lagged.stage import SAMPLED
from ..server.moments import MomentServer
from ..statespace.inputs import (
    BASES,
    WEAK,
    a_row_ahead,
    basis_columns,
    explained,
    explained_change,
    followed_law,
    independent_columns,
    quartile_spline,
    strength,
)
from ._declared import PlantInputs, coded_record, coded_values, each_input, levels_of

# From the inputs that users write down to the columns that units send, and back: bases, timing, instruments.
#
# An input may act on the plant through a curve: its unit sends columns f_1(u), f_2(u), ... in its place, and
# every question is about u. An input that was set before the row it stands in was measured acts on that row: it
# is sent a row ahead, so that the plant's next row is its own, whatever lags and whichever server that plant has.
# Of an input that is set through something else, its instrument, the part that this explains has no hidden cause.


@dataclass(frozen=True, eq=False)
class InputSpec:
    """Inputs of a plant as users write them down, as units send them, and the way from one to the other.

    `written` are the inputs of the record; `levels` those of inputs that are words, by name; `shared` the units that
    an input acts on beside the one that sends it, by name; `instruments` what moves inputs.
    """

    written: PlantInputs
    map: "InputMap"
    levels: Mapping = field(default_factory=dict)
    shared: Mapping = field(default_factory=dict)
    instruments: "Instruments | None" = None

    @classmethod
    def learn(cls, plant, levels, shared, *, basis, sampled, instruments):
        """From a record without gaps in its inputs, and what the user says of these."""
        written, learned = PlantInputs.learn(plant, early_inputs(plant, sampled)), None
        if instruments:
            if basis != "linear" or levels:
                raise ValueError(
                    "`instruments` explain inputs that act as they are: leave out `basis`, and inputs that are words."
                )
            learned = Instruments.learned(plant, instruments)
            idle = np.isin(written.names, list(learned.pairs.values()))
            written = replace(written, active=written.active & ~idle)
        return cls(written, InputMap.learn(plant, written, basis, sampled, levels), levels, shared, learned)

    @classmethod
    def at_sites(cls, messages):
        """Inputs as units at sites of their own tell of them."""
        written = PlantInputs.told(messages)
        return cls(written, InputMap.plain(len(written.names)))

    def only(self, units):
        """What is known of the inputs of some of the units."""
        written = self.written.only(units)
        shared = {name: others for name, others in self.shared.items() if name in written.names}
        inputs = self.map.only(np.isin(self.written.units, units))
        return replace(self, written=written, map=inputs, shared=shared)

    # -- columns that are sent -----------------------------------------------------------------

    @cached_property
    def sent(self):
        """What is known of the columns that units send, as of inputs."""
        return self.map.known(self.written)

    @property
    def owners(self):
        """Position of the input behind each column that is sent."""
        return self.map.owners

    @property
    def early(self):
        """Which columns are sent a row ahead."""
        return self.map.early[self.owners]

    @property
    def active(self):
        """Which columns moved in `fit`, so that the server knows what they do."""
        return self.sent.active

    def coded(self, X, inputs, units):
        """A new record of these units with codes in place of words among its inputs."""
        return coded_record(X, inputs, self.levels, units)

    def encode(self, plant):
        """A record with its inputs as units send them."""
        if self.instruments is not None:
            plant = self.instruments.explained(plant)
        return self.map.sent(plant, self.written)

    def decode(self, by_lag, at_once):
        """What columns that moved do by lag (q, n, .) and at once (n, .), in the rows that users write inputs in."""
        by_lag, at_once = np.array([self.sent.expand(B) for B in by_lag]), self.sent.expand(at_once)
        moved = self.early
        if moved.any():  # these were sent a row ahead
            at_once[:, moved] = by_lag[0, :, moved].T
            by_lag[:-1, :, moved] = by_lag[1:, :, moved]
            by_lag[-1, :, moved] = 0.0
        return by_lag, at_once

    def change(self, before, after):
        """Change of what is sent in place of inputs, from values (n_samples, n_inputs) to others."""
        return self.map.values(after) - self.map.values(before)

    # -- names in questions ----------------------------------------------------------------------

    @property
    def idle(self):
        """Inputs that are instruments of others."""
        return () if self.instruments is None else tuple(self.instruments.pairs.values())

    def through(self, name):
        """The input that an instrument acts through, any other as it is."""
        pairs = {} if self.instruments is None else self.instruments.pairs
        return next((one for one, other in pairs.items() if other == name), name)

    def acting_on(self, unit):
        """Positions of a unit's inputs: its own, and those that it shares with the unit that sends them."""
        shared = [self.written.position(name) for name, units in self.shared.items() if unit in units]
        return [k for k in self.written.of(unit) + shared if self.written.names[k] not in self.idle]

    def position_to_move(self, name):
        """Position of an input that is to move."""
        if name in self.idle:
            through = self.through(name)
            raise ValueError(f"{name!r} is an instrument, which acts through {through!r} alone: ask about that.")
        return self.written.position(name)

    def coded_values(self, value, names):
        """Values of inputs with codes in place of the names of levels."""
        if not any(name in self.levels for name in names):
            return value
        return coded_values(value, [self.levels.get(name) for name in names], names)


def by_input(choice, names, what, allowed):
    """A choice for each input from one for all, or from a dict by input (or by unit) with a default."""
    if not isinstance(choice, Mapping):
        choices = [choice] * len(names)
    else:
        owners = [name.split(SEPARATOR)[0] for name in names]
        units = list(dict.fromkeys(owners))
        refuse_unknown(choice, (*names, *units), f"`{what}` names", "inputs and their units are")
        choices = [choice.get(name, choice.get(owner, allowed[0])) for name, owner in zip(names, owners, strict=True)]
    for name, one in zip(names, choices, strict=True):
        if not (isinstance(one, str) and one in allowed) and not (what == "basis" and callable(one)):
            options = ", ".join(map(repr, allowed)) + (" or a function" if what == "basis" else "")
            raise ValueError(f"Got {what}={one!r} for input {name!r}; choose {options}.")
    return choices


def early_inputs(data, sampled):
    """Names of the inputs that were set before the row they stand in was measured."""
    names = [name for own in data.layout.inputs for name in own]
    words = by_input(sampled, names, "sampled", SAMPLED)
    return {name for name, word in zip(names, words, strict=True) if word == "before"}


def late_inputs(layout, sampled, mode, server):
    """Names of the inputs of a watched plant that were set after the row they stand in was measured."""
    names = [name for own in layout.inputs for name in own if mode is None or not is_called(name, mode)]
    words = by_input(sampled, names, "sampled", ("auto", "after", "before"))
    late = frozenset(name for name, word in zip(names, words, strict=True) if word == "after")
    if late and not isinstance(server, (MomentServer, type(None))):
        raise ValueError(
            f"sampled='after' of {listed(late)} is for plants that a MomentServer learns, and server is a "
            f"{type(server).__name__}. Leave `server` or `sampled` out."
        )
    return late


@dataclass(frozen=True)
class InputMap:
    """Columns sent in place of each input, and inputs that are sent a row ahead."""

    functions: tuple  # None for an input as it is
    kept: tuple  # columns of each function that are sent
    early: np.ndarray  # (n_inputs,) of bool
    words: tuple[str, ...]

    @classmethod
    def learn(cls, data, known, basis, sampled, levels=MappingProxyType({})):
        """The map of a record; inputs of `levels` have a column for each but the first."""
        words = by_input(sampled, known.names, "sampled", SAMPLED)
        functions, kept = [], []
        choices = by_input(basis, known.names, "basis", BASES)
        inputs = zip(choices, known.names, _series(data).T, known.active, strict=True)
        for choice, name, u, moves in inputs:
            function = choice if callable(choice) else None
            if choice == "spline":
                function = quartile_spline(u)
            if name in levels:
                if isinstance(basis, Mapping) and name in basis:
                    raise ValueError(
                        f"`basis` is given for input {name!r}, which has levels ({listed(levels[name].names)}) and a "
                        "column for each of them. Leave it out there."
                    )
                function = levels[name]
            function = function if moves else None
            functions.append(function)
            kept.append([0] if function is None else independent_columns(basis_columns(function, u, name), name))
        early = np.array([word == "before" for word in words], dtype=bool)
        return cls(tuple(functions), tuple(kept), early, tuple(words))

    @classmethod
    def plain(cls, n_inputs):
        """Inputs as they are."""
        return cls((None,) * n_inputs, ([0],) * n_inputs, np.zeros(n_inputs, dtype=bool), ("auto",) * n_inputs)

    def only(self, chosen):
        """The map of some of the inputs, chosen by a mask."""
        functions, kept, words = (tuple(compress(part, chosen)) for part in (self.functions, self.kept, self.words))
        return InputMap(functions, kept, self.early[chosen], words)

    @property
    def is_linear(self):
        """Whether inputs act as they are, without a curve or levels."""
        return all(function is None for function in self.functions)

    @property
    def owners(self):
        """Position of the input behind each column that is sent."""
        return np.repeat(np.arange(len(self.kept)), [len(own) for own in self.kept])

    def known(self, inputs):
        """What is known of the columns that are sent, as of inputs."""
        at = self.owners
        names = [
            f"{name}[{function.names[1:][own[k]]}]"
            if hasattr(function, "levels")
            else name
            if len(own) == 1
            else f"{name}[{k}]"
            for name, function, own in zip(inputs.names, self.functions, self.kept, strict=True)
            for k in range(len(own))
        ]
        units = tuple(inputs.units[k] for k in at)
        of_levels = np.array([hasattr(function, "levels") for function in self.functions], dtype=bool)[at]
        low, high = np.where(of_levels, 0.0, inputs.low[at]), np.where(of_levels, 1.0, inputs.high[at])
        return PlantInputs(units, tuple(names), inputs.active[at], low, high)

    def values(self, series):
        """Columns that stand for inputs of shape (n_samples, n_inputs), in the same rows."""
        pairs = enumerate(zip(self.functions, self.kept, strict=True))
        columns = (
            series[:, [k]] if function is None else basis_columns(function, series[:, k], k)[:, own]
            for k, (function, own) in pairs
        )
        return np.hstack([series[:, :0], *columns])

    def sent(self, data, inputs):
        """The record with inputs as they are sent; None for units that have none."""
        columns = self.in_time(self.values(_series(data)), data.starts)
        active, units = inputs.active[self.owners], np.array([inputs.units[k] for k in self.owners])
        parts = [columns[:, active & (units == name)] for name in data.names]
        return replace(data, inputs=row_by_row(part if part.shape[1] else None for part in parts))

    def in_time(self, columns, starts):
        """Columns of a record in the rows they are sent in."""
        return a_row_ahead(columns, self.early[self.owners], starts)

    def asked(self, change, *, holds):
        """A change of columns from the row before it on, so that its effect in its own row is answered.

        With `holds` the last row goes on. The last row that is answered is beyond the change.
        """
        moved = self.early[self.owners]
        last = change[-1:] if holds else np.zeros_like(change[-1:])
        whole = np.vstack([np.zeros_like(change[:1]), change, last])
        whole[:-1, moved] = whole[1:, moved]
        return whole


def _series(data):
    """All inputs side by side."""
    own = [U for U in data.inputs if U is not None]
    return np.hstack(own).astype(float) if own else np.zeros((data.n_samples, 0))


@dataclass(frozen=True, eq=False)
class Instruments:
    """How inputs follow their instruments: by name of the input, coefficients (n_lags + 1,) and a level."""

    pairs: Mapping
    laws: Mapping
    table: pd.DataFrame  # of input, instrument, share of variance explained, F statistic

    @classmethod
    def learned(cls, plant, asked):
        """From a record, and the user's dict of inputs to instruments."""
        names = [name for own in plant.layout.inputs for name in own]
        pairs = {_resolved(name, names): _resolved(other, names) for name, other in asked.items()}
        _check_pairs(pairs)
        series, laws, rows = _by_name(plant), {}, []
        for name, other in pairs.items():
            u, z = series[name], series[other]
            law = laws[name] = followed_law(u, z, plant.starts)
            rows.append((name, other, *strength(u, explained(law, z, plant.starts), len(law))))
        table = pd.DataFrame(rows, columns=["input", "instrument", "share", "statistic"])
        weak = table.loc[table["statistic"] < WEAK, "input"]
        if len(weak):
            warn(
                f"The instruments of {listed(weak)} hardly move them (see `instruments_`): effects of these inputs are "
                "poorly known, and not free of a hidden cause. Give rows in which the instruments move."
            )
        return cls(pairs, laws, table)

    def explained(self, plant):
        """The record with what instruments explain of their inputs in place of these."""
        series = _by_name(plant)
        found = list(plant.inputs)
        for m, own in enumerate(plant.layout.inputs):
            for k, name in enumerate(own):
                if name in self.laws:
                    found[m] = found[m].astype(float, copy=True)
                    found[m][:, k] = explained(self.laws[name], series[self.pairs[name]], plant.starts)
        return replace(plant, inputs=tuple(found))

    def followed(self, instrument, change, starts):
        """The input behind an instrument, and its change when the instrument changes (n_samples,)."""
        name = next(one for one, other in self.pairs.items() if other == instrument)
        return name, explained_change(self.laws[name], change, starts)


def _resolved(name, names):
    """Flat name of an input given by this or, where only one unit has it, without its unit."""
    if name in names:
        return name
    same = [full for full in names if full.split(SEPARATOR, 1)[-1] == name]
    if len(same) != 1:
        raise ValueError(
            f"`instruments` names {name!r}, which is {'several inputs' if same else 'no input'}; inputs are "
            f"{listed(names)}. An instrument is declared as an input of the unit too."
        )
    return same[0]


def _check_pairs(pairs):
    for name, other in pairs.items():
        if name.split(SEPARATOR)[0] != other.split(SEPARATOR)[0]:
            raise ValueError(
                f"The instrument {other!r} of input {name!r} belongs to another unit, which would have to send it. "
                "Give the column to the unit whose input it moves."
            )
        if other in pairs or list(pairs.values()).count(other) > 1:
            raise ValueError(
                f"Input {other!r} is an instrument of one input; give each instrument once, for one input."
            )


def _by_name(plant):
    """Series of every input by its flat name."""
    parts = zip(plant.inputs, plant.layout.inputs, strict=True)
    return {name: U[:, k].astype(float) for U, own in parts if U is not None for k, name in enumerate(own)}


# Operating modes that a column tells: inputs of the plant, an indicator for every mode but the first.
#
# The column is read as codes, among the inputs of the unit that it belongs to, and becomes indicators where units see
# it.


@dataclass(frozen=True)
class PlantModes:
    """The columns that tell modes, by flat name, and the modes of each; inputs that are words are such columns too.

    `column` is what the user calls them, None of words alone, and `owner` the unit that a column of the whole plant is
    given to, None where every column is of its unit. A column that was always as an earlier one follows that one, its
    leader, and tells nothing new.
    """

    column: str | None
    labels: dict
    owner: str | None
    leaders: dict

    @classmethod
    def learn(cls, column, X, inputs, input_columns=None):
        """Modes of a nominal record, with those of its inputs that are words."""
        X, owner = (X, None) if column is None else _owned(X, column)
        found: dict[str, list] = {}

        def collected(name, values):
            if is_called(name, column):
                found.setdefault(name, []).append(values.astype(object))

        def words(name, values):
            if not (column and is_called(name, column)) and levels_of(values) is not None:
                found.setdefault(name, []).append(values.astype(object))

        if column is not None:
            each_input(X, inputs, None if inputs is not None else (lambda name: True), None, collected)
        if column is not None and not found:
            where = "X" if inputs is None else "`inputs`, where it is with the others"
            raise ValueError(
                f"mode={column!r} is no column of {where}. Give the name of a column that says in which mode the plant "
                f"is: 'unit{SEPARATOR}tag', the tag alone if several units have it, or that of a column without a unit."
            )
        each_input(X, inputs, input_columns, None, words)
        told = {name: plain_modes(pd.concat(parts, ignore_index=True)) for name, parts in found.items()}
        labels = {name: modes_in(values, name) for name, values in told.items()}
        first = {name: next(other for other in told if told[other].equals(told[name])) for name in told}
        return cls(column, labels, owner, {name: other for name, other in first.items() if other != name})

    def check_settings(self, mode, evidence, levels):
        """Refuse settings of a detector that have no use for modes."""
        if evidence == "flags" or levels == "episode":
            what = f"Inputs of words ({listed(self.labels)})" if mode is None else f"mode={mode!r}"
            other = "evidence='flags'" if evidence == "flags" else "levels='episode'"
            raise ValueError(f"{what} and {other} do not go together; give one of them.")

    def input_columns(self, others):
        """What the record is read with: these columns beside `others` that are inputs."""
        if callable(others):
            return lambda name: name in self.labels or others(name)
        return list(dict.fromkeys([*self.labels, *(others or ())]))

    def coded(self, X, inputs=None, units=None):
        """A record with codes in place of modes; a mode that is not known has the next code, and is told."""
        X = X if self.column is None else _owned(X, self.column, self.owner)[0]
        new: dict = {}  # modes that are not known, and where

        def codes(name, values):
            if name not in self.labels:
                return None
            found, unknown = mode_codes(values, self.labels[name])
            new.update({(value, name): None for value in unknown})
            return found

        X, inputs = each_input(X, inputs, self.labels.__contains__, units, codes)
        for value, name in new:
            what = "nothing is known of the plant in it, and its level is learned before monitoring resumes"
            if self.owner is None:
                what = f"rows of unit {name.partition(SEPARATOR)[0]!r} in it are taken as missing measurements"
            warn_of_mode(value, name, self.labels[name], what)
        return X, inputs

    def without_unknown(self, plant, before):
        """A record of codes without measurements of units in modes of their own that are not known.

        Their mode counts as the one before, that of the row `before` for the first one, or the first mode of all.
        """
        if self.owner is not None:
            return plant
        unseen: dict = {}
        inputs = list(plant.inputs)
        units = zip(inputs, plant.layout.inputs, strict=True)
        codes = {name: U[:, j] for U, own in units for j, name in enumerate(own)}
        for m, own in enumerate(plant.layout.inputs):
            for j, name in enumerate(own):
                unknown = self._unknown(name, codes)
                if not unknown.any():
                    continue
                unseen[m] = unseen.get(m, False) | unknown
                inputs[m] = np.array(inputs[m])
                inputs[m][unknown, j] = np.nan
                begins = [row for row in plant.starts if unknown[row] and (row > 0 or before is None)]
                inputs[m][begins, j] = 0.0
        return replace(plant.without(unseen), inputs=tuple(inputs))

    def _unknown(self, name, codes):
        """Rows in which a column tells a mode that is not known, or not that of the column that it always followed."""
        if name not in self.labels:
            return np.zeros(1, dtype=bool)
        own, leader = codes[name], codes.get(self.leaders.get(name, name))
        return (own == len(self.labels[name])) | ((own != leader) & np.isfinite(own + leader))

    def indicators(self, plant):
        """A record of codes as units see it."""
        inputs = []
        for U, own in zip(plant.inputs, plant.layout.inputs, strict=True):
            parts = [self._indicators_of(name, U[:, [j]]) for j, name in enumerate(own)]
            joined = np.hstack([np.zeros((plant.n_samples, 0)), *parts])
            inputs.append(joined if joined.shape[1] else None)
        return replace(plant, inputs=tuple(inputs))

    def _indicators_of(self, name, column):
        """Indicators of a column of codes, anything else as it is.

        Modes of the whole plant have one more, which never moves in what is nominal: where it does, nothing is known.
        """
        if name not in self.labels:
            return column
        if name in self.leaders:
            return column[:, :0]
        return mode_indicators(column, len(self.labels[name]) + (self.owner is not None))


def _owned(X, column, owner=None):
    """A record in which a column of the whole plant is one of a unit, `owner` or the first, and that unit."""
    X = as_native(X)
    if isinstance(X, (list, tuple)) and X and all(isinstance(part, (Mapping, pd.DataFrame)) for part in X):
        parts = []
        for part in X:
            part, owner = _owned(part, column, owner)
            parts.append(part)
        return parts, owner
    if isinstance(X, pd.DataFrame) and SEPARATOR not in column and column in (column_names(X) or ()) and names_units(X):
        unit = owner or next(name for name in X.columns if SEPARATOR in name).partition(SEPARATOR)[0]
        return X.rename(columns={column: f"{unit}{SEPARATOR}{column}"}), unit
    is_units = isinstance(X, Mapping) and not any(isinstance(part, Mapping) for part in X.values())
    if is_units and (column in X or owner is not None):
        return _with_column(X, column, owner or str(next(name for name in X if name != column)))
    return X, owner


def _with_column(X, column, owner):
    """A dict of units in which what stands beside them is a column of one of them, missing where it is not there."""
    tables = {name: table for name, table in X.items() if name != column}
    unit = next((name for name in tables if str(name) == owner), None)
    if unit is None:
        return tables, owner
    table = as_table(tables[unit])
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(table, columns=[f"x{k}" for k in range(table.shape[1])])
    if any(is_called(name, column) for name in map(str, table.columns)):
        return tables, owner
    values = np.ravel(np.asarray(X.get(column, np.nan), dtype=object))
    if len(values) not in (1, len(table)):
        raise ValueError(f"{column!r} has {len(values)} rows, and unit {owner!r} {len(table)}; give one mode per row.")
    return tables | {unit: table.assign(**{column: np.broadcast_to(values, len(table))})}, owner
