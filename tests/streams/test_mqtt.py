"""Rows published to a broker: parts of a row come together, from a real broker where one is installed."""

import asyncio
import json
import socket
import threading
import time
from types import SimpleNamespace

import pandas as pd
import pytest

from skfedcausal.streams import Clock, StreamWarning, follow_mqtt
from skfedcausal.streams.mqtt import Rows, acknowledge, mqtt_rows

TIME = "2026-01-01T00:00:00"


def told(**numbers):
    return json.dumps({"time": TIME, **numbers})


def test_parts_of_a_row_come_together_by_their_time():
    rows = Rows(["a", "b"], patience=60.0)
    rows.add("plant/a", told(x=1.0))
    assert rows.ready() is None
    rows.add("plant/b", told(x=2.0, y=3.0))
    batch = rows.ready()
    assert batch.to_dict("records") == [{"a__x": 1.0, "b__x": 2.0, "b__y": 3.0}]
    assert batch.index[0] == pd.Timestamp(TIME)
    assert rows.ready() is None


def test_a_row_does_not_wait_for_ever_for_a_unit():
    rows = Rows(["a", "b"], patience=0.0)
    rows.add("plant/a", told(x=1.0))
    assert list(rows.ready().columns) == ["a__x"]


def test_whole_rows_have_flat_names_and_may_come_several_at_once():
    rows = Rows(None, patience=60.0)
    rows.add("plant", json.dumps([{"time": k, "a__x": k, "b__x": None} for k in range(3)]))
    assert rows.ready()["a__x"].tolist() == [0, 1, 2]


