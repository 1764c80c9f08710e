"""Pipes to processes that a cluster has on this machine; threads stand for them here."""

import os
import socket
import threading
import time

import numpy as np
import pytest

from skfedcausal.processes import pipes
from skfedcausal.processes.pipes import ByPipes, serve

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no pipes with names")


class Threads:
    """A cluster whose processes are threads, some of which come late or never."""

    def __init__(self, number, late=(), breaks=None):
        self.number, self._late, self._breaks, self.threads = number, late, breaks, []

    def begun(self, function, *arguments):
        def later(k):
            time.sleep(0.2 * (k in self._late))
            function(*arguments)

        self.threads = [threading.Thread(target=later, args=(k,)) for k in range(self.number)]
        for each in self.threads if self._breaks is None else ():
            each.start()
        return self.threads

    def failed(self, begun):
        if self._breaks is not None:
            raise self._breaks


@pytest.fixture
def open_pipes(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    opened = []

    def start(cluster):
        opened.append((ByPipes(cluster), cluster))
        opened[-1][0].start()
        return opened[-1][0]

    yield start
    for sender, cluster in opened:
        sender.stop()
        for each in cluster.threads:
            if each.ident is not None:
                each.join(5)
                assert not each.is_alive()
    assert not os.listdir(tmp_path)


def _scaled(x, k):
    return k * x


def test_results_come_in_the_order_of_their_calls_and_shared_arrays_once(open_pipes):
    sender, x = open_pipes(Threads(3)), np.random.default_rng(0).standard_normal((500, 8))
    found = sender.results((_scaled, sender.handed_over(x), k) for k in range(40))
    for k, each in enumerate(found):
        np.testing.assert_array_equal(each, k * x)
    assert sender.results([]) == []


def _who(_):
    time.sleep(0.01)
    return threading.get_ident()


def test_a_process_that_comes_late_takes_its_share(open_pipes):
    sender = open_pipes(Threads(2, late=[1]))
    assert len(set(sender.results((_who, k) for k in range(100)))) == 2


def _fails(k):
    if k == 5:
        raise KeyError("no such unit")
    return k


def test_what_goes_wrong_there_is_raised_here_with_its_traceback(open_pipes):
    sender = open_pipes(Threads(2))
    with pytest.raises(KeyError, match="no such unit") as caught:
        sender.results((_fails, k) for k in range(10))
    assert "_fails" in str(caught.value.__cause__)


class _Cut:
    """A call after which the process has gone."""

    def __reduce__(self):
        return _end, ()


def _end():
    raise SystemExit


def _done(x):
    return x


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_process_that_ends_in_a_fit_is_said_to_have_ended(open_pipes, monkeypatch):
    sender = open_pipes(Threads(1))
    with pytest.raises(RuntimeError, match="ended in the middle of a fit"):
        sender.results([(_done, _Cut())])


def test_why_a_cluster_sends_no_process_is_said(open_pipes):
    with pytest.raises(OSError, match="no workers"):
        open_pipes(Threads(1, breaks=OSError("no workers")))


def test_a_fit_that_is_over_does_not_wait_for_processes_and_they_not_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    cluster = Threads(1)
    monkeypatch.setattr(cluster, "begun", lambda function, *arguments: [])
    monkeypatch.setattr(pipes, "_PATIENCE", 0.01)
    sender = ByPipes(cluster)
    waiting = threading.Thread(target=sender.start)
    waiting.start()
    sender.end()
    waiting.join(5)
    assert not waiting.is_alive()
    assert sender.results([(divmod, 7, 3)]) == []
    door = os.path.join(sender.folder.path, "door")
    sender.stop()
    serve(door, sender.folder.path)  # comes too late
