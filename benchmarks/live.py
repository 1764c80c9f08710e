"""From a row to the live page in Chromium: ``python -m benchmarks.live --units 100 --tags 10 --seconds 60``.

A watch is a process of its own that follows a file, which gets a row a second. It tells how long it took from a row to
the page that shows it, and the share of one processor that the watch and all of Chromium took meanwhile. The model of
a unit is a small one, which is learned within seconds: the page does not know it.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

from skfedcausal import FederatedRCADetector, KalmanClient
from skfedcausal.commands.watching.live import Pages, serve
from skfedcausal.commands.watching.loop import Journal, Watch
from skfedcausal.commands.watching.settings import LiveSettings, Plant
from skfedcausal.datasets import make_granger_plant
from skfedcausal.streams.cells import Stamps
from skfedcausal.streams.sources import SourceOptions, open_source

_CHROMIUM = "/usr/bin/chromium"
_SEEN = """() => {
  window.seen = [];
  const age = document.getElementById("age");
  new MutationObserver(() => window.seen.push([Date.now() / 1000, age.textContent]))
    .observe(age, { childList: true, characterData: true, subtree: true });
}"""


def record(n_units, n_tags, n_rows):
    """A nominal record."""
    X, _ = make_granger_plant(n_units, n_sensors=n_tags, n_samples=n_rows, random_state=0)
    frame = pd.concat({name: pd.DataFrame(np.asarray(part)) for name, part in X.items()}, axis=1)
    frame.columns = [f"{unit}__x{k}" for unit, k in frame.columns]
    return frame.set_axis(pd.date_range("2026-01-01", periods=n_rows, freq="s"))


def watching(pipe, folder, nominal):
    """A watch of a file with its live page, until it is ended; it tells its port."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = FederatedRCADetector(KalmanClient(n_states=1), false_alarm_rate=1e-4).fit(nominal)
        asked = SimpleNamespace(tz=None, page=folder / "watch.html", refresh=5.0)
        watch = Watch(detector, Plant(nominal, None, {}, (), ()), asked, Journal(folder / "state"), [], "")
        watch.keep()
        Pages(watch, asked)
        with serve(watch, LiveSettings(port=0)) as port:
            pipe.send(port)
            watch.run(open_source("csv:live.csv", Stamps(), SourceOptions(), folder=folder))


def shown(folder, n_units=100, n_tags=10, n_seconds=60, n_nominal=600):
    """How long rows took to the page, in seconds, and shares of a processor."""
    from playwright.sync_api import sync_playwright

    frame = record(n_units, n_tags, n_nominal + n_seconds)
    frame[:0].to_csv(folder / "live.csv", index_label="time")
    pipe, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=watching, args=(there, folder, frame[:n_nominal]), daemon=True)
    process.start()
    try:
        address = f"http://127.0.0.1:{pipe.recv()}/"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(address)
            page.evaluate(_SEEN)
            lines = frame[n_nominal:].to_numpy().tolist()
            begin, before, written = time.time(), _cpu(process.pid), {}
            for row in lines:
                time.sleep(max(begin + len(written) + 1 - time.time(), 0.0))
                at = pd.Timestamp.now("UTC").floor("ms").isoformat()
                with (folder / "live.csv").open("a") as file:
                    file.write(",".join([at, *map(repr, row)]) + "\n")
                written[at] = time.time()
                page.evaluate("0")  # lets the page tell of itself
            page.wait_for_timeout(3000)
            after, took = _cpu(process.pid), time.time() - begin
            seen = page.evaluate("window.seen")
            browser.close()
    finally:
        process.terminate()
        process.join()
    return {"rows": len(written), **_told(written, seen), **_shares(before, after, took)}


def _told(written, seen):
    """How long rows took; a row that the page left out counts until a later one was shown."""
    told = [(at, pd.Timestamp(text.split()[2].rstrip(","))) for at, text in seen if text.startswith("Last row ")]
    late = [
        min((at - came for at, row in told if row >= pd.Timestamp(name)), default=float("inf"))
        for name, came in written.items()
    ]
    return {"s to the page, median and longest": [round(float(np.median(late)), 2), round(max(late), 2)]}


def _cpu(watch):
    """Seconds of processors that the watch, and the programs of Chromium, have taken so far."""
    found, tick = {"watch": 0.0, "Chromium": 0.0}, os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # of a process that has ended
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            kind = "watch" if int(path.parent.name) == watch else "Chromium" if name.startswith("chrom") else None
            if kind is not None:
                found[kind] += sum(map(int, rest.split()[11:13])) / tick
    return found


def _shares(before, after, took):
    return {f"processor of {name}": round((after[name] - before[name]) / took, 3) for name in before}


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, usual in (("units", 100), ("tags", 10), ("seconds", 60)):
        reader.add_argument(f"--{name}", type=int, default=usual)
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(shown(Path(place), given.units, given.tags, given.seconds)))
