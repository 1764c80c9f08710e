"""Reading public records: the files in a folder of the user's, and the Bunch that every loader returns."""

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..bases import Bunch
from ._validation import check_known


class Source(NamedTuple):
    """A public dataset, as ``sources.toml`` declares it."""

    title: str
    origin: str
    citation: str
    licence: str
    about: str
    period: float | None = None  # seconds

    def describe(self):
        """Text for ``DESCR``."""
        facts = {"Origin": self.origin, "Reference": self.citation, "Licence": self.licence}
        texts = [self.title, self.about, *(f"{name}: {fact}" for name, fact in facts.items())]
        return "\n\n".join(fill(text, 88) for text in texts)

    def missing(self, what):
        """Error for a user without the files."""
        return FileNotFoundError(
            f"{self.title}: {what}. skfedcausal neither ships nor downloads these data; they can be had "
            f"from: {self.origin}. Reference: {self.citation}"
        )


@cache
def declared():
    """Tables of ``sources.toml``, a dict."""
    return tomllib.loads(files(__package__).joinpath("sources.toml").read_text("utf-8"))


def source_of(name, record=None):
    """Source of a dataset, or of one of its records."""
    table = declared()[name]
    table = table if record is None else table | table["records"][record]
    return Source(**{key: table[key] for key in Source.__annotations__ if key in table})


def locate(path, names, source):
    """Paths of a dataset's files (``.csv.gz`` stands for ``.csv`` too) by name without endings."""
    folder = Path(path)
    folder = folder.parent if folder.is_file() else folder
    found = {}
    for name in names:
        variants = (folder / name, folder / name.removesuffix(".gz"))
        found[name] = next((file for file in variants if file.is_file()), None)
    missing = [name for name, file in found.items() if file is None]
    if missing:
        wanted = f"expected {', '.join(names)} in the folder '{folder}'"
        raise source.missing(f"{wanted}, but {', '.join(missing)} cannot be found")
    return {name.split(".")[0]: file for name, file in found.items()}


def check_list(values, known, name):
    """The user's selection, one string or several, of the strings `known`; None for all."""
    if values is None:
        return list(known)
    values = [values] if isinstance(values, str) else list(values)
    if not values:
        raise ValueError(f"{name} is empty; give at least one of {', '.join(map(repr, known))}.")
    return [check_known(value, known, f"{name}, or each of them,") for value in values]


def root_in_each_row(times, faults):
    """Root client of the fault ``(first time, last time, root)`` active at each time, "" without one."""
    target = np.full(len(times), "", dtype=object)
    for start, end, root in faults:
        target[(times >= start) & (times <= end)] = root
    return target.astype(str)


def plant_record(tables, variables, source, *, inputs="outputs", **more):
    """Bunch of a record: episodes below one another, `variables` with ``column, client, role``."""
    if not isinstance(variables, pd.DataFrame):
        variables = pd.DataFrame(variables, columns=["column", "client", "role"])
    check_known(inputs, ("outputs", "separate", "drop"), "inputs")
    is_input, client = variables["role"] == "input", pd.factorize(variables["client"])[0]
    variables = variables.iloc[np.lexsort([is_input, client])]  # client by client, inputs after outputs
    variables = variables[(variables["role"] != "input") | (inputs != "drop")].reset_index(drop=True)
    variables.insert(0, "name", variables["client"] + "__" + variables["column"])
    has_times = isinstance(tables[0].index, pd.DatetimeIndex)
    data = pd.concat(tables, ignore_index=not has_times)[variables["column"].tolist()].astype(float)
    return Bunch(
        data=data.set_axis(variables["name"].tolist(), axis=1),
        lengths=[len(table) for table in tables],
        clients=variables["client"].unique().tolist(),
        inputs=variables.loc[variables["role"] == "input", "name"].tolist() if inputs == "separate" else [],
        variables=variables,
        sampling_period=source.period,
        DESCR=source.describe(),
        **more,
    )
