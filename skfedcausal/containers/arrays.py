"""One table of a plant: its units and columns, its values as float64, constants, copies and modes."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, isnan, nan
from numbers import Integral, Real
from reprlib import repr as short
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from ..arguments import warn
from .tuning import TUNING

# Which columns of a plant's flat table belong to which unit, and what they are called.


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


# From one table as it came to a float64 array, and simple facts about its columns: constants, and copies of others.

_FEW = 2**20  # numbers that one bit each is no matter for


def as_native(X):
    """Bring a table into pandas or NumPy form without copying where it already is."""
    if type(X) is np.ndarray:
        return X
    if hasattr(X, "to_pandas"):
        X = _to_pandas(X)
    if isinstance(X, pd.DataFrame):
        return _flatten_columns(X)
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(np.float64), np.nan)
    if hasattr(X, "__dataframe__") or isinstance(X, (pd.Series, np.ndarray)):
        return X
    return np.asarray(X) if hasattr(X, "__array__") else X


def as_table(X):
    """A frame or a two-dimensional array; one column of what has one dimension."""
    X = as_native(X)
    if isinstance(X, pd.Series):
        return X.to_frame()
    try:
        X = X if isinstance(X, pd.DataFrame) else np.asarray(X)
    except ValueError:
        raise ValueError("Got a table with rows of different length; give every row one value per column.") from None
    return X[:, None] if X.ndim == 1 else X


def _to_pandas(X):
    library = type(X).__module__.partition(".")[0]
    if library == "pyarrow":
        return X.to_pandas(split_blocks=True)  # columns stay where they are
    if library == "polars" and all(str(dtype) == "Float64" for dtype in getattr(X, "dtypes", ["other"])):
        return _of_columns(X)
    try:
        return X.to_pandas()
    except ImportError:  # polars needs pyarrow for it, but not for one column as an array
        return _of_columns(X) if hasattr(X, "columns") else pd.Series(X.to_numpy(), name=X.name)


def _of_columns(X):
    """Frame whose columns are those of another one, where they are."""
    return pd.DataFrame({name: X[name].to_numpy() for name in X.columns}, copy=False)


def columns_apart(X):
    """Columns of a large frame of float64 that do not lie in one block, each an array; None of other tables."""
    if not isinstance(X, pd.DataFrame) or X.size <= _FEW or not all(dtype == np.float64 for dtype in X.dtypes.unique()):
        return None
    columns = [X.iloc[:, k].to_numpy() for k in range(X.shape[1])]
    if any(column.strides != (8,) for column in columns):  # rows of a block lie together
        return None
    places = np.array([column.ctypes.data for column in columns])
    return None if (np.diff(places) == 8 * len(X)).all() else columns


def _flatten_columns(frame):
    if frame.columns.nlevels == 1:
        return frame
    if frame.columns.nlevels != 2:
        raise ValueError(f"Got {frame.columns.nlevels} column levels; give two (client, sensor), or flat names.")
    units = [str(unit) for unit, _ in frame.columns]
    flat = frame.copy(deep=False)
    flat.columns = [f"{unit}{SEPARATOR}{sensor}" for unit, sensor in frame.columns]
    check_flat_names(units, flat.columns)
    return flat


def column_names(X, what="X"):
    """Names of a table's columns."""
    if not isinstance(X, pd.DataFrame):
        return None
    names = list(X.columns)
    check_unique(names, f"columns of {what}")
    strings = [isinstance(name, str) for name in names]
    if not any(strings):
        return None
    if not all(strings):
        others = [name for name, flag in zip(names, strings, strict=True) if not flag]
        raise TypeError(
            "Feature names are only supported if all input features have string names. Got "
            f"{listed(others)} among the columns of {what}; use X.columns = X.columns.astype(str)."
        )
    return tuple(str(name) for name in names)


def names_units(X):
    """Whether a table says itself which unit its columns belong to."""
    return any(SEPARATOR in name for name in column_names(X) or ())


def n_columns(X):
    """Number of columns of a table, 0 for anything that is not two-dimensional."""
    shape: tuple = getattr(X, "shape", ())
    return shape[1] if len(shape) == 2 else 0


