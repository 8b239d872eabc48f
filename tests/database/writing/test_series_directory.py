"""The directory of known series: places stay, whatever is added, joined or forgotten."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from tsdb.catalog import Catalog
from tsdb.database.writing.region_series import RegionSeries
from tsdb.database.writing.series_directory import SeriesDirectory
from tsdb.engine.entry import decode_batch, encode_batch
from tsdb.engine.log import FrameKind
from tsdb.metric import make_series
from tsdb.model import (
    METRIC_LABELS,
    METRIC_TABLE_ID,
    Batch,
    Column,
    ColumnId,
    RegionId,
    RegionSchema,
    Semantic,
    SeriesTable,
    TableInfo,
)

Tags = list[tuple[int, str]]


def make_schema() -> RegionSchema:
    columns = (
        Column(ColumnId(0), METRIC_TABLE_ID, pa.uint32(), Semantic.TAG),
        Column(ColumnId(1), METRIC_LABELS, pa.string(), Semantic.TAG),
        Column(ColumnId(2), "ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        Column(ColumnId(3), "v", pa.float64(), Semantic.FIELD),
    )
    return RegionSchema(columns, 0, 4)


def make_table(tags: Tags) -> SeriesTable:
    owners = pa.array([owner for owner, _ in tags], pa.uint32())
    return make_series(make_schema(), owners, pa.array([labels for _, labels in tags]))


def read_tags(table: SeriesTable) -> Tags:
    return [(row[METRIC_TABLE_ID], row[METRIC_LABELS]) for row in table.read_tags().to_pylist()]


def fill(series: RegionSeries, sizes: list[int]) -> Tags:
    """Add series, of which three tables have the same labels each time."""
    tags: Tags = []
    for size in sizes:
        added = [(1024 + at % 3, f"h{len(tags) + at // 3}") for at in range(size)]
        assert series.add(make_table(added)) == len(tags)
        tags += added
    assert len(series) == len(tags)
    return tags


@pytest.mark.parametrize("rounds", [1, 20])
def test_series_are_found_at_their_places_whatever_was_added(rounds: int) -> None:
    series = RegionSeries(RegionId(1), make_schema())
    tags = fill(series, [100, 10, 40, 3, 1, 30])
    places = np.random.default_rng(7).permutation(len(tags))[:50].astype(np.uint32)
    for _ in range(rounds):
        taken = series.take(places)
        assert read_tags(taken) == [tags[place] for place in places]
        plain = make_table(read_tags(taken))
        assert taken.tsid.tolist() == plain.tsid.tolist()
        assert taken.check.tolist() == plain.check.tolist()
        assert taken.take_tags(np.array([3, 1])).equals(plain.read_tags().take(pa.array([3, 1])))
    assert series.take(places[:0]).read_tags().num_rows == 0


@pytest.mark.parametrize("count", [1, 50, 800, 3000])
def test_what_the_log_holds_of_known_series_is_read_back(count: int) -> None:
    series, schema = RegionSeries(RegionId(1), make_schema()), make_schema()
    tags = fill(series, [count])
    times = np.arange(count)
    values = {"v": pa.array(times.astype(np.float64))}
    payload = encode_batch(
        schema, Batch(series.take(times[::-1].astype(np.uint32)), times.astype(np.uint32), times, values)
    )
    raw = payload.stored
    if payload.raw_bytes != payload.size_bytes:
        raw = pa.decompress(raw, decompressed_size=payload.raw_bytes, codec="lz4_raw")
    decoded = decode_batch(schema, pa.py_buffer(raw), FrameKind.DATA, version=0)
    assert read_tags(decoded.series) == tags[::-1]
    assert decoded.series.tsid.tolist() == make_table(tags[::-1]).tsid.tolist()


class _Catalog:
    """A catalog of tables that can be looked up."""

    def __init__(self, *tables: TableInfo) -> None:
        self.state = object()
        self.tables = {(table.database, table.name): table for table in tables}

    def find_table(self, database: str, name: str) -> TableInfo | None:
        return self.tables.get((database, name))


def test_a_number_that_was_never_entered_is_not_known() -> None:
    found, unknown = SeriesDirectory().find(np.array([0, 5], np.uint32), cast(Catalog, _Catalog()))
    assert found == []
    assert unknown.tolist() == [0, 1]


def test_series_are_found_until_their_table_is_another() -> None:
    one, two = TableInfo(1024, "public", "one", ()), TableInfo(1024, "public", "two", ())
    catalog, directory = _Catalog(one, two), SeriesDirectory()
    schema = make_schema()
    series = directory.region(RegionId(1), schema)
    numbers = np.array([7, 3, 5], np.uint32)
    made = make_table([(1, "a"), (1, "b"), (2, "c")])
    directory.enter(series, numbers, made, [one, two], np.array([0, 0, 1]))

    def find(*wanted: int) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
        found, unknown = directory.find(np.array(wanted, np.uint32), cast(Catalog, catalog))
        assert all(each.series is series for each in found)
        return [(each.positions.tolist(), each.places.tolist()) for each in found], unknown.tolist()

    for _ in range(3):
        assert find(5, 7) == ([([0, 1], [2, 0])], [])
        assert find(3, 4, 5, 2000) == ([([0, 2], [1, 2])], [1, 3])
    # A catalog that changed is asked again, once.
    catalog.state = object()
    assert find(7, 3) == ([([0, 1], [0, 1])], [])
    catalog.state, catalog.tables[(two.database, "two")] = object(), TableInfo(1024, "public", "two", ())
    for _ in range(3):
        assert find(7, 5) == ([([0], [0])], [1])
    directory.forget(series)
    assert find(7) == ([], [0])
