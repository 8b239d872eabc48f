"""Suites that know nothing of clusters, answered by a frontend: with `TSDB_TEST_STORAGE=cluster` every database that a
test opens in its process is that of a frontend, over three datanodes, a metadata server, etcd and S3 by moto, all of
them processes; every standalone server that it starts is a frontend. With `partitioned`, tables with tags have three
regions on three nodes besides.

A cluster is used again when the database of another test is closed, and is emptied then; there are as many clusters as
databases are open at a time. What concerns one process only is listed in `tests/standalone_only.py`.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import tsdb.components
import tsdb.components._local as local_databases
from tests.cluster.running import Shape, running_cluster
from tests.kv.etcd_process import EtcdProcess
from tests.storage import IS_PARTITIONED, shared_s3
from tsdb.catalog import RemoteCatalog
from tsdb.catalog._databases import BUILT_IN_DATABASES
from tsdb.clock import Clock, SystemClock
from tsdb.components._assembly import AssemblyOptions
from tsdb.components._clustered import ClusteredDatabase, open_clustered
from tsdb.components._local import LocalOptions
from tsdb.config import MetaClientOptions
from tsdb.database import Database
from tsdb.kv import KvStore
from tsdb.memory import MemoryReport
from tsdb.model import DataType, PartitionRule, TableInfo
from tsdb.processes.resident import resident_bytes
from tsdb.store import ObjectStore

QUICK_LOG = {"TSDB_DATANODE__WAL__SHARED__INTERVAL": "10ms"}
PATIENT = {"timeout": "20s", "connect_timeout": "10s", "ddl_timeout": "60s"}
"""The machine may stand still for seconds."""

_OF_REGIONS = ("TSDB_STANDALONE__STORAGE__", "TSDB_STANDALONE__WAL__", "TSDB_STANDALONE__REGION_ENGINE__")
"""Variables for what a frontend has not."""


class SuiteCluster:
    """A cluster without a frontend, for one database at a time: that of the directory that was opened in it last."""

    def __init__(self) -> None:
        stack = ExitStack()
        atexit.register(stack.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tsdb-suites-")))
        etcd = EtcdProcess(directory)
        etcd.start()
        stack.callback(etcd.kill)
        etcd.wait_ready()
        shape = Shape(frontends=0, datanode_environment=QUICK_LOG)
        cluster = stack.enter_context(running_cluster(directory, shape, etcd=etcd, s3=shared_s3()))
        self.metasrv_addresses = cluster.metasrvs[0].environment["TSDB_METASRV__BIND_ADDR"]
        self._directory: Path | None = None
        self._users: list[Callable[[], bool]] = []

    def is_free_for(self, directory: Path) -> bool:
        """Whether nobody uses it for another directory."""
        self._users = [is_used for is_used in self._users if is_used()]
        return self._directory == directory or not self._users

    def has(self, directory: Path) -> bool:
        return self._directory == directory

    def use(self, is_used: Callable[[], bool]) -> None:
        self._users.append(is_used)

    def open(self, options: LocalOptions, clock: Clock, directory: Path) -> ClusteredDatabase:
        """Open a database; it is empty if the directory is another one than the last time."""
        assembly = AssemblyOptions(
            options.query,
            options.database,
            options.authenticator,
            memory_report=options.memory_report or (lambda: MemoryReport([], resident_bytes())),
            caches=lambda: (),
            address=options.address,
        )
        meta = MetaClientOptions.model_validate({"metasrv_addrs": self.metasrv_addresses, **PATIENT})
        opened = open_clustered(meta, assembly, clock)
        if self._directory != directory:
            empty(opened.database)
            self._directory = directory
        return opened


_clusters: list[SuiteCluster] = []


def cluster_of(directory: Path) -> SuiteCluster:
    """The cluster of a directory, or one that is free, or a new one."""
    free = [each for each in _clusters if each.is_free_for(directory)]
    found = next((each for each in free if each.has(directory)), None) or (free[0] if free else SuiteCluster())
    if found not in _clusters:
        _clusters.append(found)
    return found


class FrontendDatabase:
    """What a suite sees in the place of a local database."""

    def __init__(self, opened: ClusteredDatabase) -> None:
        self.database: Database = opened.database
        self.flushes_at_close = True
        self.is_closed = False
        self._opened = opened

    @property
    def memory_owners(self) -> list[Any]:
        return [self.database.services.queries, self.database.promql]

    @property
    def engine(self) -> Any:
        raise AssertionError("the test looks at the engine of its process: list it in tests/standalone_only.py")

    def close(self) -> None:
        self.is_closed = True
        self._opened.close()


def open_in_cluster(
    store: ObjectStore,
    kv: KvStore,
    wal_directory: Path,
    *,
    options: LocalOptions | None = None,
    clock: Clock | None = None,
    **_: object,
) -> FrontendDatabase:
    """Open the database of a frontend in the place of a local one."""
    kv.close()
    directory = wal_directory.resolve()
    cluster = cluster_of(directory)
    opened = FrontendDatabase(cluster.open(options or LocalOptions(), clock or SystemClock(), directory))
    cluster.use(lambda: not opened.is_closed)
    return opened


def empty(database: Database) -> None:
    """Drop everything that the test before has left."""
    services = database.services
    catalog, users = services.catalog, services.users
    assert isinstance(catalog, RemoteCatalog)
    for info in catalog.databases():
        for view in catalog.views(info.name):
            catalog.drop_view(info.name, view.name)
        tables = sorted(catalog.tables(info.name), key=lambda table: not table.is_logical)
        for is_logical in (True, False):
            chosen = [table for table in tables if table.is_logical is is_logical]
            if chosen:
                catalog.drop_tables(chosen)
        catalog.metric_descriptions.forget(info.name)
        if info.name not in BUILT_IN_DATABASES:
            catalog.drop_database(info.name)
        elif info.options:
            catalog.alter_database(replace(info, options={}))
    for user in users.users():
        users.drop(user.name)


def frontend_environment(
    directory: Path, environment: Mapping[str, str], is_running: Callable[[], bool]
) -> dict[str, str]:
    """The variables of a frontend for those of a standalone server; what a frontend has not is left out."""
    directory = directory.resolve()
    cluster = cluster_of(directory)
    cluster.open(LocalOptions(), SystemClock(), directory).close()
    cluster.use(is_running)
    kept = {
        name.replace("TSDB_STANDALONE__", "TSDB_FRONTEND__", 1): value
        for name, value in environment.items()
        if not name.startswith(_OF_REGIONS)
    }
    return {**kept, "TSDB_FRONTEND__META_CLIENT__METASRV_ADDRS": cluster.metasrv_addresses}


def install() -> None:
    """Let databases that are opened in this process be those of frontends."""
    for module in (local_databases, tsdb.components):
        module.open_local = open_in_cluster  # type: ignore[attr-defined]
    if IS_PARTITIONED:
        create_table = RemoteCatalog.create_table
        RemoteCatalog.create_table = (  # type: ignore[method-assign]
            lambda self, draft: create_table(self, partitioned(draft))
        )


def partitioned(draft: TableInfo) -> TableInfo:
    """Divide a table by its first tag that can be compared, if nothing else was said."""
    if draft.partition_rules or draft.region_numbers != (0,) or draft.is_logical:
        return draft
    for tag in draft.tags:
        rules = _rules(tag.name, tag.type)
        if rules:
            texts = PartitionRule.parse([tag.name], rules, {tag.name: tag.type}).texts
            numbers = tuple(range(len(texts)))
            return replace(draft, partition_columns=(tag.name,), partition_rules=texts, region_numbers=numbers)
    return draft


def _rules(name: str, kind: DataType) -> tuple[str, ...]:
    if kind.is_string:
        low, high = "'b'", "'h2'"
    elif kind.is_integer:
        low, high = "2", "5"
    else:
        return ()
    quoted = '"' + name.replace('"', '""') + '"'
    return f"{quoted} < {low}", f"{quoted} >= {low} AND {quoted} < {high}", f"{quoted} >= {high}"
