"""Random lives of a manifest, with faults, checked against a plain model after every step."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.manifest.model import Model
from tests.engine.manifest.regions import NOW_MS, OPTIONS, SCHEMA, FaultyStore, create, make_file, next_schema, reopen
from tsdb.engine.errors import ManifestFenced, ManifestUncertain
from tsdb.engine.manifest import Action, Change, Edit, Forget, QuarantinedFile, Truncate
from tsdb.model import RegionOptions
from tsdb.store import StoreError


class ManifestMachine(RuleBasedStateMachine):
    """One writer, an earlier one that does not know that it lost the region, and a store that fails at times."""

    @initialize(distance=st.integers(0, 3))
    def begin(self, distance: int) -> None:
        self.store = FaultyStore()
        self.distance = distance
        self.epoch = 1
        self.manifest = create(self.store, epoch=1, distance=distance)
        self.sleeper = reopen(self.store, epoch=1)
        self.model = Model(SCHEMA, OPTIONS)
        self.numbers = iter(range(10_000))
        self.forgotten: set[str] = set()
        self.next_fault = ""

    def commit(self, *actions: Action) -> None:
        fault, self.next_fault = self.next_fault, ""
        for_sure = not fault
        if fault:
            getattr(self.store, fault)("put_if_absent")
        try:
            self.manifest.commit(actions)
            landed = True
        except ManifestUncertain:
            assert not for_sure
            landed = self.recover()
            assert landed == (fault == "lose_reply")
        if landed:
            self.replay(*actions)

    def recover(self) -> bool:
        landed = self.manifest.recover()
        self.store.deliver()
        return landed

    def replay(self, *actions: Action) -> None:
        forgotten = tuple(self.forgotten & self.model.removed.keys())
        self.forgotten.clear()
        for action in (Forget(forgotten), *actions):
            assert self.model.accepts(action)
            self.model.do(action, NOW_MS)

    @rule(fault=st.sampled_from(["fail", "lose_reply", "delay"]))
    def plan_fault(self, fault: str) -> None:
        self.next_fault = fault

    @rule(count=st.integers(1, 3), entries=st.integers(0, 5))
    def flush(self, count: int, entries: int) -> None:
        files = tuple(make_file(next(self.numbers)) for _ in range(count))
        entry_id, sequence = self.model.flushed
        self.commit(Edit(added=files, flushed_entry_id=entry_id + entries, flushed_sequence=sequence + entries * 10))

    @precondition(lambda self: len(self.model.files) > 1)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        inputs = data.draw(st.lists(st.sampled_from(sorted(self.model.files)), min_size=1, unique=True))
        window = data.draw(st.sampled_from([None, 3600]))
        output = make_file(next(self.numbers))
        self.commit(Edit(added=(output,), removed=tuple(inputs), compaction_window_seconds=window))

    @precondition(lambda self: self.model.files)
    @rule(data=st.data(), reason=st.sampled_from(["missing", "short"]))
    def quarantine(self, data: st.DataObject, reason: str) -> None:
        found = data.draw(st.lists(st.sampled_from(sorted(self.model.files)), min_size=1, unique=True))
        self.commit(Edit(quarantined=tuple(QuarantinedFile(file_id, NOW_MS, reason) for file_id in found)))

    @precondition(lambda self: self.model.quarantined)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        whole = data.draw(st.lists(st.sampled_from(sorted(self.model.quarantined)), min_size=1, unique=True))
        self.commit(Edit(released=tuple(whole)))

    @rule()
    def truncate(self) -> None:
        entry_id, sequence = self.model.flushed
        self.commit(Truncate(entry_id + 1, sequence + 1))

    @rule(has_schema=st.booleans())
    def alter_and_flush(self, has_schema: bool) -> None:
        schema = next_schema(self.model.schema) if has_schema else None
        options = RegionOptions(append_mode=not self.model.options.append_mode)
        self.commit(Change(schema, options), Edit(added=(make_file(next(self.numbers)),)))

    @precondition(lambda self: self.model.removed)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.model.removed)), unique=True))
        self.manifest.forget_removed(gone)
        self.forgotten.update(gone)

    @rule(fault=st.sampled_from(["", "fail", "lose_reply"]), operation=st.sampled_from(["put", "delete"]))
    def checkpoint(self, fault: str, operation: str) -> None:
        if not self.manifest.needs_checkpoint:
            return
        if fault:
            getattr(self.store, fault)(operation)
        try:
            self.manifest.checkpoint()
        except StoreError:
            assert fault
        self.store.heal()

    @rule(is_leader_new=st.booleans())
    def reopen(self, is_leader_new: bool) -> None:
        if is_leader_new:
            self.sleeper = self.manifest
            self.epoch += 1
        self.manifest = reopen(self.store, epoch=self.epoch, distance=self.distance)
        self.manifest.claim()
        self.forgotten.clear()

    @precondition(lambda self: self.sleeper.epoch < self.epoch)
    @rule(has_checkpoint=st.booleans())
    def wake_the_sleeper(self, has_checkpoint: bool) -> None:
        if has_checkpoint:
            self.sleeper.checkpoint()
        with pytest.raises(ManifestFenced):
            self.sleeper.commit(Edit(added=(make_file(next(self.numbers)),)))

    @invariant()
    def the_state_is_the_model(self) -> None:
        self.model.check(self.manifest.state)

    @invariant()
    def a_reader_sees_the_same(self) -> None:
        assert reopen(self.store).state == self.manifest.state


ManifestMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_random_lives_of_a_manifest_agree_with_a_plain_model = ManifestMachine.TestCase
