"""Shapes of data that hurt: the server takes them, answers others meanwhile, keeps its memory, and starts again.

Small here; with `TSDB_SOAK_MINUTES` set, a million series, 2,000 columns, 10,000 tables. Measured then, on two cores
that five others used as well: 1.0 GiB of memory for a million series by remote write; 10,000 tables of their own took
320 to 430 s to make and 21 to 57 s to start with, as many metrics of the metric engine 47 s and 19 s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import ServerProcess, running, spawn
from tests.soak.bombs import (
    START_MS,
    Seen,
    Sender,
    column_line,
    measurement_lines,
    metric_samples,
    series_lines,
    series_samples,
    watched,
)
from tests.soak.check import Reader

IS_LONG = bool(float(os.environ.get("TSDB_SOAK_MINUTES", "0")))
SERIES = 1_000_000 if IS_LONG else 50_000
SERIES_PER_REQUEST = 10_000
TABLES = 10_000 if IS_LONG else 100
TABLES_PER_REQUEST = 50
COLUMNS = 2_000 if IS_LONG else 400
COLUMNS_PER_REQUEST = COLUMNS // 4
COLUMNS_ONE_BY_ONE = 2_000 if IS_LONG else 50
MEMORY_MB_MAX = 2_560.0 if IS_LONG else 768.0
ANSWER_SECONDS_MAX = 10.0
READY_SECONDS_MAX = 120.0 if IS_LONG else 30.0

pytestmark = pytest.mark.timeout(3600 if IS_LONG else 120)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path) as started:
        yield started


def check(what: str, seen: Seen) -> None:
    print(f"{what}: {seen}")
    assert seen.memory_mb < MEMORY_MB_MAX
    assert seen.questions
    assert seen.slowest_seconds < ANSWER_SECONDS_MAX


def restart(server: ServerProcess, directory: Path, environment: dict[str, str] | None = None) -> ServerProcess:
    """Kill the server and start another one on its data."""
    server.process.kill()
    server.process.wait()
    started = time.monotonic()
    another = spawn("standalone", directory, environment=environment)
    try:
        another.wait_ready(READY_SECONDS_MAX)
    except BaseException:
        another.process.kill()
        another.process.wait()
        raise
    print(f"ready again after {time.monotonic() - started:.1f} s")
    return another


def check_after_restart(
    server: ServerProcess, directory: Path, *questions: tuple[str, object], environment: dict[str, str] | None = None
) -> None:
    """Ask the server, kill it, and ask the one that comes after it."""
    ask(server, *questions)
    another = restart(server, directory, environment)
    try:
        ask(another, *questions)
    finally:
        another.process.kill()
        another.process.wait()


def ask(server: ServerProcess, *questions: tuple[str, object]) -> None:
    reader = Reader(server.url)
    for text, answer in questions:
        started = time.monotonic()
        assert reader.sql(text) == answer
        print(f"  {time.monotonic() - started:.2f} s: {text[:100]}")
    reader.close()


def test_very_many_series_by_line_protocol(server: ServerProcess, tmp_path: Path) -> None:
    sender = Sender(server.url)
    with watched(server) as seen:
        for first in range(0, SERIES, SERIES_PER_REQUEST):
            sender.lines(series_lines(first, SERIES_PER_REQUEST))
    sender.close()
    check(f"{SERIES} series by line protocol", seen)
    check_after_restart(
        server,
        tmp_path,
        ("SELECT count(*), sum(v) FROM bomb_line", [[SERIES, SERIES * (SERIES - 1) // 2]]),
        ("SELECT v FROM bomb_line WHERE id = 'container-00000007'", [[7]]),
    )


def test_very_many_series_by_remote_write(server: ServerProcess, tmp_path: Path) -> None:
    sender = Sender(server.url)
    with watched(server) as seen:
        for first in range(0, SERIES, SERIES_PER_REQUEST):
            sender.samples(series_samples(first, SERIES_PER_REQUEST))
    sender.close()
    check(f"{SERIES} series by remote write", seen)
    check_after_restart(
        server,
        tmp_path,
        ("SELECT count(*), sum(tsdb_value) FROM bomb_rw", [[SERIES, float(SERIES * (SERIES - 1) // 2)]]),
        ("SELECT tsdb_value FROM bomb_rw WHERE id = 'container-00000007'", [[7.0]]),
    )


def test_a_table_of_very_many_columns(server: ServerProcess, tmp_path: Path) -> None:
    sender = Sender(server.url)
    with watched(server) as seen:
        for first in range(0, COLUMNS, COLUMNS_PER_REQUEST):
            sender.lines(column_line("wide", first, COLUMNS_PER_REQUEST, time_ms=START_MS))
        sender.lines(column_line("wide", 0, COLUMNS, time_ms=START_MS + 1))
        for number in range(COLUMNS_ONE_BY_ONE):
            sender.lines(column_line("grown", number, 1, time_ms=START_MS))
    sender.close()
    check(f"{COLUMNS} columns, and {COLUMNS_ONE_BY_ONE} one by one", seen)
    row = ["a", *range(COLUMNS_PER_REQUEST), START_MS * 1_000_000, *range(COLUMNS_PER_REQUEST, COLUMNS)]
    whole = (f"SELECT * FROM wide WHERE tsdb_timestamp = {START_MS}::TIMESTAMP(3)", [row])
    ask(server, whole, ("ADMIN flush_table('wide')", [[0]]))
    check_after_restart(
        server,
        tmp_path,
        whole,
        (f"SELECT count(*), sum(f{COLUMNS - 1}) FROM wide", [[2, 2 * (COLUMNS - 1)]]),
        (f"SELECT f0, f{COLUMNS_ONE_BY_ONE - 1} FROM grown", [[0, COLUMNS_ONE_BY_ONE - 1]]),
    )


@pytest.mark.parametrize("has_metric_engine", [True, False])
def test_very_many_metrics_by_remote_write(tmp_path: Path, has_metric_engine: bool) -> None:
    environment = {"TSDB_STANDALONE__PROM_STORE__WITH_METRIC_ENGINE": str(has_metric_engine).lower()}
    with running("standalone", tmp_path, environment=environment) as server:
        sender = Sender(server.url)
        with watched(server) as seen:
            for first in range(0, TABLES, TABLES_PER_REQUEST):
                sender.samples(metric_samples(first, TABLES_PER_REQUEST, "metric"))
        with watched(server) as again:
            for first in range(0, TABLES, TABLES_PER_REQUEST):
                sender.samples(metric_samples(first, TABLES_PER_REQUEST, "metric"))
        sender.close()
        check(f"{TABLES} metrics by remote write, metric engine: {has_metric_engine}", seen)
        check("the same once more", again)
        check_after_restart(
            server,
            tmp_path,
            (f"SELECT host, tsdb_value FROM metric_{TABLES - 1}", [["a", float(TABLES - 1)]]),
            ("SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'metric_%'", [[TABLES]]),
            environment=environment,
        )


def test_very_many_measurements_by_line_protocol(server: ServerProcess, tmp_path: Path) -> None:
    sender = Sender(server.url)
    with watched(server) as seen:
        for first in range(0, TABLES, TABLES_PER_REQUEST):
            sender.lines(measurement_lines(first, TABLES_PER_REQUEST))
    sender.close()
    check(f"{TABLES} measurements by line protocol", seen)
    check_after_restart(
        server,
        tmp_path,
        (f"SELECT host, v FROM m_{TABLES - 1}", [["a", TABLES - 1]]),
        ("SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'm\\_%'", [[TABLES]]),
    )
