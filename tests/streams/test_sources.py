"""Sources that people have, each against the real thing: a fault is told as from a file, and no password is said."""

import asyncio
import io
import logging
import sqlite3
import threading
import time
import warnings
from contextlib import closing, redirect_stderr

import pandas as pd
import pytest

from skfedcausal.streams import StreamWarning, follow_mqtt, follow_opcua, follow_table
from skfedcausal.streams.cells import Stamps
from skfedcausal.streams.mqtt import Rows
from skfedcausal.streams.opcua import Subscription, opcua_rows
from skfedcausal.streams.sources import SourceOptions, check_address, open_source

from .broker import PASSWORD, USER, Broker, as_messages, certificate, publish
from .test_cases import ROWS, follow, plant

__all__ = ["plant"]
pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


# --- MQTT -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A broker with TLS that knows one user."""
    pytest.importorskip("paho.mqtt.client")
    pytest.importorskip("amqtt.broker")
    tls = certificate(tmp_path_factory.mktemp("tls"))
    one = Broker(config={"tests.streams.authenticated.OneUser": {}}, tls=tls).start()
    yield one, tls[0]
    one.stop()


def test_a_broker_with_a_password_and_tls(plant, secured, caplog):
    broker, ca = secured
    about = {"user": USER, "password": PASSWORD}
    sender = publish(broker.port, as_messages(plant[1]), ca=ca, **about)
    caplog.set_level(logging.DEBUG)
    said = io.StringIO()
    with redirect_stderr(said):
        follow(plant, follow_mqtt("127.0.0.1", "plant/#", port=broker.port, wait=2.0, tls={"ca": str(ca)}, **about))
    sender.join()
    assert PASSWORD not in caplog.text + said.getvalue()


def test_a_wrong_password_is_named_and_not_said(secured):
    broker, ca = secured
    about = {"user": USER, "password": "hush-wrong", "tls": {"ca": str(ca)}}
    with pytest.raises(ConnectionError, match="refused the connection") as caught:
        list(follow_mqtt("127.0.0.1", "plant/#", port=broker.port, wait=1.0, **about))
    assert "hush" not in str(caught.value)


def test_version_5_asks_the_broker_to_keep_what_comes_meanwhile():
    """The broker of these tests speaks 3.1.1; what is sent to one of version 5 is looked at."""
    mqtt = pytest.importorskip("paho.mqtt.client")
    from skfedcausal.streams.mqtt import connecting, mqtt_client

    client = mqtt_client("watch", version=5)
    about = connecting(client, lasting=True)
    assert client.protocol == mqtt.MQTTv5
    assert about["clean_start"] is False
    assert about["properties"].SessionExpiryInterval >= 86_400
    assert connecting(mqtt_client("watch"), lasting=True) == {}


def test_metrics_as_sparkplug_has_them():
    rows = Rows(None, 0.0)
    rows.add(
        "spBv1.0/site/DDATA/edge/mill", '{"timestamp": 1767225600000, "metrics": [{"name": "power", "value": 1.5}]}'
    )
    batch = rows.ready()
    assert batch.to_dict("records") == [{"mill__power": 1.5}]
    assert batch.index[0] == pd.Timestamp("2026-01-01", tz="UTC")


def test_messages_are_acknowledged_when_their_rows_are_safe(plant, monkeypatch):
    """A broker with sessions keeps the others for the watch that comes after; the one of these tests has none."""
    paho = pytest.importorskip("paho.mqtt.client")
    pytest.importorskip("amqtt.broker")
    broker, safe, told = Broker().start(), [], []
    monkeypatch.setattr(paho.Client, "ack", lambda self, mid, qos: told.append(mid))
    source = open_source(f"mqtt://127.0.0.1:{broker.port}/plant/rows", Stamps(), SourceOptions(name="watch", wait=2.0))
    sender = publish(broker.port, as_messages(plant[1][:20]))
    for messages, frame in source.rows:
        if frame is not None:
            assert len(told) == len(safe)
            source.safe(messages)
            safe += frame.index.tolist()
    sender.join()
    broker.stop()
    assert safe == plant[1].index[:20].tolist()
    assert len(told) == 20


def test_a_broker_that_is_lost_is_named(plant):
    pytest.importorskip("paho.mqtt.client")
    pytest.importorskip("amqtt.broker")
    broker = Broker().start()
    publish(broker.port, as_messages(plant[1][:20]), delay=0.5)
    source = follow_mqtt("127.0.0.1", "plant/rows", port=broker.port, wait=4.0)
    assert len(next(source))
    threading.Timer(0.3, broker.stop).start()
    with pytest.warns(StreamWarning, match="was lost .* The connection is tried again"):
        list(source)


