"""Roots and false alarms on public records: five plants, all of them recorded or simulated by others.

Run ``python -m benchmarks.watched_records`` with SKFEDCAUSAL_DATA set to the folder that holds ``tep``, ``batadal``,
``skab``, ``causrca`` and ``petshop``. Nothing is downloaded.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import poisson

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import load_batadal, load_causrca, load_skab, load_tep

from ._report import table, write
from .root_cause import TEP_FAULTS

_OWN = 400  # rows of an experiment that are nominal
_BUDGET = 1e-3
_SEEN = 0.6  # share of the normal rows in which a metric has to be there
_SHORTEST, _NORMAL = 100, 20_000  # rows of a normal run, and of all that are learned from
_IMBALANCE = [f"other/{k}" for k in range(5, 10)]
_GROUPS = {"hydraulics": "Hydraulics", "coolant": "Coolant", "probe": "MeasuringProbe"}
_SURE = 0.9


class Case(NamedTuple):
    """A record with one fault or several: (first row, row after the last, right answers) of each."""

    detector: Any
    data: pd.DataFrame
    faults: list
    after: int | None = None  # rows after a fault that are not free of it; None: no row is
    early: bool = False  # whether an incident that is open when the fault begins may answer


def tep(folder):
    """Twelve faults of single units."""
    nominal = load_tep(folder / "tep", ["d00", "d00_te"])
    detector = fitted(nominal.data, nominal.lengths)
    for fault in TEP_FAULTS:
        record = load_tep(folder / "tep", [f"d{fault:02d}_te"])
        first = int(np.flatnonzero(record.target != "")[0])
        yield Case(detector, record.data, [(first, len(record.data), {record.target[first]})])


def batadal(folder):
    """Seven attacks in one record; an hour or two early counts, for some begin before their labels."""
    nominal, attacked = (load_batadal(folder / "batadal", part) for part in ("train_normal", "train_attacks"))
    rows = attacked.data.index.searchsorted
    ends = zip(
        rows(attacked.attacks["start"]), rows(attacked.attacks["end"]), attacked.attacks["root_zone"], strict=True
    )
    faults = [(int(i) - 2, int(j) + 1, {root}) for i, j, root in ends]
    yield Case(fitted(nominal.data), attacked.data, faults, after=60, early=True)


def skab_own(folder):
    """Twenty-four experiments, each judged by its own first rows."""
    for data, fault in _experiments(folder):
        detector = fitted(data.iloc[:_OWN])
        yield Case(detector, data.iloc[_OWN:], [(fault[0] - _OWN, fault[1] - _OWN, fault[2])])


def skab_other(folder):
    """The same judged by the one record without anomalies."""
    detector = fitted(load_skab(folder / "skab", "anomaly-free/anomaly-free").data.reset_index(drop=True))
    for data, fault in _experiments(folder):
        yield Case(detector, data, [fault])


def _experiments(folder):
    """Experiments and their first anomalies; of an imbalance, vibration is as good an answer as motor."""
    names = load_skab(folder / "skab").experiments[1:]
    for name in names:
        record = load_skab(folder / "skab", name)
        rows = np.flatnonzero(record.target != "")
        roots = {record.target[rows[0]]} | ({"vibration"} if name in _IMBALANCE else set())
        yield record.data.reset_index(drop=True), (int(rows[0]), int(rows[-1]) + 1, roots)


def causrca(folder):
    """Sixty-seven runs with every node a unit, judged by the normal runs: manipulated nodes are right."""
    normal, faulty = (load_causrca(folder / "causrca", part) for part in ("normal", "faults"))
    manipulated = faulty.labels.drop_duplicates("run").set_index("run")["manipulated"]
    detectors = {}
    for run, stop, length in zip(faulty.runs, np.cumsum(faulty.lengths), faulty.lengths, strict=True):
        data, target = faulty.data.iloc[stop - length : stop], faulty.target[stop - length : stop]
        group = _GROUPS[run.split("/")[0]]
        shown = [c for c in data if c.startswith(group) and c in normal.data and data[c].notna().any()]
        key = tuple(shown)
        if key not in detectors:
            detectors[key] = fitted(*_complete(normal, shown))
        rows = np.flatnonzero(target != "")
        fault = (int(rows[0]), int(rows[-1]) + 1, set(manipulated[run].split(";")))
        yield Case(detectors[key], _nodes(data[shown]), [fault])


def _complete(normal, shown):
    """Normal runs that report all of some nodes, up to a number of rows, and their lengths."""
    parts, stops = [], np.cumsum(normal.lengths)
    for stop, length in zip(stops.tolist(), normal.lengths, strict=True):
        run = normal.data[shown].iloc[stop - length : stop].dropna()
        if len(run) > _SHORTEST and sum(map(len, parts)) < _NORMAL:
            parts.append(run)
    return _nodes(pd.concat(parts)), [len(part) for part in parts]


def _nodes(data):
    """A table whose every node is a unit of its own."""
    return data.rename(columns=lambda name: f"{name.split('__')[1]}__value").reset_index(drop=True)


def petshop(folder):
    """Twenty-six issues of five rows in a web shop, every service a unit with up to three metrics."""
    base = folder / "petshop" / "low_traffic"
    nominal = _metrics(base / "noissue" / "metrics.csv.gz")
    nominal = nominal[nominal.columns[nominal.notna().mean() > _SEEN]]
    targets = pd.read_csv(base / "targets.csv")
    detector = fitted(nominal)
    for part in ("train", "test"):
        for issue in sorted((base / part).glob("issue_*")):
            row = targets[targets["case"] == f"{part}/{issue.name}"]
            data = _metrics(issue / "metrics.csv.gz").reindex(columns=nominal.columns)
            yield Case(detector, data, [(0, len(data), set(row["root_cause"]))])


def _metrics(file):
    """Metrics of a shop as flat columns, the first statistic of each metric."""
    data = pd.read_csv(file, header=[0, 1, 2], index_col=0).astype(float)
    first = {f"{column[0]}__{column[1]}": data[column] for column in reversed(list(data))}
    return pd.DataFrame(first)[sorted(first)].reset_index(drop=True)


def fitted(nominal, lengths=None):
    """The default detector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FederatedRCADetector(false_alarm_rate=_BUDGET).fit(nominal, lengths=lengths)


