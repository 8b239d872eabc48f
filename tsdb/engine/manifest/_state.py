"""What a manifest says at one version: the whole truth about a region's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from tsdb.engine.manifest._file_meta import FileMeta
from tsdb.engine.manifest._takeovers import Takeover, read_takeovers
from tsdb.model import RegionId, RegionOptions, RegionSchema


class RemovedFile(NamedTuple):
    """A file that is no longer part of the region but may still lie in the store, for running queries."""

    file_id: str
    removed_at_ms: int


class QuarantinedFile(NamedTuple):
    """A data file that is part of the region and cannot be read whole: compactions leave it alone."""

    file_id: str
    since_ms: int
    reason: str


@dataclass(frozen=True)
class ManifestState:
    """A region at one version of its manifest. Immutable, so readers may keep it for as long as they like."""

    region_id: RegionId
    schema: RegionSchema
    options: RegionOptions
    files: Mapping[str, FileMeta] = field(default_factory=lambda: MappingProxyType({}))
    """The data files by id."""
    flushed_entry_id: int = 0
    """Everything up to this entry of the log is in files, or gone for good; entries are numbered from 1."""
    flushed_sequence: int = 0
    truncated_entry_id: int | None = None
    """The last entry that a truncation made void; None if the region was never truncated."""
    truncation: str | None = None
    """The token of that truncation, if it has one: it is not made twice."""
    epoch: int = 0
    """The highest epoch of a writer so far."""
    version: int = 0
    """The number of the last delta."""
    compaction_window_seconds: int | None = None
    """None until the first compaction chose it."""
    is_removed: bool = False
    removed_files: tuple[RemovedFile, ...] = ()
    """Files that left the region and are not yet known to be deleted, oldest first."""
    quarantined: Mapping[str, QuarantinedFile] = field(default_factory=lambda: MappingProxyType({}))
    """Files that were found to be damaged, by id; all of them are among `files`."""
    takeovers: tuple[Takeover, ...] = ()
    """When the region was taken over from nodes whose rows may come late, oldest first."""

    def to_json(self) -> dict[str, Any]:
        return {
            "region_id": self.region_id,
            "version": self.version,
            "epoch": self.epoch,
            "schema": self.schema.to_json(),
            "options": self.options.to_json(),
            "files": [file.to_json() for file in self.files.values()],
            "removed_files": [removed._asdict() for removed in self.removed_files],
            "quarantined": [file._asdict() for file in self.quarantined.values()],
            **({"takeovers": [each.to_json() for each in self.takeovers]} if self.takeovers else {}),
            **({"truncation": self.truncation} if self.truncation is not None else {}),
            **{name: getattr(self, name) for name in _PLAIN},
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ManifestState:
        files = [FileMeta.from_json(file) for file in value["files"]]
        removed = value["removed_files"]
        # Earlier versions did not have it.
        quarantined = read_quarantined(value.get("quarantined", ()))
        return cls(
            region_id=RegionId(value["region_id"]),
            version=value["version"],
            epoch=value["epoch"],
            schema=RegionSchema.from_json(value["schema"]),
            options=RegionOptions.from_json(value["options"]),
            files=MappingProxyType({file.file_id: file for file in files}),
            removed_files=tuple(RemovedFile(each["file_id"], each["removed_at_ms"]) for each in removed),
            quarantined=MappingProxyType({file.file_id: file for file in quarantined}),
            takeovers=read_takeovers(value.get("takeovers", ())),
            truncation=value.get("truncation"),
            **{name: value[name] for name in _PLAIN},
        )


def read_quarantined(values: Sequence[dict[str, Any]]) -> tuple[QuarantinedFile, ...]:
    """Read quarantined files."""
    return tuple(QuarantinedFile(each["file_id"], each["since_ms"], each["reason"]) for each in values)


_PLAIN = (
    "flushed_entry_id",
    "flushed_sequence",
    "truncated_entry_id",
    "compaction_window_seconds",
    "is_removed",
)
