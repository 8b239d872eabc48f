"""The clients of InfluxDB 1, 2 and 3 and of QuestDB against a running server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pandas as pd
import pytest
from influxdb import InfluxDBClient as ClientOfVersion1
from influxdb.exceptions import InfluxDBClientError
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from influxdb_client_3 import SYNCHRONOUS as WRITE_AT_ONCE
from influxdb_client_3 import InfluxDBClient3, write_client_options
from influxdb_client_3.exceptions import InfluxDB3ClientQueryError
from questdb import Sender as QuestSender
from questdb import TimestampNanos

from tests.server_process import ServerProcess, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("influx")
    with running("standalone", directory) as process:
        process.wait_ready()
        yield process


def rows(server: ServerProcess, sql: str) -> object:
    answer = httpx.get(f"{server.url}/v1/sql", params={"sql": sql}, timeout=10).json()
    return answer["output"][0]["records"]["rows"]


def test_the_client_of_version_1_pings_and_writes(server: ServerProcess) -> None:
    address = urlsplit(server.url)
    client = ClientOfVersion1(
        host=address.hostname, port=address.port, path="v1/influxdb", database="public", gzip=True
    )
    assert client.ping().startswith("1.8")
    points = [
        {
            "measurement": "one",
            "tags": {"host": "a b"},
            "time": 1,
            "fields": {"v": 1.5, "n": 7, "s": 'say "x"', "b": True},
        }
    ]
    assert client.write_points(points)
    assert rows(server, "SELECT host, v, n, s, b FROM one") == [["a b", 1.5, 7, 'say "x"', True]]
    assert client.write_points(points, time_precision="ms")
    with pytest.raises(InfluxDBClientError, match="has the type Float64, the request has String"):
        client.write_points([{"measurement": "one", "tags": {"host": "a"}, "time": 1, "fields": {"v": "x"}}])
    client.close()


@pytest.mark.filterwarnings("ignore:This method is deprecated:DeprecationWarning")
def test_the_client_of_version_2_asks_for_health_and_writes(server: ServerProcess) -> None:
    with InfluxDBClient(url=f"{server.url}/v1/influxdb", token="u:p", org="o", enable_gzip=True) as client:
        assert client.ping()
        assert client.health().status == "pass"
        with client.write_api(write_options=SYNCHRONOUS) as write:
            point = Point("two").tag("host", "a").field("v", 2.5).field("n", 3).time(5, WritePrecision.S)
            write.write(bucket="public", record=[point], write_precision=WritePrecision.S)
            with pytest.raises(ApiException, match="Database not found"):
                write.write(bucket="nowhere", record=[point])
    assert rows(server, "SELECT host, v, n, tsdb_timestamp FROM two") == [["a", 2.5, 3, 5_000_000_000]]


@pytest.mark.parametrize("uses_v2", [False, True], ids=["v3", "v2"])
def test_the_client_of_version_3_writes_at_the_root_and_queries(server: ServerProcess, uses_v2: bool) -> None:
    table = f"three_{uses_v2}".lower()
    with InfluxDBClient3(
        host=server.url,
        token="any",
        database="public",
        query_port_overwrite=server.port_of("gRPC"),
        write_client_options=write_client_options(write_options=WRITE_AT_ONCE),
        write_use_v2_api=uses_v2,
    ) as client:
        client.write(f"{table},host=a v=1.5,n=7i 1700000000000000000")
        client.write([f"{table},host=b v=2.5 1700000000"], write_precision="s")
        answer = client.query(f"SELECT host, v, n FROM {table} ORDER BY host")
        assert answer.to_pylist() == [{"host": "a", "v": 1.5, "n": 7}, {"host": "b", "v": 2.5, "n": None}]
        named = client.query(f"SELECT v FROM {table} WHERE host = $host", query_parameters={"host": "b"})
        assert named.to_pylist() == [{"v": 2.5}]
        assert client.query(f"SELECT count(*) AS c FROM {table}", mode="pandas")["c"].tolist() == [2]
        for wrong in ("SELECT * FROM nowhere", "SELECT $x"):
            with pytest.raises(InfluxDB3ClientQueryError):
                client.query(wrong)
        with pytest.raises(InfluxDB3ClientQueryError, match="influxql"):
            client.query("SHOW MEASUREMENTS", language="influxql")


def test_the_sender_of_questdb_writes(server: ServerProcess) -> None:
    address = urlsplit(server.url).netloc
    with QuestSender.from_conf(f"http::addr={address};") as sender:
        at = TimestampNanos(1_700_000_000_000_000_000)
        sender.row("quest", symbols={"host": "a"}, columns={"v": 1.5, "n": 7, "s": "x y", "b": True}, at=at)
        sender.flush()
        sender.dataframe(
            pd.DataFrame({"host": ["b"], "v": [2.5], "ts": pd.to_datetime([1_700_000_001], unit="s")}),
            table_name="quest",
            symbols=["host"],
            at="ts",
        )
    assert rows(server, "SELECT host, v, n, s, b FROM quest ORDER BY host") == [
        ["a", 1.5, 7, "x y", True],
        ["b", 2.5, None, None, None],
    ]


@pytest.mark.parametrize(
    ("number", "expected_ms"),
    [
        (1_700_000_000, 1_700_000_000_000),
        (1_700_000_000_123, 1_700_000_000_123),
        (1_700_000_000_123_456, 1_700_000_000_123),
    ],
)
def test_version_3_tells_the_unit_of_times_by_their_size(server: ServerProcess, number: int, expected_ms: int) -> None:
    table = f"auto{number}"
    answer = httpx.post(
        f"{server.url}/api/v3/write_lp", params={"db": "public", "precision": "auto"}, content=f"{table} v=1 {number}"
    )
    assert answer.status_code == 204, answer.text
    assert rows(server, f"SELECT tsdb_timestamp::BIGINT / 1000000 FROM {table}") == [[expected_ms]]


def test_paths_of_other_products_can_be_switched_off(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__HTTP__COMPAT_PATHS": "false"}) as process:
        for path in ("/write", "/api/v2/write", "/api/v3/write_lp", "/api/put", "/v1/metrics"):
            assert httpx.post(process.url + path, content=b"m v=1").status_code == 404
        assert httpx.post(process.url + "/v1/influxdb/write", content=b"m v=1").status_code == 204
