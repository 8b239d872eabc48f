"""Segments: every row that is not hidden is in one of them, no key is in two, and nothing is hidden in direct ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.scan.regions import MODES, Region, late_regions, put, regions, row
from tsdb.engine.rows.slices import Slices
from tsdb.engine.scan.filters.filter import make_filter
from tsdb.engine.scan.plan import cuts
from tsdb.engine.scan.plan.contested import find_common
from tsdb.engine.scan.plan.parts import Part
from tsdb.engine.scan.plan.plan import plan_scan
from tsdb.engine.scan.plan.segments import Segment
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.engine.tuning import ScanTuning
from tsdb.model import RegionOptions, TimeRange

EAGER = ScanTuning(cut_rows_min=-1000, split_rows_min=1, partition_rows_min=4)
"""Everything is cut that can be."""
BLIND = replace(EAGER, look_rows_max=0)
"""The same as far as series blocks tell."""
WHOLE = ScanTuning(look_rows_max=0)
"""Nothing is left out."""


def plan(region: Region, tuning: ScanTuning, window: TimeRange = TimeRange.ALL) -> list[Segment]:
    return plan_again(region.snapshot(tuning=tuning), window)


def plan_again(snapshot: Snapshot, window: TimeRange = TimeRange.ALL) -> list[Segment]:
    return list(plan_scan(snapshot, make_filter(snapshot.schema, None, within=window), ScanStatistics()).segments)


def rows_of(part: Part) -> Iterator[tuple[Any, int]]:
    """Yield the key and the sequence of each row."""
    part = part.narrowed()
    tags = [tuple(each.values()) for each in part.series.read_tags().to_pylist()]
    for series, start, stop in zip(tags, part.starts.tolist(), part.stops.tolist(), strict=True):
        rows = Slices.one(start, stop)
        times, sequences = part.source.times(rows).tolist(), part.source.sequences(rows).tolist()
        yield from (((series, time), sequence) for time, sequence in zip(times, sequences, strict=True))


WINDOWS = st.just(TimeRange.ALL) | st.tuples(st.integers(-3, 10), st.integers(1, 10)).map(
    lambda bounds: TimeRange(bounds[0], sum(bounds))
)


@pytest.mark.parametrize("tuning", [EAGER, BLIND, ScanTuning()])
@settings(max_examples=100, deadline=None)
@given(regions() | late_regions(), WINDOWS)
def test_segments_have_every_row_once_and_share_no_key(tuning: ScanTuning, region: Region, window: TimeRange) -> None:
    whole = region.snapshot()
    visible = window.intersection(whole.visible)
    expected = Counter(
        sequence
        for source in whole.sources
        for time, sequence in zip(
            source.reader().times(Slices.one(0, source.facts.rows)).tolist(),
            source.reader().sequences(Slices.one(0, source.facts.rows)).tolist(),
            strict=True,
        )
        if visible.start <= time < visible.end
    )
    segments = plan(region, tuning, window)
    found = [[each for part in segment.parts for each in rows_of(part)] for segment in segments]
    read = Counter(sequence for rows in found for _, sequence in rows)
    assert read <= expected
    newest = {key: sequence for rows in found for key, sequence in sorted(rows, key=lambda each: each[1])}
    for key, sequence in (
        each for segment in plan(region, WHOLE, window) for part in segment.parts for each in rows_of(part)
    ):
        assert sequence in read or (region.options == RegionOptions() and newest[key] > sequence)
    if region.options.append_mode:
        return
    keys = [{key for key, _ in rows} for rows in found]
    assert sum(map(len, keys)) == len(set().union(*keys))
    for segment, rows, own in zip(segments, found, keys, strict=True):
        assert not segment.is_direct or (len(segment.parts) == 1 and len(rows) == len(own))


@settings(max_examples=100, deadline=None)
@given(regions() | late_regions(), st.lists(WINDOWS, min_size=2, max_size=4))
def test_what_earlier_queries_have_found_out_changes_no_rows(region: Region, windows: list[TimeRange]) -> None:
    kept = region.snapshot()
    for window in windows:
        found, fresh = (
            sorted(
                (sorted(sequence for part in segment.parts for _, sequence in rows_of(part)), segment.is_direct)
                for segment in plan_again(snapshot, window)
            )
            for snapshot in (kept, region.snapshot())
        )
        assert found == fresh


def test_sources_without_a_common_key_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(parts: Sequence[Part], *others: Any) -> Any:
        looks.append(len(parts))
        return find_common(parts, *others)

    monkeypatch.setattr(cuts, "find_common", look)
    first = put(*(row(host, time) for host in "ab" for time in range(100) if time not in (90, 95)), source=0)
    late = put(*(row(host, time) for host in "ab" for time in (90, 95, *range(100, 200))), source=1)
    snapshot = Region([first, late]).snapshot()
    for window in (TimeRange(92, 200), TimeRange.ALL, TimeRange(92, 200), TimeRange(0, 150), TimeRange.ALL):
        assert counts(plan_again(snapshot, window))[:2] == (2, 0)
    assert looks in ([2], [2, 2])
    # Another schema may make other series of the same rows.
    altered = replace(snapshot, schema=replace(snapshot.schema, version=snapshot.schema.version + 1))
    before = len(looks)
    assert counts(plan_again(altered))[:2] == (2, 0)
    assert len(looks) == before + 1
    # A row that came twice is found each time.
    again = Region([first, put(row("a", 20), row("a", 150), source=1)]).snapshot()
    assert [counts(plan_again(again)) for _ in range(3)] == [counts(plan_again(again))] * 3
    assert len(looks) == before + 5


def counts(segments: list[Segment]) -> tuple[int, int, int]:
    """Direct segments, merged ones, and the rows that are merged."""
    merged = [segment for segment in segments if not segment.is_direct]
    rows = sum(1 for segment in merged for part in segment.parts for _ in rows_of(part))
    return len(segments) - len(merged), len(merged), rows


def test_rows_of_other_times_that_come_late_are_not_merged() -> None:
    first = put(*(row(host, time) for host in "ab" for time in range(100) if time not in (90, 95)), source=0)
    late = put(*(row(host, time) for host in "ab" for time in (90, 95, *range(100, 200))), source=1)
    assert counts(plan(Region([first, late]), EAGER)) == (2, 0, 0)
    assert counts(plan(Region([first, late]), BLIND)) == (2, 1, 20)


def test_only_rows_that_come_twice_are_merged_or_left_out_if_newer_ones_hide_them() -> None:
    first = put(*(row(host, time) for host in "ab" for time in range(100)), source=0)
    again = put(row("a", 20), *(row(host, time) for host in "ab" for time in (99, *range(100, 200))), source=1)
    assert counts(plan(Region([first, again], MODES[1]), EAGER)) == (4, 1, 3 + 4)
    segments = plan(Region([first, again]), EAGER)
    assert counts(segments) == (3, 0, 0)
    assert sum(1 for segment in segments for part in segment.parts for _ in rows_of(part)) == 400
    # The rest of a series behind a row that is left out knows its times.
    assert sorted(part.time_min.tolist() for segment in segments for part in segment.parts) == [[0, 0], [20, 99], [21]]
    assert sorted(part.time_max.tolist() for segment in segments for part in segment.parts) == [
        [19, 98],
        [98],
        [199, 199],
    ]


def test_where_too_many_rows_in_different_places_are_hidden_sources_are_merged() -> None:
    first = put(*(row("a", time) for time in range(100)), source=0)
    again = put(*(row("a", time) for time in range(0, 100, 2)), source=1)
    assert counts(plan(Region([first, again]), ScanTuning())) == (0, 1, 150)
    # Neighbours are left out together.
    again = put(*(row("a", time) for time in range(10, 90)), source=1)
    assert counts(plan(Region([first, again]), ScanTuning())) == (3, 0, 0)


def test_series_that_are_contested_for_long_are_merged_apart_from_others() -> None:
    first = put(*(row(host, time) for host in "abcdef" for time in range(100)), source=0)
    backfill = put(*(row("c", time) for time in range(0, 100, 2)), source=1)
    later = put(*(row(host, time) for host in "abcdef" for time in range(100, 200)), source=1)
    _, merged, rows = counts(plan(Region([first, backfill, later]), BLIND))
    assert merged >= 1
    assert rows == 100 + 50
