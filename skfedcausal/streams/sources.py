"""Sources by their addresses, as the command ``watch`` follows them, and a table of a database that grows."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pandas as pd

from ..containers.arrays import refuse_unknown
from ..estimators._watching import say_and_go_on
from ..optional import import_optional
from .cells import Stamps, number_of
from .clock import on_clock
from .csv_file import csv_rows
from .tuning import TUNING

# Sources by their addresses, as the command ``watch`` follows them: batches with the places after them.

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


# A table of a database that grows: its new rows in the order of a column that only grows.

_POLL = 1.0  # seconds between two looks
_CALLS = {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3}  # of libpq
_ALIVE = dict.fromkeys(("postgresql", "postgresql+psycopg", "postgresql+psycopg2"), _CALLS)


def follow_table(
    url: str,
    table: str,
    *,
    time: str = "time",
    order: str | None = None,
    wait: float | None = None,
    poll: float = _POLL,
    words: Sequence[str] = (),
    tz: str | None = None,
    clock: Any = None,
) -> Iterator[pd.DataFrame]:
    """Follow a table of a database to which a program adds rows.

    Parameters
    ----------
    url : str or sqlalchemy.URL
        As SQLAlchemy has it: ``"sqlite:///live.db"``, ``"postgresql+psycopg://user@host/plant"``,
        ``"mssql+pyodbc://..."``.
    table : str
        Table, or view, with one row for each time; ``schema.table`` too.
    time : str, default="time"
        Column of the times.
    order : str, default=None
        Column that is larger in every new row, such as a number that the database gives; None: the times.
    wait : float, default=None
        Seconds without a new row after which the stream ends; None: never.
    poll : float, default=1.0
        Seconds between two looks.
    words, tz, clock
        As in :func:`follow_csv`.

    Yields
    ------
    DataFrame
        The next rows. That the database does not answer is named by a StreamWarning, and it is asked again.

    Raises
    ------
    ImportError
        Without SQLAlchemy (extra ``sql``).
    ConnectionError
        If the database cannot be reached when the stream begins, or has no such table or column.

    Examples
    --------
    >>> import pandas as pd, sqlalchemy as sql                              # doctest: +SKIP
    >>> for batch in follow_table("sqlite:///live.db", "plant", wait=10):   # doctest: +SKIP
    ...     detector.update(batch)
    """
    known = Table(engine_of(url), table, time, order)
    yield from on_clock(table_rows(known, Stamps(tz), wait=wait, poll=poll, words=words), clock)


def engine_of(url, user=None, password=None):
    """An engine of SQLAlchemy that finds out within a minute that a server has gone without a word."""
    sql = import_optional("sqlalchemy", "sql", "A database")
    try:
        made = sql.engine.make_url(url)
        made = made.set(username=user or made.username, password=password) if user or password else made
        alive = {name: value for name, value in _ALIVE.get(made.drivername, {}).items() if name not in made.query}
        return sql.create_engine(made, pool_pre_ping=True, connect_args=alive)
    except sql.exc.ArgumentError as error:
        raise ValueError(f"This is no address of a database that can be opened: {error}.") from None


class Table:
    """A table that grows, as it is asked for rows after a place."""

    def __init__(self, engine, table, time="time", order=None):
        self._sql = import_optional("sqlalchemy", "sql", "A stream from a database")
        self.name, self.time, self.order = table, time, order or time
        schema, _, name = table.rpartition(".")
        self._engine = engine
        try:
            with self._engine.connect() as connection:
                about = self._sql.MetaData()
                self._table = self._sql.Table(name, about, schema=schema or None, autoload_with=connection)
        except self._sql.exc.SQLAlchemyError as error:
            raise ConnectionError(f"The table {table!r} of {self.where} cannot be read: {first_line(error)}.") from None
        needed, there = dict.fromkeys((self.time, self.order)), self._table.c.keys()
        refuse_unknown(needed, there, f"The table {table!r} has no column", "it has", ConnectionError)
        if self._engine.dialect.name == "sqlite":  # which keeps whatever was written, whatever type a column has
            for column in self._table.c:
                column.type = self._sql.types.NullType()

    @property
    def where(self):
        """The database, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    def after(self, place):
        """Names of the columns, and the next rows after a place, in order; all from the first on after None."""
        order = self._table.c[self.order]
        later = order.is_not(None) if place is None else order > self._compared(place, order.type)
        query = self._sql.select(self._table).where(later).order_by(order).limit(TUNING.database_at_once)
        with self._engine.connect() as connection:
            found = connection.execute(query)
            return list(found.keys()), [tuple(row) for row in found]

    def _compared(self, place, kind):
        """A place as the database compares it: one that was kept in a file is a text."""
        if not isinstance(place, str) or isinstance(kind, self._sql.types.NullType):
            return place
        return datetime.fromisoformat(place) if isinstance(kind, self._sql.DateTime) else self._sql.cast(place, kind)

    def close(self):
        """Let go of the database."""
        self._engine.dispose()

    @property
    def failure(self):
        """What is raised when the database does not answer."""
        return self._sql.exc.SQLAlchemyError


def table_rows(table, stamps, *, wait=None, poll=_POLL, words=(), place=None):
    """Rows as they come, each batch with the place after it; None where nothing is new."""
    last = time.monotonic()
    try:
        while True:
            try:
                names, rows = table.after(None if place is None else place["after"])
            except table.failure as error:
                say_and_go_on(f"{table.where} does not answer ({first_line(error)})")
                rows = []
            if rows:
                place = {"after": rows[-1][names.index(table.order)]}
                frame = _frame(names, rows, table, stamps, words)
                yield place, frame if len(frame) else None
                last = time.monotonic()
                continue
            yield None, None
            if wait is not None and time.monotonic() - last >= wait:
                return
            time.sleep(poll if wait is None else min(poll, max(wait / 4, 0.01)))
    finally:
        table.close()


def _frame(names, rows, table, stamps, words):
    """Rows of the database as numbers by their times; the column of their order is none of the plant."""
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    index = stamps.read(columns.pop(table.time))
    columns.pop(table.order, None)
    frame = pd.DataFrame(
        {
            name: list(cells) if name in words else [number_of(cell) for cell in cells]
            for name, cells in columns.items()
        },
        index=index,
    )
    if index.hasnans:
        say_and_go_on(f"Rows of {table.name} without a time are left out")
    return frame[index.notna()]


def first_line(error):
    """What a database says is wrong, in a line."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
