"""The part of each datanode in a backup of the cluster: flush its regions, pin their files, copy them.

    pin ─▶ copy ─▶ look … look ─▶ release

- The files of pinned regions stay while the coordinator polls the progress of the copies (`look`). Without a poll for
  `LEASE_SECONDS`, copies end and the pins are released.
- After a flush and after a pin, the node proves that it still owns its regions, as for queries: a node that was cut off
  would copy outdated rows.
- The destination must be that of the coordinator: its lock is there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from typing import Any

from tsdb.backup._destination import DestinationPlaces
from tsdb.backup._errors import BackupFailed
from tsdb.backup._files import FailedRegion, FileCopier, RegionOutcome
from tsdb.backup._lock import is_locked_by
from tsdb.backup._progress import BackupProgress
from tsdb.backup._repository import Repository
from tsdb.backup.cluster._logs import describe_log, note_catalog
from tsdb.backup.cluster._wire import (
    Counts,
    counts_to_wire,
    facts_of,
    facts_to_wire,
    outcome_to_wire,
    read_count,
    read_flag,
    read_id,
    read_regions,
    read_text,
)
from tsdb.engine import Engine, PinnedRegion
from tsdb.errors import Busy, Cancelled, DeadlineExceeded, InvalidArguments, Status, TsdbError
from tsdb.model import RegionId
from tsdb.store import Purpose, requests_for
from tsdb.telemetry import get_logger

LEASE_SECONDS = 120.0
"""How long pins are kept without a poll of the coordinator."""
BACKUPS_MAX = 4
"""How many backups may have pins here."""
COPIES_MAX = 16
"""How many requests to copy of one backup may be under way."""
OUTCOMES_MAX = 64
"""How many regions one answer tells of: each has its manifest."""
FLUSH_SECONDS_MAX = 100.0
PIN_SECONDS_MAX = 20.0
_REAP_SECONDS = 1.0

_log = get_logger("tsdb.backup")


class BackupUnknown(TsdbError):
    """A datanode has no pins of a backup: it was started again, or was not asked for too long."""

    status = Status.ILLEGAL_STATE


class _Part:
    """What this node has of one backup."""

    def __init__(self, destination: str, repository: Repository, now: float) -> None:
        self.destination = destination
        self.repository = repository
        self.heard = now
        self.pinned: dict[RegionId, PinnedRegion] = {}
        self.progress = BackupProgress()
        self.copies = 0
        self.outcomes: deque[RegionOutcome] = deque()
        self.told = 0
        """How many outcomes the maker has."""
        self.lock = threading.Lock()

    def counts(self) -> Counts:
        done = self.progress
        return Counts(done.files_done, done.bytes_done, done.files_copied, done.bytes_copied)

    def release(self) -> None:
        self.progress.cancel()
        for region in self.pinned.values():
            region.release()


class BackupNode:
    """The part of one datanode in backups. Thread-safe."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        places: DestinationPlaces,
        check_owned: Callable[[], None],
        *,
        name: str,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """`engine` raises while regions are not open; `check_owned` if another node may have them by now."""
        self._engine = engine
        self._places = places
        self._check_owned = check_owned
        self._name = name
        self._lease_seconds = lease_seconds
        self._lock = threading.Lock()
        self._parts: dict[str, _Part] = {}
        self._reaper: threading.Thread | None = None

    def answer(self, step: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do a step; InvalidArguments if there is none of this name."""
        act = _STEPS.get(step)
        if act is None:
            raise InvalidArguments(f"a backup has no step {step!r}")
        return act(self, request)

    def close(self) -> None:
        """End copies and release all pins."""
        with self._lock:
            parts, self._parts = list(self._parts.values()), {}
        for part in parts:
            part.release()

    @property
    def pinned(self) -> int:
        """How many regions are pinned."""
        with self._lock:
            return sum(len(part.pinned) for part in self._parts.values())

    def _position(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return describe_log(self._engine())

    def _note(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return note_catalog(self._engine(), request)

    def _flush(self, request: Mapping[str, Any]) -> dict[str, Any]:
        engine, failed, flushes = self._engine(), {}, {}
        for region_id in read_regions(request):
            try:
                flushes[region_id] = engine.flush(region_id)
            except TsdbError as error:
                failed[region_id] = error
        wait(flushes.values(), timeout=FLUSH_SECONDS_MAX)
        for region_id, flush in flushes.items():
            try:
                flush.result(timeout=0)
            except TimeoutError:
                failed[region_id] = DeadlineExceeded("a region took too long to flush", region_id=region_id)
            except TsdbError as error:
                failed[region_id] = error
        self._check_owned()
        return {"failed": failed}

    @requests_for(Purpose.BACKUP)
    def _pin(self, request: Mapping[str, Any]) -> dict[str, Any]:
        backup, region_ids = read_id(request, "backup"), read_regions(request)
        part = self._begin(backup, read_text(request, "destination"))
        if not is_locked_by(part.repository, read_text(request, "token")):
            raise BackupFailed(
                f"{self._name} does not see the destination of the backup: its lock is not in {part.repository.place}",
                hint="use a bucket, or a directory that is mounted on all datanodes, as a storage of the same name",
            )
        engine, failed, pins = self._engine(), {}, {}
        for region_id in region_ids:
            try:
                pins[region_id] = engine.pin(region_id)
            except TsdbError as error:
                failed[region_id] = error
        wait(pins.values(), timeout=PIN_SECONDS_MAX)
        pinned: dict[RegionId, PinnedRegion] = {}
        for region_id, pin in pins.items():
            try:
                pinned[region_id] = pin.result(timeout=0)
            except TimeoutError:
                failed[region_id] = DeadlineExceeded("a region took too long to pin", region_id=region_id)
            except TsdbError as error:
                failed[region_id] = error
        self._check_owned()
        self._keep(backup, part, pinned)
        # Rounded up: what is pinned is from before.
        pinned_ms = engine.context.now_ms() + 1
        return {"pinned": [facts_to_wire(facts_of(each, pinned_ms)) for each in pinned.values()], "failed": failed}

    def _begin(self, backup: str, destination: str) -> _Part:
        with self._lock:
            part = self._parts.get(backup)
            if part is not None and part.destination != destination:
                raise InvalidArguments("a backup has one destination", first=part.destination, other=destination)
            if part is not None:
                part.heard = time.monotonic()
                return part
            if len(self._parts) >= BACKUPS_MAX:
                raise Busy(f"{BACKUPS_MAX} backups have pinned regions of {self._name} already", hint="try again later")
        return _Part(destination, self._places.open(destination), time.monotonic())

    def _keep(self, backup: str, part: _Part, pinned: Mapping[RegionId, PinnedRegion]) -> None:
        with self._lock:
            known = self._parts.setdefault(backup, part)
            known.heard = time.monotonic()
            known.pinned.update(pinned)
            if self._reaper is None:
                self._reaper = threading.Thread(target=self._reap, name="tsdb-backup-pins", daemon=True)
                self._reaper.start()

    def _copy(self, request: Mapping[str, Any]) -> dict[str, Any]:
        part = self._find(request)
        skips_damaged, region_ids = read_flag(request, "skips_damaged"), read_regions(request)
        with part.lock:
            missing = [each for each in region_ids if each not in part.pinned]
            if missing:
                raise BackupUnknown("a region is not pinned for this backup", region_id=missing[0])
            if part.copies >= COPIES_MAX:
                raise Busy(f"{COPIES_MAX} requests to copy are under way", hint="try again later")
            part.copies += 1
            regions = [part.pinned[each] for each in region_ids]
        arguments = (part, regions, skips_damaged)
        threading.Thread(target=self._run_copy, args=arguments, name="tsdb-backup-copy", daemon=True).start()
        return {}

    @requests_for(Purpose.BACKUP)
    def _run_copy(self, part: _Part, regions: Sequence[PinnedRegion], skips_damaged: bool) -> None:
        left = {region.region_id for region in regions}
        error: BackupFailed | None = None
        try:
            store = self._engine().context.store
            copier = FileCopier(store, part.repository, part.progress, skips_damaged=skips_damaged)
            for outcome in copier.outcomes(regions):
                left.discard(outcome.region_id if isinstance(outcome, FailedRegion) else outcome.region.region_id)
                with part.lock:
                    part.outcomes.append(outcome)
        except Cancelled:
            return
        except TsdbError as failure:
            error = BackupFailed(f"{self._name} cannot copy files: {failure}", hint=failure.hint)
        except Exception as failure:  # noqa: BLE001 - the maker of the backup has to hear of it
            _log.exception("copying files for a backup failed unexpectedly")
            error = BackupFailed(f"{self._name} cannot copy files: {failure!r}")
        finally:
            with part.lock:
                part.copies -= 1
                if error is not None:
                    part.outcomes += [FailedRegion(each, error) for each in sorted(left)]

    def _look(self, request: Mapping[str, Any]) -> dict[str, Any]:
        part, taken = self._find(request), read_count(request, "taken")
        with part.lock:
            if not part.told <= taken <= part.told + len(part.outcomes):
                raise InvalidArguments("a look at a backup goes back or too far", taken=taken, told=part.told)
            while part.told < taken:
                part.outcomes.popleft()
                part.told += 1
            outcomes = [outcome_to_wire(each) for each in list(part.outcomes)[:OUTCOMES_MAX]]
        return {"counts": counts_to_wire(part.counts()), "outcomes": outcomes}

    def _release(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            part = self._parts.pop(read_id(request, "backup"), None)
        if part is not None:
            part.release()
        return {}

    def _find(self, request: Mapping[str, Any]) -> _Part:
        backup = read_id(request, "backup")
        with self._lock:
            part = self._parts.get(backup)
            if part is not None:
                part.heard = time.monotonic()
                return part
        raise BackupUnknown(f"{self._name} has no regions pinned for this backup", backup=backup)

    def _reap(self) -> None:
        """Release pins whose backup is no longer polled; ends with the last of them."""
        while True:
            time.sleep(min(_REAP_SECONDS, self._lease_seconds / 4))
            now = time.monotonic()
            with self._lock:
                late = [each for each, part in self._parts.items() if now - part.heard > self._lease_seconds]
                released = [self._parts.pop(each) for each in late]
                is_last = not self._parts
                if is_last:
                    self._reaper = None
            for part in released:
                _log.warning("a backup is no longer polled; its files are released", regions=len(part.pinned))
                part.release()
            if is_last:
                return


_STEPS: dict[str, Callable[[BackupNode, Mapping[str, Any]], dict[str, Any]]] = {
    "position": BackupNode._position,
    "note": BackupNode._note,
    "flush": BackupNode._flush,
    "pin": BackupNode._pin,
    "copy": BackupNode._copy,
    "look": BackupNode._look,
    "release": BackupNode._release,
}
