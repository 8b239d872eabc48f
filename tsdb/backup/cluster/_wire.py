"""What travels between the nodes of a cluster for a backup.

    start    {destination, name or null, skips_damaged}     ◀─ {id}
    state    {id}                                           ◀─ {job, error or null}
    cancel   {id}                                           ◀─ {job, error or null}

    restore         {arguments, database}                   ◀─ {id}
    restore_state   {id}                                    ◀─ {is_ended, rows, error or null}
    restore_cancel  {id}                                    ◀─ {is_ended, rows, error or null}

    position {}                                             ◀─ {position or null}
    note     {order, is_base, metadata}                     ◀─ {}

    flush    {regions}                                      ◀─ {failed: {region: error}}
    pin      {backup, destination, token, regions}          ◀─ {pinned: [facts], failed: {region: error}}
    copy     {backup, regions, skips_damaged}               ◀─ {}
    look     {backup, taken}                                ◀─ {counts, outcomes: [outcome, …]}
    release  {backup}                                       ◀─ {}

Frontends ask the first six: of the datanode that makes a backup, or restores a table. The others are what the one that
makes a backup asks of all; `note` is what the leading metadata server asks, whenever tables change. Values travel by
the codec of the data plane, errors as their classes. `taken` is how many outcomes the asker has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tsdb.backup._errors import BackupFailed
from tsdb.backup._files import CopiedRegion, FailedRegion, RegionOutcome
from tsdb.backup._format import BackedUpRegion, encode_item, parse_item
from tsdb.engine import CatalogNote, PinnedRegion
from tsdb.errors import InvalidArguments
from tsdb.model import RegionId

REGIONS_MAX = 4096
"""How many regions a request may name."""
TEXT_MAX = 4096
_ID = re.compile(r"[0-9a-f]{8,64}")
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PinFacts:
    """What a datanode says of a region that it has pinned."""

    region_id: RegionId
    table: str
    files: int
    size_bytes: int
    schema_version: int
    truncated_entry_id: int | None
    damaged: tuple[str, ...]
    pinned_ms: int = 0
    """When that was, by the clock of the datanode."""

    def is_same_table(self, other: PinFacts) -> bool:
        """Whether the table was neither altered nor truncated between two pins of the region."""
        mine = self.schema_version, self.truncated_entry_id
        return mine == (other.schema_version, other.truncated_entry_id)


@dataclass(frozen=True, slots=True)
class Counts:
    """How far the copies of a datanode have come."""

    files_done: int = 0
    bytes_done: int = 0
    files_copied: int = 0
    bytes_copied: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(one + two for one, two in zip(_values(self), _values(other), strict=True)))


def facts_of(region: PinnedRegion, pinned_ms: int) -> PinFacts:
    files = region.files()
    return PinFacts(
        region.region_id,
        region.table,
        len(files),
        sum(file.size_bytes for file in files),
        region.schema_version,
        region.truncated_entry_id,
        tuple(sorted(region.damaged)),
        pinned_ms,
    )


def facts_to_wire(facts: PinFacts) -> dict[str, Any]:
    return {**asdict(facts), "damaged": list(facts.damaged)}


def facts_from_wire(value: Any) -> PinFacts:
    def read() -> PinFacts:
        truncated = value["truncated_entry_id"]
        return PinFacts(
            RegionId(_whole(value["region_id"])),
            _string(value["table"]),
            _whole(value["files"]),
            _whole(value["size_bytes"]),
            _whole(value["schema_version"]),
            None if truncated is None else _whole(truncated),
            tuple(_string(each) for each in value["damaged"]),
            # Earlier versions did not say it.
            _whole(value.get("pinned_ms", 0)),
        )

    return _read(read, "a pinned region")


def counts_to_wire(counts: Counts) -> list[int]:
    return list(_values(counts))


def counts_from_wire(value: Any) -> Counts:
    return _read(lambda: Counts(*(_whole(each) for each in value)), "the progress of a datanode")


def outcome_to_wire(outcome: RegionOutcome) -> dict[str, Any]:
    if isinstance(outcome, FailedRegion):
        return {"region_id": outcome.region_id, "error": outcome.error}
    return {"region": encode_item(outcome.region), "rows": outcome.rows, "damaged": list(outcome.damaged)}


def outcome_from_wire(value: Any) -> RegionOutcome:
    def read() -> RegionOutcome:
        if "error" in value:
            error = value["error"]
            if not isinstance(error, BackupFailed):
                raise TypeError(f"{error!r} is no failure of a backup")
            return FailedRegion(RegionId(_whole(value["region_id"])), error)
        region = parse_item(value["region"])
        if not isinstance(region, BackedUpRegion):
            raise TypeError("a line of content is no region")
        return CopiedRegion(region, _whole(value["rows"]), tuple(_string(each) for each in value["damaged"]))

    return _read(read, "a copied region")


def read_catalog_note(request: Mapping[str, Any]) -> CatalogNote:
    """Read a change of the metadata of the cluster."""

    def read() -> CatalogNote:
        term, number = request["order"]
        metadata = {_string(key): _bytes_or_none(value) for key, value in request["metadata"].items()}
        return CatalogNote((_whole(term), _whole(number)), read_flag(request, "is_base"), metadata)

    return _read(read, "a change of the metadata")


def read_regions(request: Mapping[str, Any]) -> list[RegionId]:
    found = request.get("regions")
    if not isinstance(found, list) or len(found) > REGIONS_MAX:
        raise InvalidArguments(f"a step of a backup names a list of at most {REGIONS_MAX} regions")
    return _read(lambda: [RegionId(_whole(each)) for each in found], "the regions of a request")


def read_id(request: Mapping[str, Any], name: str) -> str:
    found = read_text(request, name)
    if _ID.fullmatch(found) is None:
        raise InvalidArguments(f"{name} of a step of a backup is no id", value=found)
    return found


def read_text(request: Mapping[str, Any], name: str) -> str:
    found = request.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= TEXT_MAX:
        raise InvalidArguments(f"{name} of a step of a backup is a text of 1 to {TEXT_MAX} characters")
    return found


def read_texts(request: Mapping[str, Any], name: str) -> list[str]:
    found = request.get(name)
    if not isinstance(found, list) or not all(isinstance(each, str) and len(each) <= TEXT_MAX for each in found):
        raise InvalidArguments(f"{name} of a step of a backup are texts of at most {TEXT_MAX} characters")
    return found


def read_flag(request: Mapping[str, Any], name: str) -> bool:
    found = request.get(name)
    if not isinstance(found, bool):
        raise InvalidArguments(f"{name} of a step of a backup is true or false", value=found)
    return found


def read_count(request: Mapping[str, Any], name: str) -> int:
    return _read(lambda: _whole(request[name]), f"{name} of a step of a backup")


def _values(counts: Counts) -> tuple[int, ...]:
    return counts.files_done, counts.bytes_done, counts.files_copied, counts.bytes_copied


def _read(read: Callable[[], _T], what: str) -> _T:
    try:
        return read()
    except _UNREADABLE as error:
        raise InvalidArguments(f"{what} cannot be parsed: {error!r}") from error


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value


def _string(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is no text")
    return value


def _bytes_or_none(value: Any) -> bytes | None:
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{value!r} is no value of a key")
    return None if value is None else bytes(value)
