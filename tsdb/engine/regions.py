"""The interface between storage and everything above: what can be asked of regions, wherever they are.

A standalone server gives the local `Engine`, a frontend of a cluster gives a client of remote nodes; catalog, query and
database know this protocol and nothing else. `reading.py` has the part that is about reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from tsdb.engine.log import SegmentFacts
from tsdb.engine.reading import RegionReader, no_check
from tsdb.engine.region.compaction_history import CompactionRecord
from tsdb.engine.region.quarantine import VerifiedFiles
from tsdb.engine.region.stat import FileFacts, RegionStat
from tsdb.engine.region.state import StrictWindows
from tsdb.model import Batch, MetricView, RegionId, RegionOptions, RegionSchema, SchemaChange, TimeRange
from tsdb.store import RequestFacts
from tsdb.units import Duration


class Regions(Protocol):
    """Regions that can be created, written, read and changed."""

    def create_region(
        self, region_id: RegionId, directory: str, schema: RegionSchema, options: RegionOptions | None = None
    ) -> None:
        """Create a region, or open it if it exists with this schema."""

    def schema(self, region_id: RegionId, *, at_least: int = 0) -> RegionSchema:
        """Return the schema of a region: one that is kept here only if it has this version or a later one."""

    def write(
        self,
        region_id: RegionId,
        batch: Batch,
        *,
        timeout: Duration | None = None,
        schema_version: int | None = None,
    ) -> Future[int]:
        """Write or delete rows; the future ends when they are durable and visible.

        With `schema_version`, SchemaOutdated (at once or from the future) if the region has another version by then.
        """

    def open_reader(
        self,
        region_id: RegionId,
        *,
        timeout: Duration | None = None,
        view: MetricView | None = None,
        check: Callable[[], None] = no_check,
    ) -> RegionReader:
        """Take what the region holds now, for one query that has so much time.

        With `view`, as the table of the metric engine that it shows. `check` is called in this process between steps
        that take long; it raises when the query is over.
        """

    def alter(self, region_id: RegionId, changes: list[SchemaChange]) -> Future[None]: ...

    def set_options(self, region_id: RegionId, options: RegionOptions) -> Future[None]: ...

    def flush(self, region_id: RegionId) -> Future[None]: ...

    def compact(
        self, region_id: RegionId, strict: StrictWindows | None = None, *, parallelism: int = 1
    ) -> Future[None]:
        """Flush what the region holds now, remove files whose rows have all expired, and merge what can be merged.

        With `strict`, files are cut at windows of time first. Up to `parallelism` sets of files are rewritten at a
        time.
        """

    def verify(self, region_id: RegionId, *, is_quarantined: bool = False) -> Future[VerifiedFiles]:
        """Read all files of a region, or the quarantined ones; quarantine damaged ones, and release the others."""

    def give_up_file(self, region_id: RegionId, file_id: str) -> Future[int]:
        """Drop a quarantined data file from a region; return the number of its rows."""

    def skip_log_object(self, path: str) -> str:
        """Give up an object of the shared log that cannot be read; return what is wrong with it."""

    def compactions(self) -> list[CompactionRecord]:
        """The newest compactions of all regions, oldest first."""

    def wal_segments(self) -> list[tuple[str, SegmentFacts]]:
        """The segments of the log, oldest first, each with its path."""

    def storage_requests(self) -> list[RequestFacts]:
        """What was asked of object stores since the start, and the states they are in."""

    def truncate(
        self, region_id: RegionId, ranges: Sequence[TimeRange] | None = None, *, token: str | None = None
    ) -> Future[None]:
        """Delete all rows; with time ranges, only the data files that are completely in one of them.

        All rows are removed once for each token, however often that is asked for.
        """

    def drop(self, region_id: RegionId) -> Future[None]:
        """Drop a region, also one that is quarantined."""

    def discard_unflushed(self, region_id: RegionId) -> Future[None]:
        """Let the rows be gone that are in no file yet, for good."""

    def stat(self, region_id: RegionId) -> RegionStat: ...

    def time_range(self, region_id: RegionId) -> TimeRange | None:
        """Return a range that holds the times of all rows of a region; None if it has none."""

    def files(self, region_id: RegionId) -> list[FileFacts]:
        """Describe the data files of a region, in the order of time."""
