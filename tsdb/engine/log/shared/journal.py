"""Notes of what tables there are and what they look like, between the entries of a log that is kept for its history.

Entries hold rows. To restore a server as it was at a moment, one must also know which tables it had then. So each
change of metadata and of the definition of a region is a frame of no region (`NOTES`), with the time of the change. A
term begins with a note of everything (`base`): what changed and was not noted, because the process ended in between,
is known from then on.

    {"base": {"metadata": {key: value}, "regions": [definition], "acknowledges_locally": false}}
    {"metadata": {key: value, or null if it was deleted}}
    {"region": definition}
    {"regions": [definition]}
    {"catalog": {"order": [term, number], "is_base": false, "metadata": {key: value, or null}}}

The metadata of a cluster belongs to none of its nodes: its leader has each change noted by one of them (`catalog`),
with its number in the order of all changes. Values are base64. Notes pin nothing, and a replay does not look at them.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import orjson

from tsdb.engine.log.frame import Frame, FrameKind, encode_frame_payload
from tsdb.engine.log.shared.shipper import Shipper
from tsdb.errors import DeadlineExceeded, TsdbError
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


class CatalogNote(NamedTuple):
    """A change of the metadata of a cluster."""

    order: tuple[int, int]
    """The leadership, and a number that grows by one with each change."""
    is_base: bool
    """It is everything there is, and not only what has changed."""
    metadata: Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Note:
    """What one note says."""

    is_base: bool
    metadata: Mapping[str, bytes | None]
    regions: tuple[RegionNote, ...]
    catalog: CatalogNote | None = None
    acknowledges_locally: bool = False
    """Of a base: rows of this term are acknowledged before the store has them."""


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
        described = [asdict(each) for each in regions]
        self._write(
            {
                "base": {
                    "metadata": _encode(dict(metadata)),
                    "regions": described,
                    "acknowledges_locally": not self._waits,
                }
            }
        )

    def write_metadata(self, changes: Mapping[str, bytes | None]) -> None:
        self._write({"metadata": _encode(changes)})

    def write_region(self, note: RegionNote) -> None:
        self._write({"region": asdict(note)})

    def write_regions(self, notes: Sequence[RegionNote]) -> None:
        """Note several regions at once."""
        self._write({"regions": [asdict(each) for each in notes]})

    def write_catalog(self, note: CatalogNote) -> None:
        """Note a change of the metadata of a cluster; it is in the store when the call returns, or that raises."""
        value = {"order": list(note.order), "is_base": note.is_base, "metadata": _encode(note.metadata)}
        done = self._append({"catalog": value})
        try:
            done.result(self._timeout_s)
        except TimeoutError:
            raise DeadlineExceeded(f"the store of the log did not take a note within {self._timeout_s:g} s") from None

    def _write(self, note: dict[str, Any]) -> None:
        """Append a note. A failure is not the caller's: what it tells has happened, and the next base has it."""
        try:
            done = self._append(note)
            if self._waits:
                done.result(self._timeout_s)
        except (TsdbError, TimeoutError) as error:
            _log.warning("a change of tables is not in the shared log yet", error=str(error) or "timeout")

    def _append(self, note: dict[str, Any]) -> Future[None]:
        payload = encode_frame_payload(orjson.dumps(note))
        with self._lock:
            self._last += 1
            frame = Frame(NOTES, self._last, payload, kind=FrameKind.NOTE)
            return self._shipper.append([frame], waits=False)


def parse_note(payload: bytes) -> Note:
    """Read a note; ValueError, LookupError or TypeError if it is none."""
    found = orjson.loads(payload)
    base, catalog = found.get("base"), found.get("catalog")
    if catalog is not None:
        term, number = catalog["order"]
        told = CatalogNote((int(term), int(number)), bool(catalog["is_base"]), _decode(catalog["metadata"]))
        return Note(is_base=False, metadata={}, regions=(), catalog=told)
    regions = [found["region"]] if "region" in found else found.get("regions", [])
    return Note(
        is_base=base is not None,
        metadata=_decode(found.get("metadata", {}) if base is None else base["metadata"]),
        regions=tuple(RegionNote(**each) for each in (regions if base is None else base["regions"])),
        # Earlier versions did not say it.
        acknowledges_locally=base is not None and bool(base.get("acknowledges_locally", False)),
    )


def _decode(metadata: Mapping[str, str | None]) -> dict[str, bytes | None]:
    return {key: None if value is None else base64.b64decode(value) for key, value in metadata.items()}


def _encode(metadata: Mapping[str, bytes | None]) -> dict[str, str | None]:
    return {key: None if value is None else base64.b64encode(value).decode() for key, value in metadata.items()}
