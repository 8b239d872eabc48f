"""`merge_dedup` against a definition that keeps the history of each key in a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import merge_dedup

Mode = Literal["append", "last_row", "last_non_null"]
DELETE = 1


@dataclass
class Row:
    """One row; `valid` says for each field whether it has a value."""

    series: int
    ts: int
    op: int = 0
    valid: list[bool] = field(default_factory=list)


def merge(
    rows: list[Row], order: list[int], *, mode: Mode, keep_tombstones: bool, wide: bool = True
) -> tuple[list[int], list[list[int | None]] | None]:
    fields = len(rows[0].valid) if rows else 0
    winners, sources = merge_dedup(
        pa.array([row.series for row in rows], pa.uint64() if wide else pa.uint32()),
        pa.array([row.ts for row in rows], pa.int64()),
        pa.array([row.op for row in rows], pa.uint8()),
        pa.array(order, pa.uint32()),
        mode=mode,
        keep_tombstones=keep_tombstones,
        valid=[pa.array([row.valid[index] for row in rows], pa.bool_()) for index in range(fields)],
    )
    rows_left = cast("list[int]", pa.array(winners, pa.uint32()).to_pylist())
    return rows_left, None if sources is None else [pa.array(source, pa.int32()).to_pylist() for source in sources]


def reference(
    rows: list[Row], order: list[int], *, mode: Mode, keep_tombstones: bool
) -> tuple[list[int], list[list[int | None]] | None]:
    if mode == "append":
        return order, None
    winners: list[int] = []
    histories: list[list[int]] = []
    for _, group in groupby(order, key=lambda row: (rows[row].series, rows[row].ts)):
        history: list[int] = []
        tombstone: int | None = None
        newest = -1
        for newest in group:
            if rows[newest].op == DELETE:
                history, tombstone = [], newest
            else:
                history.append(newest)
        is_kept = keep_tombstones and (mode == "last_non_null" or not history)
        if tombstone is not None and is_kept:
            winners.append(tombstone)
            histories.append([])
        if history:
            winners.append(newest)
            histories.append(history)
    if mode == "last_row":
        return winners, None
    fields = len(rows[0].valid) if rows else 0
    return winners, [
        [next((row for row in reversed(history) if rows[row].valid[index]), None) for history in histories]
        for index in range(fields)
    ]


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Row], list[int]]:
    """Rows in any order, and the order that sorts them; their numbers stand for their sequences."""
    fields = draw(st.integers(0, 3))
    valid = st.lists(st.booleans(), min_size=fields, max_size=fields)
    row = st.builds(Row, st.integers(0, 2), st.integers(-1, 2), st.sampled_from([0, 0, 0, DELETE]), valid)
    rows = draw(st.lists(row, max_size=30))
    return rows, sorted(range(len(rows)), key=lambda index: (rows[index].series, rows[index].ts, index))


@given(batches(), st.sampled_from(["append", "last_row", "last_non_null"]), st.booleans(), st.booleans())
def test_the_kernel_agrees_with_the_reference(
    batch: tuple[list[Row], list[int]], mode: Mode, keep_tombstones: bool, wide: bool
) -> None:
    rows, order = batch
    expected = reference(rows, order, mode=mode, keep_tombstones=keep_tombstones)
    assert merge(rows, order, mode=mode, keep_tombstones=keep_tombstones, wide=wide) == expected


@given(batches(), st.integers(0, 30), st.sampled_from(["last_row", "last_non_null"]))
def test_merging_in_two_steps_that_keep_tombstones_shows_the_same_rows_as_merging_at_once(
    batch: tuple[list[Row], list[int]], cut: int, mode: Mode
) -> None:
    rows, order = batch
    at_once = visible_values(rows, order, mode)
    # The newer rows are merged among themselves, as in a compaction that leaves older files alone.
    newer = [row for row in order if row >= cut]
    winners, sources = merge(rows, newer, mode=mode, keep_tombstones=True)
    merged = [rows[row] for row in sorted(row for row in order if row < cut)]
    origins = [[row] * len(rows[row].valid) for row in range(min(cut, len(rows)))]
    by_sequence = sorted(range(len(winners)), key=lambda index: winners[index])
    for index in by_sequence:
        winner = rows[winners[index]]
        taken = [source[index] for source in sources] if sources else list(row_origins(rows, winners[index]))
        merged.append(Row(winner.series, winner.ts, winner.op, [row is not None for row in taken]))
        origins.append([-1 if row is None else row for row in taken])
    again = sorted(range(len(merged)), key=lambda index: (merged[index].series, merged[index].ts, index))
    assert visible_values(merged, again, mode, origins) == at_once


def row_origins(rows: list[Row], row: int) -> list[int | None]:
    return [row if is_valid else None for is_valid in rows[row].valid]


def visible_values(
    rows: list[Row], order: list[int], mode: Mode, origins: list[list[int]] | None = None
) -> dict[tuple[int, int], list[int | None]]:
    """For each key that remains, the original row that each field's value comes from."""
    winners, sources = merge(rows, order, mode=mode, keep_tombstones=False)
    found: dict[tuple[int, int], list[int | None]] = {}
    for index, winner in enumerate(winners):
        taken = [source[index] for source in sources] if sources is not None else row_origins(rows, winner)
        if origins is not None:
            taken = [None if row is None else origins[row][place] for place, row in enumerate(taken)]
        found[rows[winner].series, rows[winner].ts] = taken
    return found


