"""Raw rows become the run that sorting them plainly gives, whatever the pieces look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.sst.files import check_block, content_of
from tsdb.engine.rows.run import Rows, Run, sort_rows
from tsdb.engine.rows.series import SeriesOrder
from tsdb.model import ColumnId, OpType, RegionSchema, Semantic, SeriesTable, TimeRange

FIELDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "usage": (pa.float64(), st.floats(allow_nan=False)),
    "count": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int8(), st.integers(-128, 127)),
    "ok": (pa.bool_(), st.booleans()),
    "note": (pa.string(), st.text(max_size=3)),
}
SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("n", pa.int32(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        *((name, kind, Semantic.FIELD) for name, (kind, _) in FIELDS.items()),
    ]
)
IDS = {name: SCHEMA.by_name[name].id for name in FIELDS}
Tags = tuple[str | None, int | None]
TAGS = st.tuples(st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, -1, 7]))
TIMES = st.integers(0, 4) | st.sampled_from([-(2**63), 2**63 - 1])


def table_of(tags: list[Tags]) -> SeriesTable:
    columns = [pa.array([host for host, _ in tags], pa.string()), pa.array([n for _, n in tags], pa.int32())]
    return SeriesTable.of_tags(SCHEMA, columns, len(tags))


@st.composite
def pieces_of_rows(draw: st.DrawFn) -> list[Rows]:
    """Pieces as batches make them, one behind the other, or with sequences in any order; one of them has rows."""
    pieces, base = [], draw(st.integers(0, 2**40))
    for number in range(draw(st.integers(1, 5))):
        tags = draw(st.lists(TAGS, min_size=1, max_size=5, unique=True))
        rows = draw(st.integers(1 if number == 0 else 0, 12))
        index = draw(st.lists(st.integers(0, len(tags) - 1), min_size=rows, max_size=rows))
        times = draw(st.lists(TIMES, min_size=rows, max_size=rows))
        times = sorted(times) if draw(st.booleans()) else times
        op = draw(st.sampled_from([OpType.PUT, OpType.PUT, OpType.DELETE]))
        names = draw(st.lists(st.sampled_from(list(FIELDS)), unique=True)) if op is OpType.PUT else []
        fields = {}
        for name in names:
            kind, values = FIELDS[name]
            values = values if draw(st.booleans()) else st.none() | values
            fields[IDS[name]] = pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind)
        sequences: Any = base
        if draw(st.booleans()):
            each = st.just(base) if draw(st.booleans()) else st.integers(0, 2**64 - 1)
            sequences = np.array(draw(st.lists(each, min_size=rows, max_size=rows)), dtype=np.uint64)
        indices = np.array(index, dtype=np.uint32)
        pieces.append(Rows(table_of(tags), indices, np.array(times, dtype=np.int64), sequences, op, fields))
        base += rows
    return pieces


def key(tags: Tags) -> tuple[object, ...]:
    """Nulls first, then the value."""
    return tags[0] is not None, tags[0] or "", tags[1] is not None, tags[1] or 0


def plain_rows(pieces: list[Rows]) -> list[tuple[Tags, int, int, int, dict[ColumnId, Any]]]:
    """Tags, time, sequence, operation and fields of every row, in the order in which they came."""
    found: list[tuple[Tags, int, int, int, dict[ColumnId, Any]]] = []
    for piece in pieces:
        tags = list(zip(*(column.to_pylist() for column in piece.series.read_tags().columns), strict=True))
        columns = {column: values.to_pylist() for column, values in piece.fields.items()}
        for row, (at, time) in enumerate(zip(piece.series_index, piece.times.tolist(), strict=True)):
            sequence = piece.sequences + row if isinstance(piece.sequences, int) else int(piece.sequences[row])
            values = {column: columns[column][row] if column in columns else None for column in IDS.values()}
            found.append((tags[at], time, sequence, int(piece.op), values))
    return found


def check_run(run: Run, pieces: list[Rows], *, drop_overwritten: bool) -> None:
    rows = sorted(plain_rows(pieces), key=lambda row: (key(row[0]), row[1], row[2]))
    newest = list({row[:2]: row for row in rows}.values())
    expected = newest if drop_overwritten else rows
    content = content_of(run)
    read = {column: values.to_pylist() for column, values in content.fields.items()}
    found = [
        (content.tags[at], int(time), int(sequence), int(op), {column: read[column][at] for column in IDS.values()})
        for at, (time, sequence, op) in enumerate(zip(content.times, content.sequences, content.ops, strict=True))
    ]
    assert found == expected
    check_block(run)
    facts = run.facts
    assert (facts.rows, facts.is_unique) == (len(expected), drop_overwritten or len(newest) == len(rows))
    assert facts.time_range == TimeRange(min(row[1] for row in expected), max(row[1] for row in expected) + 1)
    sequences = [row[2] for row in expected]
    assert (facts.sequence_min, facts.sequence_max) == (min(sequences), max(sequences))
    assert facts.has_tombstones == any(row[3] for row in expected)


@given(pieces_of_rows(), st.booleans())
def test_pieces_become_the_run_that_sorting_their_rows_gives(pieces: list[Rows], drop_overwritten: bool) -> None:
    run = sort_rows(SCHEMA, pieces, drop_overwritten=drop_overwritten)
    check_run(run, pieces, drop_overwritten=drop_overwritten)


@given(st.lists(pieces_of_rows(), min_size=2, max_size=5))
def test_what_is_remembered_of_earlier_series_changes_no_run(piles: list[list[Rows]]) -> None:
    order = SeriesOrder()
    for pieces in piles:
        check_run(sort_rows(SCHEMA, pieces, drop_overwritten=True, series_order=order), pieces, drop_overwritten=True)


def rows_of(series: SeriesTable) -> Rows:
    index = np.arange(len(series), dtype=np.uint32)
    return Rows(series, index, np.zeros(len(series), dtype=np.int64), 1, OpType.PUT, {})


def test_series_that_are_all_known_share_one_table() -> None:
    order = SeriesOrder()
    tags: list[Tags] = [(f"h{number}", number) for number in range(10)]
    first, again = (
        sort_rows(SCHEMA, [rows_of(table_of(each))], drop_overwritten=True, series_order=order)
        for each in (tags, tags[::-1])
    )
    assert again.block.table is first.block.table
    part = sort_rows(SCHEMA, [rows_of(table_of(tags[3:5]))], drop_overwritten=True, series_order=order)
    assert part.block.table.tags.column("n").to_pylist() == [3, 4]


def test_a_few_new_series_are_remembered_beside_those_that_were_known() -> None:
    order = SeriesOrder()
    tags: list[Tags] = [(f"h{number}", number) for number in range(10)]
    order.rank([table_of(tags[:8])])
    table, _ = order.rank([table_of([*tags[1:8], tags[9]])])
    assert table.tags.column("n").to_pylist() == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    others: list[Tags] = [(f"x{number}", number) for number in range(10)]
    table, places = order.rank([table_of(others[::-1])])
    assert table.tags.column("host").to_pylist() == [host for host, _ in others]
    assert pa.array(places).to_pylist() == list(range(9, -1, -1))


def test_series_that_share_one_hash_have_ranks_of_their_own() -> None:
    one, two = table_of([("a", 1)]), table_of([("b", 2)])
    clash = SeriesTable(one.tsid, two.check, two.tags)
    order = SeriesOrder()
    for _ in range(2):
        table, places = order.rank([clash, one])
        assert pa.array(places).to_pylist() == [1, 0]
    assert table.tags.column("host").to_pylist() == ["a", "b"]


def test_a_row_of_a_series_that_its_piece_does_not_have_is_refused() -> None:
    rows = Rows(table_of([("a", 1)]), np.array([1], np.uint32), np.array([0], np.int64), 0, OpType.PUT, {})
    with pytest.raises(ValueError, match="a row names series 1, its piece has 1"):
        sort_rows(SCHEMA, [rows], drop_overwritten=True)
