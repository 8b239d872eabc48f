"""The database of a cluster as a frontend has it: a copy of the metadata over regions that are on datanodes.

    metasrv ─▶ MirrorKv ─┬▶ RemoteCatalog ─┐
                         ├▶ UserStore ─────┼▶ Database
                         └▶ MirrorRoutes ─▶ RemoteRegions ─▶ datanodes

Its parts are opened and closed together.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from tsdb.backup.cluster import ClusterBackups
from tsdb.catalog import RemoteCatalog
from tsdb.clock import Clock
from tsdb.components._assembly import AssemblyOptions, assemble
from tsdb.components._cluster_view import MetaCluster
from tsdb.components._node import await_metasrv, open_meta_client
from tsdb.config import MetaClientOptions
from tsdb.database import Database
from tsdb.kv import MirrorKv
from tsdb.meta.client import MetaClient, MirrorRoutes
from tsdb.remote import RemoteRegions, RemoteSettings

_COPY_SECONDS = 60.0
"""How long the first copy of the metadata may take."""


class ClusteredDatabase:
    """An open database and the parts it is made of."""

    def __init__(self, database: Database, meta: MetaClient, closing: ExitStack) -> None:
        self.database = database
        self.meta = meta
        self._closing = closing

    def close(self) -> None:
        self._closing.close()


def open_clustered(cluster: MetaClientOptions, options: AssemblyOptions, clock: Clock) -> ClusteredDatabase:
    """Follow the metadata, and open the database over it; StartError if no metadata server answers."""
    with ExitStack() as undo:
        meta = open_meta_client(cluster)
        undo.callback(meta.close)
        # A first question tells whether somebody is there; the copy then comes from the same server.
        await_metasrv(cluster, meta.version)
        mirror = MirrorKv(meta.watch(), meta.transact)
        undo.callback(mirror.close)
        mirror.start(_COPY_SECONDS)
        routes = MirrorRoutes(mirror, meta)
        regions = RemoteRegions(routes, settings=RemoteSettings(), clock=clock)
        undo.callback(regions.close)
        catalog = RemoteCatalog(mirror, meta.change)
        seen = MetaCluster(meta, mirror, routes, clock)
        options = replace(options, cluster=seen, backups=ClusterBackups(regions, seen.live_datanodes))
        database = assemble(catalog, regions, mirror, options, clock)
        undo.callback(database.services.queries.close)
        undo.callback(database.slow_queries.close)
        return ClusteredDatabase(database, meta, undo.pop_all())
