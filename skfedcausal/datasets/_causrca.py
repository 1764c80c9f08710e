"""causRCA recordings of an industrial vertical lathe."""

from collections.abc import Sequence
from os import PathLike

import numpy as np
import pandas as pd

from ..bases import Bunch
from ._records import check_list, locate, plant_record, root_in_each_row, source_of
from ._validation import check_interval, check_known

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
