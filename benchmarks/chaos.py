"""A watch under random events, beside one without any: ``python -m benchmarks.chaos --seed 1 --source csv``.

The events are rows that come twice, in another order or with another clock, rows of another zone, junk, clocks that are
set by seconds to years, nights in which summer time begins or ends, disks that are full and alarm systems that are
away; of a file also its rotation, by renaming and by cutting, and of a broker also that it is started again (the
program ``mosquitto``, with a user and a password). The clock of the source is that of Berlin and tells no zone. The
watch is a process of its own, which is killed (``kill -9``) at any moment while it reads or starts, also amid a line of
its journal. Faults are plain, last 60 rows, and lie far enough from each other. A fault is told well if it is told
once, with its unit, within two rows of where the undisturbed watch tells it.
"""

import argparse
import json
import multiprocessing
import os
import resource
import socket
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import numpy as np
import pandas as pd

from skfedcausal import FederatedRCADetector, load
from skfedcausal.commands.watching.loop import Journal, Watch
from skfedcausal.commands.watching.settings import Plant
from skfedcausal.commands.watching.sinks import Outbox, to_file
from skfedcausal.datasets import make_granger_plant
from skfedcausal.streams.cells import Stamps
from skfedcausal.streams.csv_file import csv_rows
from skfedcausal.streams.sources import SourceOptions, open_source

