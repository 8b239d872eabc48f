"""What a backup is taken of: the catalog and the regions of this process.

    flush all regions ─▶ hold changes of tables back ─▶ metadata, then every manifest ─▶ let changes go on

A row that was acknowledged before the flush is in data files after it, so it is in every manifest that is pinned later.
Changes of tables wait only while manifests are pinned, not while files are copied: so metadata and schemas of regions
match. Of each region, the pinned manifest has the rows up to one sequence, and none behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tsdb.backup._errors import BackupFailed
from tsdb.backup._files import CopiedRegion, FileCopier
from tsdb.backup._position import AnyPosition, LogPosition, find_position
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository
from tsdb.catalog import CapturedCatalog, Catalog
from tsdb.engine import Engine, NodeLog, PinnedRegion
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import DeadlineExceeded, TsdbError
from tsdb.model import RegionId
from tsdb.store import ObjectStore

FLUSH_SECONDS_MAX = 900.0
"""How long all flushes may take together."""
PIN_SECONDS_MAX = 60.0
"""How long changes of tables may be held back."""
FLUSHES_MAX = 64
"""How many regions are flushed at a time."""
_LOOK_SECONDS = 0.2

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """What is wanted of a source."""

    repository: Repository
    lock_token: str
    """What the lock of the destination holds: another process that sees it there sees the same destination."""
    progress: BackupProgress
    skips_damaged: bool
    """Leave out regions that are not served and files that are missing; otherwise they are errors."""


class CapturedSource(Protocol):
    """A server or a cluster at one moment."""

    @property
    def catalog(self) -> CapturedCatalog: ...

    @property
    def unavailable(self) -> dict[RegionId, str]:
        """Regions that are not served, and why; they are not in the backup."""

    def copied(self) -> Generator[CopiedRegion, None, None]:
        """Copy everything, and yield each region when its files are in the destination."""

    @property
    def position(self) -> AnyPosition | None:
        """Where shared logs were before the first flush, if they are kept; asked when everything is copied."""


class BackupSource(Protocol):
    """What a backup is taken of."""

    @property
    def node_log(self) -> NodeLog | None:
        """The log of this process, if that is shared."""

    def captured(self, request: BackupRequest) -> AbstractContextManager[CapturedSource]:
        """Take everything that was acknowledged before this call; files stay until the block ends.

        Without `skips_damaged`, BackupFailed if a region is not served or a data file is quarantined.
        """


@dataclass(frozen=True, slots=True)
class _LocalCapture:
    """The regions of this process at one moment."""

    catalog: CapturedCatalog
    unavailable: dict[RegionId, str]
    regions: list[PinnedRegion]
    store: ObjectStore
    request: BackupRequest
    position: LogPosition | None

    def copied(self) -> Generator[CopiedRegion, None, None]:
        progress, files = self.request.progress, [file for region in self.regions for file in region.files()]
        progress.expect(files=len(files), nbytes=sum(file.size_bytes for file in files))
        copier = FileCopier(self.store, self.request.repository, progress, skips_damaged=self.request.skips_damaged)
        return copier.regions(self.regions)

    def release(self) -> None:
        for region in self.regions:
            region.release()


class LocalSource:
    """The database of this process."""

    def __init__(self, catalog: Catalog, engine: Engine) -> None:
        self._catalog = catalog
        self._engine = engine

    @property
    def node_log(self) -> NodeLog | None:
        """The log of the server, if that is shared."""
        return self._engine.context.wal.node_log

    @contextmanager
    def captured(self, request: BackupRequest) -> Iterator[_LocalCapture]:
        """As for every source."""
        position = find_position(self.node_log)
        self._flush_all(request.progress.check)
        found = self._pin_all(request, position)
        try:
            if not request.skips_damaged:
                for region in found.regions:
                    refuse_damaged(region.table, region.region_id, region.damaged)
            yield found
        finally:
            found.release()

    def _flush_all(self, check: Callable[[], None]) -> None:
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        region_ids = self._engine.region_ids()
        for start in range(0, len(region_ids), FLUSHES_MAX):
            flushes = []
            for region_id in region_ids[start : start + FLUSHES_MAX]:
                try:
                    flushes.append(self._engine.flush(region_id))
                except RegionNotFound:
                    continue  # It was dropped meanwhile.
            _results(flushes, check, deadline, "flush", skips_dropped=True)

    def _pin_all(self, request: BackupRequest, position: LogPosition | None) -> _LocalCapture:
        deadline = time.monotonic() + PIN_SECONDS_MAX
        unavailable: dict[RegionId, str] = {}
        with self._catalog.captured() as catalog:
            pins = []
            for region_id in catalog.regions:
                try:
                    pins.append(self._engine.pin(region_id))
                except TsdbError as error:
                    if not request.skips_damaged:
                        raise not_served(self._catalog.name_of_region(region_id), region_id, error) from error
                    unavailable[region_id] = str(error)
            pinned = _results(pins, request.progress.check, deadline, "pin")
        return _LocalCapture(catalog, unavailable, pinned, self._engine.context.store, request, position)


def _results(
    futures: Sequence[Future[_T]],
    check: Callable[[], None],
    deadline: float,
    what: str,
    *,
    skips_dropped: bool = False,
) -> list[_T]:
    """Wait for all futures, as long as that is wanted; regions that were dropped meanwhile may be left out."""
    left = set(futures)
    while left:
        check()
        if time.monotonic() > deadline:
            raise DeadlineExceeded(f"{len(left)} regions took too long to {what}", hint="is the disk or store slow?")
        left = wait(left, timeout=_LOOK_SECONDS).not_done
    found = []
    for done in futures:
        try:
            found.append(done.result())
        except RegionNotFound:
            if not skips_dropped:
                raise
    return found


def not_served(table: str | None, region_id: RegionId, error: TsdbError) -> BackupFailed:
    """Return why a backup fails that may leave nothing out."""
    return BackupFailed(
        f"a region is not served: {error}",
        table=table or "unknown",
        region_id=region_id,
        hint="repair it, or back up everything else with 'skip_damaged=true'",
    )


def refuse_damaged(table: str, region_id: RegionId, damaged: Collection[str]) -> None:
    """Raise BackupFailed if a region has files that are quarantined."""
    if damaged:
        raise BackupFailed(
            f"a data file is quarantined: {min(damaged)}",
            table=table,
            region_id=region_id,
            hint="ADMIN verify_table and ADMIN drop_quarantined, or back up the rest with 'skip_damaged=true'",
        )
