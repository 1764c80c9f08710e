"""Inputs as users declare them, and as `fit` found them: which move, over what range, which cannot be told apart."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import warn
from ..containers.arrays import (
    SEPARATOR,
    as_names,
    as_native,
    as_table,
    column_names,
    flat_name,
    input_mask,
    listed,
    names_units,
    refuse_unknown,
    split_flat_names,
)
from ..containers.rows import n_dimensions, unit_inputs
from ..statespace.episodes import episodes
from .tuning import TUNING

# Inputs as users declare them: which columns they are, on which units they act, and which of them are words.
#
# An input that acts on several units is declared once. The plant has one column for it, which the first unit sends;
# another column for the next unit would be the same numbers again, and no record could tell the two apart.
#
# Of an input of words (text, on and off, grades) units hold one column of codes, and the plant has indicators. The
# first level is the reference: every other one has a column of its own, whose coefficients say what this level does
# that the reference does not. Questions name levels, as the record does.

_COMMA = re.compile(r"[-+]?\d+,\d+$")  # a decimal comma, of which the reader of numbers says what to do


@dataclass(frozen=True)
class Declared:
    """Columns of a record that are inputs, and those `moved` to the first of their units (:func:`merged_inputs`)."""

    input_columns: Any
    moved: list

    @property
    def names(self):
        """Columns that are inputs, whatever units they act on."""
        return list(self.input_columns) if isinstance(self.input_columns, Mapping) else self.input_columns

    def labels(self, X, client_labels):
        """Unit of each column of a table, those of inputs by the first of the units that they act on."""
        input_columns = self.input_columns
        if not isinstance(input_columns, Mapping):
            return client_labels
        X = as_native(X)
        if isinstance(X, (list, tuple, Mapping)) or column_names(X) is None or not isinstance(client_labels, str):
            return client_labels
        if not names_units(X):
            return client_labels
        columns = column_names(X)
        prefixes = dict(zip(columns, split_flat_names([c for c in columns if SEPARATOR in c] or columns), strict=True))
        sensors = {unit for column, unit in prefixes.items() if column not in input_columns}
        return [
            prefixes[column]
            if column not in input_columns or prefixes[column] in sensors
            else _sender(input_columns[column], column, sorted(sensors))
            for column in columns
        ]

    def units(self, layout):
        """Units that an input acts on beside the one that sends it, by the name of the input."""
        shared: dict[str, tuple] = {}
        for column, given in self.input_columns.items() if isinstance(self.input_columns, Mapping) else ():
            units = _units(given, layout.names, column)
            others = tuple(unit for unit in units if unit != layout.owner(column))
            shared |= {column: others} if others else {}
        for units, positions in self.moved:
            _units(list(units), layout.names, units)
            own = layout.inputs[layout.names.index(units[0])]
            shared |= {own[k]: tuple(units[1:]) for k in positions if len(units) > 1}
        return shared


def _units(given, names, what):
    """Units that an input is said to act on, all of which are there."""
    units = [] if given is None else as_names(given, "input_columns")
    refuse_unknown(units, names, f"Input {what!r} is said to act on", "units are")
    return units


def _sender(units, column, names):
    """The unit that sends an input whose column names none of the plant."""
    units = _units(units, names, column)
    if not units:
        raise ValueError(
            f"`input_columns` does not say on which units {column!r} acts; give their names, of {listed(names)}."
        )
    return units[0]


def merged_inputs(inputs):
    """Inputs beside the record with those of several units at the first of them, and what was moved there.

    That is, for each, the units, and its positions among the inputs of the first.
    """
    if isinstance(inputs, (list, tuple)) and any(isinstance(part, Mapping) for part in inputs):  # episodes
        parts = [merged_inputs(part) for part in inputs]
        return [own for own, _ in parts], parts[0][1]
    if not isinstance(inputs, Mapping):
        return inputs, []
    merged = {unit: table for unit, table in inputs.items() if not isinstance(unit, tuple)}
    moved = []
    for units, table in inputs.items():
        if isinstance(units, tuple):
            if not units or not all(isinstance(unit, str) for unit in units):
                raise ValueError(f"Got {units!r} among the units in `inputs`; give names of units.")
            table = as_table(table)
            before = merged.get(units[0])
            n_own = 0 if before is None else np.shape(as_table(before))[1]
            moved.append((units, range(n_own, n_own + table.shape[1])))
            merged[units[0]] = table if before is None else _beside(as_table(before), table, units)
    return merged, moved


def _beside(before, table, units):
    if isinstance(before, pd.DataFrame) and isinstance(table, pd.DataFrame):
        known = [flat_name(units[0], str(column)) for column in before.columns]
        names = [flat_name(units[0], str(column)) for column in table.columns]
        if set(known) & set(names):
            raise ValueError(
                f"Inputs {listed(set(known) & set(names))} came twice; give an input of several units once."
            )
        return pd.concat([before, table], axis=1)
    if isinstance(before, pd.DataFrame) or isinstance(table, pd.DataFrame):
        raise ValueError(
            f"The inputs of {units[0]!r} and those of {listed(units)} together are a frame and an array; give both as "
            "the same."
        )
    return np.hstack([before, table])


# --- words -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Levels:
    """Levels of an input, the reference first; as a basis, indicators of the others."""

    levels: tuple

    def __call__(self, codes):
        return (np.asarray(codes)[:, None] == np.arange(1, len(self.levels))).astype(float)

    @property
    def names(self):
        """Levels as words."""
        return tuple(map(str, self.levels))

    def code(self, value, name):
        """Code of a level that somebody gave."""
        for k, level in enumerate(self.levels):
            if str(value) == str(level) or (np.isscalar(value) and value == level):
                return float(k)
        raise ValueError(f"Got {value!r} for input {name!r}, whose levels are {listed(self.names)}; give one of these.")

    def codes(self, values, name):
        """Codes of a series, NaN where it is missing."""
        values = np.asarray(values, dtype=object)
        missing = pd.isna(values)
        found = {value: self.code(value, name) for value in dict.fromkeys(values[~missing].tolist())}
        return np.array([np.nan if gap else found[value] for value, gap in zip(values, missing, strict=True)])

    def words(self, codes):
        """Levels of a series of codes."""
        return np.array(self.levels, dtype=object)[np.asarray(codes, dtype=int)]


def learned_levels(X, inputs, input_columns):
    """The :class:`Levels` of inputs that are words, by flat name."""
    if not (has_words(X) or has_words(inputs)):
        return {}
    seen: dict[str, list] = {}

    def collected(name, column):
        levels = levels_of(column)
        if levels is not None:
            seen.setdefault(name, []).append((isinstance(column.dtype, pd.CategoricalDtype), levels))

    each_input(X, inputs, input_columns, None, collected)
    return {name: Levels(_joined(parts)) for name, parts in seen.items()}


def coded_record(X, inputs, levels, units=None):
    """A record and its inputs with codes in place of the words that have `levels`."""
    if not levels:
        return X, inputs

    def coded(name, column):
        return levels[name].codes(column, name) if name in levels else None

    return each_input(X, inputs, levels.__contains__, units, coded)


def levels_of(column):
    """Levels of a column in order, None for one of numbers or of anything else."""
    present = column.dropna()
    if isinstance(column.dtype, pd.CategoricalDtype):
        there = set(present.unique())
        return [level for level in column.cat.categories if level in there]
    if not (pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype)):
        return None
    levels = present.unique().tolist()
    if not levels or not all(isinstance(level, (str, bool)) for level in levels) or len(levels) > TUNING.declared_most:
        return None
    if all(map(_is_number, levels)) or any(_COMMA.match(str(level)) for level in levels):
        return None
    return levels


def _is_number(level):
    try:
        float(level)
    except ValueError:
        return False
    return True


def _joined(parts):
    """Levels of all episodes: in the order of their categories, words in that of the alphabet."""
    levels = list(dict.fromkeys(level for _, own in parts for level in own))
    return tuple(levels if all(ordered for ordered, _ in parts) else sorted(levels, key=str))


def each_input(X, inputs, input_columns, units, function):
    """Containers with the columns of inputs that `function` of name and column makes of them, None for as it is."""
    X = as_native(X)
    if isinstance(X, (list, tuple)) and X:
        parts = [as_native(part) for part in X]
        if all(isinstance(part, Mapping) or names_units(part) for part in parts):  # episodes
            beside = [None] * len(parts) if inputs is None else inputs
            pairs = zip(parts, beside, strict=True)
            read, own = zip(*(each_input(*pair, input_columns, units, function) for pair in pairs), strict=True)
            return list(read), None if inputs is None else list(own)
        X = parts
    names = units or _unit_names(X)
    if input_columns is not None:
        X = _columns_inside(X, input_columns, function)
    return X, inputs if inputs is None else _columns_beside(inputs, names, function)


def _unit_names(X):
    if isinstance(X, Mapping):
        return [str(name) for name in X]
    if isinstance(X, list):
        return [f"client{k}" for k in range(len(X))]
    return list(dict.fromkeys(split_flat_names(column_names(X)))) if names_units(X) else None


def _columns_inside(X, input_columns, function):
    """The same for inputs among the columns of X."""
    is_table = not isinstance(X, (Mapping, list))
    units = X.values() if isinstance(X, Mapping) else X
    named = {None: X} if is_table else dict(zip(_unit_names(X), units, strict=True))
    tables = {unit: _framed(table) for unit, table in named.items()}
    flat = {unit: [_flat(unit, column) for column in _names(table)] for unit, table in tables.items()}
    mask = iter(input_mask(input_columns, [name for own in flat.values() for name in own]))
    changed = {}
    for unit, table in tables.items():
        chosen = [name if next(mask) else None for name in flat[unit]]
        changed[unit] = _replaced(table, chosen, function)
    if is_table:
        return changed[None]
    return dict(zip(X, changed.values(), strict=True)) if isinstance(X, Mapping) else list(changed.values())


def _columns_beside(inputs, names, function):
    """The same for inputs beside X."""
    if not isinstance(inputs, Mapping) and names is None:
        raise ValueError("Inputs that are no numbers need the names of their units here: give `inputs` as a dict.")
    inputs = inputs if names is None else unit_inputs(inputs, names)
    by_unit = list(inputs.items()) if isinstance(inputs, Mapping) else list(zip(names, inputs, strict=True))
    changed = []
    for unit, table in by_unit:
        if table is not None and not isinstance(table, Mapping):  # which is no table, and refused as such
            framed = _framed(table)
            flat = [_flat(unit, name) or f"{unit}{SEPARATOR}u{k}" for k, name in enumerate(_names(framed))]
            table = _replaced(framed, flat, function)
        changed.append(table)
    return dict(zip(inputs, changed, strict=True)) if isinstance(inputs, Mapping) else changed


def _framed(table):
    """A table as a frame, or an array that it is."""
    table = as_native(table)
    return table.to_frame() if isinstance(table, pd.Series) else table


def _names(table):
    names = column_names(table)
    return [None] * (table.shape[1] if np.ndim(table) > 1 else 1) if names is None else names


def _flat(unit, column):
    return column if unit is None or column is None else flat_name(str(unit), column)


def _replaced(table, names, function):
    """A table with the columns that `function` changes; names are None where nothing is to be changed."""
    columns = pd.DataFrame(table) if not isinstance(table, pd.DataFrame) else table
    changed = {}
    for k, name in enumerate(names):
        found = None if name is None else function(name, columns.iloc[:, k])
        if found is not None:
            changed[k] = found
    if not changed:
        return table
    copy = [changed.get(k, columns.iloc[:, k].to_numpy()) for k in range(columns.shape[1])]
    if isinstance(table, pd.DataFrame):
        return pd.DataFrame(dict(enumerate(copy)), index=table.index).set_axis(table.columns, axis=1)
    return np.column_stack([np.asarray(column, dtype=object) for column in copy])


def coded_values(value, levels, names):
    """Constants (k,) or a trajectory (horizon, k) of k inputs with codes for levels, None for one of numbers."""
    array, k = np.asarray(value, dtype=object), len(names)
    if array.ndim == 1:
        table = array[None] if len(array) == k else array[:, None]
    else:
        table = np.atleast_2d(array)
    if table.ndim != 2 or table.shape[1] != k:
        return value  # of a shape that is refused later
    columns = [
        column if own is None else own.codes(column, name)
        for column, own, name in zip(table.T, levels, names, strict=True)
    ]
    return np.column_stack(columns).reshape(array.shape)


def has_words(container):
    """Whether some table in a container has columns that are neither numbers nor truth values."""
    if isinstance(container, Mapping):
        return any(map(has_words, container.values()))
    if isinstance(container, (list, tuple)):
        return any(has_words(part) for part in container if n_dimensions(part) > 0)
    found = getattr(container, "dtypes", getattr(container, "dtype", None))
    kinds = found if isinstance(found, (list, tuple, pd.Series)) else [found]
    return container is not None and any(getattr(kind, "kind", "O") not in "fiub" for kind in kinds)


# --- gaps, ranges and rows -------------------------------------------------------------------------


def ranges_of(data):
    """Columns of all inputs, and their lowest and highest values."""
    columns = [column for U in data.inputs if U is not None for column in U.T]
    return columns, *np.array([(column.min(), column.max()) for column in columns]).reshape(-1, 2).T


def input_ranges(data, words=()):
    """Least and largest value of every input of a record by flat name, but of those that are words."""
    _, low, high = ranges_of(data)
    names = (name for own in data.layout.inputs for name in own)
    pairs = zip(names, low.tolist(), high.tolist(), strict=True)
    return {name: (least, most) for name, least, most in pairs if name not in words}


def warn_beyond(data, ranges, told=frozenset(), category=UserWarning):
    """Warn of inputs that are beyond their ranges in the nominal record, but of those that were `told` to be.

    Gives the names of those that are in the last row.
    """
    last = set()
    for U, own in zip(data.inputs, data.layout.inputs, strict=True):
        for name, column in zip(own, () if U is None else U.T, strict=False):
            if name not in ranges:  # words
                continue
            low, high = ranges[name]
            margin = TUNING.declared_beyond * (high - low) + TUNING.declared_rounding * max(abs(low), abs(high))
            beyond = (column < low - margin) | (column > high + margin)
            if beyond.any() and name not in told:
                warn(
                    f"Input {name!r} is beyond what was nominal, from {low:.4g} to {high:.4g}: what it does there is "
                    "an extrapolation, and an alarm takes more evidence. Monitoring continues. Give nominal rows with "
                    "such values to `fit`.",
                    category,
                )
            if beyond[-1]:
                last.add(name)
    return frozenset(last)


def filled_inputs(data, missing, before=None):
    """The record with gaps in its inputs filled, or refused; `before` are the inputs of the row before it."""
    filled = list(data.inputs)
    for m, (U, names) in enumerate(zip(data.inputs, data.layout.inputs, strict=True)):
        if U is None or np.isfinite(U).all():
            continue
        if missing == "hold":
            last = np.full((1, U.shape[1]), np.nan) if before is None else before[m][None]
            bounds = episodes(data.starts, len(U))
            parts = [np.vstack([last if a == 0 else np.nan * last, U[a:b]]) for a, b in bounds]
            filled[m] = U = np.concatenate([pd.DataFrame(part).ffill().to_numpy()[1:] for part in parts])
        gaps = [name for name, column in zip(names, U.T, strict=True) if np.isnan(column).any()]
        if gaps:
            where = " at the start of an episode, where there is no value to hold" if missing == "hold" else ""
            raise ValueError(
                f"Inputs {listed(gaps)} have missing values{where}: an input has to be known at every time step. Fill "
                "them in, or let the last value hold with InputModel(missing='hold')."
            )
    return replace(data, inputs=tuple(filled))


def a_row_later(data, late, before=None):
    """A record in which some inputs stand in the row after their own, whose measurements they cannot have moved.

    In the first row of an episode they are as they are; `before` are the inputs of the row before the record, if
    it goes on from there.
    """
    moved = list(data.inputs)
    for m, (U, names) in enumerate(zip(data.inputs, data.layout.inputs, strict=True)):
        chosen = np.array([name in late for name in names], dtype=bool)
        if U is None or not chosen.any():
            continue
        moved[m] = U.copy()
        for start, stop in episodes(data.starts, len(U)):
            moved[m][start + 1 : stop, chosen] = U[start : stop - 1, chosen]
        if before is not None:
            moved[m][0, chosen] = before[m][chosen]
    return replace(data, inputs=tuple(moved))


# Inputs of a plant as `fit` found them: which ones move, over what range, which cannot be told apart.


@dataclass(frozen=True)
class PlantInputs:
    """What is known of the inputs of a plant, columns of all units side by side."""

    units: tuple[str, ...]
    names: tuple[str, ...]
    active: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def learn(cls, data, early=()):
        """Inputs of a record without gaps; a warning names those that never move.

        The last row of an episode has no row that it acts on, for inputs that are `early` (names) the first one.
        """
        units = tuple(u for u, own in zip(data.names, data.layout.inputs, strict=True) for _ in own)
        names = tuple(name for own in data.layout.inputs for name in own)
        pieces = episodes(data.starts, data.n_samples)
        columns, low, high = ranges_of(data)
        act = [slice(1, None) if name in early else slice(None, -1) for name in names]
        pairs = zip(columns, act, strict=True)
        within = [[np.ptp(column[a:b][rows]) for a, b in pieces if b - a > 1] for column, rows in pairs]
        spread = np.array([max(moves, default=0.0) for moves in within])
        active = spread > 1e-12 * np.maximum(np.abs(low), np.abs(high))
        if not active.all():
            constant = [name for name, moves in zip(names, active, strict=True) if not moves]
            warn(
                f"Inputs {listed(constant)} never move within an episode and are left out: their effect cannot be "
                "learned from this record. Give rows in which they move (and rows after that, on which they act), or "
                "do not declare them as inputs."
            )
        return cls(units, names, active, low, high)

    def widened(self, data):
        """The same after further rows, in which an input that had never moved must not begin to."""
        _, low, high = ranges_of(data)
        low, high = np.minimum(low, self.low), np.maximum(high, self.high)
        moved = ~self.active & (high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
        if moved.any():
            raise ValueError(
                f"Inputs {listed(np.array(self.names, dtype=object)[moved])} move in this batch and did not in the "
                "first, after which they were left out. Start afresh with a batch in which they move."
            )
        return replace(self, low=low, high=high)

    @classmethod
    def told(cls, messages):
        """Inputs as units tell of them: without names, and without those that never move."""
        units: list[str] = []
        ranges = [np.zeros((2, 0))]
        for name, message in messages.items():
            units += [name] * message.n_inputs
            ranges.append(message.input_range)
        names = tuple(f"{u}{SEPARATOR}u{k - units.index(u)}" for k, u in enumerate(units))
        return cls(tuple(units), names, np.ones(len(units), dtype=bool), *np.hstack(ranges))

    def only(self, units):
        """The inputs of some of the units."""
        kept = np.array([unit in units for unit in self.units], dtype=bool)
        own: dict[str, Any] = {part: getattr(self, part)[kept] for part in ("active", "low", "high")}
        own |= {part: tuple(np.array(getattr(self, part), dtype=object)[kept]) for part in ("units", "names")}
        return replace(self, **own)

    def of(self, unit):
        """Positions of a unit's inputs."""
        return [k for k, owner in enumerate(self.units) if owner == unit]

    @property
    def active_names(self):
        """Flat names of the inputs that moved."""
        return tuple(name for name, moves in zip(self.names, self.active, strict=True) if moves)

    def position(self, name):
        """Position of an input by its flat name."""
        refuse_unknown([name], self.names, "Got unknown input", "known inputs are")
        return self.names.index(name)

    def expand(self, columns):
        """Columns of the inputs that moved as columns of all inputs, zero for the others."""
        full = np.zeros((len(columns), len(self.names)))
        full[:, self.active] = columns
        return full

    def check_known(self, change):
        """Refuse a change of an input that never moved in `fit`."""
        unknown = np.array(self.names, dtype=object)[~self.active & change.any(axis=0)]
        if len(unknown):
            raise ValueError(
                f"Inputs {listed(unknown)} never moved in `fit`: their effect is not known. Known are "
                f"{listed(self.active_names)}."
            )

    def warn_outside(self, values, positions):
        """Warn of values outside the range seen in `fit`."""
        for k, column in zip(positions, values.T, strict=True):
            low, high = np.nanmin(column), np.nanmax(column)
            if low < self.low[k] or high > self.high[k]:
                asked = f"{low:.4g}" if low == high else f"values from {low:.4g} to {high:.4g}"
                warn(
                    f"Input {self.names[k]!r} is asked for {asked}, but was only "
                    f"seen from {self.low[k]:.4g} to {self.high[k]:.4g}: the answer extrapolates."
                )

    def table(self, excitation):
        """Labelled table of the server's diagnostics, one row per input."""
        columns = {"unit": self.units, "input": self.names, "low": self.low, "high": self.high}
        frame = pd.DataFrame(columns | {"active": self.active})
        for column, values in excitation.items():
            frame[column] = np.nan
            frame.loc[self.active, column] = np.asarray(values)
        return frame


