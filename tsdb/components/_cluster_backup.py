"""The parts of a datanode that make backups of its cluster, and the way from there to all other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from tsdb.backup import BackupService, DestinationPlaces
from tsdb.backup.cluster import BackupNode, BackupVerbs, ClusterSource
from tsdb.clock import Clock
from tsdb.components._build_info import build_info
from tsdb.components._stores import OpenStores
from tsdb.engine import Engine
from tsdb.errors import DeadlineExceeded
from tsdb.kv import KvUnavailable, MirrorKv
from tsdb.meta.client import MetaClient, MirrorRoutes, read_order
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

    places = DestinationPlaces(home, stores.storages(), is_cluster=True)
    source = ClusterSource(open_link, own_log=lambda: engine().context.wal.node_log)
    service = BackupService(source, places, version=build_info().version, clock=clock)
    return BackupVerbs(service, BackupNode(engine, places, check_owned, name=name))


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