# --- databases --------------------------------------------------------------------------------------


def grow(engine, live, parts=5, pause=0.1):
    """Add rows to a table, part by part, in a thread."""
    rows = live.rename_axis("time").reset_index()

    def add():
        for k in range(parts):
            time.sleep(pause)
            rows.iloc[k * ROWS // parts : (k + 1) * ROWS // parts].to_sql(
                "plant", engine, index=False, if_exists="append"
            )

    rows[:0].to_sql("plant", engine, index=False)
    thread = threading.Thread(target=add)
    thread.start()
    return thread


def test_a_table_of_sqlite_that_grows(plant, tmp_path):
    sql = pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'live.db'}"
    writer = grow(sql.create_engine(url), plant[1])
    follow(plant, follow_table(url, "plant", wait=2.0, poll=0.05))
    writer.join()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    server = pytest.importorskip("pgserver").get_server(tmp_path_factory.mktemp("postgres"))
    yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    server.cleanup()


def test_a_table_of_postgresql_that_grows(plant, postgres):
    import sqlalchemy as sql

    engine = sql.create_engine(postgres)
    writer = grow(engine, plant[1])
    follow(plant, follow_table(postgres, "plant", wait=2.0, poll=0.05))
    writer.join()
    engine.dispose()


def test_a_table_is_followed_from_a_place_that_was_kept(plant, tmp_path):
    sql = pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'live.db'}"
    grow(sql.create_engine(url), plant[1], pause=0.0).join()
    options = SourceOptions(wait=0.0)
    rows = list(open_source(url, Stamps(), options).rows)
    place = {"after": f"{plant[1].index[99]}.000000"}  # as SQLite has it
    later = list(open_source(url, Stamps(), options, place).rows)
    assert sum(len(frame) for _, frame in rows if frame is not None) == ROWS
    assert sum(len(frame) for _, frame in later if frame is not None) == ROWS - 100


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP", "NUMERIC", "BOOLEAN"])
def test_sqlite_keeps_what_was_written_whatever_the_type_of_a_column(tmp_path, kind):
    """Times with a zone, words, bytes and rows without a number: the stream ends, and good rows come once."""
    pytest.importorskip("sqlalchemy")
    path, good = tmp_path / "live.db", 5
    with closing(sqlite3.connect(path)) as base, base:
        base.execute(f"CREATE TABLE plant (id INTEGER, time {kind}, mill__x {kind})")
        rows = [(k, f"2026-01-01T00:{k:02d}:00Z", 1.5 + k) for k in range(good)]
        rows += [(None, "2026-01-01T01:00:00Z", 1.0), (7, "never", 1.0), (8, b"\xff", 1.0)]
        base.executemany("INSERT INTO plant VALUES (?, ?, ?)", rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamWarning)
        given = pd.concat(list(follow_table(f"sqlite:///{path}", "plant", order="id", wait=0.0)))
        without = pd.concat(list(follow_table(f"sqlite:///{path}", "plant", wait=0.0)))
    assert given["mill__x"].tolist() == [1.5 + k for k in range(good)]
    assert without["mill__x"].tolist()[:good] == [1.5 + k for k in range(good)]


def test_a_database_that_is_not_there_is_named_without_its_password(tmp_path):
    pytest.importorskip("sqlalchemy")
    with pytest.raises(ConnectionError, match="table 'plant'"):
        next(follow_table(f"sqlite:///{tmp_path / 'live.db'}", "plant"))
    pytest.importorskip("psycopg")
    with pytest.raises(ConnectionError) as caught:
        next(follow_table("postgresql+psycopg://plant:hush@127.0.0.1:1/plant", "plant"))
    assert "hush" not in str(caught.value)


def test_a_database_that_goes_away_is_asked_again(tmp_path, plant):
    sql = pytest.importorskip("sqlalchemy")
    path = tmp_path / "live.db"
    engine = sql.create_engine(f"sqlite:///{path}")
    grow(engine, plant[1], parts=1, pause=0.0).join()
    source, given = follow_table(f"sqlite:///{path}", "plant", wait=1.0, poll=0.05), []
    given.append(next(source))
    with engine.begin() as connection:
        connection.execute(sql.text("ALTER TABLE plant RENAME TO away"))
    threading.Timer(0.4, _back, [engine, sql, plant[1]]).start()
    with pytest.warns(StreamWarning, match="does not answer"):
        given += list(source)
    assert len(pd.concat(given)) == ROWS + 1