ZONE, USER, PASSWORD = "Europe/Berlin", "plant", "hush-4711"
FAULT, SIZE, CLEAR = 60, 8.0, 150  # rows of a fault, its size, rows around it without jumps of the clock
KINDS = (
    "doubled", "swapped", "zoned", "junk", "ahead", "set", "night", "killed", "torn", "full", "away",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What a watch needs of its settings."""

    tz: str | None = ZONE


@dataclass
class Outcome:
    """What became of the faults, and of the watch."""

    told: dict = field(default_factory=dict)  # first row of each alarm that named the right unit, by fault
    wrong: int = 0  # incidents elsewhere
    events: dict = field(default_factory=dict)  # by their kinds
    kills: int = 0
    exits: int = 0  # that nobody asked for
    ids: list = field(default_factory=list)  # of events that were told
    heard: list = field(default_factory=list)  # that the alarm system heard
    megabytes: int = 0


class FullDisk(Journal):
    """A journal on a disk that is full now and then."""

    full = False

    def check(self):
        """See whether there is room."""
        self._room()
        super().check()

    def append(self, record):
        """Add a record."""
        self._room()
        super().append(record)

    def keep(self, kept, detector):
        """Keep a state."""
        self._room()
        super().keep(kept, detector)

    def _room(self):
        if self.full:
            raise OSError(28, "No space left on device")


class AlarmSystem:
    """One who hears of events, writes them down, and is away now and then."""

    def __init__(self, path):
        self.here, self._path = True, path

    def __call__(self, event):
        """Hear of an event."""
        if not self.here:
            raise OSError("away")
        with self._path.open("a") as file:
            file.write(event["id"] + "\n")


class File:
    """A file that grows and is rotated."""

    kinds, loses = ("renamed", "cut", "text"), ("cut",)

    def __init__(self, folder, names):
        self._folder, self._names, self._rotated = folder, names, 0
        self._path, self._head = folder / "live.csv", f"time,{','.join(names)}\n"
        self._path.write_text(self._head)

    def rows(self, place):
        """What a watch follows, and what to tell it when a batch is safe."""
        rows = csv_rows(self._folder / "live.csv", Stamps(ZONE), poll=0.0, place=place, most=100)
        return rows, lambda place: None

    def write(self, rows):
        """Add rows, each a time and numbers."""
        self._add(f"{at}," + ",".join(map(repr, row)) + "\n" for at, row in rows)

    def junk(self, rng):
        """Add what is no row."""
        noise = rng.integers(0, 256, 40, dtype=np.uint8).tobytes().decode("utf-8", "surrogateescape")
        self._add(["\udcff\udcfe\0;;\n", '"open,1\n', ",".join(["x"] * 19) + "\n", "9" * 5000 + "\n", noise + "\n"])

    def happen(self, kind, read):
        """An event that only files have."""
        if kind == "text":
            self._add([self._head])
            return
        if kind == "renamed":
            self._rotated += 1
            os.replace(self._path, self._path.with_name(f"live.csv.{self._rotated}"))
            self._path.with_name(f"live.csv.{self._rotated - 30}").unlink(missing_ok=True)
        else:
            read()
        self._path.write_text(self._head)

    def end(self):
        """Nothing goes on."""

    def _add(self, lines):
        with self._path.open("a", errors="surrogateescape") as file:
            file.writelines(lines)


class Broker:
    """A broker that knows one user, keeps what was not acknowledged, and is started again now and then."""

    kinds, loses = ("restarted",), ()

    def __init__(self, folder, names):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._folder, self._names = folder, names
        (folder / "users").write_text(f"{USER}:{PASSWORD}\n")
        subprocess.run(["mosquitto_passwd", "-U", folder / "users"], check=True)
        (folder / "broker").write_text(
            f"listener {self._port} 127.0.0.1\nuser root\npassword_file {folder}/users\npersistence true\n"
            f"persistence_location {folder}/\nautosave_interval 1\nmax_queued_messages 0\n"
        )
        self._start()
        open_source(*self._about(None)).rows.close()

    def _start(self):
        """Start the broker, and call it as the one who sends."""
        import paho.mqtt.client as mqtt

        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(["mosquitto", "-c", self._folder / "broker"], **quiet)
        self._sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._sender.username_pw_set(USER, PASSWORD)
        while True:
            try:
                self._sender.connect("127.0.0.1", self._port)
                break
            except OSError:
                time.sleep(0.01)
        self._sender.loop_start()

    def _about(self, place):
        options = SourceOptions(user=USER, password=PASSWORD, name="chaos")
        return f"mqtt://127.0.0.1:{self._port}/plant/rows", Stamps(ZONE), options, place, self._folder

    def rows(self, place):
        """What a watch follows, and what to tell it when a batch is safe."""
        return open_source(*self._about(place))

    def write(self, rows):
        """Send rows, each a time and numbers."""
        for k in range(0, len(rows), 20):
            self._send([{"time": at, **dict(zip(self._names, row, strict=True))} for at, row in rows[k : k + 20]])

    def junk(self, rng):
        """Send what is no row."""
        noise = rng.integers(0, 256, 40, dtype=np.uint8).tobytes()
        for payload in (
            noise,
            b"[" * 100_000,
            '{"time": [1, [2, [3]]], "unit0__x0": 1}',
            '{"time": 1e400}',
            "null",
            "5",
        ):
            self._send(payload)
        for value in ([[1], [2]], {"b": 1}, "on", 10**400):
            self._send({"time": "2026-01-02", "unit0__x0": value})

    def _send(self, content):
        payload = content if isinstance(content, (bytes, str)) else json.dumps(content)
        self._sender.publish("plant/rows", payload, qos=1).wait_for_publish(20)

    def happen(self, kind, read):
        """An event that only brokers have."""
        self.end()
        self._start()

    def end(self):
        """End the broker."""
        self._sender.loop_stop()
        self._process.terminate()
        self._process.wait()


SOURCES = {"csv": File, "mqtt": Broker}


def watching(pipe, other_end, folder, source, detector, plant):
    """A watch in a process of its own, which does what it is asked until it is killed, and answers when it has."""
    other_end.close()  # so that it ends where the one that asks has ended
    journal, system = FullDisk(folder / "state"), AlarmSystem(folder / "heard")
    outbox, kept = Outbox("system", system, folder / "queue"), journal.read()
    tellers = [to_file(folder / "told.jsonl"), outbox]
    watch = Watch(detector if kept is None else load(kept[1]), plant, Asked(), journal, tellers, "")
    if kept is not None:
        watch.take_up(kept[0], kept[2])
    watch.keep()
    outbox.start()
    rows, safe = source.rows(watch.place)
    while True:
        asked = pipe.recv()
        if asked == "read":
            for place, frame in takewhile(lambda came: came[0] is not None, rows):
                if frame is not None:
                    watch.take(frame, place)
                safe(place)
                watch.tick()
        elif asked in ("full", "free"):
            journal.full = asked == "full"
            if not journal.full:
                watch.keep()  # which it does by itself within a second
        elif asked in ("away", "here"):
            system.here = asked == "here"
        elif asked == "end":
            outbox.close(30.0)
        pipe.send((watch.counts["rows"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024))


def plant_and_rows(n_rows, n_faults, seed, tz=None):
    """A plant's nominal record, its live rows, and its faults as (first row, unit)."""
    X, _ = make_granger_plant(3, n_sensors=6, n_samples=4000 + n_rows, random_state=seed)
    frame = pd.concat({name: pd.DataFrame(np.asarray(part)) for name, part in X.items()}, axis=1)
    frame.columns = [f"{unit}__x{k}" for unit, k in frame.columns]
    frame.index = pd.date_range("2026-01-01", periods=len(frame), freq="min", tz=tz)
    live, faults = frame[4000:].copy(), []
    rng, apart = np.random.default_rng(seed), n_rows // n_faults
    for k in range(n_faults):
        row, unit = k * apart + apart // 2 + int(rng.integers(0, apart // 10)), f"unit{rng.integers(0, 3)}"
        live.iloc[row : row + FAULT, [live.columns.get_loc(f"{unit}__x{j}") for j in range(4)]] += SIZE
        faults.append((row, unit))
    return frame[:4000], live, faults


class Run:
    """A watch of a source that is written and spoiled meanwhile."""

    def __init__(self, folder, source, detector, plant, live, faults, outcome):
        self.folder, self._live, self._faults, self.outcome = Path(folder), live, faults, outcome
        self.source, self._offset = SOURCES[source](self.folder, list(live)), pd.Timedelta(0)
        self._about = self.folder, self.source, detector, plant
        self._rows: dict = {}  # by their times
        self._n_looked, self._full, self._away, self._taken = 0, False, False, 0
        self.begin()

    def begin(self):
        """Start the watch, or start it again."""
        context = multiprocessing.get_context("fork")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=watching, args=(there, self._pipe, *self._about), daemon=True)
        self._process.start()
        there.close()

    def ask(self, what):
        """Have the watch do something; one that has ended by itself is started again, and counted."""
        try:
            self._pipe.send(what)
            self._taken, megabytes = self._pipe.recv()
            self.outcome.megabytes = max(self.outcome.megabytes, megabytes)
        except (EOFError, OSError):
            self.outcome.exits += 1
            self.begin()

    def read(self):
        """Let the watch read what is there."""
        self.ask("read")
        self._look()

    def _look(self):
        """Take note of what was told: which row the alarm of an event is, and which fault."""
        path = self.folder / "told.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        for event in map(json.loads, lines[self._n_looked :]):
            row = self._rows.get(pd.Timestamp(event["detected"]), -1)
            fault = next((k for k, (at, _) in enumerate(self._faults) if at - 5 <= row <= at + FAULT + 40), None)
            self.outcome.ids.append(event["id"])
            if event["kind"] == "drift":
                continue
            if fault is None or row < 0:
                self.outcome.wrong += event["id"].endswith("/1")
            elif event["root"] == self._faults[fault][1]:
                self.outcome.told.setdefault(fault, {})[event["incident"]] = row
        self._n_looked = len(lines)

    # -- what is written -----------------------------------------------------------------------------

    def rows(self, begin, end, offset=None, zone=ZONE):
        """Rows by the clock of the source, which tells no zone unless it is another one."""
        times = (self._live.index[begin:end] + (self._offset if offset is None else offset)).tz_convert(zone)
        told = map(str, times.tz_localize(None) if zone == ZONE else times)
        return list(zip(told, self._live.to_numpy()[begin:end].tolist(), strict=True))

    def come(self, begin, end, kind=""):
        """The next rows are written; the last two in another order, or the last ones by the clock of another zone."""
        self._rows |= dict(zip(self._live.index[begin:end] + self._offset, range(begin, end), strict=True))
        zoned = max(end - 3, begin) if kind == "zoned" else end
        rows = self.rows(begin, zoned) + self.rows(zoned, end, zone="Asia/Kolkata")
        if kind == "swapped" and len(rows) > 2:
            rows[-2:] = rows[-1:-3:-1]
        self.source.write(rows)

    def spoil(self, kind, row, rng):
        """One event after some row."""
        if kind == "doubled":
            self.source.write(self.rows(max(row - int(rng.integers(1, 40)), self._since), row))
        elif kind == "junk":
            self.source.junk(rng)
        elif kind == "ahead":
            self.source.write(self.rows(row - 1, row, self._offset + _jump(rng)))
        elif kind in ("set", "night"):
            jump = _jump(rng) if kind == "set" else _night(rng) - self._live.index[row] - self._offset
            self._offset += jump
            self._since = row
        elif kind in ("killed", "torn"):
            self.kill(rng, torn=kind == "torn")
        elif kind == "full":
            self._full = not self._full
            self.ask("full" if self._full else "free")
        elif kind == "away":
            self._away = not self._away
            self.ask("away" if self._away else "here")
        elif kind in self.source.kinds:
            self.source.happen(kind, self.read)

    _since = 0  # row from which on the clock is as it is

    def kill(self, rng, torn=False):
        """Kill the watch at any moment while it reads or starts (``kill -9``), and start it again."""
        if self._full:  # nobody can remember on a full disk what was told
            self._full = False
            self.ask("free")
        if rng.random() < 0.7:
            self._pipe.send("read")
        else:  # it is killed as it starts
            self._end()
            self.begin()
        time.sleep(float(rng.uniform(0, 0.05)))
        self._end()
        segments = sorted((self.folder / "state").glob("rows-*.jsonl"))
        if torn and segments:
            with segments[-1].open("a") as file:
                file.write('{"n": 7, "val')
        self.begin()
        if self._away:
            self.ask("away")

    def _end(self):
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self.outcome.kills += 1

    def finish(self):
        """Let the watch read the rest, and the alarm system hear the rest."""
        before = -1
        while self._taken != before:  # a broker may be on its way
            before = self._taken
            for what in ("free", "here", "read"):
                self.ask(what)
            time.sleep(3.0 if isinstance(self.source, Broker) else 0.0)
        self.ask("end")
        self._look()
        self._end()
        self.source.end()
        path = self.folder / "heard"
        self.outcome.heard = path.read_text().split() if path.exists() else []


