"""What the log holds, in memory: segments, the last entry of every region, and what is flushed.

Shared between the committer, which adds, and the threads that flush, drop or purge; one lock, never held across I/O.
Nothing of it is stored: segments say what they contain, manifests what is flushed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from dataclasses import replace

from tsdb.engine.errors import EntryOutOfOrder, WalCorrupted
from tsdb.engine.log.continuity import Continuity, Corruption
from tsdb.engine.log.frame import Frame, FrameKind, drop_marker
from tsdb.engine.log.purge import PurgePlan, SegmentState, describe_segment, plan_purge
from tsdb.engine.log.store import SegmentFacts
from tsdb.errors import DeadlineExceeded

_ANY = -1
"""The last entry of a region of which nothing is known: its next entry may have any id."""


def last_after(frame: Frame) -> int:
    """The last entry of a region once a frame is accepted."""
    return _ANY if frame.kind is FrameKind.DROP_REGION else frame.entry_id


def wait_for(appended: Future[None], timeout_s: float) -> None:
    """Wait until entries are in the log; DeadlineExceeded if that takes too long, which leaves it open."""
    try:
        appended.result(timeout_s)
    except TimeoutError:
        raise DeadlineExceeded(
            f"the log did not take an entry within {timeout_s:g} s", hint="check the store of the log"
        ) from None


class LogIndex:
    """Thread-safe."""

    def __init__(
        self,
        segments: Iterable[SegmentState],
        continuity: Continuity,
        corruptions: Iterable[Corruption],
        *,
        skip_corrupt: bool = False,
        has_active: bool = True,
    ) -> None:
        """`has_active` says that the last segment is being written, so that it cannot be deleted."""
        self._has_active = has_active
        self._lock = threading.Lock()
        self._segments = {found.number: replace(found, max_entries=dict(found.max_entries)) for found in segments}
        self._last_entries = continuity.last_entries()
        # A seal would prove to the next start that regions are whole of which this one could not be sure.
        self._can_seal = continuity.is_proved or skip_corrupt
        self._forgotten: set[int] = set()
        """Regions that are gone, of which entries may still be in segments without a marker behind them."""
        self._flushed: dict[int, int] = {}
        self.has_flushed = False
        """Something was flushed since the last plan of a purge."""
        self._quarantined: frozenset[int] = frozenset()
        self._held_from = min((found.segment for found in corruptions), default=None)

    def check(self, frames: Sequence[Frame], accepted: dict[int, int]) -> None:
        """Refuse frames that would leave a hole. `accepted` are the last entries of frames that go before these.

        If these are fine, they are added to `accepted`.
        """
        ahead: dict[int, int] = {}
        with self._lock:
            for frame in frames:
                region_id = frame.region_id
                if frame.kind is FrameKind.NOTE:
                    continue
                if frame.kind is FrameKind.DROP_REGION:
                    ahead[region_id] = last_after(frame)
                    continue
                last = ahead.get(region_id, accepted.get(region_id))
                if last is None:
                    last = self._last_known(region_id)
                if last != _ANY and frame.entry_id != last + 1:
                    raise EntryOutOfOrder(region_id=region_id, entry_id=frame.entry_id, last_entry_id=last)
                ahead[region_id] = last_after(frame)
        accepted.update(ahead)

    def add_segment(self, number: int, size_bytes: int, *, since_ms: int = 0) -> None:
        with self._lock:
            self._segments[number] = SegmentState(number, size_bytes, since_ms=since_ms)

    def record(self, number: int, size_bytes: int, frames: Sequence[Frame], *, since_ms: int = 0) -> None:
        """These frames are in the log now; a segment that is new was begun at `since_ms`."""
        with self._lock:
            segment = self._segments.setdefault(number, SegmentState(number, size_bytes, since_ms=since_ms))
            segment.size_bytes = size_bytes
            for frame in frames:
                if frame.kind is FrameKind.DROP_REGION:
                    self._forget(frame.region_id)
                    self._forgotten.discard(frame.region_id)
                elif frame.kind is not FrameKind.NOTE:
                    segment.max_entries[frame.region_id] = frame.entry_id
                    segment.entries += 1
                    self._last_entries[frame.region_id] = frame.entry_id

    def set_flushed(self, region_id: int, entry_id: int) -> None:
        with self._lock:
            self._flushed[region_id] = max(entry_id, self._flushed.get(region_id, entry_id))
            self.has_flushed = True

    def last_entry(self, region_id: int) -> int | None:
        """The last entry of a region that is in the log; None if it has none."""
        with self._lock:
            return self._last_entries.get(region_id)

    def adopt(
        self, entries: Mapping[int, int], append: Callable[[list[Frame]], Future[None]], timeout_s: float
    ) -> None:
        """Let regions go on behind an entry, whatever the log holds of them.

        A drop marker divides the two lives of a region, if there was one, or if damage hides whether there was.
        """
        with self._lock:
            held = self._last_entries.keys() | self._forgotten
            known = [each for each in entries if each in held or not self._can_seal]
        if known:
            wait_for(append([drop_marker(region_id) for region_id in known]), timeout_s)
        for region_id, entry_id in entries.items():
            self.set_flushed(region_id, entry_id)

    def forget(self, region_id: int) -> None:
        """The region is gone: it pins nothing, and one with its id may start again."""
        with self._lock:
            if region_id in self._last_entries:
                self._forgotten.add(region_id)
            self._forget(region_id)

    def quarantine(self, region_ids: frozenset[int], *, held_from: int | None) -> None:
        """Accept nothing more for these regions, and keep all segments from the first damage on."""
        with self._lock:
            self._quarantined = region_ids
            self._held_from = held_from

    def plan_purge(self, threshold_bytes: int) -> PurgePlan:
        with self._lock:
            self.has_flushed = False
            return plan_purge(
                [self._segments[number] for number in sorted(self._segments)],
                flushed=self._flushed,
                threshold_bytes=threshold_bytes,
                held_from=self._held_from,
                unflushable=self._quarantined,
                has_active=self._has_active,
            )

    def describe(self) -> list[SegmentFacts]:
        """Describe the segments, oldest first."""
        with self._lock:
            last = max(self._segments, default=None) if self._has_active else None
            return [
                describe_segment(
                    self._segments[number], flushed=self._flushed, held_from=self._held_from, is_last=number == last
                )
                for number in sorted(self._segments)
            ]

    def remove_segment(self, number: int) -> SegmentState:
        with self._lock:
            return self._segments.pop(number)

    def holds_segment(self, number: int) -> bool:
        with self._lock:
            return number in self._segments

    def last_entries(self) -> dict[int, int] | None:
        """The last entry of every region; None if damage leaves that in doubt."""
        with self._lock:
            return dict(self._last_entries) if self._can_seal else None

    def totals(self) -> tuple[int, int]:
        """How many segments there are, and their bytes."""
        with self._lock:
            return len(self._segments), sum(segment.size_bytes for segment in self._segments.values())

    def _last_known(self, region_id: int) -> int:
        if region_id in self._quarantined:
            raise WalCorrupted(
                "the region lost entries to damage in the log and accepts no more",
                region_id=region_id,
                hint="repair the log, or drop the table",
            )
        return max(self._last_entries.get(region_id, _ANY), self._flushed.get(region_id, _ANY))

    def _forget(self, region_id: int) -> None:
        self._last_entries.pop(region_id, None)
        self._flushed.pop(region_id, None)
        self._quarantined -= {region_id}
        for segment in self._segments.values():
            segment.max_entries.pop(region_id, None)
