"""The leading metadata server dies in the middle of a change, as by `kill -9`, at every place of every kind of change:
the next leader finishes or undoes it. Then the table can be used, and no datanode has a region that no table has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import httpx
import pytest

from tests.cluster.owners import METADATA_PREFIX, placed_regions, regions_on_nodes
from tests.cluster.running import Cluster, Node, Shape, running_cluster, wait_for
from tests.kv.etcd_process import EtcdProcess, connect, running_etcd
from tests.store.services import S3Server
from tsdb.catalog._catalog import CRASH_POINTS as CHANGE_POINTS
from tsdb.kv import CoordinationStore
from tsdb.meta._moves import CRASH_POINTS as MOVE_POINTS
from tsdb.meta.client import load_records

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

EXIT_CODE = 137
TABLE = (
    "CREATE TABLE {name} (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
    "PARTITION ON COLUMNS (host) (host < 'b', host >= 'b' AND host < 'c', host >= 'c')"
)
ROWS = "INSERT INTO {name} (host, ts, v) VALUES ('a', 1, 1), ('b', 1, 2), ('c', 1, 3)"


@dataclass(frozen=True)
class Change:
    """A statement, what is there before, and a query that tells whether it was done."""

    before: tuple[str, ...]
    statement: str
    query: str
    """Returns true once the statement was done."""
    points: tuple[str, ...]
    leaves: str | None = "t"
    """The table that can be used afterwards."""


IS_THERE = "SELECT count(*) = 1 FROM information_schema.tables WHERE table_name = '{}'"
IS_GONE = "SELECT count(*) = 0 FROM information_schema.tables WHERE table_name = '{}'"
CREATE = tuple(each for each in CHANGE_POINTS if ".create." in each)
ALTER = tuple(each for each in CHANGE_POINTS if ".alter." in each)
DROP = tuple(each for each in CHANGE_POINTS if ".drop." in each)
TRUNCATE = tuple(each for each in CHANGE_POINTS if ".truncate." in each)
SPREAD = tuple(each for each in CHANGE_POINTS if ".spread." in each)
IN_DATABASE = TABLE.format(name="d.t")

CHANGES: dict[str, Change] = {
    "create table": Change(
        (), TABLE.format(name="t"), IS_THERE.format("t"), (*CREATE, "catalog.create.after_region:3")
    ),
    "add column": Change(
        (TABLE.format(name="t"), ROWS.format(name="t")),
        "ALTER TABLE t ADD COLUMN w DOUBLE",
        "SELECT count(*) = 1 FROM information_schema.columns WHERE table_name = 't' AND column_name = 'w'",
        (*ALTER, "catalog.alter.after_region:2"),
    ),
    "drop table": Change(
        (TABLE.format(name="t"), ROWS.format(name="t")), "DROP TABLE t", IS_GONE.format("t"), DROP, None
    ),
    "truncate table": Change(
        (TABLE.format(name="t"), ROWS.format(name="t")),
        "TRUNCATE TABLE t",
        "SELECT count(*) = 0 FROM t",
        (*TRUNCATE, "catalog.truncate.after_region:3"),
    ),
    "create database": Change(
        (),
        "CREATE DATABASE d",
        "SELECT count(*) = 1 FROM information_schema.schemata WHERE schema_name = 'd'",
        ("catalog.create_database.after_publish",),
        None,
    ),
    "drop database": Change(
        ("CREATE DATABASE d", IN_DATABASE, ROWS.format(name="d.t")),
        "DROP DATABASE d",
        "SELECT count(*) = 0 FROM information_schema.schemata WHERE schema_name = 'd'",
        DROP,
        None,
    ),
    "alter database": Change(
        ("CREATE DATABASE d", IN_DATABASE),
        "ALTER DATABASE d SET 'ttl' = '70y'",
        "SELECT count(*) = 1 FROM information_schema.schemata WHERE schema_name = 'd' AND options LIKE '%ttl%'",
        SPREAD,
        "d.t",
    ),
    "create logical table": Change(
        ("CREATE TABLE phy (ts TIMESTAMP TIME INDEX, v DOUBLE) ENGINE=metric WITH (physical_metric_table = '')",),
        "CREATE TABLE t (ts TIMESTAMP TIME INDEX, v DOUBLE, host STRING PRIMARY KEY) "
        "ENGINE=metric WITH (on_physical_table = 'phy')",
        IS_THERE.format("t"),
        ("catalog.create.after_publish",),
    ),
    "migrate region": Change((TABLE.format(name="t"), ROWS.format(name="t")), "", "", MOVE_POINTS),
}
POINTS = [(name, point) for name, change in CHANGES.items() for point in change.points]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """One for all tests: only leaders are killed."""
    with running_etcd(tmp_path_factory.mktemp("etcd")) as process:
        yield process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdProcess, s3: S3Server) -> Iterator[Cluster]:
    shape = Shape(
        metasrvs=2,
        datanode_environment={"TSDB_DATANODE__WAL__SHARED__INTERVAL": "20ms"},
        frontend_environment={"TSDB_FRONTEND__META_CLIENT__DDL_TIMEOUT": "40s"},
    )
    with running_cluster(tmp_path_factory.mktemp("killed"), shape, etcd=etcd, s3=s3) as cluster:
        yield cluster


@pytest.fixture
def store(etcd: EtcdProcess) -> Iterator[CoordinationStore]:
    opened = connect(etcd.url, prefix=METADATA_PREFIX)
    yield opened
    opened.close()


def leader(cluster: Cluster) -> Node | None:
    """The metadata server that leads."""
    for node in cluster.metasrvs:
        if node.running.process.poll() is None:
            try:
                found = httpx.get(f"{node.url}/admin/leader", timeout=10).text
            except httpx.HTTPError:
                continue
            return next((each for each in cluster.metasrvs if _address(each) in found), None)
    return None


def _address(node: Node) -> str:
    return node.environment["TSDB_METASRV__SERVER_ADDR"]


def let_lead(cluster: Cluster, point: str, variable: str = "TSDB_CRASH_POINT") -> Node:
    """Let a server lead that dies at a place, or does what another variable says."""
    wait_for(lambda: leader(cluster) is not None)
    before = leader(cluster)
    assert before is not None
    armed = next(node for node in cluster.metasrvs if node is not before)
    armed.end()
    armed.environment[variable] = point
    armed.start()
    before.stop()
    wait_for(lambda: leader(cluster) is armed or armed.running.process.poll() is not None)
    before.environment.pop(variable, None)
    before.start()
    return armed


def disarm(cluster: Cluster) -> None:
    """Let no server die any more: one may be left by a test that has failed."""
    for node in cluster.metasrvs:
        if node.environment.pop("TSDB_CRASH_POINT", None) is not None and node.running.process.poll() is None:
            node.end()
            node.start()


def try_statement(cluster: Cluster, statement: str) -> bool:
    """Run a statement that may fail, as its server dies; return whether it succeeded."""
    try:
        cluster.sql(statement, timeout=120)
    except (AssertionError, httpx.HTTPError) as error:
        print(f"{statement}: {error}")
        return False
    return True


def wait_tidy(cluster: Cluster, store: CoordinationStore) -> None:
    """Wait until nothing is under way, and each datanode has the regions that are placed on it, and no others."""
    wait_for(lambda: not store.scan("__procedure/") and not store.scan("__tombstone/"))
    wait_for(lambda: not load_records(store).running)
    wait_for(lambda: regions_on_nodes(cluster) == placed_regions(cluster))


def is_done(cluster: Cluster, query: str) -> bool:
    return bool(cluster.sql(query) == [[True]])


def has_died_after(cluster: Cluster, statement: str, armed: Node) -> bool:
    """Run a statement, unless the server that is to die has died of it."""
    if armed.running.process.poll() is None:
        try_statement(cluster, statement)
    return armed.running.process.poll() is not None


def is_done_after(cluster: Cluster, statement: str, query: str) -> bool:
    try_statement(cluster, statement)
    return is_done(cluster, query)


def clear(cluster: Cluster) -> None:
    for statement in ("DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS phy", "DROP DATABASE IF EXISTS d"):
        cluster.sql(statement)


@pytest.mark.parametrize(("kind", "point"), POINTS, ids=[f"{kind} {point}" for kind, point in POINTS])
def test_a_change_whose_leader_is_killed_is_done_or_undone(
    cluster: Cluster, store: CoordinationStore, kind: str, point: str
) -> None:
    change = CHANGES[kind]
    disarm(cluster)
    clear(cluster)
    for statement in change.before:
        # A datanode whose log was sealed by the move before finds that when it is written to, and refuses the rows.
        if statement.startswith("INSERT"):
            wait_for(partial(try_statement, cluster, statement))
        else:
            cluster.sql(statement)
    statement, query = change.statement, change.query
    if not statement:
        region, node = next(iter(cluster.place_of("t").items()))
        target = next(each for each in cluster.datanodes if each != node)
        statement = f"ADMIN migrate_region({region}, {node}, {target}, 60)"
        query = f"SELECT peer_id = {target} FROM information_schema.region_peers WHERE region_id = {region}"
    wait_tidy(cluster, store)
    armed = let_lead(cluster, point)
    # A leader that has just begun refuses to move regions to datanodes that it has not heard of.
    wait_for(lambda: has_died_after(cluster, statement, armed))
    assert armed.running.process.wait(60) == EXIT_CODE, "the place was not reached"
    wait_for(lambda: leader(cluster) not in (None, armed))
    wait_tidy(cluster, store)
    # What was undone can be done. A move goes on by itself, or begins again once the new leader has heard of all nodes.
    wait_for(lambda: is_done(cluster, query) or is_done_after(cluster, statement, query))
    if change.leaves is not None:
        cluster.sql(ROWS.format(name=change.leaves))
        assert cluster.sql(f"SELECT sum(v) FROM {change.leaves}") == [[6.0]]
    wait_tidy(cluster, store)


def test_every_place_of_a_change_is_among_them() -> None:
    assert {point.partition(":")[0] for _, point in POINTS} == {*CHANGE_POINTS, *MOVE_POINTS}
