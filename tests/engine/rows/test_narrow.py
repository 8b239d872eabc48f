"""Integers of 64 bits are held in narrower types, and read as they were written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scan.regions import make_schema
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.rows.narrow import WIDE, concat_held, narrowed, widened
from tsdb.engine.rows.run import Run
from tsdb.engine.rows.slices import Slices
from tsdb.engine.tuning import MemtableTuning
from tsdb.model import Batch, RegionOptions

SCHEMA = make_schema()
NUMBER = SCHEMA.by_name["n"].id
INTEGERS = st.one_of(*(st.integers(-(1 << bits), (1 << bits) - 1) for bits in (3, 7, 15, 31, 63)))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], pa.int8()),
        ([None, None], pa.int8()),
        ([-128, None, 127], pa.int8()),
        ([128], pa.int16()),
        ([-129], pa.int16()),
        ([1 << 15], pa.int32()),
        ([1 << 31], pa.int64()),
        ([-(1 << 63), (1 << 63) - 1], pa.int64()),
    ],
)
def test_the_narrowest_type_with_room_for_all_is_taken(values: list[int | None], kind: pa.DataType) -> None:
    held = narrowed(pa.array(values, WIDE))
    assert held.type == kind
    assert held.to_pylist() == values


@given(st.lists(st.lists(st.none() | INTEGERS, max_size=20), min_size=1, max_size=5))
def test_what_is_held_narrow_is_read_as_it_was(parts: list[list[int | None]]) -> None:
    whole = concat_held([narrowed(pa.array(part, WIDE)) for part in parts])
    assert widened(whole, WIDE).equals(pa.array([value for part in parts for value in part], WIDE))


@pytest.mark.parametrize("kind", [pa.float64(), pa.uint64(), pa.string(), pa.timestamp("ns")])
def test_other_types_are_left_alone(kind: pa.DataType) -> None:
    values = pa.array([None], kind)
    assert narrowed(values) is values


def _write(memtable: Memtable, first: int, numbers: list[int]) -> None:
    rows = len(numbers)
    columns = {"host": ["a"] * rows, "zone": [1] * rows, "v": [0.5] * rows, "n": numbers}
    columns |= {"s": ["x"] * rows, "b": [None] * rows, "ts": list(range(first, first + rows))}
    arrays = {column.name: pa.array(columns[column.name], column.type) for column in SCHEMA.columns}
    memtable.append(Batch.from_arrow(SCHEMA, pa.record_batch(arrays)), first, nbytes=100 * rows)


def _only_run(memtable: Memtable) -> Run:
    ((run,),) = memtable.runs().values()
    return run


def test_a_run_holds_small_integers_in_one_byte_and_reads_them_in_eight() -> None:
    memtable = Memtable(SCHEMA, RegionOptions(), window_ticks=1 << 40, tuning=MemtableTuning())
    _write(memtable, 0, list(range(100)))
    run = _only_run(memtable)
    assert run.stored_type(NUMBER) == WIDE
    numbers = run.field(NUMBER, Slices.one(3, 5))
    assert numbers is not None
    assert numbers.equals(pa.array([3, 4], WIDE))
    assert run.pieces([0], [NUMBER])[0][0].type == WIDE
    ((held,),) = run.pieces_as_held([0], [NUMBER])
    assert held.type == pa.int8()
    assert run.pieces_at_hand([0], [NUMBER]) == [[held]]


def test_runs_with_integers_of_different_widths_are_merged() -> None:
    tuning = MemtableTuning(freeze_rows=4, tier_runs=4, runs_max=4)
    memtable = Memtable(SCHEMA, RegionOptions(), window_ticks=1 << 40, tuning=tuning)
    for number, values in enumerate(([1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [1 << 40, -5, 6, 7])):
        _write(memtable, 4 * number, values)
        memtable.sort_pending()
    ((_, _, merged),) = memtable.runs().values()
    rows = Slices.one(0, 8)
    assert np.array_equal(merged.times(rows), np.arange(8, 16))
    assert np.array_equal(merged.sequences(rows), np.arange(8, 16))
    numbers = merged.field(NUMBER, rows)
    assert numbers is not None
    assert numbers.equals(pa.array([1, 2, 3, 4, 1 << 40, -5, 6, 7], WIDE))
