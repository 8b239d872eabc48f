"""Small durable writes into one engine: 32 threads, each waits for the acknowledgement of 100 rows before the next.

What is measured is how writes share the waits of the log. Its syncs take as long as the disk needs, and in further runs
2 and 5 ms longer, as those of slower disks do.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Measurement
from benchmarks.engine.write import REGION, SCHEMA, make_batches
from tsdb.engine.engine import Engine, region_directory
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.wal import Wal, WalSettings
from tsdb.model import Batch, SeriesTable
from tsdb.store import Files, LocalStore

CALLERS = 32
ROWS = 100
WRITES = 3200
REPEATS = 2


class SlowFiles(Files):
    """Files whose data takes longer to sync."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        if self._seconds:
            time.sleep(self._seconds)


def cut(batches: list[Batch]) -> list[Batch]:
    """Make batches of 100 rows and series."""
    first = batches[0]
    tags = [first.series.read_tags().column(tag.name)[:ROWS] for tag in SCHEMA.tags]
    series = SeriesTable.of_tags(SCHEMA, tags, ROWS)
    return [
        Batch(
            series,
            first.series_index[:ROWS],
            batch.times[at : at + ROWS] + at,
            {name: values.slice(at, ROWS) for name, values in batch.fields.items()},
        )
        for batch in batches
        for at in range(0, batch.rows, ROWS)
    ]


def write_all(engine: Engine, batches: list[Batch]) -> float:
    """Write from all callers; return the seconds until the last acknowledgement."""

    def call(number: int) -> None:
        for batch in batches[number::CALLERS]:
            engine.write(REGION, batch).result()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def measure(batches: list[Batch], delay_ms: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        log, _ = Wal.open(root / "wal", WalSettings(sync_write=True), SlowFiles(delay_ms / 1000))
        engine = Engine.open(LocalStore(root), log, options=EngineOptions(num_workers=2, max_background_jobs=2))
        engine.create_region(REGION, region_directory("tsdb", "public", 1024, 0), SCHEMA)
        seconds = write_all(engine, batches)
        engine.close(flush=False)
    return seconds


def main() -> Iterator[Measurement]:
    """Each figure is the best of several runs: other work on the machine can only make a run slower."""
    batches = cut(make_batches(WRITES * ROWS // 1000))
    for delay_ms in (0, 2, 5):
        seconds = min(measure(batches, delay_ms) for _ in range(REPEATS))
        more = f", syncs {delay_ms} ms longer" if delay_ms else ""
        yield Measurement(f"write, sync_write, {CALLERS} callers{more}", seconds, WRITES * ROWS, "rows")
