"""The whole database in one process: local regions, local metadata, the SQL endpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tsdb.auth import SYSTEM, Authenticator
from tsdb.components._build_info import build_info
from tsdb.components._export_metrics import SELF_IMPORT_TABLES, MetricsExporter, self_import
from tsdb.components._local import (
    COPY_DIRECTORY,
    SPILL_DIRECTORY,
    LocalDatabase,
    LocalOptions,
    open_directory,
)
from tsdb.components._process import Service
from tsdb.config import FileStorage, IndexMode, MitoOptions, StandaloneConfig, memory_bytes, settings_of
from tsdb.config import SlowQueryOptions as SlowQueryConfig
from tsdb.config import WalOptions as WalConfig
from tsdb.database import Database, DatabaseOptions, Output, RecordType, Session, SlowQueryOptions
from tsdb.engine import EngineOptions, WalOptions
from tsdb.errors import StartError, Status, TsdbError
from tsdb.ingest import NewTable, Rejection, TableRows, WriteOutcome
from tsdb.ingest.prometheus import Samples
from tsdb.ingest.prometheus_read import ReadQuery
from tsdb.model import MetricDescription, TableInfo
from tsdb.query import QueryOptions
from tsdb.query.promql import PromqlEngine, Span
from tsdb.servers import Tls
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
from tsdb.sql import Parsed
from tsdb.sql.statements import Statement
from tsdb.telemetry import get_logger
from tsdb.units import Size

MERGE_BYTES_MAX = 256 << 20
"""What flushes and compactions may hold while they merge, where a tenth of the memory is not less."""

_log = get_logger("tsdb.standalone")


class NotReady(TsdbError):
    """The server is starting or stopping: nothing can be asked of the database now."""

    status = Status.SUSPENDED


class Routes(Protocol):
    """Routes that have threads of their own."""

    def close(self) -> None: ...


class Standalone:
    """The parts of a standalone server."""

    def __init__(self, config: StandaloneConfig) -> None:
        self._config = config
        self._open: LocalDatabase | None = None
        self._routes: list[Routes] = []
        self._authenticator = Authenticator()
        self.trouble: str | None = None

    def add_routes(self, app: HttpApp) -> None:
        self._authenticator = app.authenticator
        door = _Door(self)
        self._routes = [sql_routes(app, door)]
        if self._config.influxdb.enable:
            self._routes.append(influx_routes(app, door))
        if self._config.prom_store.enable:
            has_metric_engine, is_strict = self._config.prom_store.with_metric_engine, self._config.http.is_strict_mode
            self._routes.append(
                prometheus_remote_routes(app, door, has_metric_engine=has_metric_engine, is_strict=is_strict)
            )
            self._routes.append(prometheus_api_routes(app, door, self._facts()))
        if self._config.opentsdb.enable:
            self._routes.append(opentsdb_routes(app, door))
        with_metric_engine = self._config.prom_store.with_metric_engine
        self._routes.append(otlp_routes(app, door, with_metric_engine=with_metric_engine))
        if self._config.http.compat_paths:
            app.add_aliases(COMPAT_PATHS)

    def _facts(self) -> ServerFacts:
        """What the Prometheus API tells about the server."""
        build = build_info()
        return ServerFacts(
            {"version": build.version, "commit": build.commit, "branch": build.branch},
            lambda: settings_of(self._config),
        )

    def services(self) -> list[Service]:
        services: list[Service] = []
        opentsdb, export = self._config.opentsdb, self._config.export_metrics
        if opentsdb.enable and opentsdb.addr is not None:
            host, port = opentsdb.addr.host, opentsdb.addr.port
            services.append(OpentsdbServer(_Door(self), host=host, port=port, threads_max=opentsdb.runtime_size))
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
            _Door(self),
            makers,
            host=grpc.addr.host,
            port=grpc.addr.port,
            limits=limits,
            authenticator=self._authenticator,
            tls=Tls.of(grpc.tls, section="grpc.tls"),
            version=build_info().version,
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
            _Door(self),
            self._authenticator,
            Tls.of(mysql.tls, section="mysql.tls"),
            host=mysql.addr.host,
            port=mysql.addr.port,
            limits=limits,
            requires_database=mysql.reject_no_database,
        )

    def _postgres(self) -> PostgresServer:
        options = self._config.postgres
        return PostgresServer(
            _Door(self),
            host=options.addr.host,
            port=options.addr.port,
            threads_max=options.runtime_size,
            authenticator=self._authenticator,
            tls=Tls.of(options.tls, section="postgres.tls"),
            version=build_info().version,
            connections_max=options.max_connections,
            idle_timeout=options.idle_timeout,
            keep_alive=options.keep_alive,
        )

    def open(self) -> None:
        """Open the data directory and replay its log."""
        config = self._config
        if not isinstance(config.storage, FileStorage):
            raise StartError(
                f"storage.type {config.storage.type} is not served by this version",
                hint="use storage.type File, or leave it out",
            )
        home = Path(config.storage.data_home)
        self._open = open_directory(
            home,
            options=replace(_local_options(config, home), authenticator=self._authenticator),
            wal_directory=Path(config.wal.dir) if config.wal.dir else None,
            on_fatal=self._fail,
        )

    def close(self) -> None:
        for routes in self._routes:
            routes.close()
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def examples(self, url: str) -> list[str]:
        login = "-u user:password " if self._authenticator.is_enabled else ""
        return [f"curl {login}{url}/v1/sql -d 'sql=SELECT 1'"]

    @property
    def database(self) -> Database:
        if self._open is None:
            raise NotReady("the server is not ready", hint="ask /ready, and try again")
        return self._open.database

    def _ensure_database(self, name: str) -> None:
        if not self.database.has_database(name):
            self.database.run(f"CREATE DATABASE IF NOT EXISTS {name}", Session(identity=SYSTEM))

    def _import_metrics(self, rows: list[TableRows], database: str) -> None:
        session = Session(database=database, identity=SYSTEM)
        self.database.ingest(rows, session, SELF_IMPORT_TABLES, protocol="self")

    def _fail(self, error: TsdbError) -> None:
        """The log is broken: what is there can be read, nothing more is taken until a restart."""
        _log.error("writing has stopped; restart the server to recover", error=error)
        self.trouble = f"writing has stopped: {error}"


class _Door:
    """The database as the servers see it: there before it is open, with an error that says so."""

    def __init__(self, parts: Standalone) -> None:
        self._parts = parts

    def has_database(self, name: str) -> bool:
        return self._parts.database.has_database(name)

    @property
    def promql(self) -> PromqlEngine:
        return self._parts.database.promql

    def running_promql(
        self, text: str, session: Session, span: Span | None = None
    ) -> AbstractContextManager[Callable[[], None]]:
        return self._parts.database.running_promql(text, session, span)

    def execute(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> Iterator[Output]:
        return self._parts.database.execute(text, session, tables=tables)

    def run_parsed(self, parsed: Parsed, session: Session) -> Output:
        return self._parts.database.run_parsed(parsed, session)

    def schema_of(self, parsed: Parsed, session: Session) -> pa.Schema | None:
        return self._parts.database.schema_of(parsed, session)

    def executed(self, statement: Statement, session: Session) -> Statement:
        return self._parts.database.executed(statement, session)

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        return self._parts.database.find_table(parts, session)

    def table_to_write(self, parts: Sequence[str], session: Session) -> TableInfo:
        return self._parts.database.table_to_write(parts, session)

    def connect(self, session: Session) -> None:
        self._parts.database.connect(session)

    def disconnect(self, session: Session) -> None:
        self._parts.database.disconnect(session)

    def cancel(self, session: Session) -> None:
        # Work that does not stop is cancelled again and again, also while the server stops.
        with suppress(NotReady):
            self._parts.database.cancel(session)

    def ingest(
        self,
        rows: Sequence[TableRows],
        session: Session,
        new_table: NewTable,
        *,
        dry_run: bool = False,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
        notes_rejections: bool = True,
    ) -> WriteOutcome:
        return self._parts.database.ingest(
            rows,
            session,
            new_table,
            dry_run=dry_run,
            hints=hints,
            protocol=protocol,
            notes_rejections=notes_rejections,
        )

    def ingest_samples(
        self,
        samples: Samples,
        session: Session,
        new_table: NewTable,
        *,
        dry_run: bool = False,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
        notes_rejections: bool = True,
    ) -> WriteOutcome:
        return self._parts.database.ingest_samples(
            samples,
            session,
            new_table,
            dry_run=dry_run,
            hints=hints,
            protocol=protocol,
            notes_rejections=notes_rejections,
        )

    def begin_samples(
        self,
        samples: Samples,
        session: Session,
        new_table: NewTable,
        *,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
    ) -> Future[int] | None:
        return self._parts.database.begin_samples(samples, session, new_table, hints=hints, protocol=protocol)

    def append(self, parts: Sequence[str], frame: pa.Table, session: Session, *, protocol: str = "other") -> int:
        return self._parts.database.append(parts, frame, session, protocol=protocol)

    def create_for(
        self,
        parts: Sequence[str],
        schema: pa.Schema,
        session: Session,
        *,
        tags: Sequence[str],
        time: str,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._parts.database.create_for(parts, schema, session, tags=tags, time=time, options=options)

    def delete_rows(self, table: str, keys: pa.Table, time: str, session: Session) -> int:
        return self._parts.database.delete_rows(table, keys, time, session)

    def read_remote(self, queries: Sequence[ReadQuery], session: Session) -> list[bytes]:
        return self._parts.database.read_remote(queries, session)

    def describe_metrics(self, described: Sequence[tuple[str, MetricDescription]], session: Session) -> None:
        self._parts.database.describe_metrics(described, session)

    def metric_descriptions(self, database: str) -> Mapping[str, tuple[MetricDescription, ...]]:
        return self._parts.database.metric_descriptions(database)

    def reject(self, rejections: Sequence[Rejection], session: Session, *, protocol: str) -> None:
        self._parts.database.reject(rejections, session, protocol=protocol)


def _local_options(config: StandaloneConfig, home: Path) -> LocalOptions:
    return LocalOptions(
        engine=engine_options(config.mito),
        wal=wal_options(config.wal),
        query=query_options(config.query.workers, home),
        database=DatabaseOptions(copy_root=home / COPY_DIRECTORY, slow_queries=slow_query_options(config.slow_query)),
        address=str(config.http.addr),
    )


def slow_query_options(options: SlowQueryConfig) -> SlowQueryOptions:
    """The settings of `[slow_query]` as the database takes them."""
    return SlowQueryOptions(
        is_enabled=options.enable,
        record_type=RecordType(options.record_type.value),
        threshold=options.threshold,
        sample_ratio=options.sample_ratio,
        ttl=str(options.ttl),
    )


def query_options(workers: int, home: Path) -> QueryOptions:
    """The settings of `[query]` as the query engine takes them."""
    count = (os.cpu_count() or 1) if workers < 0 else workers
    return QueryOptions(memory_bytes=query_memory(), spill_dir=home / SPILL_DIRECTORY, workers=count)


def query_memory() -> Size:
    """What all queries together may take before they spill: a quarter of the memory, at least 256 MiB."""
    return Size(max(256 << 20, memory_bytes() // 4))


def engine_options(mito: MitoOptions) -> EngineOptions:
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
        merge_memory_size=merge_memory(),
    )


def merge_memory() -> Size:
    """What flushes and compactions may hold while they merge: a tenth of the memory."""
    return Size(min(MERGE_BYTES_MAX, memory_bytes() // 10))


def wal_options(wal: WalConfig) -> WalOptions:
    """The settings of `[wal]` as the log takes them."""
    return WalOptions(
        file_size=wal.file_size,
        sync_write=wal.sync_write,
        purge_interval=wal.purge_interval,
        purge_threshold=wal.purge_threshold,
        read_batch_size=wal.read_batch_size,
    )
