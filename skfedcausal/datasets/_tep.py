"""Tennessee Eastman process."""

from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from ..bases import Bunch
from ._records import check_list, locate, plant_record, root_in_each_row, source_of
from ._validation import check_known

_TEP_FILES = ("tep.npz", "variables.csv", "faults.csv", "topology.csv")


def load_tep(
    path: str | PathLike[str], records: Any = ("d00",), *, analysers: Any = False, inputs: str = "outputs"
) -> Bunch:
    """Read records of the Tennessee Eastman process, a simulated chemical plant in closed loop.

    Parameters
    ----------
    path : str or path-like
        Folder with ``tep.npz`` (array ``columns`` of names and one array (rows, columns) per
        record), ``variables.csv``, ``faults.csv`` and ``topology.csv``; or one of these files.
    records : str or sequence of str, default=("d00",)
        ``"d00"`` and ``"d00_te"`` are normal operation, ``"dNN"`` is fault NN from its first row,
        ``"dNN_te"`` fault NN switched on after 8 hours. Several records are episodes.
    analysers : bool or "sparse", default=False
        Whether to keep the composition analysers, which report every 6 or 15 minutes. With
        ``True`` the value is held until the next report, with ``"sparse"`` the rows between two
        reports are NaN.
    inputs : {"outputs", "separate", "drop"}, default="outputs"
        What to do with the manipulated variables (XMV): treat them as measurements like any other
        (a controller's reaction reveals a fault), name them in ``inputs``, or leave them out.

    Returns
    -------
    tep : Bunch
        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__column``, records one below the other, units as in `variables`.
        target : ndarray of str, shape (n_samples,)
            Client in which the active fault has its root, ``""`` without a fault, ``"several"``
            or ``"unknown"`` for faults without a known single root.
        lengths : list of int
            Rows of each record.
        records : list of str
            Names, in the order of the rows.
        clients : list of str
            feed, compressor, reactor, separator, stripper.
        inputs : list of str
            Flat names of the manipulated variables if ``inputs="separate"``, for the argument
            ``input_columns`` of the estimators.
        variables : DataFrame
            One row per column of `data`: name, column, description, unit, client, role.
        faults : DataFrame
            Fault, type, root client, confidence, first faulty row of the ``_te`` record.
        topology : DataFrame
            Material flow between clients (source, target). Control loops add feedback to it.
        sampling_period : float
            Seconds.
        DESCR : str
            Description of the data, their origin, reference and licence.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If a record is unknown.

    Notes
    -----
    Faults 3, 9 and 15 can hardly be detected by any method; the roots of faults 16 to 20 are not
    part of the original description.

    References
    ----------
    .. [1] J. J. Downs and E. F. Vogel, "A plant-wide industrial process control problem",
           Computers & Chemical Engineering 17(3), 245-255 (1993).
    .. [2] L. H. Chiang, E. L. Russell and R. D. Braatz, "Fault Detection and Diagnosis in
           Industrial Systems", Springer (2001).

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from skfedcausal.datasets import load_tep
    >>> tep = load_tep(Path(os.environ["SKFEDCAUSAL_DATA"]) / "tep", "d00", inputs="drop")
    >>> tep.data.shape, tep.clients
    ((500, 22), ['feed', 'compressor', 'reactor', 'separator', 'stripper'])
    """
    check_known(analysers, (False, True, "sparse"), "analysers")
    source = source_of("tep")
    files = locate(path, _TEP_FILES, source)
    variables, faults = pd.read_csv(files["variables"]), pd.read_csv(files["faults"])
    if not analysers:
        variables = variables[variables["role"] != "analyser"]
    with np.load(files["tep"], allow_pickle=False) as archive:
        records = check_list(records, [name for name in archive.files if name != "columns"], "records")
        tables = [pd.DataFrame(archive[name], columns=archive["columns"]) for name in records]
    if analysers == "sparse":
        tables = [_without_held_values(table, variables, source.period) for table in tables]
    return plant_record(
        tables,
        variables,
        source,
        inputs=inputs,
        target=np.concatenate([_tep_target(*each, faults) for each in zip(records, tables, strict=True)]),
        records=records,
        faults=faults,
        topology=pd.read_csv(files["topology"]),
    )


def _without_held_values(table, variables, period):
    """NaN between two reports of an analyser; each reports in the first row of a record."""
    table, rows = table.copy(), np.arange(len(table))
    for column, hours in variables[["column", "update_period_h"]].itertuples(index=False):
        table.loc[rows % round(hours * 3600 / period) > 0, column] = np.nan
    return table


def _tep_target(record, table, faults):
    """Root client of the active fault in each row of a record."""
    number, is_test = int(record[1:].removesuffix("_te")), record.endswith("_te")
    known = faults[faults["fault"] == number]
    root, onset = known[["root_client", "test_onset_row"]].iloc[0] if len(known) else ("unknown", 160)
    active = [(onset if is_test else 0, len(table), root)] if number else []
    return root_in_each_row(np.arange(len(table)), active)
