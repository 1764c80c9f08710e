"""A file that grows is followed row by row, whatever its writer does to it."""

import threading
import time

import pandas as pd
import pytest

from skfedcausal.streams import StreamWarning, follow_csv
from skfedcausal.streams.cells import Stamps, number_of
from skfedcausal.streams.csv_file import csv_rows

HEAD = "time,a__x,b__x\n"


def line(minute, a=1.0, b=2.0):
    return f"2026-01-01 00:{minute:02d},{a},{b}\n"


def joined(path, **settings):
    return pd.concat(follow_csv(path, wait=0.0, poll=0.01, **settings))


def test_rows_come_as_they_are_written(tmp_path):
    path = tmp_path / "live.csv"
    written = "".join(map(line, range(40)))

    def write():
        with path.open("w") as file:
            for text in (HEAD[:5], HEAD[5:], written[:100], written[100:107], written[107:]):
                file.write(text)
                file.flush()
                time.sleep(0.03)

    writer = threading.Thread(target=write)
    writer.start()
    batches = list(follow_csv(path, wait=0.5, poll=0.01))
    writer.join()
    assert len(batches) > 1
    whole = pd.concat(batches)
    assert len(whole) == 40
    assert whole.index.is_monotonic_increasing
    assert list(whole.columns) == ["a__x", "b__x"]


def test_a_file_that_is_begun_anew_is_read_from_its_start(tmp_path):
    path = tmp_path / "live.csv"
    path.write_text(HEAD + line(0) + line(1) + line(2))
    source = follow_csv(path, wait=0.3, poll=0.01)
    assert len(next(source)) == 3
    path.write_text(HEAD + line(3))
    assert next(source).index[0] == pd.Timestamp("2026-01-01 00:03")


def test_batches_have_at_most_the_rows_asked_for(tmp_path):
    path = tmp_path / "live.csv"
    path.write_text(HEAD + "".join(map(line, range(5))))
    assert [len(batch) for batch in follow_csv(path, wait=0.0, batch_size=2)] == [2, 2, 1]


def test_lines_that_cannot_be_read_are_named_and_the_rest_goes_on(tmp_path):
    path = tmp_path / "live.csv"
    path.write_text(HEAD + line(0) + "2026-01-01 00:01,1.0\n" + line(2))
    with pytest.warns(StreamWarning, match=r"1 lines of .*live.csv do not have the 3 columns"):
        assert len(joined(path)) == 2
    path.write_text(HEAD + line(0) + line(1, a="broken"))
    with pytest.warns(StreamWarning, match="something other than numbers in 'a__x'"):
        table = joined(path)
    assert table["a__x"].isna().tolist() == [False, True]


def test_a_new_line_of_names_begins_rows_with_other_columns(tmp_path):
    path = tmp_path / "live.csv"
    path.write_text(HEAD + line(0) + "time,b__x,a__x,c__x\n" + "2026-01-01 00:01,2.0,1.0,3.0\n")
    later = "time,a__x\n2026-01-01 00:02,1.0\n"

    def followed():
        for table in follow_csv(path, wait=0.3, poll=0.01):
            yield table
            if table.shape[1] == 3:
                path.write_text(path.read_text() + later)

    with pytest.warns(StreamWarning, match="a new line of names"):
        tables = list(followed())
    assert [list(table) for table in tables] == [["a__x", "b__x"], ["b__x", "a__x", "c__x"], ["a__x"]]
    assert pd.concat(tables)["a__x"].tolist() == [1.0, 1.0, 1.0]


def test_a_line_without_a_time_is_left_out(tmp_path):
    path = tmp_path / "live.csv"
    path.write_text(HEAD + line(0) + "soon,1.0,2.0\n" + line(2))
    with pytest.warns(StreamWarning, match="1 lines of .* begin with no time"):
        table = joined(path)
    assert isinstance(table.index, pd.DatetimeIndex)
    assert len(table) == 2


def test_times_may_stand_in_the_last_column(tmp_path):
    path = tmp_path / "live.csv"
    path.write_text("mill__power,time\n1.5,2026-01-01 00:00\n")
    batch = next(follow_csv(path, wait=0.0, index_col=-1))
    assert batch.to_dict("list") == {"mill__power": [1.5]}
    assert batch.index.name == "time"


def test_a_file_that_never_came_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*live\.csv within 0 seconds"):
        joined(tmp_path / "live.csv")


@pytest.mark.filterwarnings("ignore::skfedcausal.streams.StreamWarning")
def test_every_batch_of_a_long_look_has_the_place_after_it(tmp_path):
    """Also where a line of names comes again amid it: who is killed between two batches goes on after the first."""
    path = tmp_path / "live.csv"
    times = pd.date_range("2026-01-01", periods=30, freq="min")
    lines = [f"{at},{k}\r\n" for k, at in enumerate(times)]
    path.write_text(
        "time,é__x\r\n" + "".join([*lines[:17], "time,é__x\r\n", "junk\r\n", *lines[17:]]), "utf-8", newline=""
    )
    seen = 0
    for place, frame in csv_rows(path, Stamps(), wait=0.0, most=7):
        if frame is not None:
            seen += len(frame)
            rest = [more for _, more in csv_rows(path, Stamps(), wait=0.0, place=place) if more is not None]
            assert [value for more in rest for value in more.iloc[:, 0]] == list(range(seen, 30))
    assert seen == 30


MINUTES = pd.date_range("2026-01-01", periods=20, freq="min")


def written(separator, decimal=".", time="%Y-%m-%d %H:%M:%S"):
    rows = ([at.strftime(time), f"{k}{decimal}5", f"{-k}{decimal}25"] for k, at in enumerate(MINUTES))
    return "".join(separator.join(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        ("time\ta__x\tb__y\n" + written("\t", ",")).encode("utf-16"),
        ("\ufefftime\ta__x\tb__y\n" + written("\t", ",")).encode("utf-16-be"),
        ("Date;Time;a__x;b__y\n" + written(";", ",", "%d.%m.%Y;%H:%M:%S")).encode(),
        ("# plant; north\nAn export\ntime;a__x;b__y\n" + written(";", ",")).encode(),
        ("a__x,timestamp,b__y\n" + "".join(f"{k}.5,{at},{-k}.25\n" for k, at in enumerate(MINUTES))).encode(),
    ],
    ids=["UTF-16", "UTF-16, big end first", "date and time of day", "remarks", "time not first"],
)
def test_files_as_programs_write_them(tmp_path, text):
    path = tmp_path / "live.csv"
    path.write_bytes(text)
    given = pd.concat(list(follow_csv(path, wait=0.0, batch_size=7)))
    assert given.index.tolist() == MINUTES.tolist()
    assert given["a__x"].tolist() == [k + 0.5 for k in range(20)]
    assert given["b__y"].tolist() == [float(f"{-k}.25") for k in range(20)]


@pytest.mark.parametrize("cell", ["1.234.567,5", "1,234,567.5", "1234567,5"])
def test_marks_between_thousands(cell):
    assert number_of(cell, comma=True) == 1234567.5
