"""Plants of many units that have to be learned as a whole say so, and why, before they begin."""

from dataclasses import replace

import pytest

from skfedcausal import KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.sparse.server import asks_for_the_whole, warn_of_work


@pytest.fixture(scope="module")
def record():
    X, truth = make_granger_plant(3, n_states=1, n_sensors=2, n_samples=60, random_state=0)
    clients = {name: KalmanClient(C=C).fit(X[name]) for name, C in zip(X, truth.observation, strict=True)}
    return JointRecord.from_messages({name: client.message(X[name]) for name, client in clients.items()})


def test_what_asks_for_the_whole_is_named(record):
    assert asks_for_the_whole(record, LikelihoodServer()) == ""
    words = asks_for_the_whole(
        record, LikelihoodServer(covariance="sandwich", options=LikelihoodOptions(fix_local=True))
    )
    assert words == "covariance='sandwich', fix_local=True"
    assert asks_for_the_whole(replace(record, known_links=object()), LikelihoodServer()) == "known links"


def test_many_units_are_warned_of(record):
    many = replace(record, names=tuple(f"unit{k}" for k in range(101)))
    with pytest.warns(UserWarning, match="101 units with gaps is learned as a whole"):
        warn_of_work(many, "gaps")
    warn_of_work(record, "gaps")  # of few nobody is
