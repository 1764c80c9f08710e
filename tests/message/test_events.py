"""What watched units notice, on its way."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet, PacketError


def message(n_events):
    events = np.arange(3 * n_events).reshape(-1, 3) % 2 == 0
    return StateMessage(np.zeros((5, 2)), np.eye(2)[None], None, (5,), events=events)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_three_bits_a_row_arrive_as_they_were(dtype):
    sent = message(5)
    packet = sent.to_packet(dtype=dtype)
    assert packet.arrays["events"].nbytes == 2  # fifteen bits
    assert_array_equal(StateMessage.from_packet(Packet.decode(packet.encode())).events, sent.events)


def test_events_of_other_rows_are_refused():
    with pytest.raises(PacketError, match="'events' has 4 rows, and the message 5"):
        StateMessage.from_packet(message(4).to_packet())


def test_rows_of_a_message_are_those_of_its_events():
    whole = message(5)
    assert_array_equal(whole.rows(1, 3).events, whole.events[1:3])
