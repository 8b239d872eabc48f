"""A database over its catalog and its regions, wherever these are: queries, writes, information_schema, users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tsdb.auth import Authenticator, Identity, UserStore
from tsdb.backup import AnyBackups
from tsdb.catalog import AnyCatalog
from tsdb.clock import Clock
from tsdb.components._build_info import build_info
from tsdb.database import (
    ClusterCommands,
    Connected,
    Database,
    DatabaseOptions,
    OpenScratch,
    Process,
    ProcessList,
    RejectionLog,
    Services,
    Session,
)
from tsdb.engine import Regions
from tsdb.kv import KvStore
from tsdb.memory import MemoryReport
from tsdb.query import QueryEngine, QueryEngineOptions, visible
from tsdb.query.information_schema import (
    ClusterView,
    InformationContext,
    NodeFacts,
    OpenConnection,
    RejectedRows,
    RunningStatement,
)
from tsdb.telemetry import CacheStatistics, reported_caches


class ClusterAccess(ClusterView, ClusterCommands, Protocol):
    """A cluster, for statements that show it and statements that change it."""


@dataclass(frozen=True, slots=True)
class AssemblyOptions:
    """What the component chooses of a database."""

    query: QueryEngineOptions
    database: DatabaseOptions
    authenticator: Authenticator
    """Who may log in; without users, no login is needed and everything is permitted."""
    memory_report: Callable[[], MemoryReport]
    caches: Callable[[], Sequence[CacheStatistics]]
    """The caches of the regions, if they are in this process."""
    address: str
    """How this node is named in the process list and in information_schema."""
    cluster: ClusterAccess | None = None
    """The cluster that this node is part of."""
    backups: AnyBackups | None = None
    scratch: OpenScratch | None = None


def assemble(catalog: AnyCatalog, regions: Regions, kv: KvStore, options: AssemblyOptions, clock: Clock) -> Database:
    """Return a database that executes statements; `kv` holds its users."""
    processes = ProcessList(clock, frontend=options.address)
    rejections = RejectionLog(clock)
    information = _information(catalog, regions, clock, processes, rejections, options)
    queries = QueryEngine(catalog, regions, clock, options.query, information=information)
    users = UserStore(kv)
    options.authenticator.attach(users)
    return Database(
        Services(
            catalog,
            regions,
            queries,
            clock,
            processes,
            information,
            rejections,
            options.database,
            users,
            options.authenticator,
            options.cluster,
            options.backups,
            options.scratch,
        )
    )


def _open_connection(connected: Connected, busy: Process | None) -> OpenConnection:
    session = connected.session
    return OpenConnection(
        id=session.connection_id,
        channel=session.channel,
        user=session.user or "",
        database=session.database,
        client=session.client,
        application=session.variables.get("application_name", ""),
        start_ms=connected.began_ns // 1_000_000,
        quiet_since_ms=connected.quiet_since_ns // 1_000_000,
        statement=None if busy is None else busy.text,
        statement_start_ms=None if busy is None else busy.started_ns // 1_000_000,
    )


def _information(
    catalog: AnyCatalog,
    regions: Regions,
    clock: Clock,
    processes: ProcessList,
    rejections: RejectionLog,
    options: AssemblyOptions,
) -> Callable[[Session], InformationContext]:
    build = build_info()
    node = NodeFacts(
        version=build.version,
        commit=build.commit,
        branch=build.branch,
        started_ms=clock.now_ns() // 1_000_000,
        address=options.address,
    )

    def running(identity: Identity | None) -> list[RunningStatement]:
        """What runs: all of it for administrators, else what is the user's own."""
        is_shown_all = identity is None or identity.is_admin
        return [
            RunningStatement(
                id=process.id,
                database=process.session.database,
                query=process.text,
                client=process.session.client,
                frontend=processes.frontend,
                start_ms=process.started_ns // 1_000_000,
                user=process.session.user or "",
                connection=process.session.connection_id,
                is_finishing=process.is_finishing,
            )
            for process in processes.all()
            if is_shown_all or (identity is not None and process.session.user == identity.name)
        ]

    def connected(identity: Identity | None) -> list[OpenConnection]:
        """Who is connected: everybody for administrators, else the user's own connections."""
        is_shown_all = identity is None or identity.is_admin
        busy = {process.session.connection_id: process for process in processes.all()}
        return [
            _open_connection(each, busy.get(each.session.connection_id))
            for each in processes.connected()
            if is_shown_all or (identity is not None and each.session.user == identity.name)
        ]

    def refused(identity: Identity | None) -> Sequence[RejectedRows]:
        found = rejections.all()
        if identity is None or identity.sees_all:
            return found
        return [each for each in found if identity.may_see(each.database)]

    def make(session: Session) -> InformationContext:
        return InformationContext(
            catalog=visible(catalog, session),
            regions=regions,
            session=session,
            clock=clock,
            node=node,
            processes=lambda: running(session.identity),
            connections=lambda: connected(session.identity),
            rejections=lambda: refused(session.identity),
            memory=options.memory_report,
            caches=lambda: [*options.caches(), *reported_caches()],
            cluster=options.cluster,
        )

    return make
