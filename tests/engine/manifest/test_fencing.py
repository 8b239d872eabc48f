"""Two writers, lost replies and stores that fail: what was committed is never in doubt for long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.manifest.regions import FaultyStore, create, file_id, make_file, names, path_of, reopen
from tsdb.engine.errors import ManifestCorrupted, ManifestFenced, ManifestUncertain
from tsdb.engine.manifest import Edit, Manifest
from tsdb.store import MemoryStore, ObjectData, ObjectMeta, StoreError


def add(number: int) -> Edit:
    return Edit(added=(make_file(number),))


def test_of_two_writers_on_one_version_the_second_is_fenced() -> None:
    store = MemoryStore()
    first, second = create(store, epoch=1), reopen(store, epoch=1)
    first.commit(add(0))
    with pytest.raises(ManifestFenced, match="another writer has the region") as caught:
        second.commit(add(1))
    assert (caught.value.version, caught.value.found_version) == (2, 2)
    assert not caught.value.may_have_landed
    assert second.state.version == 1
    assert reopen(store).state == first.state


def test_equal_actions_of_two_writers_are_not_taken_for_one() -> None:
    store = MemoryStore()
    first, second = create(store, epoch=1), reopen(store, epoch=1)
    first.commit(add(0))
    with pytest.raises(ManifestFenced):
        second.commit(add(0))


def test_an_older_epoch_is_refused_before_anything_is_written() -> None:
    store = MemoryStore()
    create(store, epoch=2)
    behind = reopen(store, epoch=1)
    with pytest.raises(ManifestFenced) as caught:
        behind.commit(add(0))
    assert (caught.value.epoch, caught.value.found_epoch, caught.value.may_have_landed) == (1, 2, False)
    assert names(store) == ["1.json"]


def test_a_claim_ends_the_older_writer_before_the_new_one_has_anything_to_commit() -> None:
    store = MemoryStore()
    old = create(store, epoch=1)
    new = reopen(store, epoch=2)
    assert new.claim().epoch == 2
    with pytest.raises(ManifestFenced) as caught:
        old.commit(add(0))
    assert caught.value.found_epoch == 2
    old.refresh()
    with pytest.raises(ManifestFenced):
        old.commit(add(0))
    with pytest.raises(ManifestFenced):
        old.claim()
    assert new.commit(add(1)).epoch == 2


def test_a_claim_takes_over_what_the_older_writer_committed_meanwhile() -> None:
    store = MemoryStore()
    old = create(store, epoch=1)
    new = reopen(store, epoch=2)
    old.commit(add(0))
    old.commit(add(1))
    assert list(new.claim().files) == [file_id(0), file_id(1)]
    assert new.state.version == 4


def test_a_claim_that_is_made_already_writes_nothing() -> None:
    store = MemoryStore()
    create(store, epoch=2).claim()
    assert names(store) == ["1.json"]


def test_a_claim_can_end_a_writer_of_the_same_epoch() -> None:
    store = MemoryStore()
    old = create(store, epoch=2)
    old.commit(add(0))
    new = reopen(store, epoch=2)
    old.commit(add(1))
    assert list(new.claim(always=True).files) == [file_id(0), file_id(1)]
    with pytest.raises(ManifestFenced):
        old.commit(add(2))
    assert new.commit(add(3)).epoch == 2


def test_a_writer_that_slept_through_a_checkpoint_is_fenced() -> None:
    # The checkpoint deleted the delta whose place the sleeper would otherwise have found taken.
    store = MemoryStore()
    asleep = create(store, epoch=1)
    leader = reopen(store, epoch=2)
    for number in range(3):
        leader.commit(add(number))
    leader.checkpoint()
    with pytest.raises(ManifestFenced) as caught:
        asleep.commit(add(9))
    assert caught.value.found_version == 4
    assert caught.value.may_have_landed
    assert reopen(store).state == leader.state
    assert asleep.refresh() == leader.state


def test_a_pointer_that_was_put_back_by_the_sleeper_hides_nothing() -> None:
    store = MemoryStore()
    asleep = create(store, epoch=1)
    leader = reopen(store, epoch=2)
    for number in range(3):
        leader.commit(add(number))
    leader.checkpoint()
    asleep.checkpoint()
    with pytest.raises(ManifestFenced) as caught:
        asleep.commit(add(9))
    assert caught.value.found_version == 4
    assert reopen(store).state == leader.state


@pytest.mark.parametrize("distance", [0, 2])
def test_commits_do_not_list_the_store(distance: int) -> None:
    class Counting(MemoryStore):
        listed = 0

        def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
            self.listed += 1
            return super().list(prefix, start_after)

    store = Counting()
    create(store, distance=distance)
    manifest = reopen(store, distance=distance)
    for number in range(10):
        store.listed = 0
        manifest.commit(add(number))
        assert store.listed == 0
        if manifest.needs_checkpoint:
            manifest.checkpoint()


def test_a_writer_that_was_overtaken_right_after_its_commit_keeps_its_files() -> None:
    class Overtaking(MemoryStore):
        leader: Manifest | None = None

        def put_if_absent(self, path: str, data: ObjectData) -> None:
            super().put_if_absent(path, data)
            if self.leader is not None:
                leader, self.leader = self.leader, None
                leader.refresh()
                leader.commit(add(1))

    store = Overtaking()
    old = create(store, epoch=1)
    store.leader = reopen(store, epoch=2)
    with pytest.raises(ManifestFenced) as caught:
        old.commit(add(0))
    assert caught.value.may_have_landed
    assert list(reopen(store).state.files) == [file_id(0), file_id(1)]


def test_a_reply_lost_inside_the_store_is_no_failure() -> None:
    class Repeating(MemoryStore):
        """Repeats every request, as a client does that saw no reply."""

        def put_if_absent(self, path: str, data: ObjectData) -> None:
            super().put_if_absent(path, data)
            super().put_if_absent(path, data)

    manifest = create(Repeating())
    assert manifest.commit(add(0)).version == 2


def test_a_lost_reply_is_uncertain_until_recovery_finds_the_commit() -> None:
    store = FaultyStore()
    manifest = create(store)
    store.lose_reply("put_if_absent")
    with pytest.raises(ManifestUncertain, match="version 2") as caught:
        manifest.commit(add(0))
    assert isinstance(caught.value.__cause__, StoreError)
    assert manifest.is_uncertain
    assert not manifest.state.files
    assert manifest.recover()
    assert list(manifest.state.files) == [file_id(0)]
    assert manifest.commit(add(1)).version == 3
    assert reopen(store).state == manifest.state


def test_a_commit_that_failed_without_effect_can_be_repeated_after_recovery() -> None:
    store = FaultyStore()
    manifest = create(store)
    store.fail("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    assert not manifest.recover()
    assert not manifest.is_uncertain
    assert not manifest.state.files
    assert list(manifest.commit(add(0)).files) == [file_id(0)]
    assert reopen(store).state == manifest.state


def test_a_commit_cannot_come_into_effect_after_recovery_did_not_find_it() -> None:
    store = FaultyStore()
    manifest = create(store)
    store.delay("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    assert not manifest.recover()
    store.deliver()
    assert not reopen(store).state.files
    assert list(manifest.commit(add(1)).files) == [file_id(1)]


def test_nothing_can_be_committed_or_read_while_a_commit_is_uncertain() -> None:
    store = FaultyStore()
    manifest = create(store, epoch=1)
    store.lose_reply("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(1))
    with pytest.raises(ManifestUncertain):
        manifest.refresh()
    with pytest.raises(ManifestUncertain):
        manifest.claim()
    assert names(store) == ["1.json", "2.json"]


@pytest.mark.parametrize("operation", ["get", "put_if_absent"])
def test_recovery_can_be_repeated_until_the_store_answers(operation: str) -> None:
    store = FaultyStore()
    manifest = create(store)
    store.fail("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    store.fail(operation)
    with pytest.raises(ManifestUncertain):
        manifest.recover()
    assert not manifest.recover()
    assert manifest.commit(add(0)).version == 3


@pytest.mark.parametrize("fault", ["lose_reply", "delay"])
def test_recovery_whose_own_reply_was_lost_is_settled_by_the_next(fault: str) -> None:
    store = FaultyStore()
    manifest = create(store)
    store.fail("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    getattr(store, fault)("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.recover()
    store.deliver()
    assert not manifest.recover()
    assert names(store) == ["1.json", "2.json"]


@pytest.mark.parametrize("operation", ["head", "get"])
def test_a_commit_is_uncertain_if_only_the_look_at_what_is_newer_failed(operation: str) -> None:
    store = FaultyStore()
    manifest = create(store)
    store.fail(operation)
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    assert manifest.recover()
    assert reopen(store).state == manifest.state


def test_recovery_finds_that_another_writer_took_the_place() -> None:
    store = FaultyStore()
    manifest = create(store, epoch=1)
    store.fail("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    other = reopen(store, epoch=2)
    other.commit(add(1))
    with pytest.raises(ManifestFenced) as caught:
        manifest.recover()
    assert not caught.value.may_have_landed
    assert manifest.refresh() == other.state


def test_recovery_does_not_take_a_place_that_others_have_passed() -> None:
    store = FaultyStore()
    manifest = create(store, epoch=1)
    store.lose_reply("put_if_absent")
    with pytest.raises(ManifestUncertain):
        manifest.commit(add(0))
    other = reopen(store, epoch=2)
    other.commit(add(1))
    other.checkpoint()
    with pytest.raises(ManifestFenced) as caught:
        manifest.recover()
    assert caught.value.may_have_landed
    assert list(reopen(store).state.files) == [file_id(0), file_id(1)]


def test_recovery_without_anything_uncertain_does_nothing() -> None:
    store = MemoryStore()
    assert not create(store).recover()
    assert names(store) == ["1.json"]


def test_an_error_of_any_kind_leaves_the_commit_uncertain() -> None:
    class Interrupted(MemoryStore):
        def put_if_absent(self, path: str, data: ObjectData) -> None:
            super().put_if_absent(path, data)
            if path == path_of("2.json"):
                raise KeyboardInterrupt

    manifest = create(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        manifest.commit(add(0))
    assert manifest.is_uncertain
    assert manifest.recover()


@pytest.mark.parametrize("fault", ["fail", "lose_reply"])
def test_a_creation_that_failed_is_repeated(fault: str) -> None:
    store = FaultyStore()
    getattr(store, fault)("put_if_absent")
    with pytest.raises(StoreError):
        create(store)
    assert create(store).state.version == 1


def test_a_checkpoint_that_failed_loses_nothing_and_is_due_again() -> None:
    store = FaultyStore()
    manifest = create(store, distance=1)
    manifest.commit(add(0))
    store.fail("put")
    with pytest.raises(StoreError):
        manifest.checkpoint()
    assert manifest.needs_checkpoint
    assert reopen(store).state == manifest.state
    manifest.checkpoint()
    assert names(store) == ["2.checkpoint", "_last_checkpoint"]


def test_a_manifest_that_went_back_in_time_is_not_followed() -> None:
    store = MemoryStore()
    manifest = create(store)
    manifest.commit(add(0))
    store.delete(path_of("2.json"))
    with pytest.raises(ManifestCorrupted, match="version 1 is the last"):
        manifest.refresh()
