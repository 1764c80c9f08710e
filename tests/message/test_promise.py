"""A promise of privacy rides on another packet, and is refused where it cannot be meant."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.requests import PrivacyPromise

EVENT = PrivacyPromise(np.array([0.5, 0.25]), 0.5, 1e-6, 6.0, 100, 1, "event", "replace")
WINDOW = replace(EVENT, unit="window", window=10, event_radius=2.0)
BELOW = Packet("fit", 3, {"z": np.ones(2)}, {"const": True})


@pytest.mark.parametrize("promise", [EVENT, WINDOW], ids=["event", "window"])
def test_what_is_put_on_a_packet_comes_off_it_and_leaves_the_rest(promise):
    packet = Packet.decode(promise.put_on(BELOW).encode())
    assert list(packet.arrays) == ["z", "added_noise"]
    assert all(name.startswith("promise_") for name in list(packet.scalars)[1:])
    rest, told = PrivacyPromise.taken_off(packet)
    assert rest.encode() == BELOW.encode()
    assert_array_equal(told.noise, promise.noise)
    assert replace(told, noise=None) == replace(promise, noise=None)


def test_a_packet_without_a_promise_stays_what_it_is():
    packet, promise = PrivacyPromise.taken_off(BELOW)
    assert packet is BELOW
    assert promise is None


@pytest.mark.parametrize(
    "changed",
    [
        {"noise": np.array([0.5, 0.0])}, {"noise": np.array([0.0, 0.5])}, {"noise": np.array([0.5, -1.0])},
        {"mu": 0.0}, {"delta": 0.0}, {"delta": 1.0}, {"clip_norm": 0.0}, {"event_radius": 0.0},
        {"window": 10}, {"unit": "window"},
    ],
    ids=str,
)  # fmt: skip
def test_terms_that_cannot_be_meant_are_refused(changed):
    with pytest.raises(PacketError, match="in terms that make no sense"):
        PrivacyPromise.taken_off(replace(EVENT, **changed).put_on(BELOW))


@pytest.mark.parametrize("changed", [{"rows": 0}, {"releases": 0}, {"unit": "plant"}, {"relation": "add"}], ids=str)
def test_words_and_counts_that_cannot_be_meant_are_refused_by_name(changed):
    with pytest.raises(PacketError, match=f"'{next(iter(changed))}' of packet 'promise'"):
        PrivacyPromise.taken_off(replace(EVENT, **changed).put_on(BELOW))


@pytest.mark.parametrize("name", ["mu", "delta", "clip_norm", "rows", "releases", "unit", "relation"])
def test_half_a_promise_is_refused(name):
    packet = EVENT.put_on(BELOW)
    scalars = {key: value for key, value in packet.scalars.items() if key != f"promise_{name}"}
    with pytest.raises(PacketError, match=f"expected .*'{name}'"):
        PrivacyPromise.taken_off(Packet(packet.op, 3, packet.arrays, scalars))
    with pytest.raises(PacketError, match="lacks the array 'added_noise'"):
        PrivacyPromise.taken_off(Packet(packet.op, 3, {}, packet.scalars))
    with pytest.raises(PacketError, match="has the scalars"):
        PrivacyPromise.taken_off(Packet(packet.op, 3, packet.arrays, {}))
