"""Housekeeping: automatic flushes and compactions, purges of the log, expiry, the end of drops.

`tick` does what is due; a thread calls it every second. It only starts work, and never waits for a flush.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from weakref import WeakKeyDictionary

from tsdb.engine.metrics import COMPACTIONS_POSTPONED
from tsdb.engine.region.background import Priority
from tsdb.engine.region.compact import IDLE_LOOK, look
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.drop import PendingDrop, finish_drop
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.region import Region
from tsdb.engine.region.snapshot import ttl_cutoff
from tsdb.engine.region.trim import expire, plan_expired
from tsdb.errors import TsdbError
from tsdb.telemetry import get_logger
from tsdb.units import Duration, Size

TICK_SECONDS = 1.0
EXPIRY_INTERVAL = Duration.of_seconds(60)
"""How often files are looked for whose rows have all expired. No query waits for that: expired rows are not read."""

REGION_BYTES_MAX = Size.parse("128MiB")
"""Rows of one region that begin to be flushed, however large the write buffer is: while they are, others come."""

IDLE_INTERVAL = Duration.of_seconds(2)
"""A region with much in memory (`idle_bytes_min`) is flushed once it has been idle for a while: memory and log are free
again, a start need not read the rows back, and queries find everything in files."""

FROZEN_MAX = 32
"""Memtables of one region that wait for a flush: each change of its columns makes one, and every query reads all."""

COMPACTIONS_QUEUED_MAX = 64
"""How many compactions wait for a thread; other regions have their turn later."""

_POSTPONED_BY_WRITES = COMPACTIONS_POSTPONED.labels("writes")
_POSTPONED_BY_QUEUE = COMPACTIONS_POSTPONED.labels("queue")

_log = get_logger("tsdb.housekeeping")


def plan_victims(sizes: dict[Region, int], *, used: int, target: int) -> list[Region]:
    """Choose the regions to flush, the largest first, until what is left would fit the target."""
    chosen = []
    for region, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if used <= target or not size:
            break
        chosen.append(region)
        used -= size
    return chosen


class Housekeeping:
    """Watches the write buffer and the clock on behalf of all regions."""

    def __init__(
        self,
        context: EngineContext,
        regions: Callable[[], Iterable[Region]],
        before_purge: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self.before_purge = before_purge
        """Finds out what others have flushed of regions that have left."""
        self._regions = regions
        self._purged_ns = self._expired_ns = context.clock.monotonic_ns()
        self._drops: dict[str, PendingDrop] = {}
        """By directory, until nothing is left of it."""
        self._deleting: set[str] = set()
        self._later: deque[tuple[int, Callable[[], object]]] = deque()
        """What is to be done once, and not before its time."""
        self._last_seen: WeakKeyDictionary[Region, tuple[int, int]] = WeakKeyDictionary()
        """The bytes written to a region at the last check, and since when they are unchanged."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tsdb-housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def call_later(self, delay: Duration, job: Callable[[], object]) -> None:
        """Call a function once, at the first tick after a while; it must not wait."""
        self._later.append((self._context.clock.monotonic_ns() + delay, job))

    def add_drop(self, pending: PendingDrop) -> None:
        """Delete a dropped region's directory after the last reader of its files."""
        self._drops[pending.directory] = pending

    def is_dropping(self, directory: str) -> bool:
        """Whether the directory is about to be deleted."""
        return directory in self._drops

    def tick(self) -> None:
        """Do what is due."""
        self.relieve()
        self._resume()
        self._flush_idle()
        self._finish_drops()
        self.compact()
        self._call_due()
        now = self._context.clock.monotonic_ns()
        if now - self._purged_ns >= self._context.wal.purge_interval:
            self._purged_ns = now
            self.purge()
        elif self._context.wal.may_purge:
            self._context.wal.purge()
        if now - self._expired_ns >= EXPIRY_INTERVAL:
            self._expired_ns = now
            self.expire()

    def after_write(self, regions: Iterable[Region]) -> None:
        """Sort and flush what a write made due."""
        for region in regions:
            version = region.version
            if not region.written.is_sorting and version.mutable.needs_sorting:
                self._sort(region)
            is_full = version.memtable_bytes >= (version.options.write_buffer_size or REGION_BYTES_MAX)
            if is_full or len(version.frozen) >= FROZEN_MAX:
                self._flush(region)
        if self._context.buffer.should_flush:
            self.relieve()

    def relieve(self) -> None:
        """Flush the largest regions when the write buffer is half full of rows that are not being flushed."""
        buffer = self._context.buffer
        if not buffer.should_flush:
            return
        # A region that cannot be flushed now is no relief: others have to be flushed in its place.
        sizes = {region: region.version.memtable_bytes for region in self._regions() if not self._must_wait(region)}
        for region in plan_victims(sizes, used=buffer.used, target=buffer.size // 2):
            self._flush(region)

    def purge(self) -> None:
        """Delete what the log no longer needs, and flush the regions that keep it from more."""
        self.before_purge()
        result = self._context.wal.purge()
        pinning = set(result.pinning)
        for region in self._regions():
            if region.id in pinning:
                _log.info("flushing a region that holds back the log", region=region.id, table=region.table)
                self._flush(region)

    def expire(self) -> None:
        """Remove the files whose rows have all expired."""
        for region in self._regions():
            version = region.version
            # Decided here first, so that a worker is not kept from writing for nothing.
            if region.access.is_writable and plan_expired(version, ttl_cutoff(self._context, version)):
                region.worker.call(partial(expire, self._context, region)).add_done_callback(_tell_failure)
            if region.quarantined.keys() - region.manifest.state.quarantined.keys():
                region.worker.call(partial(region.record_quarantine, self._context))

    def compact(self) -> None:
        """Have the regions checked whose files may have to be merged."""
        now = self._context.clock.monotonic_ns()
        due = [region for region in self._regions() if self._is_due(region, now)]
        if not due:
            return
        buffer = self._context.buffer
        if buffer.waiting or buffer.should_stall():
            _POSTPONED_BY_WRITES.inc()
            return
        room = COMPACTIONS_QUEUED_MAX - self._context.background.compactions_queued
        if len(due) > room:
            _POSTPONED_BY_QUEUE.inc()
        for region in sorted(due, key=lambda region: -len(region.version.files))[: max(0, room)]:
            look(self._context, region, is_idle=self._is_settling(region, now))

    def _is_due(self, region: Region, now: int) -> bool:
        state = region.compaction
        if state.is_running or not region.access.is_writable or now < state.not_before_ns:
            return False
        may_settle = self._is_settling(region, now) and state.settled_version != region.manifest.state.version
        return len(region.version.files) > 1 and (may_settle or now >= state.due_ns)

    def _is_settling(self, region: Region, now: int) -> bool:
        """Whether nothing was written to a region for so long that files that overlap are merged."""
        return self._idle_ns(region, now) >= IDLE_LOOK

    def _resume(self) -> None:
        """Let regions write again that wait for the outcome of a commit: a flush finds it out first."""
        for region in self._regions():
            if region.access.is_paused:
                self._flush(region)

    def _flush_idle(self) -> None:
        now = self._context.clock.monotonic_ns()
        for region in self._regions():
            idle_ns = self._idle_ns(region, now)
            if not region.version.memtable_bytes:
                # The first row after an idle time has the whole interval before it.
                region.flush.last_ns = now
                if region.version.mutable.kept_bytes and idle_ns >= self._context.options.auto_flush_interval:
                    region.worker.call(partial(region.forget_keys, self._context))
            elif (
                self._is_idle(region, idle_ns)
                or now - region.flush.last_ns >= self._context.options.auto_flush_interval
            ):
                self._flush(region)

    def _is_idle(self, region: Region, idle_ns: int) -> bool:
        """Whether much was written to a region, and nothing for a while."""
        is_large = region.version.memtable_bytes >= self._context.options.tuning.idle_bytes_min
        return idle_ns >= IDLE_INTERVAL and is_large

    def _idle_ns(self, region: Region, now: int) -> int:
        """Return for how long nothing was written to a region, as far as it was watched."""
        written = region.written.nbytes
        seen, since_ns = self._last_seen.get(region, (-1, now))
        if seen != written:
            self._last_seen[region] = written, now
            return 0
        return now - since_ns

    def _must_wait(self, region: Region) -> bool:
        """The last flush failed a moment ago, or no flush can succeed before the region is opened again."""
        is_over = region.manifest.is_broken or region.access.is_lost
        return is_over or self._context.clock.monotonic_ns() < region.flush.not_before_ns

    def _flush(self, region: Region) -> None:
        """Start a flush unless one is under way, or the last one failed a moment ago."""
        if not (region.flush.is_running or region.access.is_gone or self._must_wait(region)):
            start_flush(self._context, region)

    def _sort(self, region: Region) -> None:
        memtable = region.version.mutable
        region.written.is_sorting = True

        def sort() -> None:
            try:
                memtable.sort_pending()
            finally:
                region.written.is_sorting = False

        self._context.background.submit(Priority.SORT, sort)

    def _call_due(self) -> None:
        now = self._context.clock.monotonic_ns()
        for _ in range(len(self._later)):
            due_ns, job = self._later.popleft()
            if due_ns <= now:
                job()
            else:
                self._later.append((due_ns, job))

    def _finish_drops(self) -> None:
        for directory, pending in list(self._drops.items()):
            if pending.is_over and directory not in self._deleting:
                self._deleting.add(directory)
                self._context.background.submit(Priority.DELETE, partial(self._finish_drop, pending))

    def _finish_drop(self, pending: PendingDrop) -> None:
        try:
            finish_drop(self._context, pending.region_id, pending.directory)
            del self._drops[pending.directory]
        except TsdbError as error:
            _log.warning("a dropped region could not be deleted yet", region=pending.region_id, error=error)
        finally:
            self._deleting.discard(pending.directory)

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                self.tick()
            except Exception:  # noqa: BLE001 - the thread must live; the next tick tries again
                _log.exception("housekeeping failed")


def _tell_failure(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        _log.warning("expired files are not removed yet", error=error)
