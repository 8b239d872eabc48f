"""Coming into append mode with rows: those from before stay merged, those from then on are all kept."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.engine import lives
from tests.engine.harness import DIRECTORY, REGION, Row, batch_of, create, delete, open_engine, put, read, scan
from tests.engine.region_dataset import RegionDataset
from tsdb.clock import SystemClock
from tsdb.engine import Engine
from tsdb.engine.manifest import Manifest
from tsdb.engine.scan import count_rows, last_rows, scan_batches, scan_series
from tsdb.errors import Unsupported
from tsdb.model import MergeMode, OpType, RegionOptions, TimeRange
from tsdb.store import LocalStore
from tsdb.units import Duration

APPEND = RegionOptions(append_mode=True)


def row(host: str, ts: int, a: float | None = None, b: int | None = None) -> Row:
    return {"host": host, "dc": "x", "ts": ts, "a": a, "b": b}


def values(engine: Engine) -> list[tuple[Any, ...]]:
    """What every way of reading agrees on: host, time, a, b."""

    def plain(rows: list[Row]) -> list[tuple[Any, ...]]:
        return sorted(((each["host"], each["ts"], each["a"], each["b"]) for each in rows), key=repr)

    found = plain(scan(engine))
    assert plain(read(engine)) == found
    assert count_rows(engine.snapshot(REGION)) == len(found)
    series = scan_series(engine.snapshot(REGION), None, TimeRange.ALL, ["a", "b"])
    assert sorted(series.times.tolist()) == sorted(ts for _, ts, _, _ in found)
    assert sorted(series.fields["a"].to_pylist(), key=repr) == sorted((a for _, _, a, _ in found), key=repr)
    return found


def enter(engine: Engine) -> None:
    engine.set_options(REGION, APPEND).result(10)


@pytest.mark.parametrize("flush_before", [False, True])
@pytest.mark.parametrize("flush_after", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_overwritten_and_deleted_rows_stay_hidden_and_new_ones_are_all_kept(
    tmp_path: Path, flush_before: bool, flush_after: bool, restart: bool
) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [row("a", 0, 1.0), row("a", 1, 2.0), row("b", 0, 3.0)])
    if flush_before:
        engine.flush(REGION).result(10)
    put(engine, [row("a", 0, 4.0)])
    delete(engine, [row("a", 1), row("b", 0)])
    enter(engine)
    put(engine, [row("a", 0, 5.0), row("a", 0, 6.0), row("a", 1, 7.0)])
    put(engine, [row("a", 0, 5.0)])
    if flush_after:
        engine.flush(REGION).result(10)
    if restart:
        engine.close(flush=False)
        engine = open_engine(tmp_path)
    assert values(engine) == [
        *(("a", 0, 4.0, None), ("a", 0, 5.0, None), ("a", 0, 5.0, None)),
        *(("a", 0, 6.0, None), ("a", 1, 7.0, None)),
    ]
    newest = last_rows(engine.snapshot(REGION), None, ["host", "a"])
    assert newest.to_pylist() == [{"host": "a", "a": 7.0}]
    engine.close()


@pytest.mark.parametrize("restart", [False, True])
def test_rows_from_before_keep_their_merge_mode(tmp_path: Path, restart: bool) -> None:
    engine = open_engine(tmp_path)
    create(engine, options=RegionOptions(merge_mode=MergeMode.LAST_NON_NULL))
    put(engine, [row("a", 0, 1.0, None)])
    engine.flush(REGION).result(10)
    put(engine, [row("a", 0, None, 2)])
    enter(engine)
    put(engine, [row("a", 0, None, 3)])
    engine.set_options(REGION, RegionOptions(append_mode=True, ttl=Duration.of_seconds(5 * 10**9))).result(10)
    put(engine, [row("a", 0, 9.0, None)])
    if restart:
        engine.close(flush=False)
        engine = open_engine(tmp_path)
    expected = [("a", 0, 1.0, 2), ("a", 0, 9.0, None), ("a", 0, None, 3)]
    assert values(engine) == expected
    engine.flush(REGION).result(10)
    assert values(engine) == expected
    assert last_rows(engine.snapshot(REGION), None, ["a", "b"]).to_pylist() == [{"a": 9.0, "b": None}]
    engine.close()


def test_filters_on_fields_see_merged_rows_and_kept_ones(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [row("a", 0, 1.0)])
    engine.flush(REGION).result(10)
    put(engine, [row("a", 0, 2.0)])
    enter(engine)
    put(engine, [row("a", 0, 1.0), row("a", 0, 2.0)])

    def count(value: float) -> int:
        batches = scan_batches(engine.snapshot(REGION), ["a"], pc.field("a") == value)
        return sum(batch.num_rows for batch in batches)

    assert count(1.0) == 1
    assert count(2.0) == 2
    engine.close()


def test_rows_from_before_and_after_share_no_file_and_only_the_old_ones_are_merged(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [row("a", 0, 1.0), row("b", 0, 1.0)])
    put(engine, [row("a", 0, 2.0)])
    enter(engine)
    put(engine, [row("a", 0, 3.0)])
    put(engine, [row("a", 0, 4.0)])
    engine.flush(REGION).result(10)
    facts = sorted((file.rows, file.sequence) for file in engine.files(REGION))
    assert facts == [(2, 3), (2, 5)]
    dataset = RegionDataset(engine.open_reader(REGION))
    assert sum(batch.num_rows for batch in dataset.scanner().to_batches()) == 4
    assert (dataset.statistics["segments_merged"], dataset.statistics["segments_direct"]) == (0, 2)
    engine.close()


def test_the_manifest_remembers_from_which_sequence_on_rows_are_kept(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine, options=RegionOptions(merge_mode=MergeMode.LAST_NON_NULL))
    put(engine, [row("a", 0), row("b", 0)])
    enter(engine)
    put(engine, [row("a", 0)])
    enter(engine)
    expected = {"append_mode": True, "append_from": 3, "merge_mode": "last_non_null"}
    assert json.loads(engine.stat(REGION).options) == expected
    engine.close()
    state = Manifest.open(
        LocalStore(tmp_path), DIRECTORY, REGION, epoch=0, checkpoint_distance=10, clock=SystemClock()
    ).state
    assert RegionOptions.from_json(state.options.to_json()) == state.options
    assert state.options.to_json() == expected


def test_append_mode_is_for_good(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [row("a", 0, 1.0)])
    enter(engine)
    with pytest.raises(Unsupported, match="append mode"):
        engine.set_options(REGION, RegionOptions()).result(10)
    with pytest.raises(Unsupported, match="append mode"):
        delete(engine, [row("a", 0)])
    engine.truncate(REGION).result(10)
    put(engine, [row("a", 0, 2.0), row("a", 0, 2.0)])
    assert values(engine) == [("a", 0, 2.0, None)] * 2
    engine.close()


def test_a_delete_that_was_queued_before_the_change_and_comes_after_it_is_refused(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [row("a", 0, 1.0)])
    worker = engine._region(REGION).worker
    late: list[Future[Any]] = []
    # On the worker itself, so that the change is behind this call and the delete behind the change.
    worker.call(lambda: late.extend([engine.set_options(REGION, APPEND), _begin_delete(engine)])).result(10)
    changed, deleted = late
    changed.result(10)
    with pytest.raises(Unsupported, match="append mode"):
        deleted.result(10)
    assert values(engine) == [("a", 0, 1.0, None)]
    lives.settle(engine)
    engine.close()


def _begin_delete(engine: Engine) -> Future[int]:
    return engine.write(REGION, batch_of(engine.schema(REGION), [row("a", 0)], OpType.DELETE))


def test_a_snapshot_from_before_the_change_goes_on_showing_what_was_there(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    put(engine, [row("a", 0, 1.0)])
    put(engine, [row("a", 0, 2.0)])
    before = engine.snapshot(REGION)
    enter(engine)
    put(engine, [row("a", 0, 3.0)])
    assert [batch.column(0).to_pylist() for batch in scan_batches(before, ["a"])] == [[2.0]]
    assert len(values(engine)) == 2
    engine.close()
