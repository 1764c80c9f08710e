"""Which unit a column of an export belongs to: by what stands before a separator, a pattern, or a list."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase, translate
from numbers import Integral
from os import PathLike
from pathlib import Path

from ..arguments import check_kind
from ..containers.layout import SEPARATOR, listed
from .tuning import TUNING

_SEPARATORS = (SEPARATOR, "\\", "/", ".", ":", "_", "-")
_MIXED = re.compile(r"^(?P<unit>[^/.:_\-\s]+)(?:__|[/.:_\-\s])(?P<tag>.+)$")
_HELP = (
    'Name them \'unit__tag\', list the owners in a JSON file {"unit": ["column", ...]}, or give a pattern such as '
    "'{unit}[:/._-]{tag}' or '(P[0-9]+)(.+)': units=... (--units); leave other columns out: drop=... (--drop)"
)
# before the name of a tag: a server of PI, a provider of Ignition, a namespace of OPC UA
_SERVER = re.compile(r"^(?:\\\\[^\\]+\\|\[[^\]]*\]|(?:ns=\d+;)?[sigb]=)")


def _plain(column):
    """Name of a tag without its server; in paths of PI AF the attribute behind a line is one level more."""
    plain = _SERVER.sub("", column)
    return plain.replace("|", "\\") if "\\" in plain else plain


def unit_names(columns, units="prefix"):
    """Name ``unit__tag`` of each column, and the columns that no unit takes.

    `units` is "prefix", "level 2" (what stands at this level of names such as ``SITE1.BLR.PT101``), a dict or JSON file
    of names or globs by unit, a pattern with ``{unit}`` and ``{tag}`` in which ``*``, ``?`` and ``[...]`` are those of
    file names, a glob whose first ``*`` is the unit, or a regular expression with a group ``unit``. Units that differ
    in capitals only are one.
    """
    check_kind(units, "`units`", (str, Mapping, PathLike, Integral), '"prefix", a pattern or a dict')
    columns = [str(column) for column in columns]
    level = re.fullmatch(r"(?:level\s*)?(\d+)", str(units))
    if units == "prefix":
        found = _by_prefix(columns)
    elif level:
        found = _by_level(columns, int(level[1]))
    elif isinstance(units, Mapping):
        found = _by_owner(columns, units)
    elif str(units).lower().endswith(".json"):
        found = _by_owner(columns, json.loads(Path(units).read_text(encoding="utf-8")))
    else:
        found = _by_pattern(columns, _expression(str(units)))
        if not found:
            raise ValueError(f"No column fits the pattern {units!r}; there are {listed(columns, 6)}. {_HELP}.")
    return _one_spelling(found), [column for column in columns if column not in found]


def levels_of(columns):
    """Levels of hierarchical names, and the first that tells units.

    Parameters
    ----------
    columns : list of str

    Returns
    -------
    tuple of (str, int, dict of str to list of str) or None
        Separator, number of the first level that is not the same in all names, from 1 on, and what stands at each level
        but the last by "level 1", "level 2", ... None where names have two levels or fewer.

    Examples
    --------
    >>> from skfedcausal.historian.naming import levels_of
    >>> levels_of(["SITE1.BLR.B01.PT101", "SITE1.BLR.B01.TT102", "SITE1.TRB.T01.FT201"])
    ('.', 2, {'level 1': ['SITE1'], 'level 2': ['BLR', 'TRB'], 'level 3': ['B01', 'T01']})
    """
    for separator in _SEPARATORS:
        parts = [_plain(column).strip(separator).split(separator) for column in columns]
        depth = min(map(len, parts), default=0)
        if depth >= TUNING.naming_levels:
            levels = [list(dict.fromkeys(part[k] for part in parts)) for k in range(depth - 1)]
            first = next((k for k, values in enumerate(levels) if len(values) > 1), None)
            if first is None:
                return None
            return separator, first + 1, {f"level {k + 1}": values for k, values in enumerate(levels)}
    return None


def column_of(name, columns):
    """The column that the name of a tag in the plant stands for, whatever separates its levels, or the name itself.

    Examples
    --------
    >>> from skfedcausal.historian.naming import column_of
    >>> column_of("SITE1.BLR.B01.PT101.PV", ["BLR__B01.PT101.PV", "TRB__T01.FT201.PV"])
    'BLR__B01.PT101.PV'
    """
    plain = {text: "." + re.sub(r"[\W_]+", ".", text.strip()) for text in (name, *columns)}
    own = [text for text in columns if plain[name].endswith(plain[text]) or plain[text].endswith(plain[name])]
    return own[0] if len(own) == 1 and name.strip() not in columns else name.strip()


def _by_level(columns, level):
    """Unit and tag by what stands at a level of hierarchical names; what all have before it is left out."""
    found = levels_of(columns)
    if found is None or not 1 <= level <= len(found[2]):
        count = 0 if found is None else len(found[2])
        raise ValueError(f"Got units=level {level}, and names such as {columns[0]!r} have {count} levels of units.")
    separator, first, _ = found
    units = {}
    for column in columns:
        parts = _plain(column).strip(separator).split(separator)
        units[column] = separator.join(parts[min(first, level) - 1 : level]), separator.join(parts[level:])
    return units


def _by_prefix(columns):
    """Unit and tag by the first separator that all columns have, or by any of them."""
    found = levels_of(columns)
    if found is not None and found[1] > 1 and 2 * len(found[2][f"level {found[1]}"]) <= len(columns):
        return _by_level(columns, found[1])  # what all names have tells no unit
    return _by_first_part(columns)


def _by_first_part(columns):
    """Unit and tag by what stands before the first separator."""
    plain = {column: _plain(column) for column in columns}
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
