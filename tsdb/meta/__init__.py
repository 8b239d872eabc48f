"""The metadata server: what decides for a cluster.

    etcd ◀─ Metasrv (several, one leads) ◀─ gRPC ─ MetaClient in datanodes and frontends
                └─ MetaLeader: nodes and their leases, placement, changes of the catalog

`MetaServer` serves a `Metasrv`; `tsdb.meta.client` is what other components use.
"""

from tsdb.meta._leader import LeaderSettings, MakeRegions
from tsdb.meta._metasrv import Metasrv, MetasrvSettings
from tsdb.meta._move_records import read_failovers
from tsdb.meta._nodes import LEASE, NodeDescription
from tsdb.meta._selectors import NodeSelector
from tsdb.meta._supervisor import Supervision
from tsdb.meta.election import LEADER, MetasrvElection
from tsdb.meta.service import MetaServer

__all__ = [
    "LEADER",
    "LEASE",
    "LeaderSettings",
    "MakeRegions",
    "MetaServer",
    "Metasrv",
    "MetasrvElection",
    "MetasrvSettings",
    "NodeDescription",
    "NodeSelector",
    "Supervision",
    "read_failovers",
]
