"""Every format of `/v1/sql`, byte by byte."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from tests.servers.http.asgi_client import Answer, call
from tests.servers.http.sql_database import Affected, MadeRecords, ScriptedDatabase, rows
from tsdb.database import DatabaseGate
from tsdb.servers.http import HttpApp, sql_routes
from tsdb.units import Duration

JSON_FIELD = pa.field("j", pa.string(), metadata={b"tsdb:type": b"json"})
SAMPLE = {
    "host": pa.array(["h1", 'h"2', None]).dictionary_encode(),
    "ts": pa.array([1_700_000_000_000, 1_700_000_000_999, None], pa.timestamp("ms")),
    "cpu": pa.array([0.5, math.nan, 1024.0]),
}
SAMPLE_SCHEMA = (
    '{"column_schemas":[{"name":"host","data_type":"String"},{"name":"ts","data_type":"TimestampMillisecond"},'
    '{"name":"cpu","data_type":"Float64"}]}'
)
SAMPLE_ROWS = '["h1",1700000000000,0.5],["h\\"2",1700000000999,null],[null,null,1024.0]'


def make_database() -> ScriptedDatabase:
    return ScriptedDatabase(
        {
            "select": [rows(**SAMPLE)],
            "none": [rows(a=pa.array([], pa.int64()))],
            "insert": [Affected(2)],
            "insert; select": [Affected(2), rows(n=[1, 2, 3])],
            "select; select": [rows(n=[1]), rows(n=[2])],
            ";": [],
        }
    )


async def ask(
    sql: str, parameters: str = "", database: ScriptedDatabase | None = None, zone: str = "UTC", **options: Any
) -> Answer:
    app = HttpApp(body_limit=0, timeout=Duration(0))
    routes = sql_routes(app, DatabaseGate(database or make_database()), **options)
    try:
        answer = await call(app, "GET", f"/v1/sql?sql={quote(sql)}&{parameters}", headers={"x-tsdb-timezone": zone})
    finally:
        routes.close()
    assert answer.is_complete
    return answer


async def body(sql: str, parameters: str = "", database: ScriptedDatabase | None = None) -> str:
    """The body of a good answer, with its time replaced."""
    answer = await ask(sql, parameters, database)
    assert answer.status == 200, answer.body
    return re.sub(r'"execution_time_ms":\d+', '"execution_time_ms":T', answer.body.decode())


def headers_of(answer: Answer) -> tuple[str, str, str]:
    assert answer.headers["x-tsdb-execution-time"] == answer.headers["x-greptime-execution-time"]
    assert answer.headers["x-tsdb-execution-time"].isdigit()
    headers = answer.headers
    return headers["content-type"], headers["x-tsdb-format"], headers["x-greptime-format"]


# tsdb_v1


@pytest.mark.parametrize("parameters", ["", "format=tsdb_v1", "format=GreptimeDB_V1"])
async def test_tsdb_v1_has_schema_rows_and_their_number(parameters: str) -> None:
    assert await body("select", parameters) == (
        f'{{"output":[{{"records":{{"schema":{SAMPLE_SCHEMA},"rows":[{SAMPLE_ROWS}],"total_rows":3}}}}],'
        '"execution_time_ms":T}'
    )
    assert headers_of(await ask("select", parameters)) == ("application/json", "tsdb_v1", "greptimedb_v1")


async def test_tsdb_v1_lists_the_outputs_of_all_statements() -> None:
    assert await body("insert; select") == (
        '{"output":[{"affectedrows":2},{"records":{"schema":{"column_schemas":[{"name":"n","data_type":"Int64"}]},'
        '"rows":[[1],[2],[3]],"total_rows":3}}],"execution_time_ms":T}'
    )
    assert await body(";") == '{"execution_time_ms":T}'


async def test_tsdb_v1_shows_the_columns_of_an_empty_result() -> None:
    assert await body("none") == (
        '{"output":[{"records":{"schema":{"column_schemas":[{"name":"a","data_type":"Int64"}]},"rows":[],'
        '"total_rows":0}}],"execution_time_ms":T}'
    )


@pytest.mark.parametrize(("limit", "expected"), [(0, []), (1, [[1]]), (3, [[1], [2], [3]]), (9, [[1], [2], [3]])])
async def test_a_limit_cuts_the_rows_and_their_number(limit: int, expected: list[Any]) -> None:
    records = TwoBatches()
    answer = (await ask("q", f"limit={limit}", ScriptedDatabase({"q": [records]}))).json()
    found = answer["output"][0]["records"]
    assert (found["rows"], found["total_rows"]) == (expected, len(expected))
    assert records.is_closed


class TwoBatches:
    """Three rows in two batches, and an empty batch between them."""

    schema = pa.schema([("n", pa.int64())])
    is_closed = False

    def __iter__(self) -> Any:
        for numbers in ([1, 2], [], [3]):
            yield pa.record_batch([pa.array(numbers, pa.int64())], schema=self.schema)

    def close(self) -> None:
        self.is_closed = True


async def test_nested_json_and_types_of_expressions_are_told() -> None:
    table = pa.Table.from_arrays([pa.array(['{"a": 1}'])], schema=pa.schema([JSON_FIELD]))
    table = table.append_column("l", pa.array([[1, 2]]))
    table = table.append_column("d", pa.array([5], pa.duration("s")))
    records = rows()
    records.table = table
    found = (await ask("q", "", ScriptedDatabase({"q": [records]}))).json()["output"][0]["records"]
    assert [each["data_type"] for each in found["schema"]["column_schemas"]] == [
        "Json",
        "List<Int64>",
        "DurationSecond",
    ]
    assert found["rows"] == [[{"a": 1}, [1, 2], 5]]


async def test_a_type_without_text_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    database = ScriptedDatabase({"q": [rows(u=union)]})
    for name in ("tsdb_v1", "table", "csv"):
        answer = await ask("q", f"format={name}", database)
        assert (answer.status, answer.json()["code"]) == (400, 1001)
        assert answer.json()["error"].startswith('column "u": there is no text for values of ')


# influxdb_v1


async def test_influxdb_v1_has_a_series_for_each_result() -> None:
    assert await body("select", "format=influxdb_v1") == (
        '{"results":[{"statement_id":0,"series":[{"name":"","columns":["host","ts","cpu"],'
        f'"values":[{SAMPLE_ROWS}]}}]}}],"execution_time_ms":T}}'
    )
    assert await body("insert; select", "format=influxdb_v1") == (
        '{"results":[{"statement_id":0,"series":[]},'
        '{"statement_id":1,"series":[{"name":"","columns":["n"],"values":[[1],[2],[3]]}]}],"execution_time_ms":T}'
    )
    assert await body("none", "format=influxdb_v1") == (
        '{"results":[{"statement_id":0,"series":[{"name":"","columns":[],"values":[]}]}],"execution_time_ms":T}'
    )
    assert headers_of(await ask("select", "format=influxdb_v1")) == ("application/json", *["influxdb_v1"] * 2)


@pytest.mark.parametrize(
    ("epoch", "value"),
    [
        ("ns", 1_700_000_000_999_000_000),
        ("u", 1_700_000_000_999_000),
        ("%C2%B5", 1_700_000_000_999_000),
        ("ms", 1_700_000_000_999),
        ("S", 1_700_000_000),
        ("us", 1_700_000_000_999_000),
    ],
)
async def test_an_epoch_chooses_the_unit_of_timestamps(epoch: str, value: int) -> None:
    answer = await ask("select", f"format=influxdb_v1&epoch={epoch}&limit=1")
    series = answer.json()["results"][0]["series"][0]
    assert len(series["values"]) == 3, "a limit does not reach this format"
    assert series["values"][1][1] == value


async def test_without_an_epoch_and_in_other_formats_timestamps_keep_their_unit() -> None:
    answer = await ask("select", "epoch=ns")
    assert answer.json()["output"][0]["records"]["rows"][0][1] == 1_700_000_000_000


# json, csv, table, null


async def test_json_is_a_list_of_objects() -> None:
    assert await body("select", "format=json&limit=2") == (
        '{"data":[{"host":"h1","ts":1700000000000,"cpu":0.5},{"host":"h\\"2","ts":1700000000999,"cpu":null}],'
        '"execution_time_ms":T}'
    )
    assert await body("insert", "format=json") == '{"data":[],"affected_rows":2,"execution_time_ms":T}'
    assert await body("none", "format=json") == '{"data":[],"execution_time_ms":T}'
    assert await body(";", "format=json") == '{"data":[],"execution_time_ms":T}'
    assert headers_of(await ask("select", "format=json")) == ("application/json", "json", "json")


CSV_ROWS = 'h1,2023-11-14 22:13:20.000,0.5\r\n"h""2",2023-11-14 22:13:20.999,\r\n,,1024.0\r\n'


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("csv", ""),
        ("csvWithNames", "host,ts,cpu\r\n"),
        ("CSVwithnamesandtypes", "host,ts,cpu\r\nString,TimestampMillisecond,Float64\r\n"),
    ],
)
async def test_csv_has_lines_and_what_its_name_says(name: str, head: str) -> None:
    assert await body("select", f"format={name}") == head + CSV_ROWS
    assert headers_of(await ask("select", f"format={name}")) == ("text/csv; charset=utf-8", "csv", "csv")
    assert await body("insert", f"format={name}") == "2\n"


async def test_names_in_csv_are_quoted_where_they_need_it() -> None:
    database = ScriptedDatabase({"q": [rows(**{"max(a, b)": pa.array([1], pa.decimal128(10, 2))})]})
    text = await body("q", "format=csvwithnamesandtypes", database)
    assert text == '"max(a, b)"\r\n"Decimal(10, 2)"\r\n1.00\r\n'
    assert await body("select", "format=csv&limit=1") == "h1,2023-11-14 22:13:20.000,0.5\r\n"


async def test_a_table_is_as_wide_as_its_cells_and_names() -> None:
    assert await body("select", "format=table") == (
        "┌─host───┬─ts────────────────────────┬─cpu────┐\n"
        '│ "h1"   │ "2023-11-14 22:13:20.000" │ 0.5    │\n'
        '│ "h\\"2" │ "2023-11-14 22:13:20.999" │ null   │\n'
        "│ null   │ null                      │ 1024.0 │\n"
        "└────────┴───────────────────────────┴────────┘\n"
    )
    assert await body("none", "format=table") == "┌─a─┐\n└───┘\n"
    assert await body("insert", "format=table") == "2\n"
    assert headers_of(await ask("select", "format=table")) == ("text/plain; charset=utf-8", "table", "table")
    assert (await body("select", "format=table&limit=1")).count("\n") == 3


async def test_a_table_that_is_too_large_to_be_laid_out_is_refused() -> None:
    records = MadeRecords(pa.record_batch({"n": list(range(100))}), 1000)
    answer = await ask("q", "format=table", ScriptedDatabase({"q": [records]}), table_bytes_max=1000)
    assert (answer.status, answer.json()["code"]) == (400, 1004)
    assert "too many for the format table" in answer.json()["error"]
    assert records.made == 2
    assert records.closed.is_set()


@pytest.mark.parametrize(
    ("query", "header", "line"),
    [
        ("format=csv", "Asia/Kolkata", "2023-11-15 03:43:20.999,2020-01-01,01:02:03"),
        ("format=csv", "+08:00", "2023-11-15 06:13:20.999,2020-01-01,01:02:03"),
        ("format=csv&epoch=ms", "+08:00", "1700000000999,18262,3723"),
        ("format=csv&epoch=s", "UTC", "1700000000,18262,3723"),
        ("format=csv&epoch=ns", "UTC", "1700000000999000000,18262,3723"),
    ],
)
async def test_times_in_csv_are_text_in_the_zone_of_the_session_or_an_epoch(query: str, header: str, line: str) -> None:
    records = rows(
        ts=pa.array([1_700_000_000_999], pa.timestamp("ms")),
        d=pa.array([18262], pa.date32()),
        t=pa.array([3723], pa.time32("s")),
    )
    answer = await ask("q", query, ScriptedDatabase({"q": [records]}), zone=header)
    assert answer.body.decode() == f"{line}\r\n"


async def test_a_time_before_1970_is_rounded_down_and_one_too_far_away_stays_a_number() -> None:
    records = rows(ts=pa.array([-1, None, 9_000_000_000_000_000_000], pa.timestamp("ms")))
    database = ScriptedDatabase({"q": [records]})
    assert (await body("q", "format=csv", database)).split() == [
        "1969-12-31",
        "23:59:59.999",
        '""',
        "9000000000000000000",
    ]
    assert (await body("q", "format=csv&epoch=s", database)).split() == ["-1", '""', "9000000000000000"]
    assert (await ask("q", "format=csv&epoch=ns", database)).status == 400


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("format=foo", "tsdb_v1, greptimedb_v1, influxdb_v1, csv"),
        ("format=influxdb_v1&epoch=fortnight", "ns, u, us, µ, ms, s"),
        ("format=arrow&compression=rar", "zstd, lz4"),
    ],
)
async def test_an_unknown_value_of_a_parameter_is_an_error_that_lists_the_known_ones(query: str, known: str) -> None:
    answer = await ask("select", query)
    assert answer.status == 400
    assert known in answer.json()["error"]


async def test_null_counts() -> None:
    assert re.fullmatch(r"3 rows in set\.\nElapsed: \d+\.\d{3} sec\.\n", await body("select", "format=null&limit=1"))
    assert re.fullmatch(r"2 rows affected\.\nElapsed: \d+\.\d{3} sec\.\n", await body("insert", "format=null"))
    assert headers_of(await ask("select", "format=null")) == ("text/plain; charset=utf-8", "null", "null")


# arrow


@pytest.mark.parametrize("compression", ["", "compression=zstd", "compression=LZ4"])
async def test_arrow_is_a_stream_that_arrow_reads(compression: str) -> None:
    answer = await ask("select", f"format=arrow&limit=1&{compression}")
    assert headers_of(answer) == ("application/arrow", "arrow", "arrow")
    with pa.ipc.open_stream(answer.body) as reader:
        found = reader.read_all()
    assert found.schema == pa.table(SAMPLE).schema
    # Text, because NaN does not equal itself.
    assert str(found.to_pylist()) == str(pa.table(SAMPLE).to_pylist())


async def test_compressed_arrow_is_smaller() -> None:
    database = ScriptedDatabase({"q": [rows(n=pa.array([7] * 10_000))]})
    sizes = [len((await ask("q", f"format=arrow&compression={name}", database)).body) for name in ("", "zstd", "lz4")]
    assert sizes[0] > 80_000
    assert max(sizes[1:]) < 5000


async def test_arrow_sends_large_batches_in_parts_and_nothing_for_affected_rows() -> None:
    database = ScriptedDatabase({"q": [rows(n=pa.array(range(70_000)))]})
    with pa.ipc.open_stream((await ask("q", "format=arrow", database)).body) as reader:
        assert [batch.num_rows for batch in reader] == [65_536, 4464]
    assert (await ask("insert", "format=arrow")).body == b""
    with pa.ipc.open_stream((await ask("none", "format=arrow")).body) as reader:
        assert reader.schema.names == ["a"]
        assert reader.read_all().num_rows == 0


@pytest.mark.parametrize("name", ["csv", "csvwithnames", "table", "arrow", "json", "null"])
async def test_the_number_of_affected_rows_is_in_a_header_of_formats_for_one_answer(name: str) -> None:
    database = make_database()
    database.answers["delete"] = [Affected(12)]
    assert (await ask("delete", f"format={name}", database)).headers["x-tsdb-affected-rows"] == "12"
    assert "x-tsdb-affected-rows" not in (await ask("select", f"format={name}", database)).headers


# Several statements


@pytest.mark.parametrize("name", ["csv", "csvwithnames", "table", "arrow", "json", "null"])
async def test_a_format_for_one_answer_refuses_several_statements_before_they_run(name: str) -> None:
    database = make_database()
    answer = await ask("select; select", f"format={name}", database)
    shown = "csv" if name.startswith("csv") else name
    assert answer.status == 400
    assert answer.json()["code"] == 1004
    assert answer.json()["error"] == f"cannot output multi-statements result in {shown} format"
    assert not database.sessions
    database.answers["select 1;"] = [rows(n=[1])]
    assert (await ask("select 1;", f"format={name}", database)).status == 200


AWKWARD = ["a\nb", "a\r\nb", 'say "x", then\n', ",", '"', ""]


async def test_csv_of_awkward_texts_is_read_back_by_python() -> None:
    database = ScriptedDatabase({"q": [rows(s=pa.array(AWKWARD), n=pa.array(range(len(AWKWARD))))]})
    found = csv.reader(io.StringIO(await body("q", "format=csvwithnames", database), newline=""), strict=True)
    assert list(found) == [["s", "n"], *([text, str(number)] for number, text in enumerate(AWKWARD))]


async def test_a_line_break_does_not_break_the_line_of_a_table() -> None:
    shown = await body("q", "format=table", ScriptedDatabase({"q": [rows(s=['"x", then\nleave'])]}))
    assert shown.splitlines()[1:-1] == ['│ "\\"x\\", then\\nleave" │']
