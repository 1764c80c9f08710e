"""Which columns of a plant's flat table belong to which unit, and what they are called."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from reprlib import repr as short
from typing import Any, Self


@dataclass(frozen=True)
class PlantLayout:
    """Units of a plant and their columns: what `fit` remembers of a container, no data.

    The flat table has one column per sensor and per input that came inside the container. Inputs
    handed over separately (``inputs=``) have names here but no positions.

    Parameters
    ----------
    names : tuple of str
        Units, in order.
    outputs : tuple of tuple of str
        Flat names of each unit's sensor columns.
    inputs : tuple of tuple of str
        Flat names of each unit's input columns; empty for a unit without inputs.
    output_positions : tuple of tuple of int
        Positions of each unit's sensor columns in the flat table.
    input_positions : tuple of tuple of int
        Positions of each unit's input columns in the flat table; empty for inputs that came
        separately.
    named : bool
        Whether the units' names were given by the user (dict, frame, labels) rather than made
        from positions.

    Notes
    -----
    A flat name is ``unit__sensor``. Two kinds of columns keep the name they came with: columns of
    a frame in which every column is its own unit, and columns of a frame whose units were given
    by ``client_labels``.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.containers import read_plant
    >>> frame = pd.DataFrame({"mill__power": [1.0, 2.0], "kiln__temp": [3.0, 4.0]})
    >>> layout = read_plant(frame).layout
    >>> layout.names
    ('mill', 'kiln')
    >>> layout.outputs
    (('mill__power',), ('kiln__temp',))
    """

    names: tuple[str, ...]
    outputs: tuple[tuple[str, ...], ...]
    inputs: tuple[tuple[str, ...], ...]
    output_positions: tuple[tuple[int, ...], ...]
    input_positions: tuple[tuple[int, ...], ...]
    named: bool

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.names)

    @property
    def n_columns(self) -> int:
        """Number of columns of the flat table."""
        return len(self.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Flat names of all columns of the flat table, in its order."""
        name_at: dict[int, str] = {}
        units = zip(self.output_positions + self.input_positions, self.outputs + self.inputs, strict=True)
        for positions, names in units:
            name_at.update(zip(positions, names, strict=False))  # inputs that came separately have no position
        return tuple(name_at[position] for position in sorted(name_at))

    def only(self, names: Collection[str]) -> Self:
        """Layout of some of the units, in the order of this one.

        Parameters
        ----------
        names : collection of str
            Units to keep.

        Returns
        -------
        PlantLayout
        """
        kept = [k for k, name in enumerate(self.names) if name in names]
        own = ("names", "outputs", "inputs", "output_positions", "input_positions")
        parts: dict[str, Any] = {part: tuple(getattr(self, part)[k] for k in kept) for part in own}
        return replace(self, **parts)

    @property
    def has_columns(self) -> bool:
        """Whether the sensors are known by name; those at sites of their own are not."""
        return any(self.outputs)

    def output_places(self) -> tuple[list[list[int]], list[str]]:
        """Positions of each unit's sensors in a table without the inputs, and the names of its columns.

        Returns
        -------
        positions : list of list of int
        columns : list of str
        """
        name_at = dict(zip(sum(self.output_positions, ()), sum(self.outputs, ()), strict=True))
        rank = {position: k for k, position in enumerate(sorted(name_at))}
        positions = [[rank[position] for position in unit] for unit in self.output_positions]
        return positions, [name_at[position] for position in rank]

    @property
    def has_inputs(self) -> bool:
        """Whether some unit has inputs."""
        return any(self.inputs)

    @property
    def has_separate_inputs(self) -> bool:
        """Whether inputs came beside the table (``inputs=``) instead of inside it."""
        return any(names and not positions for names, positions in zip(self.inputs, self.input_positions, strict=True))

    def unit_columns(self, unit: int) -> tuple[int, ...]:
        """Positions in the flat table of all columns of one unit, ascending.

        Parameters
        ----------
        unit : int
            Position of the unit in `names`.

        Returns
        -------
        tuple of int
        """
        return tuple(sorted(self.output_positions[unit] + self.input_positions[unit]))

    def owner(self, column: str) -> str:
        """Name of the unit that has a column.

        Parameters
        ----------
        column : str
            Flat name of a sensor or input.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If there is no such column.
        """
        for name, outputs, inputs in zip(self.names, self.outputs, self.inputs, strict=True):
            if column in outputs or column in inputs:
                return name
        raise ValueError(f"Got unknown column {column!r}; known are {listed(self.columns)}.")


