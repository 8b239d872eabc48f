"""Prometheus remote write: unpacking, the parser alone, the database in one process, and a server over HTTP.

Bodies of 2,000 samples over 4,000 series of ten metrics and ten labels, each series on one connection in the order of
time. The server is a process of its own and has four connections; CPU is that of the whole process.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tests.server_process import running
from tsdb.components import open_local
from tsdb.database import Session
from tsdb.ingest.prometheus import NEW_TABLE, RemoteWriteReader, unpack
from tsdb.kv import MemoryKv
from tsdb.store import LocalStore

HOSTS = 400
METRICS = 10
CONNECTIONS = 4
BODIES = 150
"""For each connection."""
STEPS = 2
"""Instants in a body."""
SAMPLES = HOSTS * METRICS // CONNECTIONS * STEPS
START_MS = 1_767_225_600_000
BYTES_MAX = 1 << 28


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def labels_of(host: int, metric: int) -> list[tuple[str, str]]:
    tags = {
        "__name__": f"cpu_usage_{metric}",
        "hostname": f"host_{host}",
        "region": "eu-central-1",
        "datacenter": f"eu-central-1{'abc'[host % 3]}",
        "rack": str(host % 100),
        "os": "Ubuntu22.04",
        "arch": "x86_64",
        "team": "LON",
        "service": str(host % 20),
        "service_version": str(host % 2),
        "service_environment": "production",
    }
    return sorted(tags.items())


def make_bodies(connection: int, count: int) -> list[bytes]:
    """Make bodies as a sender sends them on one connection."""
    random = np.random.default_rng(connection)
    heads = [
        b"".join(
            field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in labels_of(host, metric)
        )
        for host in range(connection, HOSTS, CONNECTIONS)
        for metric in range(METRICS)
    ]
    bodies = []
    for number in range(count):
        message = bytearray()
        for step in range(STEPS):
            time_ms = varint(START_MS + (number * STEPS + step) * 10_000)
            for head, value in zip(heads, random.integers(0, 100, len(heads)).astype("<f8"), strict=True):
                message += field(1, head + field(2, b"\x09" + value.tobytes() + b"\x10" + time_ms))
        bodies.append(pa.compress(bytes(message), codec="snappy", asbytes=True))
    return bodies


def main() -> Iterator[Measurement]:
    bodies = [make_bodies(connection, BODIES) for connection in range(CONNECTIONS)]
    some = [each for many in bodies for each in many[:20]]
    messages = [unpack(body, "snappy", bytes_max=BYTES_MAX) for body in some]
    reader = RemoteWriteReader(is_strict=True)
    amount = len(some) * SAMPLES

    def unpack_some() -> None:
        for body in some:
            unpack(body, "snappy", bytes_max=BYTES_MAX)

    yield measure("unpack", unpack_some, amount=amount, repeats=3)
    yield measure("parse", lambda: [reader.read(message) for message in messages], amount=amount, repeats=3)
    yield from in_process(bodies)
    yield from over_http(bodies)


def in_process(bodies: list[list[bytes]]) -> Iterator[Measurement]:
    reader, new_table = RemoteWriteReader(is_strict=True), replace(NEW_TABLE, is_metric=True)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        local = open_local(LocalStore(root), MemoryKv(), root / "wal")

        def write(body: bytes) -> None:
            samples = reader.read(unpack(body, "snappy", bytes_max=BYTES_MAX))
            local.database.ingest_samples(samples, Session(), new_table)

        cpu = time.process_time()
        seconds = send_all(bodies, [write] * CONNECTIONS)
        yield Measurement("unpack, parse, write", seconds, CONNECTIONS * BODIES * SAMPLES, "samples")
        local.close()
        cpu = time.process_time() - cpu
        yield Measurement("unpack, parse, write, flush: CPU", cpu, CONNECTIONS * BODIES * SAMPLES, "samples")


def over_http(bodies: list[list[bytes]]) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        address = urlsplit(server.url).netloc

        def connect() -> Callable[[bytes], None]:
            connection = http.client.HTTPConnection(address)

            def post(body: bytes) -> None:
                connection.request("POST", "/v1/prometheus/write", body, {"Content-Encoding": "snappy"})
                response = connection.getresponse()
                response.read()
                assert response.status == 204, response.status

            return post

        cpu = cpu_seconds(server.process.pid)
        seconds = send_all(bodies, [connect() for _ in range(CONNECTIONS)])
        cpu = cpu_seconds(server.process.pid) - cpu
        yield Measurement("HTTP, 4 connections", seconds, CONNECTIONS * BODIES * SAMPLES, "samples")
        yield Measurement("HTTP: CPU of the server", cpu, CONNECTIONS * BODIES * SAMPLES, "samples")


def send_all(bodies: list[list[bytes]], senders: list[Callable[[bytes], None]]) -> float:
    """Send bodies, each sender its own; return the seconds until the last answer."""

    def work(mine: list[bytes], send: Callable[[bytes], None]) -> None:
        for body in mine:
            send(body)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(bodies, senders, strict=True)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
