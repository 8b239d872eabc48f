"""The whole database in one process: local regions, local metadata, all protocols."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tsdb.backup import DestinationPlaces
from tsdb.components._governor import MemoryGovernor
from tsdb.components._local import COPY_DIRECTORY, SCRATCH_DIRECTORY, LocalDatabase, LocalOptions, open_directory
from tsdb.components._process import Service
from tsdb.components._protocols import ProtocolServers
from tsdb.components._scratch import ScratchDatabases
from tsdb.components._settings import (
    engine_options,
    process_caches,
    query_memory,
    query_options,
    query_workers,
    series_memory,
    shared_log_options,
    slow_query_options,
    wal_options,
)
from tsdb.components._stores import open_stores
from tsdb.components._warm_up import load_statements, save_statements, warm_up
from tsdb.config import FileStorage, StandaloneConfig
from tsdb.database import DatabaseOptions
from tsdb.errors import TsdbError
from tsdb.memory import MemoryOwner
from tsdb.processes.fork_server import Forker
from tsdb.query import RecentStatement
from tsdb.servers.fast_workers import VECTOR_BYTES_MAX, VECTOR_BYTES_MIN, FastWorkerProgram, FastWorkers
from tsdb.servers.http import HttpApp
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.standalone")


class Standalone:
    """The parts of a standalone server."""

    def __init__(self, config: StandaloneConfig, forker: Forker | None = None) -> None:
        """`forker` is where query workers are forked from; without one, they start a process for that."""
        self._config = config
        self._forker = forker
        self._open: LocalDatabase | None = None
        self._unreached: list[RecentStatement] = []
        """Statements of before the restart that there was no time to ask again."""
        self._protocols = ProtocolServers(config, self._fast_workers())
        self._caches = process_caches(config.memory.limit)
        self._replaying: MemoryOwner | None = None
        """The memory of the engine while it opens."""
        self._governor = MemoryGovernor(int(config.memory.limit), self._memory_owners)
        self.trouble: str | None = None

    def add_routes(self, app: HttpApp) -> None:
        self._protocols.add_routes(app)

    def watchers(self) -> list[Service]:
        return [self._governor]

    def services(self) -> list[Service]:
        return self._protocols.services()

    def open(self) -> None:
        """Open the data directory and replay its log."""
        config = self._config
        home = Path(config.storage.data_home)
        stores = open_stores(config.storage)
        self._open = open_directory(
            home,
            store=stores.routed,
            options=replace(
                _local_options(config, home, self._forker, storages=frozenset(stores.providers)),
                shared_log=shared_log_options(config.wal, stores, config.memory.limit),
                backups=DestinationPlaces(home, stores.storages()),
                scratch=ScratchDatabases(home / SCRATCH_DIRECTORY).open,
                authenticator=self._protocols.authenticator,
                on_memory=self._watch_replay,
                memory_report=self._governor.report,
            ),
            wal_directory=Path(config.wal.dir) if config.wal.dir else None,
            on_fatal=self._fail,
        )
        statements = load_statements(home)
        self._unreached = statements[warm_up(self._protocols.rehearsal(self._open.database), statements) :]
        self._protocols.gate.open(self._open.database)

    def close(self) -> None:
        self._protocols.close()
        opened, self._open, self._replaying = self._open, None, None
        if opened is not None:
            home = Path(self._config.storage.data_home)
            save_statements(opened.database.services.queries, home, self._unreached)
            opened.close()

    def _memory_owners(self) -> list[MemoryOwner]:
        opened, replaying = self._open, self._replaying
        owners: list[MemoryOwner] = [] if replaying is None else [replaying]
        return [*(owners if opened is None else opened.memory_owners), *self._caches, *self._protocols.memory]

    def _watch_replay(self, memory: MemoryOwner) -> None:
        """Reading the log back takes as much memory as writing did."""
        self._replaying = memory

    def _fast_workers(self) -> FastWorkers | None:
        """Without much memory there are none: they would decode again and again what they cannot keep."""
        if self._forker is None:
            return None
        count = query_workers(self._config)
        vector_bytes = min(VECTOR_BYTES_MAX, int(self._config.mito.vector_cache_size) // 2 // count)
        if vector_bytes < VECTOR_BYTES_MIN:
            return None
        return FastWorkers(self._forker, FastWorkerProgram(vector_bytes), count, on_look=self._drop_copies)

    def _drop_copies(self) -> None:
        """Columns that fast workers have decoded need not be here as well, unless queries that run here use them."""
        if self._open is not None:
            self._open.engine.memory.drop_unused_columns()

    def examples(self, url: str) -> list[str]:
        return self._protocols.examples(url)

    def _fail(self, error: TsdbError) -> None:
        """The log is broken: what is there can be read, nothing more is taken until a restart."""
        _log.error("writing has stopped; restart the server to recover", error=error)
        self.trouble = f"writing has stopped: {error}"


def _local_options(
    config: StandaloneConfig, home: Path, forker: Forker | None, *, storages: frozenset[str]
) -> LocalOptions:
    limit, storage = config.memory.limit, config.storage
    is_remote = not isinstance(storage, FileStorage) or bool(storage.providers)
    return LocalOptions(
        engine=engine_options(config.mito, limit),
        wal=wal_options(config.wal),
        query=query_options(config, home, forker, reads_remotely=is_remote),
        database=DatabaseOptions(
            copy_root=home / COPY_DIRECTORY,
            storages=storages,
            slow_queries=slow_query_options(config.slow_query),
            promql_bytes=query_memory(limit),
            series_index_bytes=series_memory(limit),
        ),
        address=str(config.http.addr),
    )
