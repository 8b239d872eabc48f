"""The first query after a restart beside a warm one: `python -m benchmarks storage.restart`.

A server with flushed rows, which was asked queries of all kinds, is ended by SIGTERM and started again. As soon as
`/ready` says so, one query is asked, the first of all; then the same kind is asked until it is warm. Each kind has
restarts of its own.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import Measurement
from benchmarks.storage._devops import QUESTIONS, Asked, make_rows
from tests.server_process import ServerProcess, running

KINDS = ("single-groupby-1-1-1", "single-groupby-5-8-1", "lastpoint", "double-groupby-1")
RESTARTS = int(os.environ.get("TSDB_BENCH_RESTARTS", "3"))
_READY_SECONDS_MAX = 60.0


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        with running("standalone", home) as server:
            asked = Asked(server)
            asked.load(make_rows())
            for kind in KINDS:
                for question in QUESTIONS[kind]:
                    asked.seconds(question)
            server.stop()
        starts: list[float] = []
        for kind in KINDS:
            yield from measure_kind(home, kind, starts)
        yield Measurement("start until /ready", median(starts), 1, "starts")


def measure_kind(home: Path, kind: str, starts: list[float]) -> Iterator[Measurement]:
    first, warm = [], []
    for number in range(RESTARTS):
        began = time.perf_counter()
        with running("standalone", home) as server:
            wait_ready(server)
            starts.append(time.perf_counter() - began)
            asked = Asked(server)
            first.append(asked.seconds(QUESTIONS[kind][number]))
            times = [asked.seconds(question) for question in QUESTIONS[kind] * 3]
            warm.append(median(times[len(times) // 2 :]))
            server.stop()
    usual, later = median(first), median(warm)
    yield Measurement(f"{kind}, warm", later, 1, "queries")
    yield Measurement(f"{kind}, first after a restart: {usual / later:.1f} of warm", usual, 1, "queries")


def wait_ready(server: ServerProcess) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while server.get("/ready").status_code != 200:
        if time.monotonic() > deadline:
            raise RuntimeError("the server is not ready")
        time.sleep(0.005)
