"""Public records of real and simulated plants, read from a folder of the user's, and checks of arguments."""

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from ..bases import Bunch

# Checks of the generator's arguments: what came, what was expected, what to do.


def as_generator(random_state):
    """Numpy Generator from None, an int, a RandomState or a Generator (used as it is)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    seed = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(seed)


def require(holds, name, wanted, value):
    """Refuse an argument that is not as wanted."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}. Got {value!r}.")


def _is_whole(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(value, name, low):
    """An integer of at least `low`."""
    require(_is_whole(value) and value >= low, name, f"an integer of at least {low}", value)
    return int(value)


def check_share(value, name):
    """A number in [0, 1)."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    require(is_number and 0 <= float(value) < 1, name, "a number in [0, 1)", value)
    return float(value)


def check_known(value, known, name):
    """One of the strings `known`."""
    require(value in known, name, f"one of {', '.join(map(repr, known))}", value)
    return value


def check_interval(value, name, high=np.inf):
    """A pair ``0 < low <= high``, from a pair or from one number (both ends)."""
    ends = np.asarray(value, dtype=float)
    low, top = (ends, ends) if ends.ndim == 0 else ends if ends.shape == (2,) else (np.nan, np.nan)
    bound = "0 < low <= high" + ("" if np.isinf(high) else f" < {high}")
    require(0 < low <= top < high, name, f"a number or a pair (low, high) with {bound}", value)
    return float(low), float(top)


def per_unit(value, n_units, name):
    """One entry per unit, from one entry for all units or a sequence of them."""
    if not isinstance(value, Iterable) or isinstance(value, str):
        return [value] * n_units
    values = list(value)
    if len(values) != n_units:
        raise ValueError(f"{name} has {len(values)} entries for {n_units} units; give one, or one per unit.")
    return values


def per_unit_counts(value, n_units, name, low):
    """One integer of at least `low` per unit."""
    return [check_count(v, name, low) for v in per_unit(value, n_units, name)]


def per_unit_scales(value, n_units, name, *, positive):
    """One finite standard deviation per unit, above zero when `positive`."""
    scales = np.asarray(per_unit(value, n_units, name), dtype=float)
    bound = "above zero" if positive else "of at least zero"
    holds = np.isfinite(scales).all() and not (scales < 0).any() and (scales.all() or not positive)
    require(holds, name, f"finite standard deviations {bound}", value)
    return scales


def check_names(names, n_units):
    """Unit names, ``unit0``, ``unit1``, ... by default."""
    if names is None:
        return [f"unit{m}" for m in range(n_units)]
    names = list(names)
    if len(names) != n_units:
        raise ValueError(f"Got {len(names)} names for {n_units} units; give one name per unit.")
    good = all(isinstance(name, str) and name and "__" not in name for name in names)
    wanted = "different non-empty strings without '__', which separates unit and sensor in column names"
    require(good and len(set(names)) == n_units, "names", wanted, names)
    return names


def unit_position(unit, names):
    """Position of a unit given by name or position."""
    if isinstance(unit, str) and unit in names:
        return names.index(unit)
    if _is_whole(unit) and 0 <= int(unit) < len(names):
        return int(unit)
    raise ValueError(f"Unknown unit {unit!r}; give a position from 0 to {len(names) - 1} or one of {names}.")


def row_range(start, stop, n_samples, name):
    """Rows ``start:stop``, not empty, each end a row number (int) or a share of the rows (float in [0, 1])."""
    wanted, rows = f"a row from 0 to {n_samples} (int) or a share of the rows from 0.0 to 1.0 (float)", []
    for end, value in ((f"Start of {name}", start), (f"End of {name}", stop)):
        is_share = isinstance(value, Real) and not isinstance(value, Integral) and 0 <= float(value) <= 1
        require(is_share or (_is_whole(value) and 0 <= int(value) <= n_samples), end, wanted, value)
        rows.append(round(float(value) * n_samples) if is_share else int(value))
    if rows[0] >= rows[1]:
        raise ValueError(f"{name} must cover at least one row. Got rows {rows[0]} to {rows[1]}.")
    return tuple(rows)


# Reading public records: the files in a folder of the user's, and the Bunch that every loader returns.


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


# Tennessee Eastman process.

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


# Water systems: the BATADAL distribution network and the SKAB circulation rig.

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


# Records with recorded inputs from the system identification literature.


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


# causRCA recordings of an industrial vertical lathe.

_CAUSRCA_FILES = ("normal_runs.csv.gz", "fault_runs.csv.gz", "labels.csv", "all_nodes.csv", "all_edges.csv")
_EVENTS = {"normal": "normal_runs", "faults": "fault_runs"}
_ROOTS = {"hydraulics": "Hydraulics", "coolant": "Coolant", "probe": "MeasuringProbe"}


def load_causrca(
    path: str | PathLike[str],
    subset: str = "normal",
    runs: str | Sequence[str] | None = None,
    *,
    period: float = 1.0,
    categorical: bool = False,
) -> Bunch:
    """Read event recordings of a lathe, held on a regular grid of time steps.

    Parameters
    ----------
    path : str or path-like
        Folder with ``normal_runs.csv.gz`` and ``fault_runs.csv.gz`` (columns run, time_s, node,
        value, type: one row when a node changes), ``labels.csv``, ``all_nodes.csv`` and
        ``all_edges.csv``; or one of these files.
    subset : {"normal", "faults"}, default="normal"
        Normal operation, or faults injected in a twin of the machine.
    runs : str or sequence of str, default=None
        Names of runs; None stands for all of the subset. Each run is an episode.
    period : float, default=1.0
        Seconds between two rows. A row holds each node's last value at that time or before.
    categorical : bool, default=False
        Whether to keep nodes such as program names, coded by their position in the sorted list of
        values (the same for both subsets).

    Returns
    -------
    causrca : Bunch
        ``lengths``, ``inputs``, ``sampling_period`` and ``DESCR`` as in :func:`load_tep`, and

        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__node``, runs one below the other. Switches and alarms are 0 or
            1; NaN where a run has no record of a node.
        target : ndarray of str, shape (n_samples,)
            Client in which the fault has its root while its cause lasts, ``""`` otherwise.
        labels : DataFrame
            One row per run with a fault: manipulated nodes (the root causes), alarms, diagnosis
            and times in seconds. Empty for normal runs.
        runs : list of str
            Names, in the order of the rows.
        variables : DataFrame
            One row per column of `data`: name, column, client, role, type.
        graph : DataFrame
            Experts' causal graph of all nodes: source, target (flat names), comment.
        categories : dict of str to list of str
            Flat name to values, in the order of their codes; empty unless `categorical`.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If the subset or a run is unknown, or the period is not positive.

    Notes
    -----
    Most nodes are switches, so a linear state-space model fits poorly: the data are for root
    causes and graphs. The kind of run gives the root's client away; score the root node inside it.
    Nodes that are not in the graph are left out. The subsets do not hold the same nodes: before
    applying a model of normal runs to faults, align them with
    ``faults.data.reindex(columns=normal.data.columns)``.

    References
    ----------
    .. [1] Mehling, Pieper and Lüke, "causRCA", Zenodo (2025), doi:10.5281/zenodo.15876410.

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from skfedcausal.datasets import load_causrca
    >>> lathe = load_causrca(Path(os.environ["SKFEDCAUSAL_DATA"]) / "causrca", period=60.0)
    >>> len(lathe.lengths)
    170
    """
    check_known(subset, tuple(_EVENTS), "subset")
    period = check_interval(period, "period")[0]
    source = source_of("causrca")._replace(period=period)
    files = locate(path, _CAUSRCA_FILES, source)
    nodes = pd.read_csv(files["all_nodes"]).rename(columns={"label": "column"})
    nodes = nodes[["column"]].assign(client=nodes["path"].str.split("/").str[1])
    events = _read_events(files[_EVENTS[subset]])
    categories = _categories([files[name] for name in _EVENTS.values()], nodes) if categorical else {}
    ends = events.groupby("run", sort=False)["time_s"].max()
    runs = check_list(runs, ends.index.tolist(), "runs")
    events = _as_numbers(events[events["run"].isin(runs)], nodes, categories)
    by_run = dict(tuple(events.groupby("run")))
    tables = [_held(by_run[run], ends[run], period) for run in runs]
    labels = pd.read_csv(files["labels"])
    labels = labels[labels["run"].isin(runs)].reset_index(drop=True)
    names = dict(zip(nodes["column"], nodes["client"] + "__" + nodes["column"], strict=True))
    return plant_record(
        tables,
        _variables(nodes, events),
        source,
        target=np.concatenate([_causrca_target(*each, period, labels) for each in zip(runs, tables, strict=True)]),
        labels=labels,
        runs=runs,
        graph=_graph(files["all_edges"], names),
        categories={names[node]: values for node, values in categories.items()},
    )


def _read_events(file):
    """Events with values as text."""
    return pd.read_csv(file, dtype={"run": str, "value": str})


def _categories(files, nodes):
    """Sorted values of each categorical node of the graph over both subsets."""
    events = pd.concat([_read_events(file) for file in files])
    events = events[events["node"].isin(nodes["column"]) & (events["type"] == "Categorical")]
    return {node: sorted(values.unique()) for node, values in events.groupby("node")["value"]}


def _as_numbers(events, nodes, categories):
    """Events of the graph's nodes, values as numbers; categorical nodes only if coded."""
    is_number = events["type"] != "Categorical"
    kept = events["node"].isin(nodes["column"]) & (is_number | events["node"].isin(categories))
    events = events[kept]
    numbers = pd.to_numeric(events["value"].replace({"True": "1", "False": "0"}), errors="coerce")
    for node, values in categories.items():
        rows = events["node"] == node
        numbers[rows] = pd.Categorical(events["value"][rows], categories=values).codes
    return events.assign(value=numbers)


def _variables(nodes, events):
    """Nodes that occur in the events, with their type."""
    types = events.drop_duplicates("node").set_index("node")["type"]
    seen = nodes[nodes["column"].isin(types.index)]
    return seen.assign(role="output", type=seen["column"].map(types))


def _held(events, end, period):
    """Last value of each node at each grid time of one run, up to its last event."""
    table = events.pivot(index="time_s", columns="node", values="value").ffill()
    grid = np.arange(0.0, end + 1e-9, period)
    return table.reindex(grid, method="ffill")


def _causrca_target(run, table, period, labels):
    """Root client of the run's fault in each row."""
    fault = labels[labels["run"] == run]
    roots = fault["root_client"].map(lambda root: _ROOTS.get(root, root))
    active = zip(fault["cause_start_at"], fault["cause_end_at"], roots, strict=True)
    return root_in_each_row(period * np.arange(len(table)), active)


def _graph(file, names):
    """Edges with flat names; parallel edges once."""
    edges = pd.read_csv(file)
    ends = {end: edges[f"{end}_label"].map(names) for end in ("source", "target")}
    graph = pd.DataFrame({**ends, "comment": edges["comment"]})
    return graph.drop_duplicates(["source", "target"], ignore_index=True)
