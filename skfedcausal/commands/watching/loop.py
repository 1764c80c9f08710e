"""The loop of a watch: rows are kept on disk, judged, told and shown, in this order, and nothing outside ends it."""

import json
import math
import os
import queue
import re
import signal
import statistics
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from ... import inspection
from ...containers.arrays import listed
from ...estimators._watching import say_and_go_on
from ...federation.atomic import keep_private, make_folder, only_one, write_whole
from ...saving import ModelFileError, load, save
from ...streams.cells import as_frame, as_record
from ...streams.clock import Clock
from .tuning import TUNING

# Incidents as they are told: strict JSON with times that have a zone, and what is known of each so far.

_TOLD = ("start", "detected", "end", "root", "probability", "kind", "status", "repeats")


class Incidents:
    """Incidents so far by the alarm that told them first, each as it was told last, and who has seen it.

    Parameters
    ----------
    clock : Clock
        It knows what the source called a time.
    tz : str, default=None
        Zone of the times that are told; None: UTC.
    zoned : bool, default=False
        Whether times of the stream have a zone.
    """

    def __init__(self, clock, tz=None, zoned=False):
        self._clock, self._zoned, self._zone = clock, zoned, UTC if tz is None else ZoneInfo(tz)
        self.known: dict[str, dict] = {}
        self.n_incidents = 0

    def take(self, table):
        """Events of the incidents that are new or revised in a table."""
        events = []
        for row in table.to_dict("records") if len(table) else ():
            name = self.name_of(row["detected"])
            before = self.known.pop(name, None)
            number = 1 if before is None else before["number"] + 1
            self.n_incidents += before is None
            about = {key: self._told(row[key]) for key in _TOLD if key in row}
            told = {"id": f"{name}/{number}", "incident": name, "number": number} | about
            for repeat, _ in row["repeats"]:
                self.n_incidents -= self.known.pop(self.name_of(repeat), None) is not None
            self.known[name] = told if before is None or "seen" not in before else told | {"seen": before["seen"]}
            events.append({key: value for key, value in told.items() if key != "number"})
        while len(self.known) > TUNING.events_most:
            del self.known[next(iter(self.known))]
        return events

    def see(self, name, by, comment, when):
        """Take note that somebody has seen an incident; KeyError if there is none of that name."""
        self.known[name]["seen"] = {"by": by, "comment": comment, "when": when}

    @property
    def open(self):
        """Incidents that nobody has seen and that have no end yet."""
        return [one for one in self.known.values() if one["end"] is None and "seen" not in one]

    @property
    def unseen(self):
        """Incidents that nobody has seen."""
        return [one for one in self.known.values() if "seen" not in one]

    def name_of(self, detected):
        """Name of an incident by the alarm that told it first."""
        return str(self.moment(detected, told=False))

    def detected(self, name):
        """The time or row of the alarm that told an incident first, as the stream has it."""
        if name.isdigit():
            return int(name)
        moment = pd.Timestamp(name)
        return moment if self._zoned else moment.tz_localize(None)

    def moment(self, value, told=True):
        """A time as it is told, with its zone, or as the stream has it; or the number of a row."""
        if isinstance(value, pd.Timestamp):
            value = self._clock.told(value) if told else value
            value = value.tz_localize(UTC) if value.tz is None else value
            return value.tz_convert(self._zone if told else UTC).isoformat().replace("+00:00", "Z")
        return int(value)

    def _told(self, value):
        if isinstance(value, pd.Timestamp):
            return None if value is pd.NaT else self.moment(value)
        if isinstance(value, (tuple, list)):
            return [self._told(one) for one in value]
        if isinstance(value, (int, float, np.number)):
            value = value.item() if isinstance(value, np.number) else value
            return value if math.isfinite(value) else None
        return None if value is None or value is pd.NaT or value is pd.NA else str(value)


def as_json(event):
    """An event as one line of JSON (RFC 8259)."""
    return json.dumps(event, allow_nan=False, ensure_ascii=True)


# The loop of a watch: rows are kept, judged, told and shown, in this order, and nothing from outside ends it.

SHOWN = 300  # rows that are remembered for trends and pictures


