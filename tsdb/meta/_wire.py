"""What travels between metadata servers and their clients: gRPC methods whose bodies are JSON.

    request   {…}                                    depends on the method
    answer    {"value": …, "revision": n}            n: of the metadata that shows what was done, where that matters
              {"error": {…}, "revision": n}          raised again by the client, as the same class
              {"leader": "host:port" or null}        the server that was asked does not lead

`Watch` answers with a stream. Everything there is comes in pages, the last of which has `more` false; changes come as
they happen; a tick comes when nothing else does, and says whether the store can be reached.

    {"reset": revision, "pairs": [[key, value], …], "more": true}
    {"changes": revision, "events": [[key, value or null, revision], …]}
    {"tick": true, "problem": null}

Values of keys are bytes; each byte travels as one character.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from tsdb.errors import InvalidArguments
from tsdb.kv import (
    Absent,
    Compare,
    DeleteKey,
    Equals,
    KeyDeleted,
    KeyEvent,
    KeyPut,
    Operation,
    PutKey,
    RevisionIs,
    WatchChanges,
    WatchReset,
)

SERVICE = "tsdb.meta.v1.Meta"
METHODS = ("Register", "Heartbeat", "Change", "Transact", "Nodes", "Procedure", "Command", "Version")
WATCH = "Watch"
MESSAGE_BYTES_MAX = 64 << 20
"""The largest message of either side; a change of a table with thousands of columns has megabytes."""
_PAGE_BYTES = 1 << 20


def method_path(name: str) -> str:
    return f"/{SERVICE}/{name}"


def read_body(body: bytes) -> dict[str, Any]:
    """Read a request or an answer; InvalidArguments if it is not an object."""
    try:
        value = orjson.loads(body)
    except ValueError as error:
        raise InvalidArguments(f"the message is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidArguments("the message is not an object")
    return value


def write_body(value: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError as error:
        # Text from a client may hold half a surrogate pair, which is no text.
        raise InvalidArguments(f"the message cannot be written: {error}") from error


def compare_to_json(compare: Compare) -> list[Any]:
    match compare:
        case Absent():
            return ["absent", compare.key]
        case Equals():
            return ["equals", compare.key, _text(compare.value)]
        case RevisionIs():
            return ["revision", compare.key, compare.revision]


def compare_from_json(value: Sequence[Any]) -> Compare:
    match value:
        case ["absent", str(key)]:
            return Absent(key)
        case ["equals", str(key), str(text)]:
            return Equals(key, _bytes(text))
        case ["revision", str(key), int(revision)]:
            return RevisionIs(key, revision)
    raise InvalidArguments(f"{value!r} is no comparison of a transaction")


def operation_to_json(operation: Operation) -> list[Any]:
    if isinstance(operation, PutKey):
        return ["put", operation.key, _text(operation.value)]
    return ["delete", operation.key]


def operation_from_json(value: Sequence[Any]) -> Operation:
    match value:
        case ["put", str(key), str(text)]:
            return PutKey(key, _bytes(text))
        case ["delete", str(key)]:
            return DeleteKey(key)
    raise InvalidArguments(f"{value!r} is no operation of a transaction")


def watch_messages(found: WatchReset | WatchChanges) -> Iterator[dict[str, Any]]:
    """Write what a watch shows, in messages of a moderate size."""
    if isinstance(found, WatchChanges):
        yield {"changes": found.revision, "events": [_event_to_json(each) for each in found.events]}
        return
    pairs: list[tuple[str, str]] = []
    size = 0
    for key, value in found.pairs:
        if size > _PAGE_BYTES:
            yield {"reset": found.revision, "pairs": pairs, "more": True}
            pairs, size = [], 0
        pairs.append((key, _text(value)))
        size += len(key) + len(value)
    yield {"reset": found.revision, "pairs": pairs, "more": False}


def read_page(message: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Read the pairs of one page."""
    return [(key, _bytes(text)) for key, text in message["pairs"]]


def read_changes(message: dict[str, Any]) -> WatchChanges:
    return WatchChanges(message["changes"], tuple(_event_from_json(each) for each in message["events"]))


def _event_to_json(event: KeyEvent) -> list[Any]:
    return [event.key, _text(event.value) if isinstance(event, KeyPut) else None, event.revision]


def _event_from_json(value: Sequence[Any]) -> KeyEvent:
    key, text, revision = value
    return KeyDeleted(key, revision) if text is None else KeyPut(key, _bytes(text), revision)


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise InvalidArguments("a value of a transaction does not stand for bytes") from error
