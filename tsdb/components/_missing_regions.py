"""Opens regions that are placed on this datanode and are not open.

    heartbeat: asks ─▶ answer: what is missing ─▶ the same in the next answer ─▶ open, on a thread of its own

A region may have been unreachable at the start, or it was closed by the late request of a metadata server that no
longer leads. One that is missing in a single answer may be about to be created, dropped or opened.

An answer may be older than a request to close a region: who takes it over relies on its rows being flushed. So a region
that was to be closed after a heartbeat was sent is not opened because of the answer, and while it is opened, a request
to close it waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from tsdb.clock import Clock
from tsdb.engine.errors import RegionBusy
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOpening
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_PAUSE_MIN, _PAUSE_MAX = Duration.of_seconds(5), Duration.of_seconds(60)
"""Between two attempts, the next one twice as long, as long as a region cannot be opened."""
_log = get_logger("tsdb.datanode")

OpenRegions = Callable[[Sequence[RegionOpening]], Mapping[RegionId, TsdbError | None]]


class MissingRegions:
    """What is known of them. `is_asking` and `take` are called by the heartbeats, the others by any thread."""

    def __init__(self, open_regions: OpenRegions, clock: Clock) -> None:
        self._open_regions = open_regions
        self._clock = clock
        self._told: frozenset[RegionId] = frozenset()
        self._thread: threading.Thread | None = None
        self._pause = _PAUSE_MIN
        self._not_before_ns = 0
        self._closed: set[RegionId] = set()
        """Regions that were to be closed since the last heartbeat that asked."""
        self._opening: frozenset[RegionId] = frozenset()
        self._changed = threading.Condition()

    def is_asking(self) -> bool:
        """Whether the heartbeat that is about to be sent shall ask what is missing."""
        is_opening = self._thread is not None and self._thread.is_alive()
        if is_opening or self._clock.monotonic_ns() < self._not_before_ns:
            return False
        with self._changed:
            self._closed.clear()
        return True

    def take(self, openings: Sequence[RegionOpening]) -> None:
        """Take the answer to the last heartbeat that asked."""
        if wanted := self.choose(openings):
            self._thread = threading.Thread(target=self.open, args=(wanted,), name="tsdb-open", daemon=True)
            self._thread.start()

    def choose(self, openings: Sequence[RegionOpening]) -> list[RegionOpening]:
        """Note what is missing; return what was missing before, too."""
        told_before, self._told = self._told, frozenset(each.region_id for each in openings)
        if not self._told:
            self._pause = _PAUSE_MIN
        return [each for each in openings if each.region_id in told_before]

    def open(self, wanted: Sequence[RegionOpening]) -> None:
        """Try to open regions, but for those that were to be closed since the last heartbeat that asked."""
        with self._changed:
            wanted = [each for each in wanted if each.region_id not in self._closed]
            self._opening = frozenset(each.region_id for each in wanted)
        try:
            results = self._open_regions(wanted) if wanted else {}
            for region_id, error in results.items():
                if error is not None:
                    _log.warning("a region that is assigned to this node is not open", region=region_id, error=error)
        except TsdbError as error:
            _log.warning("regions that are assigned to this node are not open", error=error)
        finally:
            with self._changed:
                self._opening = frozenset()
                self._changed.notify_all()
        self._not_before_ns = self._clock.monotonic_ns() + self._pause
        self._pause = min(_PAUSE_MAX, Duration(2 * self._pause))

    def note_close(self, region_id: RegionId, timeout: Duration) -> None:
        """Note that a region is about to be closed; RegionBusy if it is being opened for so long."""
        with self._changed:
            self._closed.add(region_id)
            if not self._changed.wait_for(lambda: region_id not in self._opening, timeout.seconds):
                raise RegionBusy("the region is being opened", region_id=region_id)
