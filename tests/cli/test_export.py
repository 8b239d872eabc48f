"""`tsdb export`, and that what is exported comes back the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.cli.clients import sql, tsdb, tsdb_process
from tests.server_process import ServerProcess
from tsdb.cli.server import parse_address
from tsdb.cli.shown import TimeStyle, csv_head, csv_lines, json_lines
from tsdb.cli.transfer._batches import RowsBatch
from tsdb.cli.transfer._columns import TimeReading
from tsdb.cli.transfer._read_csv import CsvOptions, CsvSource
from tsdb.cli.transfer._read_json import JsonSource
from tsdb.cli.transfer._read_parquet import ParquetSource
from tsdb.cli.transfer._rows import RowMaker
from tsdb.cli.transfer._source import ImportSource
from tsdb.cli.transfer._target import TableTarget, TargetOptions
from tsdb.cli.transfer.exports._line_texts import line_texts
from tsdb.model import DataType, Kind

COLUMNS = {
    "k": DataType(Kind.STRING),
    "ts": DataType(Kind.TIMESTAMP_NANOSECOND),
    "f": DataType(Kind.FLOAT64),
    "f 32": DataType(Kind.FLOAT32),
    "i": DataType(Kind.INT64),
    "u": DataType(Kind.UINT64),
    'b"q': DataType(Kind.BOOLEAN),
    "d": DataType(Kind.DATE),
    "n": DataType(Kind.DECIMAL, precision=20, scale=4),
    "raw": DataType(Kind.BINARY),
    "s,t": DataType(Kind.STRING),
}
_TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=12) | st.sampled_from(
    ["", '"', '""', "\n", "\r\n", ",", "NULL", "it's", " x ", "日本", "\\", "0x", "nan", "a\tb", "%26&=+"]
)
_ROW = st.tuples(
    st.sampled_from(["a", "b", "it's", "日本", 'q"'])  # tags, which tell rows apart together with the time
    ,
    st.integers(-(2**62), 2**62) | st.just(1_700_000_000_123_456_789),
    st.none() | st.floats(),
    st.none() | st.floats(width=32),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(0, 2**64 - 1),
    st.none() | st.booleans(),
    st.none() | st.dates(date(1000, 1, 1), date(9999, 12, 31)),
    st.none() | st.decimals(-(10**15), 10**15, places=4, allow_nan=False),
    st.none() | st.binary(max_size=6),
    st.none() | _TEXT,
)  # fmt: skip
_ROWS = st.lists(_ROW, min_size=1, max_size=8, unique_by=lambda row: (row[0], row[1]))


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    arrays = []
    for at, kind in enumerate(COLUMNS.values()):
        values = [row[at] for row in rows]
        if kind.is_timestamp:
            arrays.append(pa.array(values, pa.int64()).cast(kind.arrow))
        elif kind.kind is Kind.FLOAT32:
            arrays.append(pa.array([None if each is None else np.float32(each) for each in values], pa.float32()))
        elif kind.kind is Kind.DECIMAL:
            arrays.append(pa.array([None if each is None else Decimal(each) for each in values], kind.arrow))
        else:
            arrays.append(pa.array(values, kind.arrow))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([kind.field(name) for name, kind in COLUMNS.items()]))


def _maker() -> RowMaker:
    target = TableTarget("t", "public", COLUMNS, "ts", ("k",), is_new=False)
    options = TargetOptions("t", "public", None, (), {})
    return RowMaker(parse_address("http://127.0.0.1:1"), options, TimeReading(), "test", target)


def _read(source: ImportSource) -> pa.RecordBatch:
    batches = []
    for piece in source.pieces({}):
        assert not piece.rejected
        batches += [batch.batch for batch in piece.batches if isinstance(batch, RowsBatch)]
    return pa.concat_batches(batches).select(list(COLUMNS))


def _bits(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows that can be compared: NaN equals NaN, and times keep their nanoseconds."""
    shown = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type)
        else pa.array([None if each is None else repr(each) for each in column.to_pylist()], pa.string())
        for column in batch.columns
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(shown, batch.schema.names).to_pylist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round")


