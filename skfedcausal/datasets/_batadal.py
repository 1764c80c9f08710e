"""BATADAL water distribution network."""

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from ._files import Source, client_names, flat_table, locate, select_columns
from ._validation import check_known

__all__ = ["load_batadal"]

_SOURCE = Source(
    title="BATADAL (C-Town water distribution network under cyber-physical attacks)",
    origin="GitHub repository rtaormina/aeed (data/dataset03.csv, data/dataset04.csv); batadal.net",
    citation=(
        "R. Taormina et al., Journal of Water Resources Planning and Management 144(8) (2018); "
        "R. Taormina and S. Galelli, the same journal, 144(10) (2018)"
    ),
    licence="none stated; published for research, cite it and do not redistribute",
)
_SUBSETS = ("train_normal", "train_attacks")


def load_batadal(path, subset="train_normal", by="zone", *, inputs="outputs"):
    """Read a year of normal operation or half a year with attacks of a simulated water network.

    Parameters
    ----------
    path : str or path-like
        Folder with ``train_normal.csv.gz`` or ``train_attacks.csv.gz`` (columns DATETIME, the
        variables, ATT_FLAG), ``variables.csv`` and ``attacks.csv``; or one of these files.
    subset : {"train_normal", "train_attacks"}, default="train_normal"
    by : {"zone", "plc"}, default="zone"
        Clients: five zones, by which tank level controls which pump, or nine controllers, of which
        five have one level sensor only.
    inputs : {"outputs", "separate", "drop"}, default="outputs"
        What to do with the pump and valve statuses: treat them as measurements like any other,
        name them in ``inputs``, or leave them out.

    Returns
    -------
    batadal : Bunch
        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__column``, indexed by time. Levels and pressures in m, flows in
            L/s, statuses 0 or 1.
        target : ndarray of str, shape (n_samples,)
            Client in which the running attack has its root, ``""`` without an attack.
        labels : Series of bool
            Whether an attack is running, as published.
        lengths : list of int
            One episode.
        clients : list of str
            Units, in the order of their columns.
        inputs : list of str
            Flat names of the statuses if ``inputs="separate"``, for the argument
            ``input_columns`` of the estimators.
        variables : DataFrame
            One row per column of `data`: name, column, client, plc, zone, role, unit, description.
        attacks : DataFrame
            Start, end (last hour), target, root and concealment of the attacks on this network.
        sampling_period : float
            Seconds.
        DESCR : str
            What the data are, their origin, reference and licence.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If the subset or kind of client is unknown.

    Notes
    -----
    Pumps 3, 5 and 9 never run in the normal year: their columns are constant. Water demand is a
    hidden driver that all zones share. The root of attack 7 is uncertain.

    References
    ----------
    .. [1] R. Taormina et al., "Battle of the attack detection algorithms: disclosing cyber attacks
           on water distribution networks", Journal of Water Resources Planning and Management
           144(8) (2018).

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from skfedcausal.datasets import load_batadal
    >>> batadal = load_batadal(Path(os.environ["SKFEDCAUSAL_DATA"]) / "batadal", inputs="drop")
    >>> batadal.data.shape, len(batadal.clients)
    ((8761, 31), 5)
    """
    check_known(subset, _SUBSETS, "subset")
    check_known(by, ("zone", "plc"), "by")
    files = locate(path, (f"{subset}.csv.gz", "variables.csv", "attacks.csv"), _SOURCE)
    raw = pd.read_csv(files[subset], index_col="DATETIME", parse_dates=["DATETIME"])
    variables = pd.read_csv(files["variables"])
    variables.insert(1, "client", variables[by])
    variables, input_names = select_columns(variables, inputs)
    attacks = pd.read_csv(files["attacks"], parse_dates=["start", "end"])
    return Bunch(
        data=flat_table(raw, variables),
        target=_target(raw.index, attacks, f"root_{by}"),
        labels=(raw["ATT_FLAG"] == 1).rename("attack"),
        lengths=[len(raw)],
        clients=client_names(variables),
        inputs=input_names,
        variables=variables,
        attacks=attacks,
        sampling_period=3600.0,
        DESCR=_SOURCE.describe(
            "Simulated hourly records of tank levels, flows, pressures and actuator statuses. "
            "The five zones are an assignment by control: which tank level drives which pump."
        ),
    )


def _target(times, attacks, root):
    """Client of the running attack's root in each row."""
    target = np.full(len(times), "", dtype=object)
    for attack in attacks.to_dict("records"):
        target[(times >= attack["start"]) & (times <= attack["end"])] = attack[root]
    return target.astype(str)
