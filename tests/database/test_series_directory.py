"""The directory of known series: places stay, whatever is added, joined or forgotten."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tsdb.database._series_directory import RegionSeries, SeriesDirectory
from tsdb.model import Column, ColumnId, RegionId, RegionSchema, Semantic, SeriesTable


def make_schema() -> RegionSchema:
    columns = (
        Column(ColumnId(0), "host", pa.string(), Semantic.TAG),
        Column(ColumnId(1), "ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        Column(ColumnId(2), "v", pa.float64(), Semantic.FIELD),
    )
    return RegionSchema(columns, 0, 3)


def make_table(hosts: list[str]) -> SeriesTable:
    return SeriesTable.of_tags(make_schema(), [pa.array(hosts)], len(hosts))


@pytest.mark.parametrize("rounds", [1, 20])
def test_series_are_found_at_their_places_in_one_block_or_many(rounds: int) -> None:
    series = RegionSeries(RegionId(1), make_schema())
    sizes = [100, 10, 40, 3, 1, 30]
    names: list[str] = []
    for size in sizes:
        added = [f"h{len(names) + at}" for at in range(size)]
        assert series.add(make_table(added)) == len(names)
        names += added
    assert len(series) == len(names)
    places = np.random.default_rng(7).permutation(len(names))[:50].astype(np.int64)
    for _ in range(rounds):
        taken = series.take(places)
        hosts = taken.tags.column("host").to_pylist()
        assert hosts == [names[place] for place in places]
        assert taken.tsid.tolist() == make_table(hosts).tsid.tolist()
        assert taken.check.tolist() == make_table(hosts).check.tolist()
        assert taken.take_tags(np.array([3, 1])).column("host").to_pylist() == [hosts[3], hosts[1]]
    assert series.take(places[:0]).tags.num_rows == 0


def test_a_number_that_was_never_entered_is_not_known() -> None:
    found, unknown = SeriesDirectory().find(np.array([0, 5], np.uint32), None)  # type: ignore[arg-type]
    assert found == []
    assert unknown.tolist() == [0, 1]
