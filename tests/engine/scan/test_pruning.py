"""What a scan leaves out, seen in its statistics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.engine.reads import scan_batches
from tests.engine.scan.regions import MODES, Region, bag, delete, put, row, rows_of
from tsdb.engine.rows.slices import Slices
from tsdb.engine.scan import Conditions, ScanStatistics, Snapshot
from tsdb.engine.scan.filters.filter import TagCheck
from tsdb.engine.tuning import ScanTuning
from tsdb.model import MergeMode, RegionOptions, RegionSchema, TimeRange

HOST, when, V = pc.field("host"), pc.field("ts"), pc.field("v")
NAMES = ("host", "ts", "v")
TUNING = ScanTuning()


def at(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.timestamp("ms"))


class Watched:
    """A source that writes down what is read of it."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.reads: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def reader(self, counters: object = None) -> Watched:
        return self

    def times(self, rows: Slices) -> Any:
        self.reads.append(f"times {rows.rows}")
        return self._source.times(rows)

    def field(self, column: Any, rows: Slices) -> Any:
        self.reads.append(f"field {self._source.schema.by_id[column].name} {rows.rows}")
        return self._source.field(column, rows)


def scan(
    region: Region, expression: pc.Expression | None, names: tuple[str, ...] = NAMES, tuning: ScanTuning = TUNING
) -> dict[str, int]:
    """Scan, check the rows against those that are visible and match, and return the statistics."""
    statistics = ScanStatistics()
    found = rows_of(scan_batches(region.snapshot(tuning=tuning), names, expression, statistics=statistics))
    plain = Region(region.writes, region.options, region.unit, region.ttl_cutoff)
    everything = pa.Table.from_pylist([{**each, "ts": at(each["ts"])} for each in plain.visible()], region.schema.arrow)
    wanted = everything if expression is None else everything.filter(expression)
    assert bag(found, names) == bag(rows_of(wanted.to_batches()), names)
    return statistics.to_dict()


def two_days() -> Region:
    """Two sources one after the other, three hosts in each."""
    hosts = ("a", "b", "c")
    first = put(*(row(host, time, 1.0 * time) for host in hosts for time in range(10)), source=0)
    second = put(*(row(host, time, 1.0 * time) for host in hosts for time in range(10, 20)), source=1)
    return Region([first, second])


def test_sources_outside_of_the_time_range_are_not_touched() -> None:
    found = scan(two_days(), when >= at(12))
    assert (found["sources_total"], found["sources_pruned_by_time"], found["segments_direct"]) == (2, 1, 1)
    assert found["rows_read"] == 24


def test_series_are_chosen_by_tags_before_rows_are_read() -> None:
    found = scan(two_days(), HOST == "b")
    assert (found["series_total"], found["series_kept"], found["rows_read"]) == (6, 2, 20)


def test_a_source_without_a_matching_series_is_pruned() -> None:
    region = two_days()
    region.writes.append(put(row("z", 5, 1.0), source=2))
    found = scan(region, HOST == "z")
    assert (found["sources_pruned_by_series"], found["rows_read"]) == (2, 1)


def test_series_outside_of_the_time_range_are_left_out() -> None:
    region = Region([put(row("a", 1), row("a", 2), row("b", 8), row("c", 5), row("c", 9))])
    found = scan(region, (when >= at(5)) & (when < at(9)))
    assert (found["series_kept"], found["rows_read"]) == (2, 2)


def test_a_condition_on_tags_and_fields_prunes_the_series_it_is_false_for() -> None:
    found = scan(two_days(), ((HOST == "a") & (V > 3.0)) | ((HOST == "b") & (V < 3.0)))
    assert (found["series_kept"], found["rows_read"], found["rows_returned"]) == (4, 40, 19)


def test_null_tags_are_decided_on_series() -> None:
    region = Region([put(row(None, 1), row("a", 1), row("b", 1))])
    assert scan(region, HOST.is_null())["rows_read"] == 1
    assert scan(region, HOST.is_valid())["rows_read"] == 2
    assert scan(region, ~HOST.is_null() & (HOST != "a"))["rows_read"] == 1


def test_conditions_on_null_fields_are_checked_on_rows() -> None:
    region = Region([put(row("a", 1, None), row("a", 2, 2.0), row("b", 1, None))])
    found = scan(region, V.is_null())
    assert (found["series_kept"], found["rows_read"], found["rows_returned"]) == (2, 3, 2)
    assert scan(region, V.is_null() & (HOST == "a"))["rows_returned"] == 1


def watched_snapshot(region: Region, tuning: ScanTuning = TUNING) -> tuple[Snapshot, list[Watched]]:
    sources = [Watched(source) for source in region.sources()]
    return Snapshot(region.schema, region.options, tuple(sources), tuning=tuning), sources  # type: ignore[arg-type]


