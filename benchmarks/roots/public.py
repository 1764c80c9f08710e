"""Roots and false alarms on public records: five plants, recorded or simulated by others."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import poisson

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import load_batadal, load_causrca, load_skab, load_tep

from .._records import folder_of, no_records
from .._rivals import Charts

TITLE = "Roots and false alarms on public records"
TEXT = (
    "Default detector, one false alarm per 1000 rows asked for, beside EWMA charts of what an autoregression of every "
    "column of the pooled table leaves, whose limits the nominal record gives. The root is that of the first incident "
    "of each fault; wrong: another unit, sure with a probability of at least {sure}. Alarms: incidents in rows before "
    "a fault (BATADAL: in all rows more than 60 hours after one), beside the 95 % interval of a Poisson count. TEP: "
    "faults {tep_faults} of single units. SKAB: vibration is as good an answer as motor for an imbalance. causRCA: "
    "every node of the machine's group a unit, learned from the normal runs; any manipulated node is right. One "
    "experiment of SKAB in {skab_step} and one run of causRCA in {causrca_step} is judged. The limit is all faults "
    "right."
)
TOOLS = {"skfedcausal": FederatedRCADetector, "EWMA charts": Charts}
IMBALANCE = [f"other/{k}" for k in range(5, 10)]
GROUPS = {"hydraulics": "Hydraulics", "coolant": "Coolant", "probe": "MeasuringProbe"}
VERDICTS, SURE = ("right", "undecided", "silent", "wrong"), "of these sure"


def missing(settings):
    """Why the table cannot be made here."""
    return no_records(["tep", "batadal", "skab", "causrca", "petshop"])


class Case(NamedTuple):
    """A record with one fault or several: (first row, row after the last, right answers) of each."""

    detector: Any
    data: pd.DataFrame
    faults: list
    after: int | None = None  # rows after a fault that are not free of it; None: no row is
    early: bool = False  # whether an incident that is open when the fault begins may answer


def tep(s, fitted):
    """Faults of single units."""
    nominal = load_tep(folder_of() / "tep", ["d00", "d00_te"])
    detector = fitted(nominal.data, nominal.lengths)
    for fault in s["tep_faults"]:
        record = load_tep(folder_of() / "tep", [f"d{fault:02d}_te"])
        first = int(np.flatnonzero(record.target != "")[0])
        yield Case(detector, record.data, [(first, len(record.data), {record.target[first]})])


def batadal(s, fitted):
    """Seven attacks in one record; an hour or two early counts, for some begin before their labels."""
    nominal, attacked = (load_batadal(folder_of() / "batadal", part) for part in ("train_normal", "train_attacks"))
    rows = attacked.data.index.searchsorted
    ends = zip(
        rows(attacked.attacks["start"]), rows(attacked.attacks["end"]), attacked.attacks["root_zone"], strict=True
    )
    faults = [(int(i) - 2, int(j) + 1, {root}) for i, j, root in ends]
    yield Case(fitted(nominal.data), attacked.data, faults, after=60, early=True)


def skab_own(s, fitted):
    """Experiments, each judged by its own first rows."""
    own = s["skab_own"]
    for data, (first, stop, roots) in experiments(s):
        yield Case(fitted(data.iloc[:own]), data.iloc[own:], [(first - own, stop - own, roots)])


def skab_other(s, fitted):
    """The same judged by the one record without anomalies."""
    detector = fitted(load_skab(folder_of() / "skab", "anomaly-free/anomaly-free").data.reset_index(drop=True))
    for data, fault in experiments(s):
        yield Case(detector, data, [fault])


def experiments(s):
    """Experiments and their first anomalies; of an imbalance, vibration is as good an answer as motor."""
    for name in load_skab(folder_of() / "skab").experiments[1 :: s["skab_step"]]:
        record = load_skab(folder_of() / "skab", name)
        rows = np.flatnonzero(record.target != "")
        roots = {record.target[rows[0]]} | ({"vibration"} if name in IMBALANCE else set())
        yield record.data.reset_index(drop=True), (int(rows[0]), int(rows[-1]) + 1, roots)


def causrca(s, fitted):
    """Runs with every node a unit, judged by the normal runs: manipulated nodes are right."""
    normal, faulty = (load_causrca(folder_of() / "causrca", part) for part in ("normal", "faults"))
    manipulated = faulty.labels.drop_duplicates("run").set_index("run")["manipulated"]
    detectors, runs = {}, list(zip(faulty.runs, np.cumsum(faulty.lengths), faulty.lengths, strict=True))
    for run, stop, length in runs[:: s["causrca_step"]]:
        data, target = faulty.data.iloc[stop - length : stop], faulty.target[stop - length : stop]
        group = GROUPS[run.split("/")[0]]
        shown = [c for c in data if c.startswith(group) and c in normal.data and data[c].notna().any()]
        key = tuple(shown)
        if key not in detectors:
            detectors[key] = fitted(*complete(normal, shown, s))
        rows = np.flatnonzero(target != "")
        fault = (int(rows[0]), int(rows[-1]) + 1, set(manipulated[run].split(";")))
        yield Case(detectors[key], nodes(data[shown]), [fault])


def complete(normal, shown, s):
    """Normal runs that report all of some nodes, up to a number of rows, and their lengths."""
    parts, stops = [], np.cumsum(normal.lengths)
    for stop, length in zip(stops.tolist(), normal.lengths, strict=True):
        run = normal.data[shown].iloc[stop - length : stop].dropna()
        if len(run) > s["shortest"] and sum(map(len, parts)) < s["normal"]:
            parts.append(run)
    return nodes(pd.concat(parts)), [len(part) for part in parts]


def nodes(data):
    """A table whose every node is a unit of its own."""
    return data.rename(columns=lambda name: f"{name.split('__')[1]}__value").reset_index(drop=True)


def petshop(s, fitted):
    """Issues of five rows in a web shop, every service a unit with up to three metrics."""
    base = folder_of() / "petshop" / "low_traffic"
    nominal = metrics(base / "noissue" / "metrics.csv.gz")
    nominal = nominal[nominal.columns[nominal.notna().mean() > s["seen"]]]
    targets = pd.read_csv(base / "targets.csv")
    detector = fitted(nominal)
    for part in ("train", "test"):
        for issue in sorted((base / part).glob("issue_*")):
            row = targets[targets["case"] == f"{part}/{issue.name}"]
            data = metrics(issue / "metrics.csv.gz").reindex(columns=nominal.columns)
            yield Case(detector, data, [(0, len(data), set(row["root_cause"]))])


def metrics(file):
    """Metrics of a shop as flat columns, the first statistic of each metric."""
    data = pd.read_csv(file, header=[0, 1, 2], index_col=0).astype(float)
    first = {f"{column[0]}__{column[1]}": data[column] for column in reversed(list(data))}
    return pd.DataFrame(first)[sorted(first)].reset_index(drop=True)


RECORDS = {
    "TEP": tep,
    "BATADAL": batadal,
    "SKAB, own first rows": skab_own,
    "SKAB, anomaly-free record": skab_other,
    "causRCA, nodes": causrca,
    "PetShop": petshop,
}


def judged(case, sure):
    """Verdicts on the faults of a case, alarms outside of them, and rows outside."""
    found = case.detector.incidents(case.data.reset_index(drop=True))
    free, verdicts, answering = np.ones(len(case.data), dtype=bool), [], set()
    for first, stop, roots in case.faults:
        inside = found[~(found["end"] < first) & (found["detected"] < stop)]
        new = inside[inside["detected"] >= first]
        answering.update(inside.index)
        free[max(first, 0) : None if case.after is None else stop + case.after] = False
        verdicts.append(verdict(inside if case.early else new, roots, sure))
    others = found.drop(index=list(answering))
    return verdicts, int(free[others["detected"].astype(int)].sum()), int(free.sum())


def verdict(found, roots, sure):
    """What the first incident says of the root."""
    if found.empty:
        return "silent"
    first = found.iloc[0]
    if first["root"] == "undecided":
        return "undecided"
    if first["root"] in roots:
        return "right"
    return SURE if first["probability"] >= sure else "wrong"


def summed(name, tool, s):
    """One row of the table."""

    def fitted(nominal, lengths=None):
        return TOOLS[tool](false_alarm_rate=s["rate"]).fit(nominal, lengths=lengths)

    found = [judged(case, s["sure"]) for case in RECORDS[name](s, fitted)]
    verdicts = [verdict for said, _, _ in found for verdict in said]
    alarms, n_rows = (sum(one[k] for one in found) for k in (1, 2))
    low, high = (int(poisson.ppf(p, s["rate"] * n_rows)) for p in (0.025, 0.975))
    row = {"record": name, "tool": tool, "faults": len(verdicts)} | {said: verdicts.count(said) for said in VERDICTS}
    row |= {"wrong": row["wrong"] + verdicts.count(SURE), SURE: verdicts.count(SURE)}
    return row | {"false alarms": alarms, "asked, from": low, "asked, to": high, "rows": n_rows}


def figures(s):
    """A row of every record and tool, and of each tool over all records."""
    rows = [summed(name, tool, s) for name in s["records"] for tool in TOOLS]
    frame = pd.DataFrame(rows)
    for tool, part in frame.groupby("tool", sort=False):
        low, high = (int(poisson.ppf(p, s["rate"] * part["rows"].sum())) for p in (0.025, 0.975))
        summed_up = part.drop(columns=["record", "tool"]).sum().to_dict()
        rows.append({"record": "all records", "tool": tool, **summed_up, "asked, from": low, "asked, to": high})
    return {"Public records": rows}
