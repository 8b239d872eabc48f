"""Many writers, many regions, flushes and restarts at once: what was acknowledged is what is read."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.harness import SCHEMA, batch_of, read
from tsdb.engine.engine import Engine
from tsdb.engine.errors import RegionBusy, StorageUnavailable
from tsdb.model import RegionOptions, region_id
from tsdb.units import Duration, Size

REGIONS = [region_id(table, number) for table in (1, 2) for number in range(3)]
WRITERS = 4
ROUNDS = 3
SECONDS = 0.7
OPTIONS = replace(
    lives.OPTIONS,
    num_workers=2,
    max_background_jobs=2,
    global_write_buffer_size=Size(400_000),
    global_write_buffer_reject_size=Size(800_000),
)
WAL_OPTIONS = replace(lives.WAL_OPTIONS, file_size=Size(200_000), purge_threshold=Size(400_000), sync_write=False)
ROWS = 20


def write_for_a_while(engine: Engine, writer: int, counts: dict[int, int], stop: threading.Event) -> int:
    """Write to all regions in turn; count what is acknowledged per region."""
    refused = 0
    while not stop.is_set():
        for region in REGIONS:
            first = counts.get(region, 0)
            made = [
                {"host": f"w{writer}", "dc": "x", "ts": at, "a": at / 2, "b": at} for at in range(first, first + ROWS)
            ]
            try:
                engine.write(region, batch_of(SCHEMA, made), timeout=Duration.of_seconds(10)).result(30)
            except (RegionBusy, StorageUnavailable):
                refused += 1
                continue
            counts[region] = first + ROWS
    return refused


def disturb(engine: Engine, stop: threading.Event) -> None:
    while not stop.is_set():
        for region in REGIONS:
            engine.flush(region)
            engine.housekeeping.tick()
            engine.housekeeping.purge()
            time.sleep(0.01)


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_many_threads_were_told_is_written_is_read_after_every_restart(tmp_path: Path, is_clean: bool) -> None:
    counts: list[dict[int, int]] = [{} for _ in range(WRITERS)]
    for _ in range(ROUNDS):
        engine = lives.open_life(tmp_path, options=OPTIONS, wal_options=WAL_OPTIONS)
        for region in REGIONS:
            lives.create(region, options=RegionOptions(append_mode=True)).run(engine)
        check(engine, counts)
        stop = threading.Event()
        with ThreadPoolExecutor(WRITERS + 1) as pool:
            writers = [pool.submit(write_for_a_while, engine, n, counts[n], stop) for n in range(WRITERS)]
            pool.submit(disturb, engine, stop)
            time.sleep(SECONDS)
            stop.set()
            for each in writers:
                each.result(30)
        check(engine, counts)
        engine.close(flush=is_clean)
    engine = lives.open_life(tmp_path, options=OPTIONS, wal_options=WAL_OPTIONS)
    check(engine, counts)
    lives.settle(engine)
    assert not lives.unknown_files(engine)
    engine.close()


def check(engine: Engine, counts: list[dict[int, int]]) -> None:
    """Every acknowledged row is there once; in append mode a row that was written twice would be seen twice."""
    for region in REGIONS:
        found = sorted((row["host"], row["ts"]) for row in read(engine, region))
        expected = sorted((f"w{n}", at) for n in range(WRITERS) for at in range(counts[n].get(region, 0)))
        assert found == expected


def test_closing_in_the_middle_of_writes_answers_every_writer(tmp_path: Path) -> None:
    engine = lives.open_life(tmp_path, options=OPTIONS, wal_options=WAL_OPTIONS)
    for region in REGIONS:
        lives.create(region, options=RegionOptions(append_mode=True)).run(engine)
    counts: list[dict[int, int]] = [{} for _ in range(WRITERS)]
    stop = threading.Event()
    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(write_for_a_while, engine, n, counts[n], stop) for n in range(WRITERS)]
        time.sleep(0.2)
        engine.close()
        stop.set()
        assert all(each.result(30) >= 0 for each in writers)
    engine = lives.open_life(tmp_path, options=OPTIONS, wal_options=WAL_OPTIONS)
    check(engine, counts)
    engine.close()
