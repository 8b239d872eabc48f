"""Where the objects of the shared log are.

    wal/{node}/{term}/open                     the term is taken: by whom, when
    wal/{node}/{term}/{number}.log             entries, or a fence; numbers 0, 1, 2, … without holes up to the tip
    wal/{node}/{term}/floor/{number}           numbers below may have been deleted; the largest name counts
    wal/{node}/{term}/sealed/{number}          the tip: the number of the first fence
    wal/{node}/regions/{region}                where a region is of which the log holds entries
    wal/skipped/{node}/{term}/{number}         an object that is given up: by whom, when, what was wrong with it

Floors and tips are names, never contents: a request that is repeated, or arrives late, cannot take one back. A floor is
known by a listing, which every supported service answers with all objects whose creation was acknowledged before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tsdb.store import ObjectMeta

ROOT = "wal"
_TERM_BITS = 40
_NODE = re.compile(rf"{ROOT}/(\d{{1,19}})/")
_REGION = re.compile(r"regions/([0-9a-f]{16})")
_SKIPPED = re.compile(rf"{ROOT}/skipped/(\d{{1,19}})/([0-9a-f]{{8}})/([0-9a-f]{{16}})")
_OBJECT = re.compile(rf"(?:.*/)?{ROOT}/(\d{{1,19}})/([0-9a-f]{{8}})/([0-9a-f]{{16}})\.log")
_NAME = re.compile(r"([0-9a-f]{8})/(?:(open)|([0-9a-f]{16})\.log|(floor|sealed)/([0-9a-f]{16}))")


def node_prefix(node: int) -> str:
    return f"{ROOT}/{node}"


def node_of(meta: ObjectMeta) -> int | None:
    """The node whose log an object is part of; None if it is part of none."""
    match = _NODE.match(meta.path)
    return None if match is None else int(match[1])


def term_prefix(node: int, term: int) -> str:
    return f"{ROOT}/{node}/{term:08x}"


def opening_path(node: int, term: int) -> str:
    return f"{term_prefix(node, term)}/open"


def object_path(node: int, term: int, number: int) -> str:
    return f"{term_prefix(node, term)}/{number:016x}.log"


def floor_path(node: int, term: int, number: int) -> str:
    return f"{term_prefix(node, term)}/floor/{number:016x}"


def sealed_path(node: int, term: int, tip: int) -> str:
    return f"{term_prefix(node, term)}/sealed/{tip:016x}"


def region_path(node: int, region_id: int) -> str:
    return f"{ROOT}/{node}/regions/{region_id:016x}"


def skipped_prefix(node: int | None = None) -> str:
    return f"{ROOT}/skipped" if node is None else f"{ROOT}/skipped/{node}"


def skipped_path(node: int, term: int, number: int) -> str:
    return f"{skipped_prefix(node)}/{term:08x}/{number:016x}"


def parse_skipped_path(path: str) -> tuple[int, int, int] | None:
    """Return node, term and number of an object that is given up."""
    return _place_of(_SKIPPED.fullmatch(path))


def parse_object_path(path: str) -> tuple[int, int, int] | None:
    """Return node, term and number of an object; the place of the store may be before its path."""
    return _place_of(_OBJECT.fullmatch(path))


def _place_of(match: re.Match[str] | None) -> tuple[int, int, int] | None:
    return None if match is None else (int(match[1]), int(match[2], 16), int(match[3], 16))


def noted_regions(found: Iterable[ObjectMeta], node: int) -> set[int]:
    """The regions of which a listing of a node has a note."""
    names = (each.path.removeprefix(f"{node_prefix(node)}/") for each in found)
    return {int(match[1], 16) for name in names if (match := _REGION.fullmatch(name))}


def segment_number(term: int, number: int) -> int:
    """One number for an object, in the order of the log: what a segment is to the local log."""
    return term << _TERM_BITS | number


def object_of(segment: int) -> tuple[int, int]:
    """Return term and number again."""
    return segment >> _TERM_BITS, segment & ((1 << _TERM_BITS) - 1)


@dataclass(slots=True)
class TermListing:
    """What a listing shows of one term."""

    term: int
    floor: int = 0
    floors: list[int] = field(default_factory=list)
    """Those that are outdated included."""
    tip: int | None = None
    """None if it is not known to be sealed."""
    sizes: dict[int, int] = field(default_factory=dict)
    """The size of each object, by number, also of those that are no part of the log any more."""
    stored_ms: dict[int, int] = field(default_factory=dict)
    """When each object was stored, as the store has it."""

    @property
    def is_drained(self) -> bool:
        """Nothing of it is needed."""
        return self.tip is not None and self.floor >= self.tip

    @property
    def garbage(self) -> list[int]:
        """Numbers of objects above the tip: they were never part of the log. The fence at the tip is never deleted."""
        return [each for each in self.sizes if self.tip is not None and each > self.tip]

    @property
    def past(self) -> list[int]:
        """Numbers of objects below the floor, which no region needs."""
        return sorted(each for each in self.sizes if each < self.floor)

    def first_missing(self) -> int:
        number = self.floor
        while number in self.sizes:
            number += 1
        return number


def group_listing(found: Iterable[ObjectMeta], node: int) -> dict[int, TermListing]:
    """Sort a listing by terms, the oldest first; names that are none of ours are ignored."""
    terms: dict[int, TermListing] = {}
    for meta, term, match in _ours(found, node):
        listing = terms.setdefault(term, TermListing(term))
        if match[3]:
            number = int(match[3], 16)
            listing.sizes[number] = meta.size_bytes
            listing.stored_ms[number] = meta.modified_ns // 1_000_000
        elif match[4] == "floor":
            listing.floors.append(int(match[5], 16))
            listing.floor = max(listing.floors)
        elif match[4] == "sealed":
            tip = int(match[5], 16)
            listing.tip = tip if listing.tip is None else min(tip, listing.tip)
    return dict(sorted(terms.items()))


def _ours(found: Iterable[ObjectMeta], node: int) -> Iterator[tuple[ObjectMeta, int, re.Match[str]]]:
    prefix = f"{node_prefix(node)}/"
    for meta in found:
        match = _NAME.fullmatch(meta.path.removeprefix(prefix))
        if meta.path.startswith(prefix) and match:
            yield meta, int(match[1], 16), match