def warn_of_inputs(server, excitation, known, words):
    """Say what was found of inputs that makes answers doubtful.

    `excitation` is the table of the inputs, `known` the :class:`PlantInputs` as users write them, and `words` says of
    each when it was set.
    """
    _warn_of_excitation(excitation)
    _warn_of_feedback(server)
    _warn_of_hidden_causes(server)
    _warn_of_timing(server, known, words)
    _warn_of_misfit(server, {unit for unit, word in zip(known.units, words, strict=True) if word == "before"})


def _warn_of_excitation(table):
    """Warn of inputs that other inputs and the states explain almost completely."""
    if "share" not in table:
        return
    hardly = table.loc[table["share"] < TUNING.inputs_hardly, "input"]
    if len(hardly):
        warn(
            f"Inputs {listed(hardly)} hardly move on their own: other inputs and the states explain all but "
            f"{TUNING.inputs_hardly:.1%} of their variance. Their effects are poorly known; look at the standard "
            "errors."
        )


def _warn_of_feedback(server):
    """Warn that inputs depend on measurements, and say what was done about it."""
    if controlled := getattr(server, "controlled_units_", ()):
        warn(
            f"Inputs of {listed(controlled)} depend on measurements (see `feedback_`). The likelihood given "
            "the inputs stays valid and standard errors of effects come from its observed curvature; choose "
            "by `loops` whether the controllers respond in counterfactuals."
        )


