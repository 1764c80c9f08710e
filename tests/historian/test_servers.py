"""Databases and servers: what is read of each is the table that the CSV of the same record gives."""

import asyncio
import datetime
import json
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import PlantTable
from skfedcausal.historian.databases import without_password

TIMES = pd.date_range("2026-03-02 08:00", periods=40, freq="10s", tz="UTC")
FRAME = pd.DataFrame(
    np.random.default_rng(0).standard_normal((40, 3)), index=TIMES, columns=["mill.feed", "mill.power", "kiln.temp"]
)
MEASURES = {"mill.feed": "t/h", "kiln.temp": "°C"}
LONG = FRAME.rename_axis("time").reset_index().melt("time", var_name="tag")


@pytest.mark.medium
def test_postgresql_wide_and_long(tmp_path):
    pgserver, sqlalchemy = pytest.importorskip("pgserver"), pytest.importorskip("sqlalchemy")
    server = pgserver.get_server(tmp_path / "pg")
    try:
        engine = sqlalchemy.create_engine(server.get_uri())
        FRAME.to_sql("wide", engine, index_label="time")
        LONG.to_sql("history", engine, index=False)
        engine.dispose()
        for query in ("select * from wide order by time desc", "select * from history"):
            assert_allclose(PlantTable.read(server.get_uri(), query=query).frame, FRAME)
        with pytest.raises(ValueError, match="does not answer"):
            PlantTable.read(server.get_uri(), query="select * from nothing")
    finally:
        server.cleanup()


def test_sqlite_by_its_address(tmp_path):
    pytest.importorskip("sqlalchemy")
    connection = sqlite3.connect(tmp_path / "plant.db")
    LONG.assign(time=LONG["time"].astype(str)).to_sql("history", connection, index=False)
    connection.close()
    assert_allclose(PlantTable.read(f"sqlite:///{tmp_path / 'plant.db'}").frame, FRAME)
    with pytest.raises(ValueError, match="cannot be used"):
        PlantTable.read("nosuchdatabase://somewhere/plant")


def test_a_folder_of_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    for k in range(2):
        FRAME.iloc[20 * k : 20 * k + 20].to_parquet(tmp_path / f"{k}.parquet")
    assert_allclose(PlantTable.read(tmp_path).frame, FRAME)


