"""``python -m skfedcausal watch SETTINGS``: follow a live source, keep a page, tell an alarm system."""

import json
import sys
import time
import urllib.error
import urllib.request
from collections import deque
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from math import inf, nan
from pathlib import Path
from typing import Literal

import pandas as pd

from ..containers.modes import is_called
from ..containers.rows import sampling_period
from ..estimators._declared import has_words
from ..estimators._stream_batches import stops
from ..estimators.detector import FederatedRCADetector
from ..federation.atomic import write_whole
from ..server.watching.incidents import UNDECIDED
from ..sites.settings import check_numbers, read_section, read_settings_file
from ._shared import DONE, ERRORS, FAILED, parser

ALARM = 3  # exit code after an incident
_AGAIN = 30.0  # seconds before a report is written again
_SHOWN = 300  # rows of the picture
_COLUMNS = ["start", "detected", "end", "root", "probability", "kind", "repeats", "status"]


@dataclass(frozen=True)
class WatchSettings:
    """Settings of the section [watch], see the user guide."""

    nominal: Path
    source: str
    page: Path = Path("watch.html")
    refresh: float = 5.0
    wait: float | None = None
    false_alarms: float | str = 1e-3
    inputs: tuple = ()
    mode: str | None = None
    units: tuple = ()
    webhook: str = ""
    until: Literal["end", "alarm"] = "end"

    def __post_init__(self):
        check_numbers(self, {"refresh": (0, False), "wait": (0, True)})
        if not self.source.startswith(("csv:", "mqtt://")):
            raise ValueError(f"source = {self.source!r}; give 'csv:live.csv' or 'mqtt://host:port/topic'.")
        if self.until not in ("end", "alarm"):
            raise ValueError(f"until = {self.until!r}; give 'end' or 'alarm'.")


