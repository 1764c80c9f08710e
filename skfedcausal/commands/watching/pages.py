"""The page of a watch as a file, and the reports on incidents beside it."""

import time
from importlib import import_module
from importlib.util import find_spec
from math import inf, nan

import pandas as pd

from ...containers.modes import is_called
from ...containers.rows import sampling_period
from ...estimators._stream_batches import stops
from ...federation.atomic import write_whole
from ...quality.record import duration
from ...server.watching.incidents import UNDECIDED
from .loop import SHOWN, now_told, say
from .tuning import TUNING

_AGAIN = 30.0  # seconds before a report is written again


class Pages:
    """The page of a watch and its reports; that they cannot be written does not stop the watch."""

    def __init__(self, watch, settings):
        self._watch, self._settings = watch, settings
        self._pages = watch.reports  # that were written
        self._due: dict = {}  # incidents whose reports are not up to date
        self._reported: dict = {}  # when a report was written last
        self._written = -inf
        self._draws = find_spec("matplotlib") is not None
        if self._draws:
            import_module("matplotlib.figure")  # which takes longer than a page may wait
        watch.on_events.append(self.take)
        watch.on_tick.append(self.tick)

    def take(self, changed):
        """Write the page with incidents that are new or revised, and reports on them when they are due."""
        self._due |= {self._watch.incidents.name_of(row["detected"]): row for row in changed.to_dict("records")}
        self.write()

    def tick(self, everything=False):
        """Write what is due: pictures take longer than the page may wait, and are not drawn again within a while."""
        now = time.monotonic()
        for name, row in list(self._due.items()):
            if everything or now - self._reported.get(name, -inf) >= _AGAIN:
                self._reported[name] = now
                del self._due[name]
                self._report(name, row)
        if everything or now - self._written >= self._settings.refresh:
            self.write()

    def write(self):
        """Write the page."""
        self._written = time.monotonic()
        try:
            write_whole(self._settings.page, self._page().encode(), shared=True)
        except OSError as error:
            say(f"The page {self._settings.page} was not written ({error.strerror or error}).")

    def _report(self, name, row):
        """Write the report on an incident beside the page, with a picture where its rows are still there."""
        if name not in self._watch.incidents.known:  # a repeat of another by now
            return
        page = self._settings.page
        path = self._pages.get(name, page.with_name(f"{page.stem}-{len(self._pages) + 1}.html"))
        try:
            shown = self._shown(row["start"]) if self._draws else None
            self._watch.detector.report(pd.Series(row), path, X=shown)
            self._pages[name] = path
        except (TypeError, ValueError, OSError) as error:
            say(f"{path.name} was not written: {error}")

    def _shown(self, start):
        """The last rows with the columns of the plant, None where they do not reach back to a time."""
        modes = list(self._watch.plant.words)
        numbers = [name for name in self._watch.detector.layout_.columns if not any(is_called(name, m) for m in modes)]
        columns = [*numbers, *modes]
        rows = self._watch.recent(columns)
        rows[numbers] = rows[numbers].apply(pd.to_numeric, errors="coerce").replace([inf, -inf], nan)
        if not isinstance(rows.index, pd.DatetimeIndex):
            return None
        rows = rows[~rows.index.duplicated()].sort_index()[-SHOWN:]
        parts = stops(rows, sampling_period(rows.index))
        rows = rows[-parts[-1] :] if parts else rows
        return rows if len(rows) and rows.index[0] <= start else None

    def _page(self):
        from ...reports.page import Page

        page, watch = Page("Watch of the plant"), self._watch
        alarms, incidents = watch.detector.alarms_, watch.incidents
        page.lead(summary(watch))
        share = f"in alarm {alarms['in_alarm']:.1%} of the time"
        page.text(f"{watch.counts['rows']} rows so far, {alarms['n_alarms']} alarms, {share}.")
        last = "No rows received yet." if watch.last_time is None else f"Last row: {watch.last_time}."
        page.text(last, f"Page written {now_told()}.", watch.problem and f"Note: {watch.problem}.")
        rows = list(reversed(incidents.known.items()))[: TUNING.pages_listed]
        page.heading("Incidents").table(pd.DataFrame([_in_words(row) for _, row in rows]), empty="None.")
        page.links({f"Report on {row['start']}": self._pages[name].name for name, row in rows if name in self._pages})
        refresh = f'<meta http-equiv="refresh" content="{self._settings.refresh:g}">'
        return page.html().replace('<meta charset="utf-8">', f'<meta charset="utf-8">{refresh}', 1)


def summary(watch):
    """Sentence to read if there is time for only one."""
    if watch.counts["rows"] == 0:
        return "No rows received yet: the state of the plant is unknown."
    if watch.is_quiet:
        quiet = duration(pd.Timedelta(watch.age, "s"), ".0f")
        return f"No rows received for {quiet}: the state of the plant is unknown."
    unseen = watch.incidents.unseen
    lasting = sum(row["status"].startswith("running") for row in watch.incidents.known.values())
    if not unseen:
        still = f"No new alarm; {lasting} fault{'s' * (lasting > 1)} still present."
        return still if lasting else "Normal: no alarm now."
    running = [row for row in unseen if row["end"] is None]
    if not running:
        return f"{len(unseen)} incident{'s' * (len(unseen) > 1)} not acknowledged; none is active now."
    named = list(dict.fromkeys(row["root"] for row in running if row["root"] != UNDECIDED))
    return f"Incident: began in {', '.join(named)}." if named else "Incident: origin not determined yet."


def _in_words(row):
    """An incident as a reader asks for it: where, since when, until when, who has seen it."""
    ended = "still present" if row["status"].startswith("running") else row["end"] or "active"
    told = {"root": row["root"], "began": row["start"], "ended": ended, "kind": row["kind"]}
    told |= {"probability": f"{row['probability']:.0%}", "repeats": len(row["repeats"])}
    return told | {"seen by": row["seen"]["by"] if "seen" in row else ""}
