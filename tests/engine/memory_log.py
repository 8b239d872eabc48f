"""A `LogStore` in memory: entries outlive the log in a `Disk`, and a test decides when and how appends end.

By default an append is durable at once. A log that is `held` keeps what is appended until the test lets it go, in any
order, or fails it; a log with a delay takes its time on a thread of its own, as a store at the end of a network does.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tsdb.engine.errors import EntryOutOfOrder, StorageUnavailable
from tsdb.engine.log import Frame, FrameKind, LogStatistics, PurgeResult, ReplayedFrame, SegmentFacts
from tsdb.engine.log.frame import decode_payload
from tsdb.errors import TsdbError
from tsdb.units import Duration


@dataclass
class Disk:
    """What is durable: all that the next log knows of this one."""

    entries: list[Frame] = field(default_factory=list)

    def last_entries(self) -> dict[int, int]:
        last: dict[int, int] = {}
        for frame in self.entries:
            if frame.kind is FrameKind.DROP_REGION:
                last.pop(frame.region_id, None)
            else:
                last[frame.region_id] = frame.entry_id
        return last


@dataclass(eq=False)
class Append:
    """Entries on their way."""

    frames: Sequence[Frame]
    done: Future[None]
    error: TsdbError | None = None


class MemoryLog:
    """One life of a log over a disk."""

    directory: Path | None = None
    purge_interval = Duration.of_seconds(3600)

    def __init__(self, disk: Disk | None = None, *, delay_seconds: float = 0) -> None:
        self.disk = disk or Disk()
        self.may_purge = False
        self.is_held = False
        """Appends wait in `waiting` until the test lets them go."""
        self.waiting: deque[Append] = deque()
        self.answers: deque[Append] = deque()
        """Appends that are decided and not answered, while the log is held."""
        self.errors: deque[TsdbError | None] = deque()
        """How the next appends end, one after the other; None ends well, and so does what comes after them."""
        self.appends = 0
        self.most_waiting = 0
        self._lock = threading.RLock()
        self._floors: dict[int, int] = {}
        self._last = self.disk.last_entries()
        self._broken: TsdbError | None = None
        self._is_sealed = False
        self._receivers: list[Callable[[TsdbError], None]] = []
        self._delay_seconds = delay_seconds
        self._opened = list(self.disk.entries)
        self._arrived = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        if delay_seconds:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def append(self, frames: Sequence[Frame]) -> Future[None]:
        append = Append(list(frames), Future())
        append.done.set_running_or_notify_cancel()
        with self._lock:
            if self._is_sealed:
                raise StorageUnavailable("the log is closed")
            self.appends += 1
            is_kept = self.is_held or self._thread is not None
            if is_kept:
                self.waiting.append(append)
                self.most_waiting = max(self.most_waiting, len(self.waiting))
                self._arrived.notify_all()
        if not is_kept:
            self._end(append)
        return append.done

    def decide_next(self) -> Append:
        """Let the oldest append that waits be durable or fail, without an answer."""
        with self._lock:
            append = self.waiting.popleft()
            self.answers.append(append)
            append.error = self._decide(append)
            return append

    def answer(self, append: Append) -> None:
        """Answer an append that is decided."""
        with self._lock:
            self.answers.remove(append)
        _answer(append, append.error)

    def release(self) -> None:
        """Let everything go that waits, and hold nothing more."""
        with self._lock:
            self.is_held = False
        while self.waiting:
            self.decide_next()
        while self.answers:
            self.answer(self.answers[0])

    def read(self, after: Mapping[int, int]) -> MemoryReading:
        with self._lock:
            self._floors.update(after)
        return MemoryReading(self._opened, after)

    def floor(self, region_id: int, entry_id: int) -> None:
        with self._lock:
            self._floors[region_id] = max(entry_id, self._floors.get(region_id, entry_id))
            self.may_purge = True

    def drop_region(self, region_id: int) -> Future[None]:
        with self._lock:
            self._floors.pop(region_id, None)
            self._last.pop(region_id, None)
            self.disk.entries[:] = [frame for frame in self.disk.entries if frame.region_id != region_id]
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def adopt(self, entries: Mapping[int, int]) -> None:
        for region_id, entry_id in entries.items():
            self.drop_region(region_id)
            self.floor(region_id, entry_id)

    def last_entry(self, region_id: int) -> int | None:
        with self._lock:
            return self._last.get(region_id)

    @property
    def node_log(self) -> None:
        return None

    def purge(self) -> PurgeResult:
        with self._lock:
            self.may_purge = False
            kept = [frame for frame in self.disk.entries if frame.entry_id > self._floors.get(frame.region_id, 0)]
            gone = len(self.disk.entries) - len(kept)
            self.disk.entries[:] = kept
        return PurgeResult(tuple(range(gone)), ())

    def segments(self) -> list[tuple[str, SegmentFacts]]:
        return []

    def statistics(self) -> LogStatistics:
        with self._lock:
            size = sum(frame.payload.size_bytes for frame in self.disk.entries)
            return LogStatistics(1, size, is_broken=self._broken is not None)

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None:
        with self._lock:
            self._receivers.append(receive)

    def break_for_good(self, error: TsdbError) -> None:
        """Refuse everything from now on, what waits included."""
        with self._lock:
            self._broken, receivers = error, list(self._receivers)
        for receive in receivers:
            receive(error)
        self.release()

    def seal(self, *, clean: bool = True) -> None:
        if self._thread is None:
            self.release()
        with self._lock:
            self._is_sealed = True
            self._arrived.notify_all()
        if self._thread is not None:
            self._thread.join(30)

    def _run(self) -> None:
        """Make everything durable that arrived, after the delay: a group commit."""
        while True:
            with self._lock:
                self._arrived.wait_for(lambda: self.waiting or self._is_sealed)
                if not self.waiting:
                    return
                group = list(self.waiting)
                self.waiting.clear()
            threading.Event().wait(self._delay_seconds)
            for append in group:
                self._end(append)

    def _end(self, append: Append) -> None:
        with self._lock:
            error = self._decide(append)
        _answer(append, error)

    def _decide(self, append: Append) -> TsdbError | None:
        error = self.errors.popleft() if self.errors else None
        error = self._broken or error or self._check(append.frames)
        if error is None:
            self.disk.entries += append.frames
            self._last.update((frame.region_id, frame.entry_id) for frame in append.frames)
        return error

    def _check(self, frames: Sequence[Frame]) -> TsdbError | None:
        ahead: dict[int, int] = {}
        for frame in frames:
            region = frame.region_id
            last = ahead.get(region, max(self._last.get(region, -1), self._floors.get(region, -1)))
            if last >= 0 and frame.entry_id != last + 1:
                return EntryOutOfOrder(region_id=region, entry_id=frame.entry_id, last_entry_id=last)
            ahead[region] = frame.entry_id
        return None


@dataclass(frozen=True)
class MemoryReading:
    """What a disk held when its log was opened."""

    entries: Sequence[Frame]
    after: Mapping[int, int]

    def quarantine_reason(self, region_id: int) -> str | None:
        return None

    def regions(self) -> set[int]:
        return {each.region_id for each in self.entries if each.entry_id > self.after.get(each.region_id, 1 << 60)}

    def __iter__(self) -> Iterator[list[ReplayedFrame]]:
        for frame in self.entries:
            floor = self.after.get(frame.region_id)
            if floor is not None and frame.entry_id > floor:
                yield [_replayed(frame)]


def _replayed(frame: Frame) -> ReplayedFrame:
    payload = frame.payload
    raw = decode_payload(pa.py_buffer(payload.stored), codec=payload.codec, raw_bytes=payload.raw_bytes)
    return ReplayedFrame(
        region_id=frame.region_id,
        entry_id=frame.entry_id,
        payload=raw,
        kind=frame.kind,
        base_seq=frame.base_seq,
        rows=frame.rows,
        schema_version=frame.schema_version,
    )


def _answer(append: Append, error: TsdbError | None) -> None:
    if error is None:
        append.done.set_result(None)
    else:
        append.done.set_exception(error)
