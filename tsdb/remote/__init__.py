"""Regions over the network: a datanode serves them with Arrow Flight, frontends and metasrv use them as their own.

    RemoteRegions (implements tsdb.engine.Regions) ─ streams of messages ─▶ RegionServer ─▶ Engine

`codec` turns everything of the region interface to bytes and back.
"""

from tsdb.remote._elsewhere import RegionNotOpen
from tsdb.remote._errors import BadMessage, NodeUnavailable, OutcomeUnknown, ProtocolMismatch, RemoteError
from tsdb.remote._reader import RemoteReader
from tsdb.remote._regions import RemoteRegions
from tsdb.remote._routes import Routes
from tsdb.remote._served import NodeVerbs, ServedRegions
from tsdb.remote._server import RegionServer
from tsdb.remote._settings import RemoteSettings

__all__ = [
    "BadMessage",
    "NodeUnavailable",
    "NodeVerbs",
    "OutcomeUnknown",
    "ProtocolMismatch",
    "RegionNotOpen",
    "RegionServer",
    "RemoteError",
    "RemoteReader",
    "RemoteRegions",
    "RemoteSettings",
    "Routes",
    "ServedRegions",
]
