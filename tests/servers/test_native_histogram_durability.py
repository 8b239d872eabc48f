"""A server that is killed while native histograms come in: after the restart every acknowledged one is there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from tests.ingest.native_histograms import request_of, whole
from tests.ingest.prometheus_messages import messages, read_request
from tests.server_process import ServerProcess, running

LIVES = 3
ENOUGH = 25
NAMED = {"__name__": "latency", "job": "api"}


def post(server: ServerProcess, path: str, message: bytes) -> httpx.Response:
    body = pa.compress(message, codec="snappy", asbytes=True)
    headers = {"content-encoding": "snappy", "content-type": "application/x-protobuf"}
    return httpx.post(server.url + path, content=body, headers=headers, timeout=20, trust_env=False)


class Writer:
    """Writes one histogram after another, and a float beside each, until the server is gone."""

    def __init__(self, server: ServerProcess, first: int) -> None:
        self._server = server
        self.acknowledged: list[int] = []
        self._next = first
        self.has_enough = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while True:
            time, self._next = self._next, self._next + 1
            floats = [("__name__", "beside")], [(time, float(time))]
            message = request_of(NAMED, whole(time, 1, time=time), floats=floats).SerializeToString()
            try:
                answer = post(self._server, "/v1/prometheus/write", message)
            except httpx.TransportError:
                return
            assert answer.status_code == 204, answer.text
            self.acknowledged.append(time)
            if len(self.acknowledged) >= ENOUGH:
                self.has_enough.set()

    def join(self) -> int:
        self._thread.join(30)
        return self._next


def read(server: ServerProcess) -> dict[int, Any]:
    """All histograms, by their times."""
    answer = post(server, "/v1/prometheus/read", read_request((0, 1 << 40, [(0, "__name__", "latency")])))
    assert answer.status_code == 200, answer.text
    (result,) = messages["ReadResponse"].FromString(_unpack(answer.content)).results
    return {histogram.timestamp: histogram for series in result.timeseries for histogram in series.histograms}


def _unpack(body: bytes) -> bytes:
    length = shift = 0
    for byte in body:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    unpacked: bytes = pa.decompress(body, decompressed_size=length, codec="snappy", asbytes=True)
    return unpacked


def test_every_acknowledged_histogram_outlives_the_server(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    first = 1
    for life in range(LIVES):
        with running("standalone", tmp_path) as server:
            if life:
                found = read(server)
                assert found.keys() >= set(acknowledged)
                assert all(found[time] == whole(time, 1, time=time) for time in acknowledged)
            writer = Writer(server, first)
            assert writer.has_enough.wait(30)
            if life == 1:
                flush = {"sql": "ADMIN flush_table('tsdb_physical_table')"}
                httpx.post(f"{server.url}/v1/sql", data=flush, timeout=20, trust_env=False).raise_for_status()
            server.process.kill()
            server.process.wait(20)
            first = writer.join()
        acknowledged += writer.acknowledged
    with running("standalone", tmp_path) as server:
        assert read(server).keys() >= set(acknowledged)
