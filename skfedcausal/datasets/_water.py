"""Water systems: the BATADAL distribution network and the SKAB circulation rig."""

from collections.abc import Sequence
from os import PathLike

import numpy as np
import pandas as pd

from ..bases import Bunch
from ._records import check_list, locate, plant_record, root_in_each_row, source_of
from ._validation import check_known

_SENSORS = {
    "motor": ("Current", "Voltage", "Temperature"),
    "vibration": ("Accelerometer1RMS", "Accelerometer2RMS"),
    "hydraulic": ("Pressure", "Volume Flow RateRMS"),
    "thermal": ("Thermocouple",),
}
# Experiments of the folder "other" whose root is not the hydraulic circuit.
_OTHER_ROOTS = {**{f"other/{k}": "motor" for k in range(5, 10)}, "other/14": "thermal"}


def load_batadal(
    path: str | PathLike[str], subset: str = "train_normal", by: str = "zone", *, inputs: str = "outputs"
) -> Bunch:
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
        ``lengths``, ``inputs``, ``sampling_period`` and ``DESCR`` as in :func:`load_tep`, and

        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__column``, indexed by time. Levels and pressures in m, flows in
            L/s, statuses 0 or 1.
        target : ndarray of str, shape (n_samples,)
            Client in which the running attack has its root, ``""`` without an attack.
        labels : Series of bool
            Whether an attack is running, as published.
        clients : list of str
            Units, in the order of their columns.
        variables : DataFrame
            One row per column of `data`: name, column, client, plc, zone, role, unit, description.
        attacks : DataFrame
            Start, end (last hour), target, root and concealment of the attacks on this network.

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
    check_known(subset, ("train_normal", "train_attacks"), "subset")
    check_known(by, ("zone", "plc"), "by")
    source = source_of("batadal")
    files = locate(path, (f"{subset}.csv.gz", "variables.csv", "attacks.csv"), source)
    table = pd.read_csv(files[subset], index_col="DATETIME", parse_dates=["DATETIME"])
    variables = pd.read_csv(files["variables"])
    variables.insert(1, "client", variables[by])
    attacks = pd.read_csv(files["attacks"], parse_dates=["start", "end"])
    faults = zip(attacks["start"], attacks["end"], attacks[f"root_{by}"], strict=True)
    return plant_record(
        [table],
        variables,
        source,
        inputs=inputs,
        target=root_in_each_row(table.index, faults),
        labels=(table["ATT_FLAG"] == 1).rename("attack"),
        attacks=attacks,
    )


def load_skab(path: str | PathLike[str], experiments: str | Sequence[str] | None = None) -> Bunch:
    """Read experiments on a small water circulation rig.

    Parameters
    ----------
    path : str or path-like
        Folder with ``skab.csv.gz`` (columns experiment, datetime, eight sensors, anomaly,
        changepoint), or that file.
    experiments : str or sequence of str, default=None
        Names such as ``"anomaly-free/anomaly-free"`` (normal operation), ``"valve1/0"`` or
        ``"other/5"``; None stands for all. Each experiment is an episode.

    Returns
    -------
    skab : Bunch
        ``lengths``, ``inputs``, ``sampling_period`` and ``DESCR`` as in :func:`load_tep`, and

        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__sensor``, indexed by time; experiments one below the other.
        target : ndarray of str, shape (n_samples,)
            Client in which the fault has its root while the anomaly lasts, ``""`` otherwise.
        labels : DataFrame of bool
            Columns anomaly and changepoint, as published.
        experiments : list of str
            Names, in the order of the rows.
        clients : list of str
            motor, vibration, hydraulic, thermal.
        variables : DataFrame
            One row per column of `data`: name, column, client, role.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    ValueError
        If an experiment is unknown.

    Notes
    -----
    Valves, leaks, added water and cavitation have their root in the hydraulic circuit, hotter
    water in the thermal one. For rotor imbalance (``other/5`` to ``other/9``) the motor is given,
    but the vibration sensors, which show it first, are as good an answer. The rig is small and the
    division into clients is weak. Now and then a second is missing.

    References
    ----------
    .. [1] I. D. Katser and V. O. Kozitsin, "Skoltech Anomaly Benchmark (SKAB)", Kaggle (2020).

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from skfedcausal.datasets import load_skab
    >>> skab = load_skab(Path(os.environ["SKFEDCAUSAL_DATA"]) / "skab", "valve1/0")
    >>> len(skab.lengths), skab.clients
    (1, ['motor', 'vibration', 'hydraulic', 'thermal'])
    """
    source = source_of("skab")
    raw = pd.read_csv(locate(path, ("skab.csv.gz",), source)["skab"], parse_dates=["datetime"])
    tables = dict(tuple(raw.set_index("datetime").groupby("experiment", sort=False)))
    experiments = check_list(experiments, list(tables), "experiments")
    selected = [tables[name] for name in experiments]
    sensors = [(column, client, "output") for client, columns in _SENSORS.items() for column in columns]
    every = pd.concat(selected)
    labels = every[["anomaly", "changepoint"]] == 1
    roots = every["experiment"].map(lambda name: _OTHER_ROOTS.get(name, "hydraulic"))
    return plant_record(
        selected,
        sensors,
        source,
        target=np.where(labels["anomaly"], roots, "").astype(str),
        labels=labels,
        experiments=experiments,
    )
