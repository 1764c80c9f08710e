"""Files as programs and plants of many countries write them are read at the first try."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import PlantTable

TIMES = pd.date_range("2026-03-13 20:00", periods=120, freq="7min")
STEP = pd.Timedelta("7min")
TAGS = ["KILN.TT101", "KILN.PT102", "MILL.JT201"]
FRAME = pd.DataFrame(np.random.default_rng(0).normal(5000, 60, (120, 3)).round(2), TIMES, TAGS)
BAD = np.random.default_rng(1).random(FRAME.shape) < 0.05
HOLED = FRAME.mask(BAD)
GERMAN = [
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
]  # fmt: skip
FRENCH = ["janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."]
UTC = FRAME.tz_localize("UTC")


def comma(value):
    return f"{value:.2f}".replace(".", ",")


def wide(stamp, separator=";", number=comma, frame=FRAME, above="", head="Zeit", below=""):
    """A table with a line of names, and lines above and below it."""
    rows = [
        separator.join([stamp(time), *map(number, row)])
        for time, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
    return above + "\n".join([separator.join([head, *TAGS]), *rows]) + "\n" + below


def long(head, stamp, words, separator=",", number=str):
    """A line for every value, with one of two words for its quality."""
    cells = [(k, j) for j in range(len(TAGS)) for k in range(len(FRAME))]
    rows = [(TAGS[j], stamp(TIMES[k]), number(FRAME.iat[k, j]), words[int(BAD[k, j])]) for k, j in cells]
    return "\n".join([head, *(separator.join(row) for row in rows)])


def recorder():
    times = pd.date_range("2026-03-13", periods=120, freq="500ms")
    stamp = "{:%Y/%m/%d,%H:%M:%S}".format
    frame = FRAME.set_axis(times)
    text = wide(
        lambda t: f"{stamp(t)},{t.microsecond // 1000}",
        ",",
        str,
        frame,
        "Device Type,GX20\nSerial No.,S5T1\n\n",
        "Date,Time,msec",
    )
    return text, frame


def qualities():
    names = ",".join(f"{tag}.Value,{tag}.Quality" for tag in TAGS)
    cells = FRAME.astype(str) + np.where(BAD, ",Bad", ",Good")
    rows = [",".join([str(time), *row]) for time, row in zip(TIMES, cells.to_numpy(), strict=True)]
    return "\n".join([f"Time,{names}", *rows]), HOLED


def in_zones():
    times = pd.date_range("2026-10-24 22:00", periods=120, freq="7min", tz="UTC")
    local = FRAME.set_axis(times.tz_convert("Europe/Berlin"))
    return wide(lambda t: f"{t:%d.%m.%Y %H:%M:%S} {t.tzname()}", frame=local), FRAME.set_axis(times)


def with_lines_below(names, *lines, rows):
    """A header, lines below it, and rows of numbers behind a counter or a time."""
    return "\n".join([names, *lines, *rows]) + "\n"


def numbered(stamp):
    cells = (",".join(map(str, row)) for row in FRAME.to_numpy())
    return [f"{stamp(k, time)},{own}" for k, (time, own) in enumerate(zip(FRAME.index, cells, strict=True))]


HEADS = ",".join(TAGS)
FORMATS = {
    "Campbell Scientific, TOA5": (
        with_lines_below(
            '"TOA5","CR1000","CR1000","1031","CR1000.Std.00.60","CPU:Test.CR1","4062","Test"',
            f'"TIMESTAMP","RECORD",{HEADS}',
            '"TS","RN","Deg C","kPa","kW"',
            '"","","Avg","Smp","Smp"',
            rows=numbered(lambda k, time: f'"{time}",{k}'),
        ),
        FRAME,
    ),
    "data log of an S7-1200": (
        with_lines_below(
            f"Record,Date,UTC Time,{HEADS}",
            rows=[*numbered("{0},{1:%m/%d/%Y},{1:%H:%M:%S}".format), "//END,,,,,"],
        ),
        FRAME,
    ),
    "HistData of InTouch": (
        with_lines_below(f"$Date,$Time,{HEADS}", rows=numbered("{1:%m/%d/%y,%H:%M:%S}".format)),
        FRAME,
    ),
    "spans of time of ENTSO-E": (
        wide(lambda t: f"{t:%d.%m.%Y %H:%M} - {t + STEP:%d.%m.%Y %H:%M}", ",", str, head="MTU (CET/CEST)"),
        FRAME,
    ),
    "compact times, the second column": (
        wide("44;{:%Y%m%d%H%M}".format, head="STATION.ID;MESS_DATUM"),
        FRAME,
    ),
    "ISO times under a name of their own": (wide("{:%Y-%m-%dT%H:%M:%SZ}".format, ",", str, head="Messung"), UTC),
    "units behind the numbers, Grafana": (wide(str, ",", "{:.2f} kPa".format, head='"Time"'), FRAME),
    "DataLogger of KEPServerEX": (
        long("_NAME,_TIMESTAMP,_VALUE,_QUALITY", "{:%Y-%m-%d %H:%M:%S.000}".format, ("192", "0")),
        HOLED,
    ),
    "SQLplus of IP.21": (
        long("NAME,IP_TREND_TIME,IP_TREND_VALUE,IP_TREND_QSTATUS", "{:%d-%b-%y %H:%M:%S.0}".format, ("Good", "Bad")),
        HOLED,
    ),
    "OPC Explorer": (
        long("Item ID,When,Value,Quality", "{:%m/%d/%Y %I:%M:%S.000 %p}".format, ('"Good, local"', '"Bad, no comm"')),
        HOLED,
    ),
    "PI Vision": (
        long("Data Source,Timestamp,Value,Units", "{:%m/%d/%Y %I:%M:%S %p}".format, ("bar", "bar")),
        FRAME,
    ),
    "states of Home Assistant": (
        long("entity_id,last_changed,state,comment", "{:%Y-%m-%dT%H:%M:%S.000Z}".format, ("", "")),
        UTC,
    ),
    "a German report with totals": (
        wide(
            "{:%d.%m.%Y;%H:%M:%S}".format,
            number=lambda v: f"{v:,.2f}".translate(str.maketrans(",.", ".,")),
            above="Schichtbericht;;;;\nBetreiber:;Müller;;;\n",
            head="Datum;Uhrzeit",
            below="Mittelwert;;1,0;2,0;3,0\nSumme;;1,0;2,0;3,0\n",
        ).encode("cp1252"),
        FRAME,
    ),
    "an English one with totals": (
        wide("{:%Y-%m-%d %H:%M}".format, ",", str, head="Time", below="Total,1.0,2.0,3.0\nAverage,1.0,2.0,3.0\n"),
        FRAME,
    ),
    "French months": (wide(lambda t: f"{t.day:02d} {FRENCH[t.month - 1]} {t:%Y %H:%M}", head="Horodatage"), FRAME),
    "German months": (wide(lambda t: f"{t.day}. {GERMAN[t.month - 1]} {t:%Y %H:%M}"), FRAME),
    "French thousands": (
        wide("{:%d/%m/%Y %H:%M}".format, number=lambda v: f"{v:,.2f}".translate(str.maketrans(",.", "\u202f,"))),
        FRAME,
    ),
    "Swiss thousands": (wide("{:%d.%m.%Y %H:%M}".format, number=lambda v: f"{v:,.2f}".replace(",", "'")), FRAME),
    "Italian hours": (wide("{:%d/%m/%Y;%H.%M.%S}".format, head="Data;Ora"), FRAME),
    "Chinese dates": (wide("{:%Y年%m月%d日 %H:%M:%S}".format, ",", str, head="时间"), FRAME),
    "Chinese letters of Windows": (wide("{:%Y/%m/%d %H:%M}".format, ",", str, head="采集时间").encode("gbk"), FRAME),
    "Chinese halves of days": (
        wide(lambda t: f"{t:%Y/%m/%d} {'上午' if t.hour < 12 else '下午'} {t:%I:%M:%S}", ",", str, head="时间"),
        FRAME,
    ),
    "UTF-16 with tabs and 12 hours": (
        wide("{:%m/%d/%Y %I:%M:%S %p}".format, "\t", str, head="Date/Time").encode("utf-16"),
        FRAME,
    ),
    "German qualities": (
        long("Messstelle;Zeit;Wert;Status", "{:%d.%m.%Y %H:%M}".format, ("gut", "schlecht"), ";", comma),
        HOLED,
    ),
    "Chinese qualities": (long("位号,时间,值,质量", "{:%Y/%m/%d %H:%M}".format, ("好", "坏")), HOLED),
    "Proficy": (long("Tagname,TimeStamp,Value,DataQuality", "{:%m/%d/%Y %H:%M:%S}".format, ("Good", "Bad")), HOLED),
    "PHD": (long("TAGNAME,TIMESTAMP,VALUE,CONFIDENCE", "{:%d-%b-%y %H:%M:%S}".format, ("100", "0")), HOLED),
    "qualities beside columns of values": qualities(),
    "milliseconds in a column": recorder(),
    "zones in letters": in_zones(),
    "columns set with blanks": (wide("{:%Y-%m-%dT%H:%M:%S}".format, "   ", "{:9.2f}".format, head="time"), FRAME),
    "a row of JSON in each line": (
        UTC.assign(time=UTC.index).to_json(orient="records", lines=True, date_format="iso"),
        UTC,
    ),
    "JSON in columns and data": (
        FRAME.assign(time=TIMES).to_json(orient="split", index=False, date_format="iso"),
        FRAME,
    ),
    "hours since a start": (
        wide(lambda t: f"{(t - TIMES[0]) / pd.Timedelta('1h'):.9f}", ",", str, head="Time [h]"),
        UTC.set_axis(pd.Timestamp("1970-01-01", tz="UTC") + (TIMES - TIMES[0])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_a_public_format_is_read_at_the_first_try(form, tmp_path):
    content, frame = FORMATS[form]
    path = tmp_path / "plant.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    plant = PlantTable.read(path)
    assert len(plant.frame) == len(frame)
    assert abs(plant.frame.index - frame.index).max() < pd.Timedelta("1ms")
    assert_allclose(plant.frame.iloc[:, -len(frame.columns) :], frame)


def test_units_behind_numbers_and_tables_told_by_what_they_hold_are_said():
    measured = PlantTable.read(io_of("units behind the numbers, Grafana")).measures
    assert dict.fromkeys(measured.values()) == {"kPa": None}
    said = PlantTable.read(io_of("SQLplus of IP.21")).said
    assert "layout: a row for every value; tags in 'NAME', values in 'IP_TREND_VALUE'" in said
    assert "left out: 'Record' numbers the rows" in PlantTable.read(io_of("data log of an S7-1200")).said


def test_lines_below_a_table_are_named():
    said = PlantTable.read(io_of("an English one with totals")).said
    assert "left out: 2 rows, the first is row 121, without a time ('Total', 'Average')" in said


def test_qualities_of_which_none_is_known_are_refused():
    text = long("tag,time,value,quality", "{:%Y-%m-%d %H:%M}".format, ("xyz", "abc"))
    with pytest.raises(ValueError, match=r"No quality of .* is known to be good: they are 'xyz', 'abc'"):
        PlantTable.read(StringIO(text))
    assert_allclose(PlantTable.read(StringIO(text), good=["xyz"]).frame, HOLED)


def io_of(form):
    return StringIO(FORMATS[form][0])
