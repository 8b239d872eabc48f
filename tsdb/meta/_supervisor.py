"""Failure detection of datanodes, and failover of the regions of lost ones.

A node is suspected when its lease has certainly expired and its heartbeats are overdue (`_detector.py`), or when it has
announced that it stops. Before its regions are moved, the leader calls it: one that answers is only cut off from this
server, and nothing is moved for a while. If its address refuses connections, the takeover begins before the lease has
expired, because reading the log takes a while.

Nothing is moved while maintenance mode is on, or while so many nodes are silent at once that they are hardly the
reason. Nodes that vanish at the same moment are missed one after the other, because the last heartbeats of them are up
to an interval apart. So a node counts as lost alone only when enough others have sent a heartbeat since the one that
it has missed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tsdb.clock import Clock
from tsdb.meta._detector import THRESHOLD, PhiDetector, is_braked
from tsdb.meta._nodes import HEARTBEAT, SKEW, LogKind, NodeRegistry, NodeState
from tsdb.model import NodeRole, Peer
from tsdb.telemetry import gauge, get_logger

UNHEARD_SECONDS = 60.0
"""How long a new leader waits for a first heartbeat of a node: after a power cut, all nodes come back."""
UNHEARD_ALONE_SECONDS = 20.0
"""How long it waits when most other nodes have sent heartbeats since then: then it was no power cut. That needs no
heartbeats in the metadata, which would cost a transaction for each of them."""
REACHABLE_SECONDS = 60.0
"""How long a node that still answers requests may send no heartbeats."""
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 60.0, 3600.0
"""When regions of a lost node that could not be moved are tried again: later each time."""

MISSED_BEATS = 2
"""After this many missed heartbeats, the leader checks whether the address of a node accepts connections."""
_CONNECT_SECONDS = 1.0

_log = get_logger("tsdb.meta")
_SUSPECTED = gauge("tsdb_meta_suspected_nodes", "Datanodes with regions that the leader considers lost.")
_BRAKED = gauge(
    "tsdb_meta_failover_braked", "1 while no regions are moved because too many datanodes are silent at once, else 0."
)


@dataclass(frozen=True, slots=True)
class Supervision:
    """When failovers start."""

    is_enabled: bool = False
    """Whether lost nodes are failed over at all."""
    unheard_seconds: float = UNHEARD_SECONDS
    unheard_alone_seconds: float = UNHEARD_ALONE_SECONDS
    reachable_seconds: float = REACHABLE_SECONDS
    again_seconds: float = AGAIN_SECONDS
    heartbeat_seconds: float = HEARTBEAT.seconds
    """The expected interval of heartbeats before any were received."""


def is_refused(address: str) -> bool:
    """Whether a connection to the address is refused: the machine is up, but no process listens."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


