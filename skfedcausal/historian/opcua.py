"""History of an OPC UA server: what it keeps of the variables that it historizes."""

import asyncio
from fnmatch import fnmatchcase

import pandas as pd

from ..optional import import_optional
from .written import Written

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
