"""The treaty between storage and everything above: what can be asked of regions, wherever they are.

A standalone server gives the local `Engine`, a frontend of a cluster gives a client of remote nodes; catalog, query and
database know this protocol and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from tsdb.engine.region import StrictWindows
from tsdb.engine.region_stat import FileFacts, RegionStat
from tsdb.model import Batch, RegionId, RegionOptions, RegionSchema, SchemaChange, TimeRange
from tsdb.units import Duration


class Regions(Protocol):
    """Regions that can be created, written, read and changed."""

    def create_region(
        self, region_id: RegionId, directory: str, schema: RegionSchema, options: RegionOptions | None = None
    ) -> None:
        """Create a region, or open it if it exists with this schema."""

    def schema(self, region_id: RegionId) -> RegionSchema: ...

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

    def dataset(self, region_id: RegionId, *, timeout: Duration | None = None) -> Any:
        """Take what the region holds now as a dataset of Arrow (`RegionDataset`), for one query."""

    def alter(self, region_id: RegionId, changes: list[SchemaChange]) -> Future[None]: ...

    def set_options(self, region_id: RegionId, options: RegionOptions) -> Future[None]: ...

    def flush(self, region_id: RegionId) -> Future[None]: ...

    def compact(self, region_id: RegionId, strict: StrictWindows | None = None) -> Future[None]:
        """Flush what the region holds now, remove files whose rows have all expired, and merge what can be merged.

        With `strict`, files are cut at windows of time first.
        """

    def truncate(self, region_id: RegionId, ranges: Sequence[TimeRange] | None = None) -> Future[None]:
        """Let all rows be gone; with ranges of time, only the data files that lie in one of them as a whole."""

    def drop(self, region_id: RegionId) -> Future[None]:
        """Drop a region, also one that is quarantined."""

    def discard_unflushed(self, region_id: RegionId) -> Future[None]:
        """Let the rows be gone that are in no file yet, for good."""

    def stat(self, region_id: RegionId) -> RegionStat: ...

    def time_range(self, region_id: RegionId) -> TimeRange | None:
        """Return a range that holds the times of all rows of a region; None if it has none."""

    def files(self, region_id: RegionId) -> list[FileFacts]:
        """Describe the data files of a region, in the order of time."""
