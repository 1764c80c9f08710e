"""From one table as it came to a float64 array, and simple facts about its columns: constants, and copies of others."""

import re

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from ..callers import warn
from .layout import SEPARATOR, check_flat_names, check_unique, listed
from .tuning import TUNING

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
