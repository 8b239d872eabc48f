"""Group commit: one thread at a time writes what many callers append.

    append ─▶ queue ─▶ committer: take all that is queued ─▶ one writev ─▶ at most one fdatasync ─▶ complete in order

While the committer is at the disk, new appends queue up and form the next group, so one sync serves all of
them (group commit). Without `sync_write` no append waits for a sync: a second thread syncs at intervals, beside the
committer, so that appends never stand behind a long sync. There the calling thread takes the committer's place while
no other thread writes; `_is_committing` is that place, and only its holder touches the writer.

What an error means:

- The disk is full: the group is refused whole and cut off again; the log stays well-formed and may go on later.
- Anything else (a sync that failed, above all): what the disk holds is unknown. The log is broken for good;
  this group and everything after it is refused with the same error. A sync is never tried twice, because the second one
  would succeed without having written the pages that the first one lost.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from tsdb.clock import Clock
from tsdb.engine.errors import StorageFull, StorageUnavailable
from tsdb.engine.log.frame import Frame, frame_bytes
from tsdb.engine.log.index import LogIndex
from tsdb.engine.wal._ballast import Ballast
from tsdb.engine.wal._options import WalSettings
from tsdb.engine.wal._writer import Mark, SegmentWriter, SyncFailed
from tsdb.errors import DeadlineExceeded, TsdbError
from tsdb.store import NO_SPACE, crash_point

_log = logging.getLogger("tsdb.wal")


class _Request(NamedTuple):
    frames: Sequence[Frame]
    size_bytes: int
    done: Future[None]
    should_rotate: bool = False


@dataclass(slots=True)
class CommitCounters:
    """Counted by the committer alone."""

    frames: int = 0
    raw_bytes: int = 0
    commits: int = 0
    refused_full: int = 0


@dataclass(frozen=True, slots=True)
class LogTrouble:
    """Why a log takes no writes: full or broken."""

    state: str
    reason: str
    since_ms: int


class Committer:
    """Owns the writer while it runs."""

    def __init__(
        self,
        *,
        writer: SegmentWriter,
        index: LogIndex,
        ballast: Ballast,
        options: WalSettings,
        where: str,
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._index = index
        self._ballast = ballast
        self._options = options
        self._where = where
        self._clock = clock
        self._receivers: list[Callable[[TsdbError], None]] = []
        """To be told when the log breaks."""
        self._changed = threading.Condition()
        self._queue: deque[_Request] = deque()
        self._queued_bytes = 0
        self._is_committing = False
        """A thread writes: the committer's, or a caller in its place."""
        self._is_closing = False
        self._blocked = 0
        """How many callers wait for room in the queue."""
        self._broken: str | None = None
        self.trouble: LogTrouble | None = None
        """Why nothing is written, if so."""
        self._stop_sync = threading.Event()
        self.counters = CommitCounters()
        self._threads = [threading.Thread(target=self._run, name="wal-commit", daemon=True)]
        if not options.sync_write:
            self._threads.append(threading.Thread(target=self._run_sync, name="wal-sync", daemon=True))

    @property
    def is_broken(self) -> bool:
        return self._broken is not None

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def append(self, frames: Sequence[Frame], *, timeout_s: float) -> Future[None]:
        """Commit frames; wait while the queue is full.

        If no other thread commits, the caller's does: waking another thread, and being woken by it, costs more
        than a write without sync. Otherwise, and with `sync_write`, for the sake of group commit, they queue.
        """
        size = sum(frame_bytes(frame.payload.size_bytes) for frame in frames)
        request = _Request(frames, size, Future())
        with self._changed:
            is_free = not (self._is_committing or self._queue or self._is_closing or self._broken is not None)
            is_free = is_free and not self._options.sync_write
            if is_free:
                self._is_committing = True
                self._queued_bytes += size
        if not is_free:
            return self._submit(request, timeout_s)
        request.done.set_running_or_notify_cancel()
        self._commit_group([request])
        return request.done

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None:
        """Call `receive` when the log breaks, or now if it has."""
        with self._changed:
            is_broken = self._broken is not None
            if not is_broken:
                self._receivers.append(receive)
        if is_broken:
            receive(self._unavailable())

    def submit_rotation(self) -> Future[None]:
        """Queue the end of the active segment."""
        request = _Request((), 0, Future(), should_rotate=True)
        return self._submit(request, self._options.append_timeout.seconds)

    def close(self, timeout_s: float) -> bool:
        """Write and sync what is queued, then stop; False if that took longer than the timeout."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._stop_sync.set()
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _submit(self, request: _Request, timeout_s: float) -> Future[None]:
        # A future that runs cannot be cancelled: whether the frames are in the log is not the caller's to decide.
        request.done.set_running_or_notify_cancel()
        with self._changed:
            if not self._wait_for_room(request, timeout_s):
                raise DeadlineExceeded(
                    f"the log did not take the entry within {timeout_s:g} s",
                    queued_bytes=self._queued_bytes,
                    hint="send less at a time, or check the speed of the disk",
                )
            if self._broken is not None:
                raise self._unavailable()
            if self._is_closing:
                raise StorageUnavailable(f"the log in {self._where} is closed")
            self._queue.append(request)
            self._queued_bytes += request.size_bytes
            if len(self._queue) == 1:
                self._changed.notify_all()
        return request.done

    def _wait_for_room(self, request: _Request, timeout_s: float) -> bool:
        if self._has_room(request):
            return True
        self._blocked += 1
        try:
            return self._changed.wait_for(lambda: self._has_room(request), timeout_s)
        finally:
            self._blocked -= 1

    def _has_room(self, request: _Request) -> bool:
        if self._queued_bytes == 0 or self._broken is not None or self._is_closing:
            return True
        return self._queued_bytes + request.size_bytes <= self._options.queue_bytes_max

    def _run(self) -> None:
        try:
            while group := self._take():
                self._commit_group(group)
            self._sync_finally()
        except BaseException as error:
            # Whatever it is, no caller may be left waiting.
            self._break(f"the committer failed: {error!r}", list(self._queue))
            raise

    def _commit_group(self, group: list[_Request]) -> None:
        """Commit a group whose turn it is, and let the next one begin."""
        try:
            self._commit(group)
        except BaseException as error:
            self._break(f"the committer failed: {error!r}", group)
            raise
        finally:
            with self._changed:
                self._is_committing = False
                self._queued_bytes -= sum(request.size_bytes for request in group)
                # To wake the committer for nothing would cost every commit a change of threads.
                if self._queue or self._blocked or self._is_closing:
                    self._changed.notify_all()

    def _take(self) -> list[_Request]:
        """All that is queued, once something is; nothing when the log is closed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_committing and (bool(self._queue) or self._is_closing))
            group = list(self._queue)
            self._queue.clear()
            self._is_committing = bool(group)
            return group

    def _commit(self, group: list[_Request]) -> None:
        if self._broken is not None:
            _refuse(group, self._unavailable)
            return
        if not self._ballast.restore():
            self._refuse_full(group)
            return
        self._ballast.watch()
        mark = self._writer.mark
        group = self._admit(group)
        if not group:
            return
        try:
            self._write(group)
        except OSError as error:
            if error.errno in NO_SPACE and self._roll_back(mark):
                self._ballast.release()
                self._refuse_full(group)
            else:
                self._break(f"writing failed: {error.strerror or error}", group)
        except SyncFailed as error:
            self._break(f"syncing failed: {error}", group)
        else:
            self.trouble = None
            # The newest first: who applies them in order is told last about the oldest, and can do all of them at once.
            for request in reversed(group):
                request.done.set_result(None)

    def _admit(self, group: list[_Request]) -> list[_Request]:
        """Refuse single requests that must not be written, and return the others."""
        admitted, accepted = [], dict[int, int]()
        for request in group:
            try:
                self._index.check(request.frames, accepted)
            except TsdbError as error:
                request.done.set_exception(error)
            else:
                admitted.append(request)
        return admitted

    def _write(self, group: Sequence[_Request]) -> None:
        frames = [frame for request in group for frame in request.frames]
        crash_point("wal.append.before_write")
        if frames:
            self._writer.write(frames)
        if any(request.should_rotate for request in group):
            self._writer.rotate()
        crash_point("wal.append.after_write")
        if self._options.sync_write:
            crash_point("wal.append.before_sync")
            self._writer.sync()
            crash_point("wal.append.after_sync")
        self._writer.accept()
        self.counters.frames += len(frames)
        self.counters.raw_bytes += sum(frame.payload.raw_bytes for frame in frames)
        self.counters.commits += 1

    def _roll_back(self, mark: Mark) -> bool:
        """Cut off what a full disk left half written; False if not even that works."""
        try:
            self._writer.rollback(mark)
        except (OSError, SyncFailed):
            return False
        return True

    def _refuse_full(self, group: Sequence[_Request]) -> None:
        self.counters.refused_full += len(group)
        if self.trouble is None:
            self.trouble = LogTrouble(
                "full", "there is no space on the disk; writes resume when there is", self._now_ms()
            )
        _refuse(group, self._full)

    def _break(self, reason: str, group: Sequence[_Request]) -> None:
        with self._changed:
            is_first = self._broken is None
            self._broken = self._broken or reason
            if is_first:
                self.trouble = LogTrouble("broken", reason, self._now_ms())
            self._changed.notify_all()
        self._stop_sync.set()
        if is_first:
            _log.critical("the log in %s is broken: %s", self._where, reason)
            for receive in list(self._receivers):
                receive(self._unavailable())
        _refuse(group, self._unavailable)

    def _run_sync(self) -> None:
        """Without `sync_write`: sync at intervals what was written since."""
        while not self._stop_sync.wait(self._options.sync_interval.seconds):
            try:
                self._writer.sync_beside()
            except SyncFailed as error:
                self._break(f"syncing failed: {error}", ())

    def _sync_finally(self) -> None:
        if self._broken is None:
            try:
                self._writer.sync()
            except SyncFailed as error:
                self._break(f"syncing failed: {error}", ())

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000

    def _unavailable(self) -> TsdbError:
        return StorageUnavailable(
            f"the log in {self._where} is broken: {self._broken}",
            hint="check the disk and restart; everything acknowledged is replayed",
        )

    def _full(self) -> TsdbError:
        return StorageFull(
            f"there is no space for the log in {self._where}",
            hint="free space on the disk; writes resume automatically",
        )


def _refuse(group: Sequence[_Request], error: Callable[[], TsdbError]) -> None:
    for request in group:
        if not request.done.done():
            request.done.set_exception(error())
