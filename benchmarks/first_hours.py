"""The command line on whole files: seconds to an answer, what is found, and how it is qualified.

Records are written as a person would have them and given to the commands in a process of their own: messy
exports of a simulated power plant (`make_messy_export`) and recorded plants below the folder in
``SKFEDCAUSAL_DATA``. ``python -m benchmarks.first_hours`` writes the table; words behind it choose cases by what
their names contain; ``--seeds`` says how many messy exports there are.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from skfedcausal.datasets import load_batadal, load_skab, load_sysid, load_tep, make_messy_export

from ._records import folder_of
from ._report import table, write

_MOST = 900  # seconds until a command is stopped
_MESSY = "--units", "{unit}[:/._-]{tag}", "--tz", "Europe/Berlin", "--fix"


class Case(NamedTuple):
    """One call of a command on one file."""

    name: str
    command: str
    path: Path
    words: tuple = ()
    truth: dict | None = None


def messy_cases(folder, seeds):
    """Links and incidents of messy exports of a simulated plant."""
    for seed in seeds:
        path, truth = make_messy_export(folder / f"messy{seed}.csv", random_state=seed)
        yield Case(f"messy export, seed {seed}", "links", path, _MESSY, truth)
        words = *_MESSY, "--nominal", "0.7", "--false-alarms", "1 per day"
        yield Case(f"messy export, seed {seed}", "rca", path, words, truth)


def recorded_cases(folder):
    """Links and incidents of recorded plants, as they come and without a word about them."""
    data = folder_of()
    normal, attacks = (load_batadal(data / "batadal", subset).data for subset in ("train_normal", "train_attacks"))
    usual, fault = (load_tep(data / "tep", (name,)).data.reset_index(drop=True) for name in ("d00", "d06"))
    until = ("--nominal", str(attacks.index[0]), "--false-alarms", "1 per month")
    both = pd.concat([usual, fault], ignore_index=True)
    files = [
        ("BATADAL, normal year", normal, None),
        ("BATADAL, normal year and attacks", pd.concat([normal, attacks]), until),
        ("TEP, normal", usual, None),
        ("TEP, normal and fault 6", both, ("--nominal", str(len(usual) / len(both)))),
        ("SKAB, 35 experiments", load_skab(data / "skab").data, ("--nominal", "0.25")),
        ("PetShop", petshop(data / "petshop" / "low_traffic"), ("--nominal", "0.9")),
        ("winding", load_sysid(data / "sysid", "winding").data, ("--nominal", "0.5")),
    ]  # fmt: skip
    for name, frame, nominal in files:
        path = folder / f"{name.replace(', ', '_').replace(' ', '_')}.csv"
        frame.to_csv(path, index=isinstance(frame.index, pd.DatetimeIndex), index_label="time")
        yield Case(name, "links", path, ("--anyway",))
        if nominal is not None:
            yield Case(name, "rca", path, ("--anyway", *nominal))


def petshop(folder):
    """Services of a web shop, ``service__metric_statistic``: normal operation, then one issue after another."""
    paths = [folder / "noissue" / "metrics.csv.gz", *sorted(folder.glob("*/issue_*/metrics.csv*"))]
    tables = [pd.read_csv(path, header=[0, 1, 2], index_col=0) for path in paths]
    frame = pd.concat(tables)
    wanted = {("latency", "Average"), ("requests", "Sum"), ("availability", "Average")}
    frame = frame[[column for column in frame if column[1:] in wanted]]
    frame.columns = [f"{service}__{metric}" for service, metric, _ in frame]
    frame.index = pd.to_datetime(frame.index, unit="s")
    return frame[~frame.index.duplicated()].sort_index().dropna(axis=1, how="all")


def run(case, folder):
    """One row of the table: the command in a process of its own."""
    out = folder / f"{case.path.stem}_{case.command}"
    words = [sys.executable, "-m", "skfedcausal", case.command, case.path, *case.words, "--out", out]
    began, before = time.perf_counter(), os.times()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = process.stderr.readline()  # of what it is doing
    said_after = time.perf_counter() - began
    try:
        text, errors = process.communicate(timeout=_MOST)
    except subprocess.TimeoutExpired:
        process.kill()
        text, errors = process.communicate()
    seconds, after = time.perf_counter() - began, os.times()
    processor = sum(after[2:4]) - sum(before[2:4])
    row = {
        "record": case.name,
        "command": case.command,
        "exit": process.returncode,
        "first word, s": f"{said_after:.1f}",
        "wall, s": f"{seconds:.0f}",
        "processor, s": f"{processor:.0f}",
    }
    (out.parent / f"{out.name}.txt").write_text(f"{text}\n{first}{errors}")
    if process.returncode:
        last = (errors.strip() or "no word").splitlines()[-1]
        return row | {"answer": f"none: {last[:160]}"}
    qualified = sum(line.startswith("Note:") for line in errors.splitlines())
    found = links_found(out, case.truth) if case.command == "links" else incidents_found(out, case.truth)
    return row | found | {"notes": qualified}


def links_found(out, truth):
    """Verdicts, and where the truth is known how many of the links and how many others."""
    links = pd.read_csv(out / "links.csv")
    numbers = links.drop(columns=["geweke"], errors="ignore").select_dtypes("number")
    verdicts = links["verdict"].value_counts()
    answer = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    if truth is not None:
        found = set(links.loc[links["verdict"] == "influence", ["cause", "effect"]].itertuples(index=False, name=None))
        true = set(map(tuple, truth["links"]))
        answer = f"{len(found & true)} of {len(true)} links, {len(found - true)} false; {answer}"
    return {"answer": answer, "finite": "no" if np.isinf(numbers.to_numpy(float)).any() else "yes"}


def incidents_found(out, truth):
    """Incidents, and where the truth is known whether the fault's is among them, and alarms beside it."""
    incidents = pd.read_csv(out / "incidents.csv")
    roots = incidents["root"].fillna("undecided").value_counts()
    answer = f"{len(incidents)} incidents: " + ", ".join(f"{name} {count}" for name, count in roots.items())
    if truth is not None and len(incidents):
        start = pd.to_datetime(incidents["start"], utc=True)
        unit, begin, _ = truth["fault"]
        away = (start - begin.tz_convert("UTC")).abs().dt.total_seconds()
        nearest = incidents.loc[away.idxmin()]
        own = [truth[name] for name in ("fault", "variance")]
        minute = pd.Timedelta("10min")
        others = sum(all(not (a - minute <= s <= b + minute) for _, a, b in own) for s in start)
        answer = (
            f"root {nearest['root']} ({unit}) at {nearest['probability']:.2f}, onset off by {away.min():.0f} s; "
            f"{others} incidents beside the two faults"
        )
    return {"answer": answer, "finite": "yes"}


def main(arguments=None):
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="words that the names of cases contain")
    parser.add_argument("--seeds", type=int, default=3, help="messy exports")
    parser.add_argument("--out", type=Path, help="folder for files and answers; default: a temporary one")
    parser.add_argument("--name", default="first_hours", help="name of the table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [word.casefold() for word in options.cases]
        rows = []
        for cases in (messy_cases(folder, range(1, options.seeds + 1)), recorded_cases(folder)):
            for case in cases:
                text = f"{case.name} {case.command}".casefold()
                if all(word in text for word in wanted):
                    rows.append(run(case, folder))
                    print(rows[-1], file=sys.stderr, flush=True)
    columns = "record", "command", "exit", "first word, s", "wall, s", "processor, s", "answer", "finite", "notes"
    write(options.name, "The first hours: whole files by the command line", _TEXT, table(rows, columns))


_TEXT = """\
Every row is a process of its own, from its start to its exit, with the interpreter's own. `notes` counts what the
command warns of: drift, units that are nearly degenerate, gaps that were filled in, a search that was ended."""


if __name__ == "__main__":
    main()
