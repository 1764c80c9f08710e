"""Kinds of nodes for types of Python, numpy and pandas."""

import base64
from collections import OrderedDict
from math import prod

import numpy as np
import pandas as pd
from scipy import sparse

from .archive import NUMBERS
from .nodes import Kind

# Kinds of nodes for Python's and numpy's own types.

_GENERATORS = {kind.__name__: kind for kind in (np.random.MT19937, np.random.PCG64)}
_LAST = 624  # place in the table of an MT19937, which reads there without a look


def _items(values, writer):
    return {"items": [writer.value(one, f"[{k}]") for k, one in enumerate(values)]}


def _pairs(values, writer):
    return {"items": [[writer.value(k, f"[{k!r}]"), writer.value(v, f"[{k!r}]")] for k, v in values.items()]}


def _put_pairs(values, node, reader):
    for key, value in node["items"]:
        values[reader.value(key)] = reader.value(value)


def _made_of(kind):
    return lambda node, reader: kind(reader.values(node["items"]))


def _bounds(value, writer):
    return {"items": [writer.value(one) for one in (value.start, value.stop, value.step)]}


# -- arrays ------------------------------------------------------------------------------------------------------------


def _axes(values):
    """Axes from the slowest in memory to the fastest, from 1 on, negative where memory is read backwards.

    Products of matrices take other ways, and give other last digits, where these are others.
    """
    if values.flags.c_contiguous:
        return list(range(1, values.ndim + 1))
    slowest = sorted(range(values.ndim), key=lambda k: -abs(values.strides[k]))
    return [-(k + 1) if values.strides[k] < 0 else k + 1 for k in slowest]


def _backwards(axes):
    return tuple(-k - 1 for k in axes if k < 0)


def _array(values, writer):
    """Fields of an array: numbers by their place, words and objects one by one."""
    fields = {"dtype": values.dtype.str.lstrip("<>=|"), "shape": list(values.shape)}
    if values.dtype.kind in "OUS":
        return {**fields, "items": [writer.value(one, f"[{k}]") for k, one in enumerate(values.ravel().tolist())]}
    axes = _axes(values)
    flat = np.flip(values, _backwards(axes)).transpose([abs(k) - 1 for k in axes]).ravel()
    flat = flat.view(np.int64) if values.dtype.kind in "mM" else flat
    if flat.dtype.name not in NUMBERS or not values.dtype.isnative:
        writer.refuse(f"an array of {values.dtype}, which no model file holds.")
    return {**fields, "axes": axes, "start": writer.take_in(flat)}


def _array_of(node, reader):
    dtype, shape = np.dtype(node["dtype"]), tuple(node["shape"])
    if not all(type(k) is int and k >= 0 for k in shape):
        raise ValueError(f"an array has the shape {shape}")
    size = prod(shape)
    if dtype.kind in "OUS":
        if len(node["items"]) != size:
            raise ValueError(f"an array of the shape {shape} has {len(node['items'])} elements")
        return np.empty(shape, dtype)
    places = [abs(k) - 1 for k in node["axes"]]
    if sorted(places) != list(range(len(shape))):
        raise ValueError(f"an array of {len(shape)} axes has the axes {node['axes']}")
    stored = np.dtype(np.int64) if dtype.kind in "mM" else dtype
    flat = reader.take_out(stored.name, node["start"], size).view(dtype)
    values = flat.reshape([shape[k] for k in places]).copy().transpose([places.index(k) for k in range(len(shape))])
    backwards = _backwards(node["axes"])
    return np.flip(values, backwards) if backwards else values


def _fill_array(values, node, reader):
    if "items" in node:
        flat = values.reshape(-1)  # a view: these are in C order
        for k, one in enumerate(reader.values(node["items"])):
            flat[k] = one


def _scalar_of(node, reader):
    value = _array_of(node, reader)
    _fill_array(value, node, reader)
    return value[()]


def _sparse(values, writer):
    if type(values).__name__ not in _SPARSE:
        writer.refuse(f"a {type(values).__name__}, of which model files hold {', '.join(_SPARSE)}.")
    parts = {name: writer.value(getattr(values, name)) for name in ("data", "indices", "indptr")}
    return {"class": type(values).__name__, "shape": list(values.shape), **parts}


def _sparse_of(node, reader):
    parts = tuple(reader.value(node[name]) for name in ("data", "indices", "indptr"))
    found = _SPARSE[node["class"]](parts, shape=tuple(node["shape"]))
    found.check_format(full_check=True)  # products trust the indices
    return found


_SPARSE = {kind.__name__: kind for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array, sparse.csc_array)}