def _back(engine, sql, live):
    with engine.begin() as connection:
        connection.execute(sql.text("ALTER TABLE away RENAME TO plant"))
    row = live[-1:].set_axis(live.index[-1:] + pd.Timedelta("1min"))
    row.rename_axis("time").reset_index().to_sql("plant", engine, index=False, if_exists="append")


# --- OPC UA -----------------------------------------------------------------------------------------


class OpcServer:
    """A server with a node for each column, which plays rows once somebody listens."""

    def __init__(self, live, port):
        self.url, self._live = f"opc.tcp://127.0.0.1:{port}/plant", live
        self.nodes = {name: f"ns=2;s={name}" for name in live}
        self._ready, self.done, self.play = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self):
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def end(self):
        self.done.set()
        self._thread.join(10)

    async def _run(self):
        from asyncua import Server, ua

        server = Server()
        await server.init()
        server.set_endpoint(self.url)
        space = await server.register_namespace("plant")
        folder, nodes = server.nodes.objects, []
        for name in self._live:
            nodes.append(await folder.add_variable(ua.NodeId(name, space), name, float("nan")))
        async with server:
            await self._write(server, nodes, 0)
            self._ready.set()
            while not self.play.is_set():
                await asyncio.sleep(0.05)
            for row in range(1, len(self._live)):
                await self._write(server, nodes, row)
                await asyncio.sleep(0.004)
            while not self.done.is_set():
                await asyncio.sleep(0.05)

    async def _write(self, server, nodes, row):
        from asyncua import ua

        at = self._live.index[row].to_pydatetime()
        for node, value in zip(nodes, self._live.iloc[row].tolist(), strict=True):
            told = ua.DataValue(ua.Variant(value, ua.VariantType.Double), SourceTimestamp=at)
            await server.write_attribute_value(node.nodeid, told)


def test_an_opc_ua_server(plant):
    pytest.importorskip("asyncua")
    from .broker import free_port

    live = plant[1].tz_localize("UTC")
    server = OpcServer(live, free_port()).start()
    threading.Timer(1.5, server.play.set).start()
    follow((plant[0], live), follow_opcua(server.url, server.nodes, wait=4.0))
    server.done.set()


@pytest.mark.filterwarnings("ignore::skfedcausal.streams.StreamWarning")
def test_an_opc_ua_server_that_is_started_again_is_called_again(plant):
    pytest.importorskip("asyncua")
    from .broker import free_port

    live, port = plant[1].tz_localize("UTC"), free_port()
    servers, given = [OpcServer(live[:100], port).start()], set()
    threading.Timer(1.5, servers[0].play.set).start()
    for frame in follow_opcua(servers[0].url, servers[0].nodes, wait=8.0):
        given |= {*frame.index}
        if live.index[99] in given and len(servers) == 1:
            servers[0].end()
            servers.append(OpcServer(live[100:200], port).start())
            threading.Timer(3.0, servers[1].play.set).start()
    servers[-1].end()
    assert given == {*live.index[:200]}


@pytest.mark.filterwarnings("ignore::skfedcausal.streams.StreamWarning")
def test_a_subscription_that_the_server_ends_is_made_anew(plant):
    pytest.importorskip("asyncua")
    from .broker import free_port

    live = plant[1][:60].tz_localize("UTC")
    server, given = OpcServer(live, free_port()).start(), set()
    subscription, is_ended = Subscription(server.url, server.nodes), False
    for _, frame in opcua_rows(subscription, Stamps("UTC"), wait=6.0):
        given |= set() if frame is None else {*frame.index}
        if given and not is_ended:
            subscription.status_change_notification(None)
            is_ended = True
            threading.Timer(3.0, server.play.set).start()
    server.end()
    assert given == {*live.index}


def test_an_opc_ua_server_that_is_not_there_is_named():
    pytest.importorskip("asyncua")
    with pytest.raises(ConnectionError, match=r"OPC UA server opc.tcp://127.0.0.1:1 cannot be followed"):
        next(follow_opcua("opc.tcp://127.0.0.1:1", {"mill__x": "ns=2;i=1"}))


# --- files ------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_yet_is_named(tmp_path):
    with pytest.warns(StreamWarning, match=r"There is no file .*live\.csv yet"):
        open_source("csv:live.csv", Stamps(), SourceOptions(), folder=tmp_path)


# --- addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("live.csv", "is not a source; give 'csv:live.csv'"),
        ("mqtt://plant:hush@broker/rows", "The address holds a password"),
        ("ftp://plant:hush@broker/rows", "is not a source"),
        ("mqtt://broker", "has no broker or topic"),
    ],
)
def test_addresses_that_name_no_source_are_refused(address, words):
    with pytest.raises(ValueError, match=words) as caught:
        check_address(address)
    assert "hush" not in str(caught.value)
