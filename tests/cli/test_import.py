"""`tsdb import` from files and servers, against a real server."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.clients import sql, tsdb
from tests.server_process import ServerProcess


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_types_of_csv_come_from_the_values(server: ServerProcess, tmp_path: Path) -> None:
    text = (
        "host,ts,usage,count,ok,day,note\n"
        'a,2024-01-01T00:00:00.123456789Z,0.5,1,true,2024-02-29,"two\nlines, ""quoted"""\n'
        "b,2024-01-01 00:00:01,nan,2,false,2024-03-01,\n"
        'c,2024-01-01 00:00:02+02:00,,,,,""\n'
    )
    result = tsdb(server, "import", _write(tmp_path / "typed.csv", text), "--tags", "host")
    assert result.exit_code == 0, result.stderr
    assert "typed.csv: 3 rows" in result.stderr
    kinds = {row[0]: row[1] for row in sql(server, "DESC typed")}
    assert kinds == {
        "host": "String", "ts": "TimestampNanosecond", "usage": "Float64", "count": "Int64", "ok": "Boolean",
        "day": "Date", "note": "String",
    }  # fmt: skip
    rows = sql(server, "SELECT host, ts, count, ok, day, note FROM typed ORDER BY host")
    assert rows[0] == ["a", 1704067200123456789, 1, True, 19782, 'two\nlines, "quoted"']
    assert rows[1][5] is None
    assert rows[2] == ["c", 1704060002000000000, None, None, None, ""]
    assert sql(server, "SELECT count(*) FROM typed WHERE isnan(usage)") == [[1]]


def test_time_formats_and_zones_are_explicit(server: ServerProcess, tmp_path: Path) -> None:
    numbers = _write(tmp_path / "counts.csv", "k,t,v\na,1700000000.250,1\n")
    refused = tsdb(server, "import", numbers, "--tags", "k", "--time-column", "t")
    assert refused.exit_code == 1
    assert "the time column t holds numbers; pass the unit: --time-format s, ms, us or ns" in refused.stderr
    assert tsdb(server, "import", numbers, "--tags", "k", "--time-column", "t", "--time-format", "s",
                "--types", "t:timestamp(3)").exit_code == 0  # fmt: skip
    assert sql(server, "SELECT t FROM counts") == [[1700000000250]]
    assert tsdb(server, "import", numbers, "--tags", "k", "--time-column", "t", "--time-format", "s",
                "--table", "parts").exit_code == 0  # fmt: skip
    assert sql(server, "SELECT t FROM parts") == [[1700000000_250000000]], "a fraction is kept without --types"
    local = _write(tmp_path / "local.csv", "k,ts\na,2024-07-01 12:00:00\nb,2024-07-01T12:00:00Z\n")
    assert tsdb(server, "import", local, "--tags", "k", "--time-zone", "Europe/Berlin").exit_code == 0
    assert sql(server, "SELECT k, ts FROM local ORDER BY k") == [
        ["a", 1719828000_000000000], ["b", 1719835200_000000000]
    ]  # fmt: skip
    minutes = "a,2024-07-01 12:00\nb,2024-07-01T12:00Z\nc,2024-07-01 12:00 +0200\nd,2024-07-01 12:00:30\n"
    short = _write(tmp_path / "short.csv", "k,ts\n" + minutes)
    assert tsdb(server, "import", short, "--tags", "k", "--time-zone", "Europe/Berlin").exit_code == 0
    assert sql(server, "SELECT k, ts FROM short ORDER BY k") == [
        ["a", 1719828000_000000000], ["b", 1719835200_000000000], ["c", 1719828000_000000000],
        ["d", 1719828030_000000000],
    ]  # fmt: skip
    german = _write(tmp_path / "german.csv", "k;ts;v\na;31.12.2023 23:30:00;1\n")
    options = ("--delimiter", ";", "--time-format", "%d.%m.%Y %H:%M:%S", "--tags", "k", "--types", "ts:timestamp(0)")
    assert tsdb(server, "import", german, *options).exit_code == 0
    assert sql(server, "SELECT ts FROM german") == [[1704065400]]


def test_bad_rows_are_reported_with_their_lines_and_nothing_else_is_lost(server: ServerProcess, tmp_path: Path) -> None:
    text = "host,ts,v\na,2024-01-01,1\nb,2024-01-01,x\n\nc,2024-01-01\nd,never,4\ne,2024-01-01,5\n"
    path = _write(tmp_path / "partly.csv", text)
    options = (path, "--tags", "host", "--types", "v:double")
    stopped = tsdb(server, "import", *options)
    assert stopped.exit_code == 1
    assert "3 rows were rejected, 0 are allowed" in stopped.stderr
    assert stopped.stderr.count("partly.csv:3: ") == 1
    assert sql(server, "SELECT * FROM partly") == []
    allowed = tsdb(server, "import", *options, "--max-errors", "3")
    assert allowed.exit_code == 0
    for message in (
        "partly.csv:3: column v: 'x' is not a Float64",
        "partly.csv:5: expected 3 fields, received 2",
        "partly.csv:6: column ts: 'never' is not a TimestampNanosecond",
        "partly.csv: 2 rows, 3 rejected",
    ):
        assert message in allowed.stderr
    assert sql(server, "SELECT host, v FROM partly ORDER BY host") == [["a", 1.0], ["e", 5.0]]


