"""A leader that is deposed in the middle of a change, at every place of it: the next one finishes or undoes it.

The leader of the past stands still at that place until the next one has recovered, and then goes on: it must not be
able to change anything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.catalog.worlds import FILL, LIFE, World
from tests.kv.etcd_process import EtcdProcess, connect, only_slow
from tests.meta.clusters import MetaCluster, datanode, running_cluster, wait_until
from tsdb.catalog import RemoteCatalog, load_changes
from tsdb.catalog._catalog import CRASH_POINTS
from tsdb.clock import SystemClock
from tsdb.kv import CoordinationStore, DeleteKey, MemoryKv, MirrorKv
from tsdb.meta import LEADER
from tsdb.meta._keys import CATALOG_VERSION
from tsdb.meta.client import Heartbeats, NodeReport
from tsdb.meta.errors import ChangeOutcomeUnknown
from tsdb.store import LocalStore, on_crash_point
from tsdb.units import Duration


class Deposer:
    """Takes the leadership away at the first pass of each place."""

    def __init__(self, cluster: MetaCluster) -> None:
        self.cluster = cluster
        self.left = set(CRASH_POINTS)
        self.depositions = 0
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        with self._lock:
            if point not in self.left:
                return
            self.left.discard(point)
        self.depositions += 1
        leader = self.cluster.leader()
        self.cluster.store.transact([], [DeleteKey(LEADER)])
        wait_until(lambda: self._next(leader) is not None)

    def _next(self, before: object) -> object:
        for metasrv, _ in self.cluster.servers:
            if metasrv is not before and metasrv.is_leader() and metasrv.leading().is_recovered:
                return metasrv
        return None


def wait_tidy(store: CoordinationStore, mirror: MirrorKv) -> None:
    """Wait until a leader has finished what was left, and the copy shows it."""
    wait_until(lambda: not store.scan("__procedure/") and not store.scan("__tombstone/"))
    mirror.wait_for(store.revision(CATALOG_VERSION), 30)


@pytest.fixture(params=["memory", pytest.param("etcd", marks=only_slow)])
def store(request: pytest.FixtureRequest) -> Iterator[CoordinationStore]:
    made: CoordinationStore
    if request.param == "memory":
        made = MemoryKv()
    else:
        member: EtcdProcess = request.getfixturevalue("etcd")
        made = connect(member.url)
    yield made
    made.close()


def test_a_change_is_finished_or_undone_wherever_its_leader_is_deposed(
    store: CoordinationStore, tmp_path: Path
) -> None:
    # A leader that recovers may be deposed, too, and those before it still wait: there is always another one.
    with running_cluster(tmp_path, servers=8, store=store) as cluster, ExitStack() as stack:
        client = cluster.client()
        client.register(datanode(1))
        heartbeats = Heartbeats(
            client, datanode(1), SystemClock(), report=NodeReport, interval=Duration.of_seconds(0.1)
        )
        heartbeats.start()
        stack.callback(heartbeats.stop)
        mirror = MirrorKv(client.watch(), client.transact)
        mirror.start(30)
        stack.callback(mirror.close)
        catalog = RemoteCatalog(mirror, client.change)
        world = World(store, LocalStore(tmp_path / "store"), cluster.engine, catalog)  # type: ignore[arg-type]
        deposer = Deposer(cluster)
        unknown = 0
        states: list[str] = []
        with on_crash_point(deposer):
            for number, step in enumerate(LIFE):
                before = world.see()
                for _ in range(10):
                    try:
                        step(world)
                    except ChangeOutcomeUnknown as error:
                        unknown += 1
                        wait_tidy(store, mirror)
                        told = client.procedure(str(error.fields["procedure"]))
                        states.append(told["state"])
                        if number != FILL:
                            assert (told["state"] == "Done") == (world.see() != before), told
                        if number == FILL or world.see() == before:
                            continue
                    break
                wait_tidy(store, mirror)
                world.check_tidy()
                assert {key for key, _ in store.scan("__table_place/")} == {
                    f"__table_place/{table.id}"
                    for info in catalog.databases()
                    for table in catalog.tables(info.name)
                    if table.region_numbers
                }
        assert deposer.depositions == len(CRASH_POINTS)
        assert unknown
        assert set(states) == {"Done", "Undone"}, "a later leader knows what became of earlier changes"
        assert not [each for each in load_changes(store) if each.is_open]
        assert not [each for each in client.procedures() if each["state"] in ("Waiting", "Running", "Poisoned")]
