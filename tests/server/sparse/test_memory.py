"""A plant too large for the memory says so before it starts."""

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.sparse import memory


def record_of(n_units, n_samples=5000, n_states=2):
    return n_units, n_states * n_units, n_samples


def test_what_is_needed_and_what_would_fit_is_said(monkeypatch):
    monkeypatch.setattr(memory, "allowed_memory", lambda: 2**30)
    with pytest.raises(MemoryError, match=r"1500 units.*1 GiB are allowed.*would fit: \d+ units") as told:
        memory.check_memory(*record_of(1500))
    fits = int(str(told.value).split("would fit: ")[1].split()[0])
    memory.check_memory(*record_of(fits))
    with pytest.raises(MemoryError):
        memory.check_memory(*record_of(fits + 1))


def test_a_thousand_units_need_less_than_four_gigabytes():
    assert memory.needed_memory(5000, 2000, 1000) < 4 * 2**30


def test_nothing_fits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "allowed_memory", lambda: 2**20)
        with pytest.raises(MemoryError, match="nothing"):
            memory.check_memory(*record_of(40))


def test_what_a_process_has_mapped_already_is_not_left_to_it(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**30, 2**30))
    monkeypatch.setattr(memory, "_pages", lambda: (2**29, 2**27))
    assert memory.allowed_memory() == 2**29 + 2**27


def test_it_is_said_before_any_unit_begins(monkeypatch):
    X, truth = make_granger_plant(40, n_states=2, n_sensors=3, n_samples=60, random_state=0)
    monkeypatch.setattr(memory, "allowed_memory", lambda: 2**20)
    monkeypatch.setattr(KalmanClient, "fit", lambda *_: pytest.fail("a unit began"))
    with pytest.raises(MemoryError, match="40 units with 80 states and 60 rows"):
        FederatedGrangerEstimator([KalmanClient(C=C) for C in truth.observation]).fit(X)
    with pytest.raises(MemoryError, match="40 units with 40 states"):  # as few as there may be
        FederatedGrangerEstimator().fit(X)


@pytest.mark.parametrize(("sampled", "words"), [("auto", "40 units with 80 states"), ("before", "160 inputs")])
def test_inputs_are_counted_before_any_unit_begins(monkeypatch, sampled, words):
    X, truth = make_granger_plant(40, n_states=2, n_sensors=3, n_samples=400, random_state=0)
    inputs = dict(zip(X, np.random.default_rng(0).normal(size=(40, 400, 4)), strict=True))
    monkeypatch.setattr(memory, "allowed_memory", lambda: memory.needed_memory(400, 80, 40))
    monkeypatch.setattr(KalmanClient, "fit", lambda *_, **__: pytest.fail("a unit began"))
    clients = [KalmanClient(C=C) for C in truth.observation]
    estimator = FederatedCounterfactualEstimator(clients, server=LikelihoodServer(sampled=sampled))
    with pytest.raises(MemoryError, match=words):
        estimator.fit(X, inputs=inputs)


def test_inputs_of_a_plant_that_is_learned_as_a_whole_and_does_not_fit_are_said(monkeypatch):
    X, truth = make_granger_plant(40, n_states=2, n_sensors=3, n_samples=400, random_state=0)
    inputs = dict(zip(X, np.random.default_rng(0).normal(size=(40, 400, 4)), strict=True))
    needed = memory.needed_memory(400, 80, 40)
    n_elements = 80 * 40 + 40 * (4 + 3)  # every input on every state; of every unit a transition and a covariance
    assert memory.whole_elements(40, 80, 40) == n_elements
    monkeypatch.setattr(memory, "allowed_memory", lambda: needed)
    clients = [KalmanClient(C=C) for C in truth.observation]
    estimator = FederatedCounterfactualEstimator(clients, server=LikelihoodServer(sampled="before"))
    with pytest.raises(MemoryError, match=r"80 states and 160 inputs.*13080 elements.*would fit: \d+ units") as told:
        estimator.fit(X, inputs=inputs)
    fits = int(str(told.value).split("would fit: ")[1].split()[0])
    memory.check_inputs(fits, 2 * fits, 4 * fits)
    with pytest.raises(MemoryError):
        memory.check_inputs(fits + 1, 2 * fits + 2, 4 * fits + 4)