# -- random numbers ----------------------------------------------------------------------------------------------------


def _generator(value, writer):
    """State of the bits, and of a RandomState the normal number that it has in hand."""
    legacy = isinstance(value, np.random.RandomState)
    state = value.get_state(legacy=False) if legacy else value.bit_generator.state
    if state["bit_generator"] not in _GENERATORS:
        writer.refuse(f"a {state['bit_generator']}, of which model files hold {' and '.join(_GENERATORS)}.")
    return {"state": writer.value(state)}


def _generator_of(node, reader):
    state = reader.value(node["state"])
    if not 0 <= state["state"].get("pos", 0) <= _LAST:
        raise ValueError(f"a generator stands at {state['state']['pos']}, expected 0 to {_LAST}")
    return state, _GENERATORS[state["bit_generator"]]()


def _numbers_of(node, reader):
    state, bits = _generator_of(node, reader)
    bits.state = state
    return np.random.Generator(bits)


def _legacy_of(node, reader):
    state, bits = _generator_of(node, reader)
    found = np.random.RandomState(bits)
    found.set_state(state)
    return found


# -- all of them -------------------------------------------------------------------------------------------------------

PLAIN = {
    float: Kind("float", lambda value, writer: {"text": repr(value)}, lambda node, reader: float(node["text"])),
    complex: Kind(
        "complex",
        lambda value, writer: {"items": [writer.value(value.real), writer.value(value.imag)]},
        lambda node, reader: complex(*reader.values(node["items"])),
    ),
    bytes: Kind(
        "bytes",
        lambda value, writer: {"text": base64.b64encode(value).decode("ascii")},
        lambda node, reader: base64.b64decode(node["text"], validate=True),
    ),
    list: Kind(
        "list", _items, lambda node, reader: [], lambda made, node, reader: made.extend(reader.values(node["items"]))
    ),
    set: Kind(
        "set", _items, lambda node, reader: set(), lambda made, node, reader: made.update(reader.values(node["items"]))
    ),
    tuple: Kind("tuple", _items, _made_of(tuple)),
    frozenset: Kind("frozenset", _items, _made_of(frozenset)),
    dict: Kind("dict", _pairs, lambda node, reader: {}, _put_pairs),
    OrderedDict: Kind("ordered dict", _pairs, lambda node, reader: OrderedDict(), _put_pairs),
    slice: Kind("slice", _bounds, lambda node, reader: slice(*reader.values(node["items"]))),
    range: Kind("range", _bounds, lambda node, reader: range(*reader.values(node["items"]))),
    np.ndarray: Kind("array", _array, _array_of, _fill_array),
    np.generic: Kind("number", lambda value, writer: _array(np.asarray(value), writer), _scalar_of),
    np.dtype: Kind("dtype", lambda value, writer: {"text": value.str}, lambda node, reader: np.dtype(node["text"])),
    sparse.sparray: Kind("sparse", _sparse, _sparse_of),
    np.random.RandomState: Kind("random state", _generator, _legacy_of),
    np.random.Generator: Kind("generator", _generator, _numbers_of),
}


# Kinds of nodes for pandas' types.

# -- columns: what an Index or a Series holds --------------------------------------------------------------------------


def _column(column, writer):
    """Fields of what a Series or an Index holds, by its dtype."""
    dtype, values = column.dtype, column.array
    if isinstance(dtype, np.dtype):
        return {"values": writer.value(np.asarray(values))}
    if isinstance(dtype, pd.DatetimeTZDtype):
        return {"values": writer.value(values.tz_convert("UTC").tz_localize(None).to_numpy()), "zone": str(dtype.tz)}
    if isinstance(dtype, pd.CategoricalDtype):
        parts = {"values": writer.value(np.asarray(values.codes)), "categories": writer.value(dtype.categories)}
        return {**parts, "ordered": dtype.ordered}
    if isinstance(dtype, pd.StringDtype):
        words = [None if pd.isna(one) else str(one) for one in values]
        return {"values": writer.value(words), "words": str(dtype)}
    return writer.refuse(f"a column of {dtype}, which no model file holds.")


def _column_of(node, reader):
    values = reader.value(node["values"])
    if "zone" in node:
        return pd.DatetimeIndex(values).tz_localize("UTC").tz_convert(node["zone"]).array
    if "categories" in node:
        return pd.Categorical.from_codes(values, categories=reader.value(node["categories"]), ordered=node["ordered"])
    if "words" in node:
        words = pd.array(values, dtype=node["words"])
        return words if isinstance(words.dtype, pd.StringDtype) else np.asarray(values, dtype=object)  # before pandas 3
    return values


