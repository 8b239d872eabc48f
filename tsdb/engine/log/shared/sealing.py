"""The end of a term: a fence at the first number that is free, created as entries are.

Acknowledgements are in order, so every acknowledged object has a number below the first hole. With a fence in that hole
the writer cannot create its object there, so nothing at this number or above is ever acknowledged. Objects above it,
sent in parallel, are orphans.

Numbers below the floor may be free because they were deleted. A purge raises the floor first, so a fence that
was put below it is recognised by reading the floor again: it means nothing, and sealing begins anew.

A number may also be free because something else deleted its object. Objects say which ones were acknowledged before
them: a hole below that is a loss, and not the end.

Several may seal a term at the same time, and each may create a fence. The first of them is the end.

A writer that lives and is busy creates objects faster than they are looked at. Once it was first at a number, a fence
is put some numbers ahead, which it cannot pass; the end is there, or before it.
"""

from __future__ import annotations

from tsdb.clock import Clock
from tsdb.engine.log.shared.container import (
    ObjectDamaged,
    ObjectIdentity,
    ObjectKind,
    Trailer,
    encode_fence,
    parse_trailer,
)
from tsdb.engine.log.shared.layout import TermListing, object_path
from tsdb.engine.log.shared.terms import list_term, persist
from tsdb.store import ObjectExists, ObjectNotFound, ObjectStore

AHEAD_MIN, AHEAD_MAX = 16, 1 << 20
"""How far ahead of a busy writer a fence is put: farther if it has come that far meanwhile."""


def place_fence(
    store: ObjectStore, node: int, term: int, *, nonce: bytes, by: str, reason: str, clock: Clock
) -> TermListing:
    """Let nothing more be acknowledged in a term; return what it holds, a fence included.

    StoreError if the store fails; the term may be sealed then, or not, and sealing it again is right.
    """
    while True:
        listing = persist(lambda: list_term(store, node, term))
        if listing.tip is not None:
            return listing
        number: int | None = _find_end(store, node, listing)
        ahead = 0

        def is_fenced(number: int) -> bool:
            return _is_fenced(store, ObjectIdentity(node, term, number, nonce), by, reason, clock)

        while number is not None and not is_fenced(number):
            if not ahead:
                ahead = AHEAD_MIN
                while not is_fenced(number + ahead) and ahead < AHEAD_MAX:
                    ahead *= 2
            number = number + 1 if _exists(store, object_path(node, term, number)) else None
        again = persist(lambda: list_term(store, node, term))
        if number is not None and again.floor <= number:
            return again


def _find_end(store: ObjectStore, node: int, listing: TermListing) -> int:
    """Return the first free number that was not acknowledged, as far as objects above it can tell."""
    number = listing.first_missing()
    above = [_read(store, object_path(node, listing.term, each)) for each in listing.sizes if each > number]
    acknowledged = max((found.acknowledged for found in above if found is not None), default=0)
    number = max(number, acknowledged)
    while number in listing.sizes:
        number += 1
    return number


def _is_fenced(store: ObjectStore, identity: ObjectIdentity, by: str, reason: str, clock: Clock) -> bool:
    """Whether there is a fence at a number now; False if there are entries, or nothing any more."""
    fence = encode_fence(identity, by=by, reason=reason, created_ms=clock.now_ns() // 1_000_000)
    path = object_path(identity.node, identity.term, identity.number)
    try:
        persist(lambda: store.put_if_absent(path, list(fence.parts)))
    except ObjectExists:
        found = _read(store, path)
        return found is not None and found.kind is ObjectKind.FENCE
    return True


def _read(store: ObjectStore, path: str) -> Trailer | None:
    """Return the end of an object; None if it is not there, or damaged."""
    try:
        content = persist(lambda: store.get(path))
        return parse_trailer(content, len(content))
    except (ObjectNotFound, ObjectDamaged):
        return None


def _exists(store: ObjectStore, path: str) -> bool:
    try:
        persist(lambda: store.head(path))
    except ObjectNotFound:
        return False
    return True
