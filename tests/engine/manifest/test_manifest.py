"""A manifest's life when nothing fails: create, commit, checkpoint, open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.manifest.regions import (
    CLOCK,
    DIRECTORY,
    NOW_MS,
    REGION,
    SCHEMA,
    create,
    file_id,
    make_file,
    names,
    next_schema,
    reopen,
)
from tsdb.clock import ManualClock
from tsdb.engine.errors import InvalidManifestAction, ManifestCorrupted, ManifestMismatch, ManifestNotFound
from tsdb.engine.manifest import Change, Edit, Manifest, Remove, RemovedFile, Truncate
from tsdb.model import RegionId, RegionOptions, TimeRange
from tsdb.store import LocalStore, MemoryStore, ObjectStore
from tsdb.units import Duration


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


def test_a_new_manifest_has_a_schema_and_no_files(store: ObjectStore) -> None:
    state = create(store, epoch=3).state
    assert (state.region_id, state.schema, state.version, state.epoch) == (REGION, SCHEMA, 1, 3)
    assert not state.files
    assert names(store) == ["1.json"]


def test_what_is_committed_is_there_after_reopening(store: ObjectStore) -> None:
    manifest = create(store)
    options = RegionOptions(ttl=Duration.parse("30d"))
    manifest.commit(Edit(added=(make_file(0), make_file(1)), flushed_entry_id=5, flushed_sequence=50))
    manifest.commit([Change(next_schema(SCHEMA), options), Edit(compaction_window_seconds=3600)])
    manifest.commit(Edit(added=(make_file(2),), removed=(file_id(0),)))
    manifest.commit(Truncate(9, 90))
    state = manifest.commit(Edit(added=(make_file(3),), flushed_entry_id=11, flushed_sequence=110))
    assert state is manifest.state
    assert state.version == 6
    assert state.options == options
    assert list(state.files) == [file_id(3)]
    assert state.removed_files == tuple(RemovedFile(file_id(number), NOW_MS) for number in (0, 1, 2))
    assert (state.flushed_entry_id, state.truncated_entry_id) == (11, 9)
    assert reopen(store).state == state


def test_creating_again_opens_what_is_there(store: ObjectStore) -> None:
    manifest = create(store, distance=1)
    state = manifest.commit(Edit(added=(make_file(0),)))
    manifest.checkpoint()
    assert names(store) == ["2.checkpoint", "_last_checkpoint"]
    assert create(store).state == state
    assert names(store) == ["2.checkpoint", "_last_checkpoint"]


def test_creating_with_another_schema_is_refused(store: ObjectStore) -> None:
    create(store)
    with pytest.raises(ManifestMismatch, match="exists with another schema"):
        create(store, schema=next_schema(SCHEMA))


def test_a_dropped_region_is_not_created_again(store: ObjectStore) -> None:
    create(store).commit(Remove())
    assert reopen(store).state.is_removed
    with pytest.raises(ManifestMismatch, match="was dropped"):
        create(store)


def test_opening_nothing_says_so(store: ObjectStore) -> None:
    with pytest.raises(ManifestNotFound, match=DIRECTORY):
        reopen(store)


def test_the_manifest_of_another_region_is_not_opened(store: ObjectStore) -> None:
    create(store)
    with pytest.raises(ManifestCorrupted, match=f"belongs to region {REGION}, not to region 8"):
        Manifest.open(store, DIRECTORY, RegionId(8), epoch=1, checkpoint_distance=0, clock=CLOCK)


def test_a_refused_action_writes_nothing(store: ObjectStore) -> None:
    manifest = create(store)
    with pytest.raises(InvalidManifestAction):
        manifest.commit([Edit(added=(make_file(0),)), Edit(removed=(file_id(1),))])
    assert names(store) == ["1.json"]
    assert not manifest.is_uncertain
    assert manifest.commit(Edit(added=(make_file(0),))).version == 2


def test_committing_nothing_is_no_new_version(store: ObjectStore) -> None:
    assert create(store).commit([]).version == 1
    assert names(store) == ["1.json"]


def test_timestamps_at_the_end_of_time_survive(store: ObjectStore) -> None:
    widest = make_file(0).to_json() | {"time_range": [TimeRange.ALL.start, TimeRange.ALL.end]}
    create(store).commit(Edit(added=(type(make_file(0)).from_json(widest),)))
    assert reopen(store).state.files[file_id(0)].time_range == TimeRange.ALL


def test_removal_times_are_those_of_the_commit_not_of_the_reading() -> None:
    store, clock = MemoryStore(), ManualClock()
    manifest = create(store, clock=clock)
    manifest.commit(Edit(added=(make_file(0),)))
    clock.advance(seconds=7)
    manifest.commit(Edit(removed=(file_id(0),)))
    clock.advance(seconds=7)
    assert reopen(store).state.removed_files == (RemovedFile(file_id(0), 7000),)


def test_forgotten_files_ride_along_with_the_next_commit(store: ObjectStore) -> None:
    manifest = create(store)
    manifest.commit(Edit(added=(make_file(0), make_file(1))))
    manifest.commit(Edit(removed=(file_id(0), file_id(1))))
    manifest.forget_removed([file_id(0), file_id(5)])
    assert manifest.state.version == 3
    state = manifest.commit(Edit(added=(make_file(2),)))
    assert [removed.file_id for removed in state.removed_files] == [file_id(1)]
    assert reopen(store).state == state
    assert manifest.commit([]).version == state.version


def test_forgotten_files_can_be_committed_alone(store: ObjectStore) -> None:
    manifest = create(store)
    manifest.commit(Edit(added=(make_file(0),)))
    manifest.commit(Edit(removed=(file_id(0),)))
    manifest.forget_removed([file_id(0)])
    assert manifest.commit([]).removed_files == ()


def test_a_checkpoint_is_due_after_the_configured_number_of_deltas(store: ObjectStore) -> None:
    manifest = create(store, distance=3)
    observed = []
    for number in range(7):
        manifest.commit(Edit(added=(make_file(number),)))
        if manifest.needs_checkpoint:
            manifest.checkpoint()
        observed.append(names(store))
    pointer = "_last_checkpoint"
    assert observed == [
        ["1.json", "2.json"],
        ["3.checkpoint", pointer],
        ["3.checkpoint", "4.json", pointer],
        ["3.checkpoint", "4.json", "5.json", pointer],
        ["6.checkpoint", pointer],
        ["6.checkpoint", "7.json", pointer],
        ["6.checkpoint", "7.json", "8.json", pointer],
    ]
    reopened = reopen(store, distance=3)
    assert reopened.state == manifest.state
    assert not reopened.needs_checkpoint
    assert reopen(store, distance=2).needs_checkpoint


def test_a_distance_of_zero_means_no_checkpoints(store: ObjectStore) -> None:
    manifest = create(store, distance=0)
    for number in range(20):
        manifest.commit(Edit(added=(make_file(number),)))
        assert not manifest.needs_checkpoint
    assert len(names(store)) == 21
    assert reopen(store).state == manifest.state


def test_a_second_checkpoint_of_the_same_version_does_nothing(store: ObjectStore) -> None:
    manifest = create(store, distance=1)
    manifest.checkpoint()
    store.delete(f"{DIRECTORY}/manifest/_last_checkpoint")
    manifest.checkpoint()
    assert names(store) == ["1.checkpoint"]


def test_a_follower_sees_new_versions_when_it_refreshes(store: ObjectStore) -> None:
    leader = create(store, distance=2)
    follower = reopen(store)
    for number in range(5):
        leader.commit(Edit(added=(make_file(number),)))
        if leader.needs_checkpoint:
            leader.checkpoint()
    assert follower.state.version == 1
    assert follower.refresh() == leader.state
    assert follower.refresh() == leader.state
