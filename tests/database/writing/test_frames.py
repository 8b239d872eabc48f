"""Columns that go into a table as it is, and tables that are made for columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tsdb.catalog import DatabaseNotFound, TableAlreadyExists, TableNotFound
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Database
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.query import Affected, Session, read_all

SCHEMA = pa.schema([("host", pa.string()), ("v", pa.float64()), ("ts", pa.timestamp("ms"))])
ROWS = pa.table([["a", "b"], [1.0, 2.0], [1, 2]], schema=SCHEMA)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    opened.database.run("CREATE TABLE t (host STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP(3) TIME INDEX)", Session())
    yield opened.database
    opened.close()


def rows(database: Database, text: str) -> list[dict[str, object]]:
    output = database.run(text, Session())
    assert not isinstance(output, Affected)
    found: list[dict[str, object]] = read_all(output).to_pylist()
    return found


def test_columns_are_found_by_their_names(database: Database) -> None:
    assert database.append(("public", "t"), ROWS.select(["ts", "host"]), Session()) == 2
    assert rows(database, "SELECT host, v FROM t ORDER BY host") == [{"host": "a", "v": None}, {"host": "b", "v": None}]


def test_an_empty_frame_only_asks_whether_it_would_fit(database: Database) -> None:
    assert database.append(("t",), SCHEMA.empty_table(), Session()) == 0
    with pytest.raises(InvalidArguments, match="Float64"):
        database.append(("t",), pa.table({"v": pa.array([], pa.string())}), Session())


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        (("nope",), TableNotFound),
        (("nope", "t"), (DatabaseNotFound, TableNotFound)),
        (("other", "public", "t"), InvalidArguments),
        (("information_schema", "tables"), Unsupported),
    ],
)
def test_a_table_that_cannot_be_written_is_refused(
    database: Database, parts: tuple[str, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        database.append(parts, ROWS, Session())


def test_a_column_that_comes_twice_is_refused(database: Database) -> None:
    twice = pa.Table.from_arrays([ROWS["host"], ROWS["host"]], names=["host", "host"])
    with pytest.raises(InvalidArguments, match="not unique"):
        database.append(("t",), twice, Session())


def test_a_table_is_made_for_columns_with_its_options(database: Database) -> None:
    database.create_for(("u",), SCHEMA, Session(), tags=(), time="ts", options={"append_mode": "true"})
    database.append(("u",), ROWS, Session())
    database.append(("u",), ROWS, Session())
    assert rows(database, "SELECT count(*) AS n FROM u") == [{"n": 4}]
    with pytest.raises(TableAlreadyExists):
        database.create_for(("u",), SCHEMA, Session(), tags=("host",), time="ts")
    with pytest.raises(InvalidArguments, match="there is no column 'zone'"):
        database.create_for(("w",), SCHEMA, Session(), tags=("zone",), time="ts")
