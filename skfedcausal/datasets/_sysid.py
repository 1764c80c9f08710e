"""Records with recorded inputs from the system identification literature."""

from itertools import pairwise
from os import PathLike

import pandas as pd

from ..bases import Bunch
from ._records import declared, locate, plant_record, source_of
from ._validation import check_known


def load_sysid(path: str | PathLike[str], name: str) -> Bunch:
    """Read a record with recorded inputs, for forecasting and counterfactuals.

    Parameters
    ----------
    path : str or path-like
        Folder with ``<name>.csv.gz`` (one header line, rows in time order), or that file.
    name : str
        Record, see Notes.

    Returns
    -------
    record : Bunch
        ``lengths``, ``inputs``, ``sampling_period`` and ``DESCR`` as in :func:`load_tep`, and

        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__column`` with the column names of the file, a client's inputs
            after its outputs.
        topology : DataFrame
            Influences between clients that are known beforehand (source, target); empty but for
            ``"winding"``.
        sampling_period : float or None
            Seconds, None where the source does not say.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    ValueError
        If the name is unknown.

    Notes
    -----
    Records and their clients (`variables` holds the columns of each):

    - winding: reel1, reel2, reel3;
    - steamgen: combustion, drum;
    - evaporator: product, concentration, temperature;
    - powerplant: boiler, superheater, reheater;
    - glassfurnace: section1, section2, section3;
    - cd_player_arm: axis1, axis2;
    - cstr: concentration, temperature;
    - exchanger and cascaded_tanks (tanks): one client.

    In ``"winding"`` the three reel speeds, which the source calls inputs, are measured states and
    so outputs here; the chain reel1, reel2, reel3 is the reference for its links. No record holds
    a true counterfactual: what can be checked is the forecast under the recorded inputs.

    References
    ----------
    .. [1] B. De Moor, P. De Gersem, B. De Schutter and W. Favoreel, "DAISY: a database for
           identification of systems", Journal A 38(3), 4-5 (1997).
    .. [2] M. Schoukens and J. P. Noel, "Three benchmarks addressing open challenges in nonlinear
           system identification", IFAC-PapersOnLine 50(1), 446-451 (2017).

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from skfedcausal.datasets import load_sysid
    >>> record = load_sysid(Path(os.environ["SKFEDCAUSAL_DATA"]) / "sysid", "exchanger")
    >>> record.data.columns.tolist(), record.inputs
    (['exchanger__y_outlet_temp', 'exchanger__u_liquid_flow'], ['exchanger__u_liquid_flow'])
    """
    records = declared()["sysid"]["records"]
    record, source = records[check_known(name, tuple(records), "name")], source_of("sysid", name)
    table = pd.read_csv(locate(path, (f"{name}.csv.gz",), source)[name])
    variables = [
        (column, client, role)
        for client, text in record["clients"].items()
        for role, part in zip(("input", "output"), text.split("->"), strict=True)
        for column in part.split()
    ]
    steps = list(pairwise(record.get("chain", ())))
    return plant_record(
        [table],
        variables,
        source,
        inputs="separate",
        topology=pd.DataFrame(steps + [(b, a) for a, b in steps], columns=["source", "target"]),
    )
