"""Garbage of the shared log: objects that no region needs, and those that are no part of it.

The floor of a term is raised before anything below it is deleted, and objects go oldest first over all terms. The fence
that ended a term is never deleted: a writer that was stopped for days must still find it.

With a retention, objects below the floor stay until they are old enough, for restores to a point in time. Nothing else
looks at them: a start reads from the floor on, and knows them by their names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tsdb.clock import Clock
from tsdb.engine.log.index import LogIndex
from tsdb.engine.log.shared.layout import TermListing, object_of, object_path
from tsdb.engine.log.shared.metrics import DELETED, RETAINED, RETAINED_BYTES
from tsdb.engine.log.shared.terms import raise_floor
from tsdb.engine.parallel import in_parallel
from tsdb.store import ObjectStore, StoreError
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.wal")
DELETES_MAX = 1000
"""How many objects one purge deletes; the rest is left to the next."""
_PARALLELISM = 8


class RetainedObject(NamedTuple):
    """An object that no region needs, and that is not old enough to be deleted."""

    term: int
    number: int
    size_bytes: int
    stored_ms: int


class Collector:
    """Deletes objects. One thread at a time."""

    def __init__(
        self,
        store: ObjectStore,
        node: int,
        index: LogIndex,
        found: Sequence[TermListing],
        *,
        clock: Clock,
        retention: Duration,
    ) -> None:
        self._store = store
        self._node = node
        self._index = index
        self._clock = clock
        self._retention_ms = retention // 1_000_000
        self._floors = {each.term: list(each.floors) for each in found}
        self._garbage = [(each.term, number) for each in found for number in each.garbage]
        """Above fences: never part of the log."""
        self.has_more = False
        """There is more to delete than one purge does."""
        self._retained: deque[RetainedObject] = deque()
        """Below floors, the oldest first."""
        self._retained_bytes = 0
        self._retain(
            RetainedObject(each.term, number, each.sizes[number], each.stored_ms[number])
            for each in found
            for number in each.past
        )
        self._show()

    @property
    def retained(self) -> tuple[RetainedObject | None, int, int]:
        """The oldest of the objects that are kept, how many there are, and their bytes."""
        try:
            oldest = self._retained[0]
        except IndexError:
            oldest = None
        return oldest, len(self._retained), self._retained_bytes

    def collect(self, deletable: Sequence[int]) -> tuple[int, ...]:
        """Delete objects that the index names, the oldest ones; return their segments. StoreError."""
        self._expire()
        self._sweep()
        chosen = [object_of(segment) for segment in deletable[:DELETES_MAX]]
        floors: dict[int, int] = {}
        for term, number in chosen:
            floors[term] = number + 1
        for term, floor in floors.items():
            raise_floor(self._store, self._node, term, floor, known=self._floors.setdefault(term, []))
        # From here on they are no part of the log, whether or not they can be deleted now.
        facts = [self._index.remove_segment(segment) for segment in deletable[:DELETES_MAX]]
        self._retain(
            RetainedObject(*place, each.size_bytes, each.since_ms) for place, each in zip(chosen, facts, strict=True)
        )
        self._expire()
        self._sweep()
        self._show()
        return tuple(deletable[:DELETES_MAX])

    def finish(self, term: int, tip: int) -> None:
        """Nothing of a term is needed: let it end with its fence."""
        raise_floor(self._store, self._node, term, tip, known=self._floors.setdefault(term, []))

    def _retain(self, objects: Iterable[RetainedObject]) -> None:
        for each in objects:
            self._retained.append(each)
            self._retained_bytes += each.size_bytes

    def _expire(self) -> None:
        """Let objects go that are old enough, the oldest first: a log with holes is of no use."""
        before_ms = self._clock.now_ns() // 1_000_000 - self._retention_ms
        while self._retained and (not self._retention_ms or self._retained[0].stored_ms < before_ms):
            gone = self._retained.popleft()
            self._retained_bytes -= gone.size_bytes
            self._garbage.append((gone.term, gone.number))

    def _show(self) -> None:
        RETAINED.set(len(self._retained))
        RETAINED_BYTES.set(self._retained_bytes)

    def _sweep(self) -> None:
        some, self._garbage = self._garbage[:DELETES_MAX], self._garbage[DELETES_MAX:]
        self.has_more = bool(self._garbage)
        self._garbage += [place for place in in_parallel(self._delete, some, _PARALLELISM) if place is not None]

    def _delete(self, place: tuple[int, int]) -> tuple[int, int] | None:
        """Delete an object; return its place if that failed."""
        try:
            self._store.delete(object_path(self._node, *place))
        except StoreError as error:
            _log.warning("an object of the shared log could not be deleted; retrying later", error=error)
            return place
        DELETED.inc()
        return None
