"""Data frames and SQLAlchemy: pandas, polars and connectorx read and write tables by every driver they know."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import adbc_driver_flightsql.dbapi
import adbc_driver_postgresql.dbapi
import httpx
import pandas as pd
import polars as pl
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from tests.clients.programs import miss
from tests.server_process import ServerProcess

ENGINES = (
    ("mysql+pymysql", "MySQL"),
    ("mysql+mysqldb", "MySQL"),
    ("mysql+mysqlconnector", "MySQL"),
    ("postgresql+psycopg", "Postgres"),
    ("postgresql+psycopg2", "Postgres"),
    ("postgresql+pg8000", "Postgres"),
)
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 678000)
TEXT = "SELECT host, v, n, ts FROM framed WHERE n > 1 ORDER BY n"
FOUND = [("b", None, 2, MOMENT), ("c", 3.5, 2**40, MOMENT + dt.timedelta(seconds=1))]


@pytest.fixture(scope="module")
def filled(server: ServerProcess) -> ServerProcess:
    for text in (
        "CREATE TABLE framed (host STRING PRIMARY KEY, v DOUBLE, n BIGINT, ts TIMESTAMP(6) TIME INDEX)",
        "INSERT INTO framed VALUES ('a', 1.5, 1, '2024-01-01'), ('b', NULL, 2, '2024-01-02 03:04:05.678'),"
        " ('c', 3.5, 1099511627776, '2024-01-02 03:04:06.678')",
    ):
        assert httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=10).status_code == 200
    return server


@pytest.fixture(params=ENGINES, ids=lambda each: each[0])
def engine(filled: ServerProcess, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    driver, protocol = request.param
    try:
        made = sa.create_engine(f"{driver}://me:any@127.0.0.1:{filled.port_of(protocol)}/public")
    except ImportError:
        miss(driver)
    yield made
    made.dispose()


def _plain(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    frame = frame.astype(object)
    return [tuple(row) for row in frame.where(frame.notna(), None).itertuples(index=False)]


def test_the_inspector_finds_tables_columns_and_keys(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    assert "framed" in inspector.get_table_names()
    assert "public" in inspector.get_schema_names()
    assert inspector.has_table("framed")
    assert not inspector.has_table("nowhere_at_all")
    columns = {each["name"]: each for each in inspector.get_columns("framed")}
    assert list(columns) == ["host", "v", "n", "ts"]
    assert (columns["host"]["nullable"], columns["ts"]["nullable"]) == (True, False)
    assert set(inspector.get_pk_constraint("framed")["constrained_columns"]) == {"host", "ts"}
    table = sa.Table("framed", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        query = sa.select(table.c.host, sa.func.max(table.c.n)).where(table.c.ts >= MOMENT).group_by(table.c.host)
        assert sorted(tuple(row) for row in connection.execute(query)) == [("b", 2), ("c", 2**40)]
        with pytest.raises(sa.exc.DBAPIError, match="nowhere_at_all"):
            connection.execute(sa.text("SELECT * FROM nowhere_at_all"))


def test_pandas_reads_with_parameters_and_in_pieces(engine: sa.Engine) -> None:
    frame = pd.read_sql(sa.text(TEXT.replace("> 1", "> :least")), engine, params={"least": 1})
    assert _plain(frame) == FOUND
    pieces = list(pd.read_sql(sa.text(TEXT), engine, chunksize=1))
    assert [len(each) for each in pieces] == [1, 1]
    assert pd.read_sql_table("framed", engine, columns=["host"])["host"].tolist() == ["a", "b", "c"]


def test_pandas_writes_a_frame_and_reads_it_back(engine: sa.Engine) -> None:
    name = f"frame_of_{engine.dialect.name}_{engine.dialect.driver}"
    rows = [("a", 1.5, 1, MOMENT + dt.timedelta(microseconds=1)), *FOUND[1:]]
    frame = pd.DataFrame(rows, columns=["host", "v", "n", "ts"])
    # Without a precision, a TIMESTAMP holds milliseconds.
    is_mysql = engine.dialect.name == "mysql"
    kind = mysql.DATETIME(fsp=6) if is_mysql else postgresql.TIMESTAMP(precision=6)
    frame.to_sql(name, engine, index=False, dtype={"ts": kind})
    assert _plain(pd.read_sql(f"SELECT host, v, n, ts FROM {name} ORDER BY host", engine)) == rows


def test_polars_reads_by_an_engine(engine: sa.Engine) -> None:
    assert pl.read_database(TEXT, engine).rows() == FOUND
    assert sum(each.height for each in pl.read_database(TEXT, engine, iter_batches=True, batch_size=1)) == 2


def test_polars_reads_by_adbc_and_by_psycopg(filled: ServerProcess) -> None:
    port, flight = filled.port_of("Postgres"), filled.port_of("gRPC")
    for connection in (
        adbc_driver_postgresql.dbapi.connect(f"postgresql://me:any@127.0.0.1:{port}/public", autocommit=True),
        adbc_driver_flightsql.dbapi.connect(f"grpc://127.0.0.1:{flight}", autocommit=True),
        psycopg.connect(host="127.0.0.1", port=port, user="me", dbname="public", autocommit=True),
    ):
        with connection:
            assert pl.read_database(TEXT, connection).rows() == FOUND


def test_polars_writes_by_adbc(filled: ServerProcess) -> None:
    frame = pl.DataFrame(FOUND, schema=["host", "v", "n", "ts"], orient="row")
    uri = f"postgresql://me:any@127.0.0.1:{filled.port_of('Postgres')}/public"
    assert frame.write_database("framed_by_polars", uri, engine="adbc") == 2
    text = "SELECT host, v, n, ts FROM framed_by_polars ORDER BY n"
    assert pl.read_database_uri(text, uri, engine="adbc").rows() == FOUND


@pytest.mark.parametrize(("scheme", "protocol"), [("postgresql", "Postgres"), ("mysql", "MySQL")])
def test_connectorx_reads_for_polars_and_in_partitions(filled: ServerProcess, scheme: str, protocol: str) -> None:
    try:
        import connectorx  # noqa: F401
    except ImportError:
        miss("connectorx")
    uri = f"{scheme}://me:any@127.0.0.1:{filled.port_of(protocol)}/public"
    assert pl.read_database_uri(TEXT, uri).rows() == FOUND
    parts = pl.read_database_uri(
        "SELECT n, host FROM framed", uri, partition_on="n", partition_num=2, partition_range=(0, 10)
    )
    assert parts.height == 2
