"""Every report at the width of a desk and of a telephone: nothing cut, no error, text that stands out (WCAG AA)."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    check_plant,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.ledger import SiteLedger
from skfedcausal.message.packet import Packet
from skfedcausal.reports import impact_page, incident_page, plant_page, whatif_page
from skfedcausal.reports.page import ledger_page

pytest.importorskip("matplotlib").use("Agg")
pytestmark = pytest.mark.slow
NAMES = ["SITE1.AREA07.BOILER_FEED", "turbine", "cooling_tower_east"]
TAGS = ["B01.PT101_DRUM_PRESSURE.PV", "TT401.PV"]

OPEN = """document.querySelectorAll("details").forEach(one => { one.open = true; }),
document.querySelectorAll(".pane").forEach(one => { one.hidden = false; }), 1"""

# Elements with text of their own whose contrast with what is behind them is below 4.5, or 3 where letters are large.
FAINT = """(() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = element => {
    for (let one = element; one; one = one.parentElement) {
      const colour = channels(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const text = [...element.childNodes].filter(node => node.nodeType === 3 && node.data.trim()).map(node => node.data);
    if (!text.length || !element.getClientRects().length || element.closest("style, script")) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const [a, b] = [light(channels(style.color)), light(behind(element))].sort((x, y) => y - x);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if ((a + 0.05) / (b + 0.05) < needed) found.push(text[0].trim().slice(0, 40) + " " + style.color);
  }
  return found;
})()"""

# What is wider than its frame and no picture that moves sideways, and text that is cut off
CUT = """(() => [...document.body.querySelectorAll("*")].filter(element => {
  const style = getComputedStyle(element), holds = element.querySelector("img.wide");
  if (holds || !element.getClientRects().length || style.overflowX === "visible") return false;
  return element.scrollWidth > element.clientWidth + 1;
}).map(element => element.className + ": " + element.textContent.trim().slice(0, 60)))()"""


def frame_of(X, start="2026-06-14 02:00"):
    units = {}
    for name, Y in X.items():
        tags = [TAGS[k] if k < len(TAGS) else f"x{k}" for k in range(Y.shape[1])]
        times = pd.date_range(start, periods=len(Y), freq="10s", tz="Europe/Berlin")
        units[name] = pd.DataFrame(Y, columns=tags, index=times)
    return pd.concat(units.values(), axis=1, keys=None).set_axis(
        [f"{name}__{tag}" for name, frame in units.items() for tag in frame], axis=1
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: make(folder / f"{name}.html") for name, make in MAKERS.items()}


def links(path):
    X, _ = make_granger_plant(3, names=NAMES, links=[(0, 1), (1, 2)], random_state=0)
    record = frame_of(X)
    record.iloc[500:540, 1] = -999.25
    note = "Inputs of which little is seen: " + ", ".join(f"SITE1.AREA07.UNIT{k}.TAG{k}" for k in range(9))
    return plant_page(FederatedGrangerEstimator().fit(record), X=record, notes=[note]).write(path)


def incident(path):
    detector, faulty, found = watched()
    return incident_page(detector, found, faulty).write(path)


def watched():
    X, _ = make_granger_plant(3, names=NAMES, n_samples=3000, links=[(0, 1)], random_state=0)
    record = frame_of(X)
    nominal, faulty = record[:2600], record[2600:].copy()
    faulty.iloc[200:260, :2] += 3 * faulty.iloc[:, :2].std()
    detector = FederatedRCADetector().fit(nominal)
    found = detector.incidents(faulty)
    return detector, faulty, found[found["detected"] >= faulty.index[200]]


def moved():
    X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    return FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs), X, truth.inputs


def whatif(path):
    estimator, X, inputs = moved()
    answer = estimator.whatif(X, {"unit0__u0": lambda u: u + 0.5}, inputs=inputs)
    return whatif_page(answer, {"unit0__u0": "at +0.5"}, X=X, notes=["The input hardly moves on its own."]).write(path)


def impact(path):
    estimator, X, inputs = moved()
    found = estimator.impact(X, {"unit0__u0": 0.0}, (1000, 1030), inputs=inputs)
    return impact_page(found, "What unit0__u0 did").write(path)


def check(path):
    X, _ = make_granger_plant(3, names=NAMES, random_state=0)
    record = frame_of(X)
    record.iloc[100:200, 0] = record.iloc[100, 0]
    record.iloc[500:540, 1] = -999.25
    record.iloc[1000:, record.columns.str.startswith("turbine")] += 8
    return check_plant(record).report(path)


def ledger(path):
    book = SiteLedger(path.with_suffix(".jsonl"), max_bytes=5000, noise="none")
    book.record("march", "mill", "up", Packet("states", 1, {"z": np.full((3, 2), 0.1, "<f2")}), bytes(1000), 1)
    book.record("march", "mill", "down", Packet("fit", 1), bytes(70), 1)
    book.refuse("march", "mill", "Signature does not fit")
    return ledger_page(book.entries(), book.verify()).write(path)


MAKERS = {make.__name__: make for make in (links, incident, whatif, impact, check, ledger)}


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_cut_and_nothing_fails_and_text_stands_out(name, width, pages, browser):
    browser.show(pages[name], width)
    browser.value(OPEN)
    assert 0 < browser.width() <= width
    assert browser.value(CUT) == []
    assert browser.value(FAINT) == []
    assert browser.errors == []


@pytest.mark.parametrize("name", MAKERS)
def test_the_answer_stands_first(name, pages, browser):
    browser.show(pages[name], 420)
    text = browser.value("document.querySelector('h1 ~ p:not(.meta)').textContent")
    assert len(text.split()) >= 5
    assert browser.value("document.querySelector('h1 ~ p:not(.meta)').getBoundingClientRect().bottom") < 900


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"check"}))
def test_doubts_come_before_what_to_check_and_before_details(name, pages):
    text = pages[name].read_text("utf-8")
    against, first = text.index("<h2>What speaks against it"), text.index("<h2>What to check first")
    assert against < first
    assert all(text.index(f"<h2>{late}") > first for late in ("The data", "Why we think so") if f"<h2>{late}" in text)
