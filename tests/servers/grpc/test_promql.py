"""The PromQL gateway: what Prometheus would answer, in its JSON."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from tests.servers.grpc.running import RunningServer, trailer
from tests.servers.grpc.test_database import HOST, insert, rows, schema
from tsdb.servers.grpc.proto import greptime_pb2 as v1

METHOD = "greptime.v1.PrometheusGateway/Handle"


@pytest.fixture(scope="module")
def asked(served: RunningServer) -> RunningServer:
    columns = [
        HOST,
        schema("tsdb_timestamp", v1.TIMESTAMP_MILLISECOND, v1.TIMESTAMP),
        schema("tsdb_value", v1.FLOAT64),
    ]
    lines = [["a", second * 1000, float(second)] for second in range(0, 100, 10)]
    served.handle(insert(rows("up", columns, *lines)))
    return served


def ask(running: RunningServer, **query: Any) -> Any:
    raw = running.call(METHOD, v1.PromqlRequest(**query).SerializeToString())
    answer = v1.PromqlResponse.FromString(raw)
    assert answer.header.status.status_code == 0
    return json.loads(answer.body)


def test_a_query_at_a_time_is_a_vector(asked: RunningServer) -> None:
    answer = ask(asked, instant_query=v1.PromInstantQuery(query="up", time="50"))
    assert answer["status"] == "success"
    assert answer["data"]["resultType"] == "vector"
    (series,) = answer["data"]["result"]
    assert series == {"metric": {"__name__": "up", "host": "a"}, "value": [50, "50"]}


def test_a_query_over_a_range_is_a_matrix(asked: RunningServer) -> None:
    query = v1.PromRangeQuery(query="sum(up)", start="0", end="20", step="10s")
    answer = ask(asked, range_query=query)
    assert answer["data"]["resultType"] == "matrix"
    assert answer["data"]["result"] == [{"metric": {}, "values": [[0, "0"], [10, "10"], [20, "20"]]}]


def test_lookback_limits_how_old_a_sample_may_be(asked: RunningServer) -> None:
    late = v1.PromInstantQuery(query="up", time="150", lookback="30s")
    assert ask(asked, instant_query=late)["data"]["result"] == []
    late.lookback = "2m"
    assert len(ask(asked, instant_query=late)["data"]["result"]) == 1


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ({"instant_query": v1.PromInstantQuery(query="up{")}, "bad_data"),
        ({"instant_query": v1.PromInstantQuery(query="up", time="x")}, "bad_data"),
        ({"range_query": v1.PromRangeQuery(query="up", start="1", end="2")}, "bad_data"),
        ({"range_query": v1.PromRangeQuery(query="up", start="2", end="1", step="1")}, "bad_data"),
        ({"range_query": v1.PromRangeQuery(query="up", start="0", end="1e9", step="1")}, "bad_data"),
        ({}, "bad_data"),
    ],
)
def test_what_is_wrong_with_a_query_is_told_in_the_json(asked: RunningServer, query: dict[str, Any], kind: str) -> None:
    answer = ask(asked, **query)
    assert (answer["status"], answer["errorType"]) == ("error", kind)
    assert answer["error"]


def test_too_many_queries_at_the_same_time_may_be_tried_again(asked: RunningServer) -> None:
    budget = asked.database.promql._budget
    budget.take(budget.samples_max)
    try:
        with pytest.raises(grpc.RpcError) as caught:
            ask(asked, instant_query=v1.PromInstantQuery(query="up", time="50"))
    finally:
        budget.give(budget.samples_max)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert trailer(caught.value, "x-greptime-err-retry-hint") == "retryable"
