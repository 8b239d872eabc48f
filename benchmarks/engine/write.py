"""How fast the engine takes, flushes and replays rows, in one process.

Batches of 1,000 rows with ten tags and ten floats over 4,000 series, as a parser would make them: the series of a batch
with their hashes, everything else in columns. Two threads write, each a few batches ahead of their acknowledgements.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import Measurement
from tsdb.engine.engine import Engine, region_directory
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.wal import Wal
from tsdb.model import Batch, RegionSchema, Semantic, SeriesTable, region_id
from tsdb.store import LocalStore
from tsdb.units import Size

TAGS = ("host", "region", "dc", "rack", "os", "arch", "team", "service", "version", "env")
FIELDS = tuple(f"field_{number}" for number in range(10))
SERIES = 4000
ROWS = 1000
BATCHES = 4000
CALLERS = 2
IN_FLIGHT = 8
REPEATS = 4
REGION = region_id(1024, 0)
SCHEMA = RegionSchema.create(
    [
        *((tag, pa.string(), Semantic.TAG) for tag in TAGS),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        *((field, pa.float64(), Semantic.FIELD) for field in FIELDS),
    ]
)


def make_batches(count: int) -> list[Batch]:
    """Make batches in the order of time: every ten seconds all series report."""
    random = np.random.default_rng(1)
    tables = []
    for first in range(0, SERIES, ROWS):
        numbers = range(first, first + ROWS)
        columns = [pa.array([f"host_{number}" for number in numbers])]
        columns += [pa.array([f"{tag}_{number % 20}" for number in numbers]) for tag in TAGS[1:]]
        tables.append(SeriesTable.of_tags(SCHEMA, columns, ROWS))
    values = [pa.array(random.integers(0, 100, ROWS).astype(np.float64)) for _ in range(64)]
    index = np.arange(ROWS, dtype=np.uint32)
    batches = []
    for number in range(count):
        times = np.full(ROWS, 1_700_000_000_000 + number // len(tables) * 10_000, dtype=np.int64)
        fields = {field: values[(number * 7 + at) % len(values)] for at, field in enumerate(FIELDS)}
        batches.append(Batch(tables[number % len(tables)], index, times, fields))
    return batches


def open_engine(root: Path, buffer: str = "1GB") -> Engine:
    options = EngineOptions(
        num_workers=2,
        max_background_jobs=2,
        global_write_buffer_size=Size.parse(buffer),
        global_write_buffer_reject_size=Size(4 * Size.parse(buffer)),
    )
    engine = Engine.open(LocalStore(root), Wal.open(root / "wal")[0], options=options)
    engine.create_region(REGION, region_directory("tsdb", "public", 1024, 0), SCHEMA)
    return engine


def write_all(engine: Engine, batches: list[Batch]) -> float:
    """Write from all callers; return the seconds until the last acknowledgement."""

    def call(share: list[Batch]) -> None:
        waiting: deque[Future[int]] = deque()
        for batch in share:
            waiting.append(engine.write(REGION, batch))
            if len(waiting) >= IN_FLIGHT:
                waiting.popleft().result()
        for future in waiting:
            future.result()

    threads = [threading.Thread(target=call, args=(batches[number::CALLERS],)) for number in range(CALLERS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def main() -> Iterator[Measurement]:
    """Each figure is the best of several runs: other work on the machine can only make a run slower."""
    batches = make_batches(BATCHES)
    rows = BATCHES * ROWS
    writes, replays, flushes = [], [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as directory:
            engine = open_engine(Path(directory), "4GB")
            writes.append(write_all(engine, batches))
            engine.close(flush=False)
            started = time.perf_counter()
            engine = open_engine(Path(directory), "4GB")
            replays.append(time.perf_counter() - started)
            started = time.perf_counter()
            engine.flush(REGION).result()
            flushes.append(time.perf_counter() - started)
            engine.close()
    yield Measurement("write, lz4, sync off, 2 callers", min(writes), rows, "rows")
    yield Measurement("open and replay", min(replays), rows, "rows")
    yield Measurement("flush", min(flushes), rows, "rows")
    yield from small_buffer()


def small_buffer() -> Iterator[Measurement]:
    """Load with a small write buffer, in a process of its own, so that its memory is its own."""
    script = "from benchmarks.engine.write import load_with_small_buffer; load_with_small_buffer()"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, before_mb, peak_mb = map(float, result.stdout.split())
    yield Measurement("write and flush, 64 MB buffer", seconds, BATCHES * ROWS, "rows")
    print(f"  peak memory {peak_mb:.0f} MB, of which {before_mb:.0f} MB were there before the first row")


def load_with_small_buffer() -> None:
    """Print seconds, and the memory of the process before and at its peak."""
    batches = make_batches(BATCHES)
    with tempfile.TemporaryDirectory() as directory:
        engine = open_engine(Path(directory), "64MB")
        before_mb = peak_memory_mb()
        seconds = write_all(engine, batches)
        started = time.perf_counter()
        engine.flush(REGION).result()
        seconds += time.perf_counter() - started
        engine.close()
    print(seconds, before_mb, peak_memory_mb())


def peak_memory_mb() -> float:
    """The peak of this process alone; `ru_maxrss` would remember that of its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024
