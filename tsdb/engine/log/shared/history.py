"""What the terms of a node hold: read from the ends of their objects, before anything is replayed.

Between the floor of a term and its first fence, objects have consecutive numbers, and each names the checksum of the
one before it. Whatever is missing there, cut off or damaged may have held entries of any region: a region is served
only if what comes behind proves that it lost none (`tsdb.engine.log.continuity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tsdb.engine.log.continuity import UNKNOWN_LENGTH, Continuity, Corruption
from tsdb.engine.log.purge import SegmentState
from tsdb.engine.log.shared.container import (
    ObjectDamaged,
    ObjectKind,
    RegionRow,
    Trailer,
    parse_trailer,
)
from tsdb.engine.log.shared.journal import NOTES
from tsdb.engine.log.shared.layout import TermListing, object_path, segment_number
from tsdb.engine.log.shared.skipping import SkippedObjects
from tsdb.engine.log.shared.terms import list_term, persist
from tsdb.engine.parallel import in_parallel
from tsdb.store import InvalidRange, ObjectNotFound, ObjectStore

TAIL_BYTES = 64 << 10
"""How much of the end of an object is read: enough for the rows of 800 regions."""


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object that is part of the log."""

    term: int
    number: int
    trailer: Trailer
    content: bytes | None
    """If it is so small that all of it was read."""

    @property
    def segment(self) -> int:
        return segment_number(self.term, self.number)


@dataclass(slots=True)
class History:
    """Everything that was acknowledged and is not below a floor."""

    objects: list[KnownObject] = field(default_factory=list)
    segments: list[SegmentState] = field(default_factory=list)
    continuity: Continuity = field(default_factory=Continuity)
    dropped_at: dict[int, int] = field(default_factory=dict)
    """In which segment the last drop marker of a region is: what is before it is void."""
    tips: dict[int, int] = field(default_factory=dict)
    """The first fence of each term."""
    skipped: SkippedObjects | None = None
    """Objects that are given up."""

    def last_entries(self) -> dict[int, int]:
        return self.continuity.last_entries()

    def is_skipped(self, term: int, number: int) -> bool:
        """Whether an object that cannot be read is given up."""
        return self.skipped is not None and (term, number) in self.skipped

    def is_void(self, segment: int, row: RegionRow) -> bool:
        """Whether the entries of a row are those of a region that was dropped later."""
        return segment < self.dropped_at.get(row.region_id, 0)


def read_history(
    store: ObjectStore, node: int, terms: Sequence[TermListing], *, parallelism: int, keep_bytes_max: int
) -> History:
    """Read the ends of all objects of terms that are sealed, the oldest first; StoreError if the store fails."""
    history = History(skipped=SkippedObjects(store, node))
    kept_bytes = 0

    def read(place: tuple[int, int, int]) -> tuple[Trailer, bytes | None] | str:
        return _read_end(store, object_path(node, place[0], place[1]), place[2])

    places = [(each.term, number, each.sizes.get(number, -1)) for each in terms for number in _numbers(each)]
    ended: set[int] = set()
    previous_crc = 0
    for (term, number, _), found in zip(places, in_parallel(read, places, parallelism), strict=True):
        if term in ended:
            continue
        previous_crc = previous_crc if number else 0
        if isinstance(found, str):
            # What was deleted since the listing is flushed; its floor was raised before.
            if number >= persist(partial(list_term, store, node, term)).floor:
                _see_damage(history, node, term, number, found)
            previous_crc = 0
            continue
        trailer, content = found
        if trailer.kind is ObjectKind.FENCE:
            ended.add(term)
            history.tips[term] = number
            continue
        problem = _check(trailer, term, number, previous_crc)
        previous_crc = trailer.crc
        if problem is not None:
            _see_damage(history, node, term, number, problem)
            continue
        kept_bytes += len(content or b"")
        _see(history, KnownObject(term, number, trailer, content if kept_bytes <= keep_bytes_max else None))
    return history


def _numbers(listing: TermListing) -> range:
    """The numbers of a term that may be part of the log, its fence included."""
    last = max(listing.sizes, default=-1) if listing.tip is None else listing.tip
    return range(listing.floor, last + 1)


def _read_end(store: ObjectStore, path: str, size_bytes: int) -> tuple[Trailer, bytes | None] | str:
    """Return the end of an object, and all of it if that is not more; or what is wrong with it."""
    if size_bytes < 0:
        return "it is missing: something else than this server deleted it, a lifecycle rule of the bucket perhaps"
    problem = ""
    # An answer that was cut off looks like damage: what is damaged is read twice.
    for _ in range(2):
        try:
            return _try_read_end(store, path, size_bytes)
        except (ObjectDamaged, InvalidRange, ObjectNotFound) as error:
            problem = str(error)
    return problem


def _try_read_end(store: ObjectStore, path: str, size_bytes: int) -> tuple[Trailer, bytes | None]:
    wanted = min(size_bytes, TAIL_BYTES)
    while True:
        tail = persist(partial(store.get_range, path, size_bytes - wanted, wanted)) if wanted else b""
        try:
            return parse_trailer(tail, size_bytes), tail if wanted == size_bytes else None
        except ValueError as short:
            wanted = int(short.args[0])


def _check(trailer: Trailer, term: int, number: int, previous_crc: int) -> str | None:
    identity = trailer.identity
    if (identity.term, identity.number) != (term, number):
        return f"it says that it is object {identity.number:016x} of term {identity.term:08x}"
    if previous_crc and trailer.previous_crc != previous_crc:
        return "it does not follow the object before it"
    return None


def _see(history: History, known: KnownObject) -> None:
    state = SegmentState(known.segment, known.trailer.size_bytes, since_ms=known.trailer.created_ms)
    for row in known.trailer.regions:
        if row.is_dropped:
            history.continuity.see_drop(row.region_id)
            history.dropped_at[row.region_id] = known.segment
            for segment in history.segments:
                segment.max_entries.pop(row.region_id, None)
        if row.entries and row.region_id != NOTES:
            history.continuity.see_frames(row.region_id, row.first_entry, row.last_entry)
            state.max_entries[row.region_id] = row.last_entry
            state.entries += row.entries
    history.objects.append(known)
    history.segments.append(state)


def _see_damage(history: History, node: int, term: int, number: int, problem: str) -> None:
    if history.is_skipped(term, number):
        history.continuity.see_given_up()
        history.segments.append(SegmentState(segment_number(term, number), 0))
        return
    reason = f"{object_path(node, term, number)}: {problem}"
    segment = segment_number(term, number)
    history.continuity.see_damage(Corruption(segment, 0, UNKNOWN_LENGTH, reason))
    # It is kept and shown as long as something may depend on it.
    history.segments.append(SegmentState(segment, 0))
