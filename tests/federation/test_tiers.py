"""A server per site and one above."""

import threading
import time

import numpy as np
import pytest

from skfedcausal import Communication, FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import Failure, InProcessTransport, LostUnits, LostUnitWarning, Packet
from skfedcausal.federation.tiers import TieredTransport
from skfedcausal.testing import check_transport


def tiers(workers, n_sites=3, patience=None, last=None):
    """The same workers at some sites, in groups of neighbours; `last` wraps the transport of the last one."""
    names = np.array_split(list(workers), n_sites)
    sites = {
        f"site{k}": InProcessTransport({str(name): workers[str(name)] for name in group})
        for k, group in enumerate(names)
        if len(group)
    }
    if last is not None:
        site = list(sites)[-1]
        sites[site] = last(sites[site])
    return TieredTransport(sites, patience)


class Late:
    """A site that answers once it is let."""

    def __init__(self, transport):
        self._transport, self.go = transport, threading.Event()
        self.clients, self.close = transport.clients, transport.close

    def exchange(self, out, *, timeout=None):
        self.go.wait(10)
        return self._transport.exchange(out, timeout=timeout)


def test_it_is_a_transport():
    check_transport(tiers)


def test_the_plant_is_that_of_a_flat_server():
    X, _ = make_granger_plant(5, n_samples=600, random_state=0)
    flat = FederatedGrangerEstimator().fit(X)
    tiered = FederatedGrangerEstimator(communication=Communication(transport=tiers)).fit(X)
    assert tiered.transition_.tobytes() == flat.transition_.tobytes()
    assert tiered.links_.equals(flat.links_)
    assert tiered.communication_["bytes_up"] == flat.communication_["bytes_up"]


def test_a_late_site_holds_up_nobody():
    X, _ = make_granger_plant(5, n_samples=600, random_state=0)
    late = []

    def make(workers):
        return tiers(workers, patience=0.5, last=lambda transport: late.append(Late(transport)) or late[-1])

    lost = LostUnits(quorum=0.5, timeout=0.5)
    with pytest.warns(LostUnitWarning, match="unit4"):
        estimator = FederatedGrangerEstimator(communication=Communication(transport=make, lost_units=lost)).fit(X)
    late[0].go.set()
    assert estimator.client_names_ == ("unit0", "unit1", "unit2", "unit3")
    assert "site2" in estimator.lost_units_["reason"].iloc[0]


class Patient:
    """A site that waits for its first unit, in vain, and brings what the others said."""

    def __init__(self, transport):
        self._transport, self.told = transport, []
        self.clients, self.close = transport.clients, transport.close

    def exchange(self, out, *, timeout=None):
        self.told.append(timeout)
        first = self.clients()[0]
        time.sleep(0.05)
        others = {name: packet for name, packet in out.items() if name != first}
        found = self._transport.exchange(others) if others else {}
        return found | {name: Failure("timeout", "it sleeps") for name in out if name == first}


@pytest.mark.parametrize("by_whom", ["transport", "rule"])
def test_a_late_unit_does_not_cost_its_site(by_whom):
    X, _ = make_granger_plant(4, n_samples=400, random_state=0)
    sites = []

    def make(workers):
        patience = 20.0 if by_whom == "transport" else None
        return tiers(workers, 2, patience, lambda transport: sites.append(Patient(transport)) or sites[-1])

    lost = LostUnits(quorum=0.5, timeout=20.0 if by_whom == "rule" else None)
    with pytest.warns(LostUnitWarning, match="unit2"):
        estimator = FederatedGrangerEstimator(communication=Communication(transport=make, lost_units=lost)).fit(X)
    assert estimator.client_names_ == ("unit0", "unit1", "unit3")
    assert set(sites[0].told) == {18.0}


def test_units_of_one_name_at_two_sites_are_refused():
    class Echo:
        def handle(self, packet, state):
            return Packet("echo"), state

    site = InProcessTransport({"boiler": Echo()})
    with pytest.raises(ValueError, match="'north' and 'south' both have a unit 'boiler'"):
        TieredTransport({"north": site, "south": site})
