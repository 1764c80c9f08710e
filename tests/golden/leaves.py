"""An answer of whatever type as leaves: texts, whole numbers, truth values and arrays of numbers by their path."""

from dataclasses import fields, is_dataclass
from numbers import Integral, Real

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator

_LONG_TEXT = 200  # characters, beyond which a text is compared line by line
_OF_A_RUN = {  # names of what differs from run to run: times, keys, the accounts that hold them
    "ledger_",
    "stream_ledger_",
    "layout_",
    "partition_",
    "work_left",
    "time",
    "release",
    "account",
    "accountant",
    "clock",
}
_MADE_WHEN_ASKED = (  # by servers
    "links_",
    "validity_",
    "correlations_",
    "transition_",
    "process_cov_",
    "input_",
    "lag_transitions_",
    "lag_inputs_",
    "input_at_once_",
)
_HELD = {  # what holds numbers that other attributes show
    "plant_",
    "unshrunk_plant_",
    "watched_plant_",
    "engine_",
    "errors_",
    "curvature_",
    "is_settled_",
    "correlated_pairs_",
    "drifting_units_",
    "doubtful_pairs_",
    "batches_",
    "outdone_",
}


def leaves(answer):
    """Leaves of an answer by their path, in its order."""
    return dict(_walk(answer, ""))


def _walk(value, path):
    """(path, leaf) of all that a value holds."""
    if isinstance(value, str):
        yield from _text(value, path)
    elif value is None or isinstance(value, bool | np.bool_):
        yield path, None if value is None else bool(value)
    elif isinstance(value, Integral):
        yield path, int(value)
    elif isinstance(value, Real | complex):
        yield from _array(np.asarray(value), path)
    elif isinstance(value, np.ndarray):
        yield from _array(value, path)
    elif isinstance(value, pd.DataFrame):
        yield from _frame(value, path)
    elif isinstance(value, pd.Series | pd.Index):
        yield from _column(value, path)
    elif sparse.issparse(value):
        yield from _array(value.toarray(), path)
    elif isinstance(value, slice | range | pd.Timestamp | pd.Timedelta | np.datetime64 | np.timedelta64):
        yield path, str(value)
    else:
        yield from _container(value, path)


def _container(value, path):
    """Leaves of what has members."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        yield from _sequence(list(value), path)
        return
    for name, member in _members(value, path):
        yield from _walk(member, f"{path}.{name}" if path else str(name))


def _members(value, path):
    """(name, member) of a dict, a set, a named tuple, a dataclass, a graph or a fitted object."""
    if isinstance(value, dict):
        return [(key, member) for key, member in value.items() if key not in _OF_A_RUN]
    if isinstance(value, set | frozenset):
        return [("members", sorted(map(str, value)))]
    if hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, BaseEstimator):
        return list(public_attributes(value).items())
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name[0] != "_" and field.name not in _OF_A_RUN]
        return [(name, getattr(value, name)) for name in names]
    if hasattr(value, "adjacency"):
        return [
            ("nodes", dict(value.nodes(data=True))),
            ("edges", {f"{a} {b}": d for a, b, d in value.edges(data=True)}),
        ]
    if type(value).__module__.startswith("skfedcausal") and hasattr(value, "__dict__"):
        return [(k, v) for k, v in vars(value).items() if k[0] != "_" and k not in _OF_A_RUN and not callable(v)]
    raise TypeError(f"{path or 'The answer'} is a {type(value).__name__}, which the golden run cannot read.")


def is_property(fitted, name):
    """Whether an attribute is made when it is asked for."""
    return isinstance(getattr(type(fitted), name, None), property)


def public_attributes(fitted):
    """What a fit left behind by name, in their order, what is made when it is asked for among it."""
    is_estimator = hasattr(fitted, "server_")
    names, held = (("links_",), set()) if is_estimator else (_MADE_WHEN_ASKED, _HELD)
    lazy = {name: getattr(fitted, name) for name in names if is_property(fitted, name) and hasattr(fitted, name)}
    found = {name: value for name, value in {**vars(fitted), **lazy}.items() if name[-1] == "_" and name[0] != "_"}
    return {name: found[name] for name in sorted(found) if name not in _OF_A_RUN | held}


def _text(value, path):
    """A text, a long one by lines, so that a difference names its line."""
    if len(value) <= _LONG_TEXT:
        yield path, value
    else:
        yield f"{path}.lines", value.splitlines()


def _frame(table, path):
    """Columns of a table, and its index where that is more than a count."""
    if not isinstance(table.index, pd.RangeIndex):
        yield from _column(table.index, f"{path}.index")
    yield f"{path}.columns", [str(name) for name in table.columns]
    for place, name in enumerate(table.columns):
        if name not in _OF_A_RUN:
            yield from _column(table.iloc[:, place], f"{path}.{name}" if path else str(name))


def _column(column, path):
    """A column of numbers, words or anything."""
    if isinstance(column, pd.MultiIndex) or column.dtype.kind in "mM":
        yield path, [str(entry) for entry in column]
    elif column.dtype.kind in "biufc":
        yield from _array(column.to_numpy(), path)
    else:
        yield from _sequence(list(column), path)


def _sequence(values, path):
    """A list as an array if it is one of numbers, as words if of words, and otherwise member by member."""
    if values and all(isinstance(v, Real | np.bool_) and not isinstance(v, str) for v in values):
        yield from _array(np.asarray(values), path)
    elif all(isinstance(v, str | pd.Timestamp) for v in values):
        yield path, [str(v) for v in values]
    else:
        yield f"{path}.len", len(values)
        for place, value in enumerate(values):
            yield from _walk(value, f"{path}[{place}]")


def _array(values, path):
    """An array of numbers; of complex ones real and imaginary parts."""
    if values.dtype.kind == "c":
        yield f"{path}.real", values.real
        yield f"{path}.imag", values.imag
    elif values.dtype.kind in "biuf":
        yield path, values
    elif values.dtype.kind in "UO" and values.ndim == 1:
        yield from _sequence(values.tolist(), path)
    else:
        yield from _sequence(list(values), path)
