"""Mapped arrays keep their values when their pages are given back."""

import numpy as np

from skfedcausal.client.records import release_pages


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
