"""The node registry of the leader: addresses, last heartbeats and reports of all nodes.

- Addresses are in the metadata, so that others find them; heartbeats are only in the memory of the leader.
- A node has a lease: it is alive while its last heartbeat is younger than `LEASE`. A new leader has no heartbeats; for
  one lease it considers every node possibly alive, and places nothing on nodes without a heartbeat.
- A node id belongs to one process at a time, identified by its `start_id`. A second one is refused while the first may
  be alive, unless it has the same address: then the first one has ended.

Leases serve placement and failure detection. That an old process does no harm is up to the epochs of manifests and the
fences of the shared log.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import orjson

from tsdb.clock import Clock
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.kv import DeleteKey, KvStore, PutKey
from tsdb.meta._keys import NODES, node_key
from tsdb.meta.errors import NodeIdInUse, NodeSuperseded
from tsdb.model import NodeRole
from tsdb.telemetry import get_logger
from tsdb.units import Duration

HEARTBEAT = Duration.of_seconds(3)
LEASE = Duration.of_seconds(10)
SKEW = Duration.of_seconds(0.6)
"""A hundredth of a lease for clocks that run at different rates, and time for one more step of a node."""
NODES_MAX = 10_000
FORGOTTEN = Duration.of_seconds(600)
"""A frontend without heartbeats for this long is removed from the metadata; its next heartbeat adds it again."""

_log = get_logger("tsdb.meta")


class LogKind(StrEnum):
    """Where a datanode keeps rows that are in no data file."""

    STORE = "store"
    """In a shared log, before they are acknowledged."""
    LOCAL = "local"
    """On its own disk; they are shipped to a shared log later."""
    NONE = "none"
    """On its own disk only: no other node can take its regions over."""


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """The description that a node registers with."""

    role: NodeRole
    node_id: int
    """Of a datanode; 0 for others."""
    address: str
    """Its address for other nodes: Flight of a datanode, gRPC of a frontend."""
    start_id: str
    """A new one for each start of a process."""
    http: str = ""
    hostname: str = ""
    version: str = ""
    commit: str = ""
    started_ms: int = 0
    log: str = ""
    """A `LogKind`; empty for others than datanodes, and for those of earlier versions."""
    keeps_log: bool = False
    """It retains its shared log for point-in-time recovery, and records schema changes in it."""
    has_local_files: bool = False
    """Its data files are on its own disk: no other node can open its regions."""

    @property
    def key(self) -> str:
        return node_key(self.role, self.node_id if self.role is NodeRole.DATANODE else self.address)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "role": self.role.value}

    @classmethod
    def from_json(cls, value: Any) -> NodeDescription:
        try:
            given = {**value, "role": NodeRole(value["role"]), "node_id": int(value["node_id"])}
            return cls(**{name: given[name] for name in cls.__slots__ if name in given})
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArguments(f"a description of a node cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as the leader sees it at one moment."""

    description: NodeDescription
    heard_ns: int | None = None
    """When its last heartbeat came, by the leader's monotonic clock; None if none came in this leadership."""
    heard_ms: int = 0
    """The same as the time of the day."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """The report of its last heartbeat: regions, load, state of its storage."""
    has_left: bool = False
    """It has announced that it stops, and no longer serves."""


class NodeRegistry:
    """All nodes. Any thread may ask."""

    def __init__(self, kv: KvStore, clock: Clock, *, lease: Duration = LEASE) -> None:
        self.lease = lease
        self._kv = kv
        self._clock = clock
        self._began_ns = clock.monotonic_ns()
        self._lock = threading.Lock()
        self._heard = threading.Condition(self._lock)
        self._nodes: dict[str, NodeState] = {}
        for key, value in kv.scan(NODES):
            try:
                self._nodes[key] = NodeState(NodeDescription.from_json(orjson.loads(value)))
            except (InvalidArguments, ValueError) as error:
                _log.warning("the description of a node cannot be read", key=key, error=error)

    def register(self, node: NodeDescription) -> None:
        """Register a process under its node id; NodeIdInUse while another may be alive."""
        with self._lock:
            found = self._nodes.get(node.key)
            self._check_free(node, found)
            self._check_room(found)
            # Before the metadata is written, so that of two that come at once one is refused.
            self._nodes[node.key] = self._now_heard(NodeState(node))
            self._heard.notify_all()
        try:
            self._store(node)
        except TsdbError:
            with self._lock:
                if found is None:
                    self._nodes.pop(node.key, None)
                else:
                    self._nodes[node.key] = found
            raise
        _log.info("a node is registered", role=node.role.value, node=node.node_id, address=node.address)

    def heartbeat(self, node: NodeDescription, report: Mapping[str, Any]) -> bool:
        """Record a heartbeat; return False if the node has to register first."""
        with self._lock:
            found = self._nodes.get(node.key)
            if found is not None and found.description.start_id != node.start_id:
                if node.role is NodeRole.DATANODE:
                    raise NodeSuperseded(
                        "another process has registered with this node id",
                        node_id=node.node_id,
                        address=found.description.address,
                        hint="give each datanode a node_id of its own",
                    )
                found = None
            if found is None and node.role is NodeRole.DATANODE:
                return False
            self._check_room(found)
        if found is None or found.description != node:
            self._store(node)
        with self._heard:
            self._nodes[node.key] = self._now_heard(NodeState(node, report=report))
            self._heard.notify_all()
        return True

    def leave(self, node_id: int, start_id: str) -> None:
        """Record a clean shutdown of a datanode; a newer process with its id stays."""
        key = node_key(NodeRole.DATANODE, node_id)
        with self._lock:
            found = self._nodes.get(key)
            if found is not None and found.description.start_id == start_id:
                self._nodes[key] = replace(found, has_left=True)
        _log.info("a datanode has left", node=node_id)

    def states(self, role: NodeRole | None = None) -> list[NodeState]:
        """All nodes that are known, by key."""
        with self._lock:
            return [state for _, state in sorted(self._nodes.items()) if role in (None, state.description.role)]

    def find_datanode(self, node_id: int) -> NodeState | None:
        return self._nodes.get(node_key(NodeRole.DATANODE, node_id))

    def live_datanodes(self) -> list[int]:
        """The ids of the datanodes with a valid lease."""
        return [state.description.node_id for state in self.states(NodeRole.DATANODE) if self.is_alive(state)]

    def wait_live_datanodes(self, timeout_seconds: float) -> list[int]:
        """As above; a new leader waits for the first heartbeats."""
        deadline_ns = self._clock.monotonic_ns() + round(timeout_seconds * 1e9)
        while True:
            found = self.live_datanodes()
            left = (deadline_ns - self._clock.monotonic_ns()) / 1e9
            if found or left <= 0 or not self._is_young():
                return found
            with self._heard:
                self._heard.wait(min(left, 0.1))

    def is_alive(self, state: NodeState) -> bool:
        """Whether a node has a valid lease."""
        return (
            not state.has_left
            and state.heard_ns is not None
            and self._clock.monotonic_ns() < state.heard_ns + self.lease
        )

    def may_live(self, state: NodeState) -> bool:
        """Whether a node may still consider its lease valid."""
        if state.has_left:
            return False
        since_ns = self._began_ns if state.heard_ns is None else state.heard_ns
        return self._clock.monotonic_ns() < since_ns + self.lease + SKEW

    def silent_seconds(self, state: NodeState) -> float:
        """The time since the last heartbeat of a node, at least."""
        since_ns = self._began_ns if state.heard_ns is None else state.heard_ns
        return (self._clock.monotonic_ns() - since_ns) / 1e9

    def forget_silent_frontends(self) -> None:
        """Remove frontends without heartbeats for long from the metadata: their addresses are not reused."""
        for state in self.states(NodeRole.FRONTEND):
            if self.silent_seconds(state) > FORGOTTEN.seconds:
                key = state.description.key
                if self._kv.transact([], [DeleteKey(key)]):
                    with self._lock:
                        self._nodes.pop(key, None)

    def _is_young(self) -> bool:
        return self._clock.monotonic_ns() < self._began_ns + self.lease

    def _now_heard(self, state: NodeState) -> NodeState:
        now_ns = self._clock.monotonic_ns()
        return replace(state, heard_ns=now_ns, heard_ms=self._clock.now_ns() // 1_000_000)

    def _check_free(self, node: NodeDescription, found: NodeState | None) -> None:
        if found is None or found.description.start_id == node.start_id:
            return
        if found.description.address != node.address and self.may_live(found):
            raise NodeIdInUse(
                f"the node id {node.node_id} belongs to a datanode that is alive",
                address=found.description.address,
                hint="give each datanode a node_id of its own, or wait until the other one has been silent for "
                f"{self.lease}",
            )

    def _check_room(self, found: NodeState | None) -> None:
        if found is None and len(self._nodes) >= NODES_MAX:
            raise InvalidArguments(f"the cluster has {NODES_MAX} nodes, which is the limit")

    def _store(self, node: NodeDescription) -> None:
        self._kv.transact([], [PutKey(node.key, orjson.dumps(node.to_json()))])
