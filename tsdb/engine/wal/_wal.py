"""The write-ahead log: what makes acknowledged writes survive a crash."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tsdb.clock import Clock, SystemClock
from tsdb.engine.errors import StorageFull, StorageUnavailable
from tsdb.engine.log import Frame, FrameKind, LogStatistics, PurgeResult, SegmentFacts
from tsdb.engine.log.frame import drop_marker
from tsdb.engine.log.index import LogIndex
from tsdb.engine.log.purge import PurgePlan
from tsdb.engine.wal._ballast import Ballast
from tsdb.engine.wal._committer import Committer
from tsdb.engine.wal._late import LateEntries
from tsdb.engine.wal._marker import CleanMarker, remove_marker, write_marker
from tsdb.engine.wal._options import WalSettings
from tsdb.engine.wal._recover import RecoveredLog, Recovery, recover
from tsdb.engine.wal._replay import Replay
from tsdb.engine.wal._segment import segment_path, torn_path
from tsdb.engine.wal._writer import SegmentWriter, SyncFailed
from tsdb.errors import TsdbError
from tsdb.store import NO_SPACE, Files, crash_point, make_directories
from tsdb.units import Duration

_log = logging.getLogger("tsdb.wal")
_APPENDABLE = frozenset({FrameKind.DATA, FrameKind.DELETE, FrameKind.DROP_REGION})


class Wal:
    """Append-only log of the entries of all regions, in one directory.

    An append is acknowledged when its future completes: then it survives the end of the process, and with `sync_write`
    a power loss too. Entries come back in the order in which they were written, a region's without holes. A torn end is
    cut off; any other damage quarantines the regions that may have lost entries by it, and no others.

    Thread-safe. One process at a time may use a directory; its owner holds a `DirectoryLock`.
    """

    def __init__(
        self,
        recovered: RecoveredLog,
        *,
        directory: Path,
        options: WalSettings,
        files: Files,
        clock: Clock,
        skip_corrupt: bool,
    ) -> None:
        self._recovered = recovered
        self._directory = directory
        self._options = options
        self._files = files
        self._skip_corrupt = skip_corrupt
        self._purging = threading.Lock()
        self._purged_segments = 0
        self.late = LateEntries(directory, files)
        self._index = LogIndex(
            recovered.segments, recovered.continuity, recovered.report.corruptions, skip_corrupt=skip_corrupt
        )
        self._ballast = Ballast(directory, files=files, size_bytes=options.ballast_bytes, clock=clock)
        self._writer = SegmentWriter(
            directory, files=files, clock=clock, index=self._index, file_bytes_max=options.file_size
        )
        self._committer = Committer(
            writer=self._writer,
            index=self._index,
            ballast=self._ballast,
            options=options,
            where=str(directory),
            clock=clock,
        )

    @classmethod
    def open(
        cls,
        directory: str | Path,
        options: WalSettings | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
        *,
        skip_corrupt: bool = False,
    ) -> tuple[Wal, Recovery]:
        """Read and verify the log in a directory, cut off a torn end, and be ready to append.

        With `skip_corrupt`, damage quarantines no region: what can be read is replayed, the rest is given up.
        """
        directory, files = Path(directory), files or Files()
        try:
            make_directories(files, directory)
            recovered = recover(files, directory)
            remove_marker(files, directory)
            wal = cls(
                recovered,
                directory=directory,
                options=options or WalSettings(),
                files=files,
                clock=clock or SystemClock(),
                skip_corrupt=skip_corrupt,
            )
            wal._begin()
        except (OSError, SyncFailed) as error:
            raise _cannot_open(directory, error) from error
        _tell(directory, recovered.report)
        return wal, recovered.report

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def is_broken(self) -> bool:
        """Nothing more is accepted until a restart."""
        return self._committer.is_broken

    @property
    def recovered_entries(self) -> Mapping[int, int]:
        """The last entry of each region that the log held when it was opened."""
        return self._recovered.continuity.last_entries()

    def append(self, frames: Sequence[Frame], *, timeout: Duration | None = None) -> Future[None]:
        """Append frames, all of which are accepted or none.

        The future completes when they are written (and synced, with `sync_write`), or raises `StorageFull`,
        `StorageUnavailable`, `EntryOutOfOrder` or `WalCorrupted`. Without `sync_write` the calling thread writes them
        if no other is writing. Otherwise it returns at once, unless so much is queued that it has to wait;
        `DeadlineExceeded` is raised here, and so is `StorageUnavailable` when the log is broken or closed.
        """
        _check_kinds(frames)
        timeout_s = (self._options.append_timeout if timeout is None else timeout).seconds
        return self._committer.append(frames, timeout_s=timeout_s)

    def read(self, after: Mapping[int, int]) -> Replay:
        """Return all entries above the floor of their region, as they were when the log was opened."""
        return Replay(
            self._recovered,
            after,
            directory=self._directory,
            files=self._files,
            index=self._index,
            batch_frames_max=self._options.read_batch_size,
            skip_corrupt=self._skip_corrupt,
        )

    def keep_late(self, floors: Mapping[int, int]) -> dict[int, int]:
        """Copy entries of regions that are elsewhere, to be handed in; return how many that were of each.

        To be called before `read`, which lets the log go of these regions.
        """
        try:
            return self.late.keep(self._recovered, self._directory, floors)
        except OSError as error:
            raise _cannot_open(self._directory, error) from error

    def floor(self, region_id: int, entry_id: int) -> None:
        """Entries of the region up to this one are durable elsewhere. Call it for every region that is opened, too."""
        self._index.set_flushed(region_id, entry_id)

    def drop_region(self, region_id: int) -> Future[None]:
        """The region is gone: it pins nothing any more, and a marker says so to the next start."""
        self._index.forget(region_id)
        return self.append([drop_marker(region_id)])

    def adopt(self, entries: Mapping[int, int]) -> None:
        """Let regions that come from elsewhere go on behind an entry; a marker says so to the next start."""
        self._index.adopt(entries, self.append, self._options.append_timeout.seconds)

    def last_entry(self, region_id: int) -> int | None:
        return self._index.last_entry(region_id)

    @property
    def node_log(self) -> None:
        """No other node can reach a local disk."""
        return None

    @property
    def purge_interval(self) -> Duration:
        return self._options.purge_interval

    @property
    def may_purge(self) -> bool:
        """Whether something was flushed since the last purge, so that there may be segments to delete."""
        return self._index.has_flushed

    def purge(self) -> PurgeResult:
        """Delete the oldest segments that no region needs, and return the regions that pin too much."""
        if not self._purging.acquire(blocking=False):
            return PurgeResult((), ())
        try:
            plan = self._index.plan_purge(self._options.purge_threshold)
            deleted = self._delete_segments(plan)
            if plan.should_rotate and self._end_segment():
                deleted += self._delete_segments(self._index.plan_purge(self._options.purge_threshold))
            return PurgeResult(deleted, plan.pinning)
        finally:
            self._purging.release()

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None:
        self._committer.on_broken(receive)

    def segments(self) -> list[tuple[str, SegmentFacts]]:
        found, trouble = self._index.describe(), self._committer.trouble
        if found and trouble is not None:
            reason, state = trouble.reason, trouble.state
            found[-1] = replace(found[-1], state=state, reason=reason, since_ms=trouble.since_ms, last_error=reason)
        return [(str(segment_path(self._directory, each.number)), each) for each in found]

    def statistics(self) -> LogStatistics:
        segments, total_bytes = self._index.totals()
        counters = self._committer.counters
        return LogStatistics(
            segments=segments,
            total_bytes=total_bytes,
            appended_frames=counters.frames,
            raw_bytes=counters.raw_bytes,
            commits=counters.commits,
            syncs=self._writer.syncs,
            rotations=self._writer.rotations,
            purged_segments=self._purged_segments,
            refused_full=counters.refused_full,
            queued_bytes=self._committer.queued_bytes,
            unsynced_bytes=self._writer.unsynced_bytes,
            is_full=self._ballast.is_released,
            is_broken=self.is_broken,
        )

    def seal(self, *, clean: bool = True) -> None:
        """Write and sync what is queued, then accept nothing more. With `clean`, leave the clean-shutdown marker."""
        if not self._committer.close(self._options.close_timeout.seconds):
            _log.error("the log in %s did not close in %s", self._directory, self._options.close_timeout)
            return
        end = self._writer.mark
        self._writer.close()
        if clean and not self.is_broken:
            crash_point("wal.close.before_marker")
            try:
                write_marker(self._files, self._directory, CleanMarker(end.number, end.offset))
            except OSError as error:
                # Without it, the next start only says that the shutdown was not clean.
                _log.warning("cannot write the marker in %s: %s", self._directory, error)

    def _begin(self) -> None:
        """Have a segment to append to: after a repair a new one, whose seal settles what was in doubt."""
        recovered = self._recovered
        is_settled = recovered.continuity.is_proved or not self._skip_corrupt
        if recovered.resume is not None and is_settled:
            self._writer.resume(recovered.resume, recovered.segments[-1].size_bytes)
        else:
            if recovered.segments:
                self._writer.resume(recovered.segments[-1].number, recovered.segments[-1].size_bytes)
            self._writer.create(recovered.next_number, previous_bytes=recovered.last_bytes)
        self._writer.accept()
        self._ballast.prepare()
        self._committer.start()

    def _end_segment(self) -> bool:
        """Rotate; False if that has to wait for another day."""
        try:
            self._committer.submit_rotation().result(self._options.append_timeout.seconds)
        except (StorageFull, TimeoutError):
            return False
        return True

    def _delete_segments(self, plan: PurgePlan) -> tuple[int, ...]:
        for number in plan.deletable:
            self._delete_segment(number)
        return plan.deletable

    def _delete_segment(self, number: int) -> None:
        try:
            crash_point("wal.purge.before_delete")
            for path in (torn_path(self._directory, number), segment_path(self._directory, number)):
                with suppress(FileNotFoundError):
                    self._files.unlink(path)
            # One at a time: a power loss must not leave an older segment behind a newer one that is gone.
            self._files.fsync_dir(self._directory)
            crash_point("wal.purge.after_delete")
        except OSError as error:
            raise StorageUnavailable(
                f"cannot delete {segment_path(self._directory, number)}: {error.strerror or error}"
            ) from error
        self._index.remove_segment(number)
        self._purged_segments += 1


def _check_kinds(frames: Sequence[Frame]) -> None:
    if any(frame.kind not in _APPENDABLE for frame in frames):
        raise ValueError("only DATA, DELETE and DROP_REGION frames can be appended")


def _cannot_open(directory: Path, error: OSError | SyncFailed) -> TsdbError:
    message = f"cannot open the log in {directory}: {error}"
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return StorageFull(message, hint="free space on the disk and start again")
    return StorageUnavailable(message)


def _tell(directory: Path, report: Recovery) -> None:
    if not report.was_clean and report.segments:
        _log.info("unclean shutdown: the log in %s holds %d bytes", directory, report.total_bytes)
    if report.torn is not None:
        torn = report.torn
        _log.warning(
            "cut off a torn tail of %d bytes at offset %d of segment %016x", torn.length, torn.offset, torn.segment
        )
    for corruption in report.corruptions:
        _log.error("the log in %s is damaged: %s", directory, corruption)
