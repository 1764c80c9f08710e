"""Tennessee Eastman process."""

import re

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from ._files import Source, check_list, client_names, flat_table, locate, select_columns
from ._validation import check_known

__all__ = ["load_tep"]

_SOURCE = Source(
    title="Tennessee Eastman process (TEP), record set of Braatz and co-workers",
    origin="GitHub repository camaramm/tennessee-eastman-profBraatz (files dNN.dat, dNN_te.dat)",
    citation=(
        "J. J. Downs and E. F. Vogel, Computers & Chemical Engineering 17(3), 245-255 (1993); "
        "L. H. Chiang, E. L. Russell and R. D. Braatz, Fault Detection and Diagnosis in "
        "Industrial Systems, Springer (2001)"
    ),
    licence=(
        "University of Illinois / NCSA style, copyright 1998-2002 The Board of Trustees of the "
        "University of Illinois; redistribution allowed with the notice kept"
    ),
)
_FILES = ("tep.npz", "variables.csv", "faults.csv", "topology.csv")
_PERIOD = 180.0  # seconds
_ANALYSERS = (False, True, "sparse")


def load_tep(path, records=("d00",), *, analysers=False, inputs="outputs"):
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
        (a controller's reaction tells of a fault), name them in ``inputs``, or leave them out.

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
            What the data are, their origin, reference and licence.

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
    check_known(analysers, _ANALYSERS, "analysers")
    files = locate(path, _FILES, _SOURCE)
    variables = pd.read_csv(files["variables"])
    if not analysers:
        variables = variables[variables["role"] != "analyser"]
    variables, input_names = select_columns(variables, inputs)
    faults = pd.read_csv(files["faults"])
    records, frames = _read_records(files["tep"], records)
    if analysers == "sparse":
        frames = [_without_held_values(frame, variables) for frame in frames]
    targets = [_target(name, len(frame), faults) for name, frame in zip(records, frames, strict=True)]
    return Bunch(
        data=flat_table(pd.concat(frames, ignore_index=True), variables),
        target=np.concatenate(targets),
        lengths=[len(frame) for frame in frames],
        records=records,
        clients=client_names(variables),
        inputs=input_names,
        variables=variables,
        faults=faults,
        topology=pd.read_csv(files["topology"]),
        sampling_period=_PERIOD,
        DESCR=_SOURCE.describe(
            "Simulated plant in closed loop, one row every 3 minutes: a feed section, reactor, "
            "separator (with condenser), compressor (with recycle and purge) and stripper. The "
            "assignment of variables to these clients follows the process flowsheet."
        ),
    )


def _read_records(file, records):
    """Names and tables of the requested records."""
    with np.load(file, allow_pickle=False) as archive:
        known = [name for name in archive.files if name != "columns"]
        records = check_list(records, known, "records")
        columns = archive["columns"]
        return records, [pd.DataFrame(archive[name], columns=columns) for name in records]


def _without_held_values(frame, variables):
    """NaN between two reports of an analyser; each reports in the first row of a record."""
    frame = frame.copy()
    for column, hours in variables[["column", "update_period_h"]].itertuples(index=False):
        held = np.arange(len(frame)) % round(hours * 3600 / _PERIOD) > 0
        frame.loc[held, column] = np.nan
    return frame


def _target(record, n_rows, faults):
    """Root client of the active fault in each row."""
    number, is_test = re.fullmatch(r"d(\d+)(_te)?", record).groups()
    target = np.full(n_rows, "", dtype=object)
    if int(number):
        known = faults[faults["fault"] == int(number)]
        root = known["root_client"].iloc[0] if len(known) else "unknown"
        onset = known["test_onset_row"].iloc[0] if len(known) else 160
        target[onset if is_test else 0 :] = root
    return target.astype(str)