class Watch:
    """A detector that follows a source, and what is known of it.

    Parameters
    ----------
    detector : FederatedRCADetector
        Fitted; it may be in the middle of a stream.
    plant : Plant
    settings : WatchSettings
    journal : Journal
    tellers : sequence of callables
        Each is told every event, an incident that is new or revised.
    fingerprint : str
        What the state belongs to.
    """

    def __init__(self, detector, plant, settings, journal, tellers, fingerprint):
        self.detector, self.plant, self._settings, self._journal = detector, plant, settings, journal
        self._tellers, self._fingerprint = list(tellers), fingerprint
        self.clock = Clock(plant.period)
        self.incidents = Incidents(self.clock, settings.tz, plant.is_zoned)
        self.counts = {"rows": 0, "batches": 0, "refused": 0}
        self.place = None
        self.problem = ""  # why the state cannot be kept
        self.last: deque = deque()  # batches, as they came
        self._n_last, self._at = 0, None  # rows in these, and the last time that was told before
        self.asked: queue.SimpleQueue = queue.SimpleQueue()  # what people have said, as (incident, name, comment, time)
        self.reports: dict = {}  # pages on incidents by their names
        self.on_events: list = []  # who looks at what has changed, after everybody was told
        self.on_tick: list = []  # who has something to do now and then
        self._arrived, self._arrivals = time.monotonic(), deque[float](maxlen=TUNING.loop_arrivals)
        self._told: dict[str, None] = {}
        self._refused: set[int] = set()
        self._replays = False
        self._columns: pd.Index | None = None  # of the last batch that was written
        self._known = frozenset(plant.nominal)  # columns of the plant
        self._of_plant: pd.Index | None = None  # columns that were looked at last, with some of the plant
        self._kept_at, self._rows_kept = time.monotonic(), 0
        self.stopped = threading.Event()

    # -- state ---------------------------------------------------------------------------------------

    @property
    def _state(self):
        return {
            "fingerprint": self._fingerprint,
            "clock": self.clock.state,
            "counts": self.counts,
            "place": self.place,
            "incidents": self.incidents.known,
            "n_incidents": self.incidents.n_incidents,
            "told": list(self._told),
            "last_time": self.last_time,
            "arrived": time.time() - self.age,
        }

    def take_up(self, kept, records):
        """Go on where a watch stood: its state, and the records since then."""
        self.clock.state, self.counts, self.place = kept["clock"], dict(kept["counts"]), kept["place"]
        self.incidents.known, self.incidents.n_incidents = dict(kept["incidents"]), kept["n_incidents"]
        self._at, self._arrived = kept["last_time"], time.monotonic() - max(time.time() - kept["arrived"], 0.0)
        self._told = dict.fromkeys(kept["told"])
        self._told |= dict.fromkeys(record["told"] for record in records if "told" in record)
        self._refused = {record["refused"] for record in records if "refused" in record}
        self._replays, columns = True, None
        for record in records:
            columns = record.get("columns", columns)
            if "values" in record:
                self.place, self.counts["batches"] = record["place"], record["n"]
                self._judge(as_frame(record, columns))
            elif "seen" in record:
                self._see(*record["seen"])
        self._columns, self._replays = None, False

    def keep(self):
        """Keep the state in place of what was written since the last one."""
        try:
            self._journal.keep(self._state, self.detector)
            self._kept_at, self._rows_kept = time.monotonic(), self.counts["rows"]
            self._columns, self.problem = None, ""
        except (OSError, ModelFileError) as error:
            self._unsaved(error)

    def _write(self, record):
        if self.problem:
            return  # after a record that is missing others mean nothing, until the next state
        try:
            self._journal.append(record)
        except OSError as error:
            self._unsaved(error)

    def _try_again(self):
        """Keep the state where that failed before and there is room now."""
        try:
            self._journal.check()
        except OSError:
            return
        self.keep()

    def _unsaved(self, error):
        why = getattr(error, "strerror", None) or error
        if not self.problem:
            say(f"The state of the watch cannot be kept ({why}). Monitoring continues without it.")
        self.problem, self._columns = f"the state cannot be kept: {why}", None

    # -- rows ----------------------------------------------------------------------------------------

    def run(self, source, stop_at_alarm=False):
        """Follow a source to its end."""
        for place, frame in source.rows:
            if frame is not None:
                self.take(frame, place)
            source.safe(place)
            self.tick()
            if self.stopped.is_set() or (stop_at_alarm and self.incidents.n_incidents):
                break
        self.keep()

    def tell_again(self):
        """Tell incidents that nobody has acknowledged where no state can be kept: rather twice than never."""
        for event in self.incidents.unseen[-TUNING.loop_told_again :] if self.problem else ():
            self._tell({key: value for key, value in event.items() if key != "number"} | {"again": True})

    def take(self, frame, place=None):
        """Keep the next rows, judge them, and tell what has changed."""
        self.counts["batches"] += 1
        self.place = place if isinstance(place, dict) else None
        record = as_record(frame)
        if self._columns is None or not (frame.columns is self._columns or frame.columns.equals(self._columns)):
            record["columns"] = [str(name) for name in frame.columns]
        self._columns = frame.columns
        self._write(record | {"n": self.counts["batches"], "place": self.place})
        self._judge(frame)

    def _judge(self, frame):
        if self.counts["batches"] in self._refused:
            return
        rows = self.clock.take(frame)
        if rows is None or not self._is_of_plant(rows):
            return
        try:
            changed = self.detector.update(rows, strict=False)
        except Exception as error:  # whatever it is, the rows after these are to be watched
            self._refuse(rows, error)
            return
        self.counts["rows"] += len(rows)
        if not self._replays:
            self._arrivals.append(self.age)
            self._arrived = time.monotonic()
        self._show(rows)
        for event in self.incidents.take(changed):
            if event["id"] not in self._told:
                self._tell(event | ({"problem": self.problem} if self.problem else {}))
                self._told[event["id"]] = None
                self._write({"told": event["id"]})
        while len(self._told) > TUNING.loop_seen_ids:
            del self._told[next(iter(self._told))]
        if len(changed):
            for look in self.on_events:
                look(changed)

    def _is_of_plant(self, rows):
        """Whether rows have a column of the plant; those that have none are named and left out."""
        if rows.columns is self._of_plant:
            return True
        foreign = self._known.isdisjoint(rows.columns)
        if foreign:
            self.counts["refused"] += len(rows)
            plant, came = (listed(list(frame), 4) for frame in (self.plant.nominal, rows))
            say_and_go_on(f"Rows have none of the columns of the plant, {plant}; theirs are {came}: they are left out")
        else:
            self._of_plant = rows.columns
        return not foreign

    def _show(self, rows):
        self.last.append(rows)
        self._n_last += len(rows)
        while self._n_last - len(self.last[0]) >= SHOWN:
            self._n_last -= len(self.last.popleft())

    def recent(self, columns):
        """The last rows, with these columns."""
        batches = [batch.loc[:, ~batch.columns.duplicated()].reindex(columns=columns) for batch in list(self.last)]
        return pd.concat(batches) if batches else pd.DataFrame(columns=columns)

    @property
    def last_time(self):
        """Time of the last row, as it is told; None if there is none."""
        at = self.last[-1].index[-1] if self.last else self._at
        return self.incidents.moment(at) if isinstance(at, pd.Timestamp) else at

    def _refuse(self, rows, error):
        """Go on without rows that cannot be judged, from the state before them."""
        number = self.counts["batches"]
        self.counts["refused"] += len(rows)
        text = f"{len(rows)} rows from {rows.index[0]} on could not be judged ({type(error).__name__}: {error})"
        say_and_go_on(f"{text}: they are left out")
        self._refused.add(number)
        self._write({"refused": number})
        if self._replays:
            return
        counts = dict(self.counts)
        try:
            kept, model, records = self._journal.read()
            self.detector = load(model)
            self.take_up(kept, records)
        except (OSError, ValueError, RuntimeError, TypeError) as problem:
            say(f"The state before could not be read ({problem}): monitoring starts afresh.")
            self.detector.reset()
        self.counts = counts

    def _tell(self, event):
        for tell in self._tellers:
            try:
                tell(event)
            except OSError as error:
                say(f"An incident could not be written ({error}).")

    # -- between rows --------------------------------------------------------------------------------

    def tick(self):
        """What is due between rows: what people have said, and the state."""
        while not self.asked.empty():
            said = self.asked.get()
            if self._see(*said):
                self._write({"seen": list(said)})
        for act in self.on_tick:
            act()
        if self.problem and time.monotonic() - self._kept_at >= TUNING.loop_room_again:
            self._kept_at = time.monotonic()
            self._try_again()
        new = self.counts["rows"] - self._rows_kept
        if new >= TUNING.loop_kept_rows or (new and time.monotonic() - self._kept_at >= TUNING.loop_kept_every):
            self.keep()

    def _see(self, name, by, comment, when):
        """Take note that somebody has seen an incident; whether there is one of that name."""
        if name not in self.incidents.known:
            return False
        self.incidents.see(name, by, comment, when)
        with suppress(ValueError):  # of a stream before this one: there is nothing to take for the operating point
            inspection.acknowledge(self.detector, self.incidents.detected(name))
        return True

    @property
    def age(self):
        """Seconds since the last rows that could be judged, whatever the clock of this machine is set to meanwhile."""
        return time.monotonic() - self._arrived

    @property
    def usual_pause(self):
        """Seconds between two batches, as a rule."""
        period = 0.0 if self.plant.period is None else self.plant.period.total_seconds()
        arrivals = statistics.median(self._arrivals) if len(self._arrivals) > 2 else 0.0
        return max(period, arrivals)

    @property
    def is_quiet(self):
        """Whether no rows came for so long that nothing is known of the plant now."""
        return self.counts["rows"] == 0 or self.age > TUNING.loop_quiet * max(self.usual_pause, 1.0)


