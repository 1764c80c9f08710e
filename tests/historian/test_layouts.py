"""Layouts that historians, control systems, databases and simulators write: each gives the same table at first try.

Each is written from the public documentation of its tool; none was taken from one.
"""

import io
import json
import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import PlantTable
from skfedcausal.historian.naming import levels_of, unit_names

TAGS = ["mill.feed", "mill.power", "kiln.temp"]
TIMES = pd.date_range("2026-03-02 08:00", periods=60, freq="10s")
VALUES = np.round(100 + 10 * np.random.default_rng(0).standard_normal((60, 3)), 3)
FRAME = pd.DataFrame(VALUES, index=TIMES, columns=TAGS)
LATER = TIMES + pd.Timedelta("20D")  # on a day that is no month
BAD = 7  # row in which the second tag is bad
LONG = FRAME.rename_axis("time").reset_index().melt("time", var_name="tag")
LONG["good"] = (LONG["tag"] != TAGS[1]) | (LONG["time"] != TIMES[BAD])


def long_of(good, bad, time="%Y-%m-%d %H:%M:%S", names=("tag", "time", "value", "quality"), number="{:.3f}", **how):
    columns = [LONG["tag"], LONG["time"].dt.strftime(time), LONG["value"].map(number.format)]
    table = pd.DataFrame(dict(zip(names, [*columns, np.where(LONG["good"], good, bad)], strict=True)))
    return table.to_csv(index=False, **how)


def wincc():
    names = "VarName", "TimeString", "VarValue", "Validity"
    text = long_of(1, 0, "%d.%m.%Y %H:%M:%S", names, sep=";", quoting=1)
    return re.sub(r"(\d)\.(\d{3})\"", r'\1,\2"', text) + '"$RT_OFF$";"02.03.2026 08:10:00";"0";"2"\n'


def ignition_dataset():
    rows = [
        ",".join(f'"{cell}"' for cell in (f"{t:%b %d, %Y %I:%M:%S %p}", *row))
        for t, row in zip(TIMES, VALUES, strict=True)
    ]
    names = ",".join(f'"[default]{tag.replace(".", "/")}"' for tag in TAGS)
    return "\n".join(
        ['"#NAMES"', f'"t_stamp",{names}', '"#TYPES"', '"date","D","D","D"', f'"#ROWS","{len(rows)}"', *rows]
    )


def influx(**how):
    lines = ["#group,false,false,true,true,false,false,true,true", "#datatype,string,long,dateTime:RFC3339,"
             "dateTime:RFC3339,dateTime:RFC3339,double,string,string", "#default,_result,,,,,,,",
             ",result,table,_start,_stop,_time,_value,_field,unit"]  # fmt: skip
    blocks = []
    for k, tag in enumerate(TAGS):
        unit, field = tag.split(".")
        rows = [f",,{k},2026-03-01T00:00:00Z,2026-03-03T00:00:00Z,{t:%Y-%m-%dT%H:%M:%SZ},{v},{field},{unit}"
                for t, v in FRAME[tag].items()]  # fmt: skip
        blocks.append("\r\n".join([*lines, *rows]))
    return "\r\n\r\n".join(blocks) + "\r\n\r\n"


def pairs():
    parts = {}
    for tag in TAGS:
        parts[f"{tag} time"] = TIMES.strftime("%d-%b-%y %H:%M:%S")
        parts[tag] = [f"{v:.3f}" for v in FRAME[tag]]
    table = pd.DataFrame(parts)
    table.loc[BAD, TAGS[1]] = "I/O Timeout"
    return table.to_csv(index=False)


def pi_web_api():
    def event(time, value, good):
        state = {"Name": "Shutdown", "Value": 254, "IsSystem": True}
        return {"Timestamp": f"{time:%Y-%m-%dT%H:%M:%SZ}", "Value": value if good else state, "Good": bool(good)}

    rows = LONG.groupby("tag", sort=False)
    return json.dumps({"Items": [
        {"Name": tag, "Items": [event(*row) for row in own[["time", "value", "good"]].itertuples(index=False)]}
        for tag, own in rows
    ]})  # fmt: skip


