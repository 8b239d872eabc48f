"""The dataset under DataFusion: fragments, limits, errors and pins."""

from __future__ import annotations

import gc
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine.reads import reader_of, scan_batches
from tests.engine.region_dataset import RegionDataset
from tests.engine.scan.regions import MODES, Region, Write, bag, put, row, rows_of, to_rows
from tsdb.clock import ManualClock
from tsdb.engine.rows.run import sort_rows
from tsdb.engine.scan import Snapshot
from tsdb.engine.tuning import ScanTuning
from tsdb.errors import Cancelled, DeadlineExceeded
from tsdb.model import RegionOptions, RegionSchema, Semantic

NAMES = ("host", "ts", "v")


SMALL = ScanTuning(partition_rows_min=8)
"""A few rows are enough to be divided into partitions."""


def hosts(count: int, steps: int, options: RegionOptions = MODES[0]) -> Region:
    """Some hosts, each with the same steps, in two sources one after the other."""
    half = steps // 2
    names = [f"host_{number:03}" for number in range(count)]
    first = put(*(row(name, step, 1.0 * step) for name in names for step in range(half)), source=0)
    second = put(*(row(name, step, 1.0 * step) for name in names for step in range(half, steps)), source=1)
    return Region([first, second], options)


def connect(dataset: RegionDataset, partitions: int = 2) -> datafusion.SessionContext:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(partitions))
    context.register_dataset("t", dataset)
    return context


def query(dataset: RegionDataset, text: str) -> list[dict[str, Any]]:
    return rows_of(connect(dataset).sql(text).collect())


@pytest.mark.parametrize("parallelism", [1, 2, 5])
@pytest.mark.parametrize("options", MODES)
def test_any_number_of_fragments_gives_the_same_rows(parallelism: int, options: RegionOptions) -> None:
    region = hosts(11, 20, options)
    region.writes.append(put(*(row("host_004", step, -1.0) for step in range(3, 17)), source=2))
    dataset = RegionDataset(reader_of(region.snapshot(tuning=SMALL), parallelism=parallelism))
    fragments = list(dataset.get_fragments())
    assert len(fragments) == parallelism == dataset.statistics["fragments"]
    partitions = [rows_of(fragment.scanner(columns=list(NAMES)).to_batches()) for fragment in fragments]
    assert bag((each for partition in partitions for each in partition), NAMES) == bag(region.visible(), NAMES)
    assert bag(query(dataset, "select host, ts, v from t"), NAMES) == bag(region.visible(), NAMES)


def test_fragments_are_about_equally_long_and_keep_series_together() -> None:
    dataset = RegionDataset(reader_of(hosts(100, 20).snapshot(tuning=SMALL), parallelism=4))
    partitions = [rows_of(fragment.scanner(columns=["host"]).to_batches()) for fragment in dataset.get_fragments()]
    assert [len(partition) for partition in partitions] == [500] * 4
    assert [len({each["host"] for each in partition}) for partition in partitions] == [25] * 4


@pytest.mark.parametrize(("rows_min", "lengths"), [(40, [30, 30, 0]), (1000, [60])])
def test_small_segments_are_not_cut_and_small_scans_not_divided(rows_min: int, lengths: list[int]) -> None:
    snapshot = hosts(3, 20).snapshot(tuning=ScanTuning(partition_rows_min=rows_min))
    dataset = RegionDataset(reader_of(snapshot, parallelism=3))
    partitions = [rows_of(fragment.scanner(columns=["host"]).to_batches()) for fragment in dataset.get_fragments()]
    assert [len(partition) for partition in partitions] == lengths


def test_one_series_is_cut_too_within_the_time_that_is_asked_for() -> None:
    dataset = RegionDataset(
        reader_of(Region([put(*(row(None, step) for step in range(1000)))]).snapshot(tuning=SMALL), parallelism=4)
    )
    late = pc.field("ts") >= pa.scalar(800, pa.timestamp("ms"))
    fragments = dataset.get_fragments(filter=late)
    partitions = [rows_of(each.scanner(columns=["ts"], filter=late).to_batches()) for each in fragments]
    assert [len(partition) for partition in partitions] == [50] * 4


def test_count_and_empty_projections_have_rows() -> None:
    dataset = RegionDataset(reader_of(hosts(3, 10).snapshot(tuning=SMALL), parallelism=2))
    assert query(dataset, "select count(*) as n from t") == [{"n": 30}]
    assert query(dataset, "select count(*) as n from t where v > 5") == [{"n": 12}]
    assert query(dataset, "select 1 as x from t where host = 'host_001'") == [{"x": 1}] * 10


def test_filters_arrive_at_series_and_slices() -> None:
    dataset = RegionDataset(reader_of(hosts(50, 20).snapshot(tuning=SMALL), parallelism=2))
    where = "host in ('host_001', 'host_002', 'host_003', 'host_004', 'nobody') and ts < '1970-01-01T00:00:00.005'"
    assert query(dataset, f"select sum(v) as s from t where {where}") == [{"s": 40.0}]
    counted = dataset.statistics
    assert (counted["sources_pruned_by_time"], counted["series_kept"], counted["rows_read"]) == (1, 4, 20)


