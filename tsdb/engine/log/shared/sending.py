"""Sending one object: stored, fenced off, or unknown.

After an error nobody knows whether the object is there. It is sent again, the same bytes to the same number, until
there is an answer. If the number is taken, it matters by whom: our own object was stored by an earlier attempt, a fence
means that the term has ended, and anything else must not be.
"""

from __future__ import annotations

from tsdb.engine.errors import LogFenced
from tsdb.engine.log.shared.container import (
    EncodedObject,
    ObjectDamaged,
    ObjectKind,
    parse_trailer,
    read_fence,
)
from tsdb.engine.log.shared.layout import object_path
from tsdb.store import ObjectExists, ObjectStore


def send_object(store: ObjectStore, sent: EncodedObject) -> None:
    """Store an object; LogFenced if that can never be, StoreError if its fate is unknown."""
    identity = sent.identity
    path = object_path(identity.node, identity.term, identity.number)
    try:
        store.put_if_absent(path, list(sent.parts))
    except ObjectExists:
        _check_own(path, store.get(path), sent)


def _check_own(path: str, content: bytes, sent: EncodedObject) -> None:
    try:
        found = parse_trailer(content, len(content))
    except ObjectDamaged as error:
        raise LogFenced(f"its number is taken by something else: {error}", path=path) from error
    if found.kind is ObjectKind.FENCE:
        raise LogFenced(f"the term was ended by {read_fence(content)}", path=path)
    if found.identity != sent.identity or found.crc != sent.crc:
        raise LogFenced("another writer uses the same term", path=path)
