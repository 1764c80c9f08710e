"""Work in other processes: arrays as they lie here, and nothing that this process notices."""

import gc

import joblib
import numpy as np
import pytest

from skfedcausal.server.sparse.parallel import called_elsewhere, laid_out


def test_parts_of_memory_maps_are_plain_arrays(tmp_path):
    """Every slice of a map would be a map again, which takes several times as long."""
    np.save(tmp_path / "Y.npy", np.arange(12.0).reshape(4, 3))
    mapped = np.load(tmp_path / "Y.npy", mmap_mode="r")
    (found,) = laid_out((mapped,))
    assert type(found) is np.ndarray
    assert np.shares_memory(found, mapped)
    np.testing.assert_array_equal(found, mapped)


def test_a_process_of_loky_keeps_what_was_imported_out_of_its_garbage():
    with joblib.parallel_config("loky", n_jobs=2):
        counts = joblib.Parallel()(joblib.delayed(called_elsewhere)(gc.get_freeze_count, ()) for _ in range(2))
    assert min(counts) > 0


@pytest.mark.parametrize("backend", ["threading", "sequential"])
def test_this_process_keeps_its_garbage_as_it_is(backend):
    before = gc.get_freeze_count()
    with joblib.parallel_config(backend, n_jobs=2):
        joblib.Parallel()(joblib.delayed(called_elsewhere)(gc.get_freeze_count, ()) for _ in range(2))
    assert gc.get_freeze_count() == before
