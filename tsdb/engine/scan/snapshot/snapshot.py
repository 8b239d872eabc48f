"""What a query reads: sources that stay as they are until it is done."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from tsdb.clock import Clock, SystemClock
from tsdb.engine.rows.source import Source
from tsdb.engine.tuning import ScanTuning
from tsdb.errors import Cancelled, DeadlineExceeded
from tsdb.model import RegionOptions, RegionSchema, TimeRange

MEMORY_BYTES_DEFAULT = 256 << 20
_SYSTEM_CLOCK = SystemClock()
_TUNING = ScanTuning()


def _never() -> bool:
    return False


def _nothing() -> None: ...


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A region at one moment, with the limits of the query that looks at it.

    `on_release` unpins the sources. It is called exactly once: by `release`, or when the last user of the snapshot
    (a dataset, a fragment, a generator of batches) is gone. It is not called when all fragments have been read to
    their end, because a plan may read them again: DataFusion scans the table once per round of a recursive query.
    """

    schema: RegionSchema
    options: RegionOptions
    sources: tuple[Source, ...]
    deadline_ns: int | None = None
    """On the monotonic clock."""
    cancelled: Callable[[], bool] = _never
    memory_bytes_max: int = MEMORY_BYTES_DEFAULT
    """What the rows that a scan holds at a time may take."""
    ttl_cutoff: int | None = None
    """Rows before this time, in the unit of the time column, are not visible."""
    on_release: Callable[[], None] = _nothing
    clock: Clock = _SYSTEM_CLOCK
    tuning: ScanTuning = _TUNING

    def __post_init__(self) -> None:
        finalizer = weakref.finalize(self, self.on_release)
        finalizer.atexit = False  # nothing is pinned in a process that ends
        object.__setattr__(self, "_finalizer", finalizer)

    def release(self) -> None:
        """Unpin the sources now; more calls do nothing."""
        finalizer: weakref.finalize[..., Snapshot] = self.__dict__["_finalizer"]
        finalizer()

    @property
    def is_released(self) -> bool:
        finalizer: weakref.finalize[..., Snapshot] = self.__dict__["_finalizer"]
        return not finalizer.alive

    @property
    def visible(self) -> TimeRange:
        """The range of time that the time to live leaves visible."""
        everything = TimeRange.ALL
        return (
            everything
            if self.ttl_cutoff is None
            else everything.intersection(TimeRange(self.ttl_cutoff, everything.end))
        )

    def check(self) -> None:
        """Raise if the query should not go on."""
        if self.cancelled():
            raise Cancelled("the query was cancelled")
        if self.deadline_ns is not None and self.clock.monotonic_ns() >= self.deadline_ns:
            raise DeadlineExceeded(
                "the query did not finish before its deadline", hint="reduce the query or allow more time"
            )
