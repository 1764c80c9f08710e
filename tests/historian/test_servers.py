"""Databases and servers: what is read of each is the table that the CSV of the same record gives."""

import asyncio
import datetime
import sqlite3

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


def test_passwords_are_not_shown():
    assert without_password("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
