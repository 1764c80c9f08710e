"""Sites whose settings say nothing send what `fit` sends in one process: the plant is the same to the bit."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodServer,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.containers.plant import read_plant
from skfedcausal.datasets import load_batadal, load_skab, load_tep, make_granger_plant
from skfedcausal.federation import Gate, InProcessTransport, Packet
from skfedcausal.federation.envelope import Envelope
from skfedcausal.federation.exchange import Site

from ..server.test_shared_sensors import _plant as shared_plant

KEY = b"k" * 32


class Door:
    """A unit behind the gate of a site whose settings say nothing of a policy."""

    def __init__(self, worker, home, watch):
        self.name, self._number = worker.name, 0
        policy = None if not watch else Gate(worker.name, worker, home, key=KEY).policy.and_watching()
        self._gate = Gate(worker.name, worker, home, key=KEY, policy=policy)

    def handle(self, packet, state):
        self._number += 1
        question = Envelope("march", self.name, "down", self._number)
        frame = self._gate.answer(question.seal(packet.encode(), KEY))
        answer = Packet.decode(Envelope("march", self.name, "up", self._number).open(frame, KEY))
        assert answer.op != "error", answer.scalars
        return answer, {**state, "asked": self._number}


def behind_doors(X, home, inputs=None, watch=False, input_columns=None):
    plant = read_plant(X, inputs=inputs, input_columns=input_columns)
    units = zip(plant.names, plant.outputs, plant.inputs, strict=True)
    workers = {name: UnitWorker(name, Y, U, plant.starts, None, KalmanClient()) for name, Y, U in units}
    return InProcessTransport({name: Site(Door(one, home / name, watch)) for name, one in workers.items()})


def simulated():
    yield "own class", make_granger_plant(3, random_state=0)[0]
    yield "own class of five", make_granger_plant(5, n_samples=600, random_state=1)[0]
    yield "a sensor that two units read", shared_plant()[0]
    yield "nothing shared", shared_plant(shared=False)[0]
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 6))
    rows[2:] += 0.5 * rows[:-2]  # sensors that remember the row before last, as no state of a unit does
    yield "a memory of their own", {"a": rows[:, :3], "b": rows[:, 3:]}


PLANTS = dict(simulated())


@pytest.mark.medium
@pytest.mark.parametrize("name", PLANTS)
def test_links_are_the_same(tmp_path, name):
    X = PLANTS[name]
    here, there = FederatedGrangerEstimator(), FederatedGrangerEstimator()
    here.fit(X)
    there.fit_sites(behind_doors(X, tmp_path))
    assert_array_equal(here.transition_, there.transition_)
    assert_array_equal(here.lag_transitions_, there.lag_transitions_)
    pd.testing.assert_frame_equal(here.links_, there.links_, check_exact=True)
    up = [one.communication_["bytes_up"] for one in (here, there)]
    assert up[0] == up[1]


@pytest.mark.medium
def test_effects_are_the_same(tmp_path):
    X, _ = make_granger_plant(3, random_state=0)
    U = {"unit0": np.random.default_rng(0).normal(size=(len(X["unit0"]), 1))}
    server = LikelihoodServer(max_time=5.0)
    here = FederatedCounterfactualEstimator(server=server).fit(X, inputs=U)
    there = FederatedCounterfactualEstimator(server=server).fit_sites(behind_doors(X, tmp_path, U))
    assert_array_equal(here.server_.transition_, there.server_.transition_)
    assert_array_equal(here.server_.input_, there.server_.input_)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:One false alarm")
@pytest.mark.parametrize("name", ["own class", "own class of five"])
def test_watched_plants_are_the_same(tmp_path, name):
    X = PLANTS[name]
    here = FederatedRCADetector().fit(X)
    there = FederatedRCADetector().fit_sites(behind_doors(X, tmp_path, watch=True))
    assert_array_equal(here.server_.transition_, there.server_.transition_)


def recorded(name, folder):
    if name == "tep":
        return load_tep(folder / "tep", "d00_te").data
    if name == "batadal":
        frame = load_batadal(folder / "batadal").data
    else:
        frame = load_skab(folder / "skab", "anomaly-free/anomaly-free").data
    frame = frame.astype(float).reset_index(drop=True).iloc[:6000]
    return frame.loc[:, frame.std() > 0]


def folder_of(name):
    folder = Path(os.environ.get("SKFEDCAUSAL_DATA", "missing"))
    if not (folder / name).is_dir():
        pytest.skip(f"SKFEDCAUSAL_DATA names no folder with {name}")
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tep", "skab", "batadal"])
def test_recorded_plants_are_the_same(tmp_path, name):
    X = recorded(name, folder_of(name))
    here = FederatedGrangerEstimator().fit(X)
    there = FederatedGrangerEstimator().fit_sites(behind_doors(X, tmp_path))
    assert_array_equal(here.transition_, there.transition_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tep", "skab", "batadal"])
def test_recorded_plants_are_watched_by_the_same(tmp_path, name):
    X = recorded(name, folder_of(name))
    here = FederatedRCADetector(false_alarm_rate=1e-2).fit(X)
    there = FederatedRCADetector(false_alarm_rate=1e-2).fit_sites(behind_doors(X, tmp_path, watch=True))
    assert_array_equal(here.server_.transition_, there.server_.transition_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tep_b", "steam_c", "water_b"])
def test_effects_in_plants_of_others_are_the_same(tmp_path, name):
    with np.load(folder_of("effects") / "effects" / f"{name}.npz", allow_pickle=True) as kept:
        columns, inputs = ([str(one).replace(".", "__", 1) for one in kept[part]] for part in ("cols", "inputs"))
        X = pd.DataFrame(np.c_[kept["X"], kept["U"]], columns=[*columns, *inputs])
    server = LikelihoodServer(max_time=3.0)
    here = FederatedCounterfactualEstimator(server=server, input_columns=inputs).fit(X)
    doors = behind_doors(X, tmp_path, input_columns=inputs)
    there = FederatedCounterfactualEstimator(server=server).fit_sites(doors)
    assert here.engine_ == there.engine_ == "responses"
    n = inputs[0].split("__")[0]
    one, other = (
        fit.counterfactual(n, U.mean(axis=0), U.mean(axis=0) + 1.0, horizon=8, of="state")
        for fit, U in ((fit, X[[name for name in inputs if name.startswith(f"{n}__")]]) for fit in (here, there))
    )
    for unit in one:
        assert_array_equal(one[unit], other[unit])
