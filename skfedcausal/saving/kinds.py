"""Kinds of nodes for Python's and numpy's own types."""

import base64
from collections import OrderedDict
from math import prod

import numpy as np
from scipy import sparse

from .archive import NUMBERS
from .nodes import Kind

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
