"""The shortest way through every ingestion protocol: what is sent to a running server, and what it then shows."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.ingest.prometheus_messages import Series, write_request
from tests.server_process import ServerProcess, running

STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("acceptance")) as started:
        yield started


def _sql(server: ServerProcess, text: str) -> Any:
    """Return the rows of a statement, or its number of affected rows."""
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=10)
    assert answer.status_code == 200, answer.text
    output = answer.json()["output"][0]
    return output["affectedrows"] if "affectedrows" in output else output["records"]["rows"]


def _lines(server: ServerProcess, lines: str) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/influxdb/write?db=public", content=lines, timeout=10)


def _samples(server: ServerProcess, *series: Series) -> int:
    body = pa.compress(write_request(series).SerializeToString(), codec="snappy", asbytes=True)
    headers = {"content-encoding": "snappy", "content-type": "application/x-protobuf"}
    return httpx.post(f"{server.url}/v1/prometheus/write", content=body, headers=headers, timeout=10).status_code


def _query(server: ServerProcess, path: str, **parameters: str) -> Any:
    answer = httpx.get(f"{server.url}/v1/prometheus/api/v1/{path}", params=parameters, timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_line_makes_a_table_and_a_new_field_widens_it(server: ServerProcess) -> None:
    assert _lines(server, 'm,host=a v=1.5,i=2i,b=t,s="x" 1700000000000000000').status_code == 204
    described = [row[:3] + row[5:] for row in _sql(server, "DESC TABLE m")]
    assert described == [
        ["host", "String", "PRI", "TAG"],
        ["v", "Float64", "", "FIELD"],
        ["i", "Int64", "", "FIELD"],
        ["b", "Boolean", "", "FIELD"],
        ["s", "String", "", "FIELD"],
        ["tsdb_timestamp", "TimestampNanosecond", "PRI", "TIMESTAMP"],
    ]
    assert _lines(server, "m,host=a n=1u 1700000000000000000").status_code == 204
    assert [row[:2] for row in _sql(server, "DESC TABLE m")][-1] == ["n", "UInt64"]
    rows = _sql(server, "SELECT * FROM m")
    assert rows == [["a", 1.5, 2, True, "x", 1_700_000_000_000_000_000, 1]]


def test_a_value_that_its_column_cannot_hold_is_refused_and_nothing_changes(server: ServerProcess) -> None:
    assert _lines(server, "typed,host=a v=1.5,i=1i 1").status_code == 204
    before = _sql(server, "DESC TABLE typed")
    answer = _lines(server, 'typed,host=b extra=1 1\ntyped,host=b v="text" 1')
    assert answer.status_code == 400
    assert "column v of table typed has the type Float64, the request has String" in answer.json()["error"]
    assert _lines(server, "typed,host=b i=1.5 1").status_code == 400
    assert _sql(server, "DESC TABLE typed") == before
    assert _sql(server, "SELECT host FROM typed") == [["a"]]


def test_samples_make_logical_tables_that_promql_sees(server: ServerProcess) -> None:
    _sql(server, "CREATE DATABASE idc3")
    one: Series = ([("__name__", "p_one"), ("host", "a")], [(NOW, 1.0)])
    two: Series = ([("__name__", "p_two"), ("host", "a")], [(NOW, 2.0)])
    routed: Series = ([("__name__", "p_routed"), ("__database__", "idc3")], [(NOW, 3.0)])
    assert _samples(server, one, two, routed) == 204
    tables = {name for (name,) in _sql(server, "SHOW TABLES")}
    assert {"p_one", "p_two", "tsdb_physical_table"} <= tables
    assert "p_routed" not in tables
    assert _sql(server, "SELECT tsdb_value FROM idc3.p_routed") == [[3.0]]
    found = _query(server, "query", query="p_one", time=str(NOW / 1000))
    assert found == {
        "resultType": "vector",
        "result": [{"metric": {"__name__": "p_one", "host": "a"}, "value": [NOW / 1000, "1"]}],
    }
    names = _query(server, "label/__name__/values")
    assert {"p_one", "p_two"} <= set(names)
    assert "tsdb_physical_table" not in names


def test_nan_and_the_marker_of_staleness_are_told_apart(server: ServerProcess) -> None:
    series: list[Series] = [
        ([("__name__", "p_nan"), ("kind", kind)], [(NOW, 1.0), (NOW + 1000, value)])
        for kind, value in (("nan", float("nan")), ("stale", STALE))
    ]
    assert _samples(server, *series) == 204
    text = f"SELECT kind, tsdb_value FROM p_nan WHERE tsdb_timestamp = {NOW + 1000} ORDER BY kind"
    assert _sql(server, text) == [["nan", None], ["stale", None]]
    found = _query(server, "query", query="p_nan", time=str(NOW / 1000 + 1))["result"]
    assert [(each["metric"]["kind"], each["value"][1]) for each in found] == [("nan", "NaN")]


def test_a_line_by_telnet_is_taken_in_silence_and_a_wrong_one_is_answered(server: ServerProcess) -> None:
    address = re.search(r"^  OpenTSDB +(\S+):(\d+)$", server.output, flags=re.MULTILINE)
    assert address is not None
    with socket.create_connection((address[1], int(address[2])), timeout=10) as connection:
        connection.sendall(b"put x 1667898896 1 h=a\nput x\nquit\n")
        said = b"".join(iter(lambda: connection.recv(1000), b""))
    reason = b"Invalid query: put: illegal argument: not enough arguments (need least 4, got 2)\r\n"
    assert said == reason
    assert _sql(server, "SELECT h, tsdb_value, tsdb_timestamp FROM x") == [["a", 1.0, 1_667_898_896_000]]


def test_rows_of_a_statement_are_counted_and_a_missing_value_stays_missing(server: ServerProcess) -> None:
    _sql(
        server,
        "CREATE TABLE sensor_data (device_id STRING, ts TIMESTAMP(3) TIME INDEX, temperature DOUBLE, "
        "PRIMARY KEY (device_id))",
    )
    text = f"INSERT INTO sensor_data (device_id, ts, temperature) VALUES ('d1', {NOW}, 23.5), ('d2', {NOW + 1}, NULL)"
    assert _sql(server, text) == 2
    rows = _sql(server, "SELECT device_id, temperature FROM sensor_data ORDER BY device_id")
    assert rows == [["d1", 23.5], ["d2", None]]
