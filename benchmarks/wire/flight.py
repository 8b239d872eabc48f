"""Arrow Flight: two million rows of seven columns out with DoGet, and in with DoPut.

The client is `pyarrow.flight`, which reads the stream and keeps nothing of it. The server is a process of its own; its
CPU is told beside the time, because client and server share the machine.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

from benchmarks import Measurement
from benchmarks.wire.grpc_rows import _cpu_seconds
from tests.server_process import ServerProcess, running
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._commands import pack

BATCHES, BATCH_ROWS = 20, 100_000
ROUNDS = 7
SCHEMA = pa.schema(
    [("host", pa.string()), ("ts", pa.timestamp("ms")), *((name, pa.float64()) for name in "abcd"), ("n", pa.int64())]
)
CREATE = (
    "CREATE TABLE wide (host STRING PRIMARY KEY, ts TIMESTAMP(3) TIME INDEX, a DOUBLE, b DOUBLE, c DOUBLE, d DOUBLE,"
    " n BIGINT) WITH ('append_mode' = 'true')"
)


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        address = re.search(r"gRPC +(\S+)", server.output)[1]  # type: ignore[index]
        with fl.connect(f"grpc://{address}") as client:
            _info(client, CREATE)
            yield from _measure_put(server, client)
            yield from _measure_get(server, client, "SELECT * FROM wide", "all columns")
            yield from _measure_get(server, client, "SELECT a, b, c, d, n FROM wide", "numbers alone")


def _info(client: fl.FlightClient, text: str) -> fl.FlightInfo:
    return client.get_flight_info(fl.FlightDescriptor.for_command(pack(sql.CommandStatementQuery(query=text))))


def _batches() -> list[pa.RecordBatch]:
    random, rows = np.random.default_rng(1), np.arange(BATCH_ROWS)
    hosts = np.array([f"host_{number:03}" for number in range(100)], dtype=object)[rows // 1000]
    return [
        pa.record_batch(
            [
                pa.array(hosts),
                pa.array((rows % 1000 + number * 1000) * 1000, pa.timestamp("ms")),
                *(random.random(BATCH_ROWS) for _ in range(4)),
                random.integers(0, 9, BATCH_ROWS),
            ],
            schema=SCHEMA,
        )
        for number in range(BATCHES)
    ]


def _measure_put(server: ServerProcess, client: fl.FlightClient) -> Iterator[Measurement]:
    batches = _batches()
    begun, spent = time.perf_counter(), _cpu_seconds(server)
    writer, _ = client.do_put(fl.FlightDescriptor.for_path("wide"), SCHEMA)
    with writer:
        for batch in batches:
            writer.write_batch(batch)
    yield Measurement("DoPut, until all is durable", time.perf_counter() - begun, BATCHES * BATCH_ROWS, "rows")
    yield Measurement("the same, CPU of the server", _cpu_seconds(server) - spent, BATCHES * BATCH_ROWS, "rows")


def _measure_get(server: ServerProcess, client: fl.FlightClient, text: str, name: str) -> Iterator[Measurement]:
    def read() -> int:
        return sum(chunk.data.nbytes for chunk in client.do_get(_info(client, text).endpoints[0].ticket))

    elapsed, cpu, size = _best(server, read)
    yield Measurement(f"DoGet, {name}", elapsed, size, "bytes")
    yield Measurement("the same, CPU of the server", cpu, size, "bytes")


def _best(server: ServerProcess, read: Callable[[], int]) -> tuple[float, float, int]:
    """The shortest time and the least CPU of several rounds, and how many bytes came."""
    elapsed, cpu, size = [], [], 0
    for _ in range(ROUNDS):
        begun, spent = time.perf_counter(), _cpu_seconds(server)
        size = read()
        elapsed.append(time.perf_counter() - begun)
        cpu.append(_cpu_seconds(server) - spent)
    return min(elapsed), min(cpu) or 0.01, size