def _warn_of_hidden_causes(server):
    """Warn of inputs that move with measurements of other units which they cannot have caused."""
    table = getattr(server, "hidden_causes_", None)
    if table is None or not table["suspect"].any():
        return
    pairs = [f"{row.input_of} with {row.measured}" for row in table[table["suspect"]].itertuples()]
    warn(
        f"Inputs move with measurements of other units that they cannot have caused: {listed(pairs)}. A hidden cause "
        "of both looks like that, or a controller that reads the other unit. With a hidden cause the effects of these "
        "inputs are wrong by more than their bands say: ask `inspection.sensitivity` how strong it must be to void "
        "them, and give what else moves the input (its set point) in `instruments`."
    )


def _warn_of_timing(server, known, words):
    """Warn of inputs that are said to come before their row and were found to follow measurements."""
    controlled = {*getattr(server, "controlled_units_", ()), *_following_the_row_before(server, known, words)}
    inputs = zip(known.units, known.names, words, strict=True)
    early = [name for unit, name, word in inputs if word == "before" and unit in controlled]
    if early:
        warn(
            f"Inputs {listed(early)} are said to be set before their row is measured (sampled='before') and depend "
            "on measurements. That is right for a controller that reads the row before; of one that reads its own "
            "row the plant takes the answer for an effect: say sampled='after' for those."
        )