def three_header_lines():
    heads = "Tag," + ",".join(TAGS), "Description,feed of the mill,its power,gas", "Eng. units,t/h,kW,degC"
    rows = [f"{t:%m/%d/%Y %I:%M:%S %p}," + ",".join(map(str, row)) for t, row in zip(LATER, VALUES, strict=True)]
    return "\n".join([*heads, *rows])


WIDE = FRAME.astype(object)
WIDE.iloc[BAD, 1] = "Inp OutRange"

# text, and whether the bad value is in it
LAYOUTS = {
    "PI DataLink": (WIDE.set_axis(TIMES.strftime("%d-%b-%y %H:%M:%S")).to_csv(index_label="Timestamp"), True),
    "PI DataLink, pairs of columns": (pairs(), True),
    "PI Web API, recorded streams": (pi_web_api(), True),
    "AVEVA Historian": (
        long_of(192, 24, "%Y-%m-%d %H:%M:%S.0000000", ("TagName", "DateTime", "Value", "OPCQuality")), True),
    "Ignition, dataset": (ignition_dataset(), False),
    "WinCC": (wincc(), True),
    "UaExpert": (
        long_of("Good (0x00000000)", "BadNotConnected (0x808A0000)", "%Y-%m-%dT%H:%M:%S.%f",
                ("NodeId", "SourceTimestamp", "Value", "StatusCode")).replace("\nmill", "\nns=2;s=mill").replace(
                "\nkiln", "\nns=2;s=kiln"), True),
    "InfluxDB, annotated CSV": (influx(), False),
    "Seeq": (FRAME.set_axis([f"{tag} (%)" for tag in TAGS], axis=1).to_csv(index_label="Date-Time"), False),
    "Aspen, semicolons and decimal commas": (
        WIDE.map(lambda v: str(v).replace(".", ",")).to_csv(sep=";", index_label="Zeitpunkt"), True),
    "three header lines of PHD": (three_header_lines(), False),
    "turned, tags in rows": (FRAME.T.to_csv(index_label="Tag"), False),
    "pandas, an index without a name": (WIDE.to_csv(), True),
    "a Spanish spreadsheet": (WIDE.to_csv(index_label="Fecha y hora"), True),
    "a list of rows in JSON": (FRAME.reset_index(names="ts").to_json(orient="records", date_format="iso"), False),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_read_at_the_first_try(layout, tmp_path):
    text, has_bad = LAYOUTS[layout]
    (tmp_path / "export.csv").write_text(text, newline="")
    plant = PlantTable.read(tmp_path / "export.csv")
    expected = VALUES.copy()
    if has_bad:
        expected[BAD, 1] = np.nan
    order = [k for name in ("feed", "power", "temp") for k, column in enumerate(plant.frame) if name in column]
    assert plant.units == ("mill", "kiln")
    assert_allclose(plant.frame.to_numpy()[:, order], expected)
    assert plant.step == pd.Timedelta("10s")


def test_tables_of_ignition_have_the_numbers_of_their_tags(tmp_path):
    codes, _ = pd.factorize(LONG["tag"])
    data = pd.DataFrame({
        "tagid": codes + 1, "intvalue": np.nan, "floatvalue": LONG["value"], "stringvalue": None, "datevalue": None,
        "dataintegrity": np.where(LONG["good"], 192, 600), "t_stamp": LONG["time"].astype("int64") // 10**3,
    })  # fmt: skip
    data["t_stamp"] = (LONG["time"] - pd.Timestamp(0)) // pd.Timedelta("1ms")
    data.to_csv(tmp_path / "sqlt_data.csv", index=False)
    plant = PlantTable.read(tmp_path / "sqlt_data.csv", units={"mill": ["1", "2"], "kiln": "3"})
    assert_allclose(plant.frame["kiln__3"], FRAME["kiln.temp"])
    assert np.isnan(plant.frame["mill__2"].iloc[BAD])
    assert "sqlt_data of Ignition" in plant.said[0]


def test_a_folder_of_one_file_per_tag_is_named_by_its_files(tmp_path):
    for tag in TAGS:
        FRAME[[tag]].iloc[:: 1 + (tag == "kiln.temp")].set_axis(["Value"], axis=1).to_csv(
            tmp_path / f"{tag}.csv", index_label="Timestamp"
        )
    pd.DataFrame({"Timestamp": TIMES[::7], "Value": "AUTO"}).to_csv(tmp_path / "mill.mode.csv", index=False)
    plant = PlantTable.read(tmp_path)
    assert plant.left_out == {"mill.mode": "holds no numbers"}
    assert_allclose(plant.frame[["mill__feed", "mill__power"]], VALUES[:, :2])
    assert_allclose(plant.frame["kiln__temp"].iloc[::2], VALUES[::2, 2])
    two = PlantTable.read({"mill": [tmp_path / "mill.feed.csv", tmp_path / "mill.power.csv"]})
    assert list(two.frame) == ["mill__mill.feed", "mill__mill.power"]


def test_files_of_one_folder_may_be_one_after_the_other(tmp_path):
    for k in range(3):
        FRAME.iloc[20 * k : 20 * (k + 1)].to_csv(tmp_path / f"{k}.csv", index_label="time")
    assert_allclose(PlantTable.read(tmp_path).frame, VALUES)


def test_a_file_without_a_header_takes_the_names_that_are_given(tmp_path):
    FRAME.to_csv(tmp_path / "plain.csv", header=False)
    plant = PlantTable.read(tmp_path / "plain.csv", names=["time", *TAGS])
    assert_allclose(plant.frame, VALUES)
    with pytest.raises(ValueError, match="Got 2 names for 4 columns"):
        PlantTable.read(tmp_path / "plain.csv", names=["time", "a.x"])


def test_states_in_long_tables_are_left_out_and_few_words_are_bad_values(tmp_path):
    table = LONG.drop(columns="good").astype({"value": object})
    table.loc[3, "value"] = "Kalibrierung"
    modes = pd.DataFrame({"time": TIMES[::5], "tag": "mill.mode", "value": "AUTO"})
    (tmp_path / "long.csv").write_text(pd.concat([table, modes]).sort_values("time").to_csv(index=False))
    plant = PlantTable.read(tmp_path / "long.csv")
    assert plant.left_out == {"mill.mode": "holds no numbers"}
    assert "bad values: 1 cells hold a word in place of a number ('Kalibrierung' 1 times)" in plant.said
    assert plant.frame.isna().sum().tolist() == [1, 0, 0]


def test_the_largest_numbers_of_single_precision_are_no_values():
    table = FRAME.copy()
    table.iloc[[4, 5], 0] = 3.4028235e38, -3.4028235e38
    assert PlantTable.read(table).frame.isna().sum().tolist() == [2, 0, 0]


def test_the_end_of_a_day_may_be_written_as_24_hours():
    times = pd.date_range("2026-03-01 20:00", periods=12, freq="1h").strftime("%d.%m.%Y %H:%M")
    times = [text.replace("02.03.2026 00:00", "01.03.2026 24:00") for text in times]
    text = FRAME[:12].set_axis(times).to_csv(index_label="Zeit")
    plant = PlantTable.read(io.StringIO(text))
    assert plant.step == pd.Timedelta("1h")
    assert_allclose(plant.frame, VALUES[:12])


def test_levels_of_names_tell_units_where_the_first_is_that_of_the_site():
    columns = ["S1.BLR.B01.PT1", "S1.BLR.B01.TT2", "S1.TRB.T01.FT3", "S1.TRB.T01.JT4"]
    assert levels_of(columns) == (".", 2, {"level 1": ["S1"], "level 2": ["BLR", "TRB"], "level 3": ["B01", "T01"]})
    assert list(unit_names(columns)[0].values()) == ["BLR__B01.PT1", "BLR__B01.TT2", "TRB__T01.FT3", "TRB__T01.JT4"]
    assert unit_names(columns, "level 3")[0]["S1.TRB.T01.FT3"] == "TRB.T01__FT3"
    plant = PlantTable.read(FRAME[TAGS].assign(d=1.0).set_axis(columns, axis=1))
    assert "units: BLR, TRB are level 2 of the names (level 1: S1; level 2: BLR, TRB; level 3: B01, T01)" in plant.said
    with pytest.raises(ValueError, match=r"level 4.*have 3 levels"):
        unit_names(columns, "level 4")


def test_rows_late_by_less_than_a_step_are_on_a_round_grid():
    late = TIMES + pd.to_timedelta(np.random.default_rng(1).integers(0, 900, 60), unit="ms")
    plant = PlantTable.read(FRAME.set_axis(late))
    assert "every 10 s" in repr(plant)
    assert len(plant.frame) == 60


def test_workbooks_and_arrow_files(tmp_path):
    pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    with pd.ExcelWriter(tmp_path / "plant.xlsx") as writer:
        pd.DataFrame({"Remarks": ["none"]}).to_excel(writer, sheet_name="Notes", index=False)
        FRAME.rename_axis("Timestamp").to_excel(writer, sheet_name="Data")
    plant = PlantTable.read(tmp_path / "plant.xlsx")
    assert_allclose(plant.frame, VALUES)
    assert "read is 'Data'" in plant.said[0]
    pytest.importorskip("pyarrow")
    FRAME.reset_index(names="time").to_feather(tmp_path / "plant.feather")
    assert_allclose(PlantTable.read(tmp_path / "plant.feather").frame, VALUES)


def test_a_database_in_a_file_is_read_by_its_only_table_or_a_query(tmp_path):
    connection = sqlite3.connect(tmp_path / "plant.db")
    LONG[["time", "tag", "value"]].assign(quality=np.where(LONG["good"], 192, 0)).to_sql(
        "History", connection, index=False
    )
    expected = VALUES.copy()
    expected[BAD, 1] = np.nan
    assert_allclose(PlantTable.read(tmp_path / "plant.db").frame[[f.replace(".", "__") for f in TAGS]], expected)
    FRAME.rename_axis("time").reset_index().to_sql("wide", connection, index=False)
    with pytest.raises(ValueError, match=r"has 2 tables, 'History', 'wide'.*--query"):
        PlantTable.read(tmp_path / "plant.db")
    assert_allclose(PlantTable.read(tmp_path / "plant.db", query='select * from "wide"').frame, VALUES)
    connection.close()


def test_values_of_an_archive_of_changes_hold_up_to_their_usual_silence(tmp_path):
    rng, n = np.random.default_rng(0), 600
    times = pd.date_range("2026-03-02", periods=n, freq="10s")
    full = pd.DataFrame(np.cumsum(rng.standard_normal((n, 3)), axis=0), index=times, columns=TAGS)
    parts = []
    for k, tag in enumerate(TAGS):
        rows = np.unique(np.r_[0, np.flatnonzero(rng.random(n) < 0.4), np.arange(0, n, 20), n - 1])
        rows = rows[(rows < 300) | (rows > 400) | (k > 0)]  # the first one has an outage
        parts.append(pd.DataFrame({"time": times[rows], "tag": tag, "value": full[tag].iloc[rows].to_numpy()}))
    long = pd.concat(parts).sort_values("time").astype({"value": object})
    long = long.reset_index(drop=True)
    bad = np.flatnonzero(long["tag"] == TAGS[2])[50]
    long.loc[bad, "value"] = "Bad"
    (tmp_path / "archive.csv").write_text(long.to_csv(index=False))
    stored = PlantTable.read(tmp_path / "archive.csv")
    assert "have no event; hold='auto'" in stored.said[0]
    held = PlantTable.read(tmp_path / "archive.csv", hold="auto")
    assert "archive: values hold until the next" in held.said[0]
    frame = held.frame
    assert_allclose(frame.where(stored.frame.notna()), stored.frame)
    assert frame["mill__power"].notna().all()
    assert frame["mill__feed"].isna().mean() > 0.1
    assert np.isnan(frame["kiln__temp"][pd.Timestamp(long["time"][bad])])
    short = PlantTable.read(tmp_path / "archive.csv", hold="10s").frame
    assert short.isna().sum().sum() > frame.isna().sum().sum()


# -- columns that are asked for ---------------------------------------------------------------------


def parquet_reads(monkeypatch):
    """Columns of each read of Parquet from now on."""
    reads, read = [], pd.read_parquet

    def noted(file, columns=None, **how):
        reads.append(columns)
        return read(file, columns=columns, **how)

    monkeypatch.setattr(pd, "read_parquet", noted)
    return reads


@pytest.mark.parametrize("indexed", [True, False])
def test_of_parquet_only_the_columns_asked_for_are_read(tmp_path, monkeypatch, indexed):
    pytest.importorskip("pyarrow")
    (FRAME if indexed else FRAME.rename_axis("when").reset_index()).to_parquet(tmp_path / "plant.parquet")
    reads = parquet_reads(monkeypatch)
    plant = PlantTable.read(tmp_path / "plant.parquet", columns=["mill.*"])
    assert_allclose(plant.frame, FRAME[TAGS[:2]])
    assert list(plant.frame) == ["mill__feed", "mill__power"]
    assert plant.frame.index.equals(FRAME.index)
    assert set(reads[0]) == {"__index_level_0__" if indexed else "when", *TAGS[:2]}


def test_of_a_partitioned_folder_only_the_columns_and_tags_asked_for_are_read(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    for month, rows in (("2", slice(30)), ("10", slice(30, None))):
        folder = tmp_path / "by month" / "year=2026" / f"month={month}"
        folder.mkdir(parents=True)
        FRAME.iloc[rows].rename_axis("time").reset_index().to_parquet(folder / "part-0.parquet")
    for tag in TAGS:
        folder = tmp_path / "by tag" / f"tag={tag}"
        folder.mkdir(parents=True)
        FRAME[[tag]].rename(columns={tag: "value"}).rename_axis("time").reset_index().to_parquet(folder / "0.parquet")
    reads = parquet_reads(monkeypatch)
    wanted = [TAGS[0], TAGS[2]]
    by_month = PlantTable.read(tmp_path / "by month", columns=wanted)
    assert reads == [["time", *wanted]] * 2
    by_tag = PlantTable.read(tmp_path / "by tag", columns=wanted)
    assert reads[2:] == [["time", "value"]] * 2
    for plant in (by_month, by_tag):
        assert_allclose(plant.frame[["mill__feed", "kiln__temp"]], FRAME[wanted])


@pytest.mark.parametrize("form", ["wide", "long", "large", "database", "files by tag"])
def test_columns_are_chosen_by_the_same_argument_everywhere(tmp_path, monkeypatch, form):
    text = FRAME.rename_axis("time").to_csv() if form != "long" else long_of("Good", "Good")
    source = io.StringIO(text)
    if form == "large":
        monkeypatch.setattr("skfedcausal.historian.sources._LARGE", 100)
    if form == "large":
        source = tmp_path / "plant.csv"
        source.write_text(text)
    if form == "database":
        source = tmp_path / "plant.db"
        with sqlite3.connect(source) as connection:
            FRAME.rename_axis("time").reset_index().astype({"time": str}).to_sql("history", connection, index=False)
        connection.close()
    if form == "files by tag":
        source = tmp_path
        for tag in TAGS:
            FRAME[[tag]].set_axis(["value"], axis=1).rename_axis("time").to_csv(tmp_path / f"{tag}.csv")
    wanted = ["MILL.power", "kiln.*"]
    plant = PlantTable.read(source, columns=wanted)
    assert_allclose(plant.frame[["mill__power", "kiln__temp"]], FRAME[TAGS[1:]])
    assert plant.frame.shape[1] == 2
    source = io.StringIO(text) if form in ("wide", "long") else source
    with pytest.raises(ValueError, match=r"There is no column 'crusher\.\*' in .*: its columns are"):
        PlantTable.read(source, columns=[*wanted, "crusher.*"])
