"""Pipes to processes that a cluster has on this machine; threads stand for them here."""

import multiprocessing
import os
import socket
import threading
import time

import numpy as np
import pytest

from skfedcausal.processes import pipes
from skfedcausal.processes.pipes import ByPipes, serve

pytestmark = [
    pytest.mark.medium,
    pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no pipes with names"),
]


class Threads:
    """A cluster whose processes are threads, some of which come late or never."""

    def __init__(self, number, late=(), breaks=None):
        self.number, self._late, self._breaks, self.threads = number, late, breaks, []

    def begin(self, function, *arguments):
        def later(k):
            time.sleep(0.2 * (k in self._late))
            function(*arguments)

        self.threads = [threading.Thread(target=later, args=(k,)) for k in range(self.number)]
        for each in self.threads if self._breaks is None else ():
            each.start()
        return self.threads

    def have_ended(self, begun):
        if self._breaks is not None:
            raise self._breaks
        return not any(each.is_alive() for each in begun)


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


def test_a_sender_goes_on_after_what_went_wrong(open_pipes):
    """Calls that were given up are not taken for others."""
    sender = open_pipes(Threads(2))
    for _ in range(3):
        with pytest.raises(KeyError):
            sender.results((_fails, k) for k in range(5, 30))
        assert sender.results((divmod, k, 3) for k in range(20)) == [divmod(k, 3) for k in range(20)]


class Stubborn(ValueError):
    """An error that cannot be made anew from what it says."""

    def __init__(self, a, b):
        super().__init__(f"{a} is not {b}")


class Holding(ValueError):
    """An error with something that cannot travel."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def _raises(kind, *about):
    raise kind(*about)


@pytest.mark.parametrize("call", [(Stubborn, 1, 2), (Holding, "1 is not 2")])
def test_an_error_that_cannot_travel_is_told_in_words(open_pipes, call):
    with pytest.raises((RuntimeError, Stubborn), match="1 is not 2"):  # some clusters let the first one travel
        open_pipes(Threads(1)).results([(_raises, *call)])


class Processes(Threads):
    """A cluster of processes."""

    def begin(self, function, *arguments):
        context = multiprocessing.get_context("spawn")
        self.started = [context.Process(target=function, args=arguments) for _ in range(self.number)]
        for each in self.started:
            each.start()
        return self.started


def _ends(k, pid):
    """The process of one call ends in the middle of it, once."""
    if k == 3 and not os.path.exists(pid):
        with open(pid, "w") as file:
            file.write(str(os.getpid()))
        os._exit(1)
    time.sleep(0.02)
    return k


def test_what_a_process_that_ends_was_asked_others_do(open_pipes, tmp_path_factory):
    pid = str(tmp_path_factory.mktemp("ended") / "pid")
    sender = open_pipes(Processes(2))
    assert sender.results((_ends, k, pid) for k in range(30)) == list(range(30))
    assert os.path.exists(pid)
    assert len(sender._ways) <= 1  # the other one may come yet
    assert sender.results((_ends, k, pid) for k in range(4)) == list(range(4))


def test_it_is_said_that_no_process_is_left(open_pipes):
    cluster = Processes(1)
    sender = open_pipes(cluster)
    cluster.started[0].kill()
    cluster.started[0].join()
    with pytest.raises(RuntimeError, match="All processes of the cluster ended in the middle of a fit"):
        sender.results((divmod, k, 3) for k in range(5))


def test_processes_that_do_not_see_the_folder_are_said_to(open_pipes, monkeypatch):
    cluster = Threads(1)
    begin = cluster.begin
    monkeypatch.setattr(cluster, "begin", lambda function, door, folder: begin(function, door + "elsewhere", folder))
    with pytest.raises(RuntimeError, match="without reaching"):
        open_pipes(cluster)


def test_a_folder_with_a_long_name_is_no_hindrance(open_pipes, tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path / ("x" * 120)))
    sender = open_pipes(Threads(1))
    assert sender.results([(divmod, 7, 3)]) == [(2, 1)]
    sender.stop()
    assert not os.path.exists(sender._near.path)
    os.rmdir(tmp_path / ("x" * 120))


def test_why_a_cluster_sends_no_process_is_said(open_pipes):
    with pytest.raises(OSError, match="no workers"):
        open_pipes(Threads(1, breaks=OSError("no workers")))


def test_a_fit_that_is_over_does_not_wait_for_processes_and_they_not_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    cluster = Threads(1)
    monkeypatch.setattr(cluster, "begin", lambda function, *arguments: [])
    monkeypatch.setattr(cluster, "have_ended", lambda begun: False)
    monkeypatch.setattr(pipes, "PATIENCE", 0.01)
    sender = ByPipes(cluster)
    waiting = threading.Thread(target=sender.start)
    waiting.start()
    sender.end()
    waiting.join(5)
    assert not waiting.is_alive()
    assert sender.results([(divmod, 7, 3)]) == []
    door = os.path.join(sender.folder.path, "d")
    sender.stop()
    serve(door, sender.folder.path)  # comes too late
