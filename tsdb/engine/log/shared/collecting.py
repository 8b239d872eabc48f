"""Garbage of the shared log: objects that no region needs, and those that are no part of it.

The floor of a term is raised before anything below it is deleted, and objects go oldest first over all terms. The fence
that ended a term is never deleted: a writer that was stopped for days must still find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tsdb.engine.log.index import LogIndex
from tsdb.engine.log.shared.layout import TermListing, object_of, object_path
from tsdb.engine.log.shared.metrics import DELETED
from tsdb.engine.log.shared.terms import raise_floor
from tsdb.engine.parallel import in_parallel
from tsdb.store import ObjectStore, StoreError
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.wal")
DELETES_MAX = 1000
"""How many objects one purge deletes; the rest is left to the next."""
_PARALLELISM = 8


class Collector:
    """Deletes objects. One thread at a time."""

    def __init__(self, store: ObjectStore, node: int, index: LogIndex, found: Iterable[TermListing]) -> None:
        self._store = store
        self._node = node
        self._index = index
        self._floors = {each.term: list(each.floors) for each in found}
        self._garbage = [(each.term, number) for each in found for number in each.garbage]
        """Left by a process that ended between raising a floor and deleting, and above fences."""

    def collect(self, deletable: Sequence[int]) -> tuple[int, ...]:
        """Delete objects that the index names, the oldest ones; return their segments. StoreError."""
        self._sweep()
        chosen = [object_of(segment) for segment in deletable[:DELETES_MAX]]
        floors: dict[int, int] = {}
        for term, number in chosen:
            floors[term] = number + 1
        for term, floor in floors.items():
            raise_floor(self._store, self._node, term, floor, known=self._floors.setdefault(term, []))
        # From here on they are no part of the log, whether or not they can be deleted now.
        for segment in deletable[:DELETES_MAX]:
            self._index.remove_segment(segment)
        self._garbage += chosen
        self._sweep()
        return tuple(deletable[:DELETES_MAX])

    def finish(self, term: int, tip: int) -> None:
        """Nothing of a term is needed: let it end with its fence."""
        raise_floor(self._store, self._node, term, tip, known=self._floors.setdefault(term, []))

    def _sweep(self) -> None:
        some, self._garbage = self._garbage[:DELETES_MAX], self._garbage[DELETES_MAX:]
        self._garbage += [place for place in in_parallel(self._delete, some, _PARALLELISM) if place is not None]

    def _delete(self, place: tuple[int, int]) -> tuple[int, int] | None:
        """Delete an object; return its place if that failed."""
        try:
            self._store.delete(object_path(self._node, *place))
        except StoreError as error:
            _log.warning("an object of the shared log could not be deleted, that is tried later", error=error)
            return place
        DELETED.inc()
        return None
