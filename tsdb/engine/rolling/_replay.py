"""Replaying entries of the past into regions that are placed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from tsdb.engine.engine import Engine
from tsdb.engine.log import Frame, FrameKind, LogStatistics, PurgeResult, ReplayedFrame, SegmentFacts
from tsdb.engine.log.shared import LogHole, LogPlace, PastLog, replayed
from tsdb.engine.region.context import EngineOptions
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.store import ObjectStore
from tsdb.units import Duration, Size

_BATCH_BYTES = 8 << 20
_BUFFER_BYTES = 128 << 20


class ReplayRange(NamedTuple):
    """Entries of a region that are replayed from the log of a node."""

    node: int
    begin: LogPlace
    after: int
    last: int


def roll_forward(
    store: ObjectStore,
    regions: Mapping[RegionId, str],
    logs: Mapping[int, PastLog],
    ranges: Mapping[RegionId, Sequence[ReplayRange]],
    *,
    timeout: Duration,
) -> int:
    """Replay entries into regions that are placed, and flush them; return how many rows that were. LogHole."""
    reading = _Reading(logs, ranges)
    options = EngineOptions(num_workers=2, global_write_buffer_size=Size(_BUFFER_BYTES))
    engine = Engine.open(store, _NoLog(reading), options=options, regions=regions, has_housekeeping=False)
    try:
        if engine.quarantined:
            region_id, reason = next(iter(engine.quarantined.items()))
            raise TsdbError(f"region {region_id} cannot be opened: {reason}")
        for done in [engine.flush(region_id) for region_id in ranges]:
            done.result(timeout.seconds)
    finally:
        engine.close(flush=False)
    return reading.rows


class _Reading:
    """The entries of ranges: those of each region in their order.

    A region whose entries are in several logs is read from one after the other. Each pass reads one log, for all
    regions whose next entries are in it.
    """

    def __init__(self, logs: Mapping[int, PastLog], ranges: Mapping[RegionId, Sequence[ReplayRange]]) -> None:
        self._logs = logs
        self._ranges = {int(region_id): tuple(each) for region_id, each in ranges.items()}
        self.rows = 0

    def quarantine_reason(self, region_id: int) -> str | None:
        return None

    def regions(self) -> Collection[int]:
        return set(self._ranges)

    def __iter__(self) -> Iterator[list[ReplayedFrame]]:
        left = {region_id: deque(each) for region_id, each in self._ranges.items() if each}
        while left:
            nodes = [each[0].node for each in left.values()]
            node = max(set(nodes), key=nodes.count)
            turn = {region_id: each.popleft() for region_id, each in left.items() if each[0].node == node}
            yield from self._read(node, turn)
            left = {region_id: each for region_id, each in left.items() if each}

    def _read(self, node: int, turn: Mapping[int, ReplayRange]) -> Iterator[list[ReplayedFrame]]:
        batch: list[ReplayedFrame] = []
        size_bytes, left = 0, dict(turn)
        start = min(each.begin for each in turn.values())
        for found in self._logs[node].objects(start):
            for frame in found.frames:
                header = frame.header
                wanted = left.get(header.region_id)
                is_data = header.kind in (FrameKind.DATA, FrameKind.DELETE)
                if wanted is None or not is_data or found.place < wanted.begin:
                    continue
                if wanted.after < header.entry_id <= wanted.last:
                    batch.append(replayed(frame))
                    size_bytes += header.raw_bytes
                    self.rows += header.rows
                if header.entry_id >= wanted.last:
                    del left[header.region_id]
            if size_bytes >= _BATCH_BYTES:
                yield batch
                batch, size_bytes = [], 0
            if not left:
                break
        if left:
            raise LogHole(f"the log of node {node}", "entries that were there are gone")
        yield batch


class _NoLog:
    """A log that gives entries back and takes none: nothing is written to the regions but what it has."""

    directory: Path | None = None
    purge_interval = Duration.of_seconds(3600)
    may_purge = False
    node_log = None

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading

    def append(self, frames: Sequence[Frame]) -> Future[None]:
        raise AssertionError("nothing is written while regions are rolled forward")

    def read(self, after: Mapping[int, int]) -> _Reading:
        return self._reading

    def floor(self, region_id: int, entry_id: int) -> None: ...

    def drop_region(self, region_id: int) -> Future[None]:
        raise AssertionError("nothing is dropped while regions are rolled forward")

    def adopt(self, entries: Mapping[int, int]) -> None: ...

    def last_entry(self, region_id: int) -> int | None:
        return None

    def purge(self) -> PurgeResult:
        return PurgeResult((), ())

    def segments(self) -> list[tuple[str, SegmentFacts]]:
        return []

    def statistics(self) -> LogStatistics:
        return LogStatistics(0, 0)

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None: ...

    def seal(self, *, clean: bool = True) -> None: ...