def _following_the_row_before(server, known, words):
    """Units of early inputs alone, which are sent a row ahead: beside it stand the measurements of the row before."""
    table = getattr(server, "feedback_", None)
    if table is None or "same_row_p_value" not in table:
        return set()
    late = {unit for unit, word in zip(known.units, words, strict=True) if word != "before"}
    rejected = table.loc[table["same_row_p_value"] * len(table) < TUNING.inputs_loop_level, "controlled"]
    return set(rejected) - late


def _warn_of_misfit(server, at_once=()):
    """Warn of inputs that act otherwise than the plant says, or within the row that they stand in.

    Units `at_once` are known for the latter.
    """
    table = getattr(server, "feedback_", None)
    if table is None or "misfit_p_value" not in table:
        return
    open_loop = table[~table["controlled"].isin(server.controlled_units_)]  # else new inputs are no news
    for kind, what in _MISFITS.items():
        asked = open_loop[~open_loop["controlled"].isin(at_once)] if kind == "same_row" else open_loop
        rejected = asked[asked[f"{kind}_p_value"] * len(table) < TUNING.inputs_misfit_level]
        pairs = [f"{row.controlled} on {row.measured}" for row in rejected.itertuples()]
        if pairs:
            warn(f"{what.format(listed(pairs))} See `feedback_` for the tests.")


_MISFITS = {
    "same_row": "Inputs and measurements move together within a row: {}. Either an input was set before the "
    "row was measured and acts at once, which the plant does not have (say sampled='before' for it), or it "
    "follows that measurement.",
    "misfit": "The plant does not explain all that earlier inputs have done: {}. Dead time, a higher order, "
    "an input that acts at once or a curved one look like that; effects of these inputs are doubtful beyond "
    "their standard errors.",
}
