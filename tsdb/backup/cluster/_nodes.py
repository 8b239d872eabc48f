"""Asking datanodes for their part of a backup, several at a time, each for the regions that are there now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tsdb.backup._errors import BackupFailed
from tsdb.backup._source import BackupRequest
from tsdb.backup.cluster._node import FLUSH_SECONDS_MAX, PIN_SECONDS_MAX
from tsdb.backup.cluster._wire import REGIONS_MAX, PinFacts, facts_from_wire
from tsdb.errors import TsdbError
from tsdb.model import Peer, RegionId
from tsdb.remote import RemoteRegions
from tsdb.telemetry import get_logger
from tsdb.units import Duration

BATCH_MAX = 256
"""How many regions are flushed or pinned by one request."""
_FLUSH_TIMEOUT = Duration.of_seconds(FLUSH_SECONDS_MAX + 20)
_PIN_TIMEOUT = Duration.of_seconds(PIN_SECONDS_MAX + 10)
_QUICK_TIMEOUT = Duration.of_seconds(15)

_log = get_logger("tsdb.backup")

Failed = dict[RegionId, TsdbError]


class BackupNodes:
    """The datanodes of a cluster, for one backup."""

    def __init__(self, regions: RemoteRegions, request: BackupRequest, backup: str, pool: ThreadPoolExecutor) -> None:
        self._regions = regions
        self._request = request
        self._backup = backup
        self._pool = pool
        self.owners: dict[RegionId, Peer] = {}
        """Where regions are pinned."""
        self._asked: set[Peer] = set()
        """Who may have pinned some, whatever they answered."""

    def peer_of(self, region_id: RegionId) -> Peer:
        """Return where a region is now; an error if that is not known."""
        return self._regions.routes.peer_of(region_id)

    def positions(self) -> dict[int, Mapping[str, Any] | TsdbError]:
        """Ask all datanodes where their logs are; why one does not say it."""

        def ask(peer: Peer) -> Mapping[str, Any] | TsdbError:
            try:
                return self._regions.backup(peer, "position", {}, timeout=_QUICK_TIMEOUT)
            except TsdbError as error:
                return error

        peers = self._regions.routes.peers()
        return {peer.node_id: answer for peer, answer in zip(peers, self._pool.map(ask, peers), strict=True)}

    def flush(self, region_ids: Sequence[RegionId]) -> Failed:
        """Flush regions; return those that could not be, and why."""

        def ask(peer: Peer, batch: list[RegionId]) -> Failed:
            answer = self._regions.backup(peer, "flush", {"regions": batch}, timeout=_FLUSH_TIMEOUT)
            return _failed(answer)

        failed: Failed = {}
        for found in self._at_places(region_ids, ask, failed):
            failed.update(found)
        return failed

    def pin(self, region_ids: Sequence[RegionId]) -> tuple[dict[RegionId, PinFacts], Failed]:
        """Pin regions; return what they are, and which could not be."""
        request = self._request
        common = {"backup": self._backup, "destination": request.repository.asked, "token": request.lock_token}

        def ask(peer: Peer, batch: list[RegionId]) -> tuple[Peer, Mapping[str, Any]]:
            self._asked.add(peer)
            return peer, self._regions.backup(peer, "pin", {**common, "regions": batch}, timeout=_PIN_TIMEOUT)

        pinned: dict[RegionId, PinFacts] = {}
        failed: Failed = {}
        for peer, answer in self._at_places(region_ids, ask, failed):
            for each in answer["pinned"]:
                facts = facts_from_wire(each)
                pinned[facts.region_id] = facts
                self.owners[facts.region_id] = peer
            failed.update(_failed(answer))
        return pinned, failed

    def copy(self, peer: Peer, region_ids: Sequence[RegionId], *, skips_damaged: bool) -> None:
        """Let a datanode copy the files of regions that it has pinned."""
        for start in range(0, len(region_ids), REGIONS_MAX):
            wanted = {"regions": list(region_ids[start : start + REGIONS_MAX]), "skips_damaged": skips_damaged}
            self._regions.backup(peer, "copy", {"backup": self._backup, **wanted}, timeout=_QUICK_TIMEOUT)

    def look(self, peer: Peer, taken: int) -> Mapping[str, Any]:
        """Ask a datanode how far it has come."""
        return self._regions.backup(peer, "look", {"backup": self._backup, "taken": taken}, timeout=_QUICK_TIMEOUT)

    def release(self) -> None:
        """Have all datanodes release their files; one that is not reached releases them after its lease."""
        asked, self._asked, self.owners = self._asked, set(), {}
        list(self._pool.map(self._release, asked))

    def each(self, ask: Callable[[Peer], Any], peers: Sequence[Peer]) -> list[Any]:
        """Ask several datanodes at a time."""
        return list(self._pool.map(ask, peers))

    def _release(self, peer: Peer) -> None:
        try:
            self._regions.backup(peer, "release", {"backup": self._backup}, timeout=_QUICK_TIMEOUT)
        except TsdbError as error:
            _log.warning("a datanode keeps files for a backup until it notices its end", peer=peer, error=error)

    def _at_places(
        self, region_ids: Sequence[RegionId], ask: Callable[[Peer, list[RegionId]], Any], failed: Failed
    ) -> list[Any]:
        """Ask each datanode for the regions that are there; what is true of all nodes ends the backup."""
        tasks = []
        for peer, there in self._by_node(region_ids, failed).items():
            tasks += [(peer, there[start : start + BATCH_MAX]) for start in range(0, len(there), BATCH_MAX)]

        def attempt(task: tuple[Peer, list[RegionId]]) -> Any:
            try:
                return ask(*task)
            except BackupFailed:
                raise
            except TsdbError as error:
                failed.update(dict.fromkeys(task[1], error))
                return None

        return [found for found in self._pool.map(attempt, tasks) if found is not None]

    def _by_node(self, region_ids: Sequence[RegionId], failed: Failed) -> dict[Peer, list[RegionId]]:
        found: dict[Peer, list[RegionId]] = {}
        for region_id in region_ids:
            try:
                found.setdefault(self.peer_of(region_id), []).append(region_id)
            except TsdbError as error:
                failed[region_id] = error
        return found


def _failed(answer: Mapping[str, Any]) -> Failed:
    return {RegionId(region_id): error for region_id, error in answer["failed"].items()}