def now_told():
    """Now, as it is told."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


_said: dict[str, float] = {}


def say(text):
    """A note on standard error; one that differs in its numbers only at most once in a minute."""
    now, kind = time.monotonic(), re.sub(r"\d+", "#", text)
    if now - _said.get(kind, -TUNING.loop_once_in) >= TUNING.loop_once_in:
        if len(_said) > TUNING.loop_told_again:
            _said.clear()
        _said[kind] = now
        with suppress(OSError, ValueError):  # of a full disk, or of a terminal that was closed
            print(f"Note: {text}", file=sys.stderr, flush=True)


@contextmanager
def ended_by_signals(watch):
    """Let SIGTERM or Ctrl-C end a watch after the batch that it is at, with its state kept; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def as_before(*_):
        watch.stopped.set()
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, as_before)
    try:
        yield
    finally:
        as_before()


# What a watch keeps on disk: where it stood some while ago, and all that came since, so that it may be killed.
#
# Rows are written before they are judged, and what was told after it was told. A watch that is started again takes the
# last state, judges the rows since then once more, and tells what was not told.

FORMAT = 2
_STATE = "state"
_AS_JSON = json.JSONEncoder(separators=(",", ":"), default=str)  # made once: there is a record for each batch


class StateError(RuntimeError):
    """A state that cannot be taken up."""


