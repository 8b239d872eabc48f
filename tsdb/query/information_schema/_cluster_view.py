"""What a node knows of its cluster: the values that the tables about nodes are made from."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tsdb.model import RegionId
from tsdb.processes.resident import resident_bytes
from tsdb.units import Duration

if TYPE_CHECKING:
    from tsdb.query.information_schema._context import InformationContext

_MS_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One process of a cluster."""

    id: int
    kind: str
    address: str
    hostname: str
    version: str
    commit: str
    started_ms: int | None
    """None if that is not known."""
    cpu_millicores: int = 0
    """How much there is."""
    memory_bytes: int = 0
    cpu_usage_millicores: int = 0
    memory_usage_bytes: int = 0
    quiet_ms: int | None = None
    """How long ago it was heard of; None for the node that answers."""
    status: str | None = None
    """What else it tells, as JSON."""


@dataclass(frozen=True, slots=True)
class PeerRow:
    """The node that a region is on."""

    node_id: int
    address: str
    is_alive: bool = True
    down_seconds: int | None = None
    is_moving: bool = False
    reason: str | None = None
    """Why the region is not served."""


@dataclass(frozen=True, slots=True)
class ProcedureRow:
    """A change of the metadata that runs, or ran lately."""

    id: str
    kind: str
    status: str
    started_ms: int
    ended_ms: int | None = None
    locks: str | None = None
    attempts: int | None = None
    """How often it was tried to finish it after it had been interrupted."""
    since_ms: int | None = None
    """When that failed for the first time."""
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class FailoverRow:
    """A region that was taken from a node that was lost."""

    id: str
    region_id: RegionId
    from_node: int
    to_node: int | None
    state: str
    reason: str
    started_ms: int
    ended_ms: int | None = None
    lost_from_entry: int | None = None
    """Entries from here on were acknowledged by the lost node and may be missing."""
    lost_to_entry: int | None = None
    """Up to here the lost node had certainly written."""
    recovered_rows: int | None = None
    """What the lost node handed in when it was back; None as long as it has not."""
    last_error: str | None = None


class ClusterView(Protocol):
    """What this node knows of the cluster."""

    def nodes(self) -> Sequence[NodeRow]: ...

    def peers_of(self, region_ids: Sequence[RegionId]) -> Sequence[PeerRow | None]:
        """The nodes of regions, by one request to other processes at most; None for regions that nobody knows."""

    def node_of(self, region_id: RegionId) -> int | None:
        """The id of the node that a region is on, without a request to other processes."""

    def procedures(self) -> Sequence[ProcedureRow]: ...

    def failovers(self) -> Sequence[FailoverRow]: ...


class OneNode:
    """A standalone server."""

    def __init__(self, context: InformationContext) -> None:
        self._context = context

    def nodes(self) -> list[NodeRow]:
        node = self._context.node
        alive = Duration(max(self._context.clock.now_ns() - node.started_ms * _MS_NS, 0))
        return [
            NodeRow(
                id=node.id,
                kind=node.kind,
                address=node.address,
                hostname=socket.gethostname(),
                version=node.version,
                commit=node.commit,
                started_ms=node.started_ms,
                cpu_millicores=(os.cpu_count() or 1) * 1000,
                memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                cpu_usage_millicores=cpu_millicores(alive),
                memory_usage_bytes=resident_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            )
        ]

    def peers_of(self, region_ids: Sequence[RegionId]) -> list[PeerRow]:
        return [PeerRow(self._context.node.id, self._context.node.address)] * len(region_ids)

    def node_of(self, region_id: RegionId) -> int:
        return self._context.node.id

    def procedures(self) -> list[ProcedureRow]:
        return []

    def failovers(self) -> list[FailoverRow]:
        return []


def cpu_millicores(alive: Duration) -> int:
    """What this process has used since it began, on average."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e12 / alive) if alive else 0
