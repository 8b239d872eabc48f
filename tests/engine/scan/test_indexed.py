"""Scans that find series by inverted indexes: the same rows as without, and less that is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.reads import scan_batches
from tests.engine.scan.filters import CONDITIONS, TAG_CONDITIONS, Condition
from tests.engine.scan.regions import Region, Row, bag, late_regions, regions, rows_of
from tests.engine.sst.files import DIRECTORY, Files, hosts, schema_of
from tsdb.clock import ManualClock
from tsdb.engine.index import IndexOptions
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.scan import Conditions, ScanStatistics, Snapshot, TagIs, TagMatch, list_series, make_filter
from tsdb.engine.scan.plan.indexed import prefix_span, spans_of
from tsdb.engine.sst import DataFile, write_sst
from tsdb.engine.tuning import IndexTuning
from tsdb.model import Column, ColumnId, Matcher, RegionOptions, Semantic, TimeRange, match_values
from tsdb.store import MemoryStore

TINY = IndexOptions(tuning=IndexTuning(series_min=1, page_series=1, page_values=1, page_postings=1))
"""Every value and every series is a page of its own."""
COLUMNS = ("host", "v", "ts", "zone", "n", "s", "b")
HOST = Column(ColumnId(0), "host", pa.string(), Semantic.TAG)


def as_files(snapshot: Snapshot, options: RegionOptions, *, applies_index: bool = True) -> Snapshot:
    """Return the snapshot with every source in a data file with indexes, and nothing in caches."""
    store = MemoryStore()
    files = []
    for source in snapshot.sources:
        merge = Merge(snapshot.schema, options, [Selection.all_of(source.reader())], keep_tombstones=True)
        written = write_sst(
            merge,
            schema=snapshot.schema,
            options=options,
            store=store,
            directory=DIRECTORY,
            write_buffer_bytes=1 << 16,
            level=0,
            clock=ManualClock(1),
            row_group_rows=5,
            keeps_sequences=True,
            index=TINY,
        )
        assert written is not None
        files.append(
            DataFile(
                written.meta,
                store=store,
                directory=DIRECTORY,
                caches=Caches.disabled(),
                applies_index=applies_index,
            )
        )
    return replace(snapshot, sources=tuple(files))


def expected(region: Region, condition: Condition) -> list[Row]:
    return [row for row in region.visible() if condition.test(row) is True]


@settings(max_examples=150, deadline=None)
@given(regions() | late_regions(), TAG_CONDITIONS | CONDITIONS)
def test_files_with_indexes_hold_exactly_the_visible_rows_that_match(region: Region, condition: Condition) -> None:
    snapshot = as_files(region.snapshot(), region.options)
    batches = list(scan_batches(snapshot, COLUMNS, condition.arrow(region.unit)))
    assert bag(rows_of(batches), COLUMNS) == bag(expected(region, condition), COLUMNS)


MANY = schema_of({"host": pa.string()}, {"usage": pa.float64(), "count": pa.int64()})
SMALL = IndexTuning(series_min=100, page_series=64, page_values=64)


def many_hosts(*, applies_index: bool = True, tuning: IndexTuning = SMALL, caches: Caches | None = None) -> Snapshot:
    """A file of 2,000 hosts with four rows each."""
    files = Files(MANY, row_group_rows=400, index=IndexOptions(tuning=tuning))
    written = files.write(hosts(MANY, series=2000, points=4))
    source = DataFile(
        written.meta,
        store=files.store,
        directory=DIRECTORY,
        caches=caches or Caches.disabled(),
        applies_index=applies_index,
    )
    return Snapshot(MANY, RegionOptions(), (source,))


FILTERS: dict[str, tuple[Any, int]] = {
    "equal": (pc.field("host") == "h0777", 1),
    "in": (pc.field("host").isin(["h0001", "h1999", "nowhere"]), 2),
    # The second condition would spare less than its own pages cost, so it is checked on what the first one found.
    "range": ((pc.field("host") >= "h1990") & (pc.field("host") < "h1995"), 5),
    "less": (pc.field("host") < "h0003", 3),
    "or": ((pc.field("host") == "h0001") | (pc.field("host") == "h0002"), 2),
    "one of some texts": (Conditions(TimeRange.ALL, (TagIs.one_of("host", ["h0777", "h0778"]),)), 2),
    "matcher": (Conditions(TimeRange.ALL, (TagMatch(Matcher("host", "=", "h0777")),)), 1),
    "listed": (Conditions(TimeRange.ALL, (TagMatch(Matcher("host", "=~", "h0777|h0001")),)), 2),
    "prefix of an expression": (Conditions(TimeRange.ALL, (TagMatch(Matcher("host", "=~", "h077.")),)), 10),
    "nowhere": (pc.field("host") == "x", 0),
}


@pytest.mark.parametrize(("filter", "series"), FILTERS.values(), ids=FILTERS.keys())
def test_an_index_excludes_series_and_changes_no_row(filter: Any, series: int) -> None:
    counters, plain = ScanStatistics(), ScanStatistics()
    found = rows_of(list(scan_batches(many_hosts(), ["host", "ts", "usage"], filter, statistics=counters)))
    without = many_hosts(applies_index=False)
    assert found == rows_of(list(scan_batches(without, ["host", "ts", "usage"], filter, statistics=plain)))
    assert len(found) == 4 * series
    assert (counters.index_files, plain.index_files) == (1, 0)
    assert counters.series_total == plain.series_total == 2000
    assert counters.series_kept == plain.series_kept == series
    assert 1990 <= counters.series_excluded_by_index <= 2000 - series
    # A value beyond all pages is decided by the directory.
    assert (counters.index_bytes_read > 0) == (series > 0)
    assert plain.index_bytes_read == 0


@pytest.mark.parametrize(
    "filter",
    [pc.field("host") != "h0777", pc.field("host") > "h0100", None, pc.field("usage") > 0.5],
    ids=["most series", "a long range", "everything", "no tag"],
)
def test_an_index_that_excludes_little_is_not_used(filter: Any) -> None:
    counters = ScanStatistics()
    found = rows_of(list(scan_batches(many_hosts(), ["host"], filter, statistics=counters)))
    assert len(found) == len(rows_of(list(scan_batches(many_hosts(applies_index=False), ["host"], filter))))
    assert counters.index_files == 0


def test_a_file_of_few_series_has_no_inverted_index() -> None:
    snapshot = many_hosts(tuning=IndexTuning())
    (source,) = snapshot.sources
    assert isinstance(source, DataFile)
    assert source.meta.has_index
    assert source.meta.indexes == ()
    assert not source.facts.is_indexed


def test_a_block_in_memory_is_used_instead_of_the_index() -> None:
    caches = Caches.of(sst_meta_bytes=1 << 30, vector_bytes=1 << 20, page_bytes=0)
    snapshot = many_hosts(caches=caches)
    assert snapshot.sources[0].block.rows == 8000
    counters = ScanStatistics()
    assert len(rows_of(list(scan_batches(snapshot, ["host"], FILTERS["equal"][0], statistics=counters)))) == 4
    assert counters.index_files == 0


def test_the_block_is_loaded_when_pages_have_cost_as_much() -> None:
    caches = Caches.of(sst_meta_bytes=1 << 30, vector_bytes=1 << 20, page_bytes=0)
    snapshot = many_hosts(caches=caches)
    used = []
    for number in range(0, 2000, 20):
        counters = ScanStatistics()
        filter = pc.field("host") == f"h{number:04}"
        assert len(rows_of(list(scan_batches(snapshot, ["host"], filter, statistics=counters)))) == 4
        used.append(counters.index_files)
    assert used[0] == 1
    assert used[-1] == 0
    assert sorted(used, reverse=True) == used


def test_labels_are_listed_by_the_index() -> None:
    snapshot = many_hosts()
    wanted = make_filter(MANY, Conditions(TimeRange.ALL, (TagIs.one_of("host", ["h0777"]),)))
    (tags,) = list_series(snapshot, wanted)
    assert tags.column("host").to_pylist() == ["h0777"]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=4), st.text(max_size=4))
def test_texts_with_a_prefix_lie_in_its_span(prefix: str, rest: str) -> None:
    spans = prefix_span(prefix)
    if not prefix:
        assert spans is None
        return
    assert spans is not None
    (span,) = spans
    text = prefix + rest
    assert span.low <= text
    assert span.high is None or text <= span.high


PATTERNS = st.lists(st.sampled_from(["a", "b", ".", "*", "?", "+", "|", "(", ")", "[ab]", "{2}", "\\.", "^", "$"])).map(
    "".join
)


@settings(max_examples=500, deadline=None)
@given(PATTERNS, st.lists(st.text("ab.", max_size=4)))
def test_what_an_expression_matches_lies_in_its_spans(pattern: str, texts: list[str]) -> None:
    matcher = Matcher("host", "=~", pattern)
    try:
        matched = match_values(matcher, pa.array([*texts, ""], pa.string()))[:-1]
    except ValueError:
        return
    spans = spans_of(TagMatch(matcher), HOST)
    if spans is not None:
        for text, is_matched in zip(texts, matched.tolist(), strict=True):
            inside = any(span.low <= text and (span.high is None or text <= span.high) for span in spans)
            assert inside or not is_matched
