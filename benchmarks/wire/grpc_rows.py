"""Rows over gRPC: 100,000 rows of ten columns in one request, small requests one after the other, idle connections.

The request is encoded beforehand, so that what is measured is the server, a process of its own, and the CPU of the
server is told beside the time.
"""

from __future__ import annotations

import os
import re
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc

from benchmarks import Measurement
from tests.server_process import ServerProcess, running
from tsdb.servers.grpc.proto import greptime_pb2 as v1

ROWS = 100_000
ROUNDS = 5
SMALL = 500
IDLE = 1_000
METHOD = "/greptime.v1.GreptimeDatabase/Handle"
START_MS = 1_700_000_000_000
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
_OPTIONS = [("grpc.max_send_message_length", 512 << 20)]


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        address = re.search(r"gRPC +(\S+)", server.output)[1]  # type: ignore[index]
        yield from _measure_idle(server, address)
        with grpc.insecure_channel(address, options=_OPTIONS) as channel:
            send = channel.unary_unary(METHOD)
            yield from _measure_large(server, send)
            yield from _measure_small(server, send)


def make_request(rows: int, start: int = 0) -> bytes:
    """The bytes of a request with ten columns."""
    schema = [
        v1.ColumnSchema(column_name="host", datatype=v1.STRING, semantic_type=v1.TAG),
        v1.ColumnSchema(column_name="ts", datatype=v1.TIMESTAMP_MILLISECOND, semantic_type=v1.TIMESTAMP),
        *(
            v1.ColumnSchema(column_name=f"f{number}", datatype=v1.FLOAT64, semantic_type=v1.FIELD)
            for number in range(8)
        ),
    ]
    made = [
        v1.Row(
            values=[
                v1.Value(string_value=f"h{row % 1000}"),
                v1.Value(timestamp_millisecond_value=START_MS + start + row),
                *(v1.Value(f64_value=row * 0.37 + number) for number in range(8)),
            ]
        )
        for row in range(rows)
    ]
    table = v1.RowInsertRequest(table_name="wide", rows=v1.Rows(schema=schema, rows=made))
    return v1.GreptimeRequest(row_inserts=v1.RowInsertRequests(inserts=[table])).SerializeToString()


def _measure_large(server: ServerProcess, send: grpc.UnaryUnaryMultiCallable) -> Iterator[Measurement]:
    request, elapsed, cpu = make_request(ROWS), [], []
    for _ in range(ROUNDS):
        begun, spent = time.perf_counter(), _cpu_seconds(server)
        send(request, timeout=60)
        elapsed.append(time.perf_counter() - begun)
        cpu.append(_cpu_seconds(server) - spent)
    yield Measurement("100k rows x 10 columns, until they are durable", min(elapsed), ROWS, "rows")
    yield Measurement("the same, CPU of the server", min(cpu) or 0.01, ROWS, "rows")


def _measure_small(server: ServerProcess, send: grpc.UnaryUnaryMultiCallable) -> Iterator[Measurement]:
    requests, elapsed = [make_request(1, start) for start in range(SMALL)], []
    spent = _cpu_seconds(server)
    for request in requests:
        begun = time.perf_counter()
        send(request, timeout=60)
        elapsed.append(time.perf_counter() - begun)
    yield Measurement("one row, median", statistics.median(elapsed), 1, "rows")
    yield Measurement("the same, CPU of the server", (_cpu_seconds(server) - spent) / SMALL, 1, "rows")


def _measure_idle(server: ServerProcess, address: str) -> Iterator[Measurement]:
    host, port = address.rsplit(":", 1)
    with ExitStack() as stack:
        before = _memory_bytes(server)
        for _ in range(IDLE):
            opened = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            opened.sendall(_PREFACE)
            opened.recv(1)
        used = _memory_bytes(server) - before
        begun = time.perf_counter()
        with grpc.insecure_channel(address) as channel:
            channel.unary_unary("/greptime.v1.HealthCheck/HealthCheck")(b"", timeout=60)
        elapsed = time.perf_counter() - begun
    yield Measurement(f"{IDLE} idle connections take {used / 1e6:.0f} MB; another one calls", elapsed, 1, "calls")


def _cpu_seconds(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(server: ServerProcess) -> int:
    resident = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE")
