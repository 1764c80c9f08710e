"""The live page in a browser: rows, silence, an incident that arrives, what people say, a restart; and its doors."""

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pandas as pd
import pytest

from skfedcausal.commands.watching.settings import LiveSettings

from .watching import FAULT, plant, until, watch_of

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from skfedcausal.commands.watching.live import metrics_of, serve, state_of

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore")]
CHROMIUM = Path("/usr/bin/chromium")


def now_rows(live):
    """Live rows, the first of them now."""
    index = pd.date_range(pd.Timestamp.now("UTC").tz_localize(None).floor("s"), periods=len(live), freq="s")
    return live.set_axis(index, axis=0)


def read(port, path, **head):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=head)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read().decode()


@pytest.fixture
def watch(tmp_path):
    return watch_of(tmp_path / "state", [], period="s")


def test_health_and_counters(watch):
    _, _, live = plant(period="s")
    with serve(watch, LiveSettings(port=0)) as port:
        with pytest.raises(urllib.error.HTTPError, match="503"):
            read(port, "/health")
        watch.take(now_rows(live)[:20])
        assert json.loads(read(port, "/health"))["ok"]
        lines = dict(line.rsplit(" ", 1) for line in read(port, "/metrics").splitlines() if line[0] != "#")
        assert lines["skfedcausal_rows_total"] == "20"
        assert float(lines["skfedcausal_last_row_age_seconds"]) < 5
        assert list(json.loads(read(port, "/trend?unit=unit1"))["tags"]) == ["x0", "x1", "x2", "x3"]


def test_counters_of_a_year_are_told_to_the_last_row(watch):
    watch.counts["rows"] = 31_536_001
    assert "skfedcausal_rows_total 31536001\n" in metrics_of(watch)


def test_a_unit_without_a_value_is_grey(watch):
    _, _, live = plant(period="s")
    watch.take(now_rows(live)[:20].drop(columns=["unit1__x0", "unit1__x1", "unit1__x2", "unit1__x3"]))
    assert [unit["state"] for unit in state_of(watch)["units"]] == ["ok", "quiet", "ok"]


def test_others_need_a_token(watch, tmp_path):
    (tmp_path / "token").write_text("a-long-enough-token\n")
    with pytest.raises(ValueError, match="access from elsewhere needs a token"):
        LiveSettings(host="0.0.0.0")
    with serve(watch, LiveSettings(port=0, token_file=tmp_path / "token")) as port:
        for path in ("/", "/state", "/metrics", "/?token=wrong"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                read(port, path)
        assert "rows" in read(port, "/state", Authorization="Bearer a-long-enough-token")


def test_a_name_that_leads_here_from_elsewhere_is_refused(watch):
    with serve(watch, LiveSettings(port=0)) as port:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            read(port, "/state", Host="evil.example")
        forged = urllib.request.Request(f"http://127.0.0.1:{port}/acknowledge", b"{}", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(forged, timeout=5)


@pytest.fixture
def page():
    sync = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("There is no Chromium here.")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        one = browser.new_page(viewport={"width": 420, "height": 800})
        one.errors, one.asked = [], []
        one.on("console", lambda said: one.errors.append(said.text) if said.type == "error" else None)
        one.on("pageerror", lambda error: one.errors.append(str(error)))
        one.on("request", lambda request: one.asked.append(request.url))
        yield one
        browser.close()


class Feeder:
    """Rows every 0.1 s, in a thread, as long as it is told to."""

    def __init__(self, watch, rows):
        self.watch, self.rows, self.n, self._on = watch, rows, 0, threading.Event()
        self._end = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._end:
            if self._on.is_set() and self.n < len(self.rows):
                self.watch.take(self.rows[self.n : self.n + 3])
                self.n += 3
            self.watch.tick()
            time.sleep(0.1)

    def go(self):
        self._on.set()

    def sleep(self):
        self._on.clear()

    def stop(self):
        self._end = True
        self._thread.join(5)


def test_the_page_in_a_browser(tmp_path, page):
    _, _, live = plant(period="s")
    rows, told = now_rows(live), []
    watch = watch_of(tmp_path / "state", [told.append], period="s")
    feeder = Feeder(watch, rows)
    shown = lambda: page.get_attribute("body", "class")  # noqa: E731
    with serve(watch, LiveSettings(port=0)) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        assert shown() == "quiet"
        feeder.go()
        assert until(lambda: shown() == "ok", 4)
        feeder.sleep()  # the source sleeps
        assert until(lambda: shown() == "quiet", 5)
        assert "No rows received for" in page.inner_text("#summary")
        assert all("quiet" in one.get_attribute("class") for one in page.query_selector_all(".unit"))
        feeder.go()
        assert until(lambda: feeder.n > FAULT + 9, 20)
        assert until(lambda: shown() in ("alarm", "unseen"), 3)
        assert page.query_selector_all("#trends .trend")
        page.click(".incident")
        assert "unit0" in page.inner_text("#incident-title")
        page.fill("#by", "Ada")
        page.fill("#comment", "valve <b>stuck</b>")
        page.click("#acknowledge button")
        assert until(lambda: "seen by Ada" in page.inner_text("#incidents"), 4)
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert not page.errors
        assert all(url.startswith((f"http://127.0.0.1:{port}/", "data:")) for url in page.asked)
    feeder.stop()
    again = watch_of(tmp_path / "state", [told.append], period="s")  # after a restart
    with serve(again, LiveSettings(port=0)) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        assert until(lambda: "seen by Ada" in page.inner_text("#incidents"), 4)
        page.click(".incident")
        assert "valve <b>stuck</b>" in page.inner_text("#incident-facts")
