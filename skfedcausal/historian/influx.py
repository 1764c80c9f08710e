"""Queries of InfluxDB 2 and 3 servers, which answer annotated CSV."""

import json
import os
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from .dialect import Dialect
from .tuning import TUNING
from .written import parsed

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
