"""Tables of databases and of servers, by their address or a file: what a query gives, in chunks."""

import asyncio
import json
import os
import re
import sqlite3
from fnmatch import fnmatchcase
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

import pandas as pd

from ..containers.arrays import listed
from ..optional import import_optional
from .tuning import TUNING
from .written import Dialect, Written, parsed

# Queries of InfluxDB 2 and 3 servers, which answer annotated CSV.

SCHEMES = {"influxdb://": "http", "influxdb+https://": "https"}
_FORM = "influxdb://:TOKEN@host:8086/organisation/bucket"
_ANNOTATED = {"annotations": ["group", "datatype", "default"], "header": True, "delimiter": ","}


def of_influx(address, where, query):
    """What a query in Flux gives of the server at an address ``influxdb://:TOKEN@host:8086/organisation/bucket``.

    Without a query all of the bucket; without a token that of the environment, ``INFLUX_TOKEN``.
    """
    parts = urlsplit(address)
    organisation, _, bucket = parts.path.strip("/").partition("/")
    if parts.hostname is None or not organisation or not (bucket or query):
        raise ValueError(f"The address {where} names no server, organisation and bucket: give {_FORM}.")
    if query is None:
        query = f"from(bucket: {json.dumps(unquote(bucket))}) |> range(start: 0)"
    token = unquote(parts.password or "") or os.environ.get("INFLUX_TOKEN", "")
    scheme, host = SCHEMES[f"{parts.scheme}://"], parts.netloc.rpartition("@")[2]
    text = _answer(f"{scheme}://{host}/api/v2/query?org={quote(unquote(organisation))}", token, query, where)
    if not text.strip():
        raise ValueError(f"The query of {where} gave no rows.")
    return parsed(text, where, Dialect())


def _answer(url, token, query, where):
    """Annotated CSV that a server answers."""
    body = json.dumps({"query": query, "type": "flux", "dialect": _ANNOTATED}).encode()
    headers = {"Authorization": f"Token {token}", "Content-Type": "application/json", "Accept": "application/csv"}
    try:
        with urlopen(Request(url, data=body, headers=headers), timeout=TUNING.influx_timeout) as answer:
            return answer.read().decode("utf-8")
    except HTTPError as error:
        remedy = f" Give its token: {_FORM}, or INFLUX_TOKEN in the environment." if error.code in (401, 403) else ""
        raise ValueError(f"The InfluxDB server {where} refuses the query: {_reason(error)}.{remedy}") from None
    except (URLError, TimeoutError) as error:
        raise ValueError(f"The InfluxDB server {where} does not answer: {error}.") from None


def _reason(error):
    """What a server says about a query that it refuses."""
    try:
        said = json.loads(error.read())["message"]
    except (ValueError, KeyError, TypeError):
        said = error.reason
    return f"{error.code} {said}".rstrip(".")


# History of an OPC UA server: what it keeps of the variables that it historizes.

_FIRST = pd.Timestamp("1970-01-01")  # a server that keeps nothing of that time begins where it does


def of_server(address, where, query):
    """Values of all variables that a server historizes, or of those whose node fits a glob."""
    asyncua = import_optional("asyncua", "opcua", f"Reading {where}")
    try:
        rows = asyncio.run(_history(asyncua, address, query or "*"))
    except (TimeoutError, OSError, asyncua.ua.UaError) as error:
        raise ValueError(f"The OPC UA server {where} does not answer: {type(error).__name__} {error}.") from None
    if not rows:
        raise ValueError(f"The OPC UA server {where} has no history of a variable {query or '*'!r}.")
    return Written(pd.DataFrame(rows, columns=["tag", "timestamp", "value", "quality", "uom"]))


async def _history(asyncua, address, pattern):
    """Rows of tag, time in UTC, value, quality and unit of measurement."""
    rows = []
    async with asyncua.Client(address) as client:
        async for node in _variables(asyncua, client.nodes.objects):
            name = node.nodeid.to_string()
            if fnmatchcase(name, pattern):
                measure = await _measure(asyncua, node)
                end = pd.Timestamp.now("UTC").tz_localize(None).to_pydatetime()
                for one in await node.read_raw_history(_FIRST.to_pydatetime(), end):
                    time, good = pd.to_datetime(one.SourceTimestamp, utc=True), one.StatusCode.is_good()
                    rows.append((name, time, one.Value.Value, "Good" if good else "Bad", measure))
    return rows


async def _measure(asyncua, node):
    """Unit of measurement that a variable tells (EUInformation), "" of one that tells none."""
    try:
        return (await (await node.get_child("0:EngineeringUnits")).read_value()).DisplayName.Text or ""
    except asyncua.ua.uaerrors.BadNoMatch:
        return ""


async def _variables(asyncua, top):
    """Variables below a node that the server historizes."""
    historizing, seen, stack = asyncua.ua.AttributeIds.Historizing, set(), [top]
    while stack:
        node = stack.pop(0)
        if node.nodeid in seen:
            continue
        seen.add(node.nodeid)
        if await node.read_node_class() == asyncua.ua.NodeClass.Variable:
            if (await node.read_attribute(historizing, raise_on_bad_status=False)).Value.Value:
                yield node
        else:
            stack += [child for child in await node.get_children() if child.nodeid.NamespaceIndex or node is top]


# Tables of databases, by their address or a file: what a query gives, in chunks.

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
