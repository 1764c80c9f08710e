"""Rows that units publish to an MQTT broker."""

import json
import queue
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ..callers import warn
from ..containers.layout import SEPARATOR
from ..estimators._stream_batches import StreamWarning
from ..optional import import_optional

_PATIENCE = 0.2  # seconds that a row waits for the units that are missing from it
_TIME = "time"


def follow_mqtt(
    host: str,
    topic: str,
    *,
    port: int = 1883,
    units: Sequence[str] | None = None,
    wait: float | None = None,
    patience: float = _PATIENCE,
    client: Any = None,
    words: Sequence[str] = (),
) -> Iterator[pd.DataFrame]:
    """Follow the rows that a plant publishes to an MQTT broker.

    A message is a JSON object of numbers by column, with the time of its row as ``time``: of the whole plant, columns
    ``unit__sensor``, or of one unit, whose name is then the last level of the topic. A list of such objects is several
    rows. Parts of a row come together by their time.

    Parameters
    ----------
    host : str
    topic : str
        Such as ``"plant/rows"`` or ``"plant/+"`` for a topic of each unit.
    port : int, default=1883
    units : sequence of str, default=None
        Units of a row: it is complete when all have told theirs. None takes every message for a whole row.
    wait : float, default=None
        Seconds without a message after which the stream ends; None: never.
    patience : float, default=0.2
        Seconds that a row waits for units that are missing; their measurements are then missing.
    client : paho.mqtt.client.Client, default=None
        For credentials, certificates or another protocol version; None for a plain one.
    words : sequence of str, default=()
        Columns that may hold words, such as modes, by the name that they have in a row, ``unit__sensor``. One without a
        unit is of the whole plant, whatever the topic.

    Yields
    ------
    DataFrame
        The next rows in the order of their times. What is no row is named by a StreamWarning and left out.

    Raises
    ------
    ImportError
        Without paho-mqtt (extra ``mqtt``).
    ConnectionError
        If there is no broker, or it refuses the connection. One that is lost later is made again.
    """
    mqtt = import_optional("paho.mqtt.client", "mqtt", "A stream from an MQTT broker")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2) if client is None else client
    came: queue.SimpleQueue = queue.SimpleQueue()

    def subscribe(client, _data, _flags, reason, _properties):
        if reason.is_failure:
            came.put(ConnectionError(f"The broker {host}:{port} refused the connection: {reason}."))
        client.subscribe(topic, qos=1)

    client.on_connect = subscribe
    client.on_message = lambda _client, _data, message: came.put(message)
    try:
        client.connect(host, port)
    except OSError as error:
        problem = f"There is no broker at {host}:{port} ({error})"
        raise ConnectionError(f"{problem}. Is it running, and is that its port?") from error
    client.loop_start()
    try:
        yield from _batches(came, Rows(units, patience, words), wait)
    finally:
        client.loop_stop()
        client.disconnect()


def _batches(came, rows, wait):
    last = time.monotonic()
    while True:
        try:
            message = came.get(timeout=rows.patience)
            if isinstance(message, Exception):
                raise message
            last = time.monotonic()
            rows.add(message.topic, message.payload)
        except queue.Empty:
            pass
        if came.empty() and (batch := rows.ready()) is not None:
            yield batch
        if wait is not None and time.monotonic() - last >= wait:
            if (rest := rows.ready(everything=True)) is not None:
                yield rest
            return


class Rows:
    """Parts of rows, put together by their times."""

    def __init__(self, units, patience, words=()):
        self._units, self.patience = None if units is None else frozenset(units), patience
        self._words = frozenset(words)
        self._parts: dict[str, tuple] = {}  # columns, units and arrival by time

    def add(self, topic, payload):
        """Take in a message."""
        try:
            content = json.loads(payload)
            found = [self._part(topic, row) for row in (content if isinstance(content, list) else [content])]
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            _warn(f"A message about {topic!r} is no row ({type(error).__name__}): left out")
            return
        for moment, unit, columns in found:
            before, units, since = self._parts.get(moment, ({}, frozenset(), time.monotonic()))
            self._parts[moment] = before | columns, units | unit, since

    def _part(self, topic, row):
        moment, unit, flat = pd.Timestamp(row[_TIME]), topic.rpartition("/")[2], {}
        for name, value in row.items():
            if name == _TIME or value is None:
                continue
            name = name if SEPARATOR in name or name in self._words else f"{unit}{SEPARATOR}{name}"
            flat[name] = _word(value) if name in self._words else float(value)
        if pd.isna(moment) or not flat:
            raise ValueError
        return moment, frozenset(name.partition(SEPARATOR)[0] for name in flat), flat

    def ready(self, everything=False):
        """Rows that are whole, or have waited long enough, up to the first that is not; None if there are none."""
        now, moments = time.monotonic(), []
        for moment in sorted(self._parts):
            _, units, since = self._parts[moment]
            whole = self._units is None or self._units <= units
            if not (whole or everything or now - since >= self.patience):
                break
            moments.append(moment)
        if not moments:
            return None
        rows = [self._parts.pop(moment)[0] for moment in moments]
        return pd.DataFrame(rows, index=pd.DatetimeIndex(moments))


def _word(value):
    """What a column of words may hold."""
    if not isinstance(value, (str, int, float, bool)):
        raise ValueError(f"Got {value!r}; give a word or a number.")
    return value


def _warn(text):
    warn(f"{text}. The watch goes on.", StreamWarning)