def learn_layout(labels, flat_names, is_input, *, named):
    """Layout of a flat table."""
    names = tuple(dict.fromkeys(labels))
    check_unit_names(names)
    sensors: dict[str, list[int]] = {name: [] for name in names}
    actuators: dict[str, list[int]] = {name: [] for name in names}
    for position, (label, flag) in enumerate(zip(labels, is_input, strict=True)):
        (actuators if flag else sensors)[label].append(position)
    silent = [name for name in names if not sensors[name]]
    if silent:
        raise ValueError(
            f"Got only input columns for unit(s) {listed(silent)}; every unit needs at least one sensor. "
            "Give an input the name (or the `client_labels` label) of the unit it acts on."
        )

    def name_columns(positions, unit, letter):
        return tuple(flat_names[position] or f"{unit}{SEPARATOR}{letter}{k}" for k, position in enumerate(positions))

    layout = PlantLayout(
        names=names,
        outputs=tuple(name_columns(sensors[name], name, "x") for name in names),
        inputs=tuple(name_columns(actuators[name], name, "u") for name in names),
        output_positions=tuple(tuple(sensors[name]) for name in names),
        input_positions=tuple(tuple(actuators[name]) for name in names),
        named=named,
    )
    check_unique(layout.columns, "columns")
    for name, columns in zip(names, layout.outputs, strict=True):
        check_flat_names([name] * len(columns), columns)
    return layout


def with_separate_inputs(layout, inputs):
    """Layout with the names of inputs that came beside the table."""
    inputs = tuple(inputs)
    check_unique([*layout.columns, *(name for unit in inputs for name in unit)], "columns")
    return replace(layout, inputs=inputs)


_NAMELESS = "the columns have no names here; in a pipeline, set_output(transform='pandas') keeps them"


def input_mask(input_columns, columns):
    """Mark the columns of the flat table that are inputs."""
    if input_columns is None:
        return [False] * len(columns)
    if callable(input_columns):
        return [bool(input_columns(position if name is None else name)) for position, name in enumerate(columns)]
    if isinstance(input_columns, (str, Integral)) or getattr(input_columns, "shape", None) == ():
        raise ValueError(f"Got {input_columns=}; give a list of names or positions: [{input_columns!r}].")
    position_of = {name: position for position, name in enumerate(columns) if name is not None}
    position_of |= {position: position for position in range(len(columns))}
    entries = [SEPARATOR.join(e) if _two_levels(e) else e for e in input_columns]
    usable = [isinstance(e, (str, Integral)) and not isinstance(e, bool) and e in position_of for e in entries]
    unknown = [entry for entry, flag in zip(entries, usable, strict=True) if not flag]
    if unknown:
        known = [name for name in columns if name is not None]
        hint = f"column names: {listed(known)}" if known else _NAMELESS
        raise ValueError(
            f"Got {listed(unknown)} in `input_columns`, which X does not have; give column names "
            f"or positions from 0 to {len(columns) - 1} ({hint})."
        )
    chosen = {position_of[entry] for entry in entries}
    return [position in chosen for position in range(len(columns))]


def _two_levels(entry):
    """Whether this is the name of a column in a frame with two levels, ``(unit, input)``."""
    return isinstance(entry, tuple) and len(entry) == 2 and all(isinstance(part, str) for part in entry)


