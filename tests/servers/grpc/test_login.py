"""Who may call what: every service with no, wrong, right, malformed and unknown credentials, and half the rights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.servers.grpc.running import USERS, RunningServer, basic, running_server, trailer
from tests.servers.grpc.test_database import HOST, TS, insert, rows, sql
from tsdb.servers.grpc.proto import greptime_pb2 as v1

WRITE = insert(rows("t", [HOST, TS], ["a", 1])).SerializeToString()
METHODS = {
    "greptime.v1.GreptimeDatabase/Handle": WRITE,
    "greptime.v1.GreptimeDatabase/HandleRequests": WRITE,
    "greptime.v1.PrometheusGateway/Handle": v1.PromqlRequest(
        instant_query=v1.PromInstantQuery(query="1", time="1")
    ).SerializeToString(),
    "opentelemetry.proto.collector.metrics.v1.MetricsService/Export": ExportMetricsServiceRequest().SerializeToString(),
    "opentelemetry.proto.collector.trace.v1.TraceService/Export": ExportTraceServiceRequest().SerializeToString(),
    "opentelemetry.proto.collector.logs.v1.LogsService/Export": ExportLogsServiceRequest().SerializeToString(),
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo": b":\x00",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": b":\x00",
}

_UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
REFUSED: list[tuple[str, dict[str, str], grpc.StatusCode, str]] = [
    ("none", {}, _UNAUTHENTICATED, "7003"),
    ("wrong", {"authorization": basic("u1", "wrong")}, _UNAUTHENTICATED, "7002"),
    ("unknown", {"authorization": basic("nobody", "p1")}, _UNAUTHENTICATED, "7002"),
    ("blank", {"authorization": basic("u1", "")}, grpc.StatusCode.INVALID_ARGUMENT, "1004"),
    ("not base64", {"authorization": "Basic !!!"}, _UNAUTHENTICATED, "7004"),
    ("no colon", {"authorization": "Basic dTE="}, _UNAUTHENTICATED, "7004"),
    ("scheme", {"authorization": "Digest dTE6cDE="}, _UNAUTHENTICATED, "7004"),
    ("bearer", {"authorization": "Bearer dTE6cDE="}, _UNAUTHENTICATED, "7001"),
    ("bearer with a wrong password", {"authorization": "Bearer u1:wrong"}, _UNAUTHENTICATED, "7002"),
    ("own header", {"x-greptime-auth": basic("u1", "wrong")}, _UNAUTHENTICATED, "7002"),
]


@pytest.fixture
def fresh(tmp_path: Path) -> RunningServer:
    """A server that has seen no failed logins yet."""
    with running_server(tmp_path / "fresh", users=USERS) as running:
        yield running  # type: ignore[misc]


@pytest.mark.parametrize("method", METHODS)
def test_every_service_refuses_credentials_that_prove_nothing(fresh: RunningServer, method: str) -> None:
    for name, metadata, code, number in REFUSED:
        with pytest.raises(grpc.RpcError) as caught:
            fresh.call(method, METHODS[method], metadata=list(metadata.items()))
        assert (name, caught.value.code(), trailer(caught.value, "x-greptime-err-code")) == (name, code, number)
    assert fresh.sql("SHOW TABLES LIKE 't'") == []


@pytest.mark.parametrize("key", ["authorization", "x-greptime-auth", "x-tsdb-auth"])
@pytest.mark.parametrize("method", METHODS)
def test_every_service_lets_in_who_has_the_right_password(guarded: RunningServer, method: str, key: str) -> None:
    guarded.call(method, METHODS[method], metadata=[(key, basic("u1", "p1"))])


def with_auth(**auth: object) -> v1.GreptimeRequest:
    request = v1.GreptimeRequest.FromString(WRITE)
    request.header.authorization.CopyFrom(v1.AuthHeader(**auth))
    return request


@pytest.mark.parametrize(
    ("request_", "code", "number"),
    [
        (with_auth(basic=v1.Basic(username="u1", password="no")), _UNAUTHENTICATED, "7002"),
        (with_auth(basic=v1.Basic(username="nobody", password="p1")), _UNAUTHENTICATED, "7002"),
        (with_auth(basic=v1.Basic()), grpc.StatusCode.INVALID_ARGUMENT, "1004"),
        (with_auth(token=v1.Token(token="x")), _UNAUTHENTICATED, "7001"),
        (with_auth(), _UNAUTHENTICATED, "7003"),
    ],
)
def test_credentials_in_the_message_count_before_those_in_the_metadata(
    fresh: RunningServer, request_: v1.GreptimeRequest, code: grpc.StatusCode, number: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        fresh.handle(request_, metadata=[("authorization", basic("u1", "p1"))])
    assert (caught.value.code(), trailer(caught.value, "x-greptime-err-code")) == (code, number)


def test_the_message_of_a_stream_that_proves_nothing_ends_it(guarded: RunningServer) -> None:
    good = with_auth(basic=v1.Basic(username="u1", password="p1")).SerializeToString()
    with guarded.channel() as channel:
        send = channel.stream_unary("/greptime.v1.GreptimeDatabase/HandleRequests")
        assert v1.GreptimeResponse.FromString(send(iter([good, good]), timeout=20)).affected_rows.value == 2
        with pytest.raises(grpc.RpcError) as caught:
            send(iter([good, WRITE]), timeout=20)
        assert caught.value.code() is _UNAUTHENTICATED


def as_user(running: RunningServer, user: str) -> Callable[[v1.GreptimeRequest], int]:
    return lambda request: running.handle(request, metadata=[("authorization", basic(user, "p"))])


def test_who_may_only_read_cannot_write_and_who_may_only_write_cannot_read(guarded: RunningServer) -> None:
    guarded.sql("CREATE TABLE IF NOT EXISTS t (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX)")
    delete = v1.RowDeleteRequests(
        deletes=[
            v1.RowDeleteRequest(
                table_name="t", rows=insert(rows("t", [HOST, TS], ["zz", 1])).row_inserts.inserts[0].rows
            )
        ]
    )
    writes = [
        v1.GreptimeRequest.FromString(WRITE),
        v1.GreptimeRequest(row_deletes=delete),
        sql("CREATE TABLE r1 (ts TIMESTAMP TIME INDEX)"),
        sql("INSERT INTO t VALUES ('b', 2)"),
        v1.GreptimeRequest(ddl=v1.DdlRequest(drop_table=v1.DropTableExpr(table_name="t"))),
    ]
    for request in writes:
        with pytest.raises(grpc.RpcError) as caught:
            as_user(guarded, "r")(request)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert trailer(caught.value, "x-greptime-err-code") == "7006"
    for request in writes[:2]:
        assert as_user(guarded, "w")(request) == 1
    query = METHODS["greptime.v1.PrometheusGateway/Handle"]
    with pytest.raises(grpc.RpcError) as caught:
        guarded.call("greptime.v1.PrometheusGateway/Handle", query, metadata=[("authorization", basic("w", "p"))])
    assert trailer(caught.value, "x-greptime-err-code") == "7006"
    guarded.call("greptime.v1.PrometheusGateway/Handle", query, metadata=[("authorization", basic("r", "p"))])


def test_everybody_may_ask_whether_the_server_is_there(guarded: RunningServer) -> None:
    assert guarded.call("greptime.v1.HealthCheck/HealthCheck", b"") == b""
    raw = guarded.call("grpc.health.v1.Health/Check", b"")
    assert health_pb2.HealthCheckResponse.FromString(raw).status == health_pb2.HealthCheckResponse.SERVING


def test_too_many_failed_logins_are_told_to_wait(fresh: RunningServer) -> None:
    codes = set()
    for _ in range(40):
        with pytest.raises(grpc.RpcError) as caught:
            fresh.call("greptime.v1.GreptimeDatabase/Handle", WRITE, metadata=[("authorization", basic("u1", "no"))])
        codes.add(trailer(caught.value, "x-greptime-err-code"))
        if caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            break
    assert codes == {"7002", "6001"}
    assert trailer(caught.value, "x-greptime-err-retry-hint") == "retryable"
    assert trailer(caught.value, "grpc-status-details-bin")


def test_no_password_is_logged(fresh: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(grpc.RpcError):
        fresh.call("greptime.v1.GreptimeDatabase/Handle", WRITE, metadata=[("authorization", basic("u1", "s3cret!"))])
    assert "s3cret!" not in caplog.text