def to_floats(X, *, name_column, where="", min_features=1, **checks):
    """Table as a finite float64 array with NaN for missing values, shape (n_samples, n_features)."""
    plain = X.view(np.ndarray) if type(X) is np.memmap else X
    if type(X) is pd.DataFrame and X.shape[1] and all(dtype == np.float64 for dtype in X.dtypes.unique()):
        plain = X.to_numpy()  # an array of nothing but float64 is there already
    if is_fine(plain, checks.get("ensure_min_samples", 1), min_features):
        return plain
    if isinstance(X, pd.DataFrame) and not X.shape[1]:
        X = np.empty(X.shape)  # scikit-learn asks a frame without columns for its dtypes
    if isinstance(X, pd.DataFrame):
        X = _without_na(X)
    try:
        if kinds(X) & {"m", "M"}:
            raise TypeError("Times are not measurements.")  # which pandas would make nanoseconds of
        checks |= {"ensure_all_finite": "allow-nan", "ensure_min_features": min_features}
        return check_array(X, dtype=np.float64, **checks)
    except (TypeError, ValueError) as error:
        found = _first_bad_column(X)
        if found is not None:
            position, advice = found
            where = f"{name_column(position)}; {advice}"
        elif getattr(X, "ndim", 2) > 2:
            advice = "put episodes below each other and give `lengths`; give units as a list"
            where = f"{where}; {advice}" if where else f"X; {advice}"
        message = _without_values(str(error))
        if where:
            message = f"{message.rstrip('.')}. Found in {where}."
        raise same_kind(error, message) from None  # the original shows measurements


def _without_na(frame):
    """A frame whose columns of objects have NaN in place of pandas.NA, which is no number to NumPy."""
    if not any(map(pd.api.types.is_object_dtype, frame.dtypes.unique())):
        return frame
    objects = map(pd.api.types.is_object_dtype, frame.dtypes)
    pairs = zip(objects, frame.items(), strict=True)
    columns = [column.mask(column.isna(), np.nan) if flag else column for flag, (_, column) in pairs]
    return pd.concat(columns, axis=1)


def kinds(X):
    """Kinds of numbers in a table."""
    found = getattr(X, "dtypes", getattr(X, "dtype", None))
    dtypes = found if isinstance(found, (pd.Series, list, tuple)) else [found]
    return {getattr(dtype, "kind", "O") for dtype in dtypes}


def is_fine(X, min_samples, min_features):
    """Whether scikit-learn, which takes a while to find out, would return a table as it is."""
    is_table = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2
    if not is_table or X.shape[0] < min_samples or X.shape[1] < min_features:
        return False
    with np.errstate(over="ignore", invalid="ignore"):  # a sum takes no memory
        finite = np.isfinite(X).all() if X.size <= _FEW else np.isfinite(X.sum())
    return bool(finite) or not np.isinf(X).any()


def same_kind(error, message):
    """Error of the same kind with another message."""
    return TypeError(message) if isinstance(error, TypeError) else ValueError(message)


def _without_values(message):
    """Message of scikit-learn without the arrays it quotes."""
    message = re.sub(r":\narray=.*\.\nReshape", ". Reshape", message, flags=re.DOTALL)
    return re.sub(r"^(Complex data not supported)\n.*", r"\1.", message, flags=re.DOTALL)


def _first_bad_column(X):
    """Position of the first column that cannot be used, and what to do about it."""
    if not isinstance(X, (pd.DataFrame, np.ndarray)):
        return None
    for position in range(n_columns(X)):
        column = X.iloc[:, position] if isinstance(X, pd.DataFrame) else X[:, position]
        if np.iscomplexobj(column):
            return position, "give real and imaginary part as two columns"
        if getattr(column.dtype, "kind", "O") in "mM":
            return position, "times of rows belong in the index, durations are numbers of some unit; or leave it out"
        try:
            values = column.astype(np.float64)
        except (TypeError, ValueError) as error:
            comma = re.search(r"'[-+]?\d+,\d+", str(error))
            hint = " (pandas.read_csv reads decimal commas with decimal=',')" if comma else ""
            return position, f"convert it to numbers{hint} or leave it out"
        if np.isinf(values).any():
            return position, "replace infinite values by NaN (missing)"
    return None


