"""Polls the datanodes while they copy, and repeats the copies of regions that moved or were lost.

A region is done when a datanode has copied all its files. If its node is lost, was restarted, or has given it up and
finds files missing, the region is pinned on its current node and copied from there.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tsdb.backup._errors import BackupFailed
from tsdb.backup._files import CopiedRegion, FailedRegion, RegionOutcome
from tsdb.backup._source import BackupRequest, not_served
from tsdb.backup.cluster._node import BackupUnknown
from tsdb.backup.cluster._nodes import BackupNodes
from tsdb.backup.cluster._wire import Counts, PinFacts, counts_from_wire, outcome_from_wire
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import Peer, RegionId
from tsdb.telemetry import get_logger

LOOK_SECONDS = 0.2
TRIES_MAX = 3
"""How often the files of a region are copied again, each time from a new pin, before they count as damaged."""

_log = get_logger("tsdb.backup")


@dataclass(slots=True)
class _Work:
    """What one datanode has to copy."""

    peer: Peer
    left: set[RegionId] = field(default_factory=set)
    taken: int = 0
    counts: Counts = field(default_factory=Counts)
    before: Counts = field(default_factory=Counts)
    """What it had done before it was started again."""
    heard: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A datanode that does not know of its work, or does not answer."""

    error: TsdbError


