"""Memtables of both types under many small writes: few runs, few arrays, and all that they take is charged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.scan.regions import make_schema
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.rows.partition_tree import PartitionTree, TreeOptions
from tsdb.engine.tuning import ARRAY_BYTES, MemtableTuning
from tsdb.model import Batch, RegionOptions

SCHEMA = make_schema()
COLUMNS = len(SCHEMA.columns)
TUNING = MemtableTuning()
WINDOW = 1 << 40
ROWS = 300


def _one_row(number: int, time: int) -> Batch:
    columns: dict[str, Any] = {
        "host": [f"h{number % 5}"],
        "zone": [number % 3],
        "v": [number / 2],
        "n": [number],
        "s": [f"text {number}"],
        "b": [None],
        "ts": [time],
    }
    types = {column.name: column.type for column in SCHEMA.columns}
    return Batch.from_arrow(SCHEMA, pa.record_batch({name: pa.array(columns[name], types[name]) for name in types}))


def time_series(on_bytes: Callable[[int], None] = lambda delta: None) -> Memtable:
    return Memtable(SCHEMA, RegionOptions(), window_ticks=WINDOW, tuning=TUNING, on_bytes=on_bytes)


def partition_tree(on_bytes: Callable[[int], None] = lambda delta: None) -> Memtable:
    return PartitionTree(
        SCHEMA,
        RegionOptions(),
        window_ticks=WINDOW,
        tuning=TUNING,
        tree=TreeOptions(shard_keys=4),
        caches=Caches.disabled(),
        on_bytes=on_bytes,
    )


both_types = pytest.mark.parametrize("make", [time_series, partition_tree])


def _runs(memtable: Memtable) -> int:
    return sum(len(runs) for runs in memtable.runs().values())


def _rows(memtable: Memtable) -> int:
    return sum(run.facts.rows for runs in memtable.runs().values() for run in runs)


@both_types
@pytest.mark.parametrize("is_in_order", [True, False])
def test_reads_between_small_writes_leave_few_runs(make: Callable[[], Memtable], is_in_order: bool) -> None:
    memtable = make()
    most = merged = 0
    for number in range(ROWS):
        memtable.append(_one_row(number, number if is_in_order else number * 7919 % ROWS), number, nbytes=100)
        most = max(most, _runs(memtable))
        if memtable.needs_sorting:
            memtable.sort_pending()
            merged += 1
    assert most <= 16, "as many as the number of rows has digits in base two, and those that wait for a merge"
    assert merged <= ROWS // TUNING.tier_runs + 1
    assert _rows(memtable) == ROWS
    sequences = sorted(
        int(number) for runs in memtable.runs().values() for run in runs for number in run.decoded()._sequences.tolist()
    )
    assert sequences == list(range(ROWS))


@both_types
def test_small_writes_that_nobody_reads_are_sorted_before_their_arrays_take_much(make: Callable[[], Memtable]) -> None:
    memtable = make()
    for number in range(1500):
        memtable.append(_one_row(number, number), number, nbytes=100)
        if memtable.needs_sorting:
            memtable.sort_pending()
            assert not memtable.needs_sorting
        assert sum(memtable._raw_arrays.values()) * ARRAY_BYTES < TUNING.pile_bytes
    assert _rows(memtable) == 1500


@both_types
def test_what_arrays_take_besides_their_values_is_charged_until_they_are_one(
    make: Callable[[Callable[[int], None]], Memtable],
) -> None:
    charged: list[int] = []
    memtable = make(charged.append)
    for number in range(100):
        memtable.append(_one_row(number, number), number, nbytes=100)
    assert sum(charged) == memtable.nbytes
    assert memtable.nbytes > 100 * (COLUMNS - 1) * ARRAY_BYTES
    assert _runs(memtable) == 1
    assert sum(charged) == memtable.nbytes
    assert memtable.nbytes < 100 * COLUMNS * 64
    memtable.release()
    assert sum(charged) == 0
