"""The ADBC driver for PostgreSQL, unmodified: it reads pg_type, answers and COPY in the binary format."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pytest

from tests.servers.postgres.running import RunningServer

FRAME = pa.table(
    {
        "ts": pa.array([datetime(2024, 1, 1), datetime(2024, 1, 2)], pa.timestamp("us")),
        "host": ["a", "b"],
        "v": [1.5, None],
        "n": [7, 2**40],
    }
)


@pytest.fixture
def connection(pg: RunningServer) -> Iterator[adbc.Connection]:
    with adbc.connect(f"postgresql://me@127.0.0.1:{pg.port}/public", autocommit=True) as connection:
        yield connection
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS frames")


def _fetch(connection: adbc.Connection, text: str, *parameters: object) -> list[dict[str, object]]:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters or None)
        found: list[dict[str, object]] = cursor.fetch_arrow_table().to_pylist()
        return found


def test_a_frame_goes_into_a_new_table_and_comes_back(connection: adbc.Connection) -> None:
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest("frames", FRAME, mode="create") == 2
        assert cursor.adbc_ingest("frames", FRAME, mode="append") == 2
    assert _fetch(connection, "SELECT count(*), 1 FROM frames") == [{"count": 4, "?column?": 1}]
    assert _fetch(connection, "SELECT host, v, n FROM frames WHERE n > $1 LIMIT 1", 100) == [
        {"host": "b", "v": None, "n": 2**40}
    ]
    schema = connection.adbc_get_table_schema("frames")
    assert (schema.names, schema.field("ts").type) == (FRAME.schema.names, pa.timestamp("us"))


def test_objects_are_listed_down_to_columns_and_keys(connection: adbc.Connection) -> None:
    found = connection.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter="counted")
    schemas = [schema for each in found.read_all().to_pylist() for schema in each["catalog_db_schemas"]]
    (table,) = schemas[0]["db_schema_tables"]
    assert table["table_name"] == "counted"
    assert {each["column_name"] for each in table["table_columns"]} == {"k", "i", "ts"}
    (key,) = table["table_constraints"]
    assert (key["constraint_type"], set(key["constraint_column_names"])) == ("PRIMARY KEY", {"k", "ts"})