def _jump(rng):
    size = float(10 ** rng.uniform(0, 7.8))  # seconds to two years
    return pd.Timedelta(seconds=round(size) * int(rng.choice([-1, 1])))


def _night(rng):
    """Half an hour before the clocks of Berlin go to summer or winter time in some year."""
    day = pd.Timestamp(int(rng.integers(2000, 2036)), int(rng.choice([3, 10])), 31, 1, tz="UTC")
    return day - pd.Timedelta(days=(day.weekday() + 1) % 7, minutes=30)  # of the last Sunday of the month


def followed(source, detector, plant, live, faults, seed=None, n_events=0):
    """What became of the faults under some events, none without a seed."""
    outcome, rng = Outcome(), np.random.default_rng(seed)
    places = np.sort(rng.integers(50, len(live) - 50, n_events)) if n_events else np.zeros(0, dtype=int)
    with tempfile.TemporaryDirectory() as folder:
        run, done = Run(folder, source, detector, plant, live, faults, outcome), 0
        for place in places.tolist():
            kind = str(rng.choice(KINDS + run.source.kinds))
            near = any(at - CLEAR <= place <= at + FAULT + CLEAR for at, _ in faults)
            if near and kind in ("set", "night", *run.source.loses):
                kind = "doubled"
            run.come(done, place, kind)
            done = max(place, done)
            if rng.random() < 0.7:
                run.read()
            run.spoil(kind, done, rng)
            outcome.events[kind] = outcome.events.get(kind, 0) + 1
        while done < len(live):
            run.come(done, min(done + 500, len(live)))
            run.read()
            done += 500
        run.finish()
    return outcome