SEPARATOR = "__"


def flat_name(unit, column, known=()):
    """Flat name of a unit's column; a name that is flat already stays as it is."""
    prefix = f"{unit}{SEPARATOR}"
    return column if column in known or column.startswith(prefix) else prefix + column


def split_flat_names(columns):
    """Unit of each ``unit__sensor`` column, split at the first ``__``."""
    parts = [column.partition(SEPARATOR) for column in columns]
    bad = ["".join(part) for part in parts if not all(part)]
    if bad:
        raise ValueError(
            f"Got column(s) {listed(bad)} without a unit or without a sensor among `client{SEPARATOR}sensor` "
            f"names; name every column 'client{SEPARATOR}sensor', drop the others (time belongs in the "
            "index), or say who owns each column with `client_labels`."
        )
    return [unit for unit, _, _ in parts]


def check_flat_names(units, columns):
    """Refuse flat names from which the unit's name would not come back."""
    pairs = ((unit, column) for unit, column in zip(units, columns, strict=True) if column.startswith(unit + SEPARATOR))
    misread = [unit for unit, column in pairs if column.partition(SEPARATOR)[0] != unit]
    _refuse_units(misread)


def _refuse_units(names):
    if names:
        raise ValueError(
            f"Got unit name(s) {listed(dict.fromkeys(names))}; rename them: 'client{SEPARATOR}sensor' is split at "
            f"the first '{SEPARATOR}', so a unit's name must not be empty or contain '{SEPARATOR}' or end with '_'."
        )


def column_order(columns, n_columns, known, what, *, by_name=True):
    """Order that brings columns into the order that was learned."""
    known = list(known)
    if columns is not None and by_name:
        check_known(columns, known, f"columns of {what}")
    if n_columns != len(known):
        raise ValueError(
            f"Got {n_columns} column(s) in {what}, expected {len(known)}: {listed(known)}. Give the columns that were "
            "there in `fit`, in the same order."
        )
    if columns is None or list(columns) == known or set(columns) != set(known):
        return None
    position_of = {name: position for position, name in enumerate(columns)}
    return [position_of[name] for name in known]


def check_known(names, known, what):
    """Refuse names that differ from those that were learned, in any order."""
    came, learned = set(names), set(known)
    missing = [name for name in known if name not in came]
    unknown = [name for name in names if name not in learned]
    wrong = ", ".join(f"{kind} {listed(own)}" for kind, own in (("missing", missing), ("unknown", unknown)) if own)
    if wrong:
        raise ValueError(f"Got {what} that do not fit: {wrong}. Known are {listed(known)}; rename, add or drop.")


def check_unit_names(names):
    """Refuse unit names that a flat ``unit__sensor`` name could not carry."""
    _refuse_units([name for name in names if not name or SEPARATOR in name])
    check_unique(names, "units")


def check_unique(names, what):
    """Refuse names that occur twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"Got duplicated name(s) {listed(twice)} among the {what}; give every one its own name.")


def as_names(given, what):
    """Names in a list, of one name or several that were given as `what`; others are refused."""
    try:
        names = [given] if isinstance(given, str) else list(given)
    except TypeError:
        names = [None]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"Got {what}={short(given)}; give a name, or a list of names.")
    return names


def refuse_unknown(names, known, says, those="known are", error=ValueError):
    """Refuse names that are not among known ones, with words before these and before those."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise error(f"{says} {listed(unknown)}; {those} {listed(list(known))}.")


def listed(items, limit=12, *, quoted=True):
    """Text of a list for an error message, cut after `limit` items."""
    items = [repr(str(item)) if quoted and isinstance(item, str) else str(item) for item in items]
    rest = f", ... ({len(items) - limit} more)" if len(items) > limit else ""
    return ", ".join(items[:limit]) + rest if items else "none"
