"""The live page of a watch: a small server (Starlette) that shows its state, health and counters, and takes answers."""

import asyncio
import contextlib
import hmac
import math
import socket
import threading
import time
from importlib.resources import files
from urllib.parse import urlsplit

import numpy as np

from ...containers.layout import SEPARATOR
from ...optional import import_optional
from ...server.watching.incidents import UNDECIDED
from .loop import now_told, say
from .pages import summary
from .tuning import TUNING

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
