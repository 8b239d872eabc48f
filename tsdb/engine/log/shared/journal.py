"""Notes of what tables there are and what they look like, between the entries of a log that is kept for its history.

Entries hold rows. To restore a server as it was at a moment, one must also know which tables it had then. So each
change of metadata and of the definition of a region is a frame of no region (`NOTES`), with the time of the change. A
term begins with a note of everything (`base`): what changed and was not noted, because the process ended in between,
is known from then on.

    {"base": {"metadata": {key: value}, "regions": [definition]}}
    {"metadata": {key: value, or null if it was deleted}}
    {"region": definition}

Values are base64. Notes pin nothing, and a replay of the log does not look at them.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from tsdb.engine.log.frame import Frame, FrameKind, encode_frame_payload
from tsdb.engine.log.shared.shipper import Shipper
from tsdb.errors import TsdbError
from tsdb.telemetry import get_logger

NOTES = 0
"""Stands where others have the id of a region."""

_log = get_logger("tsdb.wal")


@dataclass(frozen=True, slots=True)
class RegionNote:
    """What a region is, apart from its rows."""

    region_id: int
    directory: str
    table: str
    what: str
    """What has happened to it: noted, created, changed, or something that rows in the log cannot tell."""
    manifest: dict[str, Any]
    """The state of its manifest, without files."""


@dataclass(frozen=True, slots=True)
class Note:
    """What one note says."""

    is_base: bool
    metadata: Mapping[str, bytes | None]
    regions: tuple[RegionNote, ...]


class Journal:
    """Writes notes. Thread-safe."""

    def __init__(self, shipper: Shipper, *, waits: bool, timeout_s: float) -> None:
        """With `waits`, a note is in the store when a call returns, unless the store takes longer than the timeout."""
        self._shipper = shipper
        self._waits = waits
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._last = 0

    def write_base(self, metadata: Iterable[tuple[str, bytes]], regions: Sequence[RegionNote]) -> None:
        self._write({"base": {"metadata": _encode(dict(metadata)), "regions": [asdict(each) for each in regions]}})

    def write_metadata(self, changes: Mapping[str, bytes | None]) -> None:
        self._write({"metadata": _encode(changes)})

    def write_region(self, note: RegionNote) -> None:
        self._write({"region": asdict(note)})

    def _write(self, note: dict[str, Any]) -> None:
        """Append a note. A failure is not the caller's: what it tells has happened, and the next base has it."""
        payload = encode_frame_payload(orjson.dumps(note))
        try:
            with self._lock:
                self._last += 1
                frame = Frame(NOTES, self._last, payload, kind=FrameKind.NOTE)
                done = self._shipper.append([frame], waits=False)
            if self._waits:
                done.result(self._timeout_s)
        except (TsdbError, TimeoutError) as error:
            _log.warning("a change of tables is not in the shared log yet", error=str(error) or "timeout")


def parse_note(payload: bytes) -> Note:
    """Read a note; ValueError, LookupError or TypeError if it is none."""
    found = orjson.loads(payload)
    base = found.get("base")
    metadata = found.get("metadata", {}) if base is None else base["metadata"]
    regions = ([found["region"]] if "region" in found else []) if base is None else base["regions"]
    return Note(
        is_base=base is not None,
        metadata={key: None if value is None else base64.b64decode(value) for key, value in metadata.items()},
        regions=tuple(RegionNote(**each) for each in regions),
    )


def _encode(metadata: Mapping[str, bytes | None]) -> dict[str, str | None]:
    return {key: None if value is None else base64.b64encode(value).decode() for key, value in metadata.items()}
