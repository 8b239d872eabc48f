"""Where shared logs were when a backup was taken: from there on they hold what the backup does not have."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from tsdb.engine import NodeLog


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in the shared log of a server that keeps it for its history."""

    place: str
    """Where the store of the log is, as people write it."""
    node: int
    term: int
    number: int
    """Objects before this one hold nothing that is not in the data files of the backup."""
    captured_ms: int
    """Nothing that was written at this time or later is in the backup."""
    acknowledges_locally: bool
    """Rows were acknowledged before the store had them."""


@dataclass(frozen=True, slots=True)
class NodePosition:
    """A place in the shared log of a datanode."""

    node: int
    term: int
    number: int
    """Objects before this one hold nothing that is not in the data files of the backup."""
    is_kept: bool
    """The node said that it keeps its log; one that did not answer may have lost notes until its next start."""


@dataclass(frozen=True, slots=True)
class ClusterPosition:
    """Places in the shared logs of all datanodes of a cluster that keeps them for their history."""

    place: str
    """Where the store of the logs is, as people write it."""
    nodes: tuple[NodePosition, ...]
    """All that had a log then."""
    order: tuple[int, int]
    """The last change of the metadata that is in the backup."""
    captured_ms: int
    """Nothing that was written at this time or later is in the backup, by the clock of any node."""


AnyPosition: TypeAlias = LogPosition | ClusterPosition


def find_position(node_log: NodeLog | None) -> LogPosition | None:
    """Return where the log of a server is, before its regions are flushed; None if its past is not kept."""
    if node_log is None or node_log.journal is None:
        return None
    term, number = node_log.position
    return LogPosition(node_log.place, node_log.node, term, number, 0, node_log.acknowledges_locally)


def parse_position(value: dict[str, Any]) -> LogPosition:
    return LogPosition(**{each.name: value[each.name] for each in fields(LogPosition)})


def parse_cluster_position(value: dict[str, Any]) -> ClusterPosition:
    nodes = [NodePosition(**{each.name: found[each.name] for each in fields(NodePosition)}) for found in value["nodes"]]
    term, number = value["order"]
    return ClusterPosition(value["place"], tuple(nodes), (term, number), value["captured_ms"])
