"""The shared log: a `LogStore` whose entries are shipped to an object store.

    acknowledge = store    append ─▶ outbox ─▶ object store ─▶ acknowledged
    acknowledge = local    append ─▶ local log ─▶ acknowledged
                                  └▶ outbox ─▶ object store, later

With `store` nothing is written to a local disk, and a server that starts on an empty one finds every acknowledged
entry. With `local` the object store is behind by about an interval; entries that it lacks are shipped after a restart.

Invariants:

- Objects are acknowledged in the order of their numbers, and an entry of a region only behind the one before it.
- The owner of a node's log has its highest term. A new owner seals the terms before its own, then reads them.
- A floor is raised before anything below it is deleted, and only over entries that are in data files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tsdb.clock import Clock
from tsdb.engine.log.frame import Frame, FrameKind, drop_marker
from tsdb.engine.log.index import LogIndex, last_after, wait_for
from tsdb.engine.log.shared.chains import Chains
from tsdb.engine.log.shared.collecting import Collector
from tsdb.engine.log.shared.container import EncodedObject, StoredFrame, as_frame
from tsdb.engine.log.shared.history import History
from tsdb.engine.log.shared.journal import Journal
from tsdb.engine.log.shared.layout import object_of, object_path, segment_number
from tsdb.engine.log.shared.notes import RegionNotes
from tsdb.engine.log.shared.outbox import Shipment
from tsdb.engine.log.shared.past import LogPlace, PastLogs
from tsdb.engine.log.shared.reading import JoinedReading, SharedReading
from tsdb.engine.log.shared.settings import Acknowledge, SharedSettings
from tsdb.engine.log.shared.shipper import Shipper
from tsdb.engine.log.shared.skipping import SkippedObject, describe_skipped, skip_object
from tsdb.engine.log.store import LateLog, LogReading, LogStatistics, LogStore, PurgeResult, SegmentFacts
from tsdb.engine.parallel import in_parallel
from tsdb.errors import StartError, TsdbError
from tsdb.store import ObjectStore, Purpose, StoreError, requests_for
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.wal")
_APPENDABLE = frozenset({FrameKind.DATA, FrameKind.DELETE, FrameKind.DROP_REGION})


class LocalLog(LogStore, Protocol):
    """The log on the local disk, as far as the shared one needs it."""

    @property
    def recovered_entries(self) -> Mapping[int, int]:
        """The last entry of each region that the log held when it was opened."""

    @property
    def late(self) -> LateLog:
        """Entries of regions that are elsewhere and that only this node has."""

    def keep_late(self, floors: Mapping[int, int]) -> Mapping[int, int]:
        """Copy entries of regions above their floors to `late`, before the log lets go of them."""


class SharedLog:
    """The log of one term, which it owns until it is fenced. Thread-safe."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        term: int,
        nonce: bytes,
        history: History,
        chains: Chains,
        notes: RegionNotes,
        local: LocalLog | None,
        skipped: Sequence[SkippedObject],
        is_stale: bool,
        place: str,
        settings: SharedSettings,
        clock: Clock,
        make_collector: Callable[[LogIndex], Collector],
        on_sealed: Callable[[Collector, bool], None],
    ) -> None:
        """`is_stale` says that the shared log went on elsewhere after the local one was written.

        `on_sealed` ends the term in the store; the flag says that nothing of the log is needed any more.
        """
        self._store = store
        self._term = term
        self._history = history
        self._chains = chains
        self._notes = notes
        self._local = local
        self._skipped = list(skipped)
        self._is_stale = is_stale
        self._place = place
        self._settings = settings
        self._clock = clock
        self._on_sealed = on_sealed
        corruptions = history.continuity.corruptions()
        self._index = LogIndex(history.segments, history.continuity, corruptions, has_active=False)
        self._ahead: dict[int, int] = {}
        """The last entry of each region that has entries on their way."""
        self._collector = make_collector(self._index)
        self._purging = threading.Lock()
        self._purged_objects = 0
        self._appended_frames = 0
        self._raw_bytes = 0
        self.shipper = Shipper(
            store,
            node=settings.node,
            term=term,
            nonce=nonce,
            settings=settings,
            clock=clock,
            check=self._check,
            record=self._record,
        )
        has_journal = bool(settings.retention)
        waits = settings.acknowledge is Acknowledge.STORE
        timeout_s = settings.append_timeout.seconds
        self.journal = Journal(self.shipper, waits=waits, timeout_s=timeout_s) if has_journal else None
        """Records schema changes; None if that is not needed."""

    @property
    def term(self) -> int:
        return self._term

    @property
    def place(self) -> str:
        """Where its store is, as people write it."""
        return self._place

    def read_past(self) -> PastLogs:
        # Afterwards everything that was appended is in the store.
        wait_for(self.prove_ownership(), self._settings.append_timeout.seconds)
        return PastLogs(self._store)

    @property
    def position(self) -> LogPlace:
        """Everything before this object was acknowledged."""
        return LogPlace(self._term, self.shipper.acknowledged)

    @property
    def acknowledges_locally(self) -> bool:
        """Whether entries are acknowledged before the store has them."""
        return self._settings.acknowledge is Acknowledge.LOCAL

    @property
    def directory(self) -> Path | None:
        return None if self._local is None else self._local.directory

    @property
    def purge_interval(self) -> Duration:
        return self._settings.purge_interval

    @property
    def may_purge(self) -> bool:
        may_purge = self._index.has_flushed or self._collector.has_more
        return may_purge or (self._local is not None and self._local.may_purge)

    def append(self, frames: Sequence[Frame]) -> Future[None]:
        if any(frame.kind not in _APPENDABLE for frame in frames):
            raise ValueError("only DATA, DELETE and DROP_REGION frames can be appended")
        if not self.acknowledges_locally:
            return self.shipper.append(frames)
        assert self._local is not None
        # Before the local log takes them: what it acknowledges must be shipped.
        self.shipper.wait_for_room(0)
        logged = self._local.append(frames)
        if not logged.done() or logged.exception() is None:
            self.shipper.append(frames, logged, waits=False)
        return logged

    def skip_object(self, path: str) -> str:
        with requests_for(Purpose.LOG):
            skipped = skip_object(self._store, path, by=self._chains.by, clock=self._clock)
        self._skipped = [*(each for each in self._skipped if each.path != skipped.path), skipped]
        return f"{skipped.path}: {skipped.problem}"

    def prove_ownership(self) -> Future[None]:
        """Complete if the log was still ours after this call: an object, empty if need be, was stored."""
        return self.shipper.append(())

    @property
    def node_log(self) -> SharedLog:
        return self

    @property
    def node(self) -> int:
        return self._settings.node

    def remember(self, directories: Mapping[int, str]) -> None:
        with requests_for(Purpose.LOG):
            self._notes.write(directories)

    def strangers(self, present: Collection[int]) -> dict[int, str | None]:
        held = set(self._history.last_entries())
        if self._local is not None:
            held |= set(self._local.recovered_entries)
        with requests_for(Purpose.LOG):
            if self._history.continuity.corruptions():
                # Entries of any region that was ever here may be in what is damaged.
                held |= self._notes.known
            else:
                self._notes.delete_except(held | set(present))
            absent = sorted(held - set(present))
            return dict(
                zip(absent, in_parallel(self._notes.read, absent, self._settings.read_parallelism), strict=True)
            )

    def read(self, after: Mapping[int, int]) -> LogReading:
        return self.read_among(after, elsewhere={}, arriving=())

    def read_among(
        self, after: Mapping[int, int], *, elsewhere: Mapping[int, int | None], arriving: Collection[int]
    ) -> LogReading:
        if self._local is None:
            return self._read_shared(after, elsewhere=elsewhere)
        staying = {region_id: floor for region_id, floor in after.items() if region_id not in arriving}
        local_last = {each: last for each, last in self._local.recovered_entries.items() if each not in arriving}
        self._check_not_stale(staying, local_last)
        local = self._local.read(staying)
        shared = self._read_shared(after, known=local_last, elsewhere=elsewhere)
        return JoinedReading(local, shared, self._history.last_entries(), ship=self._ship, fill=self._fill)

    @property
    def late(self) -> LateLog | None:
        return None if self._local is None else self._local.late

    @property
    def is_continued(self) -> bool:
        return self._local is not None and not self._is_stale

    def keep_late(self, flushed: Mapping[int, int | None]) -> None:
        if self._local is None:
            return
        shipped, held = self._history.last_entries(), self._local.recovered_entries
        floors = {each: max(floor or 0, shipped.get(each, 0)) for each, floor in flushed.items() if each in held}
        floors = {each: floor for each, floor in floors.items() if held[each] > floor}
        kept = self._local.keep_late(floors) if floors else {}
        for region_id, entries in kept.items():
            _log.warning(
                "the local log has entries of a region that was taken over without them; they go to the new owner",
                region=region_id,
                entries=entries,
                last_entry=held[region_id],
            )

    def floor_elsewhere(self, region_id: int, entry_id: int) -> None:
        self._index.set_flushed(region_id, entry_id)
        shipped = self._index.last_entry(region_id)
        if self._local is not None and shipped is not None:
            self._local.floor(region_id, min(entry_id, shipped))

    def read_again(self, after: Mapping[int, int]) -> LogReading:
        # Afterwards everything that was appended is in the store, and the log was ours until then.
        wait_for(self.prove_ownership(), self._settings.append_timeout.seconds)
        with requests_for(Purpose.LOG):
            history = self._chains.read_own(self._term, self.shipper.acknowledged)
        return SharedReading(self._store, self._settings.node, history, after, known={}, settings=self._settings)

    def take_over(self, node: int, after: Mapping[int, int]) -> LogReading:
        if node == self._settings.node:
            raise ValueError("a node does not take over its own log")
        with requests_for(Purpose.LOG):
            listings = self._chains.seal(node, f"node {self._settings.node} takes over regions")
            history = self._chains.read(node, listings)
        return SharedReading(self._store, node, history, after, known={}, settings=self._settings)

    def floor(self, region_id: int, entry_id: int) -> None:
        self._index.set_flushed(region_id, entry_id)
        if self._local is not None:
            self._local.floor(region_id, entry_id)

    def drop_region(self, region_id: int) -> Future[None]:
        self._index.forget(region_id)
        if self._local is not None:
            dropped = self._local.drop_region(region_id)
            if self.acknowledges_locally:
                self.shipper.append([drop_marker(region_id)], dropped, waits=False)
                return dropped
        return self.shipper.append([drop_marker(region_id)])

    def adopt(self, entries: Mapping[int, int]) -> None:
        if self._local is not None:
            self._local.adopt(entries)
        self._index.adopt(entries, self.shipper.append, self._settings.append_timeout.seconds)

    def last_entry(self, region_id: int) -> int | None:
        known = [self._index.last_entry(region_id), None if self._local is None else self._local.last_entry(region_id)]
        return max((each for each in known if each is not None), default=None)

    def purge(self) -> PurgeResult:
        if not self._purging.acquire(blocking=False):
            return PurgeResult((), ())
        try:
            return self._purge()
        finally:
            self._purging.release()

    def segments(self) -> list[tuple[str, SegmentFacts]]:
        """Describe the local segments, what is kept of the past, the objects in the store, and what is not shipped."""
        found = [] if self._local is None else self._local.segments()
        retained = self._retained()
        if retained is not None:
            found.append((self._place, retained))
        for facts in self._index.describe():
            path = object_path(self._settings.node, *object_of(facts.number))
            found.append((f"{self._place}/{path}", facts))
        found += describe_skipped(self._skipped, self._place)
        unshipped = self._unshipped()
        return found if unshipped is None else [*found, (self._place, unshipped)]

    def statistics(self) -> LogStatistics:
        local = LogStatistics(0, 0) if self._local is None else self._local.statistics()
        objects, total_bytes = self._index.totals()
        state, shipper = self.shipper.state, self.shipper
        return replace(
            local,
            segments=local.segments + objects,
            total_bytes=local.total_bytes + total_bytes,
            appended_frames=max(local.appended_frames, self._appended_frames),
            raw_bytes=max(local.raw_bytes, self._raw_bytes),
            commits=local.commits + state.puts,
            purged_segments=local.purged_segments + self._purged_objects,
            queued_bytes=local.queued_bytes + (0 if self.acknowledges_locally else shipper.unshipped_bytes),
            unshipped_bytes=shipper.unshipped_bytes,
            unshipped_seconds=shipper.lag_ns / 1e9,
            is_broken=local.is_broken or shipper.broken is not None,
        )

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None:
        is_told = threading.Lock()

        def receive_once(error: TsdbError) -> None:
            # Both halves may break.
            if is_told.acquire(blocking=False):
                receive(error)

        self.shipper.on_broken(receive_once)
        if self._local is not None:
            self._local.on_broken(receive_once)

    def seal(self, *, clean: bool = True) -> None:
        is_shipped = self.shipper.close(self._settings.close_timeout.seconds)
        if self._local is not None:
            self._local.seal(clean=clean)
        if not is_shipped:
            _log.error("the shared log was not shipped completely", unshipped_bytes=self.shipper.unshipped_bytes)
            return
        if clean:
            try:
                with requests_for(Purpose.LOG):
                    self._on_sealed(self._collector, self._is_drained())
            except StoreError as error:
                # The next start does it.
                _log.warning("the term of the shared log was not sealed", term=self._term, error=error)

    def _is_drained(self) -> bool:
        """Whether everything is in data files; then what is left is deleted."""
        while deletable := self._index.plan_purge(self._settings.purge_threshold).deletable:
            self._collector.collect(deletable)
        return not self._index.totals()[0]

    def _purge(self) -> PurgeResult:
        local = PurgeResult((), ()) if self._local is None else self._local.purge()
        plan = self._index.plan_purge(self._settings.purge_threshold)
        try:
            with requests_for(Purpose.LOG):
                deleted = self._collector.collect(plan.deletable)
        except StoreError as error:
            _log.warning("the shared log could not be purged; retrying later", error=error)
            deleted = ()
        self._purged_objects += len(deleted)
        pinning = dict.fromkeys((*local.pinning, *plan.pinning))
        return PurgeResult((*local.deleted, *deleted), tuple(pinning))

    def _record(self, batch: Shipment, encoded: EncodedObject, created_ms: int) -> None:
        """An object is acknowledged. Called in order, under the lock of the shipper."""
        frames = batch.frames
        segment = segment_number(self._term, batch.number)
        self._index.record(segment, encoded.size_bytes, frames, since_ms=created_ms)
        self._appended_frames += len(frames)
        self._raw_bytes += sum(frame.payload.raw_bytes for frame in frames)
        for frame in frames:
            if self._ahead.get(frame.region_id) == last_after(frame):
                del self._ahead[frame.region_id]

    def _check(self, frames: Sequence[Frame]) -> None:
        """Refuse entries that would leave a hole; with a local log, that does it."""
        if not self.acknowledges_locally:
            self._index.check(frames, self._ahead)

    def _read_shared(
        self,
        after: Mapping[int, int],
        *,
        known: Mapping[int, int] | None = None,
        elsewhere: Mapping[int, int | None] | None = None,
    ) -> SharedReading:
        return SharedReading(
            self._store,
            self._settings.node,
            self._history,
            after,
            known=known or {},
            settings=self._settings,
            index=self._index,
            elsewhere=elsewhere,
        )

    def _check_not_stale(self, after: Mapping[int, int], local_last: Mapping[int, int]) -> None:
        newer = [region for region, floor in after.items() if local_last.get(region, floor) > floor]
        if self._is_stale and newer:
            raise StartError(
                f"the log in {self.directory} has entries that are not flushed, but the shared log went on elsewhere",
                hint="they were written before the server moved; move the directory away to go on without them",
            )

    def _ship(self, frames: list[Frame]) -> None:
        self.shipper.append(frames, is_new=False)

    def _fill(self, stored: list[StoredFrame]) -> None:
        if self.acknowledges_locally:
            assert self._local is not None
            self._local.append([as_frame(each) for each in stored]).result(self._settings.append_timeout.seconds)

    def _retained(self) -> SegmentFacts | None:
        """All objects in one that are kept although no region needs them: there may be very many."""
        oldest, objects, size_bytes = self._collector.retained
        if oldest is None:
            return None
        number = segment_number(oldest.term, oldest.number)
        reason = f"{objects} objects whose rows are flushed are kept until they are {self._settings.retention} old"
        return SegmentFacts(number, size_bytes, 0, oldest.stored_ms, "retained", reason, ())

    def _unshipped(self) -> SegmentFacts | None:
        shipper, state = self.shipper, self.shipper.state
        size, entries = shipper.unshipped_bytes, shipper.unshipped_entries
        if not size and not entries and shipper.broken is None:
            return None
        reason = f"the oldest waits for {shipper.lag_ns / 1e9:.1f} s"
        if shipper.broken is not None:
            reason = str(shipper.broken)
        elif state.failing_since_ms:
            reason = f"the object store fails: {state.last_error}"
        now_ms = self._clock.now_ns() // 1_000_000
        since_ms = state.failing_since_ms or now_ms - shipper.lag_ns // 1_000_000
        number = segment_number(self._term + 1, 0) - 1
        last_error = state.last_error if shipper.broken is None else str(shipper.broken)
        return SegmentFacts(number, size, entries, since_ms, "unshipped", reason, (), last_error=last_error or None)
