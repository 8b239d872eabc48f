"""What very many series take in memory with both types of memtable, and how fast rows get in and out.

A million series with two tags report ten times, all of them before any of them reports again, in an order that is not
that of their tags; a row is a float with two decimals and an integer. Each type has a process of its own. Resident
memory is compared with that before the first row; freed memory that the allocator keeps counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks import Measurement
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.rows.partition_tree import PartitionTree, TreeOptions
from tsdb.engine.tuning import MemtableTuning
from tsdb.model import Batch, MemtableKind, RegionOptions, RegionSchema, Semantic, SeriesTable

SERIES = 1_000_000
ROUNDS = 10
BATCH = 10_000
WINDOW_TICKS = 1 << 40
SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("dc", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("usage", pa.float64(), Semantic.FIELD),
        ("count", pa.int64(), Semantic.FIELD),
    ]
)


def make_memtable(kind: MemtableKind) -> Memtable:
    tuning, options = MemtableTuning(), RegionOptions()
    if kind is MemtableKind.TIME_SERIES:
        return Memtable(SCHEMA, options, window_ticks=WINDOW_TICKS, tuning=tuning)
    caches = Caches.disabled()
    return PartitionTree(SCHEMA, options, window_ticks=WINDOW_TICKS, tuning=tuning, tree=TreeOptions(), caches=caches)


def batches() -> Iterator[Batch]:
    """Make every batch anew, as a parser does: what is not held is gone."""
    random = np.random.default_rng(1)
    order = random.permutation(SERIES)
    index = np.arange(BATCH, dtype=np.uint32)
    for step in range(ROUNDS):
        for first in range(0, SERIES, BATCH):
            chosen = order[first : first + BATCH].tolist()
            tags = [pa.array([f"host_{each}" for each in chosen]), pa.array([f"dc_{each % 20}" for each in chosen])]
            fields = {
                "usage": pa.array(np.round(random.random(BATCH) * 100, 2)),
                "count": pa.array(random.integers(0, 1000, BATCH)),
            }
            yield Batch(SeriesTable.of_tags(SCHEMA, tags, BATCH), index, np.full(BATCH, step * 10_000), fields)


def fill(memtable: Memtable) -> float:
    """Append everything; return the seconds that the memtable took for it."""
    seconds, sequence = 0.0, 1
    for batch in batches():
        nbytes = batch.series.nbytes + 3 * batch.times.nbytes + batch.series_index.nbytes
        started = time.perf_counter()
        memtable.append(batch, sequence, nbytes=nbytes)
        if memtable.needs_sorting:
            memtable.sort_pending()
        seconds += time.perf_counter() - started
        sequence += batch.rows
    return seconds


def read_all(memtable: Memtable) -> float:
    """Read a field of all rows, run by run; return the seconds."""
    column = SCHEMA.by_name["usage"].id
    started = time.perf_counter()
    for runs in memtable.runs().values():
        for run in runs:
            reader = run.passing_reader()
            numbers = range(len(reader.piece_offsets) - 1)
            for number in numbers:
                reader.pieces([number], [column])
    return time.perf_counter() - started


def find_series(memtable: Memtable) -> float:
    """Read the series of all runs with their tags, as a query by tags does first; return the seconds."""
    started = time.perf_counter()
    for runs in memtable.runs().values():
        for run in runs:
            run.block.table.read_tags()
    return time.perf_counter() - started


def resident_bytes() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def run_child(kind: MemtableKind) -> None:
    for _ in zip(batches(), range(3), strict=False):
        pass  # what is imported and allocated once
    before = resident_bytes()
    memtable = make_memtable(kind)
    seconds = fill(memtable)
    pa.default_memory_pool().release_unused()
    found = {"write": seconds, "charged": memtable.nbytes, "resident": resident_bytes() - before}
    found |= {"read": read_all(memtable), "series": find_series(memtable)}
    print(json.dumps(found))


def main() -> Iterator[Measurement]:
    rows = SERIES * ROUNDS
    for kind in MemtableKind:
        command = [sys.executable, "-c", f"from benchmarks.engine.memtable import *; run_child(MemtableKind('{kind}'))"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        held = f"{found['charged'] / 1e6:.0f} MB charged, {found['resident'] / 1e6:.0f} MB resident"
        yield Measurement(f"{kind}: write, {held}", found["write"], rows, "rows")
        yield Measurement(f"{kind}: read a field of all rows", found["read"], rows, "rows")
        yield Measurement(f"{kind}: read the tags of all runs", found["series"], rows, "rows")