@given(rows=_ROWS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_csv_comes_back_as_it_was(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    batch, path = _batch(rows), folder / "t.csv"
    path.write_bytes(csv_head(batch.schema) + csv_lines(batch, "Asia/Kathmandu", TimeStyle.RFC3339))
    assert _bits(_read(CsvSource(str(path), _maker(), CsvOptions()))) == _bits(batch)


@given(rows=_ROWS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_lines_come_back_but_for_what_json_cannot_say(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    batch, path = _batch(rows), folder / "t.jsonl"
    path.write_bytes(b"".join(json_lines(batch, "UTC")))
    finite = [tuple(None if isinstance(v, float) and not np.isfinite(v) else v for v in row) for row in rows]
    assert _bits(_read(JsonSource(str(path), _maker()))) == _bits(_batch(finite))


@given(rows=_ROWS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parquet_comes_back_as_it_was(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    batch, path = _batch(rows), folder / "t.parquet"
    pq.write_table(pa.Table.from_batches([batch]), path)
    assert _bits(_read(ParquetSource(str(path), _maker()))) == _bits(batch)


_numbers = count()


@given(rows=_ROWS)
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a smaller example is not worth minutes
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_that_is_exported_and_imported_is_the_same(
    server: ServerProcess, folder: Path, suffix: str, rows: list[tuple[Any, ...]]
) -> None:
    """Through the server: rows in a file, into a table, out of it, into another one."""
    number = next(_numbers)
    original, copied = folder / f"original{number}.parquet", folder / f"out{number}.{suffix}"
    pq.write_table(pa.Table.from_batches([_batch(rows)]), original)
    columns = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}" {kind.sql}' for name, kind in COLUMNS.items())
    for name in ("original", "copied"):
        sql(server, f"CREATE TABLE {name}{number} ({columns}, TIME INDEX (ts), PRIMARY KEY (k))")
    steps = (
        ("import", original, "-t", f"original{number}", "--no-resume"),
        ("export", f"original{number}", "-o", copied, "--time-zone", "America/New_York"),
        ("import", copied, "-t", f"copied{number}", "--no-resume"),
        ("export", f"copied{number}", "-o", folder / f"copied{number}.parquet"),
    )
    for command, *arguments in steps:
        result = tsdb(server, str(command), *arguments)
        assert result.exit_code == 0, result.stderr
    found = pq.read_table(folder / f"copied{number}.parquet").combine_chunks().to_batches()[0]
    assert sorted(map(str, _bits(found.select(list(COLUMNS))))) == sorted(map(str, _bits(_batch(rows))))
    sql(server, f"DROP TABLE original{number}; DROP TABLE copied{number}")


def test_line_protocol_of_a_table_comes_back(server: ServerProcess, tmp_path: Path) -> None:
    sql(
        server,
        'CREATE TABLE lines ("ho st" STRING, dc STRING, ts TIMESTAMP(9) TIME INDEX, f DOUBLE, i BIGINT, s STRING,'
        ' b BOOLEAN, PRIMARY KEY ("ho st", dc));'
        "INSERT INTO lines VALUES ('a b,c=d', 'x', 1700000000123456789, 0.5, -7, 'say \"hi\"\\ \nnext', true),"
        " ('e', NULL, 2, 'NaN'::double, 1, NULL, NULL), ('f', 'y', 3, NULL, NULL, NULL, NULL)",
    )
    out = tmp_path / "lines.lp"
    result = tsdb(server, "export", "lines", "-o", out)
    assert result.exit_code == 0
    assert "1 rows have no value that line protocol can carry and were left out" in result.stderr
    sql(server, "CREATE TABLE kept_lines LIKE lines; TRUNCATE TABLE lines")
    assert tsdb(server, "import", out, "--no-resume").exit_code == 0
    rows = sql(server, "SELECT * FROM lines ORDER BY ts")
    assert rows == [["e", None, 2, None, 1, None, None],
                    ["a b,c=d", "x", 1700000000123456789, 0.5, -7, 'say "hi"\\ \nnext', True]]  # fmt: skip


def test_bounds_queries_and_the_standard_output(server: ServerProcess, tmp_path: Path) -> None:
    sql(
        server,
        "CREATE TABLE spans (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE);"
        "INSERT INTO spans VALUES ('a', '2024-01-01', 1), ('b', '2024-01-02', 2), ('c', '2024-01-03', 3)",
    )
    bounds = ("--start", "2024-01-02", "--end", "2024-01-03")
    result = tsdb(server, "export", "spans", "-o", "-", "--format", "csv", *bounds)
    assert result.stdout == '"k","ts","v"\n"b","2024-01-02T00:00:00.000Z",2\n'
    query = "SELECT max(v) AS top FROM spans"
    assert tsdb(server, "export", "-q", query, "-o", "-", "--format", "jsonl").stdout == '{"top":3.0}\n'
    lines = ("-q", "SELECT ts, k, v FROM spans WHERE v > 2", "--measurement", "m", "--tags", "k", "--format", "line")
    assert tsdb(server, "export", *lines, "-o", "-").stdout == "m,k=c v=3 1704240000000000000\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope", "-o", "x.csv"), "there is no table nope in the database public"),
        (("-o", "x.csv"), "pass either a table or --query"),
        (("t", "-o", "x.xml"), "the format of x.xml cannot be inferred from its name"),
        (("-q", "SELECT nope", "-o", "x.csv"), "No field named nope"),
        (("-q", "SELECT 1", "-o", "x.lp"), "needs a --measurement"),
        (("-q", "SELECT 1", "-o", "/nowhere/x.csv"), "/nowhere/x.csv cannot be written: No such file or directory"),
    ],
)
def test_a_failed_export_leaves_no_file(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tsdb(server, "export", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_export_of_a_query_leaves_no_file(server: ServerProcess, tmp_path: Path) -> None:
    endless = "SELECT a.value, b.value FROM generate_series(1, 100000) a(value), generate_series(1, 100000) b(value)"
    out = tmp_path / "x.csv"
    with tsdb_process(server, "export", "-q", endless, "-o", out) as process:
        _wait_until(lambda: any(each.stat().st_size > 100_000 for each in tmp_path.iterdir()))
        process.send_signal(2)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "nothing was left behind; an export of a query cannot be continued" in errors.decode()
    assert list(tmp_path.iterdir()) == []


def _wait_until(is_true: Callable[[], bool]) -> None:

    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_lines_are_made_without_the_rows_that_have_no_field() -> None:
    batch = pa.record_batch(
        {"h": ["a", ""], "ts": pa.array([1, 2], pa.timestamp("ms")), "v": pa.array([None, 1.5], pa.float64())}
    )
    assert line_texts(batch, measurement="m 1,x", time="ts", tags=["h"]) == (b"m\\ 1\\,x v=1.5 2000000\n", 1)
