"""The whole database in one process: local regions, local metadata, the SQL endpoints."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tsdb.auth import SYSTEM, Authenticator
from tsdb.components._build_info import build_info
from tsdb.components._export_metrics import SELF_IMPORT_TABLES, MetricsExporter, self_import
from tsdb.components._governor import MemoryGovernor
from tsdb.components._local import (
    COPY_DIRECTORY,
    SPILL_DIRECTORY,
    LocalDatabase,
    LocalOptions,
    SharedLogOptions,
    open_directory,
)
from tsdb.components._process import Service
from tsdb.components._stores import OpenStores, open_stores
from tsdb.components._warm_up import load_statements, save_statements, warm_up
from tsdb.config import (
    IndexMode,
    MitoOptions,
    SlowQueryOptions,
    StandaloneConfig,
    WalOptions,
    settings_of,
)
from tsdb.database import DatabaseGate, DatabaseOptions, RecordType, Session, SlowQuerySettings
from tsdb.engine import Acknowledge, EngineOptions, SharedSettings, TreeOptions, WalSettings
from tsdb.errors import TsdbError
from tsdb.ingest import TableRows
from tsdb.ingest.influx import KEYS_BYTES_MAX, line_parser
from tsdb.ingest.prometheus import SERIES_BYTES_MAX
from tsdb.memory import MemoryOwner
from tsdb.model import MemtableKind
from tsdb.processes.fork_server import Forker
from tsdb.query import QueryEngineOptions
from tsdb.servers import QueryScheduler, Tls
from tsdb.servers.fast_workers import VECTOR_BYTES_MAX, VECTOR_BYTES_MIN, FastWorkerProgram, FastWorkers
from tsdb.servers.grpc import (
    GrpcLimits,
    GrpcServer,
    MakeServices,
    database_services,
    flight_services,
    otlp_services,
    promql_services,
)
from tsdb.servers.http import (
    COMPAT_PATHS,
    HttpApp,
    ServerFacts,
    influx_routes,
    opentsdb_routes,
    otlp_routes,
    prometheus_api_routes,
    prometheus_remote_routes,
    sql_routes,
)
from tsdb.servers.mysql import MysqlLimits, MysqlServer
from tsdb.servers.opentsdb import OpentsdbServer
from tsdb.servers.postgres import PostgresServer
from tsdb.telemetry import get_logger
from tsdb.units import Size

MERGE_BYTES_MAX, MERGE_PART = 256 << 20, 16
"""What flushes and compactions may hold while they merge, where a sixteenth of the memory limit is not less."""

SERIES_MEMORY_MAX, SERIES_MEMORY_PART = 64 << 20, 32
"""What may be kept of the series of tables, where a thirty-second of the memory limit is not less."""

UNSHIPPED_BYTES_MAX, UNSHIPPED_PART = 256 << 20, 8
"""What a shared log may hold that is not shipped, where an eighth of the memory limit is not less."""

_log = get_logger("tsdb.standalone")


class ThreadedRoutes(Protocol):
    """Routes that have threads of their own."""

    def close(self) -> None: ...


class Standalone:
    """The parts of a standalone server."""

    def __init__(self, config: StandaloneConfig, forker: Forker | None = None) -> None:
        """`forker` is where query workers are forked from; without one, they start a process for that."""
        self._config = config
        self._forker = forker
        self._open: LocalDatabase | None = None
        self._gate = DatabaseGate()
        self._routes: list[ThreadedRoutes] = []
        self._authenticator = Authenticator()
        self._scheduler = QueryScheduler()
        self._server_memory: list[MemoryOwner] = []
        self._governor = MemoryGovernor(int(config.memory.limit), self._memory_owners)
        self.trouble: str | None = None

    def add_routes(self, app: HttpApp) -> None:
        self._authenticator = app.authenticator
        self._server_memory = [app.bodies]
        fast_workers = self._fast_workers()
        self._routes = [sql_routes(app, self._gate, scheduler=self._scheduler, fast_workers=fast_workers)]
        if fast_workers is not None:
            self._routes.append(fast_workers)
            self._server_memory.append(fast_workers)
        if self._config.influxdb.enable:
            keys = min(KEYS_BYTES_MAX, self._config.memory.limit // 16)
            self._routes.append(influx_routes(app, self._gate, parse=line_parser(keys)))
        if self._config.prom_store.enable:
            has_metric_engine, is_strict = self._config.prom_store.with_metric_engine, self._config.http.is_strict_mode
            self._routes.append(
                prometheus_remote_routes(
                    app,
                    self._gate,
                    has_metric_engine=has_metric_engine,
                    is_strict=is_strict,
                    series_bytes_max=min(SERIES_BYTES_MAX, self._config.memory.limit // 8),
                    scheduler=self._scheduler,
                )
            )
            self._routes.append(
                prometheus_api_routes(
                    app, self._gate, self._facts(), scheduler=self._scheduler, fast_workers=fast_workers
                )
            )
        if self._config.opentsdb.enable:
            self._routes.append(opentsdb_routes(app, self._gate))
        with_metric_engine = self._config.prom_store.with_metric_engine
        self._routes.append(otlp_routes(app, self._gate, with_metric_engine=with_metric_engine))
        if self._config.http.compat_paths:
            app.add_aliases(COMPAT_PATHS)

    def _facts(self) -> ServerFacts:
        """The server information of the Prometheus API."""
        build = build_info()
        return ServerFacts(
            {"version": build.version, "commit": build.commit, "branch": build.branch},
            lambda: settings_of(self._config),
        )

    def services(self) -> list[Service]:
        services: list[Service] = [self._governor]
        opentsdb, export = self._config.opentsdb, self._config.export_metrics
        if opentsdb.enable and opentsdb.addr is not None:
            host, port = opentsdb.addr.host, opentsdb.addr.port
            services.append(OpentsdbServer(self._gate, host=host, port=port, threads_max=opentsdb.runtime_size))
        services.append(self._grpc_server())
        if self._config.mysql.enable:
            services.append(self._mysql_server())
        if self._config.postgres.enable:
            services.append(self._postgres())
        if export.enable and export.self_import is not None:
            send = self_import(export.self_import.db, self._ensure_database, self._import_metrics)
            services.append(MetricsExporter(send, export.write_interval))
        return services

    def _grpc_server(self) -> GrpcServer:
        grpc, prom_store = self._config.grpc, self._config.prom_store
        makers: list[MakeServices] = [
            database_services,
            flight_services,
            otlp_services(with_metric_engine=prom_store.with_metric_engine),
        ]
        if prom_store.enable:
            makers.append(promql_services)
        limits = GrpcLimits(
            threads_max=grpc.runtime_size,
            connections_max=grpc.max_connections,
            receive_max=grpc.max_recv_message_size,
            send_max=grpc.max_send_message_size,
            idle=grpc.idle_timeout,
            keep_alive=grpc.keep_alive,
        )
        return GrpcServer(
            self._gate,
            makers,
            host=grpc.addr.host,
            port=grpc.addr.port,
            limits=limits,
            authenticator=self._authenticator,
            tls=Tls.of(grpc.tls, section="grpc.tls"),
            version=build_info().version,
            scheduler=self._scheduler,
        )

    def _mysql_server(self) -> MysqlServer:
        mysql = self._config.mysql
        limits = MysqlLimits(
            threads_max=mysql.runtime_size,
            connections_max=mysql.max_connections,
            idle=mysql.idle_timeout,
            keep_alive=mysql.keep_alive,
            prepared_max=mysql.prepared_stmt_cache_size,
        )
        return MysqlServer(
            self._gate,
            self._authenticator,
            Tls.of(mysql.tls, section="mysql.tls"),
            host=mysql.addr.host,
            port=mysql.addr.port,
            limits=limits,
            requires_database=mysql.reject_no_database,
            scheduler=self._scheduler,
        )

    def _postgres(self) -> PostgresServer:
        options = self._config.postgres
        return PostgresServer(
            self._gate,
            host=options.addr.host,
            port=options.addr.port,
            threads_max=options.runtime_size,
            authenticator=self._authenticator,
            tls=Tls.of(options.tls, section="postgres.tls"),
            version=build_info().version,
            connections_max=options.max_connections,
            idle_timeout=options.idle_timeout,
            keep_alive=options.keep_alive,
            scheduler=self._scheduler,
        )

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
                authenticator=self._authenticator,
                memory_report=self._governor.report,
            ),
            wal_directory=Path(config.wal.dir) if config.wal.dir else None,
            on_fatal=self._fail,
        )
        warm_up(self._open.database.services.queries, load_statements(home))
        self._gate.open(self._open.database)

    def close(self) -> None:
        for routes in self._routes:
            routes.close()
        self._gate.close()
        opened, self._open = self._open, None
        if opened is not None:
            save_statements(opened.database.services.queries, Path(self._config.storage.data_home))
            opened.close()

    def _memory_owners(self) -> list[MemoryOwner]:
        owners: list[MemoryOwner] = [] if self._open is None else self._open.memory_owners
        return [*owners, *self._server_memory]

    def _fast_workers(self) -> FastWorkers | None:
        """Without much memory there are none: they would decode again and again what they cannot keep."""
        if self._forker is None:
            return None
        count = query_workers(self._config)
        vector_bytes = min(VECTOR_BYTES_MAX, int(self._config.mito.vector_cache_size) // 2 // count)
        if vector_bytes < VECTOR_BYTES_MIN:
            return None
        return FastWorkers(self._forker, FastWorkerProgram(vector_bytes), count)

    def examples(self, url: str) -> list[str]:
        login = "-u user:password " if self._authenticator.is_enabled else ""
        return [f"curl {login}{url}/v1/sql -d 'sql=SELECT 1'"]

    def _ensure_database(self, name: str) -> None:
        database = self._gate.database
        if not database.has_database(name):
            for _ in database.execute(f"CREATE DATABASE IF NOT EXISTS {name}", Session(identity=SYSTEM)):
                pass

    def _import_metrics(self, rows: list[TableRows], database: str) -> None:
        session = Session(database=database, identity=SYSTEM)
        self._gate.database.ingest(rows, session, SELF_IMPORT_TABLES, protocol="self")

    def _fail(self, error: TsdbError) -> None:
        """The log is broken: what is there can be read, nothing more is taken until a restart."""
        _log.error("writing has stopped; restart the server to recover", error=error)
        self.trouble = f"writing has stopped: {error}"


def _local_options(
    config: StandaloneConfig, home: Path, forker: Forker | None, *, storages: frozenset[str]
) -> LocalOptions:
    limit = config.memory.limit
    return LocalOptions(
        engine=engine_options(config.mito, limit),
        wal=wal_options(config.wal),
        query=query_options(config, home, forker),
        database=DatabaseOptions(
            copy_root=home / COPY_DIRECTORY,
            storages=storages,
            slow_queries=slow_query_options(config.slow_query),
            promql_bytes=query_memory(limit),
            series_index_bytes=series_memory(limit),
        ),
        address=str(config.http.addr),
    )


def slow_query_options(options: SlowQueryOptions) -> SlowQuerySettings:
    """The settings of `[slow_query]` as the database takes them."""
    return SlowQuerySettings(
        is_enabled=options.enable,
        record_type=RecordType(options.record_type.value),
        threshold=options.threshold,
        sample_ratio=options.sample_ratio,
        ttl=str(options.ttl),
    )


def query_options(config: StandaloneConfig, home: Path, forker: Forker | None) -> QueryEngineOptions:
    """The settings of `[query]` as the query engine takes them."""
    return QueryEngineOptions(
        memory_bytes=query_memory(config.memory.limit),
        spill_dir=home / SPILL_DIRECTORY,
        workers=query_workers(config),
        forker=forker,
    )


def query_workers(config: StandaloneConfig) -> int:
    """How many worker processes of each kind there are: as many as cores, if the configuration does not say."""
    count = config.query.workers
    return (os.cpu_count() or 1) if count < 0 else count


def query_memory(limit: Size) -> Size:
    """What all queries together may take before they spill: half of the memory limit."""
    return Size(limit // 2)


def engine_options(mito: MitoOptions, limit: Size) -> EngineOptions:
    """The settings of `[region_engine.mito]` as the engine takes them."""
    return EngineOptions(
        num_workers=mito.num_workers,
        manifest_checkpoint_distance=mito.manifest_checkpoint_distance,
        max_background_jobs=mito.max_background_jobs,
        auto_flush_interval=mito.auto_flush_interval,
        global_write_buffer_size=mito.global_write_buffer_size,
        global_write_buffer_reject_size=mito.global_write_buffer_reject_size,
        sst_meta_cache_size=mito.sst_meta_cache_size,
        vector_cache_size=mito.vector_cache_size,
        page_cache_size=mito.page_cache_size,
        sst_write_buffer_size=mito.sst_write_buffer_size,
        scan_parallelism=mito.scan_parallelism,
        index_on_flush=mito.inverted_index.create_on_flush is IndexMode.AUTO,
        index_on_compaction=mito.inverted_index.create_on_compaction is IndexMode.AUTO,
        index_on_query=mito.inverted_index.apply_on_query is IndexMode.AUTO,
        index_memory_size=mito.inverted_index.mem_threshold_on_create,
        index_intermediate_path=Path(mito.inverted_index.intermediate_path),
        merge_memory_size=Size(min(MERGE_BYTES_MAX, limit // MERGE_PART)),
        series_registers_size=series_memory(limit),
        memtable_type=MemtableKind(mito.memtable.type),
        tree=TreeOptions(
            shard_keys=mito.memtable.index_max_keys_per_shard,
            freeze_rows=mito.memtable.data_freeze_threshold,
            fork_bytes=mito.memtable.fork_dictionary_bytes,
        ),
    )


def series_memory(limit: Size) -> Size:
    """What may be kept of the series of tables, once for SQL and once for PromQL."""
    return Size(min(SERIES_MEMORY_MAX, limit // SERIES_MEMORY_PART))


def wal_options(wal: WalOptions) -> WalSettings:
    """The settings of `[wal]` as the log takes them."""
    return WalSettings(
        file_size=wal.file_size,
        sync_write=wal.sync_write,
        purge_interval=wal.purge_interval,
        purge_threshold=wal.purge_threshold,
        read_batch_size=wal.read_batch_size,
    )


def shared_log_options(wal: WalOptions, stores: OpenStores, limit: Size) -> SharedLogOptions | None:
    """The settings of `[wal.shared]` as the log takes them; None if it is not shared."""
    shared = wal.shared
    if not shared.enable:
        return None
    store, place = stores.find(shared.storage)
    settings = SharedSettings(
        acknowledge=Acknowledge(shared.acknowledge.value),
        interval=shared.interval,
        max_batch=shared.max_batch,
        in_flight=shared.in_flight,
        buffer_bytes_max=Size(min(UNSHIPPED_BYTES_MAX, limit // UNSHIPPED_PART)),
        purge_interval=wal.purge_interval,
        purge_threshold=wal.purge_threshold,
        read_batch_size=wal.read_batch_size,
    )
    return SharedLogOptions(store, place, settings)
