"""Leaving out rows that were refused."""

from __future__ import annotations

from tsdb.ingest import Rejection, TableRows, drop_rejected
from tsdb.ingest._builder import RowsBuilder
from tsdb.model import DataType, Kind


def _rows(table: str = "t") -> TableRows:
    """Four rows at places 10 to 13; `n` has values at 10 and 12, the tag `only` belongs to the row at 11."""
    builder = RowsBuilder(table, "ms", {"v": DataType(Kind.FLOAT64), "n": DataType(Kind.INT64)})
    for place in range(10, 14):
        tags = (("h", "a"), ("only", "x")) if place == 11 else (("h", "a"),)
        values: dict[str, object] = {"v": 1.0} | ({"n": place} if place % 2 == 0 else {})
        builder.add(builder.series(tags), place, values, place=place)
    return builder.build()


def _left(rejection: Rejection) -> tuple[list[int], list[int]]:
    left, reasons = drop_rejected([_rows()], [rejection])
    kept = [] if not left else left[0].times.tolist()
    return kept, sorted(reasons)


def test_a_rejection_without_a_place_takes_the_whole_table() -> None:
    assert _left(Rejection("t", "no", rows=4)) == ([], [10, 11, 12, 13])


def test_a_rejection_of_all_rows_takes_the_whole_table_although_it_names_the_first() -> None:
    assert _left(Rejection("t", "no", place=10, rows=4)) == ([], [10, 11, 12, 13])


def test_a_rejection_of_a_column_takes_the_rows_that_have_it() -> None:
    assert _left(Rejection("t", "no", place=10, column="n", rows=2)) == ([11, 13], [10, 12])


def test_a_rejection_whose_rows_cannot_be_known_takes_only_its_place() -> None:
    assert _left(Rejection("t", "no", place=12, column="tsdb_timestamp", rows=3)) == ([10, 11, 13], [12])


def test_a_series_without_rows_leaves_with_its_tags() -> None:
    left, _ = drop_rejected([_rows()], [Rejection("t", "no", place=11, column="only")])
    assert left[0].read_tags().to_pylist() == [{"h": "a", "only": None}]
    assert left[0].series_index.tolist() == [0, 0, 0]
    assert left[0].fields["n"].to_pylist() == [10, 12, None]


def test_other_tables_are_not_touched() -> None:
    other = _rows("u")
    left, reasons = drop_rejected([_rows(), other], [Rejection("t", "no", rows=4)])
    assert left == [other]
    assert set(reasons) == {10, 11, 12, 13}
