"""The engine over a remote store: what it costs in requests, and what happens while the store is down."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.engine.harness import DIRECTORY, OPTIONS, REGION, SCHEMA, WAL_OPTIONS, Row, batch_of, read
from tests.store.faulty_service import FaultyOperator, faulty_store
from tsdb.engine.engine import Engine
from tsdb.engine.errors import RegionBusy
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.wal import Wal
from tsdb.errors import TsdbError, wire_of
from tsdb.store import Purpose, StoreUnreachable
from tsdb.store.remote import RemoteStore
from tsdb.units import Duration, Size


def open_remote(root: Path, store: RemoteStore, options: EngineOptions = OPTIONS) -> Engine:
    return Engine.open(store, Wal.open(root / "wal", WAL_OPTIONS)[0], options=options, has_housekeeping=False)


def rows(start: int, count: int = 3) -> list[Row]:
    return [{"host": f"h{number % 2}", "ts": number, "a": float(number)} for number in range(start, start + count)]


def write(engine: Engine, start: int, count: int = 3) -> None:
    engine.write(REGION, batch_of(SCHEMA, rows(start, count))).result(30)


def times(engine: Engine) -> list[int]:
    return sorted(row["ts"] for row in read(engine, REGION))


def requests(store: RemoteStore, before: Counter[tuple[str, str]] | None = None) -> Counter[tuple[str, str]]:
    """Count requests by operation and purpose, since an earlier count."""
    found = Counter({(each.operation.value, each.purpose.value): each.requests for each in store.ledger.counts()})
    return found - (before or Counter())


@pytest.fixture
def opened(tmp_path: Path) -> tuple[Engine, RemoteStore, FaultyOperator]:
    store, service = faulty_store()
    engine = open_remote(tmp_path, store)
    engine.create_region(REGION, DIRECTORY, SCHEMA)
    return engine, store, service


Opened = tuple[Engine, RemoteStore, FaultyOperator]


def test_rows_are_there_after_flush_compaction_and_restart(opened: Opened, tmp_path: Path) -> None:
    engine, store, _ = opened
    for start in (0, 10, 20):
        write(engine, start)
        engine.flush(REGION).result(30)
    engine.compact(REGION).result(30)
    write(engine, 30)
    expected = times(engine)
    assert len(expected) == 12
    engine.close(flush=False)
    again = open_remote(tmp_path, store)
    assert times(again) == expected
    again.drop(REGION).result(30)
    again.housekeeping.tick()
    again.close()
    third = open_remote(tmp_path, store)
    assert list(store.list("data")) == []
    third.close()


def test_a_flush_costs_its_objects_and_no_listing(opened: Opened) -> None:
    engine, store, _ = opened
    write(engine, 0)
    before = requests(store)
    engine.flush(REGION).result(30)
    # The data file and its index; its footer is read back; the manifest, and a look for other writers.
    assert requests(store, before) == {
        ("put", "flush"): 2,
        ("get", "flush"): 1,
        ("put", "manifest"): 1,
        ("head", "manifest"): 1,
        ("get", "manifest"): 1,
    }
    engine.close()


def test_a_query_of_known_files_only_gets_and_a_repeated_one_asks_for_nothing(opened: Opened) -> None:
    engine, store, _ = opened
    write(engine, 0)
    engine.flush(REGION).result(30)
    before = requests(store)
    assert len(times(engine)) == 3
    assert {operation for operation, _ in requests(store, before)} == {"get"}
    before = requests(store)
    assert len(times(engine)) == 3
    assert not requests(store, before)
    engine.close()


def test_a_compaction_counts_its_reads_and_writes(opened: Opened) -> None:
    engine, store, _ = opened
    for start in (0, 10):
        write(engine, start)
        engine.flush(REGION).result(30)
    before = requests(store)
    engine.compact(REGION).result(30)
    done = requests(store, before)
    assert done[("put", "compaction")] == 2
    assert done[("get", "compaction")] >= 2
    assert {purpose for _, purpose in done} <= {"compaction", "manifest", "sweep"}
    assert not any(operation == "list" for operation, _ in done)
    engine.close()


def test_writes_go_on_while_the_store_is_down_and_nothing_is_lost(opened: Opened, tmp_path: Path) -> None:
    engine, store, service = opened
    write(engine, 0)
    engine.flush(REGION).result(30)
    assert times(engine) == [0, 1, 2]
    service.is_down = True
    for start in (10, 20, 30):
        write(engine, start)
        with pytest.raises(TsdbError):
            engine.flush(REGION).result(30)
    assert engine.stat(REGION).flush_failures == 3
    # What is in memory, and what was read of files, is still served.
    expected = [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]
    assert times(engine) == expected
    service.is_down = False
    engine.flush(REGION).result(30)
    assert engine.stat(REGION).flush_failures == 0
    assert times(engine) == expected
    engine.close()
    again = open_remote(tmp_path, store)
    assert times(again) == expected
    again.close()


def test_a_server_that_ends_while_the_store_is_down_has_its_rows_in_the_log(opened: Opened, tmp_path: Path) -> None:
    engine, store, service = opened
    write(engine, 0)
    service.is_down = True
    engine.close()
    service.is_down = False
    again = open_remote(tmp_path, store)
    assert times(again) == [0, 1, 2]
    again.close()


def test_files_that_are_not_in_memory_cannot_be_read_while_the_store_is_down(opened: Opened, tmp_path: Path) -> None:
    engine, store, service = opened
    write(engine, 0)
    engine.close()
    again = open_remote(tmp_path, store)
    service.is_down = True
    with pytest.raises(StoreUnreachable, match="cannot read from memory://bucket") as caught:
        read(again, REGION)
    assert wire_of(caught.value).http == 503
    service.is_down = False
    assert times(again) == [0, 1, 2]
    again.close()


def test_writes_are_refused_when_the_buffer_is_full_and_taken_again_after_a_flush(tmp_path: Path) -> None:
    store, service = faulty_store()
    options = EngineOptions(
        num_workers=1,
        max_background_jobs=2,
        global_write_buffer_size=Size(40_000),
        global_write_buffer_reject_size=Size(80_000),
        stall_timeout=Duration.of_seconds(0),
    )
    engine = open_remote(tmp_path, store, options)
    engine.create_region(REGION, DIRECTORY, SCHEMA)
    service.is_down = True
    start = 0

    def fill() -> None:
        nonlocal start
        for _ in range(1000):
            write(engine, start, 100)
            start += 100

    with pytest.raises(RegionBusy):
        fill()
    service.is_down = False
    engine.flush(REGION).result(30)
    write(engine, start, 100)
    assert times(engine) == list(range(start + 100))
    engine.close()


@pytest.mark.parametrize("times_lost", [1, 5])
def test_a_manifest_whose_answer_was_lost_is_committed_once(opened: Opened, times_lost: int) -> None:
    engine, _, service = opened
    write(engine, 0)

    def lose(operation: str) -> None:
        if operation == "write" and service.calls["write"] == begun + 2:
            service.lose_reply("write", times=times_lost)

    begun = service.calls["write"]
    # The third write of a flush is the manifest: the data file and its index come before.
    service.on_call = lose
    engine.flush(REGION).result(30)
    assert times(engine) == [0, 1, 2]
    write(engine, 10)
    engine.flush(REGION).result(30)
    assert times(engine) == [0, 1, 2, 10, 11, 12]
    assert engine.stat(REGION).files == 2
    engine.close()


def test_what_opening_costs_is_counted_apart(tmp_path: Path) -> None:
    store, _ = faulty_store()
    open_remote(tmp_path, store).close()
    assert requests(store) == {("list", Purpose.START.value): 1}
