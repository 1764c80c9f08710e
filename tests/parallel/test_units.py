"""Units of a plant that has processes: what they learn there is what they would learn here."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer, parallel
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import Packet, exchange


@pytest.fixture
def at_once(monkeypatch):
    """Processes are worth it for few units, whatever they take."""
    monkeypatch.setattr(parallel, "_WORTH", 1)
    for name, value in {"_TRIED": 1, "_WORTH": 0.0}.items():
        monkeypatch.setattr(exchange, name, value)


def _plant(tmp_path=None):
    X, _ = make_granger_plant(4, n_states=1, n_sensors=3, n_samples=200, random_state=0)
    X["unit2"][:, 1] = 3.0
    if tmp_path is None:
        return X
    for name, Y in X.items():
        np.save(tmp_path / f"{name}.npy", Y)
    return {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in X}


def _fitted(X, client=None):
    """An estimator and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = FederatedGrangerEstimator(
            client, server=LikelihoodServer(options=LikelihoodOptions(n_rounds=2))
        ).fit(X)
    return estimator, sorted(str(each.message) for each in caught if each.category is UserWarning)


@pytest.mark.medium
@pytest.mark.parametrize("mapped", [False, True])
def test_units_in_processes_learn_the_same_and_their_warnings_are_heard(at_once, monkeypatch, tmp_path, mapped):
    X = _plant(tmp_path if mapped else None)
    client = KalmanClient(n_states=1)
    here, warned = _fitted(X, client)
    places = []
    monkeypatch.setattr(exchange, "_warned", lambda results: places.append(len(results)) or _warned(results))
    with joblib.parallel_config("loky", n_jobs=2), parallel.workers(4, None) as processes:
        processes.started.result()
        there, heard = _fitted(X, client)
    assert places[0] == 3  # all but the one that says how long others take
    assert there.transition_.tobytes() == here.transition_.tobytes()
    assert heard == warned
    assert any("unit2__x1" in each for each in heard)
    for name, unit in there.clients_.items():
        np.testing.assert_array_equal(unit.observation_, here.clients_[name].observation_)
    for mine, theirs in zip(here.predict(X), there.predict(X), strict=True):
        np.testing.assert_array_equal(theirs, mine)


_warned = exchange._warned


class Counting(KalmanClient):
    """A user's own kind, which notes where it is fitted."""

    places: set = set()

    def fit(self, X, **along):
        self.places.add(os.getpid())
        return super().fit(X, **along)


def test_kinds_of_units_that_users_wrote_stay_here(at_once):
    """Another process may not know their class, or its copy of what they share."""
    with joblib.parallel_config("loky", n_jobs=2), parallel.workers(4, None):
        _fitted(_plant(), Counting())
    assert Counting.places == {os.getpid()}


def _warn_and_answer(packet, state):
    warnings.warn("Sensor 3 is stuck.", RuntimeWarning, stacklevel=1)
    return packet, state


def test_a_warning_is_heard_once_wherever_the_worker_was():
    class Worker:
        handle = staticmethod(_warn_and_answer)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [exchange.handled(4, Worker(), "packet", {}) for _ in range(3)]
    assert not caught
    with pytest.warns(RuntimeWarning, match="stuck") as caught:
        assert exchange._warned(results) == [("packet", {})] * 3
    assert [each.filename for each in caught] == [__file__] * 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__)
        exchange._warned(results)
    assert not caught


def test_threads_that_listen_leave_warnings_as_they_were():
    class Worker:
        handle = staticmethod(_warn_and_answer)

    before = warnings._showwarnmsg_impl, list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: exchange.handled(4, Worker(), "packet", {}), range(200)))
    assert (warnings._showwarnmsg_impl, list(warnings.filters)) == before
    assert [len(caught) for *_, caught in results] == [1] * 200


def test_whether_others_may_help_is_asked_once_and_not_of_every_unit(monkeypatch):
    """Thousands of units that answer at once stay here."""
    asked = []

    class Worker:
        n_columns = 1

        @property
        def may_go_elsewhere(self):
            asked.append(1)
            return True

        def handle(self, packet, state):
            return packet, state

    with joblib.parallel_config("loky", n_jobs=2), parallel.workers(300, None):
        units = exchange.InProcessTransport({f"unit{k}": Worker() for k in range(300)})
        monkeypatch.setattr(exchange, "_by", None)
        units.exchange(dict.fromkeys(units.clients(), Packet("hello")))
    assert len(asked) == 300
