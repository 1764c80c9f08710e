"""Skoltech anomaly benchmark."""

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from ._files import Source, check_list, client_names, flat_table, locate, select_columns

__all__ = ["load_skab"]

_SOURCE = Source(
    title="SKAB v0.9 (Skoltech anomaly benchmark)",
    origin="GitHub repository waico/SKAB (folder data)",
    citation=(
        "I. D. Katser and V. O. Kozitsin, Skoltech Anomaly Benchmark (SKAB), Kaggle (2020), "
        "doi:10.34740/kaggle/dsv/1693952"
    ),
    licence="GPL-3.0",
)
_CLIENTS = {
    "motor": ("Current", "Voltage", "Temperature"),
    "vibration": ("Accelerometer1RMS", "Accelerometer2RMS"),
    "hydraulic": ("Pressure", "Volume Flow RateRMS"),
    "thermal": ("Thermocouple",),
}
# Experiments of the folder "other" whose root is not the hydraulic circuit.
_OTHER_ROOTS = {**{f"other/{k}": "motor" for k in range(5, 10)}, "other/14": "thermal"}


def load_skab(path, experiments=None):
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
        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__sensor``, indexed by time; experiments one below the other.
        target : ndarray of str, shape (n_samples,)
            Client in which the fault has its root while the anomaly lasts, ``""`` otherwise.
        labels : DataFrame of bool
            Columns anomaly and changepoint, as published.
        lengths : list of int
            Rows of each experiment.
        experiments : list of str
            Names, in the order of the rows.
        clients : list of str
            motor, vibration, hydraulic, thermal.
        inputs : list of str
            Empty: no actuator is recorded.
        variables : DataFrame
            One row per column of `data`: name, column, client, role.
        sampling_period : float
            Seconds. Now and then a second is missing in the record.
        DESCR : str
            What the data are, their origin, reference and licence.

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
    division into clients is weak.

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
    raw = pd.read_csv(locate(path, ("skab.csv.gz",), _SOURCE)["skab"], parse_dates=["datetime"])
    groups = dict(tuple(raw.groupby("experiment", sort=False)))
    experiments = check_list(experiments, list(groups), "experiments")
    table = pd.concat([groups[name] for name in experiments]).set_index("datetime")
    rows = [(column, client) for client, columns in _CLIENTS.items() for column in columns]
    variables = pd.DataFrame(rows, columns=["column", "client"]).assign(role="output")
    variables, input_names = select_columns(variables, "outputs")
    labels = table[["anomaly", "changepoint"]] == 1
    roots = table["experiment"].map(_root)
    return Bunch(
        data=flat_table(table, variables),
        target=np.where(labels["anomaly"], roots, "").astype(str),
        labels=labels,
        lengths=[len(groups[name]) for name in experiments],
        experiments=experiments,
        clients=client_names(variables),
        inputs=input_names,
        variables=variables,
        sampling_period=1.0,
        DESCR=_SOURCE.describe(
            "Laboratory rig that pumps water in a circle, one row a second. The grouping of the "
            "eight sensors into clients is an assignment by what they measure."
        ),
    )


def _root(experiment):
    return _OTHER_ROOTS.get(experiment, "hydraulic")