def main(arguments):
    """Fit to the nominal record, follow the source to its end, and keep the page up to date.

    The exit code is 0 without an incident and 3 with one.
    """
    reader = parser("watch", "Follow a live source of your plant's rows and keep a page about it.", json=False)
    path = reader.parse_args(arguments).settings
    try:
        settings = read_section(read_settings_file(path), path, "watch", WatchSettings)
        settings = replace(settings, page=path.resolve().parent / settings.page)
        return _watch(settings, path.resolve().parent)
    except (*ERRORS, ImportError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED


def _watch(settings, folder):
    nominal = pd.read_csv(settings.nominal, index_col=0, parse_dates=True)
    detector = FederatedRCADetector(
        false_alarm_rate=settings.false_alarms, input_columns=list(settings.inputs) or None, mode=settings.mode
    ).fit(nominal)
    modes = () if settings.mode is None else tuple(name for name in nominal if is_called(name, settings.mode))
    modes += tuple(name for name in settings.inputs if name not in modes and has_words(nominal[[name]]))
    watch = Watch(detector, settings, modes)
    for changed in detector.incidents(watch.seen(source_of(settings, folder, modes))):
        watch.take(changed)
        if len(changed) and settings.until == "alarm":
            break
    watch.close()
    return ALARM if watch.n_incidents else DONE


def source_of(settings, folder, modes=()):
    """Batches of the source that settings name; columns of modes may hold words."""
    from ..streams import follow_csv, follow_mqtt

    kind, _, rest = settings.source.partition(":")
    if kind == "csv":
        return follow_csv(folder / rest, wait=settings.wait, words=modes)
    where, _, topic = rest.removeprefix("//").partition("/")
    host, _, port = where.partition(":")
    units = settings.units or None
    return follow_mqtt(host, topic, port=int(port or 1883), wait=settings.wait, units=units, words=modes)


class Watch:
    """A detector that follows a source, with the page and the alarm system that hear of it."""

    def __init__(self, detector, settings, modes=()):
        self._detector, self._settings, self._modes = detector, settings, list(modes)
        self._told: dict = {}
        self._pages: dict = {}  # reports that were written, by first alarm
        self._due: dict = {}  # incidents whose reports are not up to date, by first alarm
        self._reported: dict = {}  # when a report was written last
        self._last: deque = deque()  # batches, as they came
        self._draws = find_spec("matplotlib") is not None
        if self._draws:
            import_module("matplotlib.figure")  # which takes longer than a page may wait

    @property
    def n_incidents(self):
        """Incidents so far."""
        return len(self._told)

    def seen(self, source):
        """The batches of a source, of which the last rows are kept for pictures."""
        self.write()
        for batch in source:
            self._last.append(batch)
            while sum(map(len, self._last)) - len(self._last[0]) >= _SHOWN:
                self._last.popleft()
            yield batch
            self._report_due()

    def take(self, changed):
        """Take in the incidents that are new or revised with a batch: the page first, then the alarm system."""
        rows = changed.to_dict("records")
        for row in rows:
            self._told[row["detected"]] = row
            for repeat, _ in row["repeats"]:
                self._told.pop(repeat, None)
        self.write()
        for row in rows:
            self._call(row)
        self._due |= {row["detected"]: row for row in rows}
        self._report_due()

    def _report_due(self, everything=False):
        """Write the reports that are due, none again within a while: pictures take longer than the page may wait."""
        now = time.monotonic()
        for detected, row in list(self._due.items()):
            if everything or now - self._reported.get(detected, -inf) >= _AGAIN:
                self._reported[detected] = now
                del self._due[detected]
                self._report(row)

    def close(self):
        """Write what was not written yet."""
        self._report_due(everything=True)
        self.write()

    def _report(self, row):
        """Write the report on an incident beside the page, with a picture where its rows are still there."""
        if row["detected"] not in self._told:  # a repeat of another by now
            return
        page = self._settings.page
        path = self._pages.get(row["detected"], page.with_name(f"{page.stem}-{len(self._pages) + 1}.html"))
        try:
            self._detector.report(pd.Series(row), path, X=self._shown(row["start"]) if self._draws else None)
            self._pages[row["detected"]] = path
        except (TypeError, ValueError) as error:
            print(f"{path.name} was not written: {error}", file=sys.stderr, flush=True)

    def _shown(self, start):
        """The last rows with the columns of the plant, None where they do not reach back to a time."""
        numbers = [name for name in self._detector.layout_.columns if not _tells_mode(name, self._modes)]
        columns = [*numbers, *self._modes]
        batches = [batch.loc[:, ~batch.columns.duplicated()].reindex(columns=columns) for batch in self._last]
        rows = pd.concat(batches)
        rows[numbers] = rows[numbers].apply(pd.to_numeric, errors="coerce").replace([inf, -inf], nan)
        if not isinstance(rows.index, pd.DatetimeIndex):
            return None
        rows = rows[~rows.index.duplicated()].sort_index()[-_SHOWN:]
        parts = stops(rows, sampling_period(rows.index))
        rows = rows[-parts[-1] :] if parts else rows
        return rows if len(rows) and rows.index[0] <= start else None

    def _call(self, row):
        """Tell the alarm system; that it does not answer does not stop the watch."""
        about = {name: row[name] for name in _COLUMNS}
        print(json.dumps(about, default=str), flush=True)
        if not self._settings.webhook:
            return
        text = json.dumps(about, default=str).encode()
        request = urllib.request.Request(self._settings.webhook, text, {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=2).close()
        except (urllib.error.URLError, OSError) as error:
            print(f"The webhook did not take an incident: {error}", file=sys.stderr, flush=True)

    def write(self):
        """Write the page."""
        write_whole(self._settings.page, self._page().encode(), shared=True)

    def _page(self):
        from ..reports.page import Page, when_in_words

        page, alarms = Page("Watch of the plant"), self._detector.alarms_
        page.lead(self._words())
        share = f"in alarm {alarms['in_alarm']:.1%} of the time"
        page.text(f"{alarms['n_steps']} rows so far, {alarms['n_alarms']} alarms, {share}.")
        rows = list(reversed(self._told.values()))
        page.heading("Incidents").table(pd.DataFrame(map(_in_words, rows)), empty="None.")
        reports = ((row, self._pages[row["detected"]]) for row in rows if row["detected"] in self._pages)
        page.links({f"Report on {when_in_words(row['start'])}": path.name for row, path in reports})
        refresh = f'<meta http-equiv="refresh" content="{self._settings.refresh:g}">'
        return page.html().replace('<meta charset="utf-8">', f'<meta charset="utf-8">{refresh}', 1)

    def _words(self):
        """Sentence to read if there is time for only one."""
        open_ones = [row for row in self._told.values() if pd.isna(row["end"])]
        if not open_ones:
            lasting = sum(row["status"].startswith("running") for row in self._told.values())
            return f"No alarm now; {lasting} faults last." if lasting else "Nothing is out of the ordinary now."
        named = [row["root"] for row in open_ones if row["root"] != UNDECIDED]
        return f"Incident: it began in {', '.join(named)}." if named else "Incident; where it began is undecided yet."


def _tells_mode(name, modes):
    """Whether a column of the plant is one of some columns of modes, one of no unit being given to some unit."""
    return any(is_called(name, mode) for mode in modes)


def _in_words(row):
    """An incident as a reader asks for it: where, since when, until when."""
    from ..reports.page import when_in_words

    ended = "goes on" if pd.isna(row["end"]) else when_in_words(row["end"])
    ended = "lasts" if row["status"].startswith("running") else ended
    told = {"root": row["root"], "began": when_in_words(row["start"]), "ended": ended, "kind": row["kind"]}
    return told | {"probability": f"{row['probability']:.0%}", "repeats": len(row["repeats"])}
