"""Rolling copies of regions forward: what the past of a shared log holds, up to a moment.

    read the log once: definitions, and the entries of each region ─▶ place the regions ─▶ replay entries ─▶ flush

An entry counts if it was appended before the moment. Each has the time at which it was appended, which is between the
begin of its write and its acknowledgement. So what was acknowledged before the moment counts, and what was begun at the
moment or later does not. Entries that were shipped after a restart have no time: it is known only that they were
appended after the last one before the restart, and before the restart. A moment between these is refused.

`PastRoll` decides and writes nothing; `roll_forward` replays with an engine of its own that has no log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tsdb.engine.engine import Engine
from tsdb.engine.log import Frame, FrameKind, LogStatistics, PurgeResult, ReplayedFrame, SegmentFacts, decode_payload
from tsdb.engine.log.shared import (
    LogHole,
    LogPlace,
    Note,
    PastLog,
    PastObject,
    RegionNote,
    StoredFrame,
    parse_note,
    replayed,
)
from tsdb.engine.manifest import ManifestState
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.region.noting import DISCARDED, FILES_REMOVED
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.store import ObjectStore
from tsdb.units import Duration, Size

_BATCH_BYTES = 8 << 20
_BUFFER_BYTES = 128 << 20
_NS_PER_MS = 1_000_000
_DEFINITION = ("schema", "options", "truncated_entry_id")
IRREVERSIBLE = frozenset({DISCARDED, FILES_REMOVED})
"""What happens to regions that neither definitions nor entries tell."""


class UnknownTime(Exception):
    """Whether something happened before the moment or later is not known."""

    def __init__(self, what: str, *, after_ns: int, before_ns: int) -> None:
        super().__init__(what)
        self.what = what
        self.after_ns = after_ns
        self.before_ns = before_ns


@dataclass(slots=True)
class EntrySpan:
    """Consecutive entries of a region that count."""

    begin: LogPlace
    first: int
    last: int
    first_sequence: int
    hole: tuple[int, int] | None = None
    """The last entries that are missing between others."""

    def add(self, entry_id: int) -> None:
        if entry_id != self.last + 1:
            self.hole = (self.last + 1, entry_id - 1) if entry_id > self.last else (entry_id, self.last)
        self.last = entry_id


@dataclass(slots=True)
class PastRoll:
    """What counts of the past of a log: takes its objects in order."""

    before_ns: int
    """The moment."""
    metadata: dict[str, bytes]
    """That of the backup to begin with, then that of the moment."""
    regions: dict[int, RegionNote]
    """What is known of each region: that of the backup to begin with."""
    marks: list[RegionNote] = field(default_factory=list)
    """What happened to regions that cannot be repeated."""
    spans: dict[int, EntrySpan] = field(default_factory=dict)
    last_ns: int = 0
    """The latest time before the moment that the log knows."""
    is_over: bool = False
    """There is something that was appended at the moment or later."""
    last_place: LogPlace | None = None
    """The last object that was taken."""
    based_terms: set[int] = field(default_factory=set)
    """Terms that begin with a note of everything."""

    def read(self, log: PastLog, start: LogPlace) -> None:
        """Take the objects from a place on, as far as they can matter; LogHole, UnknownTime."""
        try:
            for found in log.objects(start):
                if self.is_over and not self._may_count(found):
                    return
                self._take(found)
                self.last_place = found.place
        except LogHole:
            if not self.is_complete:
                raise

    @property
    def is_complete(self) -> bool:
        """Whether the log has all that counts, whatever comes behind what was read: later entries have later times."""
        return self.is_over or self.before_ns <= self.last_ns + 1

    def _may_count(self, found: PastObject) -> bool:
        """Whether an object can hold something from before the moment, once there is something from behind it.

        Clocks go back a little when they are set: what is out of order is noticed as a hole.
        """
        return found.created_ms * _NS_PER_MS < self.before_ns

    def _take(self, found: PastObject) -> None:
        # Notes first: what they tell of a region is older than rows of the same object, or does not concern them.
        for frame in found.frames:
            if frame.header.kind == FrameKind.NOTE:
                self._take_note(found, frame)
        for frame in found.frames:
            header = frame.header
            if header.kind == FrameKind.NOTE or not self._counts(found, frame.logged_ns, header.region_id):
                continue
            if header.kind == FrameKind.DROP_REGION:
                self.spans.pop(header.region_id, None)
            elif header.region_id in self.spans:
                self.spans[header.region_id].add(header.entry_id)
            else:
                entry_id = header.entry_id
                self.spans[header.region_id] = EntrySpan(found.place, entry_id, entry_id, header.base_seq)

    def _take_note(self, found: PastObject, frame: StoredFrame) -> None:
        was_over, header = self.is_over, frame.header
        payload = decode_payload(frame.stored, codec=header.codec, raw_bytes=header.raw_bytes)
        note = parse_note(payload.to_pybytes())
        if self._counts(found, frame.logged_ns, header.region_id):
            self._apply(found.place, note)
        elif note.is_base and not was_over:
            self._check_base(note, frame.logged_ns)

    def _counts(self, found: PastObject, logged_ns: int, region_id: int) -> bool:
        """Whether something was appended before the moment; UnknownTime."""
        if not logged_ns:
            # It was appended before its object was made.
            if (found.created_ms + 1) * _NS_PER_MS <= self.before_ns:
                return True
            if self.is_over:
                return False
            note = self.regions.get(region_id)
            what = f"rows of {region_id if note is None else note.table} were written"
            raise UnknownTime(what, after_ns=self.last_ns, before_ns=(found.created_ms + 1) * _NS_PER_MS)
        if logged_ns >= self.before_ns:
            self.is_over = True
            return False
        self.last_ns = max(self.last_ns, logged_ns)
        return True

    def _apply(self, place: LogPlace, note: Note) -> None:
        if note.is_base:
            self.based_terms.add(place.term)
            self.metadata.clear()
        for key, value in note.metadata.items():
            if value is None:
                self.metadata.pop(key, None)
            else:
                self.metadata[key] = value
        for region in note.regions:
            known = self.regions.get(region.region_id)
            # The backup may know more than what was noted just before it was taken.
            if known is None or region.manifest["version"] >= known.manifest["version"]:
                self.regions[region.region_id] = region
                if region.what in IRREVERSIBLE:
                    self.marks.append(region)

    def _check_base(self, note: Note, logged_ns: int) -> None:
        """A server was started behind the moment: what it found must be what was noted before; UnknownTime."""
        changed = [key for key in {*self.metadata, *note.metadata} if self.metadata.get(key) != note.metadata.get(key)]
        changed += [each.table for each in note.regions if not self._is_known(each)]
        if changed:
            what = f"{', '.join(sorted(changed)[:3])} changed"
            raise UnknownTime(what, after_ns=self.last_ns, before_ns=logged_ns + 1)

    def _is_known(self, region: RegionNote) -> bool:
        known = self.regions.get(region.region_id)
        return known is None or all(known.manifest[key] == region.manifest[key] for key in _DEFINITION)


class PlacedRegion(NamedTuple):
    """What a copy of a region is before entries are replayed."""

    manifest: dict[str, Any]
    floor: int
    """The last entry that is in it, or void."""
    keeps_files: bool
    """It has the data files of the backup."""
    needed: int
    """Entries up to this one were in the log, or are in the data files."""


def define_region(backup: Mapping[str, Any] | None, note: RegionNote | None, span: EntrySpan | None) -> PlacedRegion:
    """Say what is placed of a region, given its manifest in the backup, what was last noted of it, and its entries.

    LookupError if nothing is known of the region.
    """
    state = None if backup is None else ManifestState.from_json(dict(backup))
    noted = None if note is None else ManifestState.from_json(dict(note.manifest))
    if noted is None or (state is not None and noted.version <= state.version):
        if state is None:
            raise LookupError
        return PlacedRegion(state.to_json(), state.flushed_entry_id, True, state.flushed_entry_id)
    needed = noted.flushed_entry_id
    keeps_files = state is not None and noted.truncated_entry_id == state.truncated_entry_id
    if keeps_files:
        assert state is not None
        changed = {"schema": noted.schema.to_json(), "options": noted.options.to_json(), "version": noted.version}
        return PlacedRegion({**state.to_json(), **changed}, state.flushed_entry_id, True, needed)
    floor = noted.truncated_entry_id or 0
    is_rolled = span is not None and span.last > floor
    # What counts as flushed must be below the first row that is replayed, and above all that were there before.
    sequence = span.first_sequence - 1 if is_rolled and span is not None else noted.flushed_sequence
    empty = {"files": [], "flushed_entry_id": floor, "flushed_sequence": sequence}
    return PlacedRegion({**noted.to_json(), **empty}, floor, False, needed)


class ReplayRange(NamedTuple):
    """The entries of a region that are replayed."""

    begin: LogPlace
    after: int
    last: int


def roll_forward(
    store: ObjectStore,
    regions: Mapping[RegionId, str],
    log: PastLog,
    start: LogPlace,
    ranges: Mapping[RegionId, ReplayRange],
    *,
    timeout: Duration,
) -> int:
    """Replay entries into regions that are placed, and flush them; return how many rows that were. LogHole."""
    reading = _Reading(log, start, ranges)
    options = EngineOptions(num_workers=2, global_write_buffer_size=Size(_BUFFER_BYTES))
    engine = Engine.open(store, _NoLog(reading), options=options, regions=regions, has_housekeeping=False)
    try:
        if engine.quarantined:
            region_id, reason = next(iter(engine.quarantined.items()))
            raise TsdbError(f"region {region_id} cannot be opened: {reason}")
        for done in [engine.flush(region_id) for region_id in ranges]:
            done.result(timeout.seconds)
    finally:
        engine.close(flush=False)
    return reading.rows


class _Reading:
    """The entries of ranges, in the order of the log."""

    def __init__(self, log: PastLog, start: LogPlace, ranges: Mapping[RegionId, ReplayRange]) -> None:
        self._log = log
        self._start = start
        self._ranges: dict[int, ReplayRange] = {int(region_id): each for region_id, each in ranges.items()}
        self._left = {region_id: each.last for region_id, each in self._ranges.items()}
        self.rows = 0

    def quarantine_reason(self, region_id: int) -> str | None:
        return None

    def regions(self) -> Collection[int]:
        return set(self._ranges)

    def __iter__(self) -> Iterator[list[ReplayedFrame]]:
        batch: list[ReplayedFrame] = []
        size_bytes = 0
        if not self._left:
            return
        for found in self._log.objects(self._start):
            for frame in found.frames:
                header = frame.header
                wanted = self._ranges.get(header.region_id)
                is_data = header.kind in (FrameKind.DATA, FrameKind.DELETE)
                if wanted is None or not is_data or found.place < wanted.begin:
                    continue
                if wanted.after < header.entry_id <= wanted.last:
                    batch.append(replayed(frame))
                    size_bytes += header.raw_bytes
                    self.rows += header.rows
                if header.entry_id >= wanted.last:
                    self._left.pop(header.region_id, None)
            if size_bytes >= _BATCH_BYTES:
                yield batch
                batch, size_bytes = [], 0
            if not self._left:
                break
        yield batch


class _NoLog:
    """A log that gives entries back and takes none: nothing is written to the regions but what it has."""

    directory: Path | None = None
    purge_interval = Duration.of_seconds(3600)
    may_purge = False
    node_log = None

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading

    def append(self, frames: Sequence[Frame]) -> Future[None]:
        raise AssertionError("nothing is written while regions are rolled forward")

    def read(self, after: Mapping[int, int]) -> _Reading:
        return self._reading

    def floor(self, region_id: int, entry_id: int) -> None: ...

    def drop_region(self, region_id: int) -> Future[None]:
        raise AssertionError("nothing is dropped while regions are rolled forward")

    def adopt(self, entries: Mapping[int, int]) -> None: ...

    def last_entry(self, region_id: int) -> int | None:
        return None

    def purge(self) -> PurgeResult:
        return PurgeResult((), ())

    def segments(self) -> list[tuple[str, SegmentFacts]]:
        return []

    def statistics(self) -> LogStatistics:
        return LogStatistics(0, 0)

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None: ...

    def seal(self, *, clean: bool = True) -> None: ...
