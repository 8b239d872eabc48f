"""The client of the metadata servers, for datanodes and frontends.

client = MetaClient(["10.0.0.1:3002", "10.0.0.2:3002"], MetaClientSettings())
mirror = MirrorKv(client.watch(), client.transact)          a copy of the metadata
catalog = RemoteCatalog(mirror, client.change)              for a frontend
routes = MirrorRoutes(mirror, client)                       the ways to datanodes
heartbeats = Heartbeats(client, node, report=…)             on a thread of their own
"""

from tsdb.meta._history import read_order
from tsdb.meta._move_records import MoveState, load_records
from tsdb.meta._nodes import LogKind, NodeDescription
from tsdb.meta.client._channels import MetaClientSettings
from tsdb.meta.client._client import MetaClient, NodeReport, RegionOwner, Registration
from tsdb.meta.client._heartbeats import Heartbeats
from tsdb.meta.client._routes import MirrorRoutes

__all__ = [
    "Heartbeats",
    "LogKind",
    "MetaClient",
    "MetaClientSettings",
    "MirrorRoutes",
    "MoveState",
    "NodeDescription",
    "NodeReport",
    "RegionOwner",
    "Registration",
    "load_records",
    "read_order",
]