def test_rows_that_only_the_server_can_refuse_are_found(server: ServerProcess, tmp_path: Path) -> None:
    sql(server, "CREATE TABLE strict (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE NOT NULL)")
    rows = "".join(f"k{number},2024-01-01,{'' if number == 700 else number}\n" for number in range(1000))
    path = _write(tmp_path / "strict.csv", "k,ts,v\n" + rows)
    result = tsdb(server, "import", path, "--max-errors", "1")
    assert result.exit_code == 0, result.stderr
    assert "strict.csv:702: " in result.stderr
    assert sql(server, "SELECT count(*) FROM strict") == [[999]]


def test_columns_must_be_those_of_an_existing_table(server: ServerProcess, tmp_path: Path) -> None:
    sql(server, "CREATE TABLE known (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, value DOUBLE)")
    path = _write(tmp_path / "known.csv", "k,ts,valeu\na,2024-01-01,1\n")
    result = tsdb(server, "import", path)
    assert result.exit_code == 1
    assert "the table known has no column valeu; did you mean value?" in result.stderr
    only = tsdb(server, "import", path, "--columns", "k,ts")
    assert only.exit_code == 0
    assert sql(server, "SELECT k, value FROM known") == [["a", None]]


def test_csv_without_header_from_the_standard_input_and_packed(server: ServerProcess, tmp_path: Path) -> None:
    names = ("--no-header", "--columns", "k,ts,v", "--tags", "k", "--table", "piped")
    result = tsdb(server, "import", "-", "--format", "csv", *names, stdin="a,2024-01-01,1\nb,2024-01-01,2")
    assert result.exit_code == 0, result.stderr
    packed = tmp_path / "more.csv.gz"
    packed.write_bytes(gzip.compress(b"c,2024-01-01,3\n"))
    assert tsdb(server, "import", packed, *names).exit_code == 0
    assert sql(server, "SELECT k, v FROM piped ORDER BY k") == [["a", 1], ["b", 2], ["c", 3]]


def test_json_lines_with_nested_values_and_late_keys(server: ServerProcess, tmp_path: Path) -> None:
    lines = [
        {"id": "a", "ts": "2024-01-01T00:00:00.5Z", "v": 1, "meta": {"x": [1, None]}},
        {"id": "b", "ts": "2024-01-01T00:00:01Z", "v": 2.5, "meta": None},
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "\n[1]\n" + '{"id": "c", "other": 1}\n')
    result = tsdb(server, "import", path, "--tags", "id", "--max-errors", "2", "--types", "note:string")
    assert result.exit_code == 0, result.stderr
    assert "events.jsonl:4: the line is not a JSON object" in result.stderr
    assert "events.jsonl:5: " in result.stderr
    rows = sql(server, "SELECT id, ts, v, meta, note FROM events ORDER BY id")
    assert rows == [
        ["a", 1704067200500000000, 1.0, {"x": [1, None]}, None],
        ["b", 1704067201000000000, 2.5, None, None],
    ]


def test_parquet_keeps_its_types(server: ServerProcess, tmp_path: Path) -> None:
    table = pa.table(
        {
            "host": pa.array(["a", "b", None]).dictionary_encode(),
            "ts": pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")),
            "big": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "price": pa.array(["12.50", None, "-0.01"]).cast(pa.decimal128(10, 2)),
            "raw": pa.array([b"\x00\xff", b"", None]),
        }
    )
    pq.write_table(table, tmp_path / "kept.parquet", row_group_size=2)
    result = tsdb(server, "import", tmp_path / "kept.parquet", "--tags", "host")
    assert result.exit_code == 0, result.stderr
    assert sql(server, "SELECT host, ts, big, price, raw FROM kept ORDER BY ts") == [
        ["a", 1, 2**64 - 1, "12.50", [0, 255]],
        ["b", 2, None, None, []],
        [None, 3, 0, "-0.01", None],
    ]


def test_line_protocol_is_sent_as_it_is_and_bad_lines_are_named(server: ServerProcess, tmp_path: Path) -> None:
    good = '# comment\nlp,h=a v=1i,s="two\nlines" 1700000000\nlp,h=b v=2i 1700000000\n'
    text = good + "lp,h=c v= 1\nlp,h=d v=4i 1700000000\n"
    result = tsdb(server, "import", _write(tmp_path / "x.lp", text), "--precision", "s", "--max-errors", "1")
    assert result.exit_code == 0, result.stderr
    assert "x.lp:5: " in result.stderr
    assert "x.lp: 3 rows, 1 rejected" in result.stderr
    assert sql(server, "SELECT h, v, s FROM lp ORDER BY h") == [["a", 1, "two\nlines"], ["b", 2, None], ["d", 4, None]]