def test_parquet_tells_units_of_measurement_with_its_columns(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.Table.from_pandas(FRAME)
    fields = [field.with_metadata({"unit": MEASURES.get(field.name, "-")}) for field in table.schema]
    parquet.write_table(table.cast(pa.schema(fields, table.schema.metadata)), tmp_path / "plant.parquet")
    plant = PlantTable.read(tmp_path / "plant.parquet")
    assert list(plant.measures.values()) == list(MEASURES.values())
    assert_allclose(plant.frame, FRAME)


@pytest.mark.medium
def test_history_of_an_opc_ua_server():
    asyncua = pytest.importorskip("asyncua")

    async def read():
        server = asyncua.Server()
        await server.init()
        server.set_endpoint("opc.tcp://127.0.0.1:48412/plant")
        place = await server.register_namespace("plant")
        async with server:
            for tag in FRAME:
                name = asyncua.ua.NodeId(tag, place)
                node = await server.nodes.objects.add_variable(name, tag, -1.0)
                if tag in MEASURES:
                    bar = asyncua.ua.EUInformation(DisplayName=asyncua.ua.LocalizedText(MEASURES[tag]))
                    await node.add_property(asyncua.ua.NodeId(f"{tag}.unit", place), "0:EngineeringUnits", bar)
                await server.historize_node_data_change(node, period=None, count=1000)
                for time, value in FRAME[tag].items():
                    stamp = time.to_pydatetime().astimezone(datetime.UTC)
                    variant = asyncua.ua.Variant(float(value), asyncua.ua.VariantType.Double)
                    await node.write_value(asyncua.ua.DataValue(variant, SourceTimestamp=stamp))
            await asyncio.sleep(0.5)
            return await asyncio.to_thread(PlantTable.read, "opc.tcp://127.0.0.1:48412/plant", query="*;s=*")

    plant = asyncio.run(read())
    assert plant.units == ("mill", "kiln")
    assert_allclose(plant.frame.loc[TIMES[0] : TIMES[-1]].to_numpy()[:, [0, 1, 2]], FRAME)
    assert list(plant.measures.values()) == list(MEASURES.values())


def test_passwords_are_not_shown():
    assert without_password("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"


TOKEN = "a/b=="


def annotated():
    """Annotated CSV of the record, a table for each tag."""
    blocks = []
    for k, tag in enumerate(FRAME):
        unit, field = tag.split(".")
        rows = [f",,{k},2026-03-01T00:00:00Z,2026-03-03T00:00:00Z,{t:%Y-%m-%dT%H:%M:%SZ},{v!r},{field},{unit}"
                for t, v in FRAME[tag].items()]  # fmt: skip
        head = ["#group,false,false,true,true,false,false,true,true", "#datatype,string,long,dateTime:RFC3339,"
                "dateTime:RFC3339,dateTime:RFC3339,double,string,string", "#default,_result,,,,,,,",
                ",result,table,_start,_stop,_time,_value,_field,unit"]  # fmt: skip
        blocks.append("\r\n".join([*head, *rows, ""]))
    return "\r\n".join(blocks)


class InfluxQueries(BaseHTTPRequestHandler):
    """The query API of InfluxDB 2 as its documentation has it, of one bucket."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path, _, options = self.path.partition("?")
        if self.headers["Authorization"] != f"Token {TOKEN}":
            return self._answer(401, json.dumps({"code": "unauthorized", "message": "unauthorized access"}))
        if (path, options) != ("/api/v2/query", "org=plant%20north") or 'bucket: "plant"' not in asked["query"]:
            return self._answer(404, json.dumps({"code": "not found", "message": "could not find bucket"}))
        wanted = asked["type"] == "flux" and asked["dialect"]["annotations"] == ["group", "datatype", "default"]
        return self._answer(200, annotated() if wanted and "nothing" not in asked["query"] else "\r\n")

    def _answer(self, code, text):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *about):
        pass


@pytest.fixture
def influx():
    """Host and port of a server of InfluxDB queries."""
    with ThreadingHTTPServer(("127.0.0.1", 0), InfluxQueries) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_queries_of_a_server_of_influxdb(influx, monkeypatch):
    address = f"influxdb://:{quote(TOKEN, safe='')}@{influx}/plant%20north"
    asked = 'from(bucket: "plant") |> range(start: -7d)'
    for plant in (PlantTable.read(f"{address}/plant"), PlantTable.read(address, query=asked)):
        assert_allclose(plant.frame[["mill__feed", "mill__power", "kiln__temp"]], FRAME)
        assert plant.frame.index.equals(FRAME.index.tz_convert(plant.frame.index.tz))
    monkeypatch.setenv("INFLUX_TOKEN", TOKEN)
    some = PlantTable.read(f"influxdb://{influx}/plant%20north/plant", columns=["mill.*"])
    assert_allclose(some.frame, FRAME[["mill.feed", "mill.power"]])
    with pytest.raises(ValueError, match="gave no rows"):
        PlantTable.read(address, query=f"{asked} // nothing")
    with pytest.raises(ValueError, match="refuses the query: 404 could not find bucket"):
        PlantTable.read(f"{address}/another")


def test_a_server_of_influxdb_that_refuses_or_is_none_and_tokens_are_not_shown(influx):
    with pytest.raises(ValueError, match=r"401 unauthorized access\. Give its token") as refused:
        PlantTable.read(f"influxdb://:secret@{influx}/plant/plant")
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="does not answer"):
        PlantTable.read("influxdb://:secret@127.0.0.1:1/plant/plant")
    with pytest.raises(ValueError, match="no server, organisation and bucket"):
        PlantTable.read("influxdb://127.0.0.1:1/plant")
