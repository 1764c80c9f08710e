"""Settings files: a section is read by the class of its settings, whose fields say keys, types, defaults."""

import math
import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Literal, get_args, get_origin

from ..client.site_record import SettingsError
from ..containers.layout import listed

_IN_TOML = {Path: (str,), tuple: (list,), float: (int, float)}  # other types are what they are
# sections of their own
_TABLES = ("client", "privacy", "policy", "secure_sums", "learner", "detector", "questions")
_FORMULA = tuple("=+-@\t\r")  # what a cell begins with that a spreadsheet computes


def read_settings_file(path):
    """All sections of a settings file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"There is no settings file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None


class SettingProblems(ValueError):
    """What is wrong with settings, by key."""

    def __init__(self, problems):
        super().__init__(" ".join(f"{key} = {text}" for key, text in problems))
        self.problems = list(problems)


def read_section(everything, path, section, declared, **more):
    """Settings of the class `declared` in a section of a file; `more`: defaults, other sections.

    Paths are relative to the folder of the file. All that is wrong is told at once, with its lines.
    """
    table = everything.get(section)
    if not isinstance(table, dict):
        raise SettingsError(f"{path} has no section [{section}].")
    where = f"{path}, [{section}]"
    keys = {each.name: each for each in fields(declared) if each.name not in _TABLES}
    wrong, unknown = [], sorted(table.keys() - keys)
    if unknown:
        wrong.append(f"unknown keys {listed(unknown)}{_lines(path, section, unknown)}; known are {listed(keys)}.")
    for key, value in table.items():
        kinds = sum((_IN_TOML.get(kind, (kind,)) for kind in _types(keys[key])), ()) if key in keys else ()
        if key in keys and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            wrong.append(f"`{key}` is {value!r}, of the wrong kind{_lines(path, section, [key])}.")
    missing = [key for key, each in keys.items() if _has_no_default(each) and key not in table and key not in more]
    if missing:
        wrong.append(f"give {listed(missing)} too; there is no default.")
    if wrong:
        raise SettingsError("\n".join(f"{where}: {text}" for text in wrong))
    try:
        return declared(**converted(declared, {**more, **table}, Path(path).resolve().parent))
    except SettingProblems as error:
        told = (f"{where}: {key}{_lines(path, section, [key])} = {text}" for key, text in error.problems)
        raise SettingsError("\n".join(told)) from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def _has_no_default(each):
    return each.default is MISSING and each.default_factory is MISSING


def _lines(path, section, keys):
    """Lines of a settings file in which keys of a section stand, in words; nothing where they are not found."""
    here, found = "", []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        head = re.match(r"\s*\[([^\[\]]+)\]", line)
        here = head[1].strip() if head else here
        name = line.partition("=")[0].strip().strip("\"'")
        if here == section and "=" in line and name in keys:
            found.append(str(number))
    return f" (line {', '.join(found)})" if found else ""


def converted(declared, values, folder=Path()):
    """Values as TOML and JSON have them, with paths and tuples where the class declares them."""
    types = {each.name: _types(each) for each in fields(declared)}
    values = {name: value for name, value in values.items() if value is not None}
    paths = {name: folder / value for name, value in values.items() if Path in types[name]}
    lists = {
        name: tuple(value) for name, value in values.items() if tuple in types[name] and not isinstance(value, str)
    }
    return {**values, **paths, **lists}


def _types(each):
    """Types that the annotation of a field allows."""
    return (str,) if get_origin(each.type) is Literal else get_args(each.type) or (each.type,)


def check_numbers(settings, least):
    """Refuse numbers below the least that makes sense, and those that are none; None is no number."""
    for name, (floor, allowed) in least.items():
        value = getattr(settings, name)
        if value is not None and not (math.isfinite(value) and (value >= floor if allowed else value > floor)):
            raise SettingProblems([(name, f"{value!r}; give a number {'from' if allowed else 'above'} {floor:g}.")])


def csv_bytes(table, **how):
    """A table as CSV, in which no text is a formula to a program that opens it."""
    words = table.select_dtypes(exclude=["number", "datetime", "datetimetz", "timedelta"]).columns
    safe = table.assign(**{name: table[name].map(_no_formula) for name in words if isinstance(name, str)})
    safe = safe.rename(columns=_no_formula)
    if how.get("index", True):
        safe = safe.rename(index=_no_formula)
    return safe.to_csv(**how).encode()


def _no_formula(value):
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA and not _is_number(value) else value


def _is_number(text):
    try:
        return math.isfinite(float(text)) and text == text.strip()
    except ValueError:
        return False