def chaos(seed, source="csv", n_rows=200_000, n_faults=60, n_events=10_000):
    """A comparison with the undisturbed watch, as a dict of figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nominal, live, faults = plant_and_rows(n_rows, n_faults, seed, "UTC")
        detector = FederatedRCADetector(false_alarm_rate=1e-4).fit(nominal)
        plant = Plant(nominal, None, {}, (), ())
        still = followed("csv", detector, plant, live, faults)
        begin = _cpu()
        now = followed(source, detector, plant, live, faults, seed, n_events)
    first = {fault: min(rows.values()) for fault, rows in still.told.items()}
    late = {fault: [row - first[fault] for row in rows.values()] for fault, rows in now.told.items() if fault in first}
    well = [fault for fault in first if len(late.get(fault, ())) == 1 and abs(late[fault][0]) <= 2]
    return {
        "source, seed, rows": [source, seed, n_rows],
        "faults told undisturbed": len(first),
        "told well": len(well),
        "not": {fault: late.get(fault) for fault in first if fault not in well},
        "incidents elsewhere, undisturbed and under events": [still.wrong, now.wrong],
        "events": now.events,
        "kills": now.kills,
        "exits": now.exits,
        "told, twice": [len(now.ids), len(now.ids) - len(set(now.ids))],
        "heard by the alarm system, again by the same key, missed": [
            len(set(now.heard)),
            len(now.heard) - len(set(now.heard)),
            len(set(now.ids) - set(now.heard)),
        ],
        "CPU s": round(_cpu() - begin, 1),
        "MB": now.megabytes,
    }


def _cpu():
    """Seconds of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--source", choices=SOURCES, default="csv")
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--rows", type=int, default=200_000)
    reader.add_argument("--faults", type=int, default=60)
    reader.add_argument("--events", type=int, default=10_000)
    given = reader.parse_args()
    print(json.dumps(chaos(given.seed, given.source, given.rows, given.faults, given.events)))
