"""Shared by the commands on one's own file: options, reading, what is put right first, results."""

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ..containers.arrays import listed
from ..federation.gate import ExactStatesWarning
from ..historian.databases import is_address, without_password
from ..historian.grid import NAMES
from ..historian.naming import seldom_seen
from ..historian.table import PlantTable
from ..historian.written import Reading
from ..optional import import_optional
from ..server.likelihood import LikelihoodServer
from ..sites.settings import csv_bytes
from ._shared import FAILED, WRONG, add_options, parser, ticking


class FileError(ValueError):
    """A file that cannot be used, in words for the one who gave it."""


def parser_for(command, description):
    """Parser with the options that all commands on a file have."""
    reader = parser(command, description, settings=False, json=False)
    fixes = f"fix what the check finds: all, or some of {', '.join(NAMES)}, separated by commas"
    add_options(reader, "file", fix={"help": fixes})
    return reader


def add_max_time(reader):
    """Let a command bound the time of its fit."""
    add_options(reader, "fit", max_time={"type": _seconds})


def _seconds(text):
    value = float(text)
    if not 0 < value < np.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; give a number of seconds above 0")
    return value


def server_of(options):
    """The server of a fit under the time of the options."""
    return LikelihoodServer(max_time=options.max_time)


def run(reader, arguments, work):
    """Read the file, do the work, say what was written."""
    options, command = reader.parse_args(_with_all(arguments)), reader.prog.split()[-1]
    try:
        sources = [without_password(text) for text in options.file]
        print(f"Reading {listed(sources, 3, quoted=False)} ...", file=sys.stderr, flush=True)
        with ticking("reading", share=lambda: Reading.share):
            plant = read_plant_file(options)
        folder = Path(options.out or f"{_name_of(options.file[0])}_{command}")
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(plant.check.findings, folder / "check.csv")
        plant.check.report(folder / "check.html")
        roles = plant.roles
        write_csv(roles, folder / "roles.csv")
        print("\n".join([repr(plant).partition("\n")[0], *plant.said, "", repr(plant.check)]), flush=True)
        if plant.fix_first and not (options.fix or options.anyway):
            return _stopped(reader, plant)
        counts = ", ".join(f"{count} {role}" for role, count in roles["role"].value_counts().items())
        learned = plant.with_rates()
        print("\n".join([f"Roles of tags (roles.csv): {counts}", *learned.said[len(plant.said) :]]), flush=True)
        for text in plant.fix_first:
            print(f"Note: not fixed: {text}", file=sys.stderr)
        print(f"Learning from {len(plant.frame)} rows of {len(plant.units)} units ...", file=sys.stderr, flush=True)
        at_most = getattr(options, "max_time", None)
        with warnings.catch_warnings(record=True) as caught, ticking("learning", at_most):
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ExactStatesWarning)  # the whole record is here: sites have `plan`
            lines = work(moving(learned), folder, options, partial(_notes, caught))
    except (OSError, ValueError, ImportError) as error:
        print(f"{reader.prog}: {error}", file=sys.stderr)
        return FAILED
    for text in _notes(caught):
        print(f"Note: {text}", file=sys.stderr)
    written = ", ".join(sorted(path.name for path in folder.iterdir()))
    print("\n".join(["", *lines, f"Written to {folder.resolve()}: {written}"]))
    return 0


def _notes(caught):
    """What was warned of so far, each once: a page shows it as the terminal does."""
    return list(dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning)))


def _name_of(source):
    """Name of a file without its ending, or of a database."""
    return Path(source.partition("?")[0] if is_address(source) else source.rpartition("=")[2]).stem


def write_csv(table, path):
    """Write a table; names in it may be anybody's, and a spreadsheet runs none of them."""
    path.write_bytes(csv_bytes(table, index=False))


def save_picture(path, draw):
    """Save the figure of the display that `draw` returns; without matplotlib say what is missing."""
    try:
        figure = draw().figure_
        figure.savefig(path, dpi=120)
        import_optional("matplotlib.pyplot", "plot", "A picture").close(figure)
    except ImportError as error:
        print(f"Note: no {path.name}: {error}", file=sys.stderr)


def _with_all(arguments):
    """Words of the command line, in which --fix alone stands for all that can be fixed."""
    arguments, full = list(arguments), []
    for k, word in enumerate(arguments):
        following = arguments[k + 1] if k + 1 < len(arguments) else ""
        named = {part.strip() for part in following.split(",")} <= {"all", *NAMES}
        full.append("--fix=all" if word == "--fix" and not named else word)
    return full


def _stopped(reader, plant):
    """Say what has to be put right before a fit; the exit code."""
    print("\n".join([f"{reader.prog}: fix first:", *(f"  {text}" for text in plant.fix_first)]), file=sys.stderr)
    print("Give --fix to repair what can be (each repair is listed), or --anyway to continue.", file=sys.stderr)
    return WRONG


def read_plant_file(options):
    """The plant in the files of the options."""
    named = [("", "", text) if is_address(text) else text.partition("=") for text in options.file]
    several = len(named) > 1 or bool(named[0][1] and not Path(options.file[0]).exists())
    if several and not all(sign for _, sign, _ in named):
        raise FileError(f"Got {len(named)} files; name their units: boiler=boiler.csv turbine=turbine.csv.")
    exports: dict[str, list[str]] = {}
    for unit, _, path in named if several else ():
        exports.setdefault(unit, []).append(path)
    as_given = ("units", "tz", "every", "fix", "time", "drop", "dayfirst", "query")
    plant = PlantTable.read(
        {unit: own if len(own) > 1 else own[0] for unit, own in exports.items()} if several else options.file[0],
        **{name: getattr(options, name) for name in as_given},
        columns=options.columns or None,
        bad_values=options.bad,
        names=None if options.names is None else tuple(name.strip() for name in options.names.split(",")),
        hold=None if options.hold == "none" else options.hold,
    )
    return plant if options.roles is None else plant.with_roles(options.roles)


def row_at(text, index):
    """Position of the first row from a time on; a time without a zone is in that of the rows."""
    try:
        time = pd.Timestamp(text)
    except ValueError:
        raise FileError(f"{text!r} is not a time such as {index[0]}, nor a number.") from None
    return int(index.searchsorted(time.tz_localize(index.tz) if time.tz is None else time.tz_convert(index.tz)))


def moving(plant):
    """The plant without columns that never change, or have a value now and then only, as of a laboratory."""
    moves = {column: plant.frame[column].nunique() > 1 for column in plant.frame}
    seldom = [column for column in seldom_seen(plant.frame) if moves[column]]
    kept = [column for column in moves if moves[column] and column not in seldom]
    left = [column for column in moves if not moves[column]]
    if left:
        print(f"Left out because they never change: {listed(left, 8, quoted=False)}")
    if seldom:
        print(f"Left out because few rows have a value of them: {listed(seldom, 8, quoted=False)}")
    if not kept:
        raise FileError("No column changes: there is nothing to learn.")
    return plant.with_columns(kept)


def changing(frame):
    """Columns of a frame that have two values at least."""
    return [column for column in frame if np.ptp(frame[column].dropna().to_numpy(), axis=None) > 0]
