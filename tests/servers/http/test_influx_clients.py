"""The clients of InfluxDB 1 and 2 against a running server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from influxdb import InfluxDBClient as ClientOfVersion1
from influxdb.exceptions import InfluxDBClientError
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

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
