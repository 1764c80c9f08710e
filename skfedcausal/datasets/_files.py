"""Finding a dataset's files in a folder of the user's, and shaping what is in them."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd

from ._validation import check_known


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from.

    Attributes
    ----------
    title : str
    origin : str
        Where it can be had.
    citation : str
    licence : str
    """

    title: str
    origin: str
    citation: str
    licence: str

    def describe(self, *paragraphs):
        """Text for ``DESCR``."""
        facts = (
            f"Origin: {self.origin}",
            f"Reference: {self.citation}",
            f"Licence: {self.licence}",
        )
        return "\n\n".join(fill(text, 88) for text in (self.title, *paragraphs, *facts))


def locate(path, names, source):
    """Paths of a dataset's files.

    Parameters
    ----------
    path : str or path-like
        The folder that holds the files, or one of the files.
    names : sequence of str
        File names; a name ending with ``.csv.gz`` stands for ``.csv`` too.
    source : Source

    Returns
    -------
    paths : dict of str to Path
        By file name without its endings.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    """
    folder = Path(path)
    if folder.is_file():
        folder = folder.parent
    found = {name: _variant(folder, name) for name in names}
    missing = [name for name, file in found.items() if file is None]
    if missing:
        raise FileNotFoundError(
            f"{source.title}: expected {', '.join(names)} in the folder '{folder}', but "
            f"{', '.join(missing)} cannot be found. skfedcausal neither ships nor downloads these "
            f"data; they can be had from: {source.origin}. Reference: {source.citation}"
        )
    return {name.split(".")[0]: file for name, file in found.items()}


def _variant(folder, name):
    candidates = [folder / name, folder / name.removesuffix(".gz")]
    return next((file for file in candidates if file.is_file()), None)


def check_list(values, known, name):
    """The user's selection, one string or several, of the strings `known`; None for all."""
    if values is None:
        return list(known)
    values = [values] if isinstance(values, str) else list(values)
    if not values:
        raise ValueError(f"{name} is empty; give at least one of {', '.join(map(repr, known))}.")
    return [check_known(value, known, f"{name}, or each of them,") for value in values]


def select_columns(variables, inputs):
    """Columns of the table a loader returns, with their flat names.

    Parameters
    ----------
    variables : DataFrame
        Columns ``column``, ``client`` and ``role`` (``"input"``, or anything else for outputs).
    inputs : {"outputs", "separate", "drop"}

    Returns
    -------
    variables : DataFrame
        With a first column ``name`` (``client__column``): client by client in order of first
        appearance, the inputs of a client after its outputs.
    input_names : list of str
        Flat names of the inputs; none unless `inputs` is ``"separate"``.
    """
    check_known(inputs, ("outputs", "separate", "drop"), "inputs")
    is_input = variables["role"] == "input"
    client = pd.factorize(variables["client"])[0]
    order = np.lexsort([is_input, client])
    selected = variables.iloc[order].reset_index(drop=True)
    selected.insert(0, "name", selected["client"] + "__" + selected["column"])
    is_input = selected["role"] == "input"
    if inputs == "drop":
        selected = selected[~is_input].reset_index(drop=True)
    input_names = selected["name"][is_input].tolist() if inputs == "separate" else []
    return selected, input_names


def flat_table(raw, variables):
    """Columns of `raw` as floats under their flat names."""
    data = raw[variables["column"].tolist()].astype(float)
    return data.set_axis(variables["name"].tolist(), axis=1)


def client_names(variables):
    """Clients in the order of their columns."""
    return variables["client"].unique().tolist()
