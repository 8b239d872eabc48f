"""What can go wrong between the nodes of a cluster and its metadata servers.

NotLeader            another metadata server leads, or none does at the moment: ask again
MetasrvUnreachable   no metadata server answered in time
ChangeOutcomeUnknown the leader was lost while it made a change: look whether it was made
ChangeNotNoted       a change was made, and is not in a shared log yet: look whether it is as expected
ChangePending        a change takes longer than the client waits; it goes on
NodeIdInUse          another process with this node id is alive
NodeSuperseded       another process has taken this node id over: stop
NoLiveDatanode       there is no datanode that regions could be placed on
NodeNotKnown         a region is on a node whose address is not known
NodeNotAlive         a region is on a node that has not been heard of
RegionsNotMoved      a move of regions was abandoned
"""

from __future__ import annotations

from tsdb.errors import DeadlineExceeded, StartError, Status, TsdbError


class NotLeader(TsdbError):
    """The server that was asked does not lead."""

    status = Status.REGION_NOT_READY

    def __init__(self, leader: str | None) -> None:
        super().__init__(
            "this metadata server does not lead", leader=leader or "none", hint="ask the leader, or try again"
        )
        self.leader = leader


class MetasrvUnreachable(TsdbError):
    """No metadata server answered."""

    status = Status.STORAGE_UNAVAILABLE


class ChangeOutcomeUnknown(TsdbError):
    """The connection to the leader broke after a change was sent."""

    status = Status.STORAGE_UNAVAILABLE


class ChangeNotNoted(TsdbError):
    """A change was made, but no datanode could note it in its shared log yet."""

    status = Status.STORAGE_UNAVAILABLE


class ChangePending(DeadlineExceeded):
    """The change is not finished within `ddl_timeout`, and goes on."""

    def __init__(self, procedure_id: str, kind: str) -> None:
        super().__init__(
            f"the change {kind} is not finished yet and goes on",
            procedure=procedure_id,
            hint="procedure_state shows its outcome",
        )
        self.procedure_id = procedure_id


class NodeIdInUse(StartError):
    """The node id of a datanode that wants to start belongs to another one that is alive."""


class NodeSuperseded(TsdbError):
    """The node id of a datanode was taken over by a process that started later."""

    status = Status.ILLEGAL_STATE


class NoLiveDatanode(TsdbError):
    """No datanode has sent a heartbeat lately."""

    status = Status.TABLE_UNAVAILABLE


class NodeNotKnown(TsdbError):
    """The address of a node is not in the metadata."""

    status = Status.TABLE_UNAVAILABLE


class NodeNotAlive(TsdbError):
    """A node has not sent a heartbeat for as long as its lease."""

    status = Status.TABLE_UNAVAILABLE


class RegionsNotMoved(TsdbError):
    """Regions are still on the node that they were to leave."""

    status = Status.REGION_NOT_READY
