"""The nodes of a cluster, and where regions are. Plain values, which travel as JSON.

A region is served by one datanode. `__table_place/{table id}` in the metadata says which, with an epoch that grows with
each change of the node: what commits to the manifest of a region under an older epoch is refused.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tsdb.model._region import RegionId


class NodeRole(StrEnum):
    """What a process of a cluster does."""

    DATANODE = "DATANODE"
    FRONTEND = "FRONTEND"
    METASRV = "METASRV"


@dataclass(frozen=True, slots=True)
class Peer:
    """A datanode as others reach it."""

    node_id: int
    address: str
    """`host:port` of its Flight server."""


@dataclass(frozen=True, slots=True)
class RegionPlace:
    """Which datanode a region is on."""

    node_id: int
    epoch: int = 0
    is_moving: bool = False
    """It is being moved away: writes wait."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RegionPlace:
        return cls(int(value["node_id"]), int(value["epoch"]), bool(value["is_moving"]))


@dataclass(frozen=True, slots=True)
class RegionOpening:
    """A region that a datanode has to open."""

    region_id: RegionId
    directory: str
    epoch: int
    log_nodes: tuple[int, ...] = ()
    """Other nodes whose shared logs may hold rows of it that are in no data file yet; all their terms are sealed."""
    may_lack_rows: bool = False
    """These nodes acknowledged rows before their shared logs had them: such rows may be handed in later."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RegionOpening:
        return cls(
            RegionId(int(value["region_id"])),
            str(value["directory"]),
            int(value["epoch"]),
            tuple(int(each) for each in value["log_nodes"]),
            bool(value.get("may_lack_rows", False)),
        )


@dataclass(frozen=True, slots=True)
class LateEntry:
    """An entry of a log that a node hands in after another node has taken its region over."""

    entry_id: int
    base_sequence: int
    kind: int
    rows: int
    schema_version: int
    payload: bytes
    """As it stands in the log."""
    crc: int
    codec: int
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class LateRows:
    """What came of the rows that a lost node had and its shared log had not."""

    epoch: int
    """Of the node that took the region over."""
    rows: int
    """How many were handed in, in all."""
    is_complete: bool
