"""Records larger than memory, batch by batch."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.containers import read_batches, read_plant

COLUMNS = ["a__x", "a__y", "b__x"]


@pytest.fixture
def record():
    return np.random.default_rng(0).standard_normal((25, 3))


def joined(batches):
    return pd.concat(list(batches))


def test_an_array_is_cut_without_a_copy(record):
    batches = list(read_batches(record, 10, columns=COLUMNS, start=100))
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert all(np.shares_memory(batch.to_numpy(), record) for batch in batches)
    whole = pd.concat(batches)
    assert_array_equal(whole.to_numpy(), record)
    assert_array_equal(whole.index, np.arange(100, 125))
    assert list(whole.columns) == COLUMNS


def test_files_of_a_folder_go_on_in_the_order_of_their_names(record, tmp_path):
    np.save(tmp_path / "b.npy", record[10:])
    np.save(tmp_path / "a.npy", record[:10])
    (tmp_path / "notes.txt").write_text("not a record")
    for source in (tmp_path, [tmp_path / "a.npy", str(tmp_path / "b.npy")]):
        whole = joined(read_batches(source, 4, columns=COLUMNS))
        assert_array_equal(whole.to_numpy(), record)
        assert_array_equal(whole.index, np.arange(25))


def test_a_file_that_was_mapped_is_cut_too(record, tmp_path):
    np.save(tmp_path / "a.npy", record.astype(np.float32))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert_array_equal(joined(read_batches(mapped, 7)).to_numpy(), record.astype(np.float32))


@pytest.mark.parametrize("timed", [True, False])
def test_parquet_is_read_by_row_groups(record, tmp_path, timed):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(record, columns=COLUMNS)
    frame["when"] = pd.date_range("2026-01-01", periods=25, freq="min", tz="UTC")
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=6)
    batches = list(read_batches(tmp_path / "a.parquet", 4, columns=COLUMNS, time="when" if timed else None))
    assert max(map(len, batches)) == 4
    whole = pd.concat(batches)
    assert_array_equal(whole.to_numpy(), record)
    assert_array_equal(whole.index, frame["when"] if timed else np.arange(25))


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"rows": 0}, "at least 1"), ({"rows": True}, "at least 1"), ({"columns": ["a"]}, "1 names in `columns` for 3")],
)
def test_wrong_settings_are_refused(record, settings, match):
    with pytest.raises(ValueError, match=match):
        list(read_batches(record, **settings))


def test_files_that_cannot_be_read_in_parts_are_refused(record, tmp_path):
    np.save(tmp_path / "f.npy", np.asfortranarray(record))
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "cut.npy", record)
    whole = (tmp_path / "cut.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-100])
    (tmp_path / "table.csv").write_text("a,b")
    (tmp_path / "empty").mkdir()
    for name, match in (
        ("f.npy", "one column after the other"),
        ("words.npy", "has numbers"),
        ("cut.npy", "cut off"),
        ("table.csv", "neither"),
        ("empty", "no .npy or Parquet"),
    ):
        with pytest.raises(ValueError, match=match):
            list(read_batches(tmp_path / name))


WORKER = """
import resource, sys, warnings
import numpy as np
from skfedcausal import FederatedGrangerEstimator
from skfedcausal.containers import read_batches, read_plant
from skfedcausal.datasets import make_granger_plant
warnings.simplefilter("ignore")
folder, rows, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
columns = [f"u{k // 32}__x{k}" for k in range(64)]
FederatedGrangerEstimator().partial_fit(make_granger_plant(2, n_samples=400, random_state=0)[0])  # imports
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + limit, size + limit))
estimator = FederatedGrangerEstimator()
for batch in read_batches(folder, rows, columns=columns):
    estimator.partial_fit(batch)
print(estimator.server_.n_samples_, estimator.n_batches_)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="address space is read from /proc")
def test_a_record_ten_times_the_memory_that_is_left(tmp_path):
    """320 MB in a process that may take 32 MB more than its imports; the same in one batch does not fit."""
    rng, limit, rows = np.random.default_rng(0), 32 * 2**20, 3000
    for k in range(8):
        states = rng.standard_normal((82_000, 4))
        record = np.repeat(states, 16, axis=1)
        np.save(tmp_path / f"{k}.npy", record + 0.5 * rng.standard_normal(record.shape))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) >= 10 * limit

    def run(rows):
        how = [sys.executable, "-c", WORKER, str(tmp_path), str(rows), str(limit)]
        return subprocess.run(how, capture_output=True, text=True, timeout=500)

    found = run(rows)
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.split()[0] == str(8 * 82_000)
    assert "MemoryError" in run(82_000).stderr


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_columns_that_lie_apart_are_copied_once(kind):
    """Into the units' arrays, which are those of a table in one piece."""
    rng, names = np.random.default_rng(0), [f"u{k // 4}__x{k % 4}" for k in range(16)]
    data = {name: rng.standard_normal(2**17) for name in names}
    table = pd.DataFrame(data, copy=False)
    if kind == "polars":
        table = pytest.importorskip("polars").DataFrame(data)
    elif kind == "pyarrow":
        table = pytest.importorskip("pyarrow").table(data)
    size = 8 * 16 * 2**17
    tracemalloc.start()
    plant = read_plant(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * size
    whole = read_plant(pd.DataFrame(np.column_stack(list(data.values())), columns=names))
    for Y, expected in zip(plant.outputs, whole.outputs, strict=True):
        assert_array_equal(Y, expected)
        assert Y.flags.c_contiguous
    again = read_plant(table, layout=plant.layout)
    assert_array_equal(again.outputs[1], plant.outputs[1])


def test_columns_that_lie_apart_are_checked_as_others():
    data = {f"u__x{k}": np.zeros(2**17) for k in range(9)}
    data["u__x3"][5] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        read_plant(pd.DataFrame(data, copy=False))


def test_a_column_of_a_parquet_file_that_is_not_there_is_named(record, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "years.parquet"
    pd.DataFrame(record, columns=COLUMNS).to_parquet(path)
    with pytest.raises(ValueError, match="has no column 'when'; it has 'a__x', 'a__y', 'b__x'"):
        next(read_batches(path, 10, time="when"))
    with pytest.raises(ValueError, match="has no column 'c__x'"):
        next(read_batches(path, 10, columns=["a__x", "c__x"]))
