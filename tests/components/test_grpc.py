"""The gRPC server of a standalone process: its keys have their effects."""

from __future__ import annotations

import re
import string
from pathlib import Path
from random import Random

import grpc
import httpx
import pyarrow as pa
import pytest
from pyarrow import flight

from tests.server_process import running
from tsdb.servers.grpc.proto import greptime_pb2 as v1

HANDLE = "/greptime.v1.GreptimeDatabase/Handle"


def statement(text: str) -> bytes:
    return v1.GreptimeRequest(query=v1.QueryRequest(sql=text)).SerializeToString()


def check_answers_are_bounded(address: str) -> None:
    """A row over `grpc.max_send_message_size` is refused; one below is sent."""
    with flight.connect(f"grpc://{address}") as client:
        text = "".join(Random(1).choices(string.ascii_letters, k=40_000))  # which no compression makes small

        def ask(length: int) -> pa.Table:
            return client.do_get(flight.Ticket(statement(f"SELECT '{text[:length]}' AS v"))).read_all()

        assert ask(1000)["v"].to_pylist() == [text[:1000]]
        with pytest.raises(pa.ArrowException, match="larger than max"):
            ask(40_000)


def test_what_is_written_by_grpc_is_read_by_http_and_the_keys_hold(tmp_path: Path) -> None:
    environment = {
        "TSDB_STANDALONE__GRPC__MAX_RECV_MESSAGE_SIZE": "64KB",
        "TSDB_STANDALONE__GRPC__MAX_SEND_MESSAGE_SIZE": "16KB",
        "TSDB_STANDALONE__PROM_STORE__ENABLE": "false",
    }
    with running("standalone", tmp_path, environment=environment) as server:
        found = re.search(r"gRPC +(\S+)", server.output)
        assert found is not None
        with grpc.insecure_channel(found[1]) as channel:
            send = channel.unary_unary(HANDLE)
            send(statement("CREATE TABLE t (ts TIMESTAMP TIME INDEX, v BIGINT)"), timeout=20)
            raw = send(statement("INSERT INTO t VALUES (1, 2)"), timeout=20)
            assert v1.GreptimeResponse.FromString(raw).affected_rows.value == 1
            with pytest.raises(grpc.RpcError) as caught:
                send(bytes(1 << 20), timeout=20)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary("/greptime.v1.PrometheusGateway/Handle")(b"", timeout=20)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        check_answers_are_bounded(found[1])
        answer = httpx.post(f"{server.url}/v1/sql?format=csv", data={"sql": "SELECT v FROM t"}, timeout=20)
        assert answer.text.strip() == "2"
        assert "tsdb_servers_grpc_requests_total" in httpx.get(f"{server.url}/metrics", timeout=20).text
