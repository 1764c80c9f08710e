"""Settings files: a section is read by the class of its settings, whose fields say keys, types, defaults."""

import math
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


def read_section(everything, path, section, declared, **more):
    """Settings of the class `declared` in a section of a file; `more`: defaults, other sections.

    Paths are relative to the folder of the file.
    """
    table = everything.get(section)
    if not isinstance(table, dict):
        raise SettingsError(f"{path} has no section [{section}].")
    where = f"{path}, [{section}]"
    keys = {each.name: each for each in fields(declared) if each.name not in _TABLES}
    unknown = sorted(table.keys() - keys)
    if unknown:
        raise SettingsError(f"{where}: unknown keys {listed(unknown)}; known are {listed(keys)}.")
    for key, value in table.items():
        kinds = sum((_IN_TOML.get(kind, (kind,)) for kind in _types(keys[key])), ())
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise SettingsError(f"{where}: `{key}` is {value!r}, of the wrong kind.")
    missing = [key for key, each in keys.items() if each.default is MISSING and key not in table]
    if missing:
        raise SettingsError(f"{where}: give {listed(missing)} too; there is no default.")
    try:
        return declared(**converted(declared, {**more, **table}, Path(path).resolve().parent))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def converted(declared, values, folder=Path()):
    """Values as TOML and JSON have them, with paths and tuples where the class declares them."""
    types = {each.name: _types(each) for each in fields(declared)}
    values = {name: value for name, value in values.items() if value is not None}
    paths = {name: folder / value for name, value in values.items() if Path in types[name]}
    return {**values, **paths, **{name: tuple(values[name]) for name in values if tuple in types[name]}}


def _types(each):
    """Types that the annotation of a field allows."""
    return (str,) if get_origin(each.type) is Literal else get_args(each.type) or (each.type,)


def check_numbers(settings, least):
    """Refuse numbers below the least that makes sense, and those that are none; None is no number."""
    for name, (floor, allowed) in least.items():
        value = getattr(settings, name)
        if value is not None and not (math.isfinite(value) and (value >= floor if allowed else value > floor)):
            raise SettingsError(f"{name} = {value!r}; give a number {'from' if allowed else 'above'} {floor:g}.")


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
