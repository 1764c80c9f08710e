"""Table 4 and Figures 6 and 7 of the third paper on generated files in the layout of HAI 23.05."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import _pages
from benchmarks.paper3 import recorded
from skfedcausal.datasets import make_nonlinear_plant

SENSORS = {
    "P1": ("P1_FT01", "P1_LIT01", "P1_PIT01", "P1_TIT01"),
    "P2": ("P2_SIT01", "P2_SIT02", "P2_VT01", "P2_VIBTR01"),
    "P3": ("P3_FIT01", "P3_LIT01", "P3_PIT01", "P3_LIT02"),
}
N_TRAIN, N_TEST = 400, 300
ATTACKS = ((60, 100), (180, 240))


def table(record, extra):
    """Columns of one file: the plant's sensors, and commands that the protocol leaves out."""
    stamps = pd.date_range("2022-08-04 18:00:00", periods=len(record["unit0"]), freq="s")
    columns = {"timestamp": stamps.strftime("%Y-%m-%d %H:%M:%S")}
    for tags, Y in zip(SENSORS.values(), record.values(), strict=True):
        columns |= dict(zip(tags, Y.T, strict=True))
    columns |= {"P1_FCV01D": extra, "P4_ST_PO": extra}
    return pd.DataFrame(columns)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of records in that layout; the attacks push the first process."""
    links = ((0, 1), (1, 2))
    train = make_nonlinear_plant(3, links=links, n_samples=N_TRAIN, size=0, random_state=1).data
    test = make_nonlinear_plant(3, links=links, n_samples=N_TEST, size=0, random_state=2).data
    labels, rng = np.zeros(N_TEST, dtype=int), np.random.default_rng(0)
    for first, stop in ATTACKS:
        test["unit0"][first:stop] += 200.0
        labels[first:stop] = 1
    where = tmp_path / "hai"
    where.mkdir()
    table(train, rng.standard_normal(N_TRAIN)).to_csv(where / "hai-train1.csv", index=False)
    told = table(test, rng.standard_normal(N_TEST))
    told.to_csv(where / "hai-test1.csv", index=False)
    told[["timestamp"]].assign(label=labels).to_csv(where / "label-test1.csv", index=False)
    monkeypatch.setenv("SKFEDCAUSAL_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.medium
def test_table_4_is_made_where_the_records_are(folder):
    settings = _pages.settings("paper3")["recorded"]
    settings["hai"] |= {"epochs": 1, "every": 10}
    assert recorded.missing(settings) == ""
    sections = _pages.compute(recorded, settings)
    assert recorded.FLAGS not in sections
    rows = {(row[""], row["by"]): row for row in sections[recorded.TABLE]}
    for percentile in (95, 99.5):
        assert rows[f"{percentile:g} %, framework", "ours"]["detected"] == 1.0
        assert rows[f"{percentile:g} %, framework", "ours"]["ARL1"] == 1.0
    assert rows["95 %, framework", "paper"]["ARL0"] == 131.0
    assert rows["99.5 %, roots", "ours"]["RCA accuracy"] == 1.0
    assert {row["between"] for row in sections[recorded.FIGURE6]} == {"P1 and P2", "P1 and P3", "P2 and P3"}
    assert len(sections[recorded.FIGURE7]) == 6
    assert "P1, test" in _pages.page(recorded, {"facts": {}, "sections": sections}, settings)


def test_commands_and_the_simulation_are_left_out(folder):
    settings = _pages.settings("paper3")["recorded"]["hai"]
    record = recorded.load_hai(folder / "hai")
    kept = recorded.measured(settings, record)
    assert {column.split("__")[0] for column in kept} == {"P1", "P2", "P3"}
    assert not [column for column in kept if "FCV01D" in column]


def test_a_folder_without_the_records_is_said_before_anything_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SKFEDCAUSAL_DATA", str(tmp_path))
    found, reasons = _pages.run("paper3", {"recorded": recorded}, "full")
    assert found == {}
    assert "none of hai, tep is in the folder" in reasons["recorded"]
    assert "paper3.recorded is left out" in capsys.readouterr().out
