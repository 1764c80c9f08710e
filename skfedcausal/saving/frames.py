"""Kinds of nodes for pandas' types."""

import numpy as np
import pandas as pd

from .nodes import Kind

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
