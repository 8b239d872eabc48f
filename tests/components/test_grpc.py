"""The gRPC server of a standalone process: its keys have their effects."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import grpc
import httpx
import pyarrow as pa
import pytest
from pyarrow import flight

from tests.server_process import running
from tsdb.servers.grpc.proto import greptime_pb2 as v1

HANDLE = "/greptime.v1.GreptimeDatabase/Handle"

PING, END = 6, -1


def statement(text: str) -> bytes:
    return v1.GreptimeRequest(query=v1.QueryRequest(sql=text)).SerializeToString()


def check_answers_are_bounded(address: str) -> None:
    """A row over `grpc.max_send_message_size` is refused; one below is sent."""
    with flight.connect(f"grpc://{address}") as client:
        for length, is_refused in ((1000, False), (100_000, True)):
            reader = client.do_get(flight.Ticket(statement(f"SELECT repeat('x', {length}) AS v")))
            if is_refused:
                with pytest.raises(pa.ArrowException, match="larger than max"):
                    reader.read_all()
            else:
                assert reader.read_all()["v"].to_pylist() == ["x" * length]


def silent_client_frames(address: str) -> list[int]:
    """Open a connection and answer nothing until the server ends it: the types of its HTTP/2 frames, and the end."""
    host, _, port = address.rpartition(":")
    found: list[int] = []
    with socket.create_connection((host, int(port)), timeout=60) as client, client.makefile("rb") as stream:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        while len(head := stream.read(9)) == 9:
            stream.read(int.from_bytes(head[:3], "big"))
            found.append(head[3])
    return [*found, END]


def test_what_is_written_by_grpc_is_read_by_http_and_the_keys_hold(tmp_path: Path) -> None:
    environment = {
        "TSDB_STANDALONE__GRPC__MAX_RECV_MESSAGE_SIZE": "64KB",
        "TSDB_STANDALONE__GRPC__MAX_SEND_MESSAGE_SIZE": "64KB",
        "TSDB_STANDALONE__GRPC__KEEP_ALIVE": "200ms",
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
        assert silent_client_frames(found[1])[-2:] == [PING, END], "a client that answers no ping is closed"
        answer = httpx.post(f"{server.url}/v1/sql?format=csv", data={"sql": "SELECT v FROM t"}, timeout=20)
        assert answer.text.strip() == "2"
        assert "tsdb_servers_grpc_requests_total" in httpx.get(f"{server.url}/metrics", timeout=20).text
