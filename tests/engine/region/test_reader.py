"""Readers of regions: what their verbs answer beyond what queries show."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.harness import REGION, create, open_engine, put
from tests.engine.region_dataset import reader_of
from tests.engine.scan.regions import MODES, Region, row
from tests.engine.scan.regions import put as written
from tsdb.engine.reading import (
    CellsRequest,
    CellsRun,
    Conditions,
    KnownSeriesRequest,
    RunQuery,
    SamplesRequest,
    SeriesRequest,
    TagMatch,
    merge_aggregated,
)
from tsdb.model import AddColumn, Matcher, MatchOp, Semantic, TimeRange, match_values

OPS: tuple[MatchOp, ...] = ("=", "!=", "=~", "!~")
HOSTS = [None, "", "a", "ab", "b"]


@pytest.mark.parametrize(("op", "value"), list(product(OPS, ["", "a", "a|b", "a.*", "zz"])))
def test_a_matcher_decides_on_series_as_it_does_on_texts(op: MatchOp, value: str) -> None:
    region = Region([written(*(row(host, 1, 1.0) for host in HOSTS), source=0), written(row("c", 2, 1.0), source=1)])
    reader = reader_of(region.snapshot())
    matcher = Matcher("host", op, value)
    wanted = Conditions(TimeRange.ALL, (TagMatch(matcher),))
    hosts = [*HOSTS, "c"]
    chosen = [host for host, is_match in zip(hosts, match_values(matcher, pa.array(hosts)), strict=True) if is_match]
    found = reader.series(SeriesRequest(wanted, TimeRange.ALL, ["v"])).tags.column("host").to_pylist()
    assert sorted(found, key=str) == sorted(chosen, key=str)
    listed = [host for tags in reader.list_series(wanted, TimeRange.ALL) for host in tags.column("host").to_pylist()]
    assert sorted(listed, key=str) == sorted(chosen, key=str)


def test_listed_series_may_have_rows_in_the_range(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [{"host": "a", "ts": 1, "a": 1.0}, {"host": "b", "ts": 5, "a": 1.0}])
    engine.flush(REGION).result(timeout=30)
    engine.alter(REGION, [AddColumn("rack", pa.string(), Semantic.TAG)]).result(timeout=30)
    put(engine, [{"host": "a", "rack": "r", "ts": 9, "a": 1.0}])
    reader = engine.open_reader(REGION)

    def listed(span: TimeRange, *checks: TagMatch) -> list[tuple[Any, Any]]:
        batches = reader.list_series(Conditions(TimeRange.ALL, checks), span)
        return sorted([(each["host"], each["rack"]) for batch in batches for each in batch.to_pylist()], key=str)

    assert listed(TimeRange.ALL) == [("a", "r"), ("a", None), ("b", None)]
    assert listed(TimeRange(0, 5)) == [("a", None)]
    assert listed(TimeRange(6, 8)) == []
    # Series that were written before the tag came do not have it.
    assert listed(TimeRange.ALL, TagMatch(Matcher("rack", "=", ""))) == [("a", None), ("b", None)]
    assert listed(TimeRange.ALL, TagMatch(Matcher("rack", "!=", ""))) == [("a", "r")]
    engine.close()


def test_numbers_of_series_stay_while_others_come(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [{"host": "b", "ts": 1, "a": 1.0}])
    first = engine.open_reader(REGION).known_series(KnownSeriesRequest(TimeRange.ALL))
    put(engine, [{"host": "a", "ts": 1, "a": 2.0}])
    reader = engine.open_reader(REGION)
    second = reader.known_series(KnownSeriesRequest(TimeRange.ALL, None if first is None else first.version))
    assert first is not None
    assert second is not None
    assert (first.version[0], second.version[0] > 0) == (second.version[0], True)
    assert second.version[1] > first.version[1]
    assert first.tags is not None
    assert second.tags is not None
    assert second.tags.column("host").to_pylist()[: first.tags.num_rows] == first.tags.column("host").to_pylist()
    numbers = pa.array([1, 0], pa.uint32()).to_numpy()
    # Without a request for the series of this range before, they are looked up.
    samples = engine.open_reader(REGION).samples(SamplesRequest(TimeRange.ALL, "a", numbers))
    assert samples is not None
    assert [pa.array(each).to_pylist() for each in samples.columns()] == [[0, 1, 2], [1, 1], [2.0, 1.0]]
    engine.close()


HOST_NAMES = st.sampled_from([None, "a", "b", "c"])
ROWS = st.dictionaries(st.tuples(HOST_NAMES, st.integers(0, 20)), st.floats(-9, 9).map(float), max_size=10)
QUERIES: list[Callable[[], RunQuery]] = [
    lambda: RunQuery(keys=("host",), states={"v": ("sum", "min", "max")}),
    lambda: RunQuery(keys=(), width=5, states={"v": ("total",)}, is_counted=True),
    lambda: RunQuery(keys=("host",), newest=("v",)),
    lambda: RunQuery(keys=("zone", "host"), states={"v": ()}, gathered=("v",)),
]


@settings(deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=3), st.sampled_from(QUERIES))
def test_cells_of_several_regions_are_those_of_one_that_has_all_rows(
    parts: list[dict[tuple[str | None, int], float]], query: Callable[[], RunQuery]
) -> None:
    """Keys are apart, as those of the regions of a table are; groups and buckets meet."""
    regions = [
        [row(host, 3 * time + at, value) for (host, time), value in rows.items()] for at, rows in enumerate(parts)
    ]
    several = [aggregate(Region([written(*rows)] if rows else [], MODES[0]), query()) for rows in regions]
    whole = aggregate(Region([written(*rows) for rows in regions if rows], MODES[0]), query())
    assert shown(merge_aggregated(several), query()) == shown(whole, query())


def aggregate(region: Region, query: RunQuery) -> Any:
    reader = reader_of(region.snapshot())
    planned = reader.plan_cells(CellsRequest(None, query))
    return reader.cells(CellsRun(planned.number))


def shown(found: Any, query: RunQuery) -> dict[tuple[Any, ...], Any]:
    cells = found.cells
    if cells is None:
        return {}
    keys = [found.groups.key(at, cells.groups).to_pylist() for at in range(len(query.keys))]
    ends = [] if cells.newest is None else [cells.newest.times.tolist(), cells.newest.values["v"].to_pylist()]
    gathered = iter(cells.gathered["v"].tolist()) if cells.gathered else iter(())
    states = {state: values.tolist() for state, values in cells.states.items()}
    rows = {}
    for at, bucket in enumerate(cells.buckets.tolist()):
        own = {state: pytest.approx(values[at]) for state, values in states.items()}
        middle = sorted(next(gathered) for _ in range(states["v", "count"][at])) if cells.gathered else []
        key = (*(column[at] for column in keys), bucket)
        assert key not in rows
        rows[key] = (cells.rows.tolist()[at], own, [end[at] for end in ends], middle)
    return rows
