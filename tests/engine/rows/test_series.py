"""Series blocks, their union, and row ranges."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tsdb.engine.rows.series import SeriesBlock, conform_series, union_ordered, union_series
from tsdb.engine.rows.slices import Slices
from tsdb.model import AddColumn, RegionSchema, RenameColumn, Semantic, SeriesTable, alter

SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("n", pa.int32(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
    ]
)
PAIR = st.tuples(st.sampled_from([None, "", "a", "b", "zz"]), st.sampled_from([None, -1, 0, 7]))


def table(pairs: list[tuple[str | None, int | None]], schema: RegionSchema = SCHEMA) -> SeriesTable:
    columns = [pa.array([pair[0] for pair in pairs], pa.string()), pa.array([pair[1] for pair in pairs], pa.int32())]
    return SeriesTable.of_tags(schema, columns, len(pairs))


def key(pair: tuple[str | None, int | None]) -> tuple[tuple[bool, str], tuple[bool, int]]:
    """Nulls first, then the value."""
    return (pair[0] is not None, pair[0] or ""), (pair[1] is not None, pair[1] or 0)


@given(st.lists(st.lists(PAIR, unique=True, max_size=8), min_size=1, max_size=5), st.booleans())
def test_union_is_ordered_by_tags_and_every_set_finds_itself_in_it(
    sets: list[list[tuple[str | None, int | None]]], are_ordered: bool
) -> None:
    if are_ordered:
        sets = [sorted(pairs, key=key) for pairs in sets]
    union, places = (union_ordered if are_ordered else union_series)([table(pairs) for pairs in sets])
    expected = sorted({pair for pairs in sets for pair in pairs}, key=key)
    rows = [(row["host"], row["n"]) for row in union.read_tags().to_pylist()]
    assert rows == expected
    for pairs, place in zip(sets, places, strict=True):
        assert [rows[at] for at in place] == pairs
    again = table(expected)
    assert np.array_equal(union.tsid, again.tsid)
    assert np.array_equal(union.check, again.check)


def test_series_that_share_a_hash_stay_apart() -> None:
    one, two = table([("a", 1)]), table([("b", 2)])
    clash = SeriesTable(one.tsid, two.check, two.tags)
    union, places = union_series([one, clash])
    assert [row["host"] for row in union.read_tags().to_pylist()] == ["a", "b"]
    assert [place.tolist() for place in places] == [[0], [1]]


def test_block_lists_the_series_that_have_rows() -> None:
    block, present = SeriesBlock.of_sorted(
        table([("a", 1), ("b", 2), ("c", 3)]),
        np.array([0, 0, 2], dtype=np.uint32),
        np.array([5, 9, 1], dtype=np.int64),
    )
    assert present.tolist() == [0, 2]
    assert block.offsets.tolist() == [0, 2, 3]
    assert (block.time_min.tolist(), block.time_max.tolist()) == ([5, 1], [9, 1])
    assert [row["host"] for row in block.table.tags.to_pylist()] == ["a", "c"]


def test_older_series_are_shown_under_the_current_names_with_defaults() -> None:
    current = alter(
        SCHEMA, [RenameColumn("host", "machine"), AddColumn("zone", pa.string(), Semantic.TAG, default="x")]
    )
    shown = conform_series(table([("a", 1)]), SCHEMA, current)
    assert shown.read_tags().to_pylist() == [{"machine": "a", "n": 1, "zone": "x"}]
    columns = [pa.array(["a"]), pa.array([1], pa.int32()), pa.array(["x"])]
    assert np.array_equal(shown.tsid, SeriesTable.of_tags(current, columns, 1).tsid)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=60))
def test_slices_read_what_their_positions_say(steps: list[tuple[int, int]]) -> None:
    starts, stops, at = [], [], 0
    for gap, length in steps:
        starts.append(at + gap)
        stops.append(at + gap + length)
        at += gap + length
    slices = Slices(np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64))
    values = np.arange(at + 1) * 3
    expected = [value for start, stop in zip(starts, stops, strict=True) for value in values[start:stop]]
    assert slices.take(values).tolist() == expected
    assert slices.take_arrow(pa.array(values)).to_pylist() == expected
    assert values[slices.positions()].tolist() == expected
    assert values[slices.coalesce().positions()].tolist() == expected
    assert slices.rows == len(expected)
