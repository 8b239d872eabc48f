"""`merge_sorted` against sorting all rows plainly."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import merge_sorted

# Rank, time, sequence and operation of a row.
Row = tuple[int, int, int, int]
TIMES = st.integers(0, 6) | st.sampled_from([-(2**63), 2**63 - 1])
ROW = st.tuples(st.integers(0, 4), TIMES, st.integers(0, 5) | st.just(2**64 - 1), st.integers(0, 1))
SOURCE = st.tuples(st.lists(ROW, max_size=20).map(lambda rows: sorted(rows, key=lambda row: row[:3])), st.booleans())


def merge(sources: list[list[Row]], has_ops: list[bool], *, dedup: bool, keep_tombstones: bool) -> list[list[int]]:
    places, lengths, columns = [], [], []
    for rows in sources:
        stretches = [(rank, len(list(group))) for rank, group in groupby(rows, key=lambda row: row[0])]
        # A series without rows is one that a selection leaves out.
        stretches.append((9, 0))
        places.append(np.array([rank for rank, _ in stretches], np.int64))
        lengths.append(np.array([length for _, length in stretches], np.int64))
        kinds = (np.uint32, np.int64, np.uint64, np.uint8)
        columns.append([np.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)])
    merged = merge_sorted(
        places,
        lengths,
        [column[1] for column in columns],
        [column[2] for column in columns],
        [column[3] if has else None for column, has in zip(columns, has_ops, strict=True)],
        dedup=dedup,
        keep_tombstones=keep_tombstones,
    )
    kinds = (pa.uint32(), pa.uint32(), pa.int64(), pa.uint64())
    return [pa.array(column, kind).to_pylist() for column, kind in zip(merged, kinds, strict=True)]


def reference(sources: list[list[Row]], *, dedup: bool, keep_tombstones: bool) -> list[list[int]]:
    rows = [(*row[:3], number, row[3]) for number, row in enumerate(row for source in sources for row in source)]
    rows.sort()
    if dedup:
        newest = {row[:2]: row for row in rows}
        rows = [row for row in newest.values() if keep_tombstones or not row[4]]
    return [[row[at] for row in rows] for at in (3, 0, 1, 2)]


@given(st.lists(SOURCE, max_size=5), st.booleans(), st.booleans())
def test_sorted_sources_are_merged_as_sorting_their_rows_would(sources: Any, dedup: bool, keep: bool) -> None:
    rows = [[row if has else (*row[:3], 0) for row in each] for each, has in sources]
    found = merge(rows, [has for _, has in sources], dedup=dedup, keep_tombstones=keep)
    assert found == reference(rows, dedup=dedup, keep_tombstones=keep)


@given(st.lists(SOURCE, min_size=1, max_size=5), st.booleans())
def test_sources_that_follow_each_other_in_time_are_merged_in_any_order(sources: Any, keep: bool) -> None:
    rows = [
        [(rank, number * 10 + time % 7, sequence, op if has else 0) for rank, time, sequence, op in each]
        for number, (each, has) in enumerate(sources)
    ]
    rows = [sorted(each, key=lambda row: row[:3]) for each in rows]
    for order in (rows, rows[::-1]):
        found = merge(order, [True] * len(order), dedup=True, keep_tombstones=keep)
        assert found == reference(order, dedup=True, keep_tombstones=keep)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"places": [1, 0]}, "the places do not ascend from 0"),
        ({"places": [-1, 0]}, "the places do not ascend from 0"),
        ({"places": [0, 2**32]}, "the places do not ascend from 0"),
        ({"places": [0]}, "1 places, but 2 lengths"),
        ({"lengths": [1, 1]}, "the lengths do not make up 3 rows"),
        ({"lengths": [4, -1]}, "the lengths do not make up 3 rows"),
        ({"sequences": [1]}, "sequences or ops are not as many as the 3 times"),
    ],
)
def test_columns_that_do_not_belong_together_are_refused(change: dict[str, list[int]], problem: str) -> None:
    given = {"places": [0, 1], "lengths": [2, 1], "times": [1, 2, 1], "sequences": [1, 2, 3]} | change
    kinds = {"sequences": np.uint64}
    columns: list[Any] = [[np.array(values, kinds.get(name, np.int64))] for name, values in given.items()]
    places, lengths, times, sequences = columns
    with pytest.raises(ValueError, match=problem):
        merge_sorted(places, lengths, times, sequences, [None], dedup=True, keep_tombstones=True)


def test_columns_of_another_type_are_refused() -> None:
    one = np.array([1], np.int64)
    with pytest.raises(BufferError):
        merge_sorted([one], [one], [one], [one], [None], dedup=True, keep_tombstones=True)
    with pytest.raises(ValueError, match="differ in number"):
        merge_sorted([one], [one], [one], [], [None], dedup=True, keep_tombstones=True)


def test_columns_may_begin_in_the_middle_of_a_word() -> None:
    raw = b"\x00" + np.array([3, 4], np.int64).tobytes()
    odd = np.frombuffer(raw, np.int64, 2, 1)
    assert not odd.flags.aligned
    place, length = np.array([7], np.int64), np.array([2], np.int64)
    merged = merge_sorted([place], [length], [odd], [odd.view(np.uint64)], [None], dedup=True, keep_tombstones=True)
    assert [pa.array(column).to_pylist() for column in merged] == [[0, 1], [7, 7], [3, 4], [3, 4]]
    with pytest.raises(ValueError, match="one stretch"):
        merge_sorted([place], [length], [np.arange(4)[::2]], [odd], [None], dedup=True, keep_tombstones=True)