# -- indices -----------------------------------------------------------------------------------------------------------


def _index(value, writer):
    return {**_column(value, writer), "name": writer.value(value.name)}


def _index_of(node, reader):
    values = _column_of(node, reader)
    return pd.Index(values, name=reader.value(node["name"]), dtype=values.dtype, copy=False)


def _times(value, writer):
    return {**_index(value, writer), "step": value.freqstr}


def _times_of(node, reader):
    index = _index_of(node, reader)
    index.freq = node["step"]
    return index


def _counted(value, writer):
    return {"items": [value.start, value.stop, value.step], "name": writer.value(value.name)}


def _levels(value, writer):
    return {"levels": writer.value(list(value.levels)), "codes": writer.value([np.asarray(one) for one in value.codes]),
            "names": writer.value(list(value.names))}  # fmt: skip


def _levels_of(node, reader):
    return pd.MultiIndex(**{name: reader.value(node[name]) for name in ("levels", "codes", "names")})


# -- tables ------------------------------------------------------------------------------------------------------------


def _series(value, writer):
    fields = {"index": writer.value(value.index, ".index"), "name": writer.value(value.name)}
    return {**_column(value, writer), **fields, "attrs": writer.value(value.attrs, ".attrs")}


def _series_of(node, reader):
    values = _column_of(node, reader)
    index, name = reader.value(node["index"]), reader.value(node["name"])
    return pd.Series(values, index=index, name=name, dtype=values.dtype, copy=False)


def _frame(value, writer):
    """Fields of a table: one array where all columns are numbers of one type, so that the order in memory is kept."""
    kinds = set(value.dtypes)
    if len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind in "biufc":
        fields = {"table": writer.value(value.to_numpy())}
    else:
        places = range(value.shape[1])
        columns = [{"kind": "column", **_column(value.iloc[:, k], writer)} for k in places]
        fields = {"parts": columns}
    axes = {"index": writer.value(value.index, ".index"), "columns": writer.value(value.columns, ".columns")}
    return {**fields, **axes, "attrs": writer.value(value.attrs, ".attrs")}


def _frame_of(node, reader):
    index, columns = reader.value(node["index"]), reader.value(node["columns"])
    if "table" in node:
        return pd.DataFrame(reader.value(node["table"]), index=index, columns=columns, copy=False)
    parts = {k: _column_of(part, reader) for k, part in enumerate(node["parts"])}
    found = pd.DataFrame({k: pd.Series(part, dtype=part.dtype) for k, part in parts.items()})
    found = found if len(parts) else pd.DataFrame(index=range(len(index)))
    return found.set_axis(index, axis=0).set_axis(columns, axis=1)


def _put_attrs(value, node, reader):
    value.attrs = reader.value(node["attrs"])


# -- moments and durations ---------------------------------------------------------------------------------------------


def _moment(value, writer):
    return {"items": [value.value if value.unit == "ns" else value.asm8.view("i8").item(), value.unit]}


def _zoned(value, writer):
    zone = None if value.tzinfo is None else str(value.tzinfo)
    plain = value if zone is None else value.tz_convert("UTC").tz_localize(None)
    return {**_moment(plain, writer), "zone": zone}


def _moment_of(node, reader):
    number, unit = node["items"]
    plain = pd.Timestamp(np.datetime64(number, unit))
    return plain if node["zone"] is None else plain.tz_localize("UTC").tz_convert(node["zone"])


def _span_of(node, reader):
    return pd.Timedelta(np.timedelta64(*node["items"]))


TABLES = {
    pd.DataFrame: Kind("frame", _frame, _frame_of, _put_attrs),
    pd.Series: Kind("series", _series, _series_of, _put_attrs),
    pd.Index: Kind("index", _index, _index_of),
    pd.DatetimeIndex: Kind("times", _times, _times_of),
    pd.TimedeltaIndex: Kind("durations", _times, _times_of),
    pd.RangeIndex: Kind(
        "counted", _counted, lambda node, reader: pd.RangeIndex(*node["items"]).set_names(reader.value(node["name"]))
    ),
    pd.MultiIndex: Kind("levels", _levels, _levels_of),
    pd.CategoricalIndex: Kind("categories", _index, lambda node, reader: pd.CategoricalIndex(_index_of(node, reader))),
    pd.Timestamp: Kind("time", _zoned, _moment_of),
    pd.Timedelta: Kind("duration", _moment, _span_of),
    type(pd.NaT): Kind("no time", lambda value, writer: {}, lambda node, reader: pd.NaT),
    type(pd.NA): Kind("missing", lambda value, writer: {}, lambda node, reader: pd.NA),
}