def test_tags_are_strings() -> None:
    region = hosts(3, 4)
    region.writes.append(put(row(None, 1), row("ä" * 40, 1), source=3))
    dataset = RegionDataset(reader_of(region.snapshot(tuning=SMALL)))
    assert dataset.schema.field("host").type == pa.string()
    assert bag(query(dataset, "select host, ts, v from t"), NAMES) == bag(region.visible(), NAMES)
    found = query(dataset, "select host, count(*) as n from t where host > 'host_000' group by host order by host")
    assert [(each["host"], each["n"]) for each in found] == [("host_001", 4), ("host_002", 4), ("ä" * 40, 1)]


def test_not_in_leaves_null_out_and_nan_is_the_largest_number() -> None:
    region = Region([put(row(None, 1, 1.0), row("z", 1, float("nan")), row("a", 1, 5.0))])
    dataset = RegionDataset(reader_of(region.snapshot(tuning=SMALL)))
    assert query(dataset, "select host from t where host not in ('a', 'b', 'c', 'd', 'e')") == [{"host": "z"}]
    assert query(dataset, "select host from t where v > 4 order by host") == [{"host": "a"}, {"host": "z"}]


def test_a_limit_stops_reading() -> None:
    region = hosts(20, 40)
    released: list[int] = []
    snapshot = region.snapshot(on_release=lambda: released.append(1), tuning=ScanTuning(batch_rows_max=10))
    dataset = RegionDataset(reader_of(snapshot))
    context = connect(dataset, partitions=1)
    assert len(rows_of(context.sql("select host from t limit 3").collect())) == 3
    assert dataset.statistics["rows_read"] <= 400
    assert not released
    del context, dataset, snapshot
    gc.collect()
    # DataFusion lets go of Python objects when it next comes by.
    datafusion.SessionContext()
    assert released == [1]


def test_a_snapshot_is_released_once() -> None:
    released: list[int] = []
    snapshot = hosts(2, 4).snapshot(on_release=lambda: released.append(1))
    batches = scan_batches(snapshot, ["host"])
    next(batches)
    snapshot.release()
    snapshot.release()
    assert snapshot.is_released
    del snapshot, batches
    gc.collect()
    assert released == [1]


def test_an_abandoned_generator_keeps_nothing_pinned() -> None:
    released: list[int] = []
    snapshot = hosts(2, 4).snapshot(on_release=lambda: released.append(1))
    batches = scan_batches(snapshot, ["host"])
    next(batches)
    del snapshot
    assert not released
    del batches
    gc.collect()
    assert released == [1]


def test_a_plan_may_read_its_fragments_again() -> None:
    dataset = RegionDataset(reader_of(hosts(1, 4).snapshot(tuning=SMALL), parallelism=2))
    text = """
        with recursive r as (
            select 0 as n
            union all
            select r.n + 1 from r, (select count(*) as c from t) where r.n < c
        ) select max(n) as n from r
    """
    assert query(dataset, text) == [{"n": 4}]


def test_a_join_with_itself_reads_the_region_twice() -> None:
    dataset = RegionDataset(reader_of(hosts(3, 4).snapshot(tuning=SMALL), parallelism=2))
    assert query(dataset, "select count(*) as n from t a join t b on a.host = b.host and a.ts = b.ts") == [{"n": 12}]
    assert dataset.statistics["fragments"] == 4


def test_the_deadline_is_looked_at_between_batches() -> None:
    clock = ManualClock()
    tuning = ScanTuning(batch_rows_max=10)
    batches = scan_batches(hosts(4, 40).snapshot(deadline_ns=5_000_000_000, clock=clock, tuning=tuning), ["host"])
    next(batches)
    clock.advance(seconds=5)
    with pytest.raises(DeadlineExceeded):
        next(batches)


def test_a_query_past_its_deadline_fails_and_says_why() -> None:
    dataset = RegionDataset(reader_of(hosts(4, 40).snapshot(deadline_ns=0)))
    with pytest.raises(Exception, match="deadline"):
        query(dataset, "select host from t")
    assert isinstance(dataset.failure, DeadlineExceeded)


def test_a_cancelled_query_stops() -> None:
    is_cancelled = [False]
    batches = scan_batches(hosts(4, 40).snapshot(cancelled=lambda: is_cancelled[0]), ["host"])
    next(batches)
    is_cancelled[0] = True
    with pytest.raises(Cancelled):
        list(batches)


def test_a_region_without_tags_is_one_series() -> None:
    schema = RegionSchema.create([("ts", pa.timestamp("ms"), Semantic.TIMESTAMP), ("v", pa.float64(), Semantic.FIELD)])
    rows = [to_rows(schema, Write([{"ts": time, "v": 1.0 * time} for time in range(20)]), 1)]
    other = [to_rows(schema, Write([{"ts": time, "v": -1.0} for time in range(5)]), 100)]
    sources = tuple(sort_rows(schema, each, drop_overwritten=True) for each in (rows, other))
    dataset = RegionDataset(reader_of(Snapshot(schema, RegionOptions(), sources, tuning=SMALL), parallelism=3))
    assert query(dataset, "select count(*) as n, sum(v) as s from t where v < 19") == [{"n": 19, "s": 156.0}]
    assert query(dataset, "select ts, v from t where ts >= '1970-01-01T00:00:00.019'") == [{"ts": 19, "v": 19.0}]