def test_prometheus_text_openmetrics_and_exports_of_victoriametrics(server: ServerProcess, tmp_path: Path) -> None:
    good = 'm{job="a",note="q\\"\\\\\\n"} 1 1700000000000\nm{job="b"} NaN 1700000000000\n'
    prom = good + "# HELP m x\nnot a sample\nplain 5\n"
    result = tsdb(server, "import", _write(tmp_path / "x.prom", prom), "--max-errors", "1")
    assert result.exit_code == 0, result.stderr
    assert "x.prom:4: not a sample" in result.stderr
    assert sql(server, "SELECT job, note, tsdb_timestamp FROM m ORDER BY job") == [
        ["a", 'q"\\\n', 1700000000000], ["b", None, 1700000000000]
    ]  # fmt: skip
    assert sql(server, "SELECT count(*) FROM plain WHERE tsdb_timestamp > now() - INTERVAL '1 hour'") == [[1]]
    openmetrics = 'om_total{a="b"} 3 1700000000.25 # {trace_id="x"} 0.5\nom_total{a="b"} +Inf 1700000001\n# EOF\n'
    assert tsdb(server, "import", _write(tmp_path / "x.om", openmetrics)).exit_code == 0
    assert sql(server, "SELECT tsdb_timestamp FROM om_total ORDER BY 1") == [[1700000000250], [1700000001000]]
    times = (1_700_000_000_000 + np.arange(50_000) * 1000).tolist()
    series = {"metric": {"__name__": "vm", "i": "1"}, "values": [0.5] * 49_999 + ["Infinity"], "timestamps": times}
    bare = '{"metric":{"__name__":"bare","i":"+Inf \\"values\\":[NaN]"},"values":[-Inf,1,+Inf],"timestamps":[1,2,3]}\n'
    path = _write(tmp_path / "vm.jsonl", json.dumps(series) + '\n{"metric":{}}\n' + bare)
    exported = tsdb(server, "import", path, "--format", "victoria", "--max-errors", "1")
    assert exported.exit_code == 0, exported.stderr
    assert "vm.jsonl:2: not a series of /api/v1/export" in exported.stderr
    assert sql(server, "SELECT count(*), max(tsdb_timestamp) FROM vm") == [[50_000, times[-1]]]
    assert sql(server, "SELECT i, CAST(tsdb_value AS STRING) FROM bare ORDER BY tsdb_timestamp") == [
        ['+Inf "values":[NaN]', text] for text in ("-inf", "1.0", "inf")
    ]


def test_metrics_of_another_server_come_by_remote_read(server: ServerProcess, tmp_path: Path) -> None:
    lines = "".join(f'copied{{n="{number % 3}"}} {number} {1700000000000 + number * 60_000}\n' for number in range(900))
    assert tsdb(server, "import", _write(tmp_path / "copied.prom", lines)).exit_code == 0
    sql(server, "CREATE DATABASE copies")
    source = f"{server.url}/v1/prometheus/read"
    span = ("--start", "2023-11-14 22:00:00", "--end", "2023-11-15 22:00:00", "--window", "2h")
    options = ("--from-prometheus", source, "--match", 'copied{n!="2"}', *span, "-d", "copies")
    result = tsdb(server, "import", *options)
    assert result.exit_code == 0, result.stderr
    query = "SELECT n, count(*), sum(tsdb_value) FROM copied WHERE n != '2' GROUP BY n ORDER BY n"
    assert sql(server, query, "copies") == sql(server, query)
    assert sql(server, "SELECT count(*) FROM copied", "copies") == [[600]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.csv",), "nowhere.csv cannot be read: no such file"),
        (("pyproject.toml",), "the format of pyproject.toml cannot be inferred from its name; pass --format"),
        ((), "there is nothing to import"),
        (("-", "--format", "csv"), "pass --table for rows from standard input"),
        (("README.md", "--format", "csv", "--time-zone", "Mars"), "Mars"),
        (("README.md", "--format", "csv", "--types", "a:colour"), "'colour' is not a column type"),
        (("README.md", "--format", "parquet"), "README.md cannot be read as Parquet"),
        (("--from-prometheus", "http://127.0.0.1:1", "--start", "5", "--end", "4"), "--start must lie before --end"),
        (("x.lp", "-d", "nowhere"), "4004"),
    ],
)
def test_wrong_use_changes_nothing(server: ServerProcess, arguments: tuple[str, ...], message: str) -> None:
    before = sql(server, "SHOW TABLES")
    result = tsdb(server, "import", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert sql(server, "SHOW TABLES") == before
