"""Reading the past of a log: what of it counts at a moment. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tsdb.engine.log import FrameKind, decode_payload
from tsdb.engine.log.shared import (
    CatalogNote,
    LogHole,
    LogPlace,
    Note,
    PastLog,
    PastObject,
    RegionNote,
    StoredFrame,
    parse_note,
)
from tsdb.engine.region.noting import DISCARDED, FILES_REMOVED, HANDED_IN
from tsdb.engine.rolling._runs import EntryRun

_NS_PER_MS = 1_000_000
_DEFINITION = ("schema", "options", "truncated_entry_id")
IRREVERSIBLE = frozenset({DISCARDED, FILES_REMOVED, HANDED_IN})
"""What happens to regions that neither definitions nor entries tell."""


class UnknownTime(Exception):
    """Whether something happened before the moment or later is not known."""

    def __init__(self, what: str, *, after_ns: int, before_ns: int) -> None:
        super().__init__(what)
        self.what = what
        self.after_ns = after_ns
        self.before_ns = before_ns


class TimedCatalog(NamedTuple):
    """A change of the metadata of a cluster, and when it was noted."""

    note: CatalogNote
    node: int
    logged_ns: int


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
    runs: dict[int, list[EntryRun]] = field(default_factory=dict)
    """The entries of each region that count."""
    catalog: list[TimedCatalog] = field(default_factory=list)
    """Changes of the metadata of a cluster, whether they count or not."""
    node: int = 0
    """The node whose log it is. The rolls of several nodes share what is known of regions, and the catalog."""
    is_member: bool = False
    """The node is one of a cluster: regions may be elsewhere."""
    noted_by: dict[int, int] = field(default_factory=dict)
    """The node that last noted each region."""
    backup_versions: dict[int, int] = field(default_factory=dict)
    """The versions of the manifests in the backup."""
    last_ns: int = 0
    """The latest time before the moment that the log knows."""
    is_over: bool = False
    """There is something that was appended at the moment or later."""
    last_place: LogPlace | None = None
    """The last object that was taken."""
    based_terms: set[int] = field(default_factory=set)
    """Terms that begin with a note of everything."""
    local_terms: set[int] = field(default_factory=set)
    """Terms whose rows were acknowledged before the store had them."""
    data_terms: set[int] = field(default_factory=set)
    """Terms with entries that count."""
    _later_base: tuple[Note, int] | None = None
    """The first thing behind the moment, if that is a note of everything, and its time."""

    def __post_init__(self) -> None:
        if not self.backup_versions:
            self.backup_versions.update({each: note.manifest["version"] for each, note in self.regions.items()})

    def read(self, log: PastLog, start: LogPlace) -> None:
        """Take the objects from a place on, as far as they can matter; then `check_base`. LogHole, UnknownTime."""
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
            # Numbers of regions are used once. A marker of a drop, or of a region that has come back from another node,
            # makes entries void that nobody asks for, or that are in data files: those of the past stay.
            if header.kind != FrameKind.DROP_REGION:
                self._add(found.place, frame)

    def _add(self, place: LogPlace, frame: StoredFrame) -> None:
        self.data_terms.add(place.term)
        header, runs = frame.header, self.runs.setdefault(frame.header.region_id, [])
        last = runs[-1] if runs else None
        if last is not None and last.node == self.node and header.entry_id == last.last + 1:
            last.last, last.last_ns = header.entry_id, max(last.last_ns, frame.logged_ns)
            return
        entry_id, at_ns = header.entry_id, frame.logged_ns
        runs.append(EntryRun(self.node, place, entry_id, entry_id, header.base_seq, at_ns, at_ns))

    def _take_note(self, found: PastObject, frame: StoredFrame) -> None:
        was_over, header = self.is_over, frame.header
        payload = decode_payload(frame.stored, codec=header.codec, raw_bytes=header.raw_bytes)
        note = parse_note(payload.to_pybytes())
        if note.catalog is not None:
            self.catalog.append(TimedCatalog(note.catalog, self.node, frame.logged_ns))
        if self._counts(found, frame.logged_ns, header.region_id):
            self._apply(found.place, note)
        elif note.is_base and not was_over:
            self._later_base = note, frame.logged_ns

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
            if note.acknowledges_locally:
                self.local_terms.add(place.term)
            self.metadata.clear()
        for key, value in note.metadata.items():
            if value is None:
                self.metadata.pop(key, None)
            else:
                self.metadata[key] = value
        for region in note.regions:
            known = self.regions.get(region.region_id)
            # The backup may know more than what was noted just before it was taken.
            version = region.manifest["version"]
            if known is None or version >= known.manifest["version"]:
                self.regions[region.region_id] = region
                self.noted_by[region.region_id] = self.node
            if region.what in IRREVERSIBLE and version >= self.backup_versions.get(region.region_id, 0):
                self.marks.append(region)

    def check_base(self) -> None:
        """If a server was started behind the moment, what it found must be what was noted before; UnknownTime.

        To be asked when everything is read that tells of regions.
        """
        if self._later_base is None:
            return
        note, logged_ns = self._later_base
        changed = [key for key in {*self.metadata, *note.metadata} if self.metadata.get(key) != note.metadata.get(key)]
        changed += [each.table for each in note.regions if not self._is_known(each)]
        if changed:
            what = f"{', '.join(sorted(changed)[:3])} changed"
            raise UnknownTime(what, after_ns=self.last_ns, before_ns=logged_ns + 1)

    def _is_known(self, region: RegionNote) -> bool:
        known = self.regions.get(region.region_id)
        if known is None or (self.is_member and self.noted_by.get(region.region_id) != self.node):
            return True  # It was elsewhere then: what became of it there is not known here.
        return all(known.manifest[key] == region.manifest[key] for key in _DEFINITION)
