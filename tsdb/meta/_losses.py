"""Records of rows that failovers may have lost, and of those that were recovered.

A datanode with `wal.shared.acknowledge = "local"` acknowledges rows before others can read them. When its regions are
moved without it, by a failover or because it did not answer to a migration, the record of the move has the first log
entry that may be missing, and the last one that the node reported. When the node is back, it sends its late rows
(`tsdb.engine.region.hand_in`) and reports that here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson

from tsdb.kv import Equals, KvConflict, KvStore
from tsdb.meta._move_records import MoveRecord, MoveState, RegionMove, load_records
from tsdb.meta._nodes import LogKind, NodeRegistry
from tsdb.model import Peer, RegionId
from tsdb.telemetry import get_logger

_CONFLICTS_MAX = 100
_log = get_logger("tsdb.meta")


class TakeoverCalls(Protocol):
    """What is asked of a datanode that has taken regions over."""

    def takeovers(self, peer: Peer, region_ids: Sequence[RegionId]) -> Mapping[RegionId, Sequence[tuple[int, int]]]: ...


def may_lack_rows(nodes: NodeRegistry, node_id: int) -> bool:
    """Whether a node acknowledges rows that others cannot read yet."""
    state = nodes.find_datanode(node_id)
    return state is not None and state.description.log == LogKind.LOCAL


def reported_entries(nodes: NodeRegistry, node_id: int) -> dict[RegionId, int]:
    """The last entries of regions that a node has reported."""
    state = nodes.find_datanode(node_id)
    found: Any = {} if state is None else state.report.get("entries", {})
    return {RegionId(int(region)): int(entry) for region, entry in found.items()} if isinstance(found, dict) else {}


def note_losses(calls: TakeoverCalls, peer: Peer, from_node: int, moves: Iterable[RegionMove]) -> list[RegionMove]:
    """Note, of regions that are moved or stay with their node, from where on rows may be missing."""
    ended = (MoveState.DONE, MoveState.FAILED)
    done = [move for move in moves if move.state in ended and move.epoch is not None]
    try:
        found = calls.takeovers(peer, [move.region_id for move in done]) if done else {}
    except Exception as error:  # noqa: BLE001 - the regions are moved, whatever is known of their losses
        _log.error("it is unknown what the failover of a datanode has lost", node=from_node, error=str(error))
        return []
    noted = []
    for move in done:
        entry = dict(found.get(move.region_id, ())).get(move.epoch or 0)
        if entry is not None:
            noted.append(_note(move, from_node, entry))
    return noted


def _note(move: RegionMove, from_node: int, entry: int) -> RegionMove:
    last = move.reported_entry if move.reported_entry is not None and move.reported_entry > entry else None
    _log.warning(
        "rows that a lost datanode acknowledged locally may be missing; it sends them when it is back",
        region=move.region_id,
        node=from_node,
        from_entry=entry + 1,
        to_entry=last,
    )
    return replace(move, lost_from_entry=entry + 1, lost_to_entry=last)


def open_losses(kv: KvStore, node_id: int) -> list[tuple[RegionId, int]]:
    """Return the regions, and epochs of their new owners, of which a node may still have rows."""
    return [
        (move.region_id, move.epoch)
        for record in load_records(kv).ended
        if record.from_node == node_id
        for move in record.regions
        if move.lost_from_entry is not None and move.recovered_rows is None and move.epoch is not None
    ]


def record_recovered(kv: KvStore, node_id: int, region_id: RegionId, rows: Mapping[int, int]) -> bool:
    """Record how many late rows a node has sent, by the epoch of the takeover; False if it has no record."""
    counts: Counter[str] = Counter()
    for epoch, count in rows.items():
        record = _find(kv, node_id, region_id, epoch)
        if record is not None:
            counts[record.key] += count
    for key, count in counts.items():
        _change(kv, key, region_id, count)
    return bool(counts)


def _find(kv: KvStore, node_id: int, region_id: RegionId, epoch: int) -> MoveRecord | None:
    """The move that ended with the takeover; attempts that were repeated have larger epochs."""
    records = load_records(kv)
    found = [
        (move.epoch, record)
        for record in (*records.ended, *records.running)
        if record.from_node == node_id
        for move in record.regions
        if move.region_id == region_id and move.epoch is not None and move.epoch >= epoch
    ]
    return min(found, key=lambda each: each[0])[1] if found else None


def _change(kv: KvStore, key: str, region_id: RegionId, rows: int) -> None:
    for _ in range(_CONFLICTS_MAX):
        found = kv.get(key)
        if found is None:
            return
        record = MoveRecord.from_json(orjson.loads(found))
        changed = record.with_moves(
            replace(each, recovered_rows=rows) for each in record.regions if each.region_id == region_id
        )
        if kv.transact([Equals(key, found)], [changed.put]):
            _log.warning("a lost datanode has sent its late rows", region=region_id, rows=rows)
            return
    raise KvConflict("the record of a failover keeps changing", key=key)
