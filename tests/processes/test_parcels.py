"""Objects on their way to other processes of this machine."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from skfedcausal.processes import parcels
from skfedcausal.processes.parcels import Folder, done_there, packed
from skfedcausal.processes.senders import OnThisMachine


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    return Folder()


@pytest.fixture
def mapped(tmp_path):
    """A record of 60 numbers in a file."""
    np.save(tmp_path / "Y.npy", np.arange(60.0).reshape(10, 6))
    return np.load(tmp_path / "Y.npy", mmap_mode="r")


def test_arrays_go_through_a_file_that_is_gone_once_the_parcel_is_open(folder):
    large = np.random.default_rng(0).standard_normal((400, 7))
    sent = {"unit": [large, large.T, np.arange(3), np.zeros((0, 2))], "text": "x" * 10}
    parcel = packed(sent, folder.path)
    assert len(os.listdir(folder.path)) == 1
    assert not parcel.content
    found = parcel.opened()
    assert not os.listdir(folder.path)
    assert found["text"] == sent["text"]
    for mine, theirs in zip(sent["unit"], found["unit"], strict=True):
        np.testing.assert_array_equal(theirs, mine)
        assert theirs.flags.writeable


def test_what_is_small_needs_no_file_and_a_parcel_is_always_small(folder):
    assert packed((divmod, (7, 3)), folder.path).opened() == (divmod, (7, 3))
    assert not os.listdir(folder.path)
    many = [np.arange(100) for _ in range(1000)]
    parcel = packed(many, folder.path)
    assert not parcel.content
    np.testing.assert_array_equal(parcel.opened(), many)


PARTS = {
    "all": np.s_[:], "rows": np.s_[2:5], "columns": np.s_[:, 1:3], "strided": np.s_[3::2, ::3], "one": np.s_[4, 2:3],
    "backwards": np.s_[::-1], "none": np.s_[:0],
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("turned", [False, True])
def test_parts_of_a_mapped_file_are_named_not_sent(folder, mapped, part, turned, monkeypatch):
    """A record larger than memory must not be copied into it."""
    x = np.asarray(mapped)[PARTS[part]]
    x = x.T if turned else x
    found = packed(x, folder.path).opened()
    np.testing.assert_array_equal(found, x)
    assert found.dtype == x.dtype
    is_named = isinstance(getattr(found, "base", None), np.memmap)
    assert is_named == (part not in ("backwards", "none"))


def test_a_file_that_has_gone_or_that_others_would_see_otherwise_is_sent(folder, tmp_path, mapped):
    mine = np.load(tmp_path / "Y.npy", mmap_mode="c")
    mine[0] = -1.0  # nobody else sees it
    np.testing.assert_array_equal(packed(mine, folder.path).opened(), mine)
    os.unlink(tmp_path / "Y.npy")
    np.testing.assert_array_equal(packed(mapped, folder.path).opened(), mapped)


def test_a_file_that_was_replaced_is_not_what_was_mapped(folder, tmp_path, mapped):
    np.save(tmp_path / "new.npy", np.zeros((10, 6)))
    os.replace(tmp_path / "new.npy", tmp_path / "Y.npy")
    np.testing.assert_array_equal(packed(np.asarray(mapped), folder.path).opened(), mapped)


def test_what_a_kind_of_array_holds_besides_goes_with_it(folder, mapped):
    masked = np.ma.array(mapped, mask=mapped > 30)
    found = packed(masked, folder.path).opened()
    np.testing.assert_array_equal(found.mask, masked.mask)


def test_a_part_of_what_is_shared_comes_back_as_an_array_of_its_own(folder):
    x = np.arange(2000.0).reshape(500, 4)
    placed = folder.place(x)
    found = done_there(packed((np.transpose, (placed,)), folder.path), folder.path).opened()
    placed.remove()
    np.testing.assert_array_equal(found, x.T)
    assert not isinstance(found.base, np.memmap)


def test_parcels_of_very_many_arrays_are_small_too(folder):
    arrays = [np.full(600, k) for k in range(300)]
    parcel = packed(arrays, folder.path)
    assert sum(map(len, (parcel.content, parcel.path))) < 300
    np.testing.assert_array_equal(parcel.opened(), arrays)


def test_no_room_says_where_and_leaves_nothing(folder, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")

    class Full:
        def __init__(self, path, mode):
            open_here(path, mode).close()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def write(self, part):
            raise full

    open_here = open
    monkeypatch.setattr(parcels, "open", Full, raising=False)
    with pytest.raises(OSError, match=f"no room in {folder.path}.*JOBLIB_TEMP_FOLDER") as caught:
        folder.place(np.ones(3))
    assert caught.value.errno == errno.ENOSPC
    assert not os.listdir(folder.path)


def test_a_folder_that_is_told_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", "~/new/one")
    assert os.path.dirname(Folder().path) == str(tmp_path / "new" / "one")


LEAVES = """
import os, signal, sys
from skfedcausal.processes.parcels import Folder
folder = Folder()
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing kills like this here")
def test_what_a_process_that_was_killed_leaves_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True)
    path, end = done.stdout.strip(), time.monotonic() + 20
    assert os.path.dirname(path) == str(tmp_path)
    while os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(path)


def test_a_map_that_begins_within_its_file_is_found_again(folder, tmp_path):
    np.arange(5000.0).tofile(tmp_path / "Y.bin")
    x = np.memmap(tmp_path / "Y.bin", float, "r", offset=8 * 4321, shape=(20, 3))[4:, 1:]
    np.testing.assert_array_equal(packed(x, folder.path).opened(), x)


@pytest.mark.parametrize("shape", [(30, 4), (0, 4)])
def test_what_is_shared_is_mapped_and_cannot_be_changed(folder, shape):
    x = np.random.default_rng(0).standard_normal(shape)
    parcel = packed((np.add, (folder.place(x), 1.0)), folder.path)
    np.testing.assert_array_equal(done_there(parcel, folder.path).opened(), x + 1)
    assert x.size == 0 or not folder.place(x).mapped().flags.writeable


def test_only_the_user_may_look_into_the_folder_and_it_goes(folder):
    assert os.stat(folder.path).st_mode & 0o777 == 0o700
    folder.place(np.ones(3))
    folder.remove()
    assert not os.path.exists(folder.path)
    forgotten = Folder()
    path = forgotten.path
    del forgotten
    assert not os.path.exists(path)


def test_files_of_arrays_that_nobody_has_are_deleted_before_the_end(folder, monkeypatch):
    sender = OnThisMachine(2)
    sender.start()
    x = np.ones(5)
    placed = sender.handed_over(x)
    assert sender.handed_over(x) is placed
    assert os.path.exists(placed.path)
    del x
    assert not os.path.exists(placed.path)
    y = np.ones(5)
    sender.handed_over(y)
    sender.stop()
    assert not os.path.exists(sender.folder.path)
    del y  # whose file has gone before


def test_little_shared_memory_is_left_alone(monkeypatch):
    """Containers have 64 MB of it."""
    monkeypatch.delenv("JOBLIB_TEMP_FOLDER", raising=False)
    monkeypatch.setattr(parcels, "_ENOUGH", 2**70)
    assert parcels._place() is None
