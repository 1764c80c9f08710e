"""Tables of databases, by their address or a file: what a query gives, in chunks."""

import re
import sqlite3

import pandas as pd

from ..containers.layout import listed
from ..optional import import_optional
from .influx import SCHEMES, of_influx
from .opcua import of_server
from .written import Written

_ADDRESS = re.compile(r"[a-z][a-z0-9+.]*://", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^:/@]*):[^/@]*@")
_CHUNK = 100_000  # rows


def is_address(export):
    """Whether an export is the address of a database, such as ``postgresql://host/plant``."""
    return isinstance(export, str) and _ADDRESS.match(export) is not None


def without_password(address):
    """An address as it may be shown."""
    return _PASSWORD.sub(r"\1:***@", address)


def of_address(address, where, query):
    """What a server at an address has, by the kind of server."""
    for kind, reader in _SERVERS.items():
        if address.lower().startswith(kind):
            return reader(address, where, query)
    return of_database(address, where, query)


def of_database(address, where, query):
    """What a query gives of the database at an address."""
    alchemy = import_optional("sqlalchemy", "sql", f"Reading {where}")
    try:
        engine = alchemy.create_engine(address)
    except (alchemy.exc.NoSuchModuleError, alchemy.exc.ArgumentError) as error:
        raise ValueError(f"The address of a database, {where}, cannot be used: {error}.") from None
    try:
        with engine.connect().execution_options(stream_results=True) as connection:
            if query is None:
                query = _query(alchemy.inspect(engine).get_table_names(), where)
            return _chunks(alchemy.text(query), connection, where)
    except (alchemy.exc.SQLAlchemyError, pd.errors.DatabaseError) as error:
        raise ValueError(f"The database {engine.url} does not answer: {str(error).splitlines()[0]}.") from None
    finally:
        engine.dispose()


def of_connection(connection, where, query):
    """What a query gives of an SQLite file."""
    try:
        if query is None:
            found = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
            query = _query([name for (name,) in found if not name.startswith("sqlite_")], where)
        return _chunks(query, connection, where)
    except (sqlite3.Error, pd.errors.DatabaseError) as error:
        raise ValueError(f"The database {where} does not answer: {error}.") from None


def _query(tables, where):
    """Query of the only table of a database."""
    if len(tables) != 1:
        raise ValueError(
            f"The database {where} has {len(tables)} tables, {listed(tables, 6)}. Say what to read: query='SELECT ... "
            f"FROM {tables[0] if tables else 'history'}' (--query)."
        )
    return f'SELECT * FROM "{tables[0]}"'


def _chunks(query, connection, where):
    parts = list(pd.read_sql_query(query, connection, chunksize=_CHUNK))
    if not parts or not len(parts[0]):
        raise ValueError(f"The query of {where} gave no rows.")
    return Written(pd.concat(parts, ignore_index=True))


_SERVERS = {"opc.tcp://": of_server, **dict.fromkeys(SCHEMES, of_influx)}
