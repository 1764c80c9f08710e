"""Plants that are learned batch by batch from units at sites: the same as in one process, over files."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import FileSite, FileTransport, InProcessTransport
from skfedcausal.sites.site import read_site_settings

UNITS, ROWS = ("mill", "kiln"), 400
X, _ = make_granger_plant(2, names=UNITS, n_samples=4 * ROWS, links=[(0, 1)], random_state=0)
PARTS = [{name: Y[k * ROWS : (k + 1) * ROWS] for name, Y in X.items()} for k in range(4)]
KEYS = {name: name.encode() * 8 for name in UNITS}
ONE = LikelihoodServer(options=LikelihoodOptions(level_shifts=None))


@pytest.fixture
def plant(tmp_path):
    for name in UNITS:
        np.save(tmp_path / f"{name}.npy", PARTS[0][name])
        (tmp_path / f"{name}-watched").mkdir()
        (tmp_path / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}.npy"\nwatched = "{name}-watched"\n'
        )
    return tmp_path


def add(plant, number, units=UNITS):
    for name in units:
        np.save(plant / f"{name}-watched" / f"{number}.npy", PARTS[number][name])


def in_one_process(n_batches):
    estimator = FederatedGrangerEstimator(server=ONE)
    for part in PARTS[:n_batches]:
        estimator.partial_fit(part)
    return estimator


def workers(plant):
    """The units of sites, without files between."""
    gates = {name: read_site_settings(plant / f"{name}.toml").gate() for name in UNITS}
    return {name: gate.worker for name, gate in gates.items()}


@pytest.mark.medium
def test_sites_send_the_batches_that_all_have(plant):
    add(plant, 1)
    add(plant, 2, UNITS[:1])
    estimator = inspection.partial_fit_sites(FederatedGrangerEstimator(server=ONE), InProcessTransport(workers(plant)))
    assert estimator.n_batches_ == 2
    assert_array_equal(estimator.transition_, in_one_process(2).transition_)
    add(plant, 2, UNITS[1:])
    add(plant, 3)
    before = estimator.communication_["bytes_up"]
    inspection.partial_fit_sites(estimator)
    assert estimator.n_batches_ == 4
    assert estimator.outdated_units_ == ()
    assert_array_equal(estimator.transition_, in_one_process(4).transition_)
    assert before > 0


@pytest.mark.medium
def test_batches_cross_over_files(plant):
    add(plant, 1)
    add(plant, 2)
    gates = [read_site_settings(plant / f"{name}.toml").gate(key=KEYS[name]) for name in UNITS]
    sites = [FileSite(gate, plant / "exchange") for gate in gates]
    threads = [threading.Thread(target=site.serve, kwargs={"timeout": 30.0}, daemon=True) for site in sites]
    for thread in threads:
        thread.start()
    transport = FileTransport(plant / "exchange", UNITS, "march", KEYS, timeout=30.0, journal=plant / "journal")
    try:
        estimator = inspection.partial_fit_sites(FederatedGrangerEstimator(server=ONE), transport)
    finally:
        transport.close()
        for thread in threads:
            thread.join(40.0)
    assert estimator.n_batches_ == 3
    assert_array_equal(estimator.transition_, in_one_process(3).transition_)


def test_what_sites_cannot_do_is_said(plant):
    with pytest.raises(ValueError, match="give `partial_fit_sites` a transport"):
        inspection.partial_fit_sites(FederatedGrangerEstimator())
    with pytest.raises(ValueError, match="have no inputs"):
        inspection.partial_fit_sites(FederatedCounterfactualEstimator(), InProcessTransport(workers(plant)))
    estimator = inspection.partial_fit_sites(FederatedGrangerEstimator(server=ONE), InProcessTransport(workers(plant)))
    with pytest.raises(ValueError, match="partial_fit_sites"):
        estimator.partial_fit(PARTS[1])
    with pytest.raises(ValueError, match="in a new run"):
        inspection.renew(estimator, "mill")
