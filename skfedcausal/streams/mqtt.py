"""Rows that units publish to an MQTT broker."""

import json
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ..containers.arrays import SEPARATOR
from ..estimators._watching import say_and_go_on
from ..optional import import_optional
from .cells import Parts, Stamps, number_of
from .clock import on_clock
from .tuning import TUNING

_TIMES = ("time", "timestamp", "ts")
_LONGEST = 1 << 22  # bytes of a message
_MOST_ROWS = 4096  # of a batch


def follow_mqtt(
    host: str,
    topic: str,
    *,
    port: int | None = None,
    units: Sequence[str] | None = None,
    wait: float | None = None,
    patience: float = TUNING.mqtt_patience,
    client: Any = None,
    words: Sequence[str] = (),
    user: str | None = None,
    password: str | None = None,
    tls: Any = None,
    version: int = 4,
    tz: str | None = None,
    clock: Any = None,
) -> Iterator[pd.DataFrame]:
    """Follow the rows that a plant publishes to an MQTT broker.

    A message is a JSON object of numbers by column, with the time of its row as ``time``: of the whole plant, columns
    ``unit__sensor``, or of one unit, whose name is then the last level of the topic. A list of such objects is several
    rows. ``{"timestamp": ..., "metrics": [{"name": "power", "value": 1.5}, ...]}``, as Sparkplug has it, is one row as
    well. Parts of a row come together by their time.

    Parameters
    ----------
    host : str
    topic : str
        Such as ``"plant/rows"`` or ``"plant/+"`` for a topic of each unit; ``+`` and ``#`` hold.
    port : int, default=None
        None: 1883, with `tls` 8883.
    units : sequence of str, default=None
        Units of a row: it is complete when all have told theirs. None takes every message for a whole row.
    wait : float, default=None
        Seconds without a message after which the stream ends; None: never.
    patience : float, default=0.2
        Seconds that a row waits for units that are missing; their measurements are then missing.
    client : paho.mqtt.client.Client, default=None
        For whatever the options below do not have; None for one by these.
    words : sequence of str, default=()
        Columns that may hold words, such as modes, by the name that they have in a row, ``unit__sensor``. One without a
        unit is of the whole plant, whatever the topic.
    user, password : str, default=None
        As the broker knows the watch; neither stands in any warning or error.
    tls : bool or dict, default=None
        True for a broker whose certificate a usual authority signed; a dict of the paths ``ca``, ``certificate`` and
        ``key`` for others.
    version : {4, 5}, default=4
        Of MQTT; 4 is 3.1.1.
    tz : str, default=None
        Zone of times that tell none; the answers are in UTC then, as they are where the first time tells a zone.
    clock : Clock, default=None
        What becomes of rows that are late, doubled or ahead; None for a new one.

    Yields
    ------
    DataFrame
        The next rows in the order in which they came. What is no row is named by a StreamWarning and left out.

    Raises
    ------
    ImportError
        Without paho-mqtt (extra ``mqtt``).
    ConnectionError
        If there is no broker, or it refuses the connection. One that is lost later is made again.
    """
    client = mqtt_client(user=user, password=password, tls=tls, version=version) if client is None else client
    port = (8883 if tls else 1883) if port is None else port
    rows = Rows(units, patience, words, Stamps(tz))
    yield from on_clock(mqtt_rows(client, host, port, topic, rows, wait), clock)


def mqtt_client(name="", *, user=None, password=None, tls=None, version=4):
    """A client that is not connected yet; with a `name` the broker keeps what comes while it is away."""
    mqtt = import_optional("paho.mqtt.client", "mqtt", "A stream from an MQTT broker")
    lasting = {"clean_session": not name} if version != mqtt.MQTTv5 else {}
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=version, manual_ack=bool(name), **lasting
    )
    if user is not None:
        client.username_pw_set(user, password)
    if tls:
        paths = tls if isinstance(tls, Mapping) else {}
        client.tls_set(paths.get("ca"), paths.get("certificate"), paths.get("key"))
    client.reconnect_delay_set(1, 30)
    return client


