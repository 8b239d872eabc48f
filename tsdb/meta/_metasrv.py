"""One metadata server: its part in the election, its copy of the metadata, and its work while it leads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import orjson

from tsdb.catalog import CatalogChange
from tsdb.clock import Clock, SystemClock
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.kv import CoordinationStore, DeleteKey, KvUnavailable, KvWatch, Leadership, LeadershipLost, MirrorKv, PutKey
from tsdb.meta._keys import CATALOG_VERSION, EVERYTHING, MAINTENANCE
from tsdb.meta._leader import LeaderSettings, MakeRegions, MetaLeader
from tsdb.meta._nodes import HEARTBEAT, LogKind, NodeDescription, NodeState
from tsdb.meta._places import PlaceIndex
from tsdb.meta._wire import compare_from_json, operation_from_json
from tsdb.meta.election import MetasrvElection
from tsdb.meta.errors import ChangeOutcomeUnknown, NotLeader
from tsdb.model import NodeRole, RegionId
from tsdb.telemetry import gauge, get_logger

ELECTION_TTL_SECONDS = 5
START_SECONDS_MAX = 30.0
"""How long the metadata may take to be read at the start."""
REPORT_BYTES_MAX = 64 << 10
"""How much a node may say of itself with a heartbeat."""
WAIT_SECONDS_MAX = 600.0
"""How long a client may wait for one change."""

_log = get_logger("tsdb.meta")
_LEADS = gauge("tsdb_meta_leader", "1 if this metasrv is the leader, else 0.")
_LIVE = gauge("tsdb_meta_live_nodes", "Nodes with a valid lease at the leader.", labels=["role"])


@dataclass(frozen=True, slots=True)
class MetasrvSettings:
    """How a metadata server works."""

    address: str
    """Where clients and other servers reach it."""
    election_ttl_seconds: int = ELECTION_TTL_SECONDS
    leader: LeaderSettings = field(default_factory=LeaderSettings)


class Metasrv:
    """A metadata server without its gRPC. Answers are JSON values."""

    def __init__(
        self,
        store: CoordinationStore,
        make_regions: MakeRegions,
        settings: MetasrvSettings,
        *,
        clock: Clock | None = None,
        ids: Ids = SYSTEM_IDS,
    ) -> None:
        self.settings = settings
        self._store = store
        self._make_regions = make_regions
        self._clock = clock or SystemClock()
        self._ids = ids
        self._mirror = MirrorKv(store.watch(EVERYTHING), _refuse, name="metasrv")
        self._places = PlaceIndex(self._mirror)
        self._leader: MetaLeader | None = None
        self._lock = threading.Lock()
        self._election = MetasrvElection(
            store,
            address=settings.address,
            ttl_seconds=settings.election_ttl_seconds,
            on_elected=self._lead,
            on_deposed=self._step_down,
        )

    def start(self) -> None:
        """Read the metadata and take part in the election; KvUnavailable if the store does not answer."""
        self._store.revision(CATALOG_VERSION)
        self._mirror.start(START_SECONDS_MAX)
        self._election.start()

    def stop(self) -> None:
        """Let another server lead, and end. The store stays open."""
        self._election.stop()
        self._mirror.close()

    @property
    def problem(self) -> str | None:
        """Why the metadata cannot be reached, if it cannot."""
        return self._mirror.problem

    def is_leader(self) -> bool:
        return self._election.is_leader() and self._leader is not None

    def leader_address(self) -> str | None:
        return self._election.leader()

    def leading(self) -> MetaLeader:
        """Return the work of the leader; NotLeader, with the address of the one that leads, on other servers."""
        leader = self._leader
        if leader is None or not self._election.is_leader():
            raise NotLeader(None if leader is not None else self._election.leader())
        return leader

    def watch(self, after_revision: int | None) -> KvWatch:
        """Watch all of the metadata."""
        return self._store.watch(EVERYTHING, after_revision=after_revision)

    def answer(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a call of a client."""
        return _METHODS[method](self, request)

    def _register(self, request: dict[str, Any]) -> dict[str, Any]:
        leader = self.leading()
        node = NodeDescription.from_json(request.get("node"))
        openings = leader.register(node)
        lost = leader.open_losses(node.node_id) if node.log == LogKind.LOCAL else []
        lease = {"lease_ms": leader.nodes.lease // 1_000_000, "heartbeat_ms": HEARTBEAT // 1_000_000}
        return {"value": {"regions": [each.to_json() for each in openings], "lost": lost, **lease, "term": leader.term}}

    def _heartbeat(self, request: dict[str, Any]) -> dict[str, Any]:
        leader = self.leading()
        node = NodeDescription.from_json(request.get("node"))
        regions = [RegionId(int(each)) for each in request.get("regions", [])]
        is_known, close = leader.heartbeat(node, _report(request), regions)
        answer = {"is_registered": is_known, "close": close, "lease_ms": leader.nodes.lease // 1_000_000}
        if is_known and request.get("asks_for_missing"):
            answer["missing"] = [each.to_json() for each in leader.missing(node.node_id, frozenset(regions))]
        return {"value": {**answer, "sent_ns": request.get("sent_ns"), "term": leader.term}}

    def _change(self, request: dict[str, Any]) -> dict[str, Any]:
        leader = self.leading()
        change = CatalogChange.from_json(request.get("change"))
        procedure_id = str(request.get("id") or self._ids.token(16))
        record = leader.change(procedure_id, change)
        if not record.ended.wait(min(WAIT_SECONDS_MAX, float(request.get("wait_ms", 0)) / 1000)):
            leader.outcomes.promise(record)
            return {"value": {"pending": procedure_id}, "revision": 0}
        revision = leader.kv.version()
        if isinstance(record.error, LeadershipLost):
            if not record.began_ms:
                raise NotLeader(self._election.leader())
            raise ChangeRefused(_unknown_outcome(change, procedure_id), revision)
        if record.error is not None:
            raise ChangeRefused(record.error, revision)
        return {"value": {"result": record.result, "id": procedure_id}, "revision": revision}

    def _transact(self, request: dict[str, Any]) -> dict[str, Any]:
        leader = self.leading()
        compares = [compare_from_json(each) for each in request.get("compares", [])]
        operations = [operation_from_json(each) for each in request.get("operations", [])]
        has_happened = leader.transact(compares, operations)
        return {"value": has_happened, "revision": leader.kv.version()}

    def _nodes(self, request: dict[str, Any]) -> dict[str, Any]:
        leader = self.leading()
        nodes = [self._node_to_json(leader, each) for each in leader.nodes.states()]
        servers = self._election.candidates()
        return {"value": {"nodes": nodes, "metasrvs": servers, "leader": self.settings.address}}

    def _procedure(self, request: dict[str, Any]) -> dict[str, Any]:
        leader = self.leading()
        procedure_id = request.get("id")
        if procedure_id is None:
            return {"value": leader.outcomes.recent()}
        found = leader.outcomes.find(str(procedure_id))
        if found is None:
            raise InvalidArguments(
                f"there is no procedure {procedure_id}",
                hint="the newest ones are remembered; one that was refused before it changed anything, not by the next "
                "leader",
            )
        return {"value": found}

    def _command(self, request: dict[str, Any]) -> dict[str, Any]:
        leader = self.leading()
        kind = request.get("kind")
        if kind == "maintenance":
            self._switch_maintenance(leader, is_on=bool(request.get("is_on")))
            return {"value": self.maintenance(), "revision": leader.kv.version()}
        if kind == "migrate_region":
            region, from_node, to_node = (_number(request, name) for name in ("region_id", "from_node", "to_node"))
            return {"value": {"procedure": leader.migrate(RegionId(region), from_node, to_node).id}}
        if kind == "balance_regions":
            return {"value": {"procedures": [each.id for each in leader.balance()]}}
        if kind == "retry_procedures":
            return {"value": {"left": leader.retry()}}
        if kind == "leave":
            leader.nodes.leave(_number(request, "node_id"), str(request.get("start_id")))
            return {"value": None}
        if kind == "owner":
            found = leader.owner_of(RegionId(_number(request, "region_id")))
            owner = None if found is None else {**asdict(found[0]), "is_moving": found[1]}
            return {"value": owner}
        if kind == "recovered":
            rows = {int(epoch): int(count) for epoch, count in request.get("rows", {}).items()}
            region = RegionId(_number(request, "region_id"))
            return {"value": leader.recovered(_number(request, "node_id"), region, rows)}
        if kind == "hold_tables":
            return {"value": {"revision": leader.holds.hold(str(request.get("token")))}}
        if kind == "release_tables":
            return {"value": {"was_held": leader.holds.release(str(request.get("token")))}}
        if kind == "failover":
            begun = leader.fail_over(_number(request, "node_id"), "ordered")
            return {"value": {"procedures": [each.id for each in begun]}}
        raise InvalidArguments(f"there is no command called {kind!r}")

    def _version(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"value": None, "revision": self._store.revision(CATALOG_VERSION)}

    def maintenance(self) -> dict[str, Any]:
        """Whether failovers are switched off, and since when."""
        found = self._store.get(MAINTENANCE)
        return {"is_on": found is not None, **({} if found is None else orjson.loads(found))}

    def _switch_maintenance(self, leader: MetaLeader, *, is_on: bool) -> None:
        if is_on:
            since_ms = self._clock.now_ns() // 1_000_000
            leader.kv.transact([], [PutKey(MAINTENANCE, orjson.dumps({"since_ms": since_ms}))])
        else:
            leader.kv.transact([], [DeleteKey(MAINTENANCE)])
        _log.info("maintenance mode was switched", is_on=is_on)

    def _node_to_json(self, leader: MetaLeader, state: NodeState) -> dict[str, Any]:
        return {
            **state.description.to_json(),
            "is_alive": leader.nodes.is_alive(state),
            "heard_ms": state.heard_ms,
            "silent_seconds": leader.nodes.silent_seconds(state),
            "report": dict(state.report),
        }

    def _lead(self, leadership: Leadership) -> None:
        leader = MetaLeader(
            self._store, leadership, self._places, self._make_regions, self._clock, self.settings.leader, self._ids
        )
        with self._lock:
            self._leader = leader
        leader.start()
        _LEADS.set(1)
        for role in (NodeRole.DATANODE, NodeRole.FRONTEND):
            _LIVE.labels(role.value.lower()).set_function(partial(self._count_live, role))

    def _step_down(self) -> None:
        with self._lock:
            leader, self._leader = self._leader, None
        _LEADS.set(0)
        if leader is not None:
            leader.stop()

    def _count_live(self, role: NodeRole) -> int:
        leader = self._leader
        return 0 if leader is None else sum(leader.nodes.is_alive(each) for each in leader.nodes.states(role))


class ChangeRefused(Exception):
    """A change was refused or failed: the error, and the revision of the metadata that shows why."""

    def __init__(self, error: TsdbError, revision: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.revision = revision


def _report(request: dict[str, Any]) -> dict[str, Any]:
    """What a node says of itself, which is kept until its next heartbeat."""
    found = request.get("report", {})
    if not isinstance(found, dict) or len(orjson.dumps(found)) > REPORT_BYTES_MAX:
        raise InvalidArguments(f"the report of a node is an object of at most {REPORT_BYTES_MAX} bytes")
    return found


def _number(request: dict[str, Any], name: str) -> int:
    found = request.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise InvalidArguments(f"{name} is not a number", value=found)
    return found


def _unknown_outcome(change: CatalogChange, procedure_id: str) -> ChangeOutcomeUnknown:
    return ChangeOutcomeUnknown(
        "another server became the leader during the change; it completes the change or rolls it back",
        change=change.kind,
        procedure=procedure_id,
        hint=f"check whether it was made before you send it again: ADMIN procedure_state('{procedure_id}')",
    )


def _refuse(*_: object) -> int:
    raise KvUnavailable("the copy of a metadata server is only read")


_METHODS: dict[str, Callable[[Metasrv, dict[str, Any]], dict[str, Any]]] = {
    "Register": Metasrv._register,
    "Heartbeat": Metasrv._heartbeat,
    "Change": Metasrv._change,
    "Transact": Metasrv._transact,
    "Nodes": Metasrv._nodes,
    "Procedure": Metasrv._procedure,
    "Command": Metasrv._command,
    "Version": Metasrv._version,
}
