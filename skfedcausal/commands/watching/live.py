"""The pages of a watch: a file, the reports beside it, and a small server (Starlette) that takes answers."""

import asyncio
import contextlib
import hmac
import math
import socket
import threading
import time
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from math import inf, nan
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from ...containers.arrays import SEPARATOR, is_called
from ...containers.rows import sampling_period
from ...estimators._watching import stops
from ...federation.atomic import write_whole
from ...optional import import_optional
from ...quality.check import duration
from ...server.watching.incidents import UNDECIDED
from .loop import SHOWN, now_told, say
from .tuning import TUNING

# The page of a watch as a file, and the reports on incidents beside it.

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


# The live page of a watch: a small server (Starlette) that shows its state, health and counters, and takes answers.

_LONGEST = 2000  # letters of a comment
_LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
_HEAD = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FILES = {
    "/": ("live.html", "text/html"),
    "/live.js": ("live.js", "text/javascript"),
    "/live.css": ("live.css", "text/css"),
}


@contextlib.contextmanager
def serve(watch, settings, outboxes=()):
    """Serve the page of a watch in a thread, as long as the block runs.

    Parameters
    ----------
    watch : Watch
    settings : LiveSettings
    outboxes : sequence of Outbox
        Those who are told, whose state is shown.

    Raises
    ------
    ImportError
        Without Starlette and uvicorn (extra ``live``).
    OSError
        If the port is taken.
    """
    uvicorn = import_optional("uvicorn", "live", "The live page")
    application = app(watch, settings.token, outboxes)
    about = {"log_level": "error", "access_log": False, "lifespan": "off", "server_header": False}
    server = uvicorn.Server(uvicorn.Config(application, host=settings.host, port=settings.port, **about))
    sockets = [_bound(settings.host, settings.port)]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets)), daemon=True)
    thread.start()
    end = time.monotonic() + TUNING.live_start
    while not server.started and thread.is_alive() and time.monotonic() < end:
        time.sleep(0.02)
    port = sockets[0].getsockname()[1]
    say(f"The live page is at http://{settings.host}:{port}/{'?token=...' if settings.token else ''}")
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(TUNING.live_start)


def _bound(host, port):
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise OSError(
            f"The live page cannot be served at {host}:{port} ({error.strerror}); give another port in [live]."
        ) from None


def app(watch, token="", outboxes=()):
    """The application of Starlette: pages, state, health and counters, and what people say."""
    import_optional("starlette", "live", "The live page")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route

    bands = Bands(watch.plant.nominal)

    async def guard(request, go_on):
        """Only this machine may look without a token; a token in the address is put into a cookie."""
        path, given = request.url.path, request.query_params.get("token", "")
        if token and path == "/" and _is_same(given, token):
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie("watch_token", given, httponly=True, samesite="strict")
        elif path != "/health" and not _may_look(request, token):
            answer = PlainTextResponse("Show the token of this watch: open /?token=...", 401)
        else:
            answer = await go_on(request)
        for name, value in _HEAD.items():
            if not (path == "/report" and name == "Content-Security-Policy"):  # which brings its own
                answer.headers[name] = value
        return answer

    def page(request):
        name, kind = _FILES[request.url.path]
        return Response(files(__package__).joinpath(name).read_text("utf-8"), media_type=kind)

    async def state(request):
        """The state once it is another than the page has, or after a second."""
        known, end = request.query_params.get("after"), time.monotonic() + TUNING.live_held
        while known == mark_of(watch) and time.monotonic() < end:
            await asyncio.sleep(TUNING.live_looks)
        return JSONResponse(state_of(watch, outboxes))

    def trend(request):
        return JSONResponse(trend_of(watch, bands, request.query_params.get("unit", "")))

    def health(request):
        return JSONResponse(health_of(watch), 200 if not watch.is_quiet else 503)

    def metrics(request):
        return PlainTextResponse(metrics_of(watch, outboxes), media_type="text/plain; version=0.0.4")

    def report(request):
        path = watch.reports.get(request.query_params.get("incident", ""))
        return PlainTextResponse("There is no report yet.", 404) if path is None else FileResponse(path)

    async def acknowledge(request):
        if request.headers.get("x-watch") != "1":  # which other pages cannot send
            return PlainTextResponse("Send the header X-Watch: 1.", 403)
        try:
            said = await request.json()
            incident, by, comment = (str(said[name]).strip() for name in ("incident", "by", "comment"))
        except (ValueError, KeyError, TypeError):
            return PlainTextResponse("Give incident, by and comment as JSON.", 400)
        if not by or incident not in watch.incidents.known:
            return PlainTextResponse("Give a name and a known incident.", 400)
        watch.asked.put((incident, by[:100], comment[:_LONGEST], now_told()))
        return JSONResponse({"ok": True}, 202)

    looks = {"/state": state, "/trend": trend, "/health": health, "/metrics": metrics, "/report": report}
    routes = [*(Route(path, page) for path in _FILES), *(Route(path, look) for path, look in looks.items())]
    routes.append(Route("/acknowledge", acknowledge, methods=["POST"]))
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)])


def _may_look(request, token):
    if not token:  # a name that leads here from elsewhere is no name of this machine
        return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "") in _LOCAL
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return _is_same(bearer, token) or _is_same(request.cookies.get("watch_token", ""), token)


