"""The source of a cluster backup: the metadata, and the regions on all datanodes.

    flush all regions ─▶ pause schema changes ─▶ metadata, pin every region ─▶ resume schema changes ─▶ copies

A row that was acknowledged before the flush is in data files after it, wherever its region moves: a node flushes a
region before it gives it up, and the new owner flushes what it replays. Every request goes to the current node of a
region and is retried if the region moves meanwhile. If a region moves, or its node is lost, while its files are copied,
it is pinned again on its new node. If its table was changed since, the backup fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from tsdb.backup._errors import BackupFailed
from tsdb.backup._files import CopiedRegion
from tsdb.backup._position import ClusterPosition, NodePosition
from tsdb.backup._source import BackupRequest, not_served, refuse_damaged
from tsdb.backup.cluster._copies import ClusterCopies
from tsdb.backup.cluster._logs import join_positions
from tsdb.backup.cluster._nodes import BackupNodes
from tsdb.backup.cluster._wire import PinFacts
from tsdb.catalog import CapturedCatalog, capture_cluster, region_names
from tsdb.engine import NodeLog
from tsdb.errors import DeadlineExceeded, TsdbError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.kv import KvStore
from tsdb.model import RegionId
from tsdb.remote import RemoteRegions
from tsdb.telemetry import get_logger

PARALLELISM = 8
"""How many datanodes are asked at a time."""
_ID_BYTES = 16
_METADATA_TRIES = 20

_log = get_logger("tsdb.backup")


@dataclass(frozen=True, slots=True)
class ClusterTimes:
    """How long a backup waits for what."""

    flush_seconds: float = 900.0
    """How long all flushes may take together."""
    away_seconds: float = 120.0
    """How long a region may be without a node that serves it: a failover takes less."""
    held_seconds: float = 8.0
    """How long changes of tables are held back for pins; then they go on, and it is tried again."""
    pause_seconds: float = 0.5


class ClusterLink(Protocol):
    """The cluster, as the datanode that makes a backup reaches it."""

    @property
    def metadata(self) -> KvStore:
        """A copy of the metadata, a little older than it is."""

    @property
    def regions(self) -> RemoteRegions: ...

    def hold_tables(self, token: str) -> bool:
        """Whether no table changes from now on, and the copy shows all changes before; asked until it is so."""

    def release_tables(self, token: str) -> bool:
        """Let tables change again; return whether they were held until now."""

    def order(self) -> tuple[int, int] | None:
        """The last change that the copy of the metadata shows, if the leader has changes noted in shared logs."""


class ClusterSource:
    """All databases of a cluster."""

    def __init__(
        self,
        open_link: Callable[[], AbstractContextManager[ClusterLink]],
        *,
        own_log: Callable[[], NodeLog | None] = lambda: None,
        times: ClusterTimes | None = None,
        ids: Ids = SYSTEM_IDS,
    ) -> None:
        """`own_log` is the shared log of the datanode that makes the backup."""
        self._open_link = open_link
        self._own_log = own_log
        self._times = times or ClusterTimes()
        self._ids = ids

    @property
    def node_log(self) -> NodeLog | None:
        """The log of the datanode that makes backups; those of all nodes are in its store."""
        return self._own_log()

    @contextmanager
    def captured(self, request: BackupRequest) -> Iterator[_ClusterCapture]:
        """As for every source."""
        with self._open_link() as link, ThreadPoolExecutor(PARALLELISM, "tsdb-backup-nodes") as pool:
            nodes = BackupNodes(link.regions, request, self._ids.token(_ID_BYTES), pool)
            try:
                place, positions = self._find_logs(nodes, request)
                captured = _Capturing(link, nodes, request, self._times, self._ids).run()
                captured.place, captured.positions = place, positions
                yield captured
            finally:
                nodes.release()

    def _find_logs(self, nodes: BackupNodes, request: BackupRequest) -> tuple[str, tuple[NodePosition, ...] | None]:
        """Return where the logs of all nodes are; the own one may be opened again just now."""
        deadline = time.monotonic() + self._times.away_seconds
        while True:
            request.progress.check()
            try:
                own = self._own_log()
                return ("", None) if own is None else (own.place, join_positions(own, nodes.positions()))
            except TsdbError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(self._times.pause_seconds)


@dataclass(slots=True)
class _ClusterCapture:
    """The cluster at one moment; the files of its regions stay while it is held."""

    catalog: CapturedCatalog
    unavailable: dict[RegionId, str]
    copies: ClusterCopies
    order: tuple[int, int] | None
    place: str = ""
    positions: tuple[NodePosition, ...] | None = None

    @property
    def position(self) -> ClusterPosition | None:
        """Where the shared logs were, as for every source."""
        if self.positions is None or self.order is None:
            return None
        return ClusterPosition(self.place, self.positions, self.order, self.copies.pinned_ms)

    def copied(self) -> Generator[CopiedRegion, None, None]:
        return self.copies.run()


@dataclass(slots=True)
class _Pins:
    """What was pinned at one moment, and what could not be."""

    catalog: CapturedCatalog
    pinned: dict[RegionId, PinFacts] = field(default_factory=dict)
    failed: dict[RegionId, TsdbError] = field(default_factory=dict)
    was_held: bool = False
    """No table has changed meanwhile."""
    order: tuple[int, int] | None = None
    """The last change that is in the metadata."""


class _Capturing:
    """The steps to a moment of the cluster."""

    def __init__(
        self, link: ClusterLink, nodes: BackupNodes, request: BackupRequest, times: ClusterTimes, ids: Ids
    ) -> None:
        self._link = link
        self._nodes = nodes
        self._request = request
        self._times = times
        self._ids = ids
        self._flushed: set[RegionId] = set()
        self._unavailable: dict[RegionId, TsdbError] = {}

    def run(self) -> _ClusterCapture:
        self._link.regions.routes.catch_up()
        failed = self._flush(list(capture_cluster(self._link.metadata).regions), self._times.flush_seconds)
        if failed:
            self._give_up(failed)
        pins = self._pin()
        if not self._request.skips_damaged:
            for facts in pins.pinned.values():
                refuse_damaged(facts.table, facts.region_id, facts.damaged)
        files, nbytes = (sum(getattr(each, name) for each in pins.pinned.values()) for name in ("files", "size_bytes"))
        self._request.progress.expect(files=files, nbytes=nbytes)
        copies = ClusterCopies(self._nodes, pins.pinned, self._request, self._times.away_seconds)
        unavailable = {each: str(error) for each, error in self._unavailable.items()}
        return _ClusterCapture(pins.catalog, unavailable, copies, pins.order)

    def _flush(self, region_ids: Sequence[RegionId], seconds: float) -> Mapping[RegionId, TsdbError]:
        """Flush regions wherever they are, but not those that are dropped meanwhile; return which could not be."""
        now = time.monotonic()
        deadline, since, left = now + seconds, now, list(region_ids)
        while left:
            self._request.progress.check()
            failed = self._nodes.flush(left)
            now = time.monotonic()
            since = now if len(failed) < len(left) else since
            self._flushed |= set(left) - failed.keys()
            left = self._without_dropped(failed)
            if left and (now > deadline or now - since > self._times.away_seconds):
                return {each: failed[each] for each in left}
            if left:
                time.sleep(self._times.pause_seconds)
        return {}

    def _pin(self) -> _Pins:
        """Pin all regions while no table changes."""
        since = time.monotonic()
        while True:
            self._request.progress.check()
            found = self._pin_held()
            if found.was_held and not found.failed:
                return found
            self._nodes.release()
            if time.monotonic() - since > self._times.away_seconds:
                if not found.failed:
                    raise BackupFailed(
                        "schema changes could not be paused until the metadata and all regions were captured",
                        hint="check that a metadata server is the leader, then try again",
                    )
                self._give_up(found.failed)
                since = time.monotonic()
            time.sleep(self._times.pause_seconds)

    def _give_up(self, failed: Mapping[RegionId, TsdbError]) -> None:
        """Skip regions that no datanode serves, if that is allowed."""
        if not self._request.skips_damaged:
            region_id, error = next(iter(failed.items()))
            raise not_served(self._table_of(region_id), region_id, error) from error
        self._unavailable.update(failed)
        self._flushed |= failed.keys()

    def _pin_held(self) -> _Pins:
        """Take the metadata and all regions."""
        token = self._ids.token(_ID_BYTES)
        try:
            is_held = self._wait_held(token)
            found = self._take_metadata()
            if not is_held:
                with suppress(TsdbError):
                    self._link.release_tables(token)
                return found
            wanted = [each for each in found.catalog.regions if each not in self._unavailable]
            # Tables that were made since the flush, or were not seen then.
            new = [each for each in wanted if each not in self._flushed]
            found.failed.update(self._flush(new, self._times.held_seconds))
            if not found.failed:
                self._pin_all(found, wanted)
        except BaseException:
            with suppress(TsdbError):
                self._link.release_tables(token)
            raise
        try:
            found.was_held = self._link.release_tables(token)
        except TsdbError as error:
            _log.warning("tables may have changed while a backup was taken; retrying", error=error)
        return found

    def _take_metadata(self) -> _Pins:
        """Take the metadata, and which change was the last: users are changed while tables are held."""
        for _ in range(_METADATA_TRIES):
            order = self._link.order()
            found = _Pins(capture_cluster(self._link.metadata), order=order)
            if self._link.order() == order:
                return found
        return replace(found, order=None)

    def _pin_all(self, found: _Pins, wanted: Sequence[RegionId]) -> None:
        deadline = time.monotonic() + self._times.held_seconds
        left = list(wanted)
        while left:
            self._request.progress.check()
            pinned, found.failed = self._nodes.pin(left)
            found.pinned.update(pinned)
            left = list(found.failed)
            if left and time.monotonic() > deadline:
                return
            if left:
                time.sleep(self._times.pause_seconds)

    def _wait_held(self, token: str) -> bool:
        """Wait until schema changes are paused; False if the hold expired before the answer arrived."""
        deadline = time.monotonic() + self._times.away_seconds
        problem: TsdbError | None = None
        while time.monotonic() < deadline:
            self._request.progress.check()
            try:
                if self._link.hold_tables(token):
                    return True
            except DeadlineExceeded:
                return False
            except TsdbError as error:
                # Another metadata server may begin to lead.
                problem = error
            time.sleep(min(0.05, self._times.pause_seconds))
        raise BackupFailed(
            f"schema changes in progress did not end within {self._times.away_seconds:g} s",
            reason=None if problem is None else str(problem),
            hint="check that a metadata server is the leader, then try again",
        ) from problem

    def _without_dropped(self, failed: Mapping[RegionId, TsdbError]) -> list[RegionId]:
        known = capture_cluster(self._link.metadata).regions if failed else {}
        return [each for each in failed if each in known]

    def _table_of(self, region_id: RegionId) -> str | None:
        return region_names(self._link.metadata).get(region_id)
