"""The log behind the engine: what every log promises, wherever it keeps its entries.

    append ─▶ durable, in the order of the entries of a region ─▶ read, after a restart ─▶ floor ─▶ purge
    seal      the end: nothing comes behind it

The engine uses nothing else of a log. Entries, floors and results are plain values, so a log may be in another process
or in an object store.

What a log promises:

- The entries of a region are numbered without holes. An entry is accepted only if it follows the last accepted one, so
  when one is refused, those appended behind it are refused too, until its number comes again.
- The entries of one call are accepted together or not at all. Calls may be answered in any order.
- What was accepted comes back after a restart, in order. What was refused never does.
- A log that cannot know whether entries are durable breaks: it refuses everything from then on, and says so once.
- A region may leave the log and come back after a life elsewhere. `adopt` says behind which entry it goes on: whatever
  the log holds of it is void, the next entry is accepted if it follows that one, and a restart finds the region whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tsdb.engine.log.frame import Frame, ReplayedFrame
from tsdb.errors import TsdbError
from tsdb.model import LateEntry
from tsdb.units import Duration

if TYPE_CHECKING:
    from tsdb.engine.log.shared.journal import Journal
    from tsdb.engine.log.shared.past import PastLogs


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """What a purge did. `pinning` are the regions to flush, oldest first, to get below the threshold."""

    deleted: tuple[int, ...]
    """Numbers of the segments that are gone."""
    pinning: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """Counters since the log was opened, and how full its bounds are."""

    segments: int
    total_bytes: int
    appended_frames: int = 0
    raw_bytes: int = 0
    commits: int = 0
    syncs: int = 0
    rotations: int = 0
    purged_segments: int = 0
    refused_full: int = 0
    queued_bytes: int = 0
    unsynced_bytes: int = 0
    unshipped_bytes: int = 0
    """Entries of a shared log that the object store does not have yet."""
    unshipped_seconds: float = 0.0
    """How long ago the oldest of them was appended."""
    is_full: bool = False
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A segment, and what keeps it from being deleted."""

    number: int
    size_bytes: int
    entries: int
    since_ms: int
    state: str
    """active (being written), pinned (regions need it), held (kept because of damage), unneeded, unshipped (entries of
    a shared log that the object store does not have yet), retained (all objects of a shared log that are kept for its
    history), or skipped (an object of a shared log that is given up). The segment that would be written: full (the disk
    is) or broken (nothing can be written until a restart)."""
    reason: str
    pinning: tuple[int, ...]
    """The regions with entries in it that are in no data file yet."""
    node_id: int | None = None
    """The datanode whose log it is of; None for this process."""
    last_error: str | None = None
    """What went wrong with it last."""

    @property
    def is_skipped(self) -> bool:
        """Whether it is an object of a shared log that is given up, of whatever node."""
        return self.state == "skipped"


class LogReading(Protocol):
    """The entries of one `read`: iterate over it for lists of them, in the order in which they were written."""

    def __iter__(self) -> Iterator[list[ReplayedFrame]]: ...

    def quarantine_reason(self, region_id: int) -> str | None:
        """Why a region must not be opened; None if all of its entries are here or flushed."""

    def regions(self) -> Collection[int]:
        """The regions of which there are entries to be iterated over."""


class LogStore(Protocol):
    """A log of the entries of all regions of one engine. Thread-safe."""

    @property
    def directory(self) -> Path | None:
        """Where it is, if that is a local disk, which may run full."""

    @property
    def purge_interval(self) -> Duration:
        """How often `purge` has to be called, whatever was flushed."""

    @property
    def may_purge(self) -> bool:
        """Whether something was flushed since the last purge, so that there may be something to delete."""

    def append(self, frames: Sequence[Frame]) -> Future[None]:
        """Take entries; the future completes when they are durable, or with the error that kept them out.

        A log that need not wait for a disk or a network may do it on the calling thread. Callbacks of the future run on
        a thread of the log, and must not hold it up.

        `StorageFull`: they may be accepted later. `StorageUnavailable`: not before a restart. `EntryOutOfOrder`: an
        entry before them was refused. `WalCorrupted`: the region lost entries and takes no more. Waits only if too much
        is under way, and raises DeadlineExceeded if that takes too long.
        """

    def read(self, after: Mapping[int, int]) -> LogReading:
        """Return the entries above the floor of their region, as they were when the log was opened.

        A region that is not in `after` does not exist any more, and the log lets go of its entries.
        """

    def floor(self, region_id: int, entry_id: int) -> None:
        """Entries of the region up to this one are durable elsewhere. Called for every region that is opened, too."""

    def drop_region(self, region_id: int) -> Future[None]:
        """The region is gone: its entries are void, and one with its id may start again."""

    def adopt(self, entries: Mapping[int, int]) -> None:
        """Regions come from elsewhere, each with everything up to an entry in data files, and go on behind that.

        Waits until a restart would know it; raises as `append` does.
        """

    def last_entry(self, region_id: int) -> int | None:
        """The last entry of a region that the log holds; None if it knows of none."""

    def purge(self) -> PurgeResult:
        """Delete what no region needs, and return the regions that pin too much."""

    def segments(self) -> list[tuple[str, SegmentFacts]]:
        """Describe the parts of the log, oldest first, each with its place."""

    def statistics(self) -> LogStatistics: ...

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None:
        """Call `receive` once, on any thread, when the log breaks, or now if it has."""

    def seal(self, *, clean: bool = True) -> None:
        """Make durable what was appended, then accept nothing more. With `clean`, note that nothing is missing."""

    @property
    def node_log(self) -> NodeLog | None:
        """What more it can do if other nodes can reach it; None if it is on a local disk only."""


