"""Shared by the commands on one's own file: options, reading, results."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from ..containers.layout import SEPARATOR, listed
from ..historian.forms import TIME_NAMES, Dialect, tag_series
from ..quality import check_plant
from ._shared import parser

_SEPARATORS = (SEPARATOR, "/", ".", ":", "_", "-")


class FileError(ValueError):
    """A file that cannot be used, in words for the one who gave it."""


def parser_for(command, description):
    """Parser with the options that all commands on a file have."""
    reader = parser(command, description, settings=False, json=False)
    reader.add_argument("file", help="CSV file: rows are time steps, columns are tags, NaN or empty where missing")
    reader.add_argument(
        "--clients",
        default="prefix",
        help="'prefix': a column's unit is what stands before the first '__', '/', '.', ':', '_' or '-' that "
        'all columns have; or a JSON file {"unit": ["column", ...]}',
    )
    reader.add_argument("--every", help="step of the table, for example 10s; default: that of the file")
    reader.add_argument("--tz", help="zone of local times, for example Europe/Berlin")
    reader.add_argument("--out", help="folder for the results; default: the file's name and the command")
    return reader


def run(reader, arguments, work):
    """Read the file, do the work, say what was written."""
    options, command = reader.parse_args(arguments), reader.prog.split()[-1]
    try:
        table = read_plant_file(options.file, options.clients, options.every, options.tz)
        folder = Path(options.out or f"{Path(options.file).stem}_{command}")
        folder.mkdir(parents=True, exist_ok=True)
        check = check_plant(table)
        check.findings.to_csv(folder / "check.csv", index=False)
        print(check)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lines = work(moving(table), folder, options)
    except (OSError, ValueError) as error:
        print(f"{reader.prog}: {error}", file=sys.stderr)
        return 1
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            print(f"Note: {warning.message}", file=sys.stderr)
    written = ", ".join(sorted(path.name for path in folder.iterdir()))
    print("\n".join(["", *lines, f"Written to {folder.resolve()}: {written}"]))
    return 0


def read_plant_file(path, clients="prefix", every=None, tz=None):
    """Table with ``unit__tag`` columns from a CSV file."""
    head = pd.read_csv(path, sep=None, engine="python", nrows=3)
    if any(str(name).strip().lower() in TIME_NAMES for name in head.columns):
        series = tag_series(path, Dialect(tz=tz), str(path))
        table = pd.DataFrame(series)
        if every is not None:
            table = table.groupby(table.index.ceil(every)).last().asfreq(every)
    else:
        table = pd.read_csv(path, sep=None, engine="python")
        if every is not None or tz is not None:
            raise FileError(f"{path} has no column of times, so --every and --tz mean nothing.")
    return table.rename(columns=unit_names(list(table.columns), clients))


def unit_names(columns, clients):
    """Name ``unit__tag`` of each column."""
    if clients != "prefix":
        units = json.loads(Path(clients).read_text(encoding="utf-8"))
        owner = {column: unit for unit, own in units.items() for column in own}
        left = [column for column in columns if column not in owner]
        if left:
            raise FileError(f"{clients} gives no unit to {listed(left)}.")
        return {column: f"{owner[column]}{SEPARATOR}{column}" for column in columns}
    for separator in _SEPARATORS:
        parts = [str(column).partition(separator) for column in columns]
        if all(all(part) for part in parts):
            return {column: f"{unit}{SEPARATOR}{tag}" for column, (unit, _, tag) in zip(columns, parts, strict=True)}
    raise FileError(
        f"No unit in the columns {listed(columns, 6)}. Name them 'unit__tag' or list the owners: --clients units.json."
    )


def moving(table):
    """The table without columns that never change, and without rows that have no values at either end."""
    kept = [column for column in table if table[column].nunique() > 1]
    left = [column for column in table if column not in kept]
    if left:
        print(f"Left out because they never change: {listed(left, 8, quoted=False)}")
    if not kept:
        raise FileError("No column changes: there is nothing to learn.")
    there = np.flatnonzero(table[kept].notna().any(axis=1))
    return table[kept].iloc[there[0] : there[-1] + 1]
