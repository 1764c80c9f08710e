"""Units of measurement: which words are some, and where files tell them."""

import re

import pandas as pd

from .times import WORDS
from .tuning import TUNING

_IN_NAME = re.compile(r"[\[(]([^\])]{1,12})[\])]\s*$")
_NUMBER_AND_UNIT = r"^([+-]?[\d.,]*\d(?:[eE][+-]?\d+)?)\s*([^\d\s.,;:+-]\S{0,9})$"
_PARTS = re.compile(r"[/*·. ]+")
_POWER = re.compile(r"\^?[-+]?\d+$|[²³]$")
_NONE = {"", "-", "1"}  # of a number without a unit


def is_measure(text):
    """Whether a word is a unit of measurement: products and quotients of known ones, such as ``m³/h`` or ``kg/(m2 s)``.

    Examples
    --------
    >>> from skfedcausal.historian.measures import is_measure
    >>> [is_measure(word) for word in ("bar", "Nm3/h", "°C", "1/min", "north", "feed of the mill")]
    [True, True, True, True, False, False]
    """
    parts = [_POWER.sub("", part) for part in _PARTS.split(re.sub(r"[()]", "", str(text).strip()))]
    named = [part for part in parts if part]
    return bool(named) and all(part.casefold() in _KNOWN for part in named)


def measure_in(name):
    """Unit of measurement that a name ends with in brackets, "" where it has none."""
    found = _IN_NAME.search(name)
    return found[1] if found is not None and is_measure(found[1]) else ""


def measure_behind(column):
    """A column of numbers with the same unit behind each, such as ``12.3 kPa``, without it, and the unit; else as it
    came and ""."""
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return column, ""
    there = column.dropna()
    some = there.iloc[:: max(1, len(there) // TUNING.layouts_sample)].astype(str).str.strip()
    found = some.str.extract(_NUMBER_AND_UNIT)[1].dropna()
    unit = found.iloc[0] if len(found) > TUNING.measures_most * len(some) else ""
    if not is_measure(unit) or (found != unit).any():
        return column, ""
    return column.astype("string").str.strip().str.removesuffix(unit).str.strip().astype(object), unit


def without_measure(name):
    """A name without what stands in brackets at its end."""
    return _IN_NAME.sub("", name)


def measures_below(names, words):
    """Units of measurement of columns by a line of words below their names; none where it holds other words."""
    cells = {name: word.strip() for name, word in zip(names, words, strict=False)}
    told = {name: word for name, word in cells.items() if word not in _NONE}
    known = {name: word for name, word in told.items() if is_measure(word)}
    return known if told and len(known) >= TUNING.measures_most * len(told) else {}


def measures_by_tag(tags, words):
    """Units of measurement of tags by two columns of a table of a row for every value: the first of each."""
    pairs = pd.DataFrame({"tag": tags, "measure": words}).dropna().drop_duplicates("tag")
    return {tag: word for tag, word in zip(pairs["tag"], pairs["measure"].astype(str).str.strip(), strict=True) if word}


_KNOWN = {form.casefold() for unit in WORDS["measures"]["with prefixes"] for form in (unit, *(
    prefix + unit for prefix in WORDS["measures"]["prefixes"]))} | {
    unit.casefold() for unit in WORDS["measures"]["alone"]
}  # fmt: skip
