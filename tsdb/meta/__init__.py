"""The metadata server: what decides for a cluster.

    etcd ◀─ Metasrv (several, one leads) ◀─ gRPC ─ MetaClient in datanodes and frontends
                └─ MetaLeader: nodes and their leases, placement, changes of the catalog

`MetaServer` serves a `Metasrv`; `tsdb.meta.client` is what other components use.
"""

from tsdb.meta._leader import LeaderRegions, LeaderSettings, MakeRegions, MetaLeader
from tsdb.meta._leader_kv import LeaderKv
from tsdb.meta._metasrv import Metasrv, MetasrvSettings
from tsdb.meta._move_records import MoveRecord, read_failovers
from tsdb.meta._nodes import HEARTBEAT, LEASE, NodeDescription, NodeRegistry
from tsdb.meta._selectors import NodeSelector
from tsdb.meta._supervisor import Supervision
from tsdb.meta.election import CANDIDATES, LEADER, MetasrvElection
from tsdb.meta.service import MetaServer

__all__ = [
    "CANDIDATES",
    "HEARTBEAT",
    "LEADER",
    "LEASE",
    "LeaderKv",
    "LeaderRegions",
    "LeaderSettings",
    "MakeRegions",
    "MetaLeader",
    "MetaServer",
    "Metasrv",
    "MetasrvElection",
    "MetasrvSettings",
    "MoveRecord",
    "NodeDescription",
    "NodeRegistry",
    "NodeSelector",
    "Supervision",
    "read_failovers",
]
