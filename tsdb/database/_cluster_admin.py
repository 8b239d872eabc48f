"""ADMIN functions of a cluster: where regions are, and changes that take a while."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Protocol

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import RegionId
from tsdb.units import Duration

WAIT_MAX = Duration.of_seconds(600)
"""How long a statement may wait for a region to be moved."""
_LOOK_SECONDS = 0.1
_ENDED = ("Done", "Failed", "Cancelled")


class ClusterCommands(Protocol):
    """What can be asked of the metadata servers."""

    def migrate_region(self, region_id: RegionId, from_node: int, to_node: int) -> str:
        """Begin to move a region; return the id of the procedure."""

    def procedure_state(self, procedure_id: str) -> tuple[str, str | None]:
        """Return the state of a procedure and its error."""

    def balance(self) -> Sequence[str]:
        """Begin to move a few regions from nodes with many to nodes with few; return the ids of the procedures."""

    def retry_procedures(self) -> int:
        """Try at once what could not be finished; return how much that is."""


def migrate_region(
    cluster: ClusterCommands | None, region_id: RegionId, from_node: int, to_node: int, wait: Duration | None
) -> str:
    """Move a region; with `wait`, return when it is moved, or when this time is over. Returns the procedure's id."""
    commands = _required(cluster)
    if wait is not None and wait > WAIT_MAX:
        raise InvalidArguments(f"expected a time of at most {WAIT_MAX}, received {wait}")
    procedure = commands.migrate_region(region_id, from_node, to_node)
    deadline = time.monotonic() + (0.0 if wait is None else wait.seconds)
    while time.monotonic() < deadline:
        if commands.procedure_state(procedure)[0] in _ENDED:
            break
        time.sleep(_LOOK_SECONDS)
    return procedure


def procedure_state(cluster: ClusterCommands | None, procedure_id: Any) -> str:
    """Return the state of a procedure, as JSON."""
    if not isinstance(procedure_id, str):
        raise InvalidArguments(f"expected the id of a procedure as a string, not {procedure_id!r}")
    state, error = _required(cluster).procedure_state(procedure_id)
    return json.dumps({"status": state, "error": error})


def balance_regions(cluster: ClusterCommands | None) -> int:
    """Begin to even out the regions of nodes; return how many are moved."""
    return len(_required(cluster).balance())


def retry_procedures(cluster: ClusterCommands | None) -> int:
    """Try at once what could not be finished; return how much that is."""
    return _required(cluster).retry_procedures()


def _required(cluster: ClusterCommands | None) -> ClusterCommands:
    if cluster is None:
        raise Unsupported("this server is not part of a cluster")
    return cluster
