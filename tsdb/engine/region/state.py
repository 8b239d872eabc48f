"""What changes about an open region, besides its manifest and its version. `Region` says which thread changes what."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum

from tsdb.clock import Clock, SystemClock
from tsdb.units import Duration

_DOUBLINGS_MAX = 10
_NS_PER_MS = 1_000_000
_NS = 1_000_000_000


class RegionState(StrEnum):
    """What a region can do."""

    WRITABLE = "writable"
    READ_ONLY = "read_only"
    DROPPED = "dropped"
    CLOSED = "closed"


@dataclass(slots=True, eq=False)
class RegionAccess:
    """Whether a region takes writes, and what a commit of unknown outcome left to find out."""

    state: RegionState = RegionState.WRITABLE
    reason: str = ""
    """Why it is read-only."""
    since_ms: int = 0
    """Since when it is."""
    clock: Clock = field(default_factory=SystemClock)
    is_paused: bool = False
    """It is read-only only until the outcome of its last commit is known."""
    is_drop_in_doubt: bool = False
    """It is read-only because the store did not say whether it took the marker of a drop: the drop can be repeated."""
    leads_elsewhere: bool = False
    """It is read-only because another node has it, or is about to."""
    is_lost: bool = False
    """Another writer has committed to its manifest: nothing can be committed here any more."""
    doubtful_files: list[str] = field(default_factory=list)
    """Files of a commit whose outcome is unknown: part of the region, or to be deleted."""

    @property
    def is_writable(self) -> bool:
        return self.state is RegionState.WRITABLE

    @property
    def is_gone(self) -> bool:
        """The region is not here any more: nothing of it may be read, written or committed."""
        return self.state in (RegionState.DROPPED, RegionState.CLOSED)

    def stop(self, reason: str, *, leads_elsewhere: bool = False) -> None:
        """Take no more writes, and say why; reads go on."""
        if not self.is_gone:
            if self.is_writable:
                self.since_ms = self.clock.now_ns() // _NS_PER_MS
            self.reason, self.state, self.is_paused = reason, RegionState.READ_ONLY, False
            self.leads_elsewhere = leads_elsewhere

    def pause(self, reason: str) -> None:
        """Take no writes until the commit whose outcome is unknown is resolved."""
        if self.is_writable:
            self.stop(reason)
            self.is_paused = True

    def resume(self) -> None:
        """End a pause."""
        if self.is_paused:
            self.state, self.is_paused = RegionState.WRITABLE, False


@dataclass(slots=True, eq=False)
class Written:
    """How far a region is written."""

    entry_id: int
    """Of the last entry in the log."""
    sequence: int
    """Of the last row."""
    nbytes: int = 0
    """Bytes of rows that were written since the region was opened."""
    is_sorting: bool = False
    """A background thread sorts the memtable."""


@dataclass(slots=True, eq=False)
class JobState:
    """A kind of background job of a region, of which one runs at a time."""

    is_running: bool = False
    failures: int = 0
    """How many times in a row it failed."""
    not_before_ns: int = 0
    """The monotonic time before which it does not start again, unless it is requested."""
    running_since_ms: int = 0
    failing_since_ms: int = 0
    """When it failed for the first time since it last succeeded; 0 if it did not."""
    last_result: str = ""
    """How the last one ended: success, failure or cancelled; empty if there was none."""
    last_ended_ms: int = 0
    last_error: str = ""
    """What kept the last one that failed; empty again after a success."""
    written_bytes: int = 0
    """Bytes of data files that it wrote since the region was opened."""

    def begin(self, now_ms: int) -> None:
        """It runs from now on."""
        self.is_running, self.running_since_ms = True, now_ms

    def note(self, result: str, now_ms: int, error: str = "") -> None:
        """Remember how one ended. What is known of failures stays after a cancelled one."""
        self.last_result, self.last_ended_ms = result, now_ms
        if result != "cancelled":
            self.last_error = error
            self.failing_since_ms = (self.failing_since_ms or now_ms) if error else 0

    def postpone(self, now_ns: int, first_seconds: float, seconds_max: float) -> float:
        """Count a failure; return the seconds until the next try, twice as many after each failure."""
        self.failures += 1
        delay = min(seconds_max, first_seconds * 2.0 ** min(self.failures, _DOUBLINGS_MAX))
        self.not_before_ns = now_ns + int(delay * _NS)
        return delay


@dataclass(slots=True, eq=False)
class FlushState(JobState):
    """The flushes of a region."""

    last_ns: int = 0
    """Monotonic time of the last flush, or of opening."""
    waiters: list[Future[None]] = field(default_factory=list)
    """Requests that came while a flush was running: the next one is for them."""


@dataclass(frozen=True, slots=True)
class StrictWindows:
    """A request that no file crosses from one time window into the next."""

    length: Duration | None = None
    """None leaves the windows as they are."""
    start_ns: int | None = None
    """Only files with rows from here on, and before the end, are cut."""
    end_ns: int | None = None


@dataclass(slots=True, eq=False)
class CompactionRequest:
    """A request for a compaction. Changed on the worker only."""

    done: Future[None]
    strict: StrictWindows | None = None
    """With it, files are also cut at time windows."""
    parallelism: int = 1
    """How many jobs may run at a time."""
    error: BaseException | None = None
    """What kept files from being merged; others were merged all the same."""
    is_over: bool = False
    """There is no use in going on."""


@dataclass(slots=True, eq=False)
class CompactionState(JobState):
    """The compactions of a region; `not_before_ns` is also the rest after one that succeeded."""

    due_ns: int = 0
    """The monotonic time of the next check for files to merge. A flush sets it to now."""
    requests: list[CompactionRequest] = field(default_factory=list)
    """Requests that came while a compaction was running."""
    jobs: int = 0
    """How many jobs of the round are under way."""
    is_idle: bool = False
    """The region was not written to for a while when files were looked at last: then files that overlap are merged."""
    settled_version: int = 0
    """The version of the manifest in which nothing was left to merge for an idle region."""
    known_damage: frozenset[str] = frozenset()
    """The files that were quarantined when a plan failed last."""

    def has_news_of(self, quarantined: Iterable[str]) -> bool:
        """Whether other files are quarantined than when a plan failed last: then planning again makes sense."""
        before, self.known_damage = self.known_damage, frozenset(quarantined)
        return before != self.known_damage
