"""Which unit a column of an export belongs to, and what each tag is."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase, translate
from numbers import Integral
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd

from ..arguments import check_kind
from ..containers.arrays import SEPARATOR, listed
from ..quality.tags import Tag
from .times import WORDS, measure_in, without_measure
from .tuning import TUNING

# Which unit a column of an export belongs to: by what stands before a separator, a pattern, or a list.

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


# What each tag is: measured value, set point, output, mode, switch, counter or laboratory value.

ROLES = ("PV", "SP", "OP", "MODE", "switch", "counter", "lab", "constant")
_PARTS = re.compile(r"[^\W_]+")


def roles_of(frame, texts=()):
    """Proposed role of every column, by its name (ISA-5.1 and usual endings) and by how it behaves.

    Parameters
    ----------
    frame : DataFrame
        Columns ``unit__tag``.
    texts : collection of str, default=()
        Columns without numbers, which are states.

    Returns
    -------
    DataFrame
        One row per column: ``column``, ``role``, ``measure`` (its unit of measurement where the name tells it, else
        empty), ``because``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skfedcausal.historian.naming import roles_of
    >>> hours, noise = np.arange(400) // 40, np.random.default_rng(0).standard_normal(400)
    >>> frame = pd.DataFrame({"P1__RUN": hours, "P1__PT1 [bar]": noise, "P1__PIC1.SP": 5.0})
    >>> roles_of(frame)[["column", "role", "measure"]].values.tolist()
    [['P1__RUN', 'counter', ''], ['P1__PT1 [bar]', 'PV', 'bar'], ['P1__PIC1.SP', 'SP', '']]
    """
    rows = [(name, *_role(name, frame[name].to_numpy(dtype=float))) for name in frame]
    rows += [(name, "MODE" if _named(name) != "switch" else "switch", "holds words") for name in texts]
    table = pd.DataFrame(rows, columns=["column", "role", "because"])
    table.insert(2, "measure", table["column"].map(measure_in))
    return table


def corrected(table, corrections):
    """A table of roles with those that somebody gave, by column or by the tag in it."""
    wanted = dict(corrections)
    short = dict(zip(table["column"], table["column"].str.partition(SEPARATOR)[2], strict=True))
    unknown = [name for name in wanted if name not in short and name not in short.values()]
    wrong = [role for role in wanted.values() if role not in ROLES]
    if unknown or wrong:
        what = f"columns {listed(unknown)}, which are not there" if unknown else f"roles {listed(wrong)}"
        raise ValueError(f"Got roles of {what}; give {{column: role}} with roles of {listed(ROLES)}.")
    given = table["column"].map(lambda name: wanted.get(name, wanted.get(short[name])))
    changed = given.notna() & (given != table["role"])
    return table.assign(role=given.where(changed, table["role"]), because=table["because"].mask(changed, "as given"))


def coarse_counters(frame, counters):
    """Counters that rise in few rows, such as hours, whose steps are those of a clock."""
    rise = frame[counters].diff()
    return [name for name in counters if (rise[name] > 0).sum() < TUNING.roles_often * rise[name].notna().sum()]


def seldom_seen(frame):
    """Columns that have a value in so few rows that nothing is learned from them, as those of a laboratory."""
    return [name for name in frame if frame[name].notna().mean() < TUNING.roles_seldom]


def rates(frame, counters):
    """A frame with the rise from row to row in place of some counters.

    It is missing where they were set back or rolled over, and in the first row.
    """
    rise = frame[counters].diff()
    return frame.assign(**{name: rise[name].where(rise[name] >= 0) for name in counters})


def _role(name, values):
    """Role of a column and why."""
    told, tag = _named(name), Tag(values, np.zeros(1, dtype=int))
    if tag.kind == "counter" or (told == "counter" and _only_rises(tag.values)):
        return "counter", "never goes down but where it is set back"
    if _is_sparse(tag, len(values)):
        return "lab", "a value every so many rows"
    if told not in ("PV", "counter", None) and (told, tag.kind) != ("lab", "binary"):
        return told, "its name"
    behaves = {"constant": "constant", "empty": "constant", "binary": "switch", "steps": "SP"}.get(tag.kind, "PV")
    if told == "PV" and behaves == "SP":
        return "PV", "its name"
    why = {"constant": "never moves", "switch": "two values", "SP": "stands still or moves in steps"}
    return behaves, why.get(behaves, "moves like a measurement")


def _only_rises(values):
    """Whether a tag rises now and then, and never goes down."""
    step = np.diff(values)
    return bool((step > 0).any() and (step >= 0).all())


def _named(name):
    """Role that a name tells by its ending or the letters before its number, None where it tells none."""
    parts = [part.lower() for part in _PARTS.findall(without_measure(name))]
    letters = [re.split(r"\d", part, maxsplit=1)[0] for part in parts]
    for role, words in WORDS["roles"].items():
        if parts and parts[-1] in words["ends"]:
            return role
        if any(letter in words["letters"] for letter in letters[1:]):
            return role
    return None


def _is_sparse(tag, n_rows):
    """Whether values come alone at even distances of many rows."""
    if len(tag.rows) < 3 or len(tag.rows) > (1 - TUNING.roles_sparse) * n_rows:
        return False
    every = np.diff(tag.rows)
    return bool(np.median(every) >= TUNING.roles_row and (every % np.median(every) == 0).mean() > TUNING.roles_sparse)
