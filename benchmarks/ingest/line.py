"""The InfluxDB line protocol: the parser alone, the database in one process, and a server over HTTP.

Bodies of 5,000 rows with ten tags and ten float fields over 4,000 series, in the order of time. The server is a process
of its own and has four connections; CPU is that of the whole process until all rows are flushed.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks import Measurement, measure
from tests.server_process import running
from tsdb.components import LocalOptions, open_local
from tsdb.database import Session
from tsdb.engine import EngineOptions
from tsdb.ingest import NewTable
from tsdb.ingest.influx import parse_lines
from tsdb.kv import MemoryKv
from tsdb.store import LocalStore
from tsdb.units import Size

HOSTS = 4000
ROWS = 5000
BODIES = 120
CONNECTIONS = 4
START_S = 1_767_225_600
STEP_S = 10
FIELDS = tuple(f"usage_{number}" for number in range(10))
NEW_TABLE = NewTable(options={"merge_mode": "last_non_null"})
BUFFER = Size.parse("256MB")


def make_bodies(count: int) -> list[bytes]:
    """Make bodies as a fleet of collectors sends them."""
    random = np.random.default_rng(1)
    keys = [
        f"cpu,hostname=host_{host},region=eu-central-1,datacenter=eu-central-1{'abc'[host % 3]},rack={host % 100},"
        f"os=Ubuntu22.04,arch=x86_64,team=LON,service={host % 20},service_version={host % 2},"
        "service_environment=production"
        for host in range(HOSTS)
    ]
    bodies = []
    for number in range(count):
        values = np.char.mod("%.2f", random.random((ROWS, len(FIELDS))) * 100)
        lines = []
        for at, row in enumerate(values, number * ROWS):
            fields = ",".join(f"{name}={value}" for name, value in zip(FIELDS, row, strict=True))
            lines.append(f"{keys[at % HOSTS]} {fields} {START_S + at // HOSTS * STEP_S}000000000\n")
        bodies.append("".join(lines).encode())
    return bodies


def main() -> Iterator[Measurement]:
    bodies = make_bodies(BODIES)
    yield measure("parse", lambda: [parse_lines(body, now_ns=0) for body in bodies], amount=BODIES * ROWS, repeats=3)
    yield from in_process(bodies)
    yield from over_http(bodies)


def in_process(bodies: list[bytes]) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory:
        engine = EngineOptions(
            num_workers=2,
            max_background_jobs=2,
            global_write_buffer_size=BUFFER,
            global_write_buffer_reject_size=Size(4 * BUFFER),
        )
        root = Path(directory)
        local = open_local(LocalStore(root), MemoryKv(), root / "wal", options=LocalOptions(engine=engine))

        def write(body: bytes) -> None:
            local.database.ingest(parse_lines(body, now_ns=0), Session(), NEW_TABLE)

        cpu = time.process_time()
        seconds = send_all(bodies, [write] * CONNECTIONS)
        yield Measurement("parse, write", seconds, BODIES * ROWS, "rows")
        local.close()
        cpu = time.process_time() - cpu
        yield Measurement("parse, write, flush: CPU", cpu, BODIES * ROWS, "rows")
        print(f"  {cpu / (BODIES * ROWS * len(FIELDS)) * 1e6:.3f} CPU seconds per million values")


def over_http(bodies: list[bytes]) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        address = urlsplit(server.url).netloc

        def connect() -> Callable[[bytes], None]:
            connection = http.client.HTTPConnection(address)

            def post(body: bytes) -> None:
                connection.request("POST", "/v1/influxdb/write?db=public", body)
                response = connection.getresponse()
                response.read()
                assert response.status == 204, response.status

            return post

        pid = server.process.pid
        cpu = cpu_seconds(pid)
        seconds = send_all(bodies, [connect() for _ in range(CONNECTIONS)])
        yield Measurement("HTTP, 4 connections", seconds, BODIES * ROWS, "rows")
        connection = http.client.HTTPConnection(address)
        connection.request("GET", "/v1/sql?sql=admin%20flush_table('cpu')")
        assert connection.getresponse().status == 200
        cpu = cpu_seconds(pid) - cpu
        yield Measurement("HTTP: CPU of the server", cpu, BODIES * ROWS, "rows")
        print(
            f"  {cpu / (BODIES * ROWS * len(FIELDS)) * 1e6:.3f} CPU seconds per million values, "
            f"peak memory {peak_memory_mb(pid):.0f} MB"
        )


def send_all(bodies: list[bytes], senders: list[Callable[[bytes], None]]) -> float:
    """Send bodies from one queue; return the seconds until the last answer."""
    queue = iter(bodies)
    lock = threading.Lock()

    def work(send: Callable[[bytes], None]) -> None:
        while True:
            with lock:
                body = next(queue, None)
            if body is None:
                return
            send(body)

    threads = [threading.Thread(target=work, args=(send,)) for send in senders]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def peak_memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024
