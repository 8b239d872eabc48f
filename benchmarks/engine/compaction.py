"""How fast data files are merged, and in how much memory: 4 files of 1 M rows and 14 columns become one.

The rows are host metrics: 4,000 series of three tags, ten fields of which half are whole percentages and half are
floats. The files follow each other in time, or interleave so that every series is merged row by row, or every row is in
all four of them. A process of its own merges them, so that its CPU time and its peak memory can be told.

The goals: 1 M rows read per CPU second, a peak below 500 MB, and at most 5 % of the time for checking the result.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import Measurement
from tsdb.engine import Engine, EngineOptions, Wal, region_directory
from tsdb.model import Batch, RegionSchema, Semantic, region_id
from tsdb.store import LocalStore
from tsdb.units import Size

FILES = 4
SERIES = 4_000
ROWS_PER_SERIES = 250
FIELDS = 10
STEP_MS = 10_000
START_MS = 1_700_006_400_000
REGION = region_id(1024, 0)
DIRECTORY = region_directory("tsdb", "public", 1024, 0)
SHAPES = ("one after the other", "interleaved", "all rows four times")
RSS_BYTES_MAX = 500_000_000
ROWS_PER_CPU_SECOND_MIN = 1_000_000

Times = npt.NDArray[np.int64]


def make_schema() -> RegionSchema:
    tags = [(tag, pa.string(), Semantic.TAG) for tag in ("host", "region", "dc")]
    fields = [(f"field_{number}", pa.float64(), Semantic.FIELD) for number in range(FIELDS)]
    return RegionSchema.create([*tags, ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP), *fields])


def open_engine(root: Path) -> Engine:
    """Open an engine whose files stay as they are until a compaction is requested."""
    options = EngineOptions(global_write_buffer_size=Size(4 << 30), global_write_buffer_reject_size=Size(8 << 30))
    return Engine.open(LocalStore(root), Wal.open(root / "wal")[0], options=options, has_housekeeping=False)


def times_of(shape: str, file: int) -> Times:
    steps = np.arange(ROWS_PER_SERIES, dtype=np.int64)
    if shape == "one after the other":
        steps = steps + file * ROWS_PER_SERIES
    elif shape == "interleaved":
        steps = steps * FILES + file
    return START_MS + steps * STEP_MS


def make_batch(schema: RegionSchema, times: Times, random: np.random.Generator) -> pa.RecordBatch:
    """Make the rows of all series at some times."""
    rows = SERIES * len(times)
    series = np.repeat(np.arange(SERIES), len(times))
    hosts = pa.array([f"host_{number:05}" for number in range(SERIES)]).take(pa.array(series))
    others = [
        pa.array([f"{name}_{number % parts}" for number in range(SERIES)]).take(pa.array(series))
        for name, parts in (("region", 9), ("dc", 30))
    ]
    walks = [np.abs(np.cumsum(random.normal(0, 1, rows)) % 200 - 100) for _ in range(FIELDS)]
    fields = [pa.array(walk.round() if place % 2 else walk) for place, walk in enumerate(walks)]
    stamps = pa.array(np.tile(times, SERIES)).cast(schema.time.type)
    return pa.RecordBatch.from_arrays(
        [hosts, *others, stamps, *fields],
        names=["host", "region", "dc", "ts", *(field.name for field in schema.fields)],
    )


def prepare(root: Path, shape: str) -> None:
    """Write the files."""
    schema, random = make_schema(), np.random.default_rng(7)
    engine = open_engine(root)
    engine.create_region(REGION, DIRECTORY, schema)
    for file in range(FILES):
        engine.write(REGION, Batch.from_arrow(schema, make_batch(schema, times_of(shape, file), random))).result()
        engine.flush(REGION).result()
    assert len(engine.files(REGION)) == FILES
    engine.close()


def compact(root: Path) -> dict[str, float]:
    """Merge the files; return what that took."""
    engine = open_engine(root)
    rows = sum(file.rows for file in engine.files(REGION))
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    engine.compact(REGION).result()
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    (file,) = engine.files(REGION)
    engine.close()
    return {
        "rows": rows,
        "rows_left": file.rows,
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "rss_before": before.ru_maxrss * 1024,
        "rss": after.ru_maxrss * 1024,
    }


def main() -> Iterator[Measurement]:
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([sys.executable, "-m", __name__, "prepare", directory, shape], check=True)
            done = subprocess.run(
                [sys.executable, "-m", __name__, "compact", directory], check=True, capture_output=True, text=True
            )
        took = json.loads(done.stdout.splitlines()[-1])
        rate = took["rows"] / took["cpu_seconds"]
        print(
            f"  {rate / 1e6:.2f} M rows per CPU second (goal {ROWS_PER_CPU_SECOND_MIN / 1e6:.0f}),"
            f" peak {took['rss'] / 1e6:.0f} MB (goal {RSS_BYTES_MAX / 1e6:.0f}),"
            f" {took['rss_before'] / 1e6:.0f} MB before"
        )
        yield Measurement(f"merge 4 files, {shape}: CPU time", took["cpu_seconds"], took["rows"], "rows")
        yield Measurement(f"merge 4 files, {shape}: elapsed", took["seconds"], took["rows"], "rows")


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(Path(sys.argv[2]), sys.argv[3])
    else:
        print(json.dumps(compact(Path(sys.argv[2]))))