class FailureSupervisor:
    """Decides which nodes are lost. Only the thread that calls `tick` uses it."""

    def __init__(
        self,
        nodes: NodeRegistry,
        clock: Clock,
        settings: Supervision,
        *,
        region_counts: Callable[[], Mapping[int, int]],
        is_in_maintenance: Callable[[], bool],
        answers: Callable[[Peer], bool],
        is_refused: Callable[[str], bool] = is_refused,
        fail_over: Callable[[int, str], object],
    ) -> None:
        self._nodes = nodes
        self._clock = clock
        self._settings = settings
        self._region_counts = region_counts
        self._is_in_maintenance = is_in_maintenance
        self._answers = answers
        self._is_refused = is_refused
        self._fail_over = fail_over
        self._detectors: dict[int, PhiDetector] = {}
        self._heard_ns: dict[int, int] = {}
        self._begun: dict[int, tuple[float, float]] = {}
        """By node, when its regions may be tried again, and how long after that."""
        self._held: dict[int, float] = {}
        """By node that is lost together with others, until when that was so."""
        self._was_braked = False
        self._patience = settings.unheard_seconds
        """How long a node that never sent a heartbeat may be silent."""

    def tick(self) -> list[int]:
        """Check all datanodes, start failovers that are due, and return the suspected nodes."""
        counts = self._region_counts()
        known = self._nodes.states(NodeRole.DATANODE)
        states = [each for each in known if self._counts_in(each, counts)]
        for state in states:
            self._listen(state)
        self._patience = self._choose_patience(states)
        suspects = [each for each in states if self._is_suspect(each) and counts.get(each.description.node_id)]
        _SUSPECTED.set(len(suspects))
        if self._settings.is_enabled and suspects and not self._is_held_back(suspects, len(states)):
            others = [each for each in known if each.description.node_id not in self._begun or each in states]
            for state in suspects:
                if state.has_left or self._is_lost_alone(state, others):
                    self._consider(state)
        return [each.description.node_id for each in suspects]

    def _counts_in(self, state: NodeState, counts: Mapping[int, int]) -> bool:
        """Nodes that are lost and have no regions are not counted."""
        return self._nodes.may_live(state) or bool(counts.get(state.description.node_id))

    def _choose_patience(self, states: Sequence[NodeState]) -> float:
        unheard = sum(each.heard_ns is None for each in states)
        is_alone = unheard < len(states) and not is_braked(unheard, len(states))
        settings = self._settings
        return min(settings.unheard_seconds, settings.unheard_alone_seconds) if is_alone else settings.unheard_seconds

    def _listen(self, state: NodeState) -> None:
        node_id = state.description.node_id
        if state.heard_ns is None or self._heard_ns.get(node_id) == state.heard_ns:
            return
        self._heard_ns[node_id] = state.heard_ns
        self._begun.pop(node_id, None)
        self._held.pop(node_id, None)
        self._detectors.setdefault(node_id, PhiDetector(self._settings.heartbeat_seconds)).heard(state.heard_ns / 1e9)

    def _is_suspect(self, state: NodeState) -> bool:
        if self._nodes.may_live(state):
            is_silent = self._nodes.silent_seconds(state) >= MISSED_BEATS * self._settings.heartbeat_seconds
            return state.heard_ns is not None and is_silent and self._is_refused(state.description.address)
        if state.has_left:
            return True
        if state.heard_ns is None:
            return self._nodes.silent_seconds(state) >= self._patience
        return self._detectors[state.description.node_id].phi(self._clock.monotonic_ns() / 1e9) >= THRESHOLD

    def _is_held_back(self, suspects: Sequence[NodeState], nodes: int) -> bool:
        braked = is_braked(len(suspects), nodes)
        _BRAKED.set(braked)
        if braked:
            self._hold(suspects)
        if braked and not self._was_braked:
            _log.error(
                "too many datanodes are silent: no regions are moved",
                silent=len(suspects),
                nodes=nodes,
                hint="check the network; a failover can be ordered for each lost node",
            )
        self._was_braked = braked
        return braked or self._is_in_maintenance()

    def _hold(self, suspects: Sequence[NodeState]) -> None:
        now = self._clock.monotonic_ns() / 1e9
        for state in suspects:
            self._held[state.description.node_id] = now

    def _is_lost_alone(self, suspect: NodeState, nodes: Sequence[NodeState]) -> bool:
        """Whether enough of the nodes that lived when a node was last heard have been heard since.

        Nodes that were silent together come back one after the other: the last of them get some time for that.
        """
        silent, interval = self._nodes.silent_seconds(suspect), self._settings.heartbeat_seconds
        lease = self._nodes.lease.seconds + SKEW.seconds
        silences = [self._nodes.silent_seconds(each) for each in nodes if not each.has_left]
        of_living = [each for each in silences if each < silent + lease]
        together = [each for each in of_living if each >= silent - interval]
        if is_braked(len(together), len(of_living)):
            # The next heartbeat of a node that lives may only be a little late.
            if is_braked(sum(each >= MISSED_BEATS * interval for each in together), len(of_living)):
                _BRAKED.set(True)
                self._hold([suspect])
            return False
        held = self._held.get(suspect.description.node_id)
        return held is None or self._clock.monotonic_ns() / 1e9 >= held + self._settings.unheard_alone_seconds

    def _consider(self, state: NodeState) -> None:
        node_id, silent = state.description.node_id, self._nodes.silent_seconds(state)
        now = self._clock.monotonic_ns() / 1e9
        due, pause = self._begun.get(node_id, (now, self._settings.again_seconds))
        if now < due:
            return
        peer = Peer(node_id, state.description.address)
        if not state.has_left and silent < self._settings.reachable_seconds and self._answers(peer):
            _log.warning("a datanode sends no heartbeats but answers requests", node=node_id)
            return
        if state.description.log == LogKind.NONE:
            self._begun[node_id] = now + pause, min(AGAIN_SECONDS_MAX, 2 * pause)
            _log.error(
                "the regions of a lost datanode are down until it is back: rows are only on its own disk",
                node=node_id,
                silent_seconds=round(silent),
                hint="start it again; with storage that all datanodes reach and a shared log regions can be moved",
            )
            return
        self._begun[node_id] = now + pause, min(AGAIN_SECONDS_MAX, 2 * pause)
        self._fail_over(node_id, "it was stopped" if state.has_left else f"not heard of for {silent:.0f} s")
