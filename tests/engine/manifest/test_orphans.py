"""Which files nobody needs, and that no other is touched."""

from __future__ import annotations

import logging

import pytest

from tests.engine.manifest.regions import DIRECTORY, NOW_MS, FaultyStore, create, file_id, make_file
from tsdb.clock import ManualClock
from tsdb.engine.manifest import Edit, data_path, index_path, plan_orphan_sweep, run_orphan_sweep
from tsdb.store import MemoryStore, ObjectMeta

HOUR_MS = 3_600_000
STATE = create(MemoryStore()).commit([Edit(added=(make_file(1), make_file(2))), Edit(removed=(file_id(2),))])


@pytest.mark.parametrize(
    ("path", "age_ms", "is_orphan"),
    [
        (data_path(DIRECTORY, file_id(9)), HOUR_MS, True),
        (index_path(DIRECTORY, file_id(9)), HOUR_MS, True),
        (data_path(DIRECTORY, file_id(9)), HOUR_MS - 1, False),
        (data_path(DIRECTORY, file_id(9)), -HOUR_MS, False),
        (data_path(DIRECTORY, file_id(1)), HOUR_MS, False),
        (index_path(DIRECTORY, file_id(1)), HOUR_MS, False),
        (data_path(DIRECTORY, file_id(2)), HOUR_MS, False),
        (data_path(DIRECTORY, file_id(5)), HOUR_MS, False),
        (index_path(DIRECTORY, file_id(5)), HOUR_MS, False),
        (f"{DIRECTORY}/manifest/{1:020}.json", HOUR_MS, False),
        (f"{DIRECTORY}/.dropping", HOUR_MS, False),
        (f"{DIRECTORY}/notes.parquet", HOUR_MS, False),
        (f"{DIRECTORY}/elsewhere/{file_id(9)}.parquet", HOUR_MS, False),
        (f"{DIRECTORY}/index/{file_id(9)}.parquet", HOUR_MS, False),
        (f"{DIRECTORY}/{file_id(9)}.idx", HOUR_MS, False),
        (f"{DIRECTORY}0/{file_id(9)}.parquet", HOUR_MS, False),
    ],
)
def test_orphans_are_old_unknown_data_and_index_files(path: str, age_ms: int, is_orphan: bool) -> None:
    objects = [ObjectMeta(path, 1, (NOW_MS - age_ms) * 1_000_000)]
    planned = plan_orphan_sweep(objects, DIRECTORY, STATE, in_flight={file_id(5)}, newest_ms=NOW_MS - HOUR_MS)
    assert planned == ([path] if is_orphan else [])


def test_a_sweep_deletes_orphans_and_returns_their_paths() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    kept = [data_path(DIRECTORY, file_id(1)), data_path(DIRECTORY, file_id(5)), f"{DIRECTORY}/manifest/{1:020}.json"]
    orphans = [data_path(DIRECTORY, file_id(8)), index_path(DIRECTORY, file_id(9))]
    for path in kept + orphans:
        store.put(path, b"x")

    def sweep(newest_ms: int) -> list[str]:
        objects = list(store.list(DIRECTORY))
        planned = plan_orphan_sweep(objects, DIRECTORY, STATE, in_flight={file_id(5)}, newest_ms=newest_ms)
        return run_orphan_sweep(store, planned)

    assert sweep(-1) == []
    assert sorted(sweep(0)) == sorted(orphans)
    assert sorted(found.path for found in store.list(DIRECTORY)) == sorted(kept)
    assert sweep(0) == []


def test_an_orphan_that_cannot_be_deleted_does_not_stop_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    store.fail("delete")
    with caplog.at_level(logging.WARNING):
        assert run_orphan_sweep(store, ["a", "b"]) == ["b"]
    assert "orphan not deleted" in caplog.text
