"""Work in other processes: arrays as they lie here."""

import gc
import os

import joblib
import numpy as np
import pytest

from skfedcausal.server.sparse import parallel
from skfedcausal.server.sparse.parallel import laid_out, shares


def test_parts_of_memory_maps_are_plain_arrays(tmp_path):
    """Every slice of a map would be a map again, which takes several times as long."""
    np.save(tmp_path / "Y.npy", np.arange(12.0).reshape(4, 3))
    mapped = np.load(tmp_path / "Y.npy", mmap_mode="r")
    (found,) = laid_out((mapped,))
    assert type(found) is np.ndarray
    assert np.shares_memory(found, mapped)
    np.testing.assert_array_equal(found, mapped)


@pytest.mark.parametrize("n_workers", [2, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 5, 43, 167])
def test_shares_hold_every_task_once_and_get_smaller(n, n_workers):
    found = shares(n, n_workers)
    assert [k for part in found for k in part] == list(range(n))
    sizes = [len(part) for part in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert sizes[0] <= -(-n // (2 * n_workers))


def _summed(series, columns):
    return series[:, columns].sum(axis=0), os.getpid(), gc.get_freeze_count()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_tasks_see_what_is_shared_in_their_order(monkeypatch, backend):
    """Large arrays are mapped; processes of loky do not collect what they imported every second."""
    monkeypatch.setattr(parallel, "_WORTH", 1)
    series = np.random.default_rng(0).standard_normal((20_000, 10))
    tasks = [(np.array([k, 9 - k]),) for k in range(10)]
    here = parallel.run(_summed, tasks, None, (series,))
    with joblib.parallel_config(backend, n_jobs=2), parallel.workers(10, None) as processes:
        there = parallel.run(_summed, tasks, processes, (series,))
    for (a, _, _), (b, pid, n_frozen) in zip(here, there, strict=True):
        assert a.tobytes() == b.tobytes()
        assert (n_frozen > 0) == (pid != os.getpid()) == (backend == "loky")