def test_what_tags_and_slices_decide_is_not_checked_again() -> None:
    snapshot, (first, second) = watched_snapshot(two_days())
    rows = rows_of(scan_batches(snapshot, ["v"], (HOST == "b") & (when < at(10))))
    assert len(rows) == 10
    assert first.reads == ["field v 10"]
    assert second.reads == []


def test_only_series_that_are_partly_outside_are_searched() -> None:
    region = Region([put(*(row("a", time) for time in range(10)), *(row("b", time) for time in range(4, 6)))])
    snapshot, (source,) = watched_snapshot(region)
    rows = rows_of(scan_batches(snapshot, ["v"], (when >= at(3)) & (when < at(8))))
    assert len(rows) == 7
    assert source.reads == ["times 10", "field v 7"]


def test_a_condition_that_is_true_for_all_kept_series_reads_no_field() -> None:
    snapshot, sources = watched_snapshot(two_days())
    rows = rows_of(scan_batches(snapshot, ["host"], (HOST == "b") & ((HOST == "b") | (V > 100.0))))
    assert len(rows) == 20
    assert [source.reads for source in sources] == [[], []]


def test_nothing_is_read_to_count() -> None:
    snapshot, sources = watched_snapshot(two_days())
    assert sum(batch.num_rows for batch in scan_batches(snapshot, [])) == 60
    assert [source.reads for source in sources] == [[], []]


def test_rows_past_their_time_to_live_are_not_visible() -> None:
    region = two_days()
    region.ttl_cutoff = 15
    found = scan(region, None)
    assert (found["sources_pruned_by_time"], found["rows_returned"]) == (1, 15)


def test_sources_that_overlap_are_merged_and_conditions_on_fields_come_after() -> None:
    writes = [put(row("a", 1, 1.0), row("a", 9), source=0), put(row("a", 1, 2.0), row("a", 9), source=1)]
    found = scan(Region(writes, MODES[1]), V == 1.0)
    assert (found["segments_merged"], found["segments_direct"], found["rows_returned"]) == (1, 0, 0)
    # Where the newest row counts as a whole, older ones are left out.
    found = scan(Region(writes), V == 1.0)
    assert (found["segments_merged"], found["segments_direct"], found["rows_returned"]) == (0, 1, 0)


def test_a_deleted_row_does_not_come_back_when_the_filter_hides_the_tombstone() -> None:
    region = Region([put(row("a", 1, 1.0), source=0), delete(row("a", 1), source=1)])
    assert scan(region, V.is_valid())["rows_returned"] == 0


def test_tombstones_of_a_source_alone_vanish_without_a_merge() -> None:
    region = Region([put(row("a", 1, 1.0), row("a", 2, 2.0)), delete(row("a", 1), row("b", 5))])
    found = scan(region, None)
    assert (found["segments_direct"], found["segments_merged"], found["rows_returned"]) == (1, 0, 1)


def test_duplicates_within_a_source_need_a_merge() -> None:
    writes = [put(row("a", 1, 1.0)), put(row("a", 1, None, n=3))]
    options = RegionOptions(merge_mode=MergeMode.LAST_NON_NULL)
    assert scan(Region(writes, options), None)["segments_merged"] == 1


def test_append_mode_reads_everything_directly() -> None:
    writes = [put(row("a", 1, 1.0), row("a", 1, 1.0), source=0), put(row("a", 1, 3.0), source=1)]
    found = scan(Region(writes, MODES[2]), None)
    assert (found["segments_direct"], found["segments_merged"], found["rows_returned"]) == (2, 0, 3)


def test_sources_of_other_series_are_not_merged_though_they_overlap_in_time() -> None:
    first = put(row("a", 1), row("b", 9), source=0)
    second = put(row("c", 1), row("d", 9), source=1)
    found = scan(Region([first, second]), None)
    assert (found["segments_direct"], found["segments_merged"]) == (2, 0)
    third = put(row("b", 9), row("c", 3), source=2)
    assert scan(Region([first, second, third], MODES[1]), None)["segments_merged"] == 1


def test_sources_whose_series_follow_each_other_are_not_merged_though_they_overlap_in_time() -> None:
    first = put(row("a", 1), row("a", 5), row("b", 1), row("b", 4), source=0)
    second = put(row("a", 6), row("a", 9), row("b", 5), row("b", 9), row("c", 2), source=1)
    found = scan(Region([first, second]), None)
    assert (found["segments_direct"], found["segments_merged"], found["rows_returned"]) == (2, 0, 9)
    gone = delete(row("a", 6), row("b", 7), source=1)
    found = scan(Region([first, second, gone]), None)
    assert (found["segments_direct"], found["segments_merged"], found["rows_returned"]) == (2, 0, 8)
    late = put(row("a", 5, 2.0), row("a", 6), row("b", 9), source=1)
    found = scan(Region([first, late]), None)
    assert (found["segments_merged"], found["rows_returned"]) == (0, 6)
    found = scan(Region([first, late], MODES[1]), None)
    assert (found["segments_merged"], found["rows_returned"]) == (1, 6)


