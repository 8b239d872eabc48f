"""The parts of a datanode that make backups of its cluster, and the way from there to all other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from tsdb.auth import Authenticator
from tsdb.backup import BackupService, DestinationPlaces
from tsdb.backup.cluster import BackupNode, BackupVerbs, ClusterSource, TableRestore, TableRestores
from tsdb.catalog import RemoteCatalog
from tsdb.clock import Clock
from tsdb.components._assembly import AssemblyOptions, assemble
from tsdb.components._build_info import build_info
from tsdb.components._scratch import ScratchDatabases
from tsdb.components._stores import OpenStores
from tsdb.database import DatabaseOptions, OpenScratch, Services, Session, restore_table
from tsdb.engine import Engine
from tsdb.errors import DeadlineExceeded
from tsdb.kv import KvUnavailable, MirrorKv
from tsdb.memory import MemoryReport
from tsdb.meta.client import MetaClient, MirrorRoutes, read_order
from tsdb.query import QueryEngineOptions
from tsdb.remote import RemoteRegions

_COPY_SECONDS = 60.0
"""How long the copy of the metadata may take."""
_CATCH_UP_SECONDS = 5.0


def make_backup_verbs(
    meta: MetaClient,
    home: Path,
    stores: OpenStores,
    engine: Callable[[], Engine],
    check_owned: Callable[[], None],
    clock: Clock,
    *,
    name: str,
) -> BackupVerbs:
    """Return what a datanode does for backups."""

    @contextmanager
    def open_link() -> Iterator[_Link]:
        with ExitStack() as undo:
            mirror = MirrorKv(meta.watch(), _refuse, name="backup")
            undo.callback(mirror.close)
            mirror.start(_COPY_SECONDS)
            regions = RemoteRegions(MirrorRoutes(mirror, meta), clock=clock)
            undo.callback(regions.close)
            yield _Link(meta, mirror, regions)

    @contextmanager
    def open_database() -> Iterator[Services]:
        """The database of the cluster, as a frontend has it."""
        with ExitStack() as undo:
            mirror = MirrorKv(meta.watch(), meta.transact, name="restore")
            undo.callback(mirror.close)
            mirror.start(_COPY_SECONDS)
            regions = RemoteRegions(MirrorRoutes(mirror, meta), clock=clock)
            undo.callback(regions.close)
            catalog = RemoteCatalog(mirror, meta.change)
            database = assemble(catalog, regions, mirror, _restoring(service, scratch, name), clock)
            undo.callback(database.services.queries.close)
            undo.callback(database.slow_queries.close)
            yield database.services

    def restore(arguments: Sequence[str], database: str, job: TableRestore) -> int:
        with open_database() as services:
            session = Session(database=database)
            with services.processes.entered(session, "ADMIN restore_table") as process:
                job.on_cancel(process.cancel)
                return restore_table(arguments, services, session, process)

    scratch = ScratchDatabases(home / "restoring").open
    places = DestinationPlaces(home, stores.storages(), is_cluster=True)
    source = ClusterSource(open_link, own_log=lambda: engine().context.wal.node_log)
    service = BackupService(source, places, version=build_info().version, clock=clock)
    return BackupVerbs(service, BackupNode(engine, places, check_owned, name=name), TableRestores(restore))


def _restoring(service: BackupService, scratch: OpenScratch, name: str) -> AssemblyOptions:
    """A database that restores a table, and answers nobody."""
    return AssemblyOptions(
        QueryEngineOptions(workers=0),
        DatabaseOptions(),
        Authenticator(),
        memory_report=lambda: MemoryReport([], 0),
        caches=lambda: (),
        address=name,
        backups=service,
        scratch=scratch,
    )


class _Link:
    """The cluster, by the metadata servers and a copy of the metadata that follows them."""

    def __init__(self, meta: MetaClient, mirror: MirrorKv, regions: RemoteRegions) -> None:
        self.metadata = mirror
        self.regions = regions
        self._meta = meta
        self._mirror = mirror

    def hold_tables(self, token: str) -> bool:
        revision = self._meta.hold_tables(token)
        if revision is None:
            return False
        try:
            self._mirror.wait_for(revision, _CATCH_UP_SECONDS)
        except DeadlineExceeded:
            return False
        return True

    def release_tables(self, token: str) -> bool:
        return self._meta.release_tables(token)

    def order(self) -> tuple[int, int] | None:
        return read_order(self._mirror)


def _refuse(*_: object) -> NoReturn:
    raise KvUnavailable("the copy of the metadata for a backup is only read")
