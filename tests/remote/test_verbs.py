"""Every verb of regions and of readers answers over a connection what it answers in the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine.harness import SCHEMA, batch_of
from tests.kv.etcd_process import free_port
from tests.remote.world import DIRECTORY, REGION, World, rows_of, wait_until
from tests.store.faulty_service import faulty_store
from tsdb.engine import SchemaOutdated, StrictWindows
from tsdb.engine.errors import RegionNotFound, ScanTooLarge
from tsdb.engine.reading import (
    CellsRequest,
    CellsRun,
    ComputedKey,
    Conditions,
    KnownSeriesRequest,
    RegionReader,
    RunQuery,
    SamplesRequest,
    ScanRequest,
    SeriesRequest,
    TagIs,
    TagsAsked,
)
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import (
    AddColumn,
    OpType,
    Peer,
    RegionOptions,
    Semantic,
    TimeRange,
    region_id,
)
from tsdb.remote import NodeUnavailable
from tsdb.remote.codec import encode_value
from tsdb.units import Duration

ROWS = [
    {"host": host, "dc": "x" if host < "c" else None, "ts": at * 1000, "a": at / 2, "b": at}
    for host in ("a", "b", "c")
    for at in range(10)
]
NAMES = [column.name for column in SCHEMA.columns]


@pytest.fixture(autouse=True)
def _filled(world: World) -> None:
    assert world.put(ROWS) == len(ROWS)


def both(world: World, ask: Callable[[RegionReader], Any]) -> Any:
    """Ask a local reader and a remote one; what they answer must be the same to the last bit."""
    answers = []
    for regions in (world.engine, world.regions):
        reader = regions.open_reader(REGION)
        try:
            answers.append(ask(reader))
        finally:
            reader.release()
    assert encode_value(answers[1]) == encode_value(answers[0])
    return answers[1]


FILTER = Conditions(TimeRange(2000, 8000), (TagIs.one_of("host", ["a", "c"]),))


def test_rows_are_scanned(world: World) -> None:
    assert rows_of(world.regions, NAMES) == rows_of(world.engine, NAMES)
    assert len(rows_of(world.regions, NAMES)) == len(ROWS)


def test_a_scan_of_no_columns_counts_rows(world: World) -> None:
    def count(reader: RegionReader) -> int:
        planned = reader.plan_scan(FILTER)
        return sum(batch.num_rows for batch in reader.scan(ScanRequest(planned.number, 0, [])))

    assert both(world, count) == 12


def test_a_filter_of_arrow_is_sent(world: World) -> None:
    def scan(reader: RegionReader) -> list[Any]:
        planned = reader.plan_scan((pc.field("a") > 3.0) & pc.field("host").isin(["a", "b"]))
        return [row for batch in reader.scan(ScanRequest(planned.number, 0, ["b"])) for row in batch.to_pylist()]

    assert both(world, scan) == [{"b": at} for at in (7, 8, 9)] * 2


def test_bounds_and_series(world: World) -> None:
    assert both(world, lambda reader: reader.bounds(FILTER)) is not None
    assert both(world, lambda reader: reader.bounds(Conditions(TimeRange(10**9, 10**9 + 1)))) is None
    found = both(world, lambda reader: reader.series(SeriesRequest(FILTER, TimeRange.ALL, ["a", "b"])))
    assert len(found.times) == 12
    listed = both(world, lambda reader: reader.list_series(FILTER, TimeRange.ALL))
    assert sum(batch.num_rows for batch in listed) == 2


def test_cells_with_expressions_that_the_caller_computes(world: World) -> None:
    asked: list[int] = []

    def evaluate(number: int, tags: pa.RecordBatch) -> pa.Array:
        asked.append(number)
        values = tags.column(0)
        return pc.utf8_upper(values) if number == 1 else pc.not_equal(values, "b")

    def aggregate(reader: RegionReader) -> Any:
        query = RunQuery(
            ("H",), {"H": ComputedKey(("host",), 1)}, width=5000, states={"a": ("sum", "max")}, newest=("b",)
        )
        request = CellsRequest(Conditions(TimeRange.ALL, (TagsAsked(frozenset({"host"}), 0),)), query)
        planned = reader.plan_cells(request, evaluate)
        found = reader.cells(CellsRun(planned.number))
        assert found.cells is not None
        keys = found.groups.key(0, found.cells.groups).to_pylist()
        return keys, found.cells.buckets, found.cells.states, found.cells.newest, planned.time_range

    keys, *_ = both(world, aggregate)
    assert keys == ["A", "A", "C", "C"]
    assert asked.count(0) == asked.count(1) == 2


def test_an_error_of_an_expression_is_raised_as_it_is(world: World) -> None:
    class Odd(Exception):
        pass

    def evaluate(number: int, tags: pa.RecordBatch) -> pa.Array:
        raise Odd("of mine")

    reader = world.regions.open_reader(REGION)
    request = CellsRequest(Conditions(TimeRange.ALL, (TagsAsked(frozenset({"host"}), 0),)), RunQuery(("host",)))
    with pytest.raises(Odd, match="of mine"):
        reader.plan_cells(request, evaluate)
    assert reader.plan_cells(CellsRequest(None, RunQuery(("host",)))).series == 3
    reader.release()
    wait_until(lambda: not len(world.server.readers))


def test_samples_and_labels_that_are_held(world: World) -> None:
    request = KnownSeriesRequest(TimeRange(0, 9000))
    reader = world.regions.open_reader(REGION)
    known = reader.known_series(request)
    assert known is not None
    assert known.tags is not None
    assert sorted(known.tags.column("host").to_pylist()) == ["a", "b", "c"]
    again = reader.known_series(KnownSeriesRequest(TimeRange(0, 9000), known.version))
    assert again is not None
    assert (again.version, again.tags) == (known.version, None)
    numbers = np.array([2, 0], dtype=np.uint32)
    found = reader.samples(SamplesRequest(TimeRange(0, 9000), "a", numbers))
    local = world.engine.open_reader(REGION)
    expected = local.samples(SamplesRequest(TimeRange(0, 9000), "a", numbers))
    assert found is not None
    assert expected is not None
    assert (len(found), found.series) == (18, 2)
    assert [pa.array(each).to_pylist() for each in (found.places, *found.columns())] == [
        pa.array(each).to_pylist() for each in (expected.places, *expected.columns())
    ]
    local.release()
    reader.release()


def test_no_samples_are_samples(world: World) -> None:
    reader = world.regions.open_reader(REGION)
    assert reader.known_series(KnownSeriesRequest(TimeRange(0, 9000))) is not None
    found = reader.samples(SamplesRequest(TimeRange(0, 9000), "a", np.array([], dtype=np.uint32)))
    assert found is not None
    assert (len(found), found.series) == (0, 0)
    reader.release()


def test_a_reader_shows_what_was_there_when_it_was_first_asked(world: World) -> None:
    reader = world.regions.open_reader(REGION)
    planned = reader.plan_scan(None)
    world.put([{"host": "z", "ts": 1, "a": 1.0}])
    assert sum(batch.num_rows for batch in reader.scan(ScanRequest(planned.number, 0, ["a"]))) == len(ROWS)
    assert (reader.sources, reader.schema) == (1, SCHEMA)
    assert reader.statistics()["rows_returned"] == len(ROWS)
    reader.release()
    assert len(rows_of(world.regions, ["a"])) == len(ROWS) + 1


def test_rows_are_deleted(world: World) -> None:
    keys = [{"host": "a", "dc": "x", "ts": at * 1000} for at in range(10)]
    assert world.regions.write(REGION, batch_of(SCHEMA, keys, OpType.DELETE)).result(30) == 10
    assert len(rows_of(world.regions, ["a"])) == len(ROWS) - 10


def test_no_rows_are_written_at_once(world: World) -> None:
    assert world.regions.write(REGION, batch_of(SCHEMA, [])).result(0) == 0


def test_a_batch_that_does_not_fit_is_refused_before_it_is_sent(world: World) -> None:
    other = SCHEMA.create([("host", pa.string(), Semantic.TAG), ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP)])
    with pytest.raises(InvalidArguments, match="other tags"):
        world.regions.write(REGION, batch_of(other, [{"host": "a", "ts": 1}]))


def add_column(world: World, through: Any) -> None:
    through.alter(REGION, [AddColumn("c", pa.float64())]).result(30)


def test_a_write_for_another_version_is_refused_and_the_schema_is_read_again(world: World) -> None:
    assert world.regions.schema(REGION).version == 0
    add_column(world, world.engine)
    assert world.regions.schema(REGION).version == 0, "nobody has said yet that there is a newer one"
    refused = world.regions.write(REGION, batch_of(SCHEMA, ROWS[:1]), schema_version=0)
    with pytest.raises(SchemaOutdated) as raised:
        refused.result(30)
    assert (raised.value.expected, raised.value.current) == (0, 1)
    assert world.routes.caught_up == 1
    schema = world.regions.schema(REGION)
    assert schema.version == 1
    assert world.regions.write(REGION, batch_of(schema, ROWS[:1]), schema_version=1).result(30) == 1


def test_a_write_for_a_newer_version_has_the_schema_read_first(world: World) -> None:
    assert world.regions.schema(REGION).version == 0
    add_column(world, world.engine)
    newer = world.engine.schema(REGION)
    assert world.regions.write(REGION, batch_of(newer, ROWS[:1]), schema_version=1).result(30) == 1
    with pytest.raises(SchemaOutdated):
        world.regions.write(REGION, batch_of(newer, ROWS[:1]), schema_version=2)


def test_a_write_for_no_version_follows_the_schema(world: World) -> None:
    assert world.regions.schema(REGION).version == 0
    add_column(world, world.engine)
    assert world.regions.write(REGION, batch_of(SCHEMA, ROWS[:1])).result(30) == 1
    assert world.regions.schema(REGION).version == 1


def test_an_alter_through_this_client_is_known_at_once(world: World) -> None:
    assert world.regions.schema(REGION).version == 0
    add_column(world, world.regions)
    assert world.regions.schema(REGION).version == 1


def test_files_are_made_merged_and_verified(world: World) -> None:
    regions = world.regions
    regions.flush(REGION).result(30)
    world.put(ROWS[:3])
    regions.flush(REGION).result(30)
    assert [file.rows for file in regions.files(REGION)] == [len(ROWS), 3]
    assert regions.files(REGION) == world.engine.files(REGION)
    regions.compact(REGION, StrictWindows(Duration.parse("1h")), parallelism=2).result(30)
    assert regions.verify(REGION).result(30) == world.engine.verify(REGION).result(30)
    assert {record.node_id for record in regions.compactions()} == {1}
    assert [record.number for record in regions.compactions()] == [
        record.number for record in world.engine.compactions()
    ]
    assert regions.time_range(REGION) == world.engine.time_range(REGION)
    regions.truncate(REGION, [TimeRange(-1, 10**9)]).result(30)
    assert regions.files(REGION) == []


def test_options_facts_and_the_end(world: World) -> None:
    regions = world.regions
    regions.set_options(REGION, RegionOptions(ttl=Duration.parse("100000d"))).result(30)
    assert '"ttl"' in regions.stat(REGION).options
    assert regions.stat(REGION).memtable_rows == len(ROWS)
    segments = [(path, replace(facts, node_id=1)) for path, facts in world.engine.wal_segments()]
    assert regions.wal_segments() == segments
    lost = Peer(2, f"127.0.0.1:{free_port()}")
    world.routes.peers = lambda: [lost, Peer(1, world.server.address)]  # type: ignore[method-assign]
    assert regions.wal_segments() == segments, "a node that is down hides no other"
    store, _ = faulty_store(name="of a datanode")
    store.put("a", b"x")
    (facts,) = [each for each in regions.storage_requests() if each.store == "of a datanode"]
    assert (facts.node_id, facts.requests, facts.state) == (1, 1, "ok"), "a node that is down hides no other"
    world.routes.peers = lambda: [Peer(1, world.server.address)]  # type: ignore[method-assign]
    assert regions._ask_all("no such verb") == [], "nor does one of another version"
    world.routes.peers = lambda: [lost, Peer(1, world.server.address)]  # type: ignore[method-assign]
    with pytest.raises(Unsupported, match="there is no shared log"):
        regions.skip_log_object("wal/1/00000001/0000000000000007.log")
    world.routes.peers = lambda: [lost]  # type: ignore[method-assign]
    with pytest.raises(NodeUnavailable):
        regions.skip_log_object("wal/1/00000001/0000000000000007.log")
    regions.discard_unflushed(REGION).result(30)
    assert regions.stat(REGION).memtable_rows == 0
    regions.truncate(REGION).result(30)
    regions.drop(REGION).result(30)
    with pytest.raises(RegionNotFound):
        regions.stat(REGION)
    with pytest.raises(RegionNotFound):
        regions.flush(REGION).result(30)


def test_a_region_is_created_once(world: World) -> None:
    world.regions.create_region(REGION, DIRECTORY, SCHEMA)
    assert world.regions.region_ids(world.routes.peers()[0]) == [REGION]


def test_errors_arrive_as_what_they_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ScanTooLarge(rows=7, bytes_max=8)

    monkeypatch.setattr(type(world.engine.open_reader(REGION)), "bounds", refuse)
    reader = world.regions.open_reader(REGION)
    with pytest.raises(ScanTooLarge, match=r"rows: 7, bytes_max: 8\); choose fewer") as raised:
        reader.bounds(None)
    assert raised.value.fields == {"rows": 7, "bytes_max": 8}
    with pytest.raises(RegionNotFound):
        world.regions.open_reader(region_id(9, 9)).plan_scan(None)
