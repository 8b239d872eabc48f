"""Objects that an operator has given up, because they are damaged or gone: regions are opened without their entries.

    ADMIN skip_log_object ─▶ the term has ended, the object cannot be read ─▶ wal/skipped/{node}/{term}/{number}

A damaged object costs the regions that may have lost entries in it: they are not opened, so that nobody takes the loss
for the truth. When the object cannot be restored, somebody has to say so. That is noted in the store, for each object
by itself, so that every node that ever reads the log knows it. What can be read is never given up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property

from tsdb.clock import Clock
from tsdb.engine.log.shared.container import ObjectDamaged, Trailer, frames_of, parse_trailer
from tsdb.engine.log.shared.layout import (
    object_path,
    parse_object_path,
    parse_skipped_path,
    segment_number,
    skipped_path,
    skipped_prefix,
)
from tsdb.engine.log.shared.terms import list_term, persist
from tsdb.engine.log.store import SegmentFacts
from tsdb.errors import InvalidArguments
from tsdb.store import ObjectExists, ObjectNotFound, ObjectStore
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.wal")


@dataclass(frozen=True, slots=True)
class SkippedObject:
    """Who gave up an object, and what was wrong with it."""

    node: int
    term: int
    number: int
    problem: str
    by: str
    since_ms: int

    @property
    def path(self) -> str:
        return object_path(self.node, self.term, self.number)

    def describe(self) -> SegmentFacts:
        reason = f"given up by {self.by}, its entries are lost: {self.problem}"
        number = segment_number(self.term, self.number)
        return SegmentFacts(
            number, 0, 0, self.since_ms, "skipped", reason, (), node_id=self.node, last_error=self.problem
        )


class SkippedObjects:
    """The objects of one node that are given up, as the store has them when that is first asked."""

    def __init__(self, store: ObjectStore, node: int) -> None:
        self._store = store
        self._node = node

    def __contains__(self, place: tuple[int, int]) -> bool:
        return place in self._places

    @cached_property
    def _places(self) -> frozenset[tuple[int, int]]:
        found = persist(lambda: [each.path for each in self._store.list(skipped_prefix(self._node))])
        places = (parse_skipped_path(path) for path in found)
        return frozenset(place[1:] for place in places if place is not None and place[0] == self._node)


def list_skipped(store: ObjectStore) -> list[SkippedObject]:
    """Return the objects of all nodes that are given up; one request if there are none."""
    paths = persist(lambda: [each.path for each in store.list(skipped_prefix())])
    return [each for path in sorted(paths) if (each := _read_note(store, path)) is not None]


def skip_object(store: ObjectStore, path: str, *, by: str, clock: Clock) -> SkippedObject:
    """Give up an object, for good; InvalidArguments if it can be read, or is no part of a log that has ended.

    `path` may have the place of the store before it, as messages have it. It may be done again.
    """
    place = parse_object_path(path)
    if place is None:
        raise InvalidArguments(
            f"{path!r} is not an object of the shared log",
            hint="name it as the error of the region does: 'wal/1/00000001/0000000000000007.log'",
        )
    node, term, number = place
    problem = _find_problem(store, node, term, number)
    if problem is None:
        raise InvalidArguments(f"{object_path(*place)} can be read: only what is damaged or missing can be skipped")
    skipped = SkippedObject(node, term, number, problem, by, clock.now_ns() // 1_000_000)
    note = json.dumps(asdict(skipped)).encode()
    try:
        persist(lambda: store.put_if_absent(skipped_path(*place), note))
    except ObjectExists:
        return _read_note(store, skipped_path(*place)) or skipped
    _log.warning("an object of the shared log is given up: its entries are lost", path=skipped.path, problem=problem)
    return skipped


def _find_problem(store: ObjectStore, node: int, term: int, number: int) -> str | None:
    """Say why an object cannot be read; None if it can be."""
    path = object_path(node, term, number)
    listing = persist(lambda: list_term(store, node, term))
    if not listing.sizes and listing.tip is None:
        raise InvalidArguments(f"{path} is no part of a log: node {node} has no such term")
    if listing.tip is None:
        raise InvalidArguments(
            f"the term of {path} has not ended: its objects are still written",
            hint="restart the server, or have the node failed over, and look at what is lost then",
        )
    if not listing.floor <= number < listing.tip:
        raise InvalidArguments(
            f"{path} is no part of the log: nothing from {listing.floor:016x} to its end is called so"
        )
    trailer = _read_whole(store, path)
    if isinstance(trailer, str):
        return trailer
    if (trailer.identity.term, trailer.identity.number) != (term, number):
        return f"it is another object, number {trailer.identity.number:016x} of term {trailer.identity.term:08x}"
    before = _read_whole(store, object_path(node, term, number - 1)) if number > listing.floor else ""
    if isinstance(before, Trailer) and before.crc != trailer.previous_crc:
        return "it does not follow the object before it"
    return None


def _read_whole(store: ObjectStore, path: str) -> Trailer | str:
    """Read an object with all its frames, twice if it looks damaged; return its end, or what is wrong with it."""
    problem = ""
    for _ in range(2):
        try:
            content = persist(lambda: store.get(path))
            trailer = parse_trailer(content, len(content))
            for row in trailer.regions:
                frames_of(content, trailer, row)
        except (ObjectNotFound, ObjectDamaged) as error:
            problem = "it is missing" if isinstance(error, ObjectNotFound) else str(error)
        else:
            return trailer
    return problem


def _read_note(store: ObjectStore, path: str) -> SkippedObject | None:
    place = parse_skipped_path(path)
    if place is None:
        return None
    try:
        return SkippedObject(**json.loads(persist(lambda: store.get(path))))
    except (ObjectNotFound, ValueError, TypeError):
        # The name is what counts.
        return SkippedObject(*place, problem="not known", by="not known", since_ms=0)


def describe_skipped(skipped: list[SkippedObject], place: str) -> Iterator[tuple[str, SegmentFacts]]:
    """Describe objects that are given up, each with its path."""
    for each in skipped:
        yield f"{place}/{each.path}", each.describe()