RECORDS = {
    "TEP": tep,
    "BATADAL": batadal,
    "SKAB, own first 400 rows": skab_own,
    "SKAB, anomaly-free record": skab_other,
    "causRCA, nodes": causrca,
    "PetShop": petshop,
}


def judged(case):
    """Verdicts on the faults of a case, alarms outside of them, and rows outside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = case.detector.incidents(case.data.reset_index(drop=True))
    free, verdicts, answering = np.ones(len(case.data), dtype=bool), [], set()
    for first, stop, roots in case.faults:
        inside = found[~(found["end"] < first) & (found["detected"] < stop)]
        new = inside[inside["detected"] >= first]
        answering.update(inside.index)
        free[max(first, 0) : None if case.after is None else stop + case.after] = False
        verdicts.append(_verdict(inside if case.early else new, roots))
    others = found.drop(index=list(answering))
    return verdicts, int(free[others["detected"].astype(int)].sum()), int(free.sum())


def _verdict(found, roots):
    """What the first incident says of the root."""
    if found.empty:
        return "silent"
    first = found.iloc[0]
    if first["root"] == "undecided":
        return "undecided"
    if first["root"] in roots:
        return "right"
    return "surely wrong" if first["probability"] >= _SURE else "wrong"


def summed(name, folder, show=False):
    """One row of the table."""
    verdicts, alarms, n_rows = [], 0, 0
    for case in RECORDS[name](folder):
        said, more, rows = judged(case)
        verdicts, alarms, n_rows = verdicts + said, alarms + more, n_rows + rows
    if show:
        print(verdicts, flush=True)
    kinds = ("right", "undecided", "silent", "wrong", "surely wrong")
    low, high = (int(poisson.ppf(p, _BUDGET * n_rows)) for p in (0.025, 0.975))
    counts = {kind: verdicts.count(kind) for kind in kinds}
    return {
        "record": name,
        "faults": len(verdicts),
        **counts,
        "alarms": alarms,
        "of": n_rows,
        "asked": f"{low} to {high}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", nargs="+", choices=RECORDS, default=list(RECORDS))
    chosen, folder = parser.parse_args().records, os.environ.get("SKFEDCAUSAL_DATA")
    if not folder:
        parser.error("set SKFEDCAUSAL_DATA to the folder with the records")
    rows = []
    for name in chosen:
        rows.append(summed(name, Path(folder), show=True))
        print(rows[-1], flush=True)
    write(
        "watched_records",
        "Roots and false alarms on public records",
        "Default detector, one false alarm per 1000 rows asked for. The root is that of the first incident of each "
        f"fault; surely wrong: another unit with a probability of at least {_SURE}. Alarms: incidents in rows before a "
        "fault (BATADAL: in all rows more than 60 hours after one), beside the 95 % interval of a Poisson count. "
        "SKAB: vibration is as good an answer as motor for an imbalance. causRCA: every node of the machine's "
        "group a unit, learned from the normal runs; any manipulated node is right.",
        table(rows),
    )


if __name__ == "__main__":
    main()