def _is_same(given, token):
    return hmac.compare_digest(given.encode(), token.encode())


# -- what is shown -----------------------------------------------------------------------------------


def health_of(watch):
    """Whether the watch sees the plant."""
    return {
        "ok": not watch.is_quiet,
        "age_s": round(watch.age, 3),
        "last_row": watch.last_time,
        "rows": watch.counts["rows"],
        "state_kept": not watch.problem,
    }


def mark_of(watch):
    """A text that is another once the state is, but for what has become older."""
    counts, incidents = watch.counts, watch.incidents
    parts = (counts["rows"], watch.last_time, watch.is_quiet, incidents.n_incidents, len(incidents.unseen))
    return " ".join(map(str, parts))


def state_of(watch, outboxes=()):
    """All that the page shows but trends, as JSON has it."""
    incidents, quiet = list(watch.incidents.known.values()), watch.is_quiet
    running = {one["root"] for one in incidents if one["end"] is None and "seen" not in one}
    unseen = {one["root"] for one in incidents if "seen" not in one}
    units = dict.fromkeys(str(name).partition(SEPARATOR)[0] for name in watch.plant.nominal if SEPARATOR in str(name))

    there = [name for batch in list(watch.last)[-TUNING.live_last :] for name in batch.dropna(axis=1, how="all")]
    told = {str(name).partition(SEPARATOR)[0] for name in there}

    def now(unit):
        if quiet or unit not in told:
            return "quiet"
        return "alarm" if unit in running else "unseen" if unit in unseen else "ok"

    return {
        "mark": mark_of(watch),
        **health_of(watch),
        "summary": summary(watch),
        "quiet": quiet,
        "period_s": watch.usual_pause,
        "undecided": UNDECIDED in running,
        "units": [{"name": unit, "state": now(unit)} for unit in units],
        "incidents": [
            {**one, "report": one["incident"] in watch.reports} for one in incidents[: -TUNING.live_listed - 1 : -1]
        ],
        "counts": {**watch.counts, **watch.clock.counts, "incidents": watch.incidents.n_incidents},
        "tellers": {outbox.name: outbox.state for outbox in outboxes},
        "problem": watch.problem,
    }


class Bands:
    """Where tags are in nominal operation."""

    def __init__(self, nominal):
        numbers = nominal.select_dtypes("number")
        self._mean, self._spread = numbers.mean(), numbers.std()

    def of(self, tag):
        """Lower and upper limit of a tag; None where it has none."""
        if tag not in self._mean:
            return None
        low, high = (float(self._mean[tag] + sign * TUNING.live_wide * self._spread[tag]) for sign in (-1, 1))
        return [low, high] if math.isfinite(low + high) else None


def trend_of(watch, bands, unit):
    """The last rows of a unit's tags with their bands."""
    columns = [name for name in watch.plant.nominal if str(name).partition(SEPARATOR)[0] == unit and bands.of(name)]
    rows = watch.recent(columns)[-TUNING.live_shown :]
    values = np.round(rows.to_numpy(dtype=float), 9)
    tags = {str(name).partition(SEPARATOR)[2]: _finite(values[:, k]) for k, name in enumerate(columns)}
    return {
        "unit": unit,
        "times": [str(watch.incidents.moment(at)) for at in rows.index],
        "tags": tags,
        "bands": {str(name).partition(SEPARATOR)[2]: bands.of(name) for name in columns},
    }


def _finite(values):
    return [value if math.isfinite(value) else None for value in values.tolist()]


def metrics_of(watch, outboxes=()):
    """Counters in the text format of Prometheus."""
    counts, clock, incidents = watch.counts, watch.clock.counts, watch.incidents
    left_out = {why: clock[why] for why in ("late", "doubled", "alone")} | {"refused": counts["refused"]}
    by_why = {f'{{why="{why}"}}': number for why, number in left_out.items()}
    waiting = {f'{{teller="{outbox.name}"}}': outbox.state["waiting"] for outbox in outboxes}
    told = (
        ("rows_total", "counter", "Rows that were judged.", counts["rows"]),
        ("left_out_rows_total", "counter", "Rows that were left out.", by_why),
        ("clock_set_total", "counter", "How often the clock of the source was reset.", clock["set"]),
        ("incidents_total", "counter", "Incidents.", incidents.n_incidents),
        ("incidents_open", "gauge", "Active incidents that nobody has acknowledged.", len(incidents.open)),
        ("last_row_age_seconds", "gauge", "Seconds since the last row came.", watch.age),
        ("up", "gauge", "1 if rows come.", not watch.is_quiet),
        ("state_kept", "gauge", "1 if the state can be kept.", not watch.problem),
        ("waiting_events", "gauge", "Events that wait to be sent.", waiting),
    )
    lines = []
    for name, kind, what, found in told:
        lines.append(f"# HELP skfedcausal_{name} {what}\n# TYPE skfedcausal_{name} {kind}")
        samples = found if isinstance(found, dict) else {"": found}
        lines.extend(f"skfedcausal_{name}{labels} {float(value):.15g}" for labels, value in samples.items())
    return "\n".join(lines) + "\n"
