"""Datanodes of a cluster inside the test's own process: engines over one store, asked as over the data plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.engine.harness import OPTIONS, WAL_OPTIONS
from tsdb.auth import Authenticator
from tsdb.backup import BackupSummary, DestinationPlaces, StoragePlace, take_backup
from tsdb.backup.cluster import BackupNode, ClusterSource, ClusterTimes
from tsdb.catalog import Catalog, all_places, delete_places, directories_of_all, put_places
from tsdb.clock import SystemClock
from tsdb.components._assembly import AssemblyOptions, assemble
from tsdb.database import Affected, DatabaseOptions
from tsdb.engine import Engine, Wal
from tsdb.engine.errors import RegionNotFound
from tsdb.kv import MemoryKv, Operation
from tsdb.memory import MemoryReport
from tsdb.model import Peer, RegionId, RegionOpening, RegionPlace, TableInfo, table_id_of
from tsdb.query import QueryEngineOptions, Session, read_all
from tsdb.remote import NodeUnavailable
from tsdb.remote.codec import decode_value, encode_value
from tsdb.store import LocalStore

QUICK = ClusterTimes(away_seconds=30.0, held_seconds=5.0, pause_seconds=0.02)


class DataNode:
    """An engine, and its part in backups."""

    def __init__(self, world: ClusterWorld, number: int) -> None:
        self.number = number
        self.engine = _open(world.store, world.root / f"wal-{number}", {})
        self.is_dead = False
        self.places = DestinationPlaces(
            world.root / f"home-{number}",
            [StoragePlace("default", str(world.root / "store"), lambda: world.store)],
            is_cluster=True,
        )
        self.backup = BackupNode(lambda: self.engine, self.places, self._check_owned, name=f"datanode {number}")
        self.owned: Callable[[], None] = lambda: None

    @property
    def peer(self) -> Peer:
        return Peer(self.number, f"node-{self.number}:1")

    def _check_owned(self) -> None:
        self.owned()


class ClusterWorld:
    """Two datanodes, the metadata, and a database over both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = LocalStore(root / "store")
        self.kv = MemoryKv()
        self.nodes = {number: DataNode(self, number) for number in (1, 2)}
        self.before: Callable[[int, str], None] = lambda node, step: None
        """Called before each request to a datanode."""
        self.asked: list[tuple[int, str]] = []
        self.times = QUICK
        self.holds: list[str] = []
        self.hold: Callable[[], bool] = lambda: True
        self.was_held: Callable[[], bool] = lambda: True
        self.catalog = Catalog(self.kv, _Dispatch(self), SystemClock(), placement=_Placement())  # type: ignore[arg-type]
        options = AssemblyOptions(
            QueryEngineOptions(),
            DatabaseOptions(),
            Authenticator(),
            memory_report=lambda: MemoryReport([], 0),
            caches=lambda: (),
            address="test",
        )
        self.database = assemble(self.catalog, _Dispatch(self), self.kv, options, SystemClock())  # type: ignore[arg-type]
        # What the source of backups needs of a cluster.
        self.metadata = self.kv
        self.regions: Any = self
        self.routes: Any = self

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for output in self.database.execute(text, Session(database="public")):
            if not isinstance(output, Affected):
                rows = [tuple(row.values()) for row in read_all(output).to_pylist()]
        return rows

    def back_up(self, where: str = "nightly", **options: Any) -> BackupSummary:
        source = ClusterSource(self._link, times=self.times)
        return take_backup(source, self.nodes[1].places.open(where), version="test", **options)

    def place_of(self, region_id: RegionId) -> int:
        return all_places(self.kv)[region_id].node_id

    def move(self, region_id: RegionId) -> None:
        """Move a region to the other node, as an order of an operator does."""
        old = all_places(self.kv)[region_id]
        new = RegionPlace(3 - old.node_id, old.epoch + 1)
        self.nodes[old.node_id].engine.close_region(region_id, flush=True).result(60)
        directory = directories_of_all(self.kv, [region_id])[region_id]
        opening = RegionOpening(region_id, directory, new.epoch)
        assert self.nodes[new.node_id].engine.open_regions([opening]) == {region_id: None}
        places = {each & 0xFFFFFFFF: place for each, place in all_places(self.kv).items() if _same(each, region_id)}
        self.kv.transact([], [put_places(table_id_of(region_id), {**places, region_id & 0xFFFFFFFF: new})])

    def close(self) -> None:
        self.database.services.queries.close()
        self.database.slow_queries.close()
        for node in self.nodes.values():
            node.backup.close()
            node.engine.close(flush=False)

    # The way of a backup to the datanodes.

    @contextmanager
    def _link(self) -> Iterator[Any]:
        yield self

    def hold_tables(self, token: str) -> bool:
        self.holds.append(token)
        return self.hold()

    def release_tables(self, token: str) -> bool:
        return self.was_held()

    def catch_up(self) -> None:
        """The metadata is always the newest."""

    def peer_of(self, region_id: RegionId) -> Peer:
        place = all_places(self.kv).get(region_id)
        if place is None:
            raise RegionNotFound(region_id=region_id)
        return self.nodes[place.node_id].peer

    def backup(self, peer: Peer, step: str, request: Mapping[str, Any], **_: object) -> Any:
        self.asked.append((peer.node_id, step))
        self.before(peer.node_id, step)
        node = self.nodes[peer.node_id]
        if node.is_dead:
            raise NodeUnavailable("it is dead", address=peer.address)
        arrived = decode_value(encode_value(dict(request)))
        return decode_value(encode_value(node.backup.answer(step, arrived)))


class _Placement:
    """Regions of a table on the nodes in turn."""

    def place(self, table: TableInfo) -> list[Operation]:
        return [put_places(table.id, {number: RegionPlace(1 + number % 2) for number in table.region_numbers})]

    def forget(self, table_id: int) -> list[Operation]:
        return [delete_places(table_id)]


class _Dispatch:
    """Regions, each on its node."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def compactions(self) -> Sequence[Any]:
        return ()

    def wal_segments(self) -> Sequence[Any]:
        return ()

    def __getattr__(self, name: str) -> Any:
        def call(region_id: RegionId, *arguments: Any, **named: Any) -> Any:
            node = self._world.nodes[self._world.place_of(region_id)]
            return getattr(node.engine, name)(region_id, *arguments, **named)

        return call


def _open(store: LocalStore, wal: Path, regions: Any) -> Engine:
    log, _ = Wal.open(wal, WAL_OPTIONS)
    return Engine.open(store, log, options=OPTIONS, regions=regions, has_housekeeping=False)


def _same(one: RegionId, other: RegionId) -> bool:
    return table_id_of(one) == table_id_of(other)


@contextmanager
def cluster_world(root: Path) -> Iterator[ClusterWorld]:
    with ExitStack() as undo:
        world = ClusterWorld(root)
        undo.callback(world.close)
        yield world
