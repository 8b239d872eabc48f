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
from tsdb.clock import Clock, SystemClock
from tsdb.components._assembly import AssemblyOptions, assemble
from tsdb.database import Affected, DatabaseOptions
from tsdb.engine import Engine, Wal
from tsdb.engine.errors import RegionNotFound
from tsdb.kv import KvStore, MemoryKv, Operation
from tsdb.memory import MemoryReport
from tsdb.model import Peer, RegionId, RegionOpening, RegionPlace, TableInfo, table_id_of
from tsdb.query import QueryEngineOptions, Session, read_all
from tsdb.remote import NodeUnavailable
from tsdb.remote.codec import decode_value, encode_value
from tsdb.store import LocalStore

QUICK = ClusterTimes(away_seconds=30.0, held_seconds=5.0, pause_seconds=0.02)


class DataNode:
    """An engine, and its part in backups."""

    def __init__(self, world: ClusterWorld, number: int, regions: Sequence[RegionOpening] = ()) -> None:
        self.number = number
        self.engine = world.open_engine(number, regions)
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
    """Some datanodes, the metadata, and a database over all of them."""

    def __init__(self, root: Path, *, nodes: int = 2, clock: Clock | None = None) -> None:
        self.root = root
        self.clock = clock or SystemClock()
        self.store = LocalStore(root / "store")
        self.kv = self.open_metadata()
        self.nodes: dict[int, DataNode] = {}
        for number in range(1, nodes + 1):
            self.nodes[number] = DataNode(self, number)
        self.before: Callable[[int, str], None] = lambda node, step: None
        """Called before each request to a datanode."""
        self.asked: list[tuple[int, str]] = []
        self.times = QUICK
        self.holds: list[str] = []
        self.hold: Callable[[], bool] = lambda: True
        self.was_held: Callable[[], bool] = lambda: True
        self.catalog = Catalog(self.kv, _Dispatch(self), self.clock, placement=_Placement(nodes))  # type: ignore[arg-type]
        options = AssemblyOptions(
            QueryEngineOptions(),
            DatabaseOptions(),
            Authenticator(),
            memory_report=lambda: MemoryReport([], 0),
            caches=lambda: (),
            address="test",
        )
        self.database = assemble(self.catalog, _Dispatch(self), self.kv, options, self.clock)  # type: ignore[arg-type]
        # What the source of backups needs of a cluster.
        self.metadata = self.kv
        self.regions: Any = self
        self.routes: Any = self

    def open_metadata(self) -> KvStore:
        return MemoryKv()

    def open_engine(self, number: int, regions: Sequence[RegionOpening] = ()) -> Engine:
        log, _ = Wal.open(self.root / f"wal-{number}", WAL_OPTIONS)
        return Engine.open(self.store, log, options=OPTIONS, regions=regions, has_housekeeping=False)

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
        self.nodes[old.node_id].engine.close_region(region_id, flush=True).result(60)
        self.open_at(region_id, 3 - old.node_id)

    def open_at(self, region_id: RegionId, node: int, log_nodes: tuple[int, ...] = ()) -> None:
        """Let a node have a region from now on."""
        new = RegionPlace(node, all_places(self.kv)[region_id].epoch + 1)
        directory = directories_of_all(self.kv, [region_id])[region_id]
        opening = RegionOpening(region_id, directory, new.epoch, log_nodes)
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

    def order(self) -> tuple[int, int] | None:
        return None

    def peers(self) -> list[Peer]:
        return [node.peer for node in self.nodes.values()]

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

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def place(self, table: TableInfo) -> list[Operation]:
        numbers = table.region_numbers
        return [put_places(table.id, {each: RegionPlace(1 + each % self._nodes) for each in numbers})]

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

    def storage_requests(self) -> Sequence[Any]:
        return ()

    def __getattr__(self, name: str) -> Any:
        def call(region_id: RegionId, *arguments: Any, **named: Any) -> Any:
            node = self._world.nodes[self._world.place_of(region_id)]
            return getattr(node.engine, name)(region_id, *arguments, **named)

        return call


def _same(one: RegionId, other: RegionId) -> bool:
    return table_id_of(one) == table_id_of(other)


@contextmanager
def cluster_world(root: Path) -> Iterator[ClusterWorld]:
    with ExitStack() as undo:
        world = ClusterWorld(root)
        undo.callback(world.close)
        yield world
