"""What crosses the border when a fitted plant is asked about a record; every packet passes the ledger."""


def sent(messages, ledger, dtype="float64"):
    """Messages of units as the server gets them."""
    return _crossed(messages, ledger, "up", dtype)


def told(replies, ledger, dtype="float64"):
    """Replies of the server as the units get them, see :func:`sent`."""
    return _crossed(replies, ledger, "down", dtype)


def _crossed(messages, ledger, direction, dtype):
    arrived = {}
    for name, message in messages.items():
        packet = message.to_packet(0, dtype)
        ledger.record(name, direction, packet)
        arrived[name] = message if dtype == "float64" else type(message).from_packet(packet)
    return arrived
