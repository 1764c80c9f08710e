"""Sources by their addresses, as the command ``watch`` follows them: batches with the places after them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..estimators._stream_batches import say_and_go_on
from .csv_file import csv_rows
from .tuning import TUNING

PORTS = {"mqtt": 1883, "mqtts": 8883}
_DATABASES = ("sqlite", "postgresql", "mssql", "mysql", "mariadb", "oracle", "timescaledb")


@dataclass(frozen=True)
class SourceOptions:
    """What an address does not say.

    Parameters
    ----------
    user, password : str
        As the other side knows the watch; the password is shown nowhere.
    tls : dict
        Paths ``ca``, ``certificate`` and ``key``.
    version : {4, 5}
        Of MQTT.
    name : str
        Under which a broker keeps what comes while the watch is away.
    table, order, time : str
        Of a database.
    nodes : dict of str to str
        Node of each column, of an OPC UA server.
    units : tuple of str
        Units that a row of a broker is complete with; none takes every message for a whole row.
    names : dict of str to str
        Column, ``unit__tag``, of each name that the source has.
    words : tuple of str
        Columns that may hold words.
    wait : float
        Seconds without a row after which the source ends; None: never.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Mapping = field(default_factory=dict)
    version: int = 4
    name: str = ""
    table: str = "plant"
    order: str | None = None
    time: str = "time"
    nodes: Mapping = field(default_factory=dict)
    units: tuple = ()
    names: Mapping = field(default_factory=dict)
    words: tuple = ()
    wait: float | None = None


class Source(NamedTuple):
    """Batches of a source, each with the place after it, if it has one; and what to tell it when a batch is safe."""

    rows: Iterator
    safe: Callable[[Any], None] = lambda place: None  # one that keeps its rows itself need not be told


def check_address(address, options=None):
    """Refuse an address that no source has, or that holds a password."""
    scheme = _scheme(address)
    if scheme not in _KINDS:
        shown = "'csv:live.csv', 'mqtt://host:port/topic', 'opc.tcp://host:4840' or a database as SQLAlchemy has it"
        raise ValueError(f"{_without_secrets(address)!r} is not a source; give {shown}.")
    parts = urlsplit(address)
    _ = parts.port  # ValueError where it is none
    if parts.password is not None:
        raise ValueError("The address holds a password; give it by `password_file` or `password_env` in [source].")
    if scheme.startswith("mqtt") and not (parts.hostname and parts.path.strip("/")):
        raise ValueError(f"{address!r} has no broker or topic; give 'mqtt://host:port/topic'.")
    if scheme == "opc.tcp" and options is not None and not options.nodes:
        raise ValueError('Give the nodes of the server in [source]: nodes = {"mill__power" = "ns=2;s=Power", ...}.')


def open_source(address, stamps, options, place=None, folder=Path()):
    """The source that an address names, from a place on."""
    check_address(address, options)
    return _KINDS[_scheme(address)](address, stamps, options, place, folder)


def _scheme(address):
    scheme = address.partition(":")[0].lower()
    dialect = scheme.partition("+")[0]
    return "sql" if dialect in _DATABASES else scheme


def _without_secrets(address):
    before, at, after = address.rpartition("@")
    return f"{before.partition('://')[0]}://...@{after}" if at else address


def _csv(address, stamps, options, place, folder):
    path = folder / address.partition(":")[2]
    if not path.exists():
        say_and_go_on(f"There is no file {path} yet: it is waited for")
    # names of words as the file has them
    words = {name for name, flat in options.names.items() if flat in options.words} | {*options.words}
    rows = csv_rows(path, stamps, wait=options.wait, words=words, place=place, most=TUNING.sources_batch)
    return Source(_renamed(rows, options.names))


def _mqtt(address, stamps, options, place, folder):
    from .mqtt import Rows, acknowledge, mqtt_client, mqtt_rows

    parts, scheme = urlsplit(address), _scheme(address)
    tls = options.tls or scheme == "mqtts"
    client = mqtt_client(
        options.name, user=options.user or parts.username, password=options.password, tls=tls, version=options.version
    )
    topic = parts.path.lstrip("/") + (f"#{parts.fragment}" if address.endswith("#") or parts.fragment else "")
    rows = Rows(options.units or None, 0.2, options.words, stamps, options.names)
    port = parts.port or PORTS[scheme]
    came = mqtt_rows(client, parts.hostname, port, topic, rows, options.wait, lasting=bool(options.name))
    return Source(came, lambda messages: acknowledge(client, messages))


def _database(address, stamps, options, place, folder):
    from .database import Table, engine_of, table_rows

    scheme, colon, rest = address.partition(":")
    if rest.startswith("///") and not rest.startswith("////") and scheme.startswith("sqlite"):
        rest = f"///{folder / rest.removeprefix('///')}"
    engine = engine_of(scheme.replace("timescaledb", "postgresql") + colon + rest, options.user, options.password)
    table = Table(engine, options.table, options.time, options.order)
    rows = table_rows(table, stamps, wait=options.wait, words=options.words, place=place)
    return Source(_renamed(rows, options.names))


def _opcua(address, stamps, options, place, folder):
    from .opcua import Subscription, opcua_rows

    subscription = Subscription(address, options.nodes, user=options.user, password=options.password)
    return Source(_renamed(opcua_rows(subscription, stamps, wait=options.wait), options.names))


_KINDS = {"csv": _csv, "mqtt": _mqtt, "mqtts": _mqtt, "sql": _database, "opc.tcp": _opcua}


def _renamed(rows, names):
    for place, frame in rows:
        yield place, frame if frame is None or not names else frame.rename(columns=names)
