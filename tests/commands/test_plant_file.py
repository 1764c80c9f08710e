"""The commands on one's own file write a table, pictures and the report."""

import json
from argparse import Namespace

import numpy as np
import pandas as pd
import pytest

from skfedcausal import PlantTable
from skfedcausal.__main__ import main
from skfedcausal.commands.inputs import with_columns
from skfedcausal.commands.plant_file import moving
from skfedcausal.datasets import make_granger_plant
from skfedcausal.historian.naming import unit_names

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def plant_csv(tmp_path_factory):
    """Two units, an input, a pump that never ran, a disturbance near the end."""
    X, _ = make_granger_plant(
        2, names=["boiler", "turbine"], n_samples=2000, n_sensors=4, n_inputs=1, links=[(0, 1)],
        link_strength=0.3, input_links=[(0, 1)], container="frame", random_state=0,
    )  # fmt: skip
    own = X.filter(like="turbine__s")
    X.loc[1700:1760, own.columns] = own.loc[1700:1760] + 3 * own.std()
    X["boiler__pump"] = 0.0
    path = tmp_path_factory.mktemp("plant") / "plant.csv"
    times = pd.date_range("2026-03-01", periods=2000, freq="10s", name="time")
    X.set_axis(times).rename(columns=lambda name: name.replace("__", ".")).to_csv(path)
    return path


def test_columns_with_a_value_now_and_then_are_left_out_of_every_question(capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((900, 2)), columns=["mill__x", "kiln__y"]).assign(LAB__ash=np.nan)
    frame.loc[::300, "LAB__ash"] = [6.1, 6.3, 5.9]
    assert moving(PlantTable.read(frame)).units == ("mill", "kiln")
    assert "Left out because few rows have a value of them: LAB__ash" in capsys.readouterr().out


@pytest.mark.medium
def test_links(plant_csv, tmp_path, capsys):
    assert main(["links", str(plant_csv), "--clients", "prefix", "--out", str(tmp_path)]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {
        "check.csv", "check.html", "links.csv", "links.png", "report.html", "roles.csv",
    }  # fmt: skip
    links = pd.read_csv(tmp_path / "links.csv")
    assert ("boiler", "turbine") in set(zip(links["cause"], links["effect"], strict=True))
    said = capsys.readouterr().out
    assert "boiler__pump" in said
    assert "boiler turbine" in said


@pytest.mark.medium
def test_whatif(plant_csv, tmp_path, capsys):
    words = ["whatif", str(plant_csv), "--inputs", "boiler__u0,turbine__u0", "--out", str(tmp_path)]
    assert main([*words, "--do", "boiler__u0=+1", "--do", "turbine__u0=hold"]) == 0
    assert {"whatif.csv", "whatif.png", "plant.html", "report.html"} <= {p.name for p in tmp_path.iterdir()}
    table = pd.read_csv(tmp_path / "whatif.csv")
    names = ["time", "column", "factual", "counterfactual", "effect", "low", "high", "trust", "verdict"]
    assert list(table) == names
    head = capsys.readouterr().out.partition("Mean effect:\n")[2].splitlines()[0]
    assert head.split() == ["tag", "effect", "low", "high", "verdict"]


INPUTS = ["--inputs", "boiler__u0,turbine__u0"]


@pytest.mark.medium
def test_impact(plant_csv, tmp_path, capsys):
    words = ["impact", str(plant_csv), *INPUTS, "--out", str(tmp_path)]
    window = ["--from", "2026-03-01 02:46:40", "--to", "2026-03-01 02:50:00"]  # rows 1000 to 1020
    assert main([*words, *window, "--moved", "boiler__u0", "--sampled", "after", "--limit", "boiler__s0=-50:50"]) == 0
    assert {"impact.csv", "impact.png", "rows.csv", "plant.html", "report.html"} <= {p.name for p in tmp_path.iterdir()}
    total = pd.read_csv(tmp_path / "impact.csv").set_index("column")
    rows = pd.read_csv(tmp_path / "rows.csv")
    inside = rows[rows["time"].between("2026-03-01 02:46:40", "2026-03-01 02:49:55")]
    np.testing.assert_allclose(total["total"], inside.groupby("column")["effect"].sum().loc[total.index])
    said = capsys.readouterr().out
    assert "From 2026-03-01 02:46:40 to 2026-03-01 02:49:50 the move of 'boiler__u0'" in said
    assert "tag  effect" in said
    assert "boiler__s0" in (tmp_path / "report.html").read_text()


@pytest.mark.medium
def test_impact_of_a_change_that_was_not_made(plant_csv, tmp_path, capsys):
    words = ["impact", str(plant_csv), *INPUTS, "--out", str(tmp_path), "--from", "1000", "--to", "1020"]
    settings = ["--sampled", "boiler__u0=after", "--horizon", "15", "--react", "--confidence", "0.8", "--margin", "0.2"]
    assert main([*words, "--do", "boiler__u0=+2", *settings]) == 0
    table = pd.read_csv(tmp_path / "rows.csv")
    assert table["time"].nunique() == 1015
    assert "other values of 'boiler__u0' would have" in capsys.readouterr().out
    moved = table[table["effect"] != 0]
    assert set(moved["column"].str.split("__").str[0]) == {"boiler", "turbine"}


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--from", "10"], "Give --moved INPUT for what a move did, or --do"),
        (["--from", "10", "--moved", "boiler__u0", "--do", "boiler__u0=1"], "Give --moved INPUT"),
        (["--from", "20", "--to", "10", "--moved", "boiler__u0"], "rows 20 to 10 of 2000: that window is empty"),
        (["--from", "noon", "--moved", "boiler__u0"], "'noon' is not a time such as 2026-03-01 00:00:00"),
        (["--from", "0", "--moved", "boiler__u0"], "'boiler__u0' has no value before the window"),
        (["--from", "9", "--moved", "boiler__v"], "'boiler__v' has no value before the window"),
        (["--from", "9", "--do", "boiler__u0=1", "--sampled", "often"], "give one of 'auto', 'after', 'before'"),
        (["--from", "9", "--do", "boiler__u0=1", "--limit", "boiler__s0=1"], "give TAG=LOW:HIGH with two numbers"),
        (["--from", "9", "--do", "boiler__u0=1", "--instrument", "x"], "Got --instrument 'x'; give a name, '='"),
    ],
)
def test_questions_that_mean_nothing_are_refused(plant_csv, tmp_path, capsys, words, match):
    assert main(["impact", str(plant_csv), *INPUTS, *words, "--max-time", "1", "--out", str(tmp_path)]) == 1
    assert match in capsys.readouterr().err


