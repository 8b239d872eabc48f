"""Where the shared log was when a backup was taken: from there on it holds what the backup does not have."""

from __future__ import annotations

from dataclasses import dataclass

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


def find_position(node_log: NodeLog | None) -> LogPosition | None:
    """Return where the log of a server is, before its regions are flushed; None if its past is not kept."""
    if node_log is None or node_log.journal is None:
        return None
    term, number = node_log.position
    return LogPosition(node_log.place, node_log.node, term, number, 0, node_log.acknowledges_locally)