def test_a_clock_that_is_set_back_loses_no_row_where_all_come_at_once():
    rows, clock = Rows(None, patience=60.0), Clock()
    minutes = [*range(50), *range(20, 70)]
    for k, minute in enumerate(minutes):
        rows.add("plant", json.dumps({"time": f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}", "a__x": k}))
    with pytest.warns(StreamWarning, match="the clock of the source was reset"):
        given = clock.take(rows.ready())
    assert given["a__x"].tolist() == list(range(len(minutes)))


class Sender:
    """A client of a broker that sends no more than 20 messages to which nothing was said, as most do."""

    protocol, answer = 4, "Granted QoS 1"

    def __init__(self, messages=()):
        self._left, self._open = list(messages), 0

    def connect(self, *_, **__):
        packets = pytest.importorskip("paho.mqtt.packettypes")
        reasons = pytest.importorskip("paho.mqtt.reasoncodes")
        reason = reasons.ReasonCode(packets.PacketTypes.SUBACK, self.answer)
        self.on_subscribe(self, None, 1, [reason], None)
        self.ack(None, None)

    def ack(self, _mid, _qos):
        self._open = max(self._open - 1, 0)
        while self._open < 20 and self._left:
            topic, payload = self._left.pop(0)
            self._open += 1
            self.on_message(self, None, SimpleNamespace(topic=topic, payload=payload, qos=1, mid=1))

    def nothing(self):
        pass

    loop_start = loop_stop = disconnect = nothing


def test_a_topic_that_the_broker_refuses_is_named():
    client = Sender()
    client.answer = "Not authorized"
    with pytest.raises(ConnectionError, match="refused the topic 'plant/rows': Not authorized"):
        next(follow_mqtt("127.0.0.1", "plant/rows", client=client, wait=1.0))


UNITS = [f"u{k}" for k in range(50)]
DAY = [f"2026-01-01T00:{k:02d}" for k in range(4)]


@pytest.mark.parametrize(
    ("units", "messages"),
    [
        (None, [("plant/u0", text) for at in DAY for text in (*["junk"] * 50, json.dumps({"time": at, "x": 1.0}))]),
        (UNITS, [(f"plant/{unit}", json.dumps({"time": at, "x": 1.0})) for at in DAY for unit in UNITS]),
    ],
    ids=["no rows", "many units"],
)
@pytest.mark.filterwarnings("ignore")
def test_a_broker_that_waits_for_a_word_gets_it(units, messages):
    """Messages that are no rows, and parts of a row that is not whole, are more than the broker sends at once."""
    client, given = Sender(messages), []
    for safe, frame in mqtt_rows(client, "127.0.0.1", 1883, "plant/+", Rows(units, 60.0), wait=0.3, lasting=True):
        given += [] if frame is None else [frame]
        acknowledge(client, safe)
    given = pd.concat(given)
    assert len(given) == len(DAY)
    assert given.shape[1] == len(units or [1])
    assert given.notna().to_numpy().all()


def test_one_who_takes_long_with_a_batch_gets_what_came_meanwhile():
    messages = [
        ("plant/u0", json.dumps({"time": f"2026-01-01T{k // 60:02d}:{k % 60:02d}", "x": 1.0})) for k in range(70)
    ]
    client, n_rows = Sender(messages), 0
    for safe, frame in mqtt_rows(client, "127.0.0.1", 1883, "plant/+", Rows(None, 60.0), wait=0.2, lasting=True):
        if frame is not None:
            time.sleep(0.3)
            n_rows += len(frame)
        acknowledge(client, safe)
    assert n_rows == len(messages)


def test_columns_that_may_hold_words_keep_them_and_their_names():
    rows = Rows(None, patience=60.0, words=["recipe", "a__grade"])
    rows.add("plant/a", told(x=1.0, recipe="summer", grade="A"))
    assert rows.ready().to_dict("records") == [{"a__x": 1.0, "recipe": "summer", "a__grade": "A"}]


@pytest.mark.parametrize(
    "payload",
    [
        "no json",
        "[1]",
        '{"a__x": 1}',
        '{"time": "never", "a__x": 1}',
        told(x="on"),
        told(x=10**400),
        told(x=1.0, recipe=["A"]),
        told(x=1.0, recipe={"name": "A"}),
    ],
)
def test_what_is_no_row_is_named_and_left_out(payload):
    rows = Rows(None, patience=0.0, words=["recipe"])
    with pytest.warns(StreamWarning, match="'plant/a' is no row"):
        rows.add("plant/a", payload)
    assert rows.ready() is None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def broker():
    """A broker in a thread of this process, its port."""
    pytest.importorskip("paho.mqtt.client")
    amqtt = pytest.importorskip("amqtt.broker")
    port, loop, stopped = free_port(), asyncio.new_event_loop(), threading.Event()
    config = {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }

    async def serve():
        server = amqtt.Broker(config)
        await server.start()
        started.set()
        while not stopped.is_set():
            await asyncio.sleep(0.02)
        await server.shutdown()

    started = threading.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(10)
    yield port
    stopped.set()
    thread.join(10)
    loop.close()


def test_rows_come_from_a_real_broker_within_a_second(broker):
    mqtt = pytest.importorskip("paho.mqtt.client")
    sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    sender.connect("127.0.0.1", broker)
    sender.loop_start()
    sent, delays, rows = {}, [], []

    def publish():
        time.sleep(0.5)
        for k in range(20):
            sent[k] = time.monotonic()
            for unit in ("a", "b"):
                sender.publish(f"plant/{unit}", json.dumps({"time": k, "x": k}), qos=1).wait_for_publish(5)

    publisher = threading.Thread(target=publish)
    publisher.start()
    for batch in follow_mqtt("127.0.0.1", "plant/+", port=broker, units=["a", "b"], wait=1.5):
        delays += [time.monotonic() - sent[k] for k in batch["a__x"].astype(int)]
        rows.append(batch)
    publisher.join()
    sender.loop_stop()
    whole = pd.concat(rows)
    assert whole["a__x"].tolist() == whole["b__x"].tolist() == list(range(20))
    assert max(delays) < 1.0


def test_a_broker_that_is_not_there_is_named():
    pytest.importorskip("paho.mqtt.client")
    with socket.socket() as free:  # a port that nobody listens at
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match=f"no broker at 127.0.0.1:{port}"):
        next(follow_mqtt("127.0.0.1", "plant", port=port, wait=0.1))