def test_tags_are_named_as_in_the_plant():
    columns = ["TRB__T01.JIC202.SP", "TRB__T01.FT201.PV", "BLR__T01.FT201.PV"]
    asked = {"do": ["SITE1.TRB.T01.JIC202.SP=+5"], "sampled": ["before"], "limit": ["FT201.PV=0:9"]}
    moved = {"moved": ["JIC202.SP"], "instrument": ["TRB/T01/JIC202/SP=SITE1.BLR.T01.FT201.PV"]}
    options = with_columns(Namespace(inputs="TRB.T01.JIC202.SP, BLR__T01.FT201.PV", **asked, **moved), columns)
    assert options.inputs == [columns[0], columns[2]]
    assert (options.do, options.moved) == ([f"{columns[0]}=+5"], [columns[0]])
    assert options.instrument == [f"{columns[0]}={columns[2]}"]
    assert (options.sampled, options.limit) == (["before"], ["FT201.PV=0:9"])  # a word, and two units' tag


@pytest.mark.medium
def test_rca(plant_csv, tmp_path, capsys):
    assert main(["rca", str(plant_csv), "--nominal", "0.7", "--out", str(tmp_path)]) == 0
    incidents = pd.read_csv(tmp_path / "incidents.csv")
    assert (tmp_path / "incident_1.html").exists()
    assert (tmp_path / "incident_1.png").exists()
    later = incidents[incidents["detected"] >= "2026-03-01 04:43"]
    assert later["root"].iloc[0] == "turbine"
    told = capsys.readouterr()
    assert "turbine" in told.out
    assert told.err.splitlines()[0] == "Starting ..."
    tags = pd.read_csv(tmp_path / "incident_1_tags.csv")
    assert tags["tag"].str.startswith("turbine__" if incidents["root"].iloc[0] == "turbine" else "").all()
    assert (tmp_path / "incident_1_tag.png").exists()
    assert "Which tag of" in (tmp_path / "incident_1.html").read_text()
    options = ["--nominal", "2026-03-01 04:00", "--false-alarms", "20 per day"]
    assert main(["rca", str(plant_csv), *options, "--out", str(tmp_path / "again")]) == 0


