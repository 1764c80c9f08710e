"""Blocks sent to real local clusters that the test starts: the plant is the same to the last bit."""

import os
import time
from contextlib import contextmanager

import joblib
import pytest

from skfedcausal import KalmanClient, LikelihoodServer, parallel
from skfedcausal.datasets import make_granger_plant

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # theirs


@contextmanager
def dask():
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster):
        yield


@contextmanager
def ray():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.util.joblib").register_ray()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("cluster", [dask, ray])
def test_a_cluster_gives_the_same_bits(cluster, monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH", 1)
    X, truth = make_granger_plant(34, n_states=2, n_sensors=4, n_samples=600, random_state=0)
    clients = zip(X, truth.observation, strict=True)
    messages = {name: KalmanClient(C=C).fit(X[name]).message(X[name]) for name, C in clients}
    here = LikelihoodServer(n_jobs=1).fit(messages)
    with cluster(), joblib.parallel_config(cluster.__name__, n_jobs=2), parallel.workers(34, None) as processes:
        processes.started.result()
        there = LikelihoodServer().fit(messages)
    assert there.transition_.tobytes() == here.transition_.tobytes()
    assert there.links_.equals(here.links_)


@pytest.mark.parametrize("cluster", [dask, ray])
def test_a_cluster_does_what_else_it_is_asked_during_a_fit(cluster, monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH", 1)
    with cluster(), joblib.parallel_config(cluster.__name__, n_jobs=2), parallel.workers(34, None) as processes:
        processes.started.result()
        assert joblib.Parallel()(joblib.delayed(divmod)(k, 3) for k in range(4)) == [divmod(k, 3) for k in range(4)]
        assert parallel.run(divmod, [(k, 3) for k in range(9)], processes) == [divmod(k, 3) for k in range(9)]


@pytest.mark.parametrize("settings", [{"processes": False}, {"threads_per_worker": 2}])
def test_workers_of_dask_that_are_threads_do_it_too(settings, monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH", 1)
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "dashboard_address": None} | settings
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask", n_jobs=2),
        parallel.workers(34, None) as processes,
    ):
        assert parallel.run(divmod, [(k, 3) for k in range(9)], processes) == [divmod(k, 3) for k in range(9)]


def test_the_workers_that_a_user_names_do_it(monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH", 1)
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        chosen = next(iter(client.nthreads()))
        pid = client.run(os.getpid)[chosen]
        config = joblib.parallel_config("dask", n_jobs=2, workers=[chosen])
        with config, parallel.workers(34, None) as processes:
            found = set(parallel.run(_pid, [(k,) for k in range(40)], processes))
    assert found <= {pid, os.getpid()}


def _pid(_):
    time.sleep(0.01)
    return os.getpid()