def test_rows_that_pass_a_condition_are_picked_out_of_the_row_ranges_in_the_time_range() -> None:
    hosts, times = "abc", range(20)
    region = Region([put(*(row(host, time, float(time % 7), n=time) for host in hosts for time in times))])
    wanted = (when >= at(3)) & (when < at(17)) & (V > 4.0) & (pc.field("n") != 5)
    found = scan(region, wanted, ("host", "ts", "v", "n", "s", "b"))
    assert (found["rows_read"], found["rows_returned"]) == (3 * 14, 3 * 3)


def test_rows_are_picked_in_blocks_of_the_size_that_memory_allows() -> None:
    region = Region([put(*(row("a", time, float(time)) for time in range(100)))])
    batches = list(
        scan_batches(region.snapshot(memory_bytes_max=1, tuning=ScanTuning(block_rows_min=16)), NAMES, V >= 10.0)
    )
    assert [batch.num_rows for batch in batches] == [16, 16, 16, 16, 16, 10]
    assert [each["v"] for each in rows_of(batches)] == [float(value) for value in range(10, 100)]


def test_only_what_sources_contest_is_merged() -> None:
    tuning = ScanTuning(cut_rows_min=20)
    first = put(*(row("a", time, 1.0) for time in range(100)), source=0)
    second = put(*(row("a", time, 2.0) for time in range(90, 200)), source=1)
    found = scan(Region([first, second], MODES[1]), None, tuning=tuning)
    assert (found["segments_direct"], found["segments_merged"]) == (2, 1)
    late = put(row("a", 0, 3.0), row("a", 199, 3.0), source=2)
    found = scan(Region([first, second, late], MODES[1]), None, tuning=tuning)
    assert (found["segments_direct"], found["segments_merged"], found["rows_returned"]) == (4, 1, 200)
    # As far as series blocks tell, all of it is contested.
    found = scan(Region([first, second, late], MODES[1]), None, tuning=replace(tuning, look_rows_max=0))
    assert (found["segments_direct"], found["segments_merged"], found["rows_returned"]) == (0, 1, 200)


def test_equal_sets_of_series_are_matched_once() -> None:
    asked: list[list[str]] = []

    def is_a(tags: pa.RecordBatch) -> pa.Array:
        asked.append(tags.column("host").to_pylist())
        return pc.equal(tags.column("host"), "a")

    conditions = Conditions(TimeRange.ALL, (TagCheck(frozenset({"host"}), is_a),))
    rows = rows_of(scan_batches(two_days().snapshot(), ["host"], conditions))
    assert [each["host"] for each in rows] == ["a"] * 20
    assert asked == [["a", "b", "c"]]


def test_a_long_series_is_searched_by_probing() -> None:
    region = Region([put(*(row("a", time // 3, n=time) for time in range(600)))], MODES[2])
    snapshot, (source,) = watched_snapshot(region, ScanTuning(probe_rows_min=16))
    rows = rows_of(scan_batches(snapshot, ["n"], (when >= at(50)) & (when <= at(60))))
    assert [each["n"] for each in rows] == list(range(150, 183))
    assert set(source.reads[:-1]) == {"times 1"}
    assert len(source.reads) < 30


def test_a_long_series_is_merged_in_pieces_of_time() -> None:
    times = np.random.default_rng(5).integers(0, 5000, 3000)
    first = put(*(row("a", int(time), 1.0) for time in times), source=0)
    second = put(*(row("a", int(time), 2.0) for time in times[:1500]), source=1)
    region = Region([first, second])
    batches = list(scan_batches(region.snapshot(memory_bytes_max=1, tuning=ScanTuning(block_rows_min=64)), NAMES))
    assert bag(rows_of(batches), NAMES) == bag(region.visible(), NAMES)
    assert max(batch.num_rows for batch in batches) <= 64


def test_sources_of_older_schemas_are_read_as_the_current_one_has_them() -> None:
    region = Region([put(row("a", 1, 1.0), row("b", 2, 2.0))])
    (source,) = region.sources()
    old = region.schema
    renamed = tuple(
        type(column)(
            column.id, {"host": "server", "v": "value"}.get(column.name, column.name), column.type, column.semantic
        )
        for column in old.columns
    )
    current: RegionSchema = old.with_columns(renamed)
    snapshot = Snapshot(current, RegionOptions(), (source,))
    batches = scan_batches(snapshot, ["server", "value"], pc.field("server") == "b")
    assert rows_of(batches) == [{"server": "b", "value": 2.0}]
