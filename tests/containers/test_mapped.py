"""Mapped arrays keep their values when their pages are given back."""

import numpy as np

from skfedcausal.client.records import release_pages
from skfedcausal.containers import arrays


def test_values_are_read_again(tmp_path):
    Y = np.random.default_rng(0).standard_normal((500, 7))
    np.save(tmp_path / "Y.npy", Y)
    mapped = np.load(tmp_path / "Y.npy", mmap_mode="r")
    for view in (mapped, np.asarray(mapped)[10:]):
        view.sum()
        release_pages(view)
    np.testing.assert_array_equal(mapped, Y)


def test_changes_in_memory_are_not_lost(tmp_path):
    np.save(tmp_path / "Y.npy", np.zeros((500, 7)))
    mapped = np.load(tmp_path / "Y.npy", mmap_mode="c")
    mapped[3] = 1.0
    release_pages(mapped)
    assert mapped[3, 0] == 1.0


def test_other_arrays_are_left_alone():
    Y = np.ones((3, 2))
    release_pages(Y)
    release_pages(None)
    assert (Y == 1).all()


def test_a_mapped_table_is_read_where_it_is_without_the_long_way(tmp_path, monkeypatch):
    """What is fine already is fine as a map too, and slices of what comes out are plain arrays."""
    np.save(tmp_path / "Y.npy", np.random.default_rng(1).standard_normal((500, 7)))
    mapped = np.load(tmp_path / "Y.npy", mmap_mode="r")
    monkeypatch.setattr(arrays, "check_array", None)
    found = arrays.to_floats(mapped, name_column=str)
    assert type(found) is np.ndarray
    assert np.shares_memory(found, mapped)
