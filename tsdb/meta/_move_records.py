"""Records of regions that change their node, in the metadata: written before anything is done, kept for a while after.

    __failover/{node}/{id}     a node was lost: its regions go to others
    __migration/{id}           one region goes from one node to another, because an operator wants it

A leader that takes over goes on with those that are not finished. What a region is doing is in its place: while it
`is_moving`, nobody opens it but the procedure that moves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import orjson

from tsdb.kv import DeleteKey, KvStore, PutKey
from tsdb.model import RegionId
from tsdb.telemetry import get_logger

FAILOVERS = "__failover/"
MIGRATIONS = "__migration/"
REGIONS_MAX = 500
"""How many regions one record has; a node with more has several."""
KEPT_MAX = 200
"""How many finished records of each kind are kept."""

_log = get_logger("tsdb.meta")


class MoveState(StrEnum):
    """What became of a move."""

    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


@dataclass(frozen=True, slots=True)
class RegionMove:
    """One region on its way."""

    region_id: RegionId
    state: MoveState = MoveState.RUNNING
    to_node: int | None = None
    epoch: int | None = None
    error: str | None = None
    ended_ms: int | None = None
    reported_entry: int | None = None
    """The last entry of the log that the lost node told of."""
    lost_from_entry: int | None = None
    """From this entry on rows may be missing; None if all were there to be read."""
    lost_to_entry: int | None = None
    """Up to here the lost node had certainly written."""
    recovered_rows: int | None = None
    """What the lost node handed in when it was back; None as long as it has not."""


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """Regions that leave one node."""

    id: str
    from_node: int
    reason: str
    started_ms: int
    regions: tuple[RegionMove, ...]
    is_failover: bool
    to_node: int | None = None
    """Where they go; None: the selector decides."""
    state: MoveState = MoveState.RUNNING
    ended_ms: int | None = None

    @property
    def key(self) -> str:
        return f"{FAILOVERS}{self.from_node}/{self.id}" if self.is_failover else f"{MIGRATIONS}{self.id}"

    @property
    def put(self) -> PutKey:
        return PutKey(self.key, orjson.dumps(self.to_json()))

    @property
    def left(self) -> list[RegionMove]:
        return [each for each in self.regions if each.state is MoveState.RUNNING]

    @property
    def lacks_rows(self) -> bool:
        """Whether rows may be missing in a region, or were."""
        return any(each.lost_from_entry is not None for each in self.regions)

    def with_moves(self, changed: Iterable[RegionMove]) -> MoveRecord:
        by_id = {each.region_id: each for each in changed}
        return replace(self, regions=tuple(by_id.get(each.region_id, each) for each in self.regions))

    def with_recovered(self, stored: MoveRecord) -> MoveRecord:
        """The record, with what others have noted in it meanwhile."""
        known = {each.region_id: each.recovered_rows for each in stored.regions if each.recovered_rows is not None}
        if not known:
            return self
        return self.with_moves(
            replace(each, recovered_rows=known[each.region_id]) for each in self.regions if each.region_id in known
        )

    def ended(self, now_ms: int) -> MoveRecord:
        """The record as it is kept, when nothing is left."""
        states = {each.state for each in self.regions}
        failed = MoveState.FAILED if MoveState.FAILED in states or MoveState.RUNNING in states else None
        cancelled = MoveState.CANCELLED if states == {MoveState.CANCELLED} else None
        return replace(self, state=failed or cancelled or MoveState.DONE, ended_ms=now_ms)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> MoveRecord:
        moves = tuple(RegionMove(**{**each, "state": MoveState(each["state"])}) for each in value["regions"])
        return cls(**{**value, "regions": moves, "state": MoveState(value["state"])})


@dataclass(slots=True)
class LoadedRecords:
    """All records."""

    running: list[MoveRecord] = field(default_factory=list)
    ended: list[MoveRecord] = field(default_factory=list)


def load_records(kv: KvStore) -> LoadedRecords:
    """Read all records, the oldest first."""
    found = LoadedRecords()
    for key, value in (*kv.scan(FAILOVERS), *kv.scan(MIGRATIONS)):
        try:
            record = MoveRecord.from_json(orjson.loads(value))
        except (ValueError, KeyError, TypeError) as error:
            _log.error("the record of a move cannot be read", key=key, error=str(error))
            continue
        (found.running if record.state is MoveState.RUNNING else found.ended).append(record)
    for records in (found.running, found.ended):
        records.sort(key=lambda record: (record.started_ms, record.id))
    return found


def read_failovers(kv: KvStore) -> list[MoveRecord]:
    """Return the regions that were taken from nodes without their help, the oldest first; those on their way last.

    Among them are those of migrations that may lack rows.
    """
    found = load_records(kv)
    return [record for record in (*found.ended, *found.running) if record.is_failover or record.lacks_rows]


def forget_old_records(kv: KvStore) -> None:
    """Remove the oldest of the finished records, if there are too many."""
    ended = load_records(kv).ended
    for is_failover in (True, False):
        kind = [record for record in ended if record.is_failover is is_failover]
        for record in kind[: max(0, len(kind) - KEPT_MAX)]:
            kv.transact([], [DeleteKey(record.key)])
