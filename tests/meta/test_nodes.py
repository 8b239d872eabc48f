"""Nodes and their leases, with a clock of the test."""

from __future__ import annotations

import pytest

from tests.meta.clusters import datanode
from tsdb.clock import ManualClock
from tsdb.errors import InvalidArguments
from tsdb.kv import KvUnavailable, MemoryKv
from tsdb.meta._nodes import FORGOTTEN, LEASE, SKEW, NodeDescription, NodeRegistry
from tsdb.meta.errors import NodeIdInUse, NodeSuperseded
from tsdb.model import NodeRole


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(10**18)


def frontend(address: str = "f:4001", start_id: str = "s") -> NodeDescription:
    return NodeDescription(NodeRole.FRONTEND, 0, address, start_id)


def test_a_node_is_alive_for_one_lease_after_each_heartbeat(clock: ManualClock) -> None:
    nodes = NodeRegistry(MemoryKv(), clock)
    nodes.register(datanode(1))
    for _ in range(3):
        clock.advance(seconds=LEASE.seconds - 0.1)
        assert nodes.live_datanodes() == [1]
        assert nodes.heartbeat(datanode(1), {})
    clock.advance(seconds=LEASE.seconds)
    assert nodes.live_datanodes() == []
    state = nodes.find_datanode(1)
    assert state is not None
    assert nodes.may_live(state)
    clock.advance(seconds=SKEW.seconds)
    assert not nodes.may_live(state)
    assert nodes.heartbeat(datanode(1), {})
    assert nodes.live_datanodes() == [1]


def test_a_new_leader_takes_every_node_for_possibly_alive_for_one_lease(clock: ManualClock) -> None:
    kv = MemoryKv()
    NodeRegistry(kv, clock).register(datanode(1))
    nodes = NodeRegistry(kv, clock)
    assert nodes.live_datanodes() == []
    other = datanode(1, start_id="second", address="10.0.0.9:1")
    with pytest.raises(NodeIdInUse):
        nodes.register(other)
    assert nodes.heartbeat(datanode(1), {}), "it is known from the metadata"
    clock.advance(seconds=LEASE.seconds + SKEW.seconds)
    nodes.register(other)
    assert NodeRegistry(kv, clock).find_datanode(1).description == other  # type: ignore[union-attr]


def test_a_restarted_datanode_has_its_id_at_once(clock: ManualClock) -> None:
    nodes = NodeRegistry(MemoryKv(), clock)
    nodes.register(datanode(1))
    nodes.register(datanode(1, start_id="second"))
    with pytest.raises(NodeSuperseded):
        nodes.heartbeat(datanode(1), {})
    assert nodes.heartbeat(datanode(1, start_id="second"), {})


def test_an_unknown_datanode_has_to_register_and_a_frontend_has_not(clock: ManualClock) -> None:
    kv = MemoryKv()
    nodes = NodeRegistry(kv, clock)
    assert not nodes.heartbeat(datanode(1), {})
    assert nodes.heartbeat(frontend(), {"load": 1})
    assert nodes.heartbeat(frontend(start_id="after a restart"), {})
    assert [key for key, _ in kv.scan("__node_address/")] == ["__node_address/frontend/f:4001"]
    clock.advance(seconds=FORGOTTEN.seconds + 1)
    nodes.register(datanode(1))
    nodes.forget_silent_frontends()
    assert [key for key, _ in kv.scan("__node_address/")] == ["__node_address/datanode/1"]
    assert nodes.states(NodeRole.FRONTEND) == []


def test_a_registration_that_could_not_be_written_is_none(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    kv = MemoryKv()
    nodes = NodeRegistry(kv, clock)

    def fail(*_: object) -> bool:
        raise KvUnavailable("out of reach")

    with monkeypatch.context() as patched:
        patched.setattr(kv, "transact", fail)
        with pytest.raises(KvUnavailable):
            nodes.register(datanode(1))
    assert nodes.states() == []


@pytest.mark.parametrize("value", [None, {}, {"role": "KING", "node_id": 1}, {"role": "DATANODE", "node_id": "x"}])
def test_what_describes_no_node_is_refused(value: object) -> None:
    with pytest.raises(InvalidArguments):
        NodeDescription.from_json(value)
