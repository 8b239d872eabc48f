"""What a backup is taken of: the catalog and the regions of this process.

    flush all regions ─▶ hold changes of tables back ─▶ metadata, then every manifest ─▶ let changes go on

A row that was acknowledged before the flush is in data files after it, so it is in every manifest that is pinned later.
Changes of tables wait only while manifests are pinned, not while files are copied: so metadata and schemas of regions
match. Of each region, the pinned manifest has the rows up to one sequence, and none behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tsdb.backup._errors import BackupFailed
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


@dataclass(slots=True)
class CapturedSource:
    """The server at one moment."""

    catalog: CapturedCatalog
    regions: list[PinnedRegion]
    unavailable: dict[RegionId, str] = field(default_factory=dict)
    """Regions that are not served, and why; they are not in the backup."""

    def release(self) -> None:
        for region in self.regions:
            region.release()


class LocalSource:
    """The database of this process."""

    def __init__(self, catalog: Catalog, engine: Engine) -> None:
        self._catalog = catalog
        self._engine = engine

    @property
    def store(self) -> ObjectStore:
        """Where the files of all regions are."""
        return self._engine.context.store

    @property
    def node_log(self) -> NodeLog | None:
        """The log of the server, if that is shared."""
        return self._engine.context.wal.node_log

    @contextmanager
    def captured(self, check: Callable[[], None], *, skips_damaged: bool) -> Iterator[CapturedSource]:
        """Take everything that was acknowledged before this call; files stay until the block ends.

        `check` raises when the backup is not wanted any more. Without `skips_damaged`, BackupFailed if a region is not
        served or a data file is quarantined.
        """
        self._flush_all(check)
        found = self._pin_all(check, skips_damaged=skips_damaged)
        try:
            if not skips_damaged:
                _refuse_damaged(found)
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

    def _pin_all(self, check: Callable[[], None], *, skips_damaged: bool) -> CapturedSource:
        deadline = time.monotonic() + PIN_SECONDS_MAX
        unavailable: dict[RegionId, str] = {}
        with self._catalog.captured() as catalog:
            pins = []
            for region_id in catalog.regions:
                try:
                    pins.append(self._engine.pin(region_id))
                except TsdbError as error:
                    if not skips_damaged:
                        raise _unavailable(self._catalog.name_of_region(region_id), region_id, error) from error
                    unavailable[region_id] = str(error)
            pinned = _results(pins, check, deadline, "pin")
        return CapturedSource(catalog, pinned, unavailable)


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


def _unavailable(table: str | None, region_id: RegionId, error: TsdbError) -> BackupFailed:
    return BackupFailed(
        f"a region is not served: {error}",
        table=table or "unknown",
        region_id=region_id,
        hint="repair it, or back up everything else with 'skip_damaged=true'",
    )


def _refuse_damaged(found: CapturedSource) -> None:
    for region in found.regions:
        if region.damaged:
            raise BackupFailed(
                f"a data file is quarantined: {min(region.damaged)}",
                table=region.table,
                region_id=region.region_id,
                hint="ADMIN verify_table and ADMIN drop_quarantined, or back up the rest with 'skip_damaged=true'",
            )
