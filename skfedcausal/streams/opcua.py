"""Values that an OPC UA server publishes, as rows of the plant."""

import asyncio
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd

from ..estimators._watching import say_and_go_on
from ..optional import import_optional
from .cells import Parts, Stamps, number_of
from .clock import on_clock
from .tuning import TUNING

_AGAIN = 1.0  # seconds until a lost server is called again
_MOST_ROWS = 4096  # of a batch


def follow_opcua(
    url: str,
    nodes: Any,
    *,
    wait: float | None = None,
    patience: float = TUNING.opcua_patience,
    period: float = 100.0,
    user: str | None = None,
    password: str | None = None,
    clock: Any = None,
) -> Iterator[pd.DataFrame]:
    """Follow nodes of an OPC UA server by a subscription.

    Values with one source time are one row; what did not change, and so was not told, is as it was before. Values
    whose status is bad are missing.

    Parameters
    ----------
    url : str
        ``"opc.tcp://host:4840/path"``.
    nodes : dict of str to str
        Node of each column, ``{"mill__power": "ns=2;s=Mill.Power", ...}``.
    wait : float, default=None
        Seconds without a value after which the stream ends; None: never.
    patience : float, default=0.5
        Seconds that a row waits for values of its time.
    period : float, default=100
        Milliseconds between two messages of the server.
    user, password : str, default=None
        As the server knows the watch; neither stands in any warning or error.
    clock : Clock, default=None
        What becomes of rows that are late, doubled or ahead; None for a new one.

    Yields
    ------
    DataFrame
        The next rows, in UTC. A server that is lost is called again.

    Raises
    ------
    ImportError
        Without asyncua (extra ``opcua``).
    ConnectionError
        If there is no server when the stream begins, or it does not know a node.

    Examples
    --------
    >>> nodes = {"mill__power": "ns=2;s=Power", "mill__speed": "ns=2;s=Speed"}
    >>> for batch in follow_opcua("opc.tcp://plant:4840", nodes):  # doctest: +SKIP
    ...     detector.update(batch)
    """
    subscription = Subscription(url, nodes, period, user, password)
    yield from on_clock(opcua_rows(subscription, Stamps("UTC"), wait=wait, patience=patience), clock)


def opcua_rows(subscription, stamps, *, wait=None, patience=TUNING.opcua_patience):
    """Rows as they are complete; None where nothing is new. There is no place to go on from."""
    parts, last = Parts(subscription.nodes, patience, held=True), time.monotonic()
    subscription.start()
    try:
        while True:
            came = subscription.take(TUNING.opcua_look)
            for name, moment, value in came:
                at = stamps.read([moment])[0]
                if at == at:
                    parts.add(at, {name}, {name: value})
            last = time.monotonic() if came else last
            over = wait is not None and time.monotonic() - last >= wait
            frame = parts.ready(everything=over)
            yield None, frame
            last = last if frame is None else time.monotonic()
            if over:
                return
    finally:
        subscription.stop()


class Subscription:
    """A subscription in a thread of its own, which is made anew when the server was lost."""

    def __init__(self, url, nodes, period=100.0, user=None, password=None):
        self._ua = import_optional("asyncua", "opcua", "A stream from an OPC UA server")
        self.nodes, self._url, self._period = dict(nodes), url, period
        self._user, self._password = user, password
        self._came: queue.SimpleQueue = queue.SimpleQueue()
        self._stopped, self._ended, self._has_begun = threading.Event(), threading.Event(), False
        self._begun: queue.SimpleQueue = queue.SimpleQueue()

    def start(self):
        """Call the server; ConnectionError if there is none."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        if (error := self._begun.get()) is not None:
            self.stop()
            raise ConnectionError(f"The OPC UA server {self._url} cannot be followed: {error}.") from None

    def stop(self):
        """Hang up."""
        self._stopped.set()
        self._thread.join(10)

    def take(self, patience):
        """Values that came, as (column, time, value); an empty list after some seconds."""
        try:
            came = [self._came.get(timeout=patience)]
        except queue.Empty:
            return []
        while not self._came.empty() and len(came) < _MOST_ROWS * len(self.nodes):
            came.append(self._came.get())
        for problem in (one for one in came if isinstance(one, str)):
            say_and_go_on(problem)
        return [one for one in came if not isinstance(one, str)]

    def datachange_notification(self, node, value, data):
        """Take a value of the server."""
        told = data.monitored_item.Value
        good = told.StatusCode is None or told.StatusCode.is_good()
        when = told.SourceTimestamp or told.ServerTimestamp
        self._came.put((self._names[node.nodeid], when, number_of(value) if good else float("nan")))

    def status_change_notification(self, status):
        """The server has ended the subscription, for example because it heard nothing for long: it is made anew."""
        self._ended.set()

    async def _run(self):
        while not self._stopped.is_set():
            try:
                await self._connected()
            except Exception as error:  # whatever a server or its library does, it is called again
                if not self._has_begun:
                    self._begun.put(f"{type(error).__name__}: {error}".rstrip(": "))
                    return
                self._came.put(f"The OPC UA server {self._url} was lost ({type(error).__name__}) and is called again")
                await asyncio.sleep(_AGAIN)

    async def _connected(self):
        self._ended.clear()
        client = self._ua.Client(self._url, timeout=TUNING.opcua_answer)
        if self._user is not None:
            client.set_user(self._user)
            client.set_password(self._password)
        async with client:
            nodes = {name: client.get_node(node) for name, node in self.nodes.items()}
            self._names = {node.nodeid: name for name, node in nodes.items()}
            for node in nodes.values():
                await node.read_value()  # one that is not there is an error
            subscription = await client.create_subscription(self._period, self)
            await subscription.subscribe_data_change(
                list(nodes.values()), queuesize=TUNING.opcua_queued, sampling_interval=0.0
            )
            if not self._has_begun:
                self._has_begun = True
                self._begun.put(None)
            while not self._stopped.is_set():
                await asyncio.sleep(TUNING.opcua_look)
                if self._ended.is_set():
                    raise ConnectionError("The server has ended the subscription.")
                await client.check_connection()
