"""Series scans and newest rows: what is read, and the cases that need a merge."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine.reads import count_rows, newest_rows
from tests.engine.scan.regions import MODES, Region, delete, put, row, rows_of
from tests.engine.scan.test_pruning import watched_snapshot
from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.scan import ScanStatistics, scan_series
from tsdb.errors import Status
from tsdb.model import TimeRange

HOST = pc.field("host")


def test_series_are_laid_out_one_after_the_other() -> None:
    first = put(row("b", 1, 1.0), row("a", 2, 2.0), source=0)
    second = put(row("a", 5, 5.0), row("c", 5, 6.0), row("b", 6, 7.0), source=1)
    scan = scan_series(Region([first, second]).snapshot(), None, TimeRange.ALL, ["v"])
    assert scan.series.read_tags().column("host").to_pylist() == ["a", "b", "c"]
    assert scan.offsets.tolist() == [0, 2, 4, 5]
    assert scan.times.tolist() == [2, 5, 1, 6, 5]
    assert scan.fields["v"].to_pylist() == [2.0, 5.0, 1.0, 7.0, 6.0]


def test_matchers_of_promql_are_decided_on_series() -> None:
    region = Region([put(row("web-1", 1, 1.0), row("web-2", 1, 2.0), row("db-1", 1, 3.0), row(None, 1, 4.0))])

    def hosts(matcher: pc.Expression) -> list[str | None]:
        statistics = ScanStatistics()
        scan = scan_series(region.snapshot(), matcher, TimeRange(0, 10), ["v"], statistics=statistics)
        assert statistics.rows_read == len(scan.series)
        names: list[str | None] = scan.series.read_tags().column("host").to_pylist()
        return names

    assert hosts(pc.match_substring_regex(HOST, "^(?:web-.*)$")) == ["web-1", "web-2"]
    assert hosts(~pc.match_substring_regex(pc.coalesce(HOST, pc.scalar("")), "^(?:web-.*)$")) == [None, "db-1"]
    assert hosts(pc.starts_with(HOST, "db")) == ["db-1"]
    assert hosts(pc.equal(pc.utf8_length(HOST), 4)) == ["db-1"]


def test_append_mode_gives_series_in_the_order_of_time_too() -> None:
    writes = [put(row("a", 9, 1.0), row("a", 1, 2.0), source=0), put(row("a", 5, 3.0), row("a", 1, 4.0), source=1)]
    scan = scan_series(Region(writes, MODES[2]).snapshot(), None, TimeRange.ALL, ["v"])
    assert scan.times.tolist() == [1, 1, 5, 9]
    assert scan.fields["v"].to_pylist() == [2.0, 4.0, 3.0, 1.0]


def test_series_that_do_not_fit_into_the_memory_of_a_query_are_refused() -> None:
    region = Region([put(*(row("a", time, 1.0) for time in range(1000)))])
    with pytest.raises(ScanTooLarge, match="more memory") as caught:
        scan_series(region.snapshot(memory_bytes_max=20_000), None, TimeRange.ALL, ["v"])
    assert caught.value.status is Status.RUNTIME_RESOURCES_EXHAUSTED
    assert len(scan_series(region.snapshot(memory_bytes_max=60_000), None, TimeRange.ALL, ["v"]).times) == 1000


def test_a_scan_that_finds_nothing_has_no_series() -> None:
    scan = scan_series(Region([put(row("a", 1))]).snapshot(), HOST == "b", TimeRange.ALL, ["v"])
    assert (len(scan.series), scan.offsets.tolist(), len(scan.times), len(scan.fields["v"])) == (0, [0], 0, 0)


def newest(region: Region, names: tuple[str, ...] = ("host", "v")) -> list[tuple[object, ...]]:
    return [tuple(each.values()) for each in rows_of([newest_rows(region.snapshot(), None, names)])]


def test_the_newest_rows_of_series_may_be_in_different_sources() -> None:
    first = put(*(row(host, time, 1.0) for host in "abc" for time in range(50)), source=0)
    second = put(*(row(host, time, 2.0) for host in "bcd" for time in range(20, 70)), source=1)
    assert newest(Region([first, second])) == [("a", 1.0), ("b", 2.0), ("c", 2.0), ("d", 2.0)]


def test_the_newest_row_is_found_where_rows_were_overwritten_or_deleted() -> None:
    quiet = put(*(row("a", time, 1.0) for time in range(100)), source=0)
    first = put(row("b", 1, 1.0), row("b", 2, 2.0), row("c", 1, 1.0), source=0)
    tie = put(row("c", 1, 9.0), source=1)
    gone = delete(row("b", 2), source=2)
    assert newest(Region([quiet, first, tie, gone])) == [("a", 1.0), ("b", 1.0), ("c", 9.0)]


def test_the_newest_row_may_take_values_from_several_rows() -> None:
    writes = [put(row("a", 1, 1.0, n=5)), put(row("a", 1, 2.0))]
    assert newest(Region(writes, MODES[1]), ("host", "v", "n")) == [("a", 2.0, 5)]


def test_the_newest_row_may_be_past_its_time_to_live() -> None:
    region = Region([put(row("a", 1, 1.0), row("b", 9, 1.0))], ttl_cutoff=5)
    assert newest(region) == [("b", 1.0)]


def test_newest_rows_are_chosen_among_those_that_match() -> None:
    region = Region([put(row("a", 1, 1.0), row("b", 2, 2.0))])
    assert newest_rows(region.snapshot(), HOST == "b", ["v"]).to_pydict() == {"v": [2.0]}
    assert newest_rows(region.snapshot(), HOST == "z", ["v"]).num_rows == 0
    for condition in (pc.field("v") > 1.0, pc.field("ts") > pa.scalar(1, pa.timestamp("ms"))):
        assert newest_rows(region.snapshot(), condition, ["host", "v"]).to_pylist() == [{"host": "b", "v": 2.0}]


def test_rows_are_counted_from_series_blocks_where_they_tell() -> None:
    apart = Region([put(row("a", 1), row("b", 2), source=0), put(row("a", 5), source=1)])
    snapshot, sources = watched_snapshot(apart)
    assert count_rows(snapshot) == 3
    assert [source.reads for source in sources] == [[], []]
    writes = [put(row("a", 1), row("a", 5), source=0), put(row("a", 1), row("a", 3), source=1)]
    overlapping = Region(writes, MODES[1])
    statistics = ScanStatistics()
    assert count_rows(overlapping.snapshot(), statistics=statistics) == 3
    assert statistics.segments_merged == 1
    overlapping.ttl_cutoff = 3
    assert count_rows(overlapping.snapshot()) == 2
