"""The shared logs of datanodes, as far as backups need them: where they are, and what the cluster notes in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tsdb.backup._position import NodePosition
from tsdb.backup.cluster._wire import read_catalog_note
from tsdb.engine import Engine, NodeLog
from tsdb.errors import TsdbError, Unsupported
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.backup")


def describe_log(engine: Engine) -> dict[str, Any]:
    """Say where the log of this node is, before its regions are flushed."""
    found = engine.context.wal.node_log
    if found is None:
        return {"position": None}
    term, number = found.position
    return {
        "position": {
            "node": found.node,
            "term": term,
            "number": number,
            "is_kept": found.journal is not None,
            "acknowledges_locally": found.acknowledges_locally,
            "place": found.place,
        }
    }


def note_catalog(engine: Engine, request: Mapping[str, Any]) -> dict[str, Any]:
    """Note a change of the metadata of the cluster; it is in the store when this returns."""
    node_log = engine.context.wal.node_log
    if node_log is None or node_log.journal is None:
        raise Unsupported(
            "this datanode does not retain its shared log", hint="set wal.shared.retention on all datanodes"
        )
    node_log.journal.write_catalog(read_catalog_note(request))
    return {}


def join_positions(
    own: NodeLog | None, answers: Mapping[int, Mapping[str, Any] | TsdbError]
) -> tuple[NodePosition, ...] | None:
    """Return where the logs of all nodes are, given what datanodes said; None if they are not kept.

    A node that does not answer has no region that the backup takes from it: its regions move before they are taken. So
    what its log has by now is in data files by then.
    """
    if own is None or own.journal is None:
        return None
    found: dict[int, NodePosition] = {}
    for node, answer in answers.items():
        if isinstance(answer, TsdbError):
            _log.info("a datanode did not report the position of its log", node=node, error=answer)
            continue
        position = answer.get("position")
        reason = _why_not(own, position)
        if reason is not None or position is None:
            _log.warning("the backup cannot be rolled forward to a point in time", node=node, reason=reason)
            return None
        found[node] = NodePosition(node, position["term"], position["number"], is_kept=True)
    logs = own.read_past()
    for node in logs.nodes():
        if node not in found:
            term, number = logs.of(node).tail()
            found[node] = NodePosition(node, term, number, is_kept=False)
    return tuple(found[node] for node in sorted(found))


def _why_not(own: NodeLog, position: Mapping[str, Any] | None) -> str | None:
    if position is None or not position["is_kept"]:
        return "the datanode does not keep its log"
    if position["acknowledges_locally"]:
        return "the datanode acknowledges rows before the store has them"
    if position["place"] != own.place:
        return f"its log is in {position['place']}, others are in {own.place}"
    return None
