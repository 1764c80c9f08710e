"""The check as a table to sort and to search, in a notebook and as a page, in a real browser."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from skfedcausal import check_plant
from skfedcausal.datasets import make_granger_plant
from skfedcausal.quality.report import sketch

UNIT = "<script>alert(1)</script>boiler"


@pytest.fixture(scope="module")
def check():
    X, _ = make_granger_plant(3, names=[UNIT, "turbine", "water"], random_state=0)
    X["turbine"][300:900, 2] = 7.2
    X["water"][100:400, 1] = np.nan
    return check_plant(X)


@pytest.fixture(scope="module")
def page(check, tmp_path_factory):
    return check.report(tmp_path_factory.mktemp("check") / "check.html", title="Plant <A>")


def test_every_text_is_escaped_and_nothing_is_fetched(page):
    text = page.read_text("utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "Plant &lt;A&gt;" in text
    assert not re.search(r"https?://|@import|url\(|src=", text)


def test_a_notebook_shows_every_unit_finding_and_tag(check):
    text = check._repr_html_()
    assert text.count("<tr>") == 3 + len(check.units) + len(check.findings) + len(check.tags)
    assert text.count("<svg") == 2 * len(check.tags)
    one, other = (re.search('id="(check-[0-9a-f]+)"', check._repr_html_())[1] for _ in range(2))
    assert one != other  # two in one notebook do not answer to each other's buttons


def test_a_sketch_counts_every_value_once_and_keeps_gaps():
    values = np.r_[np.zeros(300), np.full(300, np.nan), np.ones(600)]
    found = sketch(values)
    assert sum(found.counts) == 900
    assert found.counts[0] == 300
    assert found.counts[-1] == 600
    assert np.isnan(found.course).sum() == 15  # a quarter of sixty
    assert sketch(np.full(5, np.nan)) is None


def test_a_tag_without_values_and_a_check_without_findings_are_shown():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((300, 2)), columns=["a__x", "b__x"])
    assert "a__x" in check_plant(X.assign(a__y=np.nan))._repr_html_()
    assert "Findings (0)" in check_plant(X)._repr_html_()


@pytest.mark.medium
def test_a_click_sorts_and_another_turns_the_order(page, browser):
    script = """(() => {
      const head = [...document.querySelectorAll(".tags th")].find(th => th.textContent === "highest");
      const rows = () => [...document.querySelectorAll(".tags tbody tr")];
      const column = () => rows().map(row => +row.cells[head.cellIndex].dataset.by);
      head.click(); const up = column(); head.click(); return JSON.stringify([up, column()]);
    })()"""
    browser.show(page)
    up, down = json.loads(browser.value(script))
    assert up == sorted(up)
    assert down == sorted(up, reverse=True)
    assert len(set(up)) > 1


@pytest.mark.medium
def test_a_click_on_a_unit_shows_its_findings(page, browser):
    script = """(() => {
      const row = [...document.querySelectorAll(".units tbody tr")].find(row => row.cells[0].textContent === "turbine");
      row.click();
      return [...document.querySelectorAll(".findings tbody tr:not([hidden])")].map(row => row.cells[0].textContent)
        .join() + "|" + document.querySelector(".findings").hidden;
    })()"""
    browser.show(page)
    units, hidden = browser.value(script).split("|")
    assert set(units.split(",")) == {"turbine"}
    assert hidden == "false"


@pytest.mark.medium
def test_a_search_leaves_the_rows_that_have_all_words(page, browser):
    script = """(() => {
      const box = document.querySelector("input"); box.value = "Water x1"; box.dispatchEvent(new Event("input"));
      return [...document.querySelectorAll(".tags tbody tr:not([hidden])")].map(row => row.cells[1].textContent).join();
    })()"""
    browser.show(page)
    assert browser.value(script) == "water__x1"


@pytest.mark.medium
@pytest.mark.parametrize("width", [1280, 420])
def test_the_table_fits_its_window(page, browser, width):
    browser.show(page, width)
    assert 0 < browser.width() <= width
