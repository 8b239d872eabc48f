"""Keys of the metadata that are about the cluster itself. Values are JSON.

__catalog_version                  put by each transaction of the leader: its revision says how new a copy is
__noted_version                    "{leadership}.{number}" of the last change that was to be noted in shared logs
__node_address/datanode/{id}       NodeDescription
__node_address/frontend/{address}  NodeDescription
__switches/maintenance             {"since_ms": …}, there while failovers are switched off
"""

from __future__ import annotations

from tsdb.model import NodeRole

CATALOG_VERSION = "__catalog_version"
NOTED_VERSION = "__noted_version"
NODES = "__node_address/"
MAINTENANCE = "__switches/maintenance"
EVERYTHING = "__"
"""What all keys begin with."""
FOR_FRONTENDS = ("__user/", "__auth/", "__metric_info/")
"""What frontends change by themselves, with transactions that they send to the leader."""


def nodes_prefix(role: NodeRole) -> str:
    return f"{NODES}{role.value.lower()}/"


def node_key(role: NodeRole, name: int | str) -> str:
    return f"{nodes_prefix(role)}{str(name).replace('%', '%25').replace('/', '%2F')}"