@pytest.mark.medium
def test_columns_that_most_nominal_rows_lack_are_left_out_by_name(plant_csv, tmp_path, capsys):
    table = pd.read_csv(plant_csv, index_col="time", parse_dates=True)
    for k in range(3):
        table[f"spare.s{k}"] = np.random.default_rng(k).standard_normal(len(table))
        table.iloc[: 1300 + k, table.columns.get_loc(f"spare.s{k}")] = np.nan
    path = tmp_path / "sparse.csv"
    table.to_csv(path)
    assert main(["rca", str(path), "--nominal", "0.7", "--anyway", "--out", str(tmp_path / "out")]) == 0
    said = "most nominal rows have no value of them: spare__s0, spare__s1, spare__s2"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["links", "nowhere.csv"], "nowhere.csv"),
        (["whatif", "{}", "--inputs", "boiler__v", "--do", "boiler__v=1"], "--inputs names 'boiler__v'"),
        (["whatif", "{}", "--inputs", "boiler__u0", "--do", "boiler__u0=much"], "give INPUT=VALUE"),
        (["rca", "{}", "--nominal", "1.0"], "both parts need some"),
        (["rca", "{}", "--false-alarms", "seldom"], "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(plant_csv, tmp_path, capsys, words, match):
    words = [word.format(plant_csv) for word in words]
    assert main([*words, "--out", str(tmp_path)]) == 1
    assert match in capsys.readouterr().err


def test_units_of_columns(tmp_path):
    assert unit_names(["P1/F_1", "P2/F_2"])[0] == {"P1/F_1": "P1__F_1", "P2/F_2": "P2__F_2"}
    assert unit_names(["P1_F.1", "P2_F"])[0]["P2_F"] == "P2__F"
    owners = tmp_path / "units.json"
    owners.write_text(json.dumps({"mill": ["F1"], "kiln": ["T*"]}))
    assert unit_names(["F1", "T1", "L9"], owners) == ({"F1": "mill__F1", "T1": "kiln__T1"}, ["L9"])
    with pytest.raises(ValueError, match="No unit in the columns 'F1'"):
        unit_names(["F1", "T1"])
    with pytest.raises(ValueError, match="'kiln' names 'T7', and there is no such column"):
        unit_names(["F1", "T1"], {"mill": "F1", "kiln": ["T7"]})


MIXED = ["BOILER1:LT100", "BOILER1-TI102", "BOILER1/PIC103/PV", "COND.FT_105.PV", "cond_fic101"]


@pytest.mark.parametrize(
    "pattern",
    ["prefix", "{unit}[:/._-]{tag}", r"(?P<unit>[A-Za-z]+\d*)[:/._-](?P<tag>.+)", r"([a-z]+\d*)[-:/._]", "*[:/._-]*"],
)
def test_names_with_mixed_separators(pattern):
    names, others = unit_names(MIXED, pattern)
    assert [name.partition("__")[0].upper() for name in names.values()] == ["BOILER1"] * 3 + ["COND"] * 2
    assert len({name.partition("__")[0] for name in names.values()}) == 2
    assert not others


def test_files_without_times(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("a__x,b__x\n1,2\n,3\n")
    np.testing.assert_array_equal(PlantTable.read(path).frame, [[1, 2], [np.nan, 3]])
    with pytest.raises(ValueError, match="no column of times"):
        PlantTable.read(path, every="10s")


@pytest.mark.medium
def test_what_has_to_be_fixed_first_stops_a_command_with_code_2(plant_csv, tmp_path, capsys):
    table = pd.read_csv(plant_csv, nrows=1000)
    table.loc[[30, 400, 700, 950], "boiler.s0"] = -999.25
    table["Operator"] = "Meier"
    table.insert(0, "x", table.pop("Operator"))
    path = tmp_path / "bad.csv"
    table.drop(index=[50, 51, 900]).to_csv(path, index=False, sep=";", decimal=",")
    words = ["links", str(path), "--out", str(tmp_path / "out"), "--units", "{unit}.{tag}"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "fix first" in error
    assert "-999.25" in error
    assert "--anyway" in error
    assert main([*words, "--fix"]) == 0
    said = capsys.readouterr().out
    assert "left out: 'x' holds no numbers" in said
    assert "fill values: -999.25 in 4 cells of 1 tag set to missing ('boiler__s0')" in said
    assert "grid: 3 missing rows" in said
    assert ("boiler", "turbine") in set(
        pd.read_csv(tmp_path / "out" / "links.csv")[["cause", "effect"]].itertuples(index=False)
    )
    assert main([*words, "--fix", "stuck,grid", "--anyway"]) == 0
    assert "Note: not fixed: boiler: fill value" in capsys.readouterr().err
    assert main([*words, "--bad", "-999.25"]) == 0
    assert main([*words, "--fix=everything"]) == 1
    assert "choose of 'fill values'" in capsys.readouterr().err


@pytest.mark.medium
def test_names_in_tables_are_no_formulas(tmp_path):
    X, _ = make_granger_plant(2, n_samples=600, links=[(0, 1)], link_strength=0.4, random_state=0)
    names = ['=HYPERLINK("http://x";"y")', "+cmd|' /C calc'!A0"]
    columns = [f"{name}__x{k}" for name, Y in zip(names, X.values(), strict=True) for k in range(Y.shape[1])]
    times = pd.date_range("2026-03-01", periods=600, freq="10s", name="time")
    pd.DataFrame(np.hstack(list(X.values())), times, columns).to_csv(tmp_path / "plant.csv")
    assert main(["links", str(tmp_path / "plant.csv"), "--out", str(tmp_path / "out")]) == 0
    cells = pd.concat([pd.read_csv(path).astype(str).stack() for path in (tmp_path / "out").glob("*.csv")])
    assert {f"'{name}" for name in names} <= set(cells)
    assert not cells.str.match(r"[=+@\t\r]|-(?![\d.]+)").any()
