"""A watch of a file under random events, beside one without any: ``python -m benchmarks.chaos --seed 1``.

The events are rows that come twice, in another order or with another clock, junk, clocks that are set by seconds to
years, files that are rotated by renaming and by cutting, watches that are killed (also amid a line of their journal),
disks that are full and alarm systems that are away. Faults are plain, last 60 rows, and lie far enough from each other.
A fault is told well if it is told once, with its unit, within two rows of where the undisturbed watch tells it.
"""

import argparse
import json
import os
import resource
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from skfedcausal import FederatedRCADetector
from skfedcausal.commands.watching.frozen import frozen, thawed
from skfedcausal.commands.watching.journal import Journal
from skfedcausal.commands.watching.loop import Watch
from skfedcausal.commands.watching.plant import Plant
from skfedcausal.commands.watching.sinks import Outbox
from skfedcausal.datasets import make_granger_plant
from skfedcausal.streams.cells import Stamps
from skfedcausal.streams.csv_file import csv_rows

FAULT, SIZE, CLEAR = 60, 8.0, 150  # rows of a fault, its size, rows around it without jumps of the clock
KINDS = (
    "doubled", "swapped", "junk", "ahead", "set", "renamed", "cut", "killed", "torn", "full", "away", "text",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What a watch needs of its settings."""

    tz: str | None = None


@dataclass
class Outcome:
    """What became of the faults, and of the watch."""

    told: dict = field(default_factory=dict)  # first row of each alarm that named the right unit, by fault
    wrong: int = 0  # incidents elsewhere
    events: int = 0
    kills: int = 0
    heard: int = 0  # events that the alarm system heard
    heard_twice: int = 0


class FullDisk(Journal):
    """A journal on a disk that is full now and then."""

    full = False

    def check(self):
        """See whether there is room."""
        if FullDisk.full:
            raise OSError(28, "No space left on device")
        super().check()

    def append(self, record):
        """Add a record."""
        if FullDisk.full:
            raise OSError(28, "No space left on device")
        super().append(record)

    def keep(self, kept, blob):
        """Keep a state."""
        if FullDisk.full:
            raise OSError(28, "No space left on device")
        super().keep(kept, blob)


class AlarmSystem:
    """One who hears of events, and is away now and then."""

    def __init__(self):
        self.here, self.heard = True, []

    def __call__(self, event):
        """Hear of an event."""
        if not self.here:
            raise OSError("away")
        self.heard.append(event["id"])


def plant_and_rows(n_rows, n_faults, seed):
    """A plant's nominal record, its live rows, and its faults as (first row, unit)."""
    X, _ = make_granger_plant(3, n_sensors=6, n_samples=4000 + n_rows, random_state=seed)
    frame = pd.concat({name: pd.DataFrame(np.asarray(part)) for name, part in X.items()}, axis=1)
    frame.columns = [f"{unit}__x{k}" for unit, k in frame.columns]
    frame.index = pd.date_range("2026-01-01", periods=len(frame), freq="min")
    live, faults = frame[4000:].copy(), []
    rng, apart = np.random.default_rng(seed), n_rows // n_faults
    for k in range(n_faults):
        row, unit = k * apart + apart // 2 + int(rng.integers(0, apart // 10)), f"unit{rng.integers(0, 3)}"
        live.iloc[row : row + FAULT, [live.columns.get_loc(f"{unit}__x{j}") for j in range(4)]] += SIZE
        faults.append((row, unit))
    return frame[:4000], live, faults


class Run:
    """A watch of a file that is written and spoiled meanwhile."""

    def __init__(self, folder, detector, plant, live, faults, outcome):
        self.folder, self._fitted, self._plant, self._live = Path(folder), frozen(detector), plant, live
        self._faults, self.outcome = faults, outcome
        self.path, self._offset, self._rotated = self.folder / "live.csv", pd.Timedelta(0), 0
        self._rows = {round(value, 9): row for row, value in enumerate(live.iloc[:, 0])}
        self.system = AlarmSystem()
        self._events: list = []
        self._head = "time," + ",".join(live) + "\n"
        self.path.write_text(self._head)
        self.watch, self._tail = None, None
        self.begin()

    def begin(self):
        """Start the watch, or start it again."""
        journal = FullDisk(self.folder / "state")
        self._outbox = Outbox("system", self.system, self.folder / "queue")
        tellers = [self._events.append, self._outbox]
        try:
            kept = journal.read()
        except OSError:
            kept = None
        detector = thawed(self._fitted if kept is None else kept[1])
        self.watch = Watch(detector, self._plant, Asked(), journal, tellers, "")
        if kept is not None:
            self.watch.take_up(kept[0], kept[2])
        if not FullDisk.full:
            self.watch.keep()
        self._look()
        self._tail = csv_rows(self.path, Stamps(), poll=0.0, place=self.watch.place)
        self._outbox.start()

    def read(self):
        """Let the watch read what is there."""
        for place, frame in self._tail:
            if frame is None:
                break
            self.watch.take(frame, place)
            self.watch.tick()
            self._look()

    def _look(self):
        """Take note of what was told: which row the alarm of an event is, and which fault."""
        while self._events:
            event = self._events.pop(0)
            row = self._row_of(event)
            fault = next((k for k, (at, _) in enumerate(self._faults) if at - 5 <= row <= at + FAULT + 40), None)
            if event["kind"] == "drift":
                continue
            if fault is None or row < 0:
                self.outcome.wrong += event["id"].endswith("/1")
            elif event["root"] == self._faults[fault][1]:
                self.outcome.told.setdefault(fault, {})[event["incident"]] = row

    def _row_of(self, event):
        at = self.watch.incidents.detected(event["incident"])
        for batch in reversed(self.watch.last):
            if at in batch.index:
                return self._rows.get(round(float(np.atleast_1d(batch.loc[at].iloc[0])[0]), 9), -1)
        return -1

    # -- what is written -----------------------------------------------------------------------------

    def lines(self, begin, end, offset=None):
        """Rows as lines, by the clock of the source."""
        times = self._live.index[begin:end] + (self._offset if offset is None else offset)
        rows = zip(times, self._live.to_numpy()[begin:end].tolist(), strict=True)
        return [f"{at}," + ",".join(map(repr, row)) + "\n" for at, row in rows]

    def write(self, lines):
        """Add lines to the file."""
        with self.path.open("a", errors="surrogateescape") as file:
            file.writelines(lines)

    def spoil(self, kind, row, rng):
        """One event after some row."""
        if kind == "doubled":
            self.write(self.lines(max(row - int(rng.integers(1, 40)), self._since), row))
        elif kind == "junk":
            self.write(["\udcff\udcfe\0;;\n", '"open,1\n', ",".join(["x"] * 19) + "\n", "9" * 5000 + "\n"])
        elif kind == "text":
            self.write(["time," + ",".join(self._live) + "\n"])
        elif kind == "ahead":
            self.write(self.lines(row - 1, row, self._offset + _jump(rng)))
        elif kind == "set":
            self._offset += _jump(rng)
            self._since = row
        elif kind == "renamed":
            self._rotated += 1
            os.replace(self.path, self.path.with_name(f"live.csv.{self._rotated}"))
            self.path.write_text(self._head)
        elif kind == "cut":
            self.read()
            self.path.write_text(self._head)
        elif kind in ("killed", "torn"):
            self.kill(torn=kind == "torn")
        elif kind == "full":
            if FullDisk.full:
                self.free()
            else:
                FullDisk.full = True
        elif kind == "away":
            self.system.here = not self.system.here

    _since = 0  # row from which on the clock is as it is

    def free(self):
        """Give room on the disk, and the watch the time to notice it."""
        if FullDisk.full:
            FullDisk.full = False
            self.watch.keep()

    def kill(self, torn=False):
        """End the watch where it is, without a word, and start it again."""
        self.free()  # nobody can remember on a full disk what was told
        self._tail.close()
        self.outcome.kills += 1
        segments = sorted((self.folder / "state").glob("rows-*.jsonl"))
        if torn and segments:
            with segments[-1].open("a") as file:
                file.write('{"n": 7, "val')
        self._outbox.close(10.0)  # a thread cannot be killed
        self.begin()

    def finish(self):
        """Let the watch read the rest, and the alarm system hear the rest."""
        FullDisk.full, self.system.here = False, True
        self.read()
        self._outbox.close(30.0)
        self.outcome.heard = len(self.system.heard)
        self.outcome.heard_twice = len(self.system.heard) - len(set(self.system.heard))


def _jump(rng):
    size = float(10 ** rng.uniform(0, 7.8))  # seconds to two years
    return pd.Timedelta(seconds=round(size) * int(rng.choice([-1, 1])))


def followed(detector, plant, live, faults, seed=None, n_events=0):
    """What became of the faults under some events, none without a seed."""
    outcome, rng = Outcome(), np.random.default_rng(seed)
    places = np.sort(rng.integers(50, len(live) - 50, n_events)) if n_events else np.zeros(0, dtype=int)
    FullDisk.full = False
    with tempfile.TemporaryDirectory() as folder:
        run, done = Run(folder, detector, plant, live, faults, outcome), 0
        for place in places.tolist():
            kind = str(rng.choice(KINDS))
            near = any(at - CLEAR <= place <= at + FAULT + CLEAR for at, _ in faults)
            if kind in ("set", "cut") and near:
                kind = "doubled"
            rows = run.lines(done, place)
            if kind == "swapped" and len(rows) > 2:
                rows[-2:] = rows[-1:-3:-1]
            run.write(rows)
            done = max(place, done)
            if rng.random() < 0.7:
                run.read()
            run.spoil(kind, done, rng)
            outcome.events += 1
        while done < len(live):
            run.write(run.lines(done, min(done + 500, len(live))))
            run.read()
            done += 500
        run.finish()
    return outcome


def chaos(seed, n_rows=200_000, n_faults=60, n_events=10_000):
    """A comparison with the undisturbed watch, as a dict of figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nominal, live, faults = plant_and_rows(n_rows, n_faults, seed)
        detector = FederatedRCADetector(false_alarm_rate=1e-4).fit(nominal)
        plant = Plant(nominal, None, {}, (), ())
        still = followed(detector, plant, live, faults)
        begin = time.process_time()
        now = followed(detector, plant, live, faults, seed, n_events)
    first = {fault: min(rows.values()) for fault, rows in still.told.items()}
    late = {fault: [row - first[fault] for row in rows.values()] for fault, rows in now.told.items() if fault in first}
    well = [fault for fault in first if len(late.get(fault, ())) == 1 and abs(late[fault][0]) <= 2]
    return {
        "seed": seed,
        "faults told undisturbed": len(first),
        "told well": len(well),
        "not": {fault: late.get(fault) for fault in first if fault not in well},
        "incidents elsewhere, undisturbed and under events": [still.wrong, now.wrong],
        "events": now.events,
        "kills": now.kills,
        "heard by the alarm system, twice": [now.heard, now.heard_twice],
        "CPU s": round(time.process_time() - begin, 1),
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--rows", type=int, default=200_000)
    reader.add_argument("--faults", type=int, default=60)
    reader.add_argument("--events", type=int, default=10_000)
    given = reader.parse_args()
    print(json.dumps(chaos(given.seed, given.rows, given.faults, given.events)))
