"""What the manifest knows of a data file, so that planning a query or a compaction opens none."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from tsdb.model import TimeRange

FILE_ID_BYTES = 16
_FILE_ID = re.compile(r"[0-9a-f]{32}")


def is_file_id(text: str) -> bool:
    """Whether a text is the id of a data file: 32 hexadecimal digits."""
    return _FILE_ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class FileMeta:
    """One data file of a region."""

    file_id: str
    time_range: TimeRange
    rows: int
    size_bytes: int
    index_size_bytes: int
    """The size of the index file beside it; 0 if there is none."""
    level: int
    series: int
    """How many distinct series have rows in it."""
    row_groups: int
    sequence_min: int
    sequence_max: int
    has_tombstones: bool
    is_unique: bool
    """No two rows have the same tags and time."""
    schema_version: int
    created_ms: int
    indexes: tuple[str, ...] = ()
    """What the index file has besides the series block: the names of its blobs, without their directories."""
    footer_checksum: int | None = None
    """CRC-32 of the footer; None for files of versions that had none."""

    def __post_init__(self) -> None:
        if not is_file_id(self.file_id):
            raise ValueError(f"{self.file_id!r} is not the id of a file, expected 32 hexadecimal digits")

    @property
    def has_index(self) -> bool:
        return self.index_size_bytes > 0

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in _PLAIN}
        span = [self.time_range.start, self.time_range.end]
        later: dict[str, Any] = {"indexes": list(self.indexes)} if self.indexes else {}
        if self.footer_checksum is not None:
            later["footer_checksum"] = self.footer_checksum
        return {**plain, "time_range": span, **later}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> FileMeta:
        """Read what `to_json` wrote; keys of a newer version are left alone."""
        start, end = value["time_range"]
        known = {name: value[name] for name in _PLAIN}
        return cls(
            time_range=TimeRange(start, end),
            indexes=tuple(value.get("indexes", ())),
            footer_checksum=value.get("footer_checksum"),
            **known,
        )


_PLAIN = tuple(
    field.name for field in fields(FileMeta) if field.name not in ("time_range", "indexes", "footer_checksum")
)
