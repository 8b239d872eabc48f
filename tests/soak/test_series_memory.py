"""A million series in a memtable of type `partition_tree` take at most 60 % of what they take in one of `time_series`:
by what is charged to the write buffer, and by what the process holds.

Runs with `TSDB_SOAK_MINUTES` set; each memtable is filled in a process of its own.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pytest

from tests.engine.harness import SCHEMA
from tsdb.engine import TreeOptions
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.rows.partition_tree import PartitionTree
from tsdb.engine.tuning import MemtableTuning
from tsdb.model import Batch, MemtableKind, RegionOptions, SeriesTable
from tsdb.processes.allocator import give_back
from tsdb.processes.resident import resident_bytes

IS_LONG = bool(float(os.environ.get("TSDB_SOAK_MINUTES", "0")))
SERIES, ROUNDS, BATCH = 1_000_000, 5, 10_000
SHARE_MAX = 0.6
SECONDS_MAX = 1800

pytestmark = [
    pytest.mark.timeout(2 * SECONDS_MAX),
    pytest.mark.skipif(not IS_LONG, reason="takes minutes; TSDB_SOAK_MINUTES is not set"),
]


class Taken(NamedTuple):
    charged_bytes: int
    resident_bytes: int


def test_a_million_series_take_little_memory() -> None:
    plain, tree = (_measure(kind) for kind in (MemtableKind.TIME_SERIES, MemtableKind.PARTITION_TREE))
    for kind, taken in (("time_series", plain), ("partition_tree", tree)):
        print(f"{kind}: {taken.charged_bytes >> 20} MiB charged, {taken.resident_bytes >> 20} MiB resident")
    assert tree.charged_bytes <= SHARE_MAX * plain.charged_bytes
    assert tree.resident_bytes <= SHARE_MAX * plain.resident_bytes


def _measure(kind: MemtableKind) -> Taken:
    command = [sys.executable, "-c", f"from {__name__} import fill; fill({kind.value!r})"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    return Taken(*orjson.loads(done.stdout))


def fill(kind: str) -> None:
    """Fill a memtable in this process, and print what it takes."""
    memtable = _memtable(MemtableKind(kind))
    random = np.random.default_rng(1)
    order = random.permutation(SERIES)
    tags = [pa.array([f"host_{number}" for number in order]), pa.array([f"dc_{number % 20}" for number in order])]
    table = SeriesTable.of_tags(SCHEMA, tags, SERIES)
    del tags, order
    before, sequence = _held(), 1
    for batch in _batches(table, random):
        nbytes = batch.series.nbytes + batch.times.nbytes * 2 + sum(values.nbytes for values in batch.fields.values())
        memtable.append(batch, sequence, nbytes=nbytes)
        sequence += batch.rows
        if memtable.needs_sorting:
            memtable.sort_pending()
    print(orjson.dumps([memtable.nbytes, _held() - before]).decode())


def _batches(table: SeriesTable, random: np.random.Generator) -> Iterator[Batch]:
    for step in range(ROUNDS):
        for first in range(0, SERIES, BATCH):
            series = table.take(np.arange(first, first + BATCH))
            fields = {"a": pa.array(random.random(BATCH)), "b": pa.array(random.integers(0, 1000, BATCH))}
            yield Batch(series, np.arange(BATCH, dtype=np.uint32), np.full(BATCH, step * 10_000), fields)


def _memtable(kind: MemtableKind) -> Memtable:
    if kind is MemtableKind.TIME_SERIES:
        return Memtable(SCHEMA, RegionOptions(), window_ticks=1 << 40, tuning=MemtableTuning())
    return PartitionTree(
        SCHEMA,
        RegionOptions(),
        window_ticks=1 << 40,
        tuning=MemtableTuning(),
        tree=TreeOptions(),
        caches=Caches.disabled(),
    )


def _held() -> int:
    gc.collect()
    give_back()
    return resident_bytes()