HISTORY = [
    Row(1, 10, 0, [True, True]),
    Row(1, 10, 0, [True, False]),
    Row(1, 20, 0, [True, True]),
    Row(1, 20, DELETE, [False, False]),
    Row(2, 10, 0, [True, True]),
    Row(2, 10, DELETE, [False, False]),
    Row(2, 10, 0, [False, True]),
]
IN_ORDER = list(range(len(HISTORY)))


def test_last_row_keeps_the_newest_row_and_drops_deleted_keys() -> None:
    assert merge(HISTORY, IN_ORDER, mode="last_row", keep_tombstones=False) == ([1, 6], None)


def test_last_row_can_keep_the_tombstone_of_a_deleted_key() -> None:
    assert merge(HISTORY, IN_ORDER, mode="last_row", keep_tombstones=True) == ([1, 3, 6], None)


def test_last_non_null_takes_each_field_from_its_newest_value_behind_the_last_delete() -> None:
    winners, sources = merge(HISTORY, IN_ORDER, mode="last_non_null", keep_tombstones=False)
    assert winners == [1, 6]
    assert sources == [[1, None], [0, 6]]


def test_last_non_null_keeps_a_delete_ahead_of_the_row_that_was_put_after_it() -> None:
    winners, sources = merge(HISTORY, IN_ORDER, mode="last_non_null", keep_tombstones=True)
    assert winners == [1, 3, 5, 6]
    assert sources == [[1, None, None, None], [0, None, None, 6]]


def test_append_keeps_every_row_in_its_order() -> None:
    assert merge(HISTORY, IN_ORDER, mode="append", keep_tombstones=False) == (IN_ORDER, None)


def test_the_slot_of_an_absent_source_holds_minus_one() -> None:
    series, ts = pa.array([1, 2], pa.uint32()), pa.array([1, 1])
    order = pa.array([0, 1], pa.uint32())
    valid = [pa.array([False, True])]
    _, sources = merge_dedup(series, ts, None, order, mode="last_non_null", valid=valid)
    assert sources is not None
    slots = pa.array(sources[0], pa.int32()).buffers()[1]
    assert slots is not None
    assert list(memoryview(slots).cast("i")[:2]) == [-1, 1]


def test_a_field_without_nulls_and_rows_without_operations_can_be_left_out() -> None:
    series, ts = pa.array([1, 1, 1], pa.uint64()), pa.array([5, 5, 6])
    order = pa.array([0, 1, 2], pa.uint32())
    winners, sources = merge_dedup(series, ts, None, order, mode="last_non_null", valid=[None])
    assert sources is not None
    assert pa.array(winners, pa.uint32()).to_pylist() == [1, 2]
    assert pa.array(sources[0], pa.int32()).to_pylist() == [1, 2]
    assert pa.array(sources[0], pa.int32()).null_count == 0


def test_slices_and_orders_of_some_rows_only_are_understood() -> None:
    series, ts = pa.array([9, 1, 1, 2], pa.uint32())[1:], pa.array([0, 5, 5, 5])[1:]
    op, order = pa.array([0, 0, 0, 1], pa.uint8())[1:], pa.array([7, 0, 2], pa.uint32())[1:]
    valid = [pa.array([True, False, True, True])[1:]]
    winners, sources = merge_dedup(series, ts, op, order, mode="last_non_null", keep_tombstones=True, valid=valid)
    assert sources is not None
    assert pa.array(winners, pa.uint32()).to_pylist() == [0, 2]
    assert pa.array(sources[0], pa.int32()).to_pylist() == [None, None]


def test_no_rows_leave_no_rows() -> None:
    for mode in ("append", "last_row", "last_non_null"):
        winners, _ = merge([], [], mode=mode, keep_tombstones=True)
        assert winners == []


def test_wrong_arguments_are_refused() -> None:
    series, ts, op = pa.array([1, 2], pa.uint32()), pa.array([1, 1]), pa.array([0, 0], pa.uint8())
    order = pa.array([0, 1], pa.uint32())

    def refused(error: type[Exception], match: str, **changed: Any) -> None:
        arguments: dict[str, Any] = {"series": series, "ts": ts, "op": op, "order": order, "mode": "last_row"}
        with pytest.raises(error, match=match):
            merge_dedup(**{**arguments, **changed})

    refused(ValueError, 'mode is "newest", expected', mode="newest")
    refused(ValueError, "order names row 2, but there are 2 rows", order=pa.array([0, 2], pa.uint32()))
    refused(ValueError, "order has 3 positions for 2 rows", order=pa.array([0, 0, 1], pa.uint32()))
    refused(ValueError, "order: position 1 has a lesser series and ts", order=pa.array([1, 0], pa.uint32()))
    refused(TypeError, "order: expected an array of UInt32, received Int64", order=ts)
    refused(ValueError, "op: row 1 is 7, expected 0", op=pa.array([0, 7], pa.uint8()))
    refused(ValueError, "op has 1 rows, but series has 2", op=op[1:])
    refused(ValueError, "ts has 1 rows, but series has 2", ts=ts[1:])
    refused(TypeError, "valid: expected arrays of Boolean, received Int64", valid=[ts])
    refused(ValueError, "valid has 1 rows, but series has 2", valid=[pa.array([True])])
    refused(ValueError, "valid: row 1 is null", valid=[pa.array([True, None])])