class Journal:
    """A folder with a state, the detector as a model file, and the records since then.

    Parameters
    ----------
    folder : Path
        Made where it is missing; only its owner may read it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.commands.watching.loop import Journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder))
    ...     journal.keep({"n": 1}, FederatedRCADetector())
    ...     journal.append({"row": 1.5})
    ...     journal.close()
    ...     kept, model, records = Journal(Path(folder)).read()
    >>> kept, model.name, records
    ({'n': 1}, 'model-000000001.skfc', [{'row': 1.5}])
    """

    def __init__(self, folder):
        self._folder, self._number, self._file, self._torn = Path(folder), 0, None, False

    def lock(self):
        """A context in which no other watch has the folder."""
        return only_one(self._folder / "lock", f"a watch with the state {self._folder}")

    @property
    def name(self):
        """By which a broker knows the watch of this folder, and no other: made once."""
        path, made = self._folder / "name", f"skfedcausal-{os.urandom(5).hex()}"
        with suppress(OSError):  # no room: a broker will not know it again
            if not path.exists():
                write_whole(path, made.encode())
            return path.read_text()
        return made

    def check(self):
        """See whether the folder can be written to; OSError if not."""
        make_folder(self._folder)
        keep_private(self._folder)
        write_whole(self._folder / "check", b"\0" * 4096)
        (self._folder / "check").unlink()

    def read(self):
        """What was kept, as (words and numbers, path of the detector, records since then); None where nothing was."""
        try:
            about = json.loads((self._folder / _STATE).read_bytes().partition(b"\n")[0])
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # the last two were named by `check`
            return None
        except ValueError as error:
            raise StateError(
                f"{self._folder / _STATE} is no state of a watch ({error}): move the folder away to begin anew."
            ) from None
        if about.get("format") != FORMAT:
            raise StateError(
                f"{self._folder / _STATE} has format {about.get('format')}, and this version reads {FORMAT}: "
                "move the folder away to start afresh."
            )
        self._number = about["number"]
        records = [record for path in self._segments() for record in _records(path)]
        return about["kept"], self._model(self._number), records

    def append(self, record):
        """Add a record; OSError if there is no room, and the next one may try again."""
        if self._file is None:
            last = max([self._number, *map(_number, self._segments())])
            path = self._folder / f"rows-{last:09d}.jsonl"
            self._torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        line = _AS_JSON.encode(record).encode() + b"\n"
        line = b"\n" + line if self._torn else line
        self._torn = True
        self._torn = os.write(self._file, line) < len(line)
        if self._torn:
            raise OSError(28, "No space left on device")

    def keep(self, kept, detector):
        """Keep a state and a detector in place of those before and of the records since then."""
        number = max([self._number, *map(_number, self._segments())]) + 1
        save(detector, self._model(number), compress=False)
        text = json.dumps({"format": FORMAT, "number": number, "kept": kept}, default=str)
        write_whole(self._folder / _STATE, text.encode())  # from now on the model of this number counts
        self.close()
        for path in [*self._folder.glob("rows-*.jsonl"), *self._folder.glob("model-*.skfc")]:
            if _number(path) < number:
                path.unlink()
        self._number = number

    def close(self):
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _model(self, number):
        return self._folder / f"model-{number:09d}.skfc"

    def _segments(self):
        """Files of records since the state, in order."""
        return sorted(path for path in self._folder.glob("rows-*.jsonl") if _number(path) >= self._number)


def _number(path):
    return int(path.stem.rpartition("-")[2])


def _records(path):
    """Records of a file; one that was not written to its end did not happen."""
    for line in path.read_bytes().split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue
