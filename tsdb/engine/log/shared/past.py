"""The log of a node as it was, for a restore to a point in time. It is only read: a server may be writing it.

Objects are read from a place on, in order, whether or not a floor is above them. A number that is missing is a hole if
the object was acknowledged, and otherwise the end of the term: nothing at it or above was acknowledged, or not yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tsdb.engine.log.shared.container import (
    ObjectDamaged,
    ObjectKind,
    StoredFrame,
    Trailer,
    all_frames_of,
    parse_trailer,
)
from tsdb.engine.log.shared.layout import ROOT, TermListing, node_of, object_path
from tsdb.engine.log.shared.terms import Opening, list_terms, persist, read_opening
from tsdb.engine.parallel import in_parallel
from tsdb.store import InvalidRange, ObjectNotFound, ObjectStore

_PARALLELISM = 8
_CHUNK = 64
"""How many objects are read ahead."""


class LogPlace(NamedTuple):
    """An object of the log of a node."""

    term: int
    number: int


FIRST = LogPlace(1, 0)
"""The first object that a log ever had."""


class LogHole(Exception):
    """An object is missing or damaged that was part of the log."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


@dataclass(frozen=True, slots=True)
class PastObject:
    """An object of the log."""

    place: LogPlace
    trailer: Trailer
    frames: tuple[StoredFrame, ...]
    """Those of a region in their order, drop markers and notes included."""

    @property
    def created_ms(self) -> int:
        return self.trailer.created_ms


class PastLogs:
    """The logs of all nodes that share a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def nodes(self) -> list[int]:
        """The nodes that ever had a log here; StoreError if the store does not answer."""
        return persist(lambda: sorted({node for each in self._store.list(ROOT) if (node := node_of(each)) is not None}))

    def of(self, node: int) -> PastLog:
        return PastLog(self._store, node)


class PastLog:
    """The log of a node, as a listing shows it."""

    def __init__(self, store: ObjectStore, node: int) -> None:
        """StoreError if the store does not answer."""
        self._store = store
        self._node = node
        self._terms = persist(lambda: list_terms(store, node))

    @property
    def terms(self) -> list[int]:
        return list(self._terms)

    def opening(self, term: int) -> Opening | None:
        """Say who took a term, and when."""
        return read_opening(self._store, self._node, term)

    def tail(self) -> LogPlace:
        """Return the place behind everything that is there, by names alone."""
        last = max(self._terms, default=1)
        listing = self._terms.get(last, TermListing(last))
        return LogPlace(last, listing.first_missing() if listing.tip is None else listing.tip)

    def end(self, start: LogPlace) -> tuple[LogPlace, LogHole | None]:
        """Return the last object that can be reached from a place, and the hole that ends it, by names alone.

        The place itself, one number back, if there is none.
        """
        last = LogPlace(start.term, start.number - 1)
        try:
            for listing, first in self._listings(start):
                numbers, hole = self._numbers(listing, first)
                last = LogPlace(listing.term, numbers[-1]) if numbers else last
                if hole is not None:
                    return last, hole
        except LogHole as hole:
            return last, hole
        return last, None

    def last_ns(self, place: LogPlace) -> int:
        """When the last entry of an object was appended, or the object was made if that is not known; 0 without one."""
        found = self._read(place)
        if isinstance(found, LogHole):
            return 0
        return max((frame.logged_ns for frame in found.frames), default=0) or found.created_ms * 1_000_000

    def is_ended(self) -> bool:
        """Whether the server was shut down cleanly, so that nothing it acknowledged is missing."""
        last = max(self._terms, default=0)
        opening, tip = self.opening(last), self._terms[last].tip if last else None
        if opening is None or tip is None:
            return False
        fence = self._read(LogPlace(last, tip))
        # Others end a term in their own name.
        return not isinstance(fence, LogHole) and fence.trailer.identity.nonce.hex() == opening.nonce

    def objects(self, start: LogPlace) -> Iterator[PastObject]:
        """Yield the objects from a place on, every checksum verified; LogHole where one is missing or damaged."""
        for listing, first in self._listings(start):
            numbers, hole = self._numbers(listing, first)
            yield from self._of_term(listing.term, numbers)
            if hole is not None:
                raise hole

    def _of_term(self, term: int, numbers: range) -> Iterator[PastObject]:
        previous_crc = 0
        for at in range(0, len(numbers), _CHUNK):
            places = [LogPlace(term, number) for number in numbers[at : at + _CHUNK]]
            for found in in_parallel(self._read, places, _PARALLELISM):
                if isinstance(found, LogHole):
                    raise found
                if found.trailer.kind is ObjectKind.FENCE:
                    return
                if previous_crc and found.trailer.previous_crc != previous_crc:
                    raise LogHole(self._path(found.place), "it does not follow the object before it")
                previous_crc = found.trailer.crc
                yield found

    def _listings(self, start: LogPlace) -> Iterator[tuple[TermListing, int]]:
        """Yield the terms from a place on, each with its first number that is wanted."""
        last = max(self._terms, default=start.term)
        for term in range(start.term, last + 1):
            listing = self._terms.get(term)
            if listing is None:
                raise LogHole(self._path(LogPlace(term, 0)), f"nothing is left of term {term}")
            yield listing, start.number if term == start.term else 0

    def _numbers(self, listing: TermListing, first: int) -> tuple[range, LogHole | None]:
        """The numbers of a term that are part of the log, and the hole behind them."""
        number = first
        while number in listing.sizes and number != listing.tip:
            number += 1
        if listing.tip is not None:
            is_hole = number < listing.tip
        else:
            # The last ones know of most acknowledgements.
            above = sorted(each for each in listing.sizes if each > number)[-_PARALLELISM:]
            is_hole = number < listing.floor or any(self._acknowledged(listing, each) > number for each in above)
        path = self._path(LogPlace(listing.term, number))
        return range(first, number), LogHole(path, "it is deleted") if is_hole else None

    def _acknowledged(self, listing: TermListing, number: int) -> int:
        found = self._read(LogPlace(listing.term, number))
        return 0 if isinstance(found, LogHole) else found.trailer.acknowledged

    def _read(self, place: LogPlace) -> PastObject | LogHole:
        path = self._path(place)
        problem = ""
        # An answer that was cut off looks like damage: what is damaged is read twice.
        for _ in range(2):
            try:
                content = persist(lambda: self._store.get(path))
                trailer = parse_trailer(content, len(content))
                if (trailer.identity.term, trailer.identity.number) != place:
                    return LogHole(path, "it is another object")
                frames = [frame for row in trailer.regions for frame in all_frames_of(content, trailer, row)]
                return PastObject(place, trailer, tuple(frames))
            except ObjectNotFound:
                return LogHole(path, "it is deleted")
            except (ObjectDamaged, InvalidRange) as error:
                problem = str(error)
        return LogHole(path, problem)

    def _path(self, place: LogPlace) -> str:
        return object_path(self._node, *place)