def mqtt_rows(client, host, port, topic, rows, wait=None, lasting=False):
    """Rows as they are complete, each with messages to acknowledge after them, as those that were no rows are; None
    where nothing is new.

    In a `lasting` session the broker keeps what was not acknowledged for the next connection.
    """
    came: queue.SimpleQueue = queue.SimpleQueue()

    def subscribe(client, _data, _flags, reason, _properties):
        if reason.is_failure:
            came.put(ConnectionError(f"The broker {host}:{port} refused the connection: {reason}."))
        else:
            client.subscribe(topic, qos=1)

    def subscribed(_client, _data, _number, reasons, _properties):
        refused = next((reason for reason in reasons if reason.is_failure), None)
        why = f"The broker {host}:{port} refused the topic {topic!r}: {refused}."
        came.put(None if refused is None else ConnectionError(why))

    def lost(_client, _data, _flags, reason, _properties):
        if reason.is_failure:
            came.put(ConnectionError(f"The broker {host}:{port} was lost ({reason})."))

    client.on_connect, client.on_subscribe, client.on_disconnect = subscribe, subscribed, lost
    client.on_message = lambda _client, _data, message: came.put(message)
    try:
        client.connect(host, port, keepalive=TUNING.mqtt_keep_alive, **connecting(client, lasting))
    except OSError as error:
        problem = f"There is no broker at {host}:{port} ({error})"
        raise ConnectionError(f"{problem}. Is it running, and is that its port?") from error
    client.loop_start()
    try:
        yield from _batches(client, came, rows, wait)
    finally:
        client.disconnect()
        client.loop_stop()


def connecting(client, lasting):
    """How a connection of MQTT 5 says that the broker is to keep what comes while the client is away."""
    if client.protocol != 5 or not lasting:
        return {}
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 7 * 86_400
    return {"clean_start": False, "properties": properties}


def _batches(client, came, rows, wait):
    last, begun = time.monotonic(), False
    unsafe: list = []  # messages of rows that were not given yet
    while True:
        try:
            message = came.get(timeout=TUNING.mqtt_look)
            if isinstance(message, Exception):
                if not begun:
                    raise message
                say_and_go_on(f"{message} The connection is tried again")
            elif message is None:
                begun = True
            else:
                last = time.monotonic()
                unsafe.append(message)
                rows.add(message.topic, message.payload)
        except queue.Empty:
            yield None, None
        if came.empty() or len(unsafe) >= _MOST_ROWS:
            batch, keeps = rows.ready(), rows.waiting and len(unsafe) < TUNING.mqtt_unsafe
            done, unsafe = ([], unsafe) if keeps else (unsafe, [])
            if done or batch is not None:
                yield done, batch
                last = time.monotonic()  # what came meanwhile may still wait at the broker for a word
        if wait is not None and time.monotonic() - last >= wait:
            if (rest := rows.ready(everything=True)) is not None:
                yield unsafe, rest
            return


def acknowledge(client, messages):
    """Tell the broker that it need not keep messages any more."""
    for message in messages or ():
        if message.qos:
            client.ack(message.mid, message.qos)


class Rows:
    """Messages of units as rows of the plant."""

    def __init__(self, units, patience, words=(), stamps=None, names=None):
        self._parts, self._words, self._names = Parts(units, patience), frozenset(words), dict(names or {})
        self._stamps = Stamps() if stamps is None else stamps
        self.ready = self._parts.ready

    @property
    def waiting(self):
        """Whether parts of rows are here that were not given yet."""
        return bool(self._parts)

    def add(self, topic, payload):
        """Take in a message."""
        try:
            if len(payload) > _LONGEST:
                raise ValueError(f"{len(payload):,} bytes")
            content = json.loads(payload)
            found = [self._part(topic, row) for row in (content if isinstance(content, list) else [content])]
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
            say_and_go_on(f"A message about {topic[:80]!r} is no row ({type(error).__name__}): left out")
            return
        for part in found:
            self._parts.add(*part)

    def _part(self, topic, row):
        unit, flat = topic.rpartition("/")[2], {}
        clock = next(name for name in (*_TIMES, "") if name in row or not name)
        moment = self._stamps.read([row[clock]])[0]
        if isinstance(row.get("metrics"), list):
            row = {metric["name"]: metric.get("value") for metric in row["metrics"]}
        for name, value in row.items():
            if name == clock or value is None:
                continue
            name = self._names.get(name, name)
            name = name if SEPARATOR in name or name in self._words else f"{unit}{SEPARATOR}{name}"
            flat[name] = _word(value) if name in self._words else _number(value)
        if moment is pd.NaT or not flat:
            raise ValueError
        return moment, frozenset(name.partition(SEPARATOR)[0] for name in flat), flat


def _number(value):
    """A number, which may be written as text; one that JSON has no digits for is missing."""
    number = number_of(value)
    if number != number and not isinstance(value, float):
        raise ValueError
    return number


def _word(value):
    """What a column of words may hold."""
    if not isinstance(value, (str, int, float, bool)):
        raise ValueError(f"Got {value!r}; give a word or a number.")
    return value
