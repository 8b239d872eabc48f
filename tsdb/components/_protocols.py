"""The protocol servers of a database, as `standalone` and `frontend` both run them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from tsdb.auth import SYSTEM, Authenticator
from tsdb.components._build_info import build_info
from tsdb.components._export_metrics import SELF_IMPORT_TABLES, MetricsExporter, self_import
from tsdb.components._instance import instance_of
from tsdb.components._process import Service
from tsdb.components._settings import ServingConfig
from tsdb.config import settings_of
from tsdb.database import DatabaseGate, DatabasePort, Session
from tsdb.ingest import TableRows
from tsdb.ingest.influx import KEYS_BYTES_MAX, LineReader
from tsdb.ingest.prometheus import SERIES_BYTES_MAX
from tsdb.memory import MemoryOwner
from tsdb.servers import QueryScheduler, Tls
from tsdb.servers.fast_workers import FastWorkers
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
    SqlRoutes,
    influx_routes,
    opentsdb_routes,
    otlp_routes,
    prometheus_api_routes,
    prometheus_remote_routes,
    sql_routes,
)
from tsdb.servers.http.dashboard import dashboard_routes
from tsdb.servers.mysql import MysqlLimits, MysqlServer
from tsdb.servers.opentsdb import OpentsdbServer
from tsdb.servers.postgres import PostgresServer


class ThreadedRoutes(Protocol):
    """Routes that have threads of their own."""

    def close(self) -> None: ...


class ProtocolServers:
    """All protocols of one database, which its component opens later: until then the gate is closed."""

    def __init__(self, config: ServingConfig, fast_workers: FastWorkers | None = None) -> None:
        self._config = config
        self._fast_workers = fast_workers
        self.gate = DatabaseGate()
        self.authenticator = Authenticator()
        self._scheduler = QueryScheduler()
        self._sql: SqlRoutes | None = None
        self._routes: list[ThreadedRoutes] = []
        self._grpc: GrpcServer | None = None
        self.memory: list[MemoryOwner] = []
        """What the servers hold beside the database."""

    def add_routes(self, app: HttpApp) -> None:
        self.authenticator = app.authenticator
        self.memory = [app.bodies]
        fast_workers = self._fast_workers
        self._sql = sql_routes(app, self.gate, scheduler=self._scheduler, fast_workers=fast_workers)
        self._routes = [self._sql]
        if fast_workers is not None:
            self._routes.append(fast_workers)
            self.memory.append(fast_workers)
        if self._config.influxdb.enable:
            lines = LineReader(min(KEYS_BYTES_MAX, self._config.memory.limit // 16))
            self.memory.append(lines)
            self._routes.append(influx_routes(app, self.gate, parse=lines))
        if self._config.prom_store.enable:
            has_metric_engine, is_strict = self._config.prom_store.with_metric_engine, self._config.http.is_strict_mode
            remote = prometheus_remote_routes(
                app,
                self.gate,
                has_metric_engine=has_metric_engine,
                is_strict=is_strict,
                series_bytes_max=min(SERIES_BYTES_MAX, self._config.memory.limit // 8),
                scheduler=self._scheduler,
            )
            self.memory.append(remote.memory)
            self._routes.append(remote)
            self._routes.append(
                prometheus_api_routes(
                    app, self.gate, self._facts(), scheduler=self._scheduler, fast_workers=fast_workers
                )
            )
        if self._config.opentsdb.enable:
            self._routes.append(opentsdb_routes(app, self.gate))
        with_metric_engine = self._config.prom_store.with_metric_engine
        self._routes.append(otlp_routes(app, self.gate, with_metric_engine=with_metric_engine))
        if not self._config.http.disable_dashboard:
            dashboard_routes(app)
        if self._config.http.compat_paths:
            app.add_aliases(COMPAT_PATHS)

    def rehearsal(self, database: DatabasePort) -> Callable[[str, Session, float], None]:
        """Return what answers a query before there are clients."""
        assert self._sql is not None, "the routes are added before the database is opened"
        return partial(self._sql.rehearse, database)

    def _facts(self) -> ServerFacts:
        """The server information of the Prometheus API."""
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
            services.append(OpentsdbServer(self.gate, host=host, port=port, threads_max=opentsdb.runtime_size))
        self._grpc = self._grpc_server()
        services.append(self._grpc)
        if self._config.mysql.enable:
            services.append(self._mysql_server())
        if self._config.postgres.enable:
            services.append(self._postgres())
        if export.enable and export.self_import is not None:
            send = self_import(export.self_import.db, self._ensure_database, self._import_metrics)
            services.append(MetricsExporter(send, export.write_interval, instance_of(self._config)))
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
            self.gate,
            makers,
            host=grpc.addr.host,
            port=grpc.addr.port,
            limits=limits,
            authenticator=self.authenticator,
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
            self.gate,
            self.authenticator,
            Tls.of(mysql.tls, section="mysql.tls"),
            host=mysql.addr.host,
            port=mysql.addr.port,
            limits=limits,
            requires_database=mysql.reject_no_database,
            scheduler=self._scheduler,
            fast_workers=self._fast_workers,
        )

    def _postgres(self) -> PostgresServer:
        options = self._config.postgres
        return PostgresServer(
            self.gate,
            host=options.addr.host,
            port=options.addr.port,
            threads_max=options.runtime_size,
            authenticator=self.authenticator,
            tls=Tls.of(options.tls, section="postgres.tls"),
            version=build_info().version,
            connections_max=options.max_connections,
            idle_timeout=options.idle_timeout,
            keep_alive=options.keep_alive,
            scheduler=self._scheduler,
            fast_workers=self._fast_workers,
        )

    @property
    def grpc_address(self) -> str:
        """Where the gRPC server listens, known once it does."""
        assert self._grpc is not None
        return next(iter(self._grpc.facts.values()))

    def close(self) -> None:
        """End what routes have running, and let nothing more through the gate."""
        for routes in self._routes:
            routes.close()
        self.gate.close()

    def examples(self, url: str) -> list[str]:
        """Commands that show a newcomer what a database can do."""
        login = "-u user:password " if self.authenticator.is_enabled else ""
        return [f"curl {login}{url}/v1/sql -d 'sql=SELECT 1'"]

    def _ensure_database(self, name: str) -> None:
        database = self.gate.database
        if not database.has_database(name):
            for _ in database.execute(f"CREATE DATABASE IF NOT EXISTS {name}", Session(identity=SYSTEM)):
                pass

    def _import_metrics(self, rows: list[TableRows], database: str) -> None:
        session = Session(database=database, identity=SYSTEM)
        self.gate.database.ingest(rows, session, SELF_IMPORT_TABLES, protocol="self")
