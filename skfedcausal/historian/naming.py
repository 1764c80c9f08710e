"""Which unit a column of an export belongs to: by what stands before a separator, a pattern, or a list."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase, translate
from pathlib import Path

from ..containers.layout import SEPARATOR, listed

_SEPARATORS = (SEPARATOR, "/", ".", ":", "_", "-")
_MIXED = re.compile(r"^(?P<unit>[^/.:_\-\s]+)(?:__|[/.:_\-\s])(?P<tag>.+)$")
_HELP = (
    'Name them \'unit__tag\', list the owners in a JSON file {"unit": ["column", ...]}, or give a pattern such as '
    "'{unit}[:/._-]{tag}' or '(P[0-9]+)(.+)'; leave other columns out: drop=... (--drop)"
)
_SERVER = re.compile(r"^\\\\[^\\]+\\")  # of PI, before the name of a tag


def unit_names(columns, units="prefix"):
    """Name ``unit__tag`` of each column, and the columns that no unit takes.

    `units` is "prefix", a dict or JSON file of names or globs by unit, a pattern with ``{unit}`` and ``{tag}`` in
    which ``*``, ``?`` and ``[...]`` are those of file names, a glob whose first ``*`` is the unit, or a regular
    expression with a group ``unit``. Units that differ in capitals only are one.
    """
    columns = [str(column) for column in columns]
    if units == "prefix":
        found = _by_prefix(columns)
    elif isinstance(units, Mapping):
        found = _by_owner(columns, units)
    elif str(units).lower().endswith(".json"):
        found = _by_owner(columns, json.loads(Path(units).read_text(encoding="utf-8")))
    else:
        found = _by_pattern(columns, _expression(str(units)))
        if not found:
            raise ValueError(f"No column fits the pattern {units!r}; there are {listed(columns, 6)}. {_HELP}.")
    return _one_spelling(found), [column for column in columns if column not in found]


def _by_prefix(columns):
    """Unit and tag by the first separator that all columns have, or by any of them."""
    plain = {column: _SERVER.sub("", column) for column in columns}
    found: dict[str, tuple[str, str]] = {}
    for separator in _SEPARATORS:
        parts = {column: name.partition(separator) for column, name in plain.items()}
        if all(all(part) for part in parts.values()):
            units = {column: (unit, tag) for column, (unit, _, tag) in parts.items()}
            if len({unit for unit, _ in units.values()}) < len(columns):
                return units
            found = found or units
    if found:  # every column is a unit of its own
        return found
    found = _by_pattern(columns, _MIXED)
    if len(found) == len(columns):
        return found
    left = [column for column in columns if column not in found]
    raise ValueError(f"No unit in the columns {listed(left, 6)}. {_HELP}.")


def _by_owner(columns, units):
    """Unit of each column that a list names, or a glob in it."""
    found: dict[str, tuple[str, str]] = {}
    for unit, own in units.items():
        wanted = [own] if isinstance(own, str) else list(own)
        for pattern in wanted:
            there = [c for c in columns if c == pattern or fnmatchcase(c.lower(), str(pattern).lower())]
            if not there:
                raise ValueError(f"Unit {unit!r} names {pattern!r}, and there is no such column: {listed(columns, 6)}.")
            for column in there:
                if found.setdefault(column, (str(unit), column))[0] != str(unit):
                    raise ValueError(f"Units {found[column][0]!r} and {unit!r} both name {column!r}; give it to one.")
    return found


def _expression(pattern):
    """Regular expression of a pattern."""
    if "{unit}" in pattern:
        parts = re.split(r"(\{unit\}|\{tag\})", pattern)
        groups = {"{unit}": "(?P<unit>.+?)", "{tag}": "(?P<tag>.+)"}
        return re.compile("^" + "".join(groups.get(part) or _glob(part) for part in parts) + "$", re.IGNORECASE)
    try:
        expression = re.compile(pattern, re.IGNORECASE)
    except re.error:
        expression = None
    if expression is not None and "unit" in expression.groupindex:
        return expression
    if expression is not None and expression.groups:
        named = re.sub(r"(?<!\\)\((?!\?)", "(?P<unit>", pattern, count=1)
        return re.compile(named, re.IGNORECASE)
    if "*" in pattern:
        before, _, after = pattern.partition("*")
        return re.compile(f"^{_glob(before)}(?P<unit>.+?)(?P<tag>{_glob(after)})$", re.IGNORECASE)
    raise ValueError(f"The pattern {pattern!r} does not say which part is the unit. {_HELP}.")


def _glob(part):
    """A part of a glob as a regular expression."""
    return translate(part).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z") if part else ""


def _by_pattern(columns, expression):
    """Unit and tag of each column that a regular expression matches."""
    found = {}
    for column in columns:
        match = expression.match(column)
        if match is None or not match["unit"]:
            continue
        tag = match.groupdict().get("tag") or column[match.end("unit") :]
        found[column] = match["unit"], tag.strip(":/._- ") or column
    return found


def _one_spelling(found):
    """Names ``unit__tag``, each unit as it is written most often, tags as they are."""
    units = {column: re.sub("_+$", "", unit).replace(SEPARATOR, "-") for column, (unit, _) in found.items()}
    spelling = {unit.lower(): unit for unit, _ in reversed(Counter(units.values()).most_common())}
    names = {column: f"{spelling[units[column].lower()]}{SEPARATOR}{tag}" for column, (_, tag) in found.items()}
    taken: dict[str, str] = {}
    for column, name in names.items():
        if name in taken:
            names[column] = name = f"{name.partition(SEPARATOR)[0]}{SEPARATOR}{column}"
        taken[name] = column
    return names