def pick_columns(values, positions):
    """Columns of an array, as a view if they are consecutive, shape (n_samples, len(positions)."""
    first = positions[0]
    if list(positions) == list(range(first, first + len(positions))):
        return values[:, first : first + len(positions)]
    return np.take(values, positions, axis=1)


def n_moving(Y):
    """Columns of an (n_samples, n_features) array that say something of their own: constants, copies, sums do not.

    By some thousand rows of a long one.
    """
    Y = np.asarray(Y[:: max(-(-len(Y) // TUNING.arrays_enough), 1)])
    Y = Y[:, np.isfinite(Y).any(axis=0)]
    spread = np.nanstd(Y, axis=0)
    moves = spread > TUNING.arrays_still * np.nanmax(np.abs(Y), axis=0, initial=0.0)
    if not moves.any():
        return 0
    left = np.nan_to_num((Y[:, moves] - np.nanmean(Y[:, moves], axis=0)) / spread[moves])
    return int(np.linalg.matrix_rank(left, tol=TUNING.arrays_still * np.sqrt(Y.size)))


def constant_columns(Y: np.ndarray) -> np.ndarray:
    """Find columns that never change.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_features)
        Measurements, NaN where missing.

    Returns
    -------
    ndarray of bool of shape (n_features,)
        True where all present values are equal or all values are missing.

    Notes
    -----
    One pass over blocks of rows. A column is left alone as soon as it has changed, so ordinary
    data cost one block.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.containers import constant_columns
    >>> constant_columns(np.array([[1.0, 2.0, np.nan], [1.0, 3.0, np.nan], [np.nan, 4.0, np.nan]]))
    array([ True, False,  True])
    """
    Y = np.asarray(Y)
    n_samples, n_features = Y.shape
    low, high = np.full((2, n_features), np.nan)
    candidates = np.arange(n_features)
    block = 1024
    for start in range(0, n_samples, block):
        if not candidates.size:
            break
        rows = Y[start : start + block]
        if candidates.size < n_features:  # else the slice will do, without a copy
            rows = rows[:, candidates]
        low[candidates] = np.fmin(low[candidates], np.fmin.reduce(rows, axis=0))
        high[candidates] = np.fmax(high[candidates], np.fmax.reduce(rows, axis=0))
        # NaN compares as False: a column without values has not changed
        candidates = candidates[~(low[candidates] < high[candidates])]
    return ~(low < high)


def copied_tags(units):
    """Columns of one unit that repeat one of another, as (unit, later unit, column, its copy).

    `units` are (name, names of columns, values of shape (n_samples, n_columns)).
    """
    owner = [(k, j) for k, (_, _, Y) in enumerate(units) for j in range(Y.shape[1])]
    n_samples = min(len(Y) for _, _, Y in units)
    probes = np.unique(np.linspace(0, n_samples - 1, TUNING.arrays_probes).astype(int))
    seen = np.concatenate([Y[probes] for _, _, Y in units], axis=1)
    found: list[tuple] = []
    taken: set[int] = set()
    for a, alike in _alike(seen):
        k, i = owner[a]
        for b in () if a in taken else alike:
            m, j = owner[b]
            if m != k and b not in taken and _are_equal(units[k][2][:n_samples, i], units[m][2][:n_samples, j]):
                found.append((units[k][0], units[m][0], units[k][1][i], units[m][1][j]))
                taken.add(b)
    return found


def _alike(seen):
    """Columns, and the later ones that show the same in every one of a few rows in which both are there."""
    gaps = np.isnan(seen)
    whole = ~gaps.any(axis=0)
    texts = column_texts(seen)
    same: dict[bytes, list[int]] = {}
    for b in np.flatnonzero(whole).tolist():
        same.setdefault(texts[b], []).append(b)
    open_ones = np.flatnonzero(~whole)
    for a in range(seen.shape[1] - 1):
        others = open_ones if whole[a] else np.arange(seen.shape[1])
        others = others[others > a]
        differ = (seen[:, a, None] != seen[:, others]) & ~gaps[:, a, None] & ~gaps[:, others]
        alike = others[~differ.any(axis=0)].tolist()
        yield a, sorted(alike + [b for b in same[texts[a]] if b > a] if whole[a] else alike)


def column_texts(Y):
    """Columns as bytes, which are the same where all values are."""
    return [column.tobytes() for column in Y.T + 0.0]  # zeros have one sign


def _are_equal(x, y):
    both = ~np.isnan(x) & ~np.isnan(y)
    if both.sum() < TUNING.arrays_fewest or len(np.unique(x[both][:1000])) < TUNING.arrays_fewest_levels:
        return False
    return bool((x[both] == y[both]).mean() >= TUNING.arrays_equal)


def warn_of_copies(plant):
    """Warn where units have a tag in common."""
    found = copied_tags(list(plant.units()))
    if found:
        pairs = [f"{column!r} of {first!r} is {copy!r} of {second!r}" for first, second, column, copy in found]
        warn(
            f"Units have tags in common: {listed(pairs, 4, quoted=False)}. One sensor in two units is taken for a "
            "link between them. Leave each out of one unit.",
        )


# Modes in a column of words or numbers.

_BOOLEANS = {"true": True, "false": False}


def is_called(name, column):
    """Whether a flat name is that of a column, or its tag is."""
    return name == column or (SEPARATOR not in column and name.partition(SEPARATOR)[2] == column)


def plain_modes(values):
    """A column of modes as numbers, words and booleans, NaN where it is missing or blank.

    Each value is read by itself: one and the same mode is a number in a batch that holds numbers alone, and a text in
    one with a word.
    """
    places, found = _factorised(values)
    return pd.Series(np.array(found, dtype=object)[places])


def _factorised(values):
    """Places of values among the different ones, and these as plain modes, of which the last one is missing."""
    places, found = pd.factorize(np.asarray(values, dtype=object))
    return places, [*map(_plain, found), nan]  # missing ones have the place -1


def _plain(value):
    """A mode as a number or boolean where it is one, also as a text, else as a text; NaN for a blank."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    text = str(value).strip()
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    try:
        number = nan if not text else float(value if isinstance(value, Real) else text)
    except (ValueError, OverflowError):
        return text
    if not (isfinite(number) or isnan(number)) or "_" in text:  # words, as readers of files have them
        return text
    return int(number) if number.is_integer() else number


def modes_in(values, name):
    """Modes in a column, in order."""
    values = plain_modes(values).dropna()
    counts = values.value_counts()
    labels = sorted(counts.index.tolist(), key=lambda label: (isinstance(label, str), label))
    if len(labels) * TUNING.modes_fewest_per_mode > len(values):
        raise ValueError(
            f"{name!r} has {len(labels)} different values in {len(values)} rows: it does not name a mode. Give a "
            "column of a few modes, or name it in `input_columns` if it is a quantity."
        )
    rare = [label for label in labels if counts[label] < TUNING.modes_fewest_rows]
    if rare:
        raise ValueError(
            f"Mode(s) {listed(rare)} in {name!r} have fewer than {TUNING.modes_fewest_rows} rows in what is nominal, "
            "too few to "
            "learn a level from. Give more rows of them, join them with another mode, or leave those rows out."
        )
    return tuple(labels)


def mode_codes(values, labels):
    """Places of modes among those known, their number for others, NaN where missing; and the others."""
    known = {label: float(k) for k, label in enumerate(labels)}
    places, found = _factorised(values)
    codes = [nan if pd.isna(value) else known.get(value, float(len(known))) for value in found]
    unknown = [value for value in found if not pd.isna(value) and value not in known]
    return np.array(codes)[places], list(dict.fromkeys(unknown))


def warn_of_mode(value, name, labels, what):
    """Name a mode that is not known, and what is done about it."""
    warn(
        f"mode {value!r} of {name!r} was not in what was nominal: {what}. Monitoring continues. Known are "
        f"{listed(labels)}.",
    )


def mode_indicators(codes, n_codes):
    """Indicators of all modes but the first, (n_rows, n_codes - 1), from a column of codes (n_rows, 1)."""
    return (codes == np.arange(1, n_codes)).astype(float)
