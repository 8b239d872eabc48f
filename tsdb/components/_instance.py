"""The name of a process among the nodes of a cluster, for its traces and its metrics."""

from __future__ import annotations

import socket

from tsdb.config import DatanodeConfig, FrontendConfig, MetasrvConfig, StandaloneConfig


def instance_of(config: StandaloneConfig | FrontendConfig | DatanodeConfig | MetasrvConfig) -> str:
    """The node id of a datanode; host name and HTTP port of other components."""
    if isinstance(config, DatanodeConfig) and config.node_id is not None:
        return str(config.node_id)
    return f"{socket.gethostname()}:{config.http.addr.port}"
