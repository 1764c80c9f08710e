"""Work in other processes: arrays as they lie here."""

import gc
import os
import signal
import time
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from joblib.parallel import LokyBackend

from skfedcausal import parallel
from skfedcausal.parallel import Line, laid_out

pytestmark = pytest.mark.medium


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
    found = list(Line(n, n_workers).shares())
    assert [k for part in found for k in part] == list(range(n))
    sizes = [len(part) for part in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert sizes[0] <= -(-n // (2 * (n_workers + 1)))


def test_shares_are_bounded_where_tasks_are_large():
    found = list(Line(43, 2, most=2).shares())
    assert [k for part in found for k in part] == list(range(43))
    assert max(map(len, found)) == 2


@pytest.mark.parametrize("n_before", [0, 1, 3])
def test_who_waits_takes_what_no_worker_has(n_before):
    line = Line(43, 2)
    shares = line.shares()
    front = [k for _ in range(n_before) for k in next(shares)]
    back = list(line.last_ones())
    assert back == list(range(42, len(front) - 1, -1))
    assert not list(shares)


def _placed(k):
    time.sleep(0.005)
    return k, os.getpid()


def test_the_waiting_process_and_workers_together_do_every_task_once(monkeypatch):
    _now(monkeypatch)
    with joblib.parallel_config("loky", n_jobs=2), parallel.workers(200, None) as processes:
        wait = parallel.started(_placed, [(k,) for k in range(200)], processes)
        found = wait()
        assert wait() is found
    assert [k for k, _ in found] == list(range(200))
    assert len({pid for _, pid in found}) > 1


def _fails_at(k, bad):
    if k == bad:
        raise ValueError("This task cannot be done.")


@pytest.mark.parametrize("bad", [0, 19])
def test_what_goes_wrong_in_a_task_is_said_wherever_it_was_done(monkeypatch, bad):
    _now(monkeypatch)
    config = joblib.parallel_config("loky", n_jobs=2)
    with config, parallel.workers(20, None) as processes, pytest.raises(ValueError, match="cannot be done"):
        parallel.run(_fails_at, [(k, bad) for k in range(20)], processes)


def _now(monkeypatch):
    """Let processes be worth it, and not import first what takes as long as these tasks."""
    monkeypatch.setattr(parallel, "_WORTH", 1)
    monkeypatch.setattr(parallel, "_import", lambda sender, number: None)


def _summed(series, columns):
    time.sleep(0.05)  # that nobody does all of them before others have begun
    return series[:, columns].sum(axis=0), os.getpid(), gc.get_freeze_count()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_tasks_see_what_is_shared_in_their_order(monkeypatch, backend):
    """Large arrays are mapped; processes of loky do not collect what they imported every second."""
    _now(monkeypatch)
    series = np.random.default_rng(0).standard_normal((20_000, 10))
    tasks = [(np.array([k, 9 - k]),) for k in range(10)]
    here = parallel.run(_summed, tasks, None, (series,))
    with joblib.parallel_config(backend, n_jobs=2), parallel.workers(10, None) as processes:
        there = parallel.run(_summed, tasks, processes, (series,))
    elsewhere = False
    for (a, _, _), (b, pid, n_frozen) in zip(here, there, strict=True):
        assert a.tobytes() == b.tobytes()
        assert (n_frozen > 0) == (pid != os.getpid())
        elsewhere |= pid != os.getpid()
    assert elsewhere == (backend == "loky")


@pytest.mark.parametrize("n", [0, 1, 3, 20])
def test_results_come_in_the_order_of_their_calls_whichever_is_done_first(n):
    with joblib.parallel_config("threading", n_jobs=2):
        sender = parallel.Sender(2)
    sender.start()
    assert sender.results((_later, k, n) for k in range(n)) == list(range(n))
    sender.stop()


def _later(k, n):
    time.sleep(0.002 * (n - k))
    return k


def test_what_is_over_sends_nothing_more():
    with joblib.parallel_config("threading", n_jobs=2):
        sender = parallel.Sender(2)
    sender.start()

    def calls():
        for k in range(20):
            if k == 6:
                sender.end()
            yield divmod, k, 3

    assert sender.results(calls()) == [divmod(k, 3) for k in range(7)]
    sender.stop()


def test_loky_still_maps_arrays_after_others_have_used_its_processes(monkeypatch):
    """Their folder is gone, and arrays that are mapped next are not to go there."""
    _now(monkeypatch)
    series = np.random.default_rng(0).standard_normal((20_000, 10))
    tasks = [(np.array([k, 9 - k]),) for k in range(10)]
    with joblib.parallel_config("loky", n_jobs=2), parallel.workers(10, None) as processes:
        joblib.Parallel()(joblib.delayed(np.sum)(series + k) for k in range(4))
        there = parallel.run(_summed, tasks, processes, (series,))
    assert [found.tobytes() for found, *_ in there] == [
        found.tobytes() for found, *_ in parallel.run(_summed, tasks, None, (series,))
    ]
    assert any(pid != os.getpid() for _, pid, _ in there)


@pytest.mark.filterwarnings("ignore:Loky-backed parallel loops")
def test_loky_that_has_no_processes_to_give_leaves_the_calls_to_joblib(monkeypatch):
    """Within a process of its own."""
    _now(monkeypatch)
    series, tasks = np.ones((20, 10)), [(np.array([k, 9 - k]),) for k in range(10)]
    with joblib.parallel_config(LokyBackend(nesting_level=1), n_jobs=2), parallel.workers(10, None) as processes:
        there = parallel.run(_summed, tasks, processes, (series,))
    assert [(found.tolist(), pid) for found, pid, _ in there] == [([20.0, 20.0], os.getpid())] * 10


def test_threads_give_results_in_the_order_of_their_tasks_where_there_are_workers():
    tasks = [(k, 3) for k in range(20)]
    assert parallel.in_threads(divmod, tasks, SimpleNamespace(number=3)) == parallel.in_threads(divmod, tasks, None)


def _killed_elsewhere(k, here):
    if os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return k**2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process as systems do that run out of memory")
def test_what_a_killed_process_was_to_do_is_done_here():
    with joblib.parallel_config("loky", n_jobs=2):
        sender = parallel.Sender(2)
        sender.start()
        try:
            with pytest.warns(UserWarning, match="was killed"):
                assert sender.results([(_killed_elsewhere, k, os.getpid()) for k in range(5)]) == [0, 1, 4, 9, 16]
        finally:
            sender.end()
            sender.stop()
