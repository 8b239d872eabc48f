"""Scans against a dictionary: whatever was written and however it is asked for, a scan gives what is visible."""

from __future__ import annotations

import datafusion
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from tests.engine.reads import count_rows, newest_rows, reader_of, scan_batches
from tests.engine.region_dataset import RegionDataset
from tests.engine.scan.filters import CONDITIONS, TAG_CONDITIONS, Condition
from tests.engine.scan.regions import TAGS, Region, Row, bag, late_regions, regions, rows_of
from tsdb.engine.scan import scan_series
from tsdb.engine.tuning import ScanTuning
from tsdb.model import TimeRange

COLUMNS = ("host", "v", "ts", "zone", "n", "s", "b")
PROJECTIONS = st.lists(st.sampled_from(COLUMNS), unique=True)
PARALLELISM = st.sampled_from([1, 2, 5])


SMALL = ScanTuning(cut_rows_min=-1000, split_rows_min=1, block_rows_min=3, partition_rows_min=4, group_rows=8)
"""A few rows are enough to cut segments, stripes and blocks."""


def expected(region: Region, condition: Condition | None) -> list[Row]:
    return [row for row in region.visible() if condition is None or condition.test(row) is True]


@settings(max_examples=100, deadline=None)
@given(regions() | late_regions(), st.none() | CONDITIONS, PROJECTIONS, st.sampled_from([1, 1 << 20]))
def test_batches_hold_exactly_the_visible_rows_that_match(
    region: Region, condition: Condition | None, names: list[str], memory_bytes_max: int
) -> None:
    snapshot = region.snapshot(memory_bytes_max=memory_bytes_max, tuning=SMALL)
    expression = None if condition is None else condition.arrow(region.unit)
    batches = list(scan_batches(snapshot, names, expression))
    for batch in batches:
        batch.validate(full=True)
    assert bag(rows_of(batches), names) == bag(expected(region, condition), names)


@settings(max_examples=100, deadline=None)
@given(regions() | late_regions(), CONDITIONS, PROJECTIONS, PARALLELISM)
def test_sql_over_the_dataset_gives_the_visible_rows_that_match(
    region: Region, condition: Condition, names: list[str], parallelism: int
) -> None:
    context = datafusion.SessionContext()
    context.register_dataset(
        "t", RegionDataset(reader_of(region.snapshot(tuning=SMALL), parallelism=max(1, parallelism)))
    )
    wanted = expected(region, condition)
    where = condition.sql(region.unit)
    # DataFusion takes `n in (1) and not n in (1)` for false, also where n is null: it is wrong about any table.
    assume(not any(where.count(f"{column} in (") > 1 for column in ("host", "zone", "v", "n", "s")))
    (count,) = run(context, f"select count(*) as n from t where {where}")
    assert count["n"] == len(wanted)
    if names:
        assert bag(run(context, f"select {', '.join(names)} from t where {where}"), names) == bag(wanted, names)


def run(context: datafusion.SessionContext, query: str) -> list[Row]:
    try:
        return rows_of(context.sql(query).collect())
    except Exception as error:
        # DataFusion's bridge cannot join a condition that it has found to be constant with another one: it fails
        # before the dataset is asked for anything.
        if "'pyarrow.lib.BooleanScalar' and 'pyarrow._compute.Expression'" in str(error):
            reject()
        raise


@settings(max_examples=50, deadline=None)
@given(regions() | late_regions(), st.none() | TAG_CONDITIONS, st.tuples(st.integers(-4, 13), st.integers(-4, 13)))
def test_series_are_whole_and_in_the_order_of_time(
    region: Region, condition: Condition | None, bounds: tuple[int, int]
) -> None:
    window = TimeRange(*bounds) if bounds[0] > -4 else TimeRange.ALL
    expression = None if condition is None else condition.arrow(region.unit)
    scan = scan_series(region.snapshot(tuning=SMALL), expression, window, ["v", "s"])
    found = []
    for number, (start, stop) in enumerate(zip(scan.offsets, scan.offsets[1:], strict=False)):
        tags = scan.series.read_tags().slice(number, 1).to_pylist()[0]
        times = scan.times[start:stop].tolist()
        assert times
        assert times == sorted(times)
        values = zip(
            times, scan.fields["v"][start:stop].to_pylist(), scan.fields["s"][start:stop].to_pylist(), strict=True
        )
        found += [{**tags, "ts": time, "v": v, "s": s} for time, v, s in values]
    wanted = [row for row in expected(region, condition) if window.start <= row["ts"] < window.end]
    assert bag(found, ("host", "zone", "ts", "v", "s")) == bag(wanted, ("host", "zone", "ts", "v", "s"))
    keys = {(row["host"], row["zone"]) for row in wanted}
    assert len(scan.series) == len(keys)


@settings(max_examples=100, deadline=None)
@given(regions() | late_regions(), st.none() | CONDITIONS, st.sampled_from([1, 1 << 20]))
def test_newest_rows_are_the_newest_visible_rows(
    region: Region, condition: Condition | None, memory_bytes_max: int
) -> None:
    newest: dict[tuple[object, ...], Row] = {}
    for row in expected(region, condition):
        key = tuple(row[tag] for tag in TAGS)
        if key not in newest or row["ts"] > newest[key]["ts"]:
            newest[key] = row
    # In append mode a series can have several rows of one time, any of which may be the newest.
    names = (*TAGS, "ts") if region.options.append_mode else COLUMNS
    expression = None if condition is None else condition.arrow(region.unit)
    batch = newest_rows(region.snapshot(memory_bytes_max=memory_bytes_max, tuning=SMALL), expression, names)
    batch.validate(full=True)
    assert bag(rows_of([batch]), names) == bag(newest.values(), names)


@settings(max_examples=50, deadline=None)
@given(regions() | late_regions())
def test_rows_are_counted_as_they_are_seen(region: Region) -> None:
    assert count_rows(region.snapshot(tuning=SMALL)) == len(region.visible())
