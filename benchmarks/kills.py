"""The command killed at random moments, beside one that was not: ``python -m benchmarks.kills --source sql``."""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd

from .chaos import plant_and_rows

_STARTS = 4.0  # seconds in which a watch has started


class File:
    """A file that rows are written to."""

    address = "csv:live.csv"

    def __init__(self, folder, live):
        self._path, text = folder / "live.csv", live.to_csv(index_label="time").splitlines(keepends=True)
        self._rows = text[1:]
        self._path.write_text(text[0])

    def write(self, begin, end):
        """Some rows."""
        with self._path.open("a") as file:
            file.writelines(self._rows[begin:end])


class Database:
    """A table of SQLite that rows are written to."""

    address = "sqlite:///live.db"

    def __init__(self, folder, live):
        self._path, columns = folder / "live.db", ", ".join(f'"{name}" REAL' for name in live)
        self._rows = [(str(at), *row) for at, row in zip(live.index, live.to_numpy().tolist(), strict=True)]
        self._insert = f"INSERT INTO plant VALUES (?{', ?' * live.shape[1]})"
        self._run(lambda base: base.execute(f"CREATE TABLE plant (time TEXT PRIMARY KEY, {columns})"))

    def write(self, begin, end):
        """Some rows."""
        self._run(lambda base: base.executemany(self._insert, self._rows[begin:end]))

    def _run(self, what):
        with closing(sqlite3.connect(self._path, timeout=60.0)) as base, base:
            what(base)


SOURCES = {"csv": File, "sql": Database}


def killed(folder, still, live, kills=20, seed=0, source="csv"):
    """Events that a watch told whose process was killed while rows came, and those of one that went on.

    `folder` has the nominal record; `live` are the rows, written one at a time. A process is killed while it starts or
    while it follows the rows; the last one is not.
    """
    rng = np.random.default_rng(seed)
    (still / "nominal.csv").write_bytes((folder / "nominal.csv").read_bytes())
    there = SOURCES[source](still, live)
    there.write(0, len(live))
    _begun(still, there, wait=1.0).wait()
    there = SOURCES[source](folder, live)
    for k, part in enumerate(np.array_split(np.arange(len(live)), kills + 1)):
        process = _begun(folder, there, wait=None if k < kills else 3.0)
        starts = k < kills and rng.random() < 0.3
        if not starts:
            _started(folder, process)
        for row in part.tolist():
            there.write(row, row + 1)
            time.sleep(0.002)
        if k < kills:
            time.sleep(float(rng.uniform(0, _STARTS if starts else 0.5)))
            process.kill()
        process.wait()
    told = _told(folder)
    return {
        "kills": kills,
        "told": _last(told),
        "undisturbed": _last(_told(still)),
        "twice": len(told) - len({event["id"] for event in told}),
        "ends": _end(folder),
        "undisturbed ends": _end(still),
    }


def _last(events):
    """What was told last of each incident: places and root. How often it is revised depends on the batches."""
    return {event["incident"]: [event[name] for name in ("start", "detected", "end", "root")] for event in events}


def _end(folder):
    """Rows that were judged, and where the watch stands in its source."""
    kept = json.loads((folder / "watch.state" / "state").read_text())["kept"]
    return kept["counts"]["rows"], {name: value for name, value in kept["place"].items() if name != "file"}


def _begun(folder, source, wait):
    more = "" if wait is None else f"wait = {wait}\n"
    (folder / "watch.toml").write_text(
        f'[watch]\nnominal = "nominal.csv"\nsource = "{source.address}"\nlog = "told.jsonl"\nrefresh = 1000.0\n{more}'
    )
    (folder / "watch.html").unlink(missing_ok=True)
    command = [sys.executable, "-m", "skfedcausal", "watch", str(folder / "watch.toml")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _started(folder, process):
    """Wait until the watch has written its first page."""
    while process.poll() is None and not (folder / "watch.html").exists():
        time.sleep(0.02)


def _told(folder):
    path = Path(folder) / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--kills", type=int, default=20)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--source", choices=SOURCES, default="csv")
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        nominal, rows, _ = plant_and_rows(3000, 6, given.seed)
        pd.DataFrame(nominal).to_csv(Path(one) / "nominal.csv", index_label="time")
        found = killed(Path(one), Path(other), rows, given.kills, given.seed, given.source)
    same = found["told"] == found["undisturbed"] and found["ends"] == found["undisturbed ends"]
    print(json.dumps({**found, "same": same}))
