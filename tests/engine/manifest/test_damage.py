"""Opening a manifest of which something is missing or damaged."""

from __future__ import annotations

import logging
import zlib

import orjson
import pytest

from tests.engine.manifest.regions import DIRECTORY, FaultyStore, create, make_file, names, path_of, reopen
from tsdb.engine.errors import ManifestCorrupted
from tsdb.engine.manifest import Edit, ManifestState
from tsdb.engine.manifest._codec import Pointer, encode_pointer
from tsdb.store import MemoryStore, ObjectNotFound, on_crash_point


class _Stopped(Exception):
    """The writer ends here."""


def build(store: MemoryStore, *, commits: int, checkpoints_at: tuple[int, ...] = ()) -> ManifestState:
    """A manifest of `commits` + 1 versions, with checkpoints at some of them."""
    manifest = create(store)
    for number in range(commits):
        manifest.commit(Edit(added=(make_file(number),)))
        if manifest.state.version in checkpoints_at:
            manifest.checkpoint()
    return manifest.state


def build_interrupted(store: MemoryStore, *, at: str) -> ManifestState:
    """Checkpoint 3, deltas 4 to 6, and a checkpoint of version 6 that ended at a crash point."""
    build(store, commits=5, checkpoints_at=(3,))
    manifest = reopen(store)

    def stop(name: str) -> None:
        if name == f"manifest.checkpoint.{at}":
            raise _Stopped

    with on_crash_point(stop), pytest.raises(_Stopped):
        manifest.checkpoint()
    return manifest.state


def damage(store: MemoryStore, name: str, how: str) -> None:
    content = store.get(path_of(name))
    damaged = {
        "truncated": content[: len(content) // 2],
        "emptied": b"",
        "flipped": content.replace(b'"version":', b'"version": ', 1),
        "without its last byte": content[:-1],
    }
    store.put(path_of(name), damaged[how])


DAMAGES = ["truncated", "emptied", "flipped", "without its last byte"]


def test_a_missing_pointer_is_no_loss() -> None:
    store = MemoryStore()
    state = build(store, commits=5, checkpoints_at=(3,))
    store.delete(path_of("_last_checkpoint"))
    assert reopen(store).state == state


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_pointer_is_no_loss(how: str, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    state = build(store, commits=5, checkpoints_at=(3,))
    damage(store, "_last_checkpoint", how)
    with caplog.at_level(logging.WARNING):
        assert reopen(store).state == state
    assert "manifest pointer is damaged" in caplog.text


def test_a_pointer_with_the_wrong_checksum_of_its_checkpoint_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    state = build(store, commits=5, checkpoints_at=(3,))
    size = len(store.get(path_of("3.checkpoint")))
    store.put(path_of("_last_checkpoint"), encode_pointer(Pointer(3, size, crc32=1)))
    with caplog.at_level(logging.WARNING):
        assert reopen(store).state == state
    assert "does not match its checkpoint" in caplog.text


def test_a_pointer_to_an_older_checkpoint_is_no_loss() -> None:
    # A writer that lost the region may finish a checkpoint that it began before.
    store = MemoryStore()
    build(store, commits=2)
    behind = reopen(store)
    leader = reopen(store)
    leader.commit(Edit(added=(make_file(8),)))
    leader.checkpoint()
    leader.commit(Edit(added=(make_file(9),)))
    behind.checkpoint()
    assert names(store) == ["3.checkpoint", "4.checkpoint", "5.json", "_last_checkpoint"]
    assert reopen(store).state == leader.state


@pytest.mark.parametrize("at", ["before_put", "after_put", "after_pointer"])
def test_a_checkpoint_that_did_not_come_to_its_end_is_no_loss(at: str) -> None:
    store = MemoryStore()
    state = build_interrupted(store, at=at)
    assert reopen(store).state == state


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("at", ["after_put", "after_pointer"])
def test_a_damaged_checkpoint_is_no_loss_while_the_older_one_and_its_deltas_are_there(at: str, how: str) -> None:
    store = MemoryStore()
    state = build_interrupted(store, at=at)
    damage(store, "6.checkpoint", how)
    reopened = reopen(store, distance=3)
    assert reopened.state == state
    assert reopened.needs_checkpoint
    reopened.checkpoint()
    assert names(store) == ["6.checkpoint", "_last_checkpoint"]
    assert reopen(store).state == state


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("deltas_behind", [0, 2])
def test_a_damaged_checkpoint_without_an_older_one_is_named(how: str, deltas_behind: int) -> None:
    store = MemoryStore()
    build(store, commits=4 + deltas_behind, checkpoints_at=(5,))
    damage(store, "5.checkpoint", how)
    with pytest.raises(ManifestCorrupted) as caught:
        reopen(store)
    assert caught.value.file == path_of("5.checkpoint")


def test_a_damaged_checkpoint_is_not_covered_by_fewer_deltas_than_it_had() -> None:
    store = MemoryStore()
    build_interrupted(store, at="after_put")
    damage(store, "6.checkpoint", "truncated")
    store.delete(path_of("6.json"))
    with pytest.raises(ManifestCorrupted, match="do not end with a checksum") as caught:
        reopen(store)
    assert caught.value.file == path_of("6.checkpoint")


def test_a_missing_checkpoint_is_noticed_by_the_deltas_behind_it() -> None:
    store = MemoryStore()
    build(store, commits=6, checkpoints_at=(5,))
    store.delete(path_of("5.checkpoint"))
    with pytest.raises(ManifestCorrupted, match="the next delta is version 6") as caught:
        reopen(store)
    assert caught.value.file == path_of("1.json")


def test_a_missing_checkpoint_is_noticed_by_the_pointer_alone() -> None:
    store = MemoryStore()
    build(store, commits=4, checkpoints_at=(5,))
    store.delete(path_of("5.checkpoint"))
    with pytest.raises(ManifestCorrupted, match="neither a whole checkpoint nor a first delta"):
        reopen(store)


def test_a_pointer_proves_that_the_last_deltas_are_missing() -> None:
    store = MemoryStore()
    build_interrupted(store, at="after_pointer")
    store.delete(path_of("6.checkpoint"))
    store.delete(path_of("6.json"))
    with pytest.raises(ManifestCorrupted, match="version 6 was reached once") as caught:
        reopen(store)
    assert caught.value.file == path_of("6.json")


@pytest.mark.parametrize("missing", [1, 2, 4])
def test_a_gap_is_named(missing: int) -> None:
    store = MemoryStore()
    build(store, commits=4)
    store.delete(path_of(f"{missing}.json"))
    with pytest.raises(ManifestCorrupted, match=f"the next delta is version {missing + 1}") as caught:
        reopen(store)
    assert caught.value.file == path_of(f"{missing}.json")


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("version", [1, 3, 5])
def test_a_damaged_delta_is_named(version: int, how: str) -> None:
    store = MemoryStore()
    build(store, commits=4)
    damage(store, f"{version}.json", how)
    with pytest.raises(ManifestCorrupted, match="the manifest is corrupted") as caught:
        reopen(store)
    assert caught.value.file == path_of(f"{version}.json")


def test_every_cut_of_an_object_is_noticed() -> None:
    store = MemoryStore()
    build(store, commits=1)
    content = store.get(path_of("2.json"))
    for length in range(len(content)):
        store.put(path_of("2.json"), content[:length])
        with pytest.raises(ManifestCorrupted):
            reopen(store)


def rewrite(store: MemoryStore, name: str, **changes: object) -> None:
    """Change an object and give it the right checksum."""
    value = orjson.loads(store.get(path_of(name)))
    del value["checksum"]
    body = orjson.dumps(value | changes)
    store.put(path_of(name), b'%s,"checksum":%d}\n' % (body[:-1], zlib.crc32(body)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 2}, "it has format 2, this server reads up to 1"),
        ({"version": 7}, "it holds version 7"),
        ({"region_id": 9}, "belongs to region 9"),
        ({"epoch": 0}, "the epoch went backwards, from 1 to 0"),
        ({"actions": [{"kind": "merge"}]}, "the action 'merge' is unknown"),
        ({"actions": [{"kind": "edit"}]}, "it cannot be parsed: KeyError"),
        ({"actions": 3}, "it cannot be parsed: TypeError"),
        ({"actions": [{"kind": "forget", "file_ids": ["x"]}]}, "forgotten that were not removed"),
    ],
)
def test_a_delta_that_is_whole_and_still_wrong_is_refused(changes: dict[str, object], reason: str) -> None:
    store = MemoryStore()
    build(store, commits=1)
    rewrite(store, "2.json", **changes)
    with pytest.raises(ManifestCorrupted, match=reason) as caught:
        reopen(store)
    assert caught.value.file == path_of("2.json")


