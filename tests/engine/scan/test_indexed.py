"""Scans that find series by inverted indexes: the same rows as without, and less that is read."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.reads import newest_rows, scan_batches
from tests.engine.scan.filters import CONDITIONS, TAG_CONDITIONS, Compare, Condition, In
from tests.engine.scan.regions import Region, Row, bag, late_regions, regions, rows_of
from tests.engine.sst.files import DIRECTORY, Files, hosts, run_of, schema_of
from tsdb.clock import ManualClock
from tsdb.engine.index import IndexOptions, TextAll, TextAny, TextHolds, TextNode, TextTest
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.scan import (
    Call,
    Conditions,
    Ref,
    ScanStatistics,
    Snapshot,
    TagIs,
    TagMatch,
    joined,
    list_series,
    make_filter,
)
from tsdb.engine.scan.plan.indexed import prefix_span, spans_of
from tsdb.engine.sst import DataFile, write_sst
from tsdb.engine.tuning import IndexTuning, ScanTuning
from tsdb.model import (
    Column,
    ColumnId,
    FulltextIndex,
    Matcher,
    MergeMode,
    RegionOptions,
    Semantic,
    SkippingIndex,
    TimeRange,
    match_values,
)
from tsdb.store import MemoryStore

TIMES = int(os.environ.get("TSDB_INDEX_TIMES", "1"))
"""How many times as many examples."""

TINY = IndexOptions(tuning=IndexTuning(series_min=1, page_series=1, page_values=1, page_postings=1))
"""Every value and every series is a page of its own."""
EAGER = ScanTuning(skip_bytes_ratio=1e9)
"""Filters of values are read whatever they cost."""
COLUMNS = ("host", "v", "ts", "zone", "n", "s", "b")
HOST = Column(ColumnId(0), "host", pa.string(), Semantic.TAG)


def as_files(snapshot: Snapshot, options: RegionOptions, *, applies_index: bool = True) -> Snapshot:
    """Return the snapshot with every source in a data file with indexes, and nothing in caches."""
    store = MemoryStore()
    fields = snapshot.schema.fields
    options = replace(
        options,
        skipping=tuple(SkippingIndex(column.id, 2, 0.01) for column in fields),
        fulltext=tuple(FulltextIndex(column.id, 2, 0.01, "English", True) for column in fields),
    )
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


@settings(max_examples=75 * TIMES, deadline=None)
@given(regions() | late_regions(), TAG_CONDITIONS | CONDITIONS)
def test_files_with_indexes_hold_exactly_the_visible_rows_that_match(region: Region, condition: Condition) -> None:
    snapshot = as_files(region.snapshot(tuning=EAGER), region.options)
    batches = list(scan_batches(snapshot, COLUMNS, condition.arrow(region.unit)))
    assert bag(rows_of(batches), COLUMNS) == bag(expected(region, condition), COLUMNS)


VALUES = st.one_of(
    st.builds(Compare, st.just("n"), st.just("="), st.integers(-2, 3)),
    st.builds(Compare, st.just("s"), st.just("="), st.sampled_from(["", "x", "y"])),
    st.builds(Compare, st.just("v"), st.just("="), st.sampled_from([0.0, -0.0, 1.5, float("nan")])),
    st.builds(In, st.just("n"), st.tuples(st.integers(-2, 3), st.none() | st.integers(-2, 3))),
)


@settings(max_examples=100 * TIMES, deadline=None)
@given(regions() | late_regions(), VALUES)
def test_filters_of_values_exclude_no_row_that_matches_in_any_merge_mode(region: Region, condition: Condition) -> None:
    snapshot = as_files(region.snapshot(tuning=EAGER), region.options)
    expression = condition.arrow(region.unit)
    batches = list(scan_batches(snapshot, COLUMNS, expression))
    assert bag(rows_of(batches), COLUMNS) == bag(expected(region, condition), COLUMNS)
    # Aggregates read the same plan in another way.
    newest = newest_rows(snapshot, expression, ("host", "zone", "ts"))
    last: dict[Any, int] = {}
    for row in expected(region, condition):
        key = (row["host"], row["zone"])
        last[key] = max(last.get(key, row["ts"]), row["ts"])
    times = newest.column("ts").cast(pa.int64()).to_pylist()
    keys = zip(newest.column("host").to_pylist(), newest.column("zone").to_pylist(), strict=True)
    assert dict(zip(keys, times, strict=True)) == last


def items_of(inner: st.SearchStrategy[TextNode]) -> st.SearchStrategy[tuple[TextNode, ...]]:
    return st.lists(inner, min_size=1, max_size=2).map(tuple)


WANTED = st.recursive(
    st.builds(TextHolds, st.sampled_from(["x", "y", "", "xy", "no"]), st.booleans(), st.booleans()),
    lambda inner: st.builds(TextAll, items_of(inner)) | st.builds(TextAny, items_of(inner)),
    max_leaves=4,
)


def fulfils(text: str | None, wanted: TextNode) -> bool:
    if isinstance(wanted, TextHolds):
        # A text without blanks has no other words than itself.
        is_whole = wanted.starts_word or wanted.ends_word
        return text is not None and (text == wanted.text if is_whole else wanted.text in text)
    decide = all if isinstance(wanted, TextAll) else any
    return decide(fulfils(text, each) for each in wanted.items)


@settings(max_examples=40 * TIMES, deadline=None)
@given(regions() | late_regions(), WANTED)
def test_filters_of_words_exclude_no_row_that_matches_in_any_merge_mode(region: Region, wanted: TextNode) -> None:
    """The caller checks the rows, which are those that are newest and perhaps others that do not match."""
    snapshot = as_files(region.snapshot(tuning=EAGER), region.options)
    filter = Conditions(TimeRange.ALL, (), None, (TextTest("s", wanted),))
    rows = rows_of(list(scan_batches(snapshot, COLUMNS, filter)))
    found = [row for row in rows if fulfils(row["s"], wanted)]
    assert bag(found, COLUMNS) == bag([row for row in region.visible() if fulfils(row["s"], wanted)], COLUMNS)


FIELD = schema_of({"host": pa.string()}, {"id": pa.string(), "code": pa.int64()})


def requests(options: RegionOptions, *, sources: int = 1, applies_index: bool = True) -> Snapshot:
    """Files of one host with 20,000 rows each at the same times, every row with an id of its own."""
    skipping = (SkippingIndex(FIELD.by_name["id"].id, 1000, 0.001), SkippingIndex(FIELD.by_name["code"].id, 1000, 0.01))
    options = replace(options, skipping=skipping)
    files = Files(FIELD, options=options, row_group_rows=5000)
    opened = []
    for source in range(sources):
        numbers = range(source * 20_000, (source + 1) * 20_000)
        columns = {
            "host": pa.array(["h"] * 20_000),
            "ts": pa.array(range(20_000), pa.timestamp("ms")),
            "id": pa.array([f"request-{number * 7919 % 1_000_003:07}" for number in numbers]),
            "code": pa.array([number // 2500 for number in numbers]),
        }
        written = files.write(run_of(FIELD, columns, base_sequence=numbers.start))
        store = files.store
        opened.append(
            DataFile(
                written.meta,
                store=store,
                directory=DIRECTORY,
                caches=Caches.disabled(),
                applies_index=applies_index,
            )
        )
    return Snapshot(FIELD, options, tuple(opened))


@pytest.mark.parametrize(
    ("filter", "rows"),
    [
        (pc.field("id") == f"request-{12_345 * 7919 % 1_000_003:07}", 1),
        (pc.field("id").isin([f"request-{number * 7919 % 1_000_003:07}" for number in (5, 19_999)]), 2),
        ((pc.field("id") == f"request-{12_345 * 7919 % 1_000_003:07}") & (pc.field("code") == 4), 1),
        (pc.field("id") == "no such request", 0),
    ],
    ids=["one value", "some values", "two columns", "no value"],
)
def test_a_filter_of_values_excludes_rows_and_changes_no_answer(filter: Any, rows: int) -> None:
    counters, plain = ScanStatistics(), ScanStatistics()
    found = rows_of(list(scan_batches(requests(RegionOptions()), ["ts", "id"], filter, statistics=counters)))
    without = requests(RegionOptions(), applies_index=False)
    assert found == rows_of(list(scan_batches(without, ["ts", "id"], filter, statistics=plain)))
    assert len(found) == rows
    assert counters.rows_excluded_by_index >= 17_000
    assert counters.rows_read + counters.rows_excluded_by_index == plain.rows_read == 20_000
    assert plain.rows_excluded_by_index == 0


@pytest.mark.parametrize("mode", [MergeMode.LAST_ROW, MergeMode.LAST_NON_NULL])
def test_rows_that_may_hide_others_are_not_left_out(mode: MergeMode) -> None:
    """The newer file has other ids at the same times: what it hides must not come back."""
    counters = ScanStatistics()
    old = pc.field("id") == f"request-{12_345 * 7919 % 1_000_003:07}"
    snapshot = requests(RegionOptions(merge_mode=mode), sources=2)
    assert rows_of(list(scan_batches(snapshot, ["ts", "id"], old, statistics=counters))) == []
    new = pc.field("id") == f"request-{32_345 * 7919 % 1_000_003:07}"
    assert len(rows_of(list(scan_batches(snapshot, ["ts", "id"], new)))) == 1


def test_in_append_mode_rows_of_overlapping_files_are_left_out() -> None:
    counters = ScanStatistics()
    snapshot = requests(RegionOptions(append_mode=True), sources=2)
    wanted = pc.field("id") == f"request-{12_345 * 7919 % 1_000_003:07}"
    assert len(rows_of(list(scan_batches(snapshot, ["ts", "id"], wanted, statistics=counters)))) == 1
    assert counters.rows_excluded_by_index >= 36_000


LOG = schema_of({"host": pa.string()}, {"msg": pa.string()})


def log(options: RegionOptions, *, granularity: int = 1000, applies_index: bool = True) -> Snapshot:
    """A file of 20,000 lines, every one with a number of its own and every ten-thousandth with a rare word."""
    declared = FulltextIndex(LOG.by_name["msg"].id, granularity, 0.001, "English", False)
    files = Files(LOG, options=replace(options, fulltext=(declared,)), row_group_rows=5000)
    columns = {
        "host": pa.array(["h"] * 20_000),
        "ts": pa.array(range(20_000), pa.timestamp("ms")),
        "msg": pa.array(
            [
                f"request-{number * 7919 % 1_000_003:07} took {number * 31 % 977} ms"
                + " Quagga!" * (number % 10_000 == 7)
                for number in range(20_000)
            ]
        ),
    }
    written = files.write(run_of(LOG, columns))
    source = DataFile(
        written.meta, store=files.store, directory=DIRECTORY, caches=Caches.disabled(), applies_index=applies_index
    )
    return Snapshot(LOG, options, (source,))


def like(pattern: str) -> Call:
    kind = pa.struct([("pattern", pa.string()), ("ignore_case", pa.bool_())])
    return Call("match_like", (Ref("msg"),), pa.scalar({"pattern": pattern, "ignore_case": False}, kind))


@pytest.mark.parametrize(
    ("filter", "rows", "excluded"),
    [
        (like("%Quagga%"), 2, 18_000),
        (like("%uagg_!"), 2, 18_000),
        (like(f"request-{12_345 * 7919 % 1_000_003:07} took%"), 1, 18_000),
        (like("%no such%"), 0, 20_000),
        (like("%took%"), 20_000, 0),
        (like("%"), 20_000, 0),
        (joined("or_kleene", [like("%Quagga%"), like("%no such%")]), 2, 18_000),
        (joined("or_kleene", [like("%Quagga%"), like("%took%")]), 20_000, 0),
        (Call("invert", (like("%Quagga%"),)), 19_998, 0),
        (pc.field("msg") == "request-0000000 took 0 ms", 1, 18_000),
        (pc.field("msg").isin(["request-0000000 took 0 ms", "none"]), 1, 18_000),
    ],
)
def test_a_filter_of_words_excludes_rows_and_changes_no_answer(filter: Any, rows: int, excluded: int) -> None:
    counters, plain = ScanStatistics(), ScanStatistics()
    found = rows_of(list(scan_batches(log(RegionOptions()), ["ts", "msg"], filter, statistics=counters)))
    without = log(RegionOptions(), applies_index=False)
    assert found == rows_of(list(scan_batches(without, ["ts", "msg"], filter, statistics=plain)))
    assert len(found) == rows
    assert counters.rows_excluded_by_fulltext >= excluded
    assert bool(counters.rows_excluded_by_fulltext) == bool(excluded)
    assert counters.rows_read + counters.rows_excluded_by_fulltext == plain.rows_read == 20_000
    assert counters.rows_excluded_by_index == plain.rows_excluded_by_fulltext == 0


def test_filters_of_words_that_take_more_than_their_column_are_not_read() -> None:
    counters = ScanStatistics()
    found = list(scan_batches(log(RegionOptions(), granularity=1), ["ts"], like("%Quagga%"), statistics=counters))
    assert len(rows_of(found)) == 2
    assert counters.rows_excluded_by_fulltext == counters.index_bytes_read == 0


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


@settings(max_examples=150 * TIMES, deadline=None)
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


@settings(max_examples=250 * TIMES, deadline=None)
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
