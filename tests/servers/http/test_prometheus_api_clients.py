"""Prometheus' HTTP API with the client library `prometheus-api-client`, against a server of its own process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import prometheus_api_client as client_library
import pyarrow as pa
import pytest

from tests.ingest.prometheus_messages import write_request
from tests.server_process import ServerProcess, running

NOW = int(time.time())
ZONES = ("eu", "us")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", Path(tmp_path_factory.mktemp("server"))) as server:
        series = [
            ([("__name__", "hits_total"), ("zone", zone)], [((NOW - 600 + 60 * i) * 1000, i * rate) for i in range(11)])
            for rate, zone in enumerate(ZONES, start=1)
        ]
        body = pa.compress(write_request(series).SerializeToString(), codec="snappy", asbytes=True)
        headers = {"content-encoding": "snappy"}
        httpx.post(f"{server.url}/v1/prometheus/write", content=body, headers=headers, timeout=10).raise_for_status()
        yield server


@pytest.fixture(params=["GET", "POST"])
def prometheus(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Any]:
    with client_library.PrometheusConnect(url=f"{server.url}/v1/prometheus", method=request.param, timeout=10) as found:
        yield found


def test_the_server_is_there_and_tells_its_metrics(prometheus: Any) -> None:
    assert prometheus.check_prometheus_connection()
    assert prometheus.all_metrics() == ["hits_total"]
    assert prometheus.get_label_names() == ["__name__", "zone"]
    assert prometheus.get_label_values("zone") == list(ZONES)
    assert prometheus.get_metric_metadata("hits_total")[0]["metric_name"] == "hits_total"
    start, end = datetime.fromtimestamp(NOW - 60, UTC), datetime.fromtimestamp(NOW, UTC)
    series = prometheus.get_series(start, end, params={"match[]": "hits_total"})
    assert series == [{"__name__": "hits_total", "zone": zone} for zone in ZONES]


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_values_are_read_now_and_over_time(prometheus: Any) -> None:
    found = prometheus.get_current_metric_value("hits_total", label_config={"zone": "us"}, params={"time": NOW})
    assert [each["value"] for each in found] == [[NOW, "20"]]
    start, end = datetime.fromtimestamp(NOW - 601, UTC), datetime.fromtimestamp(NOW, UTC)
    pieces = prometheus.get_metric_range_data(
        "hits_total", label_config={"zone": "us"}, start_time=start, end_time=end, chunk_size=timedelta(seconds=601)
    )
    assert [int(value) for _, value in pieces[0]["values"]] == list(range(0, 22, 2))
    data = client_library.MetricRangeDataFrame(pieces)
    assert list(data["value"]) == list(range(0, 22, 2))


def test_queries_are_answered(prometheus: Any) -> None:
    found = prometheus.custom_query("sum(increase(hits_total[10m]))", params={"time": NOW})
    assert float(found[0]["value"][1]) == pytest.approx(30)
    start, end = datetime.fromtimestamp(NOW - 120, UTC), datetime.fromtimestamp(NOW, UTC)
    rows = prometheus.custom_query_range("sum by (zone) (hits_total)", start, end, "60s")
    assert [[value for _, value in row["values"]] for row in rows] == [["8", "9", "10"], ["16", "18", "20"]]
    found = prometheus.get_metric_aggregation("hits_total", ["max", "average"], start, end, "60s")
    assert (found["max"], found["average"]) == (20, 13.5)
    metrics = client_library.MetricsList(rows)
    assert {metric.label_config["zone"] for metric in metrics} == set(ZONES)


def test_nothing_is_scraped(prometheus: Any) -> None:
    assert prometheus.get_targets() == {"activeTargets": [], "droppedTargets": []}
    assert prometheus.get_scrape_pools() == []
    assert prometheus.get_target_metadata({"job": "x"}) == []


def test_wrong_queries_are_refused_with_their_reason(prometheus: Any) -> None:
    with pytest.raises(client_library.PrometheusApiClientException, match="parse error"):
        prometheus.custom_query("sum(")
