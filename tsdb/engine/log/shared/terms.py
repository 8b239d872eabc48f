"""Terms: the lives of a node's log. Each start takes the next one, and seals those before it.

A term is taken by creating its `open` object, so of two processes one gets it. Terms are never used twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar

from tsdb.engine.log.shared.layout import (
    TermListing,
    floor_path,
    group_listing,
    node_prefix,
    opening_path,
    sealed_path,
    term_prefix,
)
from tsdb.store import ObjectExists, ObjectNotFound, ObjectStore, StoreError, StoreMisconfigured
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.wal")
T = TypeVar("T")
ATTEMPTS_MAX = 5
"""How often a request is made whose effect is the same when it is repeated. The store has its own retries."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Who took a term."""

    nonce: str
    directory: str
    """The id of the local directory that the log of this life is in."""
    opened_ms: int
    by: str


def list_terms(store: ObjectStore, node: int) -> dict[int, TermListing]:
    """Return all terms of a node, the oldest first."""
    return group_listing(store.list(node_prefix(node)), node)


def list_term(store: ObjectStore, node: int, term: int) -> TermListing:
    return group_listing(store.list(term_prefix(node, term)), node).get(term, TermListing(term))


def take_term(store: ObjectStore, node: int, *, after: int, opening: Opening) -> int:
    """Take the first free term after `after`."""
    content = json.dumps(asdict(opening)).encode()
    term = after + 1
    while not persist(partial(_create, store, opening_path(node, term), content, opening)):
        term += 1
    return term


def read_opening(store: ObjectStore, node: int, term: int) -> Opening | None:
    """Return who took a term; None if that is not there or cannot be read."""
    try:
        return Opening(**json.loads(persist(lambda: store.get(opening_path(node, term)))))
    except (ObjectNotFound, ValueError, TypeError):
        return None


def raise_floor(store: ObjectStore, node: int, term: int, floor: int, *, known: list[int]) -> None:
    """Let everybody know that numbers below the floor may be deleted, before they are."""
    persist(lambda: store.put(floor_path(node, term, floor), b""))
    for outdated in [each for each in known if each < floor]:
        with suppress(StoreError):
            store.delete(floor_path(node, term, outdated))
            known.remove(outdated)
    known.append(floor)


def note_tip(store: ObjectStore, node: int, term: int, tip: int) -> None:
    """Spare others from reading the whole term to find its first fence."""
    persist(lambda: store.put(sealed_path(node, term, tip), b""))


def persist(request: Callable[[], T]) -> T:
    """Make a request that may be repeated; StoreError if the store fails again and again."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return request()
        except (ObjectExists, ObjectNotFound, StoreMisconfigured):
            raise
        except StoreError as error:
            _log.warning("the store of the shared log failed; retrying", error=error)
    return request()


def _create(store: ObjectStore, path: str, content: bytes, opening: Opening) -> bool:
    """Whether the object is ours. One that an earlier attempt created is."""
    try:
        store.put_if_absent(path, content)
    except ObjectExists:
        try:
            return bool(json.loads(store.get(path)).get("nonce") == opening.nonce)
        except (ObjectNotFound, ValueError, AttributeError):
            return False
    return True
