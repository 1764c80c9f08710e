"""Files as they come out of plants: letters, separators, lines around the header, times, names."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from skfedcausal import PlantTable, read_historian
from skfedcausal.__main__ import main
from skfedcausal.historian import sources
from skfedcausal.historian.naming import unit_names

COLUMNS = [f"{unit}.{tag}" for unit in ("mill", "kiln") for tag in ("s0", "s1", "s2")]
TIMES = pd.date_range("2026-03-02 08:00", periods=200, freq="10s")
VALUES = np.round(100 + 10 * np.random.default_rng(0).standard_normal((200, 6)), 3)
FRAME = pd.DataFrame(VALUES, columns=COLUMNS)
STAMPS = TIMES.strftime("%Y-%m-%d %H:%M:%S")
NAMES = [name.replace(".", "__") for name in COLUMNS]


def text_of(times=STAMPS, frame=FRAME, **how):
    return frame.assign(time=times)[["time", *frame]].to_csv(index=False, **how)


PLAIN = text_of()
HEAD, *BODY = PLAIN.splitlines()


def with_lines(*above, below=(), head=HEAD, body=BODY, end=()):
    return "\n".join([*above, head, *below, *body, *end])


SEMICOLONS = text_of(sep=";", decimal=",")
WHOLE_NUMBERS = [int(time.timestamp()) for time in TIMES]
GERMAN = [text.replace("Mar", "Mrz") for text in TIMES.strftime("%d-%b-%Y %H:%M:%S")]
DATE_AND_TIME = FRAME.assign(Datum=TIMES.strftime("%d.%m.%Y"), Uhrzeit=TIMES.strftime("%H:%M:%S"))
THOUSANDS = [row.split(",")[0] + "".join(f',"{1000 * float(x):,.1f}"' for x in row.split(",")[1:]) for row in BODY]
UNITS_OF_MEASUREMENT = "," + ",".join(["degC", "bar", "1/min"] * 2)
LOWER = "time," + ",".join(name.partition(".")[2] for name in COLUMNS)

# the same record, written in many ways
SAME = {
    "tabs": text_of(sep="\t"),
    "blanks": text_of(TIMES.strftime("%Y-%m-%dT%H:%M:%S"), sep=" "),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16 without a mark": PLAIN.encode("utf-16-le"),
    "UTF-16, other order": PLAIN.encode("utf-16-be"),
    "a mark before UTF-8": PLAIN.encode("utf-8-sig"),
    "Excel, semicolons": SEMICOLONS,
    "Excel, its own first line": "sep=;\n" + SEMICOLONS,
    "lines of a Mac": PLAIN.replace("\n", "\r"),
    "quotes": text_of(quoting=1),
    "lines above": with_lines("Export of PI,,,,,,", "Created 2026-04-01 by Meier,,,,,,"),
    "remarks above": with_lines("# Export of PI", "# by Meier, 2026", ""),
    "units of measurement below": with_lines(below=["-" + UNITS_OF_MEASUREMENT]),
    "descriptions and units below": with_lines(below=["," + ",".join(["feed of the mill"] * 6), UNITS_OF_MEASUREMENT]),
    "two header lines": with_lines(head=",mill,mill,mill,kiln,kiln,kiln", below=[LOWER]),
    "merged cells above": with_lines(",mill,,,kiln,,", head=LOWER, below=[UNITS_OF_MEASUREMENT]),
    "a line below the table": with_lines(end=["", "Total rows: 200"]),
    "separators at the ends": with_lines(body=[f"{line},," for line in BODY]),
    "local times": text_of(TIMES.strftime("%d.%m.%Y %H:%M:%S"), sep=";", decimal=","),
    "PI's times": text_of(TIMES.strftime("%d-%b-%y %H:%M:%S")),
    "German months": text_of(GERMAN),
    "seconds": text_of(WHOLE_NUMBERS),
    "milliseconds": text_of([1000 * number for number in WHOLE_NUMBERS]),
    "days of Excel": text_of([f"{number / 86400 + 25569:.6f}" for number in WHOLE_NUMBERS]),
    "digits alone": text_of(TIMES.strftime("%Y%m%d%H%M%S")),
    "date and time apart": DATE_AND_TIME[["Datum", "Uhrzeit", *COLUMNS]].to_csv(index=False),
    "newest first": with_lines(body=BODY[::-1]),
    "row numbers": FRAME.assign(time=STAMPS)[["time", *COLUMNS]].to_csv(),
    "long": FRAME.assign(ts=STAMPS).melt("ts", var_name="tag").to_csv(index=False),
    "packed": gzip.compress(PLAIN.encode()),
}  # fmt: skip


def packed(names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, PLAIN)
    return file.getvalue()


def written_to(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("form", SAME)
def test_a_record_is_the_same_in_whatever_form(form, tmp_path):
    plant = PlantTable.read(written_to(tmp_path / "plant.csv", SAME[form]))
    assert list(plant.frame) == NAMES
    np.testing.assert_allclose(plant.frame, VALUES, atol=1e-9)
    assert (plant.frame.index.tz_localize(None) == TIMES).all()


def test_parquet_and_archives_by_what_they_hold(tmp_path):
    frame = FRAME.set_axis(TIMES)
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "plant.parquet")
    (tmp_path / "plant.csv").write_bytes((tmp_path / "plant.parquet").read_bytes())
    for path in (*tmp_path.glob("plant.*"), written_to(tmp_path / "a.zip", packed(["plant.csv"]))):
        np.testing.assert_array_equal(PlantTable.read(path).frame, VALUES)


SAID = {
    "lines above": "2 lines above the header ('Export of PI', 'Created 2026-04-01 by Meier')",
    "units of measurement below": "a line of words below the header ('-', 'degC', 'bar', '1/min', ... (3 more))",
    "two header lines": "names: of two lines of the header together",
    "a line below the table": "left out: row 201 without a time",
}


@pytest.mark.parametrize("form", SAID)
def test_what_was_made_of_lines_is_said(form):
    assert SAID[form] in repr(PlantTable.read(io.StringIO(SAME[form])))
    with pytest.warns(UserWarning, match="unit 'P1': "):
        read_historian({"P1": io.StringIO(SAME[form])})


def test_rows_without_a_time_are_left_out_and_said():
    body = [line if k not in (5, 80) else line[19:] for k, line in enumerate(BODY)]
    plant = PlantTable.read(io.StringIO(with_lines(body=body)))
    assert "left out: 2 rows, the first is row 6, without a time" in plant.said
    assert plant.frame.isna().all(axis=1).sum() == 2
    with pytest.raises(ValueError, match=r"No row of .* has a time"):
        PlantTable.read(io.StringIO(with_lines(body=[line[19:] for line in BODY])))


def test_a_name_over_two_columns_and_one_of_two_lines():
    plant = PlantTable.read(
        io.StringIO(with_lines(head=HEAD.replace("s1", "s0", 1).replace("kiln.s2", '"kiln.s2\n[t/h]"')))
    )
    assert list(plant.frame)[1] == "mill__s0.1"
    assert list(plant.frame)[5] == "kiln__s2 [t/h]"
    assert "'mill.s0' stands over 2 columns" in plant.said[0]


def test_commas_between_thousands():
    plant = PlantTable.read(io.StringIO(with_lines(body=THOUSANDS)))
    np.testing.assert_allclose(plant.frame, 1000 * VALUES, atol=0.051)


def test_the_first_rows_may_be_bad():
    bad = "2026-03-02 07:59:50" + ",Bad" * 6
    assert PlantTable.read(io.StringIO(with_lines(below=[bad]))).frame.iloc[0].isna().all()
    long = "time,tag,value,quality\n" + "".join(f"2026-03-02 08:00:{k}0,mill.a,Bad,Bad\n" for k in range(3))
    assert read_historian({"P1": io.StringIO(long + "2026-03-02 08:00:30,mill.a,1,Good\n")}).shape == (4, 1)


REFUSED = {
    "an archive of two": (packed(["a.csv", "b.csv"]), "archive of 2 files .*'a.csv', 'b.csv'.*UNIT=FILE"),
    "half an archive": (packed(["a.csv"])[:40], "cannot be unpacked"),
    "no text": (np.random.default_rng(0).bytes(5000), "holds no text: export it as CSV"),
    "JSON": ('{"a": {"b": [1, {"c": 2}]}}', "JSON that is no table.* export it as CSV"),
    "a page of a browser": ("<html></html>", "XML or a page of a browser"),
    "a pickle": (b"\x80\x05rest", "is a pickle, which runs what is in it"),
    "no header": ("\n".join(BODY), "has no header: its first line is 2026-03-02 08:00:00.*--names"),
    "nothing": ("", "export is empty"),
    "a header": (HEAD, "a header and no rows below it"),
    "one row": (with_lines(body=BODY[:1]), "The record has one row"),
    "decimal commas between commas": (with_lines(body=[x.replace(".", ",") for x in BODY]), "Are these decimal commas"),
    "a row that is too long": (with_lines(end=[BODY[0] + ",1,2"]), "different numbers of columns"),
    "values and words": (text_of(frame=FRAME.map("{:.2f} each".format)), "one number per cell, without its unit"),
    "times without a date": (text_of(TIMES.strftime("%H:%M:%S")), "have no date.*'08:00:00'"),
    "dates both ways": (text_of(TIMES.strftime("%m/%d/%Y %H:%M:%S")), "dayfirst=False .--dayfirst, --no-dayfirst"),
    "times that are none": (text_of("soon"), "Cannot read the times .*Write them as"),
    "registers": (PLAIN.replace("mill.s", "4000").replace("kiln.s", "4001"), "No unit in .*leave other columns out"),
    "a long table with two numbers": (
        FRAME.assign(time=STAMPS).melt("time", var_name="Was", value_name="Viel").assign(Rest=2.5).to_csv(index=False),
        "a row for every value: its tags in 'Was' and its values in 'Viel', 'Rest'.*'tag' and 'value'",
    ),
    "a long table without a header": (
        FRAME.assign(time=STAMPS).melt("time")[["variable", "time", "value"]].to_csv(index=False, header=False),
        "has no header: its first line is mill.s0, 2026",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_do(mistake, tmp_path):
    content, sentence = REFUSED[mistake]
    with pytest.raises(ValueError, match=f"(?s){sentence}"):
        PlantTable.read(written_to(tmp_path / "plant.csv", content))


def test_names_of_pi_have_their_server_off_and_units_of_several_tags():
    names, _ = unit_names([rf"\\PISRV\{unit}:TI{k}.PV" for unit in ("MILL", "KILN") for k in (1, 2)])
    assert list(names.values()) == ["MILL__TI1.PV", "MILL__TI2.PV", "KILN__TI1.PV", "KILN__TI2.PV"]
    paths = [rf"\\AF\Plant\{unit}|{tag}" for unit in ("Mill", "Kiln") for tag in ("Power", "Speed|Setpoint")]
    assert unit_names(paths)[0][paths[-1]] == r"Kiln__Speed\Setpoint"
    assert set(unit_names(["a.x", "b.y"])[0].values()) == {"a__x", "b__y"}
    assert unit_names(["P1TI1", "P2TI1"], "(P[0-9]+)(.+)")[0] == {"P1TI1": "P1__TI1", "P2TI1": "P2__TI1"}


@pytest.mark.medium
@pytest.mark.parametrize("word", ["--no-dayfirst", "--dayfirst"])
def test_the_command_takes_the_order_of_dates_and_the_column_of_times(word, tmp_path, capsys):
    path = written_to(tmp_path / "plant.csv", text_of(TIMES.strftime("%m/%d/%Y %H:%M:%S")).replace("time", "Wann"))
    assert main(["links", str(path), "--time", "wann", word, "--out", str(tmp_path / "out")]) == 0
    assert ("2026-03-02 08:00:00" if word.startswith("--no") else "2026-02-03 08:00:00") in capsys.readouterr().out


@pytest.mark.parametrize(
    "form", ["tabs", "Excel, semicolons", "lines above", "two header lines", "a mark before UTF-8"]
)
def test_large_files_are_read_as_small_ones_without_all_of_their_text(form, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_LARGE", 100)
    monkeypatch.setattr(sources, "parsed", None)  # that reads a text as a whole
    content = SAME[form]
    plant = PlantTable.read(written_to(tmp_path / "plant.csv", content))
    np.testing.assert_allclose(plant.frame, VALUES, atol=1e-9)
