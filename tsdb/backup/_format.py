"""The bytes of a backup's objects: a summary, and lines of content. `docs/format/backup.md` describes them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import orjson

from tsdb.backup._errors import BackupDamaged
from tsdb.backup._position import (
    AnyPosition,
    ClusterPosition,
    LogPosition,
    parse_cluster_position,
    parse_position,
)
from tsdb.model import RegionId

FORMAT = 1
"""Raised by a change that older versions must not read past."""
_PARSED = frozenset({"damaged", "log", "cluster_log"})
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a backup is, without what it holds."""

    name: str
    version: str
    """Of the server that made it."""
    started_ms: int
    """Everything acknowledged before is in it."""
    finished_ms: int
    databases: int
    tables: int
    regions: int
    rows: int
    files: int
    size_bytes: int
    copied_files: int
    """How many of the files the destination did not have."""
    copied_bytes: int
    content_bytes: int
    content_sha256: str
    damaged: tuple[str, ...] = field(default=())
    """Data files that were quarantined, as they are; regions that were not served and are left out."""
    log: LogPosition | None = None
    """From where on the shared log has what came later; None if its past was not kept, and for a cluster."""
    cluster_log: ClusterPosition | None = None
    """The same of a cluster."""

    @property
    def position(self) -> AnyPosition | None:
        """From where on shared logs have what came later, if they were kept."""
        return self.log or self.cluster_log

    def encode(self) -> bytes:
        body = {**asdict(self), "damaged": list(self.damaged)}
        digest = hashlib.sha256(orjson.dumps(body)).hexdigest()
        return orjson.dumps({"format": FORMAT, "backup": body, "sha256": digest}, option=orjson.OPT_INDENT_2) + b"\n"


def parse_summary(content: bytes, *, path: str) -> BackupSummary:
    """Read a summary, or raise BackupDamaged."""
    try:
        value = orjson.loads(content)
        if value["format"] > FORMAT:
            hint = "use the version that wrote it, or a newer one"
            raise BackupDamaged(path, f"it has format {value['format']}, this version reads up to {FORMAT}", hint=hint)
        body = value["backup"]
        if hashlib.sha256(orjson.dumps(body)).hexdigest() != value["sha256"]:
            raise BackupDamaged(path, "its checksum is wrong")
        known = {each.name: body[each.name] for each in fields(BackupSummary) if each.name not in _PARSED}
        # Earlier versions did not have these.
        log, cluster_log = body.get("log"), body.get("cluster_log")
        return BackupSummary(
            **known,
            damaged=tuple(body["damaged"]),
            log=None if log is None else parse_position(log),
            cluster_log=None if cluster_log is None else parse_cluster_position(cluster_log),
        )
    except _UNREADABLE as error:
        raise BackupDamaged(path, f"it cannot be parsed: {error!r}") from error


@dataclass(frozen=True, slots=True)
class MetadataPair:
    """A key of the metadata and its value."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in the destination."""

    path: str
    size_bytes: int
    sha256: str
    is_index: bool


@dataclass(frozen=True, slots=True)
class BackedUpRegion:
    """A region, the state of its manifest and its files."""

    region_id: RegionId
    directory: str
    table: str
    manifest: dict[str, Any]
    files: tuple[StoredFile, ...]


ContentItem = MetadataPair | BackedUpRegion


def encode_item(item: ContentItem) -> bytes:
    """Write a line of content."""
    if isinstance(item, MetadataPair):
        return orjson.dumps({"key": item.key, "value": base64.b64encode(item.value).decode()}) + b"\n"
    return orjson.dumps(asdict(item)) + b"\n"


def parse_item(line: bytes) -> ContentItem:
    """Read a line of content; ValueError, LookupError or TypeError if it is none."""
    value = orjson.loads(line)
    if "key" in value:
        return MetadataPair(value["key"], base64.b64decode(value["value"], validate=True))
    return BackedUpRegion(
        region_id=RegionId(value["region_id"]),
        directory=value["directory"],
        table=value["table"],
        manifest=value["manifest"],
        files=tuple(StoredFile(**file) for file in value["files"]),
    )


def parse_content(pieces: Iterable[bytes], *, path: str) -> Iterator[ContentItem]:
    """Read content from pieces of its bytes; BackupDamaged if that cannot be."""
    number, rest = 0, b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            number += 1
            try:
                yield parse_item(line)
            except _UNREADABLE as error:
                raise BackupDamaged(path, f"line {number} cannot be parsed: {error!r}") from error
    if rest:
        raise BackupDamaged(path, f"it ends within line {number + 1}")
