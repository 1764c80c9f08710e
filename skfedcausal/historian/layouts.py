"""Tables of historians and tools brought into the two forms that are read: wide, and a row for every value."""

import re

import pandas as pd

from ..containers.layout import listed
from .measures import without_measure
from .times import TIME_NAMES, WORDS, are_times, compact_form
from .tuning import TUNING

_UNNAMED = re.compile(r"^(?:Unnamed: \d+|index|)$")
_TIME_ENDS = re.compile(r"[\s._-]*\(?(?:timestamp|time|date|datetime|zeit)\)?$", re.IGNORECASE)


def brought_into_form(table, said):
    """A table in one of the two forms, and what was done in words."""
    for layout in (_of_wincc, _of_ignition, _of_influx, _of_pairs, _transposed):
        changed = layout(table)
        if changed is not None:
            return changed[0], (*said, changed[1])
    return table, said


def time_column(table):
    """Name of the column of times that has none of the usual names, or one with its unit behind it; else None.

    It is the first or the second one, or the only one of the others.
    """
    for name in table.columns[:2]:
        if holds_times(table[name]) or without_measure(str(name)).strip().lower() in TIME_NAMES:
            return name
        if pd.api.types.is_integer_dtype(table[name]) and _are_compact(table[name].to_numpy()):
            return name
    others = [name for name in table.columns[2:] if table[name].dtype.kind not in "iufb" and holds_times(table[name])]
    return others[0] if len(others) == 1 else None


def _are_compact(numbers):
    """Whether whole numbers are times, as 2026030108, which go on from row to row."""
    some = numbers[:: max(1, len(numbers) // TUNING.layouts_sample)]
    form = compact_form(some)
    if form is None or len(some) < 2 or not (some[1:] >= some[:-1]).all() or some[0] == some[-1]:
        return False
    return bool(pd.to_datetime(pd.Series(some).astype(str), format=form, errors="coerce").notna().all())


def holds_times(column):
    """Whether the cells of a column are times: of a sample all, a line below the table aside."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    if pd.api.types.is_numeric_dtype(column):
        return False
    there = column.dropna()
    some = there.iloc[:: max(1, len(there) // TUNING.layouts_sample)].iloc[: TUNING.layouts_sample]
    return len(there) > 0 and are_times(some)


def _of_wincc(table):
    """Rows of WinCC without those that say that its archive was started or stopped."""
    if "VarName" not in table or not (events := table["VarName"].astype(str).str.startswith("$RT_")).any():
        return None
    return table[~events], f"left out: {int(events.sum())} rows about the archive of WinCC"


def _of_ignition(table):
    """Rows of Ignition's ``sqlt_data``, whose values stand in a column for each type of tag."""
    names = {str(name).lower(): name for name in table.columns}
    if not {"tagid", "floatvalue", "t_stamp"} <= set(names):
        return None
    values = pd.to_numeric(table[names["floatvalue"]], errors="coerce")
    if "intvalue" in names:
        values = values.fillna(pd.to_numeric(table[names["intvalue"]], errors="coerce"))
    long = pd.DataFrame({"time": table[names["t_stamp"]], "tag": table[names["tagid"]].astype(str), "value": values})
    if "dataintegrity" in names:
        long["quality"] = table[names["dataintegrity"]]
    return long, "layout: sqlt_data of Ignition; tags are called by their numbers (tagid)"


_OF_INFLUX = ("result", "table", "_start", "_stop", "_time", "_value", "_field", "_measurement")


def _of_influx(table):
    """Rows of a query of InfluxDB, whose series are told by the columns beside time and value."""
    if not {"_time", "_value", "_field"} <= set(table.columns):
        return None
    tags = [name for name in table.columns if name not in _OF_INFLUX and not _UNNAMED.match(str(name))]
    tags = [name for name in tags if table[name].notna().any()]
    if "_measurement" in table and (table["_measurement"].nunique() > 1 or not tags):
        tags.insert(0, "_measurement")
    parts = [table[name].fillna("").astype(str) for name in (*tags, "_field")]
    tag = parts[0].str.cat(parts[1:], sep=".") if len(parts) > 1 else parts[0]
    if {"table", "_start", "_stop"} <= set(table.columns):
        tag = _told_apart(tag, table)
    long = pd.DataFrame({"time": table["_time"], "tag": tag, "value": table["_value"]})
    return long, f"layout: a query of InfluxDB; tags are called by {listed([*tags, '_field'], quoted=False)}"


def _told_apart(tag, table):
    """Names of tags with a number where several series of one span of time have the same."""
    keys = pd.DataFrame({"tag": tag, "start": table["_start"], "stop": table["_stop"], "table": table["table"]})
    series = keys.drop_duplicates()
    number = series.groupby(["tag", "start", "stop"]).cumcount()
    numbers = keys.merge(series.assign(number=number), how="left")["number"].to_numpy()
    return tag.where(numbers == 0, tag + "." + pd.Series(numbers, index=tag.index).astype(str))


def _of_pairs(table):
    """Pairs of columns, times and values of a tag each, as sheets of DataLink have them."""
    columns = list(table.columns)
    if len(columns) < 4 or len(columns) % 2 or not all(holds_times(table[name]) for name in columns[::2]):
        return None
    if any(holds_times(table[name]) for name in columns[1::2]):
        return None
    parts = []
    for times, values in zip(columns[::2], columns[1::2], strict=True):
        plain = str(values).partition(".")[0].strip().lower()
        is_named = plain not in WORDS["columns"]["value"] and not _UNNAMED.match(str(values))
        tag = values if is_named else _TIME_ENDS.sub("", str(times))
        parts.append(pd.DataFrame({"time": table[times], "tag": tag, "value": table[values]}).dropna(subset=["time"]))
    return pd.concat(parts, ignore_index=True), f"layout: {len(parts)} pairs of columns, times and values of a tag each"


def _transposed(table):
    """Tags in rows and times in the head of the table."""
    heads = pd.Series([str(name) for name in table.columns[1:]])
    some = heads.iloc[:: max(1, len(heads) // TUNING.layouts_sample)]
    if len(heads) < 3 or not are_times(some) or holds_times(table.iloc[:, 0]):
        return None
    turned = table.set_index(table.columns[0]).T.rename_axis(columns=None)
    turned.insert(0, "time", turned.index)
    return turned.reset_index(drop=True), f"layout: turned, {len(table)} tags stood in rows"
