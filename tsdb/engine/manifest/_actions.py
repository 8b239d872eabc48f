"""The changes a manifest can record.

    Change      the region has another schema or other options
    Edit        files came or went: a flush, a compaction, rows past their time to live; or were found to be damaged
    Truncate    all rows up to an entry of the log are gone
    Remove      the region is dropped
    Forget      removed files are deleted and need not be remembered

Actions that were written together in one delta take effect together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from tsdb.engine.manifest._file_meta import FileMeta
from tsdb.engine.manifest._state import QuarantinedFile, read_quarantined
from tsdb.engine.manifest._takeovers import Takeover, read_takeovers
from tsdb.model import RegionId, RegionOptions, RegionSchema


@dataclass(frozen=True, slots=True)
class Change:
    """The region has another schema or other options; None leaves them as they are."""

    schema: RegionSchema | None = None
    options: RegionOptions | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": None if self.schema is None else self.schema.to_json(),
            "options": None if self.options is None else self.options.to_json(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Change:
        schema, options = value["schema"], value["options"]
        return cls(
            schema=None if schema is None else RegionSchema.from_json(schema),
            options=None if options is None else RegionOptions.from_json(options),
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """Files came or went; None leaves the other values as they are."""

    added: tuple[FileMeta, ...] = ()
    removed: tuple[str, ...] = ()
    """The ids of files that are no longer part of the region."""
    flushed_entry_id: int | None = None
    """Everything up to this entry of the log is in data files."""
    flushed_sequence: int | None = None
    compaction_window_seconds: int | None = None
    quarantined: tuple[QuarantinedFile, ...] = ()
    """Files of the region that were found to be damaged."""
    released: tuple[str, ...] = ()
    """The ids of quarantined files that turned out to be whole again."""
    takeovers: tuple[Takeover, ...] = ()
    """Takeovers that are new, or of which rows were handed in."""

    def to_json(self) -> dict[str, Any]:
        # Only where there are some: most edits are about other things.
        quarantined = {"quarantined": [file._asdict() for file in self.quarantined]} if self.quarantined else {}
        released = {"released": self.released} if self.released else {}
        takeovers = {"takeovers": [each.to_json() for each in self.takeovers]} if self.takeovers else {}
        return {
            **quarantined,
            **released,
            **takeovers,
            "added": [file.to_json() for file in self.added],
            "removed": self.removed,
            "flushed_entry_id": self.flushed_entry_id,
            "flushed_sequence": self.flushed_sequence,
            "compaction_window_seconds": self.compaction_window_seconds,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Edit:
        return cls(
            added=tuple(FileMeta.from_json(file) for file in value["added"]),
            removed=tuple(value["removed"]),
            flushed_entry_id=value["flushed_entry_id"],
            flushed_sequence=value["flushed_sequence"],
            compaction_window_seconds=value["compaction_window_seconds"],
            quarantined=read_quarantined(value.get("quarantined", ())),
            released=tuple(value.get("released", ())),
            takeovers=read_takeovers(value.get("takeovers", ())),
        )


@dataclass(frozen=True, slots=True)
class Truncate:
    """All rows up to this entry of the log and this sequence are gone, in files or not."""

    entry_id: int
    sequence: int
    token: str | None = None
    """The change of the table that it is a part of."""

    def to_json(self) -> dict[str, Any]:
        token = {"token": self.token} if self.token is not None else {}
        return {"entry_id": self.entry_id, "sequence": self.sequence, **token}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Truncate:
        return cls(entry_id=value["entry_id"], sequence=value["sequence"], token=value.get("token"))


@dataclass(frozen=True, slots=True)
class Remove:
    """The region is dropped; nothing can follow."""

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Remove:
        return cls()


@dataclass(frozen=True, slots=True)
class Forget:
    """These removed files are deleted from the store."""

    file_ids: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"file_ids": self.file_ids}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Forget:
        return cls(tuple(value["file_ids"]))


Action: TypeAlias = Change | Edit | Truncate | Remove | Forget

_KINDS: dict[str, type[Action]] = {
    "change": Change,
    "edit": Edit,
    "truncate": Truncate,
    "remove": Remove,
    "forget": Forget,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Delta:
    """One step from a version to the next: actions that take effect together."""

    region_id: RegionId
    version: int
    epoch: int
    writer: str
    """A name that no other opening of a manifest has, so that equal bytes mean the same attempt."""
    at_ms: int
    actions: tuple[Action, ...]


def action_to_json(action: Action) -> dict[str, Any]:
    return {"kind": _NAMES[type(action)], **action.to_json()}


def action_from_json(value: dict[str, Any]) -> Action:
    """Read an action; ValueError if this server does not know its kind, because skipping it would be wrong."""
    kind = _KINDS.get(value["kind"])
    if kind is None:
        raise ValueError(f"the action {value['kind']!r} is unknown")
    return kind.from_json(value)