def test_the_first_delta_must_bring_a_schema() -> None:
    store = MemoryStore()
    build(store, commits=1)
    rewrite(store, "1.json", actions=[])
    with pytest.raises(ManifestCorrupted, match="does not begin with a schema"):
        reopen(store)


def test_a_checkpoint_under_a_wrong_name_is_not_taken() -> None:
    store = MemoryStore()
    build(store, commits=2, checkpoints_at=(3,))
    store.put(path_of("7.checkpoint"), store.get(path_of("3.checkpoint")))
    with pytest.raises(ManifestCorrupted, match="it holds version 3") as caught:
        reopen(store)
    assert caught.value.file == path_of("7.checkpoint")


def test_leftovers_behind_a_checkpoint_are_ignored_and_deleted_by_the_next() -> None:
    store = MemoryStore()
    state = build(store, commits=4, checkpoints_at=(5,))
    store.put(path_of("2.json"), b"an old delta that nobody reads")
    store.put(path_of("3.checkpoint"), b"an old checkpoint")
    store.put(f"{DIRECTORY}/manifest/notes.txt", b"not ours")
    reopened = reopen(store)
    assert reopened.state == state
    reopened.commit(Edit(added=(make_file(7),)))
    reopened.checkpoint()
    assert names(store) == ["6.checkpoint", "_last_checkpoint", "notes.txt"]


class _Vanishing(MemoryStore):
    """A store in which a writer checkpoints whenever a reader has just listed."""

    def __init__(self) -> None:
        super().__init__()
        self.vanished = 0
        self.times = 0

    def get(self, path: str) -> bytes:
        if self.times and path.endswith(".json"):
            self.times -= 1
            self.vanished += 1
            raise ObjectNotFound(path)
        return super().get(path)


def test_objects_that_vanish_while_being_read_are_listed_again() -> None:
    store = _Vanishing()
    state = build(store, commits=3)
    store.times = 3
    assert reopen(store).state == state
    assert store.vanished == 3


def test_objects_that_always_vanish_are_an_error_not_an_endless_loop() -> None:
    store = _Vanishing()
    build(store, commits=3)
    store.times = 1000
    with pytest.raises(ManifestCorrupted, match="listed but cannot be read"):
        reopen(store)


def test_old_files_that_cannot_be_deleted_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    build(store, commits=3)
    manifest = reopen(store)
    store.fail("delete")
    with caplog.at_level(logging.WARNING):
        manifest.checkpoint()
    assert "old manifest files not deleted" in caplog.text
    assert not manifest.needs_checkpoint
    assert reopen(store).state == manifest.state
