"""Every page and picture as a browser shows it, on a wide and on a narrow screen.

``python docs/pictures/screenshots.py [SITE]`` writes ``docs/screenshots/*.png``, of the built site too if its
folder is given.
It needs chromium and pillow. To look for words that are cut and for what lies on something else.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import matplotlib

from skfedcausal.papers import StopRule

matplotlib.use("Agg")
import numpy as np
import pandas as pd
from PIL import Image

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
    KalmanClient,
    PlantTable,
    inspection,
)
from skfedcausal import displays as shown
from skfedcausal.client.worker import UnitWorker
from skfedcausal.commands.watch import main as watch
from skfedcausal.datasets import make_granger_plant, make_messy_export
from skfedcausal.federation import FileSite, FileTransport, Gate
from skfedcausal.reports import whatif_page
from skfedcausal.reports.incident import home_page, trends_of
from skfedcausal.reports.page import Page

WIDTHS, TALLEST = (1280, 420), 2600
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync", "--hide-scrollbars"]
UNITS = ["boiler", "turbine", "water", "cooling", "dosing"]
LINKS = [(4, 2), (2, 0), (0, 1), (1, 3), (3, 2), (0, 3)]
ACTING = {"n_inputs": 1, "input_links": [(0, 1)], "input_strength": 0.6}


def plant(n_samples, **more):
    """A simulated plant with times."""
    drawn = {"links": LINKS, "link_strength": 0.4, "container": "frame", "random_state": 1}
    X, truth = make_granger_plant(5, names=UNITS, n_samples=n_samples, **drawn, **more)
    X.index = pd.date_range("2026-03-28 20:00", periods=n_samples, freq="10s", tz="Europe/Berlin")
    return X, truth


def write_pages(folder):
    """Pages of all kinds."""
    X, _ = plant(4000)
    FederatedGrangerEstimator().fit(X).report(folder / "links.html", X=X)
    make_messy_export(folder / "plant.csv", n_samples=8000, random_state=0)
    messy = PlantTable.read(folder / "plant.csv", units="{unit}[:/._-]{tag}", tz="Europe/Berlin")
    messy.check.report(folder / "check.html")
    X, _ = plant(5000)
    detector = FederatedRCADetector().fit(X[:4000])
    faulty = X[4000:].copy()
    faulty.iloc[500:560, :8] += 2 * X.iloc[:, :8].std().to_numpy()
    incidents = detector.incidents(faulty)
    detector.report(incidents[incidents["detected"] >= faulty.index[495]], folder / "incident.html", X=faulty)
    write_watched(folder, X[:4000], faulty)
    moved = [f"{name}__u0" for name in UNITS]
    X, _ = plant(3000, **ACTING)
    estimator = FederatedCounterfactualEstimator(input_columns=moved).fit(X)
    hour = X[:180]
    answer = estimator.whatif(hour, {"boiler__u0": lambda u: u.clip(upper=0.0)})
    whatif_page(answer, {"boiler__u0": "at most 0"}, X=X).write(folder / "whatif.html")
    estimator.impact(hour, {"boiler__u0": 0.0}, (60, 120)).report(folder / "impact.html")
    X, _ = make_granger_plant(3, names=UNITS[:3], n_samples=400, random_state=1)
    fit_over_files(folder, X)


def write_watched(folder, nominal, rows):
    """The page that a watch keeps of rows that arrive, and what a site writes about its own tags."""
    nominal.to_csv(folder / "nominal.csv")
    rows.to_csv(folder / "live.csv")
    settings = folder / "watch.toml"
    settings.write_text(f'[watch]\nnominal = "{folder}/nominal.csv"\nsource = "csv:live.csv"\nwait = 0\n')
    watch([str(settings)])
    for page in folder.glob("watch-*.html"):  # of single incidents, as incident.html
        page.unlink()
    live = (folder / "watch.html").read_text()  # a browser that counts time itself would load it again for ever
    (folder / "watch.html").write_text(re.sub('<meta http-equiv="refresh"[^>]*>', "", live))
    detector = FederatedRCADetector().fit(nominal.reset_index(drop=True))
    rows = rows.reset_index(drop=True)
    incident = detector.incidents(rows).query("detected >= 495").iloc[0]
    found = inspection.tags(detector, rows, incident)
    unit = found.pop("unit").iloc[0]
    trends = inspection.tag_trend(detector, rows, incident, trends_of(found))
    home_page(unit, [(incident, found.assign(onset=incident["start"]), trends)]).write(folder / "tags.html")


def fit_over_files(folder, X):
    """The account of a site that took part in a fit over files."""
    keys = {name: bytes([k + 1]) * 32 for k, name in enumerate(X)}
    stop = threading.Event()
    threads = []
    for name, rows in X.items():
        worker = UnitWorker(name, rows, None, (0,), None, KalmanClient())
        gate = Gate(name, worker, folder / "home" / name, key=keys[name])
        serve = FileSite(gate, folder / "exchange").serve
        threads.append(threading.Thread(target=serve, kwargs={"stop": stop.is_set}))
        threads[-1].start()
    transport = FileTransport(folder / "exchange", tuple(X), "march", keys, timeout=60.0)
    FederatedGrangerEstimator().fit_sites(transport)
    transport.close()
    stop.set()
    for thread in threads:
        thread.join()
    gate.ledger.to_html(folder / "ledger.html")


def write_displays(folder):
    """One page with the pictures that no other page has."""
    page = Page("Displays")
    X, truth = make_granger_plant(4, n_samples=3000, random_state=0, **ACTING)
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    granger = FederatedGrangerEstimator().fit(X)
    trained = FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=200))).fit(X)
    detectors = [FederatedRCADetector(false_alarm_rate=rate).fit(X) for rate in (1e-3, 3e-3, 1e-2)]
    curve = pd.DataFrame({"epsilon": [1, 3, 10], "links_kept": [0, 0.6, 1], "forecast_error": [2.0, 1.1, 0.6]})
    effect, std = estimator.counterfactual("unit0", 0.0, 1.0, horizon=15, return_std=True)
    residuals = pd.DataFrame(np.linspace(0.5, 1, 16).reshape(4, 4), index=list(X))
    residuals.columns = ["client", "augmented", "server", "oracle"]
    drawn = {
        "a matrix with intervals": shown.LinkMatrixDisplay.from_estimator(granger, intervals=0.9),
        "a graph on a circle": shown.LinkGraphDisplay.from_estimator(granger, undecided=True, layout="circle"),
        "what was checked": shown.ValidityDisplay.from_estimator(granger),
        "a spectrum": shown.SpectrumDisplay.from_estimator(granger, *granger.links_.loc[0, ["cause", "effect"]]),
        "a step response": shown.EffectDisplay.from_effect(effect, std),
        "poles, zeros, gains": shown.TransferFunctionDisplay.from_transfer_function(estimator.transfer_function()),
        "losses of training": shown.LossDisplay.from_estimator(trained),
        "residuals": shown.ResidualDisplay(residuals).plot(),
        "correlations of states": shown.StateCorrelationDisplay.from_estimator(granger, X),
        "false alarms": shown.FalseAlarmDisplay.from_detectors(detectors),
        "a privacy curve": shown.PrivacyCurveDisplay(curve).plot(),
    }
    for words, display in drawn.items():
        page.picture(lambda display=display: display, words)
    page.write(folder / "displays.html")


def shoot(page, target, width):
    """Write what a browser shows of a page."""
    with tempfile.TemporaryDirectory() as profile:
        size = [f"--user-data-dir={profile}", f"--window-size={width},{TALLEST}", "--virtual-time-budget=8000"]
        command = [BROWSER, *FLAGS, *size, f"--screenshot={target}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    picture = Image.open(target).convert("RGB")
    rows = np.asarray(picture).std(axis=(1, 2)).nonzero()[0]
    picture = picture.crop((0, 0, width, min(int(rows[-1]) + 20, TALLEST)))
    picture.quantize(32).save(target, optimize=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    results = Path(__file__).parents[1] / "screenshots"
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_pages(folder)
        write_displays(folder)
        pages = {page.stem: page for page in sorted(folder.glob("*.html"))}
        for site in map(Path, sys.argv[1:]):
            pages |= {
                "front": (site / "index.html").resolve(),
                "gallery": (site / "auto_examples/index.html").resolve(),
            }
        for name, page in pages.items():
            for width in WIDTHS:
                shoot(page, results / f"{name}-{width}.png", width)