class LateLog(Protocol):
    """Entries that a node hands in to the owners of regions that were taken over without them. Thread-safe."""

    def regions(self) -> Sequence[int]:
        """The regions with entries that are not settled."""

    def read(self, region_id: int) -> Iterator[list[LateEntry]]:
        """Yield the entries of a region, in order, in batches of a moderate size."""

    def settle(self, region_id: int) -> None:
        """The entries of a region are needed no more."""


class NodeLog(Protocol):
    """A log that others can reach: the log of one node of a cluster, in which regions move between nodes.

    Rows of a region that are in no data file are in the log of exactly one node, that of its owner. A node that takes a
    region over lets the log of the old owner accept nothing more, reads the rows, and flushes them before it serves.
    """

    @property
    def node(self) -> int:
        """The node whose log it is."""

    @property
    def journal(self) -> Journal | None:
        """Where changes of tables are noted, if the log is kept for its history."""

    @property
    def place(self) -> str:
        """Where its store is, as people write it."""

    def read_past(self) -> PastLogs:
        """Return what it and those of other nodes hold now, for reading."""

    @property
    def position(self) -> tuple[int, int]:
        """Term and number of an object: everything before it was acknowledged."""

    @property
    def acknowledges_locally(self) -> bool:
        """Whether entries are acknowledged before others can reach them."""

    def remember(self, directories: Mapping[int, str]) -> None:
        """Note where regions are, before their first entries come, for a life that does not have them any more."""

    def strangers(self, present: Collection[int]) -> Mapping[int, str | None]:
        """The regions of which the log may hold entries, without those that are here; where they are, if that is known.

        As it was when the log was opened.
        """

    def read_among(
        self, after: Mapping[int, int], *, elsewhere: Mapping[int, int | None], arriving: Collection[int]
    ) -> LogReading:
        """Return the entries of regions, as `read` does, and keep those of regions that are elsewhere.

        `elsewhere` has what their owners have flushed, None if that is unknown: what is above is not purged, because a
        new owner may be about to read it. Regions not named exist no more. Of `arriving` regions, others may have
        entries: those that only the local disk has were never known to anybody, and are void.
        """

    @property
    def late(self) -> LateLog | None:
        """Entries of regions that are elsewhere and that only this node has; None without a local log."""

    @property
    def is_continued(self) -> bool:
        """Whether the local disk is the one on which the log was written before."""

    def keep_late(self, flushed: Mapping[int, int | None]) -> None:
        """Keep the entries that only the local disk has, of regions that were taken over without them.

        `flushed` says up to where others have the entries of each region, None if that is unknown. To be called before
        `read_among`.
        """

    def floor_elsewhere(self, region_id: int, entry_id: int) -> None:
        """As `floor`, for a region that another node has: entries that only the local disk has stay."""

    def read_again(self, after: Mapping[int, int]) -> LogReading:
        """Return the own entries of regions above their floors, as they are now. Their appends must be over."""

    def take_over(self, node: int, after: Mapping[int, int]) -> LogReading:
        """Let the log of another node accept nothing more, and return its entries of regions above their floors.

        Every term is sealed that a listing made by this call shows. StoreError if that cannot be done; it can be
        repeated.
        """

    def skip_object(self, path: str) -> str:
        """Give up an object that cannot be read, of the log of any node; return what is wrong with it.

        Regions are opened without its entries from then on. InvalidArguments if it can be read.
        """

    def prove_ownership(self) -> Future[None]:
        """Complete if the log was still ours after this call; LogFenced if another process has taken it over."""
