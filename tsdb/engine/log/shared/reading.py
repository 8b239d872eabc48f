"""Reading entries back from the shared log, and from the local one where there is one.

What is to be replayed is read and verified as a whole before the first entry is handed out: a verdict in the middle of
a replay would come too late. Objects that do not fit into memory are read a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tsdb.engine.errors import WalCorrupted
from tsdb.engine.log.frame import Frame, FrameKind, ReplayedFrame, decode_payload, encode_frame_payload
from tsdb.engine.log.index import LogIndex
from tsdb.engine.log.shared.container import ObjectDamaged, RegionRow, StoredFrame, frames_of
from tsdb.engine.log.shared.history import History, KnownObject
from tsdb.engine.log.shared.layout import object_path
from tsdb.engine.log.shared.settings import SharedSettings
from tsdb.engine.log.shared.terms import persist
from tsdb.engine.log.store import LogReading
from tsdb.engine.parallel import in_parallel
from tsdb.store import ObjectNotFound, ObjectStore, Purpose, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.wal")
_BATCH_BYTES_MAX = 32 << 20


class SharedReading:
    """The entries of the shared log above the floors of their regions, in order."""

    def __init__(
        self,
        store: ObjectStore,
        node: int,
        history: History,
        after: Mapping[int, int],
        *,
        known: Mapping[int, int],
        settings: SharedSettings,
        index: LogIndex | None = None,
        elsewhere: Mapping[int, int | None] | None = None,
    ) -> None:
        """`known` are the last entries of the local log. `index` is told what regions need, if the log is our own.

        Entries of regions that are `elsewhere` are kept above what is flushed.
        """
        self._store = store
        self._node = node
        self._history = history
        self._floors = after
        self._after = {each: max(floor, known.get(each, floor)) for each, floor in after.items()}
        """Entries that the local log has need not be read again, though they are not flushed."""
        self._elsewhere = elsewhere or {}
        self._settings = settings
        self._needed = [(known, rows) for known in history.objects if (rows := self._rows_of(known))]
        self._kept: dict[int, bytes] = {}
        self._lost: dict[int, str] = {}
        self._given_up: set[tuple[int, int]] = set()
        """Segments, and regions in them, whose entries cannot be read and are given up."""
        with requests_for(Purpose.LOG):
            self._verify()
        if index is not None:
            self._tell_index(index)

    def regions(self) -> set[int]:
        return {row.region_id for _, rows in self._needed for row in rows}

    def quarantine_reason(self, region_id: int) -> str | None:
        floor = self._after.get(region_id)
        if floor is None:
            return None
        return self._lost.get(region_id) or self._history.continuity.reason(region_id, floor)

    def _find_loss(self, region_id: int) -> str | None:
        """Why entries may be lost of a region, also of one that is elsewhere: its owner must find the damage, too."""
        if region_id in self._elsewhere:
            return self._history.continuity.reason(region_id, self._elsewhere[region_id] or 0)
        return self.quarantine_reason(region_id)

    def __iter__(self) -> Iterator[list[ReplayedFrame]]:
        for batch in self.stored_frames():
            yield [replayed(each) for each in batch]

    def stored_frames(self) -> Iterator[list[StoredFrame]]:
        """Yield the entries as they are stored, in batches."""
        batch: list[StoredFrame] = []
        batch_bytes = 0
        for known, rows in self._needed:
            content = self._kept.pop(known.segment, None)
            rows = [row for row in rows if (known.segment, row.region_id) not in self._given_up]
            if content is None and rows:
                with requests_for(Purpose.LOG):
                    content = self._get(known)
            for found in self._frames(known, rows, content or b""):
                batch.append(found)
                batch_bytes += found.header.raw_bytes
                if len(batch) >= self._settings.read_batch_size or batch_bytes >= _BATCH_BYTES_MAX:
                    yield batch
                    batch, batch_bytes = [], 0
        if batch:
            yield batch

    def _rows_of(self, known: KnownObject) -> list[RegionRow]:
        """The rows of an object that are needed: those with entries above the floor of a region."""
        return [
            row
            for row in known.trailer.regions
            if row.entries
            and row.region_id in self._after
            and row.last_entry > self._after[row.region_id]
            and not self._history.is_void(known.segment, row)
        ]

    def _verify(self) -> None:
        kept_bytes = 0
        objects = [known for known, _ in self._needed]
        contents = in_parallel(self._try_get, objects, self._settings.read_parallelism)
        for (known, rows), content in zip(self._needed, contents, strict=True):
            for row in rows:
                problem = content if isinstance(content, str) else _problem_of(content, known, row)
                if problem is not None and self._history.is_skipped(known.term, known.number):
                    self._given_up.add((known.segment, row.region_id))
                elif problem is not None:
                    path = object_path(self._node, known.term, known.number)
                    first, last = max(row.first_entry, self._after[row.region_id] + 1), row.last_entry
                    self._lost.setdefault(row.region_id, f"entries {first} to {last} are lost in {path}: {problem}")
            if isinstance(content, bytes) and kept_bytes + len(content) <= self._settings.read_bytes_max:
                kept_bytes += len(content)
                self._kept[known.segment] = content

    def _try_get(self, known: KnownObject) -> bytes | str:
        """Return an object, or why it cannot be used; what looks damaged is read a second time."""
        problem = ""
        for _ in range(2):
            try:
                content = known.content or self._get(known)
            except ObjectNotFound as error:
                return str(error)
            if len(content) == known.trailer.size_bytes and not any(
                _problem_of(content, known, row) for row in self._rows_of(known)
            ):
                return content
            problem = f"it has {len(content)} bytes instead of {known.trailer.size_bytes}"
        return content if len(content) == known.trailer.size_bytes else problem

    def _get(self, known: KnownObject) -> bytes:
        path = object_path(self._node, known.term, known.number)
        return persist(lambda: self._store.get(path))

    def _frames(self, known: KnownObject, rows: Sequence[RegionRow], content: bytes) -> Iterator[StoredFrame]:
        for row in rows:
            if row.region_id in self._lost:
                continue
            try:
                frames = list(frames_of(content, known.trailer, row))
            except ObjectDamaged as error:
                raise WalCorrupted(
                    f"an object of the shared log was intact when the log was opened and is damaged now: {error}",
                    path=object_path(self._node, known.term, known.number),
                    region_id=row.region_id,
                    hint="check the object store and restart",
                ) from error
            yield from (each for each in frames if each.header.entry_id > self._after[row.region_id])

    def _tell_index(self, index: LogIndex) -> None:
        regions = {**self._history.last_entries(), **self._elsewhere}
        quarantined = {each: reason for each in regions if (reason := self._find_loss(each))}
        corruptions = self._history.continuity.corruptions() if quarantined else ()
        damaged = [found.segment for found in corruptions]
        damaged += [known.segment for known, rows in self._needed if any(row.region_id in self._lost for row in rows)]
        index.quarantine(frozenset(quarantined), held_from=min(damaged, default=None))
        for region_id in regions:
            floor = self._floors.get(region_id, self._elsewhere.get(region_id))
            if floor is not None:
                index.set_flushed(region_id, floor)
            elif region_id not in self._elsewhere:
                index.forget(region_id)
        for region_id, reason in quarantined.items():
            _log.error("a region lost entries of the shared log", region=region_id, reason=reason)


@dataclass(frozen=True, slots=True)
class JoinedReading:
    """The entries of a local log, then those that only the shared log has.

    Each log gets what the other one has more: `ship` takes entries of the local log that were never shipped, `fill`
    those that the local log has lost.
    """

    local: LogReading
    shared: SharedReading
    shipped: Mapping[int, int]
    """The last entry of each region in the shared log."""
    ship: Callable[[list[Frame]], None]
    fill: Callable[[list[StoredFrame]], None]

    def quarantine_reason(self, region_id: int) -> str | None:
        return self.local.quarantine_reason(region_id) or self.shared.quarantine_reason(region_id)

    def regions(self) -> set[int]:
        return {*self.local.regions(), *self.shared.regions()}

    def __iter__(self) -> Iterator[list[ReplayedFrame]]:
        for batch in self.local:
            unshipped = [_frame(each) for each in batch if self._is_unshipped(each)]
            if unshipped:
                self.ship(unshipped)
            yield batch
        for stored in self.shared.stored_frames():
            self.fill(stored)
            yield [replayed(each) for each in stored]

    def _is_unshipped(self, found: ReplayedFrame) -> bool:
        if found.entry_id <= self.shipped.get(found.region_id, -1):
            return False
        return self.shared.quarantine_reason(found.region_id) is None


def _problem_of(content: bytes, known: KnownObject, row: RegionRow) -> str | None:
    try:
        frames_of(content, known.trailer, row)
    except ObjectDamaged as error:
        return str(error)
    return None


def replayed(found: StoredFrame) -> ReplayedFrame:
    """Make an entry to be replayed of one that was read."""
    header = found.header
    return ReplayedFrame(
        region_id=header.region_id,
        entry_id=header.entry_id,
        payload=decode_payload(found.stored, codec=header.codec, raw_bytes=header.raw_bytes),
        kind=FrameKind(header.kind),
        base_seq=header.base_seq,
        rows=header.rows,
        schema_version=header.schema_version,
    )


def _frame(found: ReplayedFrame) -> Frame:
    """Make an entry to append of one that was replayed."""
    return Frame(
        found.region_id,
        found.entry_id,
        encode_frame_payload(found.payload),
        kind=found.kind,
        base_seq=found.base_seq,
        rows=found.rows,
        schema_version=found.schema_version,
    )
