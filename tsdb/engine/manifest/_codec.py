"""The bytes of a manifest's objects: JSON that ends with a checksum of itself.

`checksum` is the last key of every object: the CRC-32 of the same JSON without it. So an object stays
plain JSON for every reader, and a truncated or damaged one is detected. `docs/format/manifest.md` describes the format.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from tsdb.engine.errors import ManifestCorrupted
from tsdb.engine.manifest._actions import Delta, action_from_json, action_to_json
from tsdb.engine.manifest._state import ManifestState
from tsdb.model import RegionId

FORMAT = 1
"""Raised by a change that older servers must not read past."""

_SEALED = re.compile(rb'(.*),"checksum":([0-9]{1,10})\}\n', re.DOTALL)
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OSError, pa.ArrowException)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which checkpoint to begin with, and how to check that it is whole."""

    version: int
    size: int
    crc32: int

    @classmethod
    def to(cls, version: int, content: bytes) -> Pointer:
        return cls(version, len(content), zlib.crc32(content))

    def matches(self, content: bytes) -> bool:
        return self == Pointer.to(self.version, content)


def encode_delta(delta: Delta) -> bytes:
    return _encode(
        {
            "region_id": delta.region_id,
            "version": delta.version,
            "epoch": delta.epoch,
            "writer": delta.writer,
            "at_ms": delta.at_ms,
            "actions": [action_to_json(action) for action in delta.actions],
        }
    )


def parse_delta(content: bytes, *, path: str) -> Delta:
    """Read a delta, or raise ManifestCorrupted."""

    def read(value: dict[str, Any]) -> Delta:
        return Delta(
            region_id=RegionId(value["region_id"]),
            version=value["version"],
            epoch=value["epoch"],
            writer=value["writer"],
            at_ms=value["at_ms"],
            actions=tuple(action_from_json(action) for action in value["actions"]),
        )

    return _parse(content, path, read)


def encode_checkpoint(state: ManifestState) -> bytes:
    return _encode(state.to_json())


def parse_checkpoint(content: bytes, *, path: str) -> ManifestState:
    """Read a checkpoint, or raise ManifestCorrupted."""
    return _parse(content, path, ManifestState.from_json)


def encode_pointer(pointer: Pointer) -> bytes:
    return _encode(asdict(pointer))


def parse_pointer(content: bytes, *, path: str) -> Pointer:
    """Read the pointer, or raise ManifestCorrupted."""
    return _parse(content, path, lambda value: Pointer(value["version"], value["size"], value["crc32"]))


def _encode(value: dict[str, Any]) -> bytes:
    body = orjson.dumps({"format": FORMAT, **value})
    return b'%s,"checksum":%d}\n' % (body[:-1], zlib.crc32(body))


def _parse(content: bytes, path: str, read: Callable[[dict[str, Any]], _T]) -> _T:
    match = _SEALED.fullmatch(content)
    if match is None:
        raise ManifestCorrupted(file=path, reason=f"its {len(content)} bytes do not end with a checksum")
    body = match[1] + b"}"
    if zlib.crc32(body) != int(match[2]):
        raise ManifestCorrupted(file=path, reason="its checksum is wrong")
    try:
        value = orjson.loads(body)
        if value["format"] > FORMAT:
            reason = f"it has format {value['format']}, this server reads up to {FORMAT}"
            raise ManifestCorrupted(file=path, reason=reason, hint="start the version of the server that wrote it")
        return read(value)
    except _UNREADABLE as error:
        raise ManifestCorrupted(file=path, reason=f"it cannot be parsed: {error!r}") from error
