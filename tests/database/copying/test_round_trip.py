"""COPY TO and COPY FROM: a file brings back the rows that went into it, of every type, in every format and zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tsdb
from tsdb.errors import TsdbError

FORMATS = ("parquet", "csv", "json")
ZONES = ("UTC", "Asia/Kolkata", "America/New_York")


def _integers(bits: int, *, is_signed: bool) -> st.SearchStrategy[int]:
    least = -(1 << (bits - 1)) if is_signed else 0
    return st.integers(least, least + (1 << bits) - 1)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda digits: Decimal(f"{digits}e-{scale}"))


def _times(unit: str) -> st.SearchStrategy[int]:
    """Counts of a unit, of years that files can spell."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return st.integers(-9_000_000_000 * per_second, 9_000_000_000 * per_second)


# Column, type, the type of Arrow, and its values.
COLUMNS: tuple[tuple[str, str, pa.DataType, st.SearchStrategy[Any]], ...] = (
    ("s", "STRING", pa.string(), st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]))),
    ("digits", "STRING", pa.string(), st.from_regex(r"0[0-9]{0,30}|1e[0-9]+|NaN|true|2020-01-01", fullmatch=True)),
    ("b", "BINARY", pa.binary(), st.binary(max_size=20)),
    ("o", "BOOLEAN", pa.bool_(), st.booleans()),
    ("i8", "TINYINT", pa.int8(), _integers(8, is_signed=True)),
    ("i16", "SMALLINT", pa.int16(), _integers(16, is_signed=True)),
    ("i32", "INT", pa.int32(), _integers(32, is_signed=True)),
    ("i64", "BIGINT", pa.int64(), _integers(64, is_signed=True)),
    ("u8", "TINYINT UNSIGNED", pa.uint8(), _integers(8, is_signed=False)),
    ("u16", "SMALLINT UNSIGNED", pa.uint16(), _integers(16, is_signed=False)),
    ("u32", "INT UNSIGNED", pa.uint32(), _integers(32, is_signed=False)),
    ("u64", "BIGINT UNSIGNED", pa.uint64(), _integers(64, is_signed=False)),
    ("f32", "FLOAT", pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    ("f64", "DOUBLE", pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    ("whole", "DOUBLE", pa.float64(), _integers(60, is_signed=True).map(float)),
    ("d9", "DECIMAL(9,2)", pa.decimal128(9, 2), _decimals(9, 2)),
    ("d38", "DECIMAL(38,10)", pa.decimal128(38, 10), _decimals(38, 10)),
    ("d0", "DECIMAL(38,0)", pa.decimal128(38, 0), _decimals(38, 0)),
    ("day", "DATE", pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    ("t0", "TIMESTAMP(0)", pa.timestamp("s"), _times("s")),
    ("t3", "TIMESTAMP(3)", pa.timestamp("ms"), _times("ms")),
    ("t6", "TIMESTAMP(6)", pa.timestamp("us"), _times("us")),
    ("t9", "TIMESTAMP(9)", pa.timestamp("ns"), _times("ns")),
    ("j", "JSON", pa.string(), st.sampled_from(['{"a":[1,2.5,null]}', '"x"', "[]", "1", "18446744073709551615"])),
    ("v", "VECTOR(2)", pa.string(), st.sampled_from(["[1.5,-2]", "[0,0.1]"])),
)


@pytest.fixture(scope="module")
def database() -> Iterator[tsdb.Connection]:
    with tsdb.connect() as connection:
        columns = ", ".join(f"{name} {kind} NULL" for name, kind, _, _ in COLUMNS)
        connection.sql(f"CREATE TABLE t (ts TIMESTAMP(9) TIME INDEX, {columns})")
        yield connection


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 4))
    made: dict[str, pa.Array] = {"ts": pa.array(range(rows), pa.timestamp("ns"))}
    for name, _, kind, values in COLUMNS:
        made[name] = pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
    return pa.table(made)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=tables(), zone=st.sampled_from(ZONES))
def test_a_file_brings_back_the_rows_that_went_into_it(
    database: tsdb.Connection, format: str, rows: pa.Table, zone: str
) -> None:
    database.sql("TRUNCATE TABLE t")
    database.write("t", rows)
    before = database.sql("SELECT * FROM t ORDER BY ts").arrow()
    database.sql(f"SET time_zone = '{zone}'")
    database.sql(f"COPY t TO 'rows.{format}' WITH (format = '{format}')")
    database.sql("TRUNCATE TABLE t")
    database.sql(f"COPY t FROM 'rows.{format}' WITH (format = '{format}')")
    after = database.sql("SELECT * FROM t ORDER BY ts").arrow()
    changed = [name for name in before.column_names if not after.column(name).equals(before.column(name))]
    assert {name: after.column(name) for name in changed} == {name: before.column(name) for name in changed}


@pytest.mark.parametrize(
    ("format", "text", "kind", "wanted"),
    [
        ("csv", "ts,a\n1,1.005\n2, 2 \n3,\n", "DECIMAL(9,2)", ["1.01", "2.00", None]),
        ("csv", "ts,a\n1,1e3\n2,0.1000000000000000055511151231257827021181583404541015625\n", "DECIMAL(9,2)",
         ["1000.00", "0.10"]),
        ("csv", "ts,a\n1,1.0\n2, 7 \n3,\n", "BIGINT UNSIGNED", ["1", "7", None]),
        ("json", '{"ts":1,"a":1.0}\n{"ts":2,"a":7}\n', "BIGINT UNSIGNED", ["1", "7"]),
        ("json", '{"ts":1}\n', "BIGINT UNSIGNED", ["5"]),
        ("csv", 'ts,a\n1,"[1, 2]"\n', "VECTOR(2)", ["[1,2]"]),
    ],
)  # fmt: skip
def test_files_of_others_may_spell_numbers_as_they_do(
    tmp_path: Path, format: str, text: str, kind: str, wanted: list[str | None]
) -> None:
    with tsdb.connect(tmp_path / "home") as database:
        default = " DEFAULT 5" if kind == "BIGINT UNSIGNED" else ""
        database.sql(f"CREATE TABLE t (ts TIMESTAMP TIME INDEX, a {kind} NULL{default})")
        file = tmp_path / "home" / "copy" / f"rows.{format}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        database.sql(f"COPY t FROM 'rows.{format}' WITH (format = '{format}')")
        shown = "vec_to_string(a)" if kind.startswith("VECTOR") else "CAST(a AS STRING)"
        rows = database.sql(f"SELECT {shown} AS a FROM t ORDER BY ts").arrow()
        assert rows.column("a").to_pylist() == wanted


def test_a_text_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with tsdb.connect(tmp_path / "home") as database:
        database.sql("CREATE TABLE t (ts TIMESTAMP TIME INDEX, a DECIMAL(9,2), b BIGINT UNSIGNED)")
        file = tmp_path / "home" / "copy" / "rows.csv"
        file.parent.mkdir(exist_ok=True)
        for text in ("ts,a\n1,x\n", "ts,b\n1,-1\n", "ts,b\n1,x\n"):
            file.write_text(text)
            with pytest.raises(TsdbError, match="Can't cast value"):
                database.sql("COPY t FROM 'rows.csv' WITH (format = 'csv')")
