"""Large files: read as small ones, and in memory once."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from skfedcausal import PlantTable, check_plant
from skfedcausal.historian import forms, grid, sources, written
from skfedcausal.historian.tuning import TUNING
from skfedcausal.quality import moves

N = 100_000
ANY_SIZE = 30_000_000  # bytes: clocks of the last rows, a stretch of rows, what is known of one tag


@pytest.fixture
def plant(tmp_path):
    """Address of a file of 16 MB of numbers, and the frame in it."""
    values = np.random.default_rng(0).normal(50, 3, (N, 20)).round(3)
    columns = [f"P{1 + k // 5}__T{k}" for k in range(20)]
    frame = pd.DataFrame(values, index=pd.date_range("2026-03-01", periods=N, freq="1s"), columns=columns)
    frame.rename_axis("time").to_csv(tmp_path / "plant.csv")
    return tmp_path / "plant.csv", frame


def peak_of(work):
    """What some work gives, and the bytes that it needs at the most."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.medium
def test_a_large_file_and_its_check_take_little_more_memory_than_the_frame(plant, monkeypatch):
    path, frame = plant
    monkeypatch.setattr(sources, "_LARGE", 0)
    monkeypatch.setattr(written, "_CELLS", 50_000)
    monkeypatch.setattr(moves, "_CELLS", 2**16)
    PlantTable.read(path.parent / "plant.csv", columns=["P1*"])  # what is imported and kept at the first time
    table, peak = peak_of(lambda: PlantTable.read(path))
    assert_frame_equal(table.frame, frame, check_names=False, check_freq=False, check_index_type=False)
    assert peak < frame.memory_usage().sum() + ANY_SIZE


def test_numbers_that_come_in_pieces_are_those_of_the_whole_file(tmp_path, monkeypatch):
    rows = 2000
    cells = {"whole": np.arange(rows), "late": np.where(np.arange(rows) < 1500, 7, 7.5), "text": ["on", "off"] * 1000}
    words = pd.Series(np.arange(rows) / 8).astype(object)
    words[[1700, 1701]] = "broken"
    times = pd.date_range("2026-03-01", periods=rows, freq="1s")
    frame = pd.DataFrame({"time": times, **{f"P1.{name}": own for name, own in cells.items()}, "P1.words": words})
    frame.to_csv(tmp_path / "plant.csv", index=False)
    whole = PlantTable.read(tmp_path / "plant.csv")
    monkeypatch.setattr(sources, "_LARGE", 0)
    monkeypatch.setattr(written, "_CELLS", 100)
    pieces = PlantTable.read(tmp_path / "plant.csv")
    assert_frame_equal(pieces.frame, whole.frame)
    assert pieces.said == whole.said
    assert any("'broken' 2 times" in text for text in pieces.said)


def test_a_file_with_holes_is_in_memory_once(plant, monkeypatch):
    path, frame = plant
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for k, line in enumerate(lines) if k % 1000 != 7 and not 60_000 < k < 60_500))
    monkeypatch.setattr(sources, "_LARGE", 0)
    monkeypatch.setattr(written, "_CELLS", 50_000)
    monkeypatch.setattr(grid, "TUNING", replace(TUNING, grid_long=0))
    monkeypatch.setattr(forms, "TUNING", replace(TUNING, grid_long=0))
    table, peak = peak_of(lambda: PlantTable.read(path))
    assert table.lengths == (60_000, 39_501)
    assert_frame_equal(
        table.frame.dropna(), frame.loc[table.frame.dropna().index], check_index_type=False, check_freq=False
    )
    assert peak < frame.memory_usage().sum() + ANY_SIZE


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_too_large_is_said_before_it_is_read(form, tmp_path, monkeypatch):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    frame = pd.DataFrame({f"P1.T{k}": np.arange(500) % 7 / 2 for k in range(4)})
    frame.index = pd.date_range("2026-03-01", periods=500, freq="1s", name="time")
    getattr(frame, f"to_{form}")(tmp_path / "plant.file")
    monkeypatch.setattr(sources, "_LARGE", 0)
    monkeypatch.setattr(written, "free_memory", lambda: 8 * 500 * 3)
    monkeypatch.setattr(written, "_in_pieces", None)  # nothing is read
    monkeypatch.setattr(pd, "read_parquet", None)
    with pytest.raises(ValueError, match=r"about 50\d? rows of \d columns, which take .* Read fewer columns: columns="):
        PlantTable.read(tmp_path / "plant.file")
    assert written.free_memory() == 12_000


def test_the_share_of_a_large_file_that_is_read_is_told(plant, monkeypatch):
    path, _ = plant
    shares = []
    monkeypatch.setattr(sources, "_LARGE", 0)
    monkeypatch.setattr(written, "of_plain_stamps", lambda texts: shares.append(written.Reading.share))
    PlantTable.read(path)
    assert shares[0] is None
    assert shares[1:] == sorted(shares[1:])
    assert 0.9 < shares[-1] <= 1
    assert written.Reading.share is None


def test_what_moves_is_the_same_in_stretches_as_in_the_whole(monkeypatch):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((60_000, 4)), columns=["a__x", "a__y", "b__x", "b__y"])
    frame["a__x"] += 2 * np.sin(2 * np.pi * np.arange(60_000) / 4800)
    frame["b__y"] += 3.0 * (np.arange(60_000) > 31_000)
    frame[rng.random(frame.shape) < 0.01] = np.nan
    frame.iloc[19_000:21_500] = np.nan
    whole = check_plant(frame)
    monkeypatch.setattr(moves, "_CELLS", 1)
    stretches = check_plant(frame)
    assert {"season", "level shift"} <= set(whole.findings["kind"])
    assert_frame_equal(stretches.findings, whole.findings)
