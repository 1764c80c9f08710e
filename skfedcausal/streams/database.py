"""A table of a database that grows: its new rows in the order of a column that only grows."""

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from ..containers.layout import refuse_unknown
from ..estimators._stream_batches import say_and_go_on
from ..optional import import_optional
from .cells import Stamps, number_of
from .clock import on_clock
from .tuning import TUNING

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
