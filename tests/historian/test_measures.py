"""Units of measurement: told by files, names and tables of roles; on axes, in tables and in sentences."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from skfedcausal import PlantTable
from skfedcausal.displays import EffectDisplay, TrendDisplay
from skfedcausal.displays.incidents import TagDisplay
from skfedcausal.historian.times import is_measure
from skfedcausal.reports import whatif_page
from skfedcausal.reports.page import Page, with_measures

N = 60
TIMES = pd.date_range("2026-03-01", periods=N, freq="10s")
VALUES = np.random.default_rng(0).normal(50, 2, (N, 3)).round(3)
TAGS = ["mill.PT1", "mill.FT2 [m3/h]", "kiln.TT3"]
FRAME = pd.DataFrame(VALUES, index=TIMES, columns=TAGS)
KNOWN = {"mill__PT1": "bar", "mill__FT2 [m3/h]": "m3/h", "kiln__TT3": "°C"}


def lines(below):
    head, *body = FRAME.rename_axis("time").to_csv(lineterminator="\n").splitlines()
    return io.StringIO("\n".join([head, *below, *body]))


def long(name):
    table = FRAME.rename_axis("time").reset_index().melt("time", var_name="tag")
    return io.StringIO(table.assign(**{name: table["tag"].map(dict(zip(TAGS, KNOWN.values(), strict=True)))}).to_csv())


def web_api():
    def stream(tag, measure):
        events = [{"Timestamp": f"{t:%Y-%m-%dT%H:%M:%SZ}", "Value": v, "Good": True} for t, v in FRAME[tag].items()]
        return {"Name": tag, "UnitsAbbreviation": measure, "Items": events}

    streams = [stream(tag, measure) for tag, measure in zip(TAGS, KNOWN.values(), strict=True)]
    return io.StringIO(json.dumps({"Items": streams}))


TOLD = {
    "a line below the header": lambda: lines([",bar,,°C"]),
    "a whole line below the header": lambda: lines(["-,bar,m3/h,°C"]),
    "descriptions above it": lambda: lines(["when,pressure of the mill,its feed,at the end", ",bar,m3/h,°C"]),
    "a column of a long table": lambda: long("EngUnits"),
    "a column that is called unit": lambda: long("unit"),
    "web API": web_api,
}


@pytest.mark.parametrize("form", TOLD)
def test_units_of_measurement_are_told_by_the_file(form):
    plant = PlantTable.read(TOLD[form]())
    assert plant.measures == plant.check.measures == KNOWN
    assert len(plant.frame) == N
    assert dict(plant.roles.set_index("column")["measure"]) == KNOWN


def test_other_words_are_no_units_of_measurement():
    plant = PlantTable.read(lines([",pressure,feed,north"]))
    assert plant.measures == {"mill__FT2 [m3/h]": "m3/h"}
    assert PlantTable.read(FRAME.set_axis(["mill.PT1 (north)", "mill.LT2 (old)", "kiln.x"], axis=1)).measures == {}
    assert not any(map(is_measure, ["north", "P1", "on/off", "running", "kiln", "-", "", "42"]))
    assert all(
        map(is_measure, ["bar(g)", "kg/s", "µS/cm", "Nm3/h", "m³/h", "%", "degC", "mm/s", "kWh", "1/min", "W/(m2 K)"])
    )


def test_a_table_of_roles_tells_and_corrects_them(tmp_path):
    plant = PlantTable.read(FRAME)
    roles = plant.roles
    roles.loc[roles["column"] == "kiln__TT3", "measure"] = "°F"
    roles.to_csv(tmp_path / "roles.csv", index=False)
    later = plant.with_roles(tmp_path / "roles.csv")
    assert later.measures == later.check.measures == {"mill__FT2 [m3/h]": "m3/h", "kiln__TT3": "°F"}
    assert later.with_columns(["mill__PT1"]).measures == {}


def test_rates_of_counters_are_measured_per_row():
    counter = np.cumsum(VALUES[:, 0]).round(1)
    plant = PlantTable.read(pd.DataFrame({"mill.FQ1 [m3]": counter, "kiln.y": VALUES[:, 1]}, index=TIMES))
    assert plant.with_rates().measures == {"mill__FQ1 [m3]": "m3 per row"}


def test_axes_tell_the_unit_of_measurement():
    plant = PlantTable.read(lines([",bar,,°C"]))
    labels = [ax.get_title(loc="left") for ax in TrendDisplay.from_record(plant, columns=list(plant.frame)).ax_]
    assert labels == ["mill__PT1 [bar]", "mill__FT2 [m3/h]", "kiln__TT3 [°C]"]
    trend = pd.DataFrame(VALUES[:, [0, 0, 0, 0]], columns=["measured", "expected", "low", "high"])
    trend.index = trend.index.rename("mill__PT1")
    incident = pd.Series({"start": 10, "end": 20})
    assert TagDisplay(trend, incident, plant.measures).plot().ax_.get_title(loc="left") == "mill__PT1 [bar]"
    assert (
        EffectDisplay.from_whatif(answer(), measures=plant.measures).ax_[0, 0].get_title(loc="left") == "kiln__TT3 [°C]"
    )


def answer():
    """An answer of whatif with an effect of three degrees."""
    rows = pd.DataFrame({"time": np.arange(N), "column": "kiln__TT3", "factual": VALUES[:, 2], "effect": 3.0})
    other = rows["factual"] + rows["effect"]
    return rows.assign(counterfactual=other, low=other - 1, high=other + 1, verdict="effect")


def test_sentences_and_tables_of_a_page_tell_the_unit_of_measurement():
    plant = PlantTable.read(lines([",bar,,°C"]))
    page = whatif_page(answer(), {"mill__PT1": "at 5"}, check=plant.check).html()
    assert "With mill__PT1 [bar] at 5, kiln__TT3 [°C] would have been 3 higher on average" in page
    assert '<td class="short" data-of="tag">kiln__TT3 [°C]</td>' in page
    words = Page("", plant.measures).text("Without mill__FT2 [m3/h], or kiln__TT3.").html()
    assert "Without mill__FT2 [m3/h], or kiln__TT3 [°C]." in words
    assert with_measures("nothing of it", KNOWN) == "nothing of it"
    assert "°C" in plant.check._repr_html_()