class ClusterCopies:
    """The copies of one backup."""

    def __init__(
        self, nodes: BackupNodes, pinned: Mapping[RegionId, PinFacts], request: BackupRequest, away_seconds: float
    ) -> None:
        self._nodes = nodes
        self._pinned = pinned
        self.pinned_ms = max((facts.pinned_ms for facts in pinned.values()), default=0)
        """When the last region was pinned, by the clock of its node."""
        self._request = request
        self._away_seconds = away_seconds
        self._works: dict[Peer, _Work] = {}
        self._tries: dict[RegionId, int] = {}
        self._astray: dict[RegionId, float] = {}
        """Regions that are to be pinned again, and since when no datanode has worked on them."""
        self._missed: dict[RegionId, float] = {}
        """As `_astray`, also while a datanode is asked again."""
        self._skipping: set[RegionId] = set()
        """Regions that do without files that are missing."""

    def run(self) -> Generator[CopiedRegion, None, None]:
        """Yield each region when it is copied; BackupFailed if one cannot be."""
        for region_id in self._pinned:
            self._work_at(self._nodes.owners[region_id]).left.add(region_id)
        for work in self._works.values():
            self._begin(work, list(work.left))
        while self._astray or any(work.left for work in self._works.values()):
            self._request.progress.check()
            self._find_astray()
            busy = [work for work in self._works.values() if work.left]
            for work, found in zip(busy, self._nodes.each(self._look, [work.peer for work in busy]), strict=True):
                yield from self._take(work, found)
            self._report()
            time.sleep(LOOK_SECONDS)

    def _work_at(self, peer: Peer) -> _Work:
        return self._works.setdefault(peer, _Work(peer))

    def _begin(self, work: _Work, region_ids: list[RegionId], *, skips_damaged: bool = False) -> None:
        if not region_ids:
            return
        try:
            self._nodes.copy(work.peer, region_ids, skips_damaged=skips_damaged)
            work.heard = time.monotonic()
        except TsdbError as error:
            _log.warning("a datanode does not start to copy; retrying", peer=work.peer, error=error)
            self._lose(work, region_ids)
            self._check_missed(region_ids[0], error)

    def _look(self, peer: Peer) -> Mapping[str, Any] | _Lost:
        try:
            return self._nodes.look(peer, self._works[peer].taken)
        except TsdbError as error:
            return _Lost(error)

    def _take(self, work: _Work, found: Mapping[str, Any] | _Lost) -> Generator[CopiedRegion, None, None]:
        if isinstance(found, _Lost):
            self._miss(work, found.error)
            return
        work.heard = time.monotonic()
        work.counts = counts_from_wire(found["counts"])
        for region_id in work.left:
            self._missed.pop(region_id, None)
        for each in found["outcomes"]:
            work.taken += 1
            copied = self._take_outcome(work, outcome_from_wire(each))
            if copied is not None:
                yield copied

    def _take_outcome(self, work: _Work, outcome: RegionOutcome) -> CopiedRegion | None:
        if isinstance(outcome, CopiedRegion):
            region_id = outcome.region.region_id
            # One that was given up here and came to its end all the same is copied elsewhere already.
            is_wanted = region_id in work.left
            if is_wanted and region_id in self._skipping and self._place(region_id) != work.peer:
                # What is missing there may be elsewhere.
                self._lose(work, [region_id])
                return None
            work.left.discard(region_id)
            return outcome if is_wanted else None
        if outcome.region_id in work.left:
            self._fail(work, outcome)
        return None

    def _fail(self, work: _Work, failure: FailedRegion) -> None:
        """Files of a region may be gone because it has moved: they are looked for where it is now."""
        region_id = failure.region_id
        tries = self._tries[region_id] = self._tries.get(region_id, 0) + 1
        if tries > TRIES_MAX or (tries == TRIES_MAX and not self._request.skips_damaged):
            raise failure.error
        if tries == TRIES_MAX:
            self._skipping.add(region_id)
        _log.warning("a region is copied again from a new pin", region=region_id, error=failure.error)
        self._lose(work, [region_id])

    def _miss(self, work: _Work, error: TsdbError) -> None:
        """A datanode has forgotten its work, or does not answer; regions that are elsewhere by now are asked there."""
        # A node that was started again counts anew what it has done.
        if isinstance(error, BackupUnknown | InvalidArguments):
            work.before, work.counts, work.taken = work.before.plus(work.counts), Counts(), 0
            self._lose(work, list(work.left))
            return
        gone = [each for each in work.left if self._place(each) != work.peer]
        self._lose(work, gone)
        if work.left and time.monotonic() - work.heard > self._away_seconds:
            region_id = min(work.left)
            raise not_served(self._pinned[region_id].table, region_id, error) from error

    def _place(self, region_id: RegionId) -> Peer | None:
        try:
            return self._nodes.peer_of(region_id)
        except RegionNotFound:
            raise self._dropped(region_id) from None
        except TsdbError:
            return None

    def _lose(self, work: _Work, region_ids: list[RegionId]) -> None:
        now = time.monotonic()
        for region_id in region_ids:
            work.left.discard(region_id)
            self._astray[region_id] = self._missed.setdefault(region_id, now)

    def _find_astray(self) -> None:
        """Pin regions again, wherever they are now, and have them copied."""
        if not self._astray:
            return
        pinned, failed = self._nodes.pin(list(self._astray))
        again: dict[Peer, list[RegionId]] = {}
        for region_id, facts in pinned.items():
            self._check_unchanged(facts)
            self.pinned_ms = max(self.pinned_ms, facts.pinned_ms)
            del self._astray[region_id]
            peer = self._nodes.owners[region_id]
            self._work_at(peer).left.add(region_id)
            again.setdefault(peer, []).append(region_id)
        for peer, region_ids in again.items():
            skipping = [each for each in region_ids if each in self._skipping]
            self._begin(self._work_at(peer), [each for each in region_ids if each not in self._skipping])
            self._begin(self._work_at(peer), skipping, skips_damaged=True)
        for region_id, error in failed.items():
            self._place(region_id)
            self._check_missed(region_id, error)

    def _check_missed(self, region_id: RegionId, error: TsdbError) -> None:
        """Raise BackupFailed if no datanode has worked on a region for too long."""
        if time.monotonic() - self._missed[region_id] > self._away_seconds:
            raise not_served(self._pinned[region_id].table, region_id, error) from error

    def _check_unchanged(self, facts: PinFacts) -> None:
        first = self._pinned[facts.region_id]
        if not facts.is_same_table(first):
            raise BackupFailed(
                "a table was changed while one of its regions moved to another datanode",
                table=first.table,
                region_id=facts.region_id,
                hint="run the backup again: files that were copied are not copied again",
            )
        if not self._request.skips_damaged and facts.damaged:
            raise BackupFailed(f"a data file is quarantined: {facts.damaged[0]}", table=first.table)

    def _dropped(self, region_id: RegionId) -> BackupFailed:
        return BackupFailed(
            "a table was dropped while one of its regions moved to another datanode",
            table=self._pinned[region_id].table,
            region_id=region_id,
            hint="run the backup again: files that were copied are not copied again",
        )

    def _report(self) -> None:
        total = Counts()
        for work in self._works.values():
            total = total.plus(work.before).plus(work.counts)
        self._request.progress.report(
            files_done=total.files_done,
            bytes_done=total.bytes_done,
            files_copied=total.files_copied,
            bytes_copied=total.bytes_copied,
        )
