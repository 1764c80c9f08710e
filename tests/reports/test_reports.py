"""Pages for people who were not there: complete, escaped, nothing fetched, shown by a real browser."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.reports import whatif_page
from skfedcausal.reports.page import Page
from skfedcausal.reports.plant import graded_table

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.medium
UNIT = "<script>alert('x')</script>&\"boiler"  # a name that would be code if it were not escaped


@pytest.fixture(scope="module")
def plant_page(tmp_path_factory):
    X, _ = make_granger_plant(3, names=[UNIT, "turbine", "water"], links=[(0, 1)], random_state=0)
    path = tmp_path_factory.mktemp("reports") / "plant.html"
    return FederatedGrangerEstimator().fit(X).report(path)


@pytest.fixture(scope="module")
def incident():
    X, _ = make_granger_plant(3, names=[UNIT, "turbine", "water"], n_samples=3000, links=[(0, 1)], random_state=0)
    detector = FederatedRCADetector().fit({name: Y[:2600] for name, Y in X.items()})
    times = pd.date_range("2026-06-14 02:00", periods=400, freq="10s")
    faulty = {name: pd.DataFrame(Y[2600:].copy(), index=times).add_prefix("x") for name, Y in X.items()}
    faulty[UNIT].iloc[200:260] += 3 * faulty[UNIT].std()
    incidents = detector.incidents(faulty)
    return detector, faulty, incidents[incidents["detected"] >= times[200]]


@pytest.fixture(scope="module")
def incident_page(incident, tmp_path_factory):
    detector, faulty, incidents = incident
    return detector.report(incidents, tmp_path_factory.mktemp("reports") / "trip.html", X=faulty)


class _Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "data")]


@pytest.mark.parametrize("which", ["plant_page", "incident_page"])
def test_a_page_is_self_contained_and_escaped(which, request):
    text = request.getfixturevalue(which).read_text(encoding="utf-8")
    page = _Tags(text)
    assert not {"script", "link", "iframe", "object", "form", "a", "base"} & set(page.tags)
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "&lt;script&gt;" in text
    for heading in ("What speaks against it", "What to check first", "Why we think so", "What data left the units"):
        assert f"<h2>{heading}</h2>" in text


def test_the_plant_page_tells_links_and_doubts(plant_page):
    text = plant_page.read_text(encoding="utf-8")
    assert "drives turbine" in text
    assert "An unmeasured common cause" in text
    assert "not differential" in text or "data-minimising" in text


def test_the_incident_page_tells_what_where_why(incident_page, incident):
    text, row = incident_page.read_text(encoding="utf-8"), incident[2].iloc[0]
    assert row["root"] == UNIT
    assert "Most likely origin: &lt;script&gt;" in text
    assert f"{row['detected']:%Y-%m-%d %H:%M:%S}" in text
    assert "What happened" in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "sensor", "root": "water", "path": [("water", 0)]}, "Sensor fault."),
        ({"root": "undecided"}, "most likely origin: "),
        ({"end": np.nan}, "still active"),
        ({"path": [("water", 0), ("turbine", 1)]}, "water after 0 steps and turbine after 1 step"),
        ({"path": [("water", 2), ("turbine", 2)]}, "reached in the same step"),
    ],
)
def test_incidents_of_all_kinds(incident, tmp_path, changes, expected):
    detector, _, incidents = incident
    row = pd.Series(incidents.iloc[0].to_dict() | changes)
    assert expected in detector.report(row, tmp_path / "trip.html").read_text(encoding="utf-8")


def test_an_incident_no_stronger_than_the_alarms_allowed_is_said_to_be_perhaps_one(incident, tmp_path):
    detector, record, incidents = incident
    strong = detector.report(incidents, tmp_path / "strong.html", X=record).read_text("utf-8")
    assert "false alarms you allowed" not in strong
    weak = incidents.iloc[0].to_dict()
    rows = np.asarray(detector.transform(record)).max(axis=1)
    calm = int(np.argmin(rows[:190]))  # a row before the fault, and nothing like an alarm
    times = next(iter(record.values())).index
    weak |= {"start": times[calm], "detected": times[calm], "end": times[calm + 1]}
    page = detector.report(pd.Series(weak), tmp_path / "weak.html", X=record).read_text("utf-8")
    assert "It may be one of the false alarms you allowed" in page


def test_pages_with_the_record_show_its_check_and_its_trends(incident, tmp_path):
    detector, record, incidents = incident
    page = detector.report(incidents, tmp_path / "trip.html", X=record).read_text("utf-8")
    assert "<h2>The data</h2>" in page
    assert "<h2>Measurements</h2>" in page
    assert page.count("<img ") == 3  # levels, tags of the units, the tag to blame


def test_times_on_a_page_name_the_zone_of_the_plant(incident, tmp_path):
    detector, _, incidents = incident
    row = incidents.iloc[0].to_dict()
    row = pd.Series(row | {key: row[key].tz_localize("Europe/Berlin") for key in ("start", "detected", "end")})
    assert f"{row['start']:%Y-%m-%d %H:%M:%S} CEST" in detector.report(row, tmp_path / "t.html").read_text("utf-8")


SHARED = 0.1 * np.eye(6) + 0.9  # noise of six states that is nearly one


def fit_of_a_plant_with(noise=None, **facts):
    X, _ = make_granger_plant(3, links=[(0, 1)], random_state=0)
    estimator = FederatedGrangerEstimator().fit(X)
    for name, value in facts.items():
        setattr(estimator.server_, name, value)
    if noise is not None:
        estimator.server_.plant_ = replace(estimator.server_.plant_, Q=noise)
    return estimator


@pytest.mark.parametrize(
    ("facts", "reserve"),
    [
        ({"converged_": False}, "the fit did not converge"),
        ({"has_prior_": True, "noise": SHARED}, "the plant is nearly degenerate"),
        ({"filled_": True}, "the record was too long for the exact likelihood of its gaps"),
    ],
)
def test_the_lead_is_qualified_by_what_speaks_against_the_fit(facts, reserve, tmp_path):
    page = fit_of_a_plant_with(**facts).report(tmp_path / "plant.html").read_text("utf-8")
    lead = re.search('<p class="lead">(.*?)</p>', page)[1]
    assert lead.startswith(f"Provisional ({reserve}")
    assert "unit0 seems to drive unit1" in lead
    assert "drives" not in lead


def test_defects_of_the_data_qualify_the_lead(tmp_path):
    X, _ = make_granger_plant(3, links=[(0, 1)], random_state=0)
    X["unit0"][500:540, 1] = -999.25
    with pytest.warns(UserWarning, match="far from all other values"):
        estimator = FederatedGrangerEstimator().fit(X)
    page = estimator.report(tmp_path / "plant.html", X=X).read_text("utf-8")
    lead = re.search('<p class="lead">(.*?)</p>', page)[1]
    assert "2 defects to fix first" in lead
    assert "unit0__x1" in page.split("<h2>The data</h2>")[1]


@pytest.mark.parametrize("facts", [{}, {"has_prior_": True}])  # a prior alone says little: strong links ask for one
def test_an_unqualified_lead_states_what_was_found(facts, tmp_path):
    page = fit_of_a_plant_with(**facts).report(tmp_path / "plant.html").read_text("utf-8")
    assert '<p class="lead">unit0 drives unit1' in page


@pytest.fixture(scope="module")
def whatif_path(tmp_path_factory):
    X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    answer = estimator.whatif(X, {"unit0__u0": lambda u: 0.5 * u + 0.5}, inputs=truth.inputs)
    page = whatif_page(answer, {"unit0__u0": "half as far from one"}, X=X)
    return page.write(tmp_path_factory.mktemp("reports") / "whatif.html"), answer


def test_the_page_of_a_whatif_leads_with_the_largest_mean_effect(whatif_path):
    path, answer = whatif_path
    means = answer.groupby("column")["effect"].mean() / answer.groupby("column")["factual"].std()
    lead = re.search('<p class="lead">(.*?)</p>', path.read_text("utf-8"))[1]
    assert lead.startswith(f"With unit0__u0 half as far from one, {means.abs().idxmax()} would have been")


def test_what_is_no_incident_is_refused(incident, tmp_path):
    detector, _, incidents = incident
    with pytest.raises(ValueError, match="without incidents"):
        detector.report(incidents[:0], tmp_path / "trip.html")
    with pytest.raises(ValueError, match="without ranking, path"):
        detector.report(incidents.drop(columns=["ranking", "path"]), tmp_path / "trip.html")


def test_estimators_with_inputs_and_trained_ones_have_pages(tmp_path):
    X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    page = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs).report(tmp_path / "inputs.html")
    assert "<h2>Inputs</h2>" in page.read_text(encoding="utf-8")
    trained = FederatedGrangerEstimator(server=GradientServer(solve="stationary")).fit(X)
    assert "cannot tell" in trained.report(tmp_path / "trained.html").read_text(encoding="utf-8")


def test_tables_keep_numbers_and_escape_words():
    text = Page("t").table(pd.DataFrame({"<b>": ["a&b"], "n": [1234567], "x": [0.12345], "none": [np.nan]})).html()
    for part in ("&lt;b&gt;", "a&amp;b", "1,234,567", ">0.123<", '<td class="number" data-of="none"></td>'):
        assert part in text
    assert "None." in Page("t").table(pd.DataFrame()).html()


def test_pages_are_there_without_matplotlib_and_say_what_they_miss(tmp_path):
    script = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "from skfedcausal import FederatedGrangerEstimator\n"
        "from skfedcausal.datasets import make_granger_plant\n"
        "X, _ = make_granger_plant(3, links=[(0, 1)], random_state=0)\n"
        "FederatedGrangerEstimator().fit(X).report('plant.html', X=X)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    text = (tmp_path / "plant.html").read_text("utf-8")
    assert text.count("A picture is missing here") == 3
    assert "skfedcausal[plot]" in text
    assert "unit0 drives unit1" in text


def test_titles_headings_and_texts_are_escaped():
    text = Page("Plant <A>").heading("Links").text("boiler & turbine").html()
    assert "Plant &lt;A&gt;" in text
    assert "boiler &amp; turbine" in text


@pytest.mark.parametrize("which", ["plant_page", "incident_page"])
def test_a_real_browser_shows_the_page(which, request, browser):
    path = request.getfixturevalue(which)
    browser.show(path, 1000, 1600)
    dom = browser.value("document.documentElement.outerHTML")
    assert dom.count("<h2>") == path.read_text(encoding="utf-8").count("<h2>")
    assert "<script>" not in dom
    from matplotlib.image import imread

    shown = imread(BytesIO(browser.picture()))[..., :3]
    assert shown.shape[:2] == (1600, 1000)
    assert shown.std() > 0.05  # text and a picture, not a blank page


@pytest.mark.parametrize("width", [1280, 420])
def test_no_page_is_wider_than_its_window(width, plant_page, incident_page, whatif_path, browser):
    for path in (plant_page, incident_page, whatif_path[0]):
        browser.show(path, width)
        assert 0 < browser.width() <= width


def test_shares_of_units_of_several_states_may_be_more_than_all_of_one_direction():
    links = pd.DataFrame({"cause": ["a", "b"], "effect": ["b", "a"], "verdict": "influence", "basis": "held-out gain"})
    links = links.assign(strength=[1.05, 0.5], low=[1.0, 0.4], high=[1.1, 0.6], lag=1.0, because="")
    shares = graded_table(links)["share"]
    assert [share.split("%")[0] for share in shares] == ["105", "50"]
    assert shares[0].count("█") > shares[1].count("█")


def test_labels_of_a_picture_on_less_width_stand_side_by_side():
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, ax = plt.subplots(figsize=(9, 2), layout="constrained")
    ax.plot(np.arange(7.0))
    ax.set_xticks(range(7), [f"{day} September 12:00" for day in range(10, 17)])
    Page("A page").picture(lambda: SimpleNamespace(figure_=figure), "seven days")
    shown = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_visible()]
    assert 2 <= len(shown) < 7
    assert all(one.x1 < other.x0 for one, other in zip(shown[:-1], shown[1:], strict=True))
