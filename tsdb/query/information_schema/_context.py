"""What the describing tables are made from: the catalog, the regions, this node, and what is running."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tsdb.clock import Clock
from tsdb.engine import CompactionRecord, FileFacts, RegionStat, SegmentFacts
from tsdb.memory import MemoryReport
from tsdb.model import CATALOG, ColumnInfo, DatabaseInfo, RegionId, TableInfo, ViewInfo
from tsdb.query.information_schema._cluster_view import ClusterView, OneNode
from tsdb.query.session import Channel, Session
from tsdb.store import RequestFacts
from tsdb.telemetry import CacheStatistics


class DescribedCatalog(Protocol):
    """The part of a catalog that reading needs."""

    def databases(self) -> list[DatabaseInfo]:
        """All databases, sorted by name."""

    def tables(self, database: str) -> list[TableInfo]:
        """The tables of a database, sorted by name."""

    def views(self, database: str) -> list[ViewInfo]:
        """The views of a database, sorted by name."""

    def effective_options(self, table: TableInfo) -> dict[str, str]:
        """The options of a table together with those its database gives."""


class Measured(Protocol):
    """The part of the regions that reading needs."""

    def stat(self, region_id: RegionId) -> RegionStat: ...

    def files(self, region_id: RegionId) -> list[FileFacts]: ...

    def compactions(self) -> list[CompactionRecord]: ...

    def wal_segments(self) -> list[tuple[str, SegmentFacts]]: ...

    def storage_requests(self) -> list[RequestFacts]: ...


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a process knows of itself."""

    id: int = 0
    kind: str = "STANDALONE"
    address: str = ""
    version: str = "unknown"
    commit: str = "unknown"
    branch: str = "unknown"
    started_ms: int = 0


@dataclass(frozen=True, slots=True)
class RunningStatement:
    """One row of the process list."""

    id: str
    database: str
    query: str
    start_ms: int
    client: str = ""
    frontend: str = ""
    catalog: str = CATALOG
    user: str = ""
    connection: int = 0
    """The number by which `KILL` finds it, that of its connection where it has one."""
    is_finishing: bool = False
    """Whether it was answered, while work behind it that cannot be interrupted still runs."""


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """One client that is connected, and what it runs if it runs something."""

    id: int
    channel: Channel
    user: str
    database: str
    client: str
    application: str
    start_ms: int
    quiet_since_ms: int
    """When its last statement ended."""
    statement: str | None = None
    statement_start_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FlowRow:
    """One flow, as the tables about flows show it."""

    id: int
    name: str
    definition: str
    """The statement that creates it, as SHOW CREATE FLOW prints it."""
    sink_table: str
    """With catalog and database."""
    database: str
    created_ms: int
    updated_ms: int
    comment: str | None = None
    expire_after_seconds: int | None = None
    source_table_ids: tuple[int, ...] = ()
    source_tables: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    state_bytes: int | None = None
    started_ms: int | None = None
    last_run_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """Rows of one request that were refused for one reason."""

    time_ms: int
    protocol: str
    database: str
    table: str
    rows: int
    reason: str
    place: int | None = None
    """The line of the first of them, or the index of its point."""
    column: str | None = None
    value: str | None = None
    """What the first of them had in that column."""


def _no_caches() -> Sequence[CacheStatistics]:
    return ()


def _no_rejections() -> Sequence[RejectedRows]:
    return ()


def _nothing() -> Sequence[RunningStatement]:
    return ()


def _no_memory() -> MemoryReport:
    return MemoryReport((), 0)


def _no_connections() -> Sequence[OpenConnection]:
    return ()


def _no_columns(view: ViewInfo) -> tuple[ColumnInfo, ...]:
    return ()


def _no_flows() -> Sequence[FlowRow]:
    return ()


@dataclass(frozen=True, slots=True)
class InformationContext:
    """Everything the describing tables are made from, for one statement of one session."""

    catalog: DescribedCatalog
    regions: Measured
    session: Session
    clock: Clock
    node: NodeFacts = field(default_factory=NodeFacts)
    processes: Callable[[], Sequence[RunningStatement]] = _nothing
    connections: Callable[[], Sequence[OpenConnection]] = _no_connections
    flows: Callable[[], Sequence[FlowRow]] = _no_flows
    rejections: Callable[[], Sequence[RejectedRows]] = _no_rejections
    memory: Callable[[], MemoryReport] = _no_memory
    caches: Callable[[], Sequence[CacheStatistics]] = _no_caches
    view_columns: Callable[[ViewInfo], tuple[ColumnInfo, ...]] = _no_columns
    """The columns of a view as its query has them now, none if it cannot be planned."""
    cluster: ClusterView | None = None
    """The cluster that this node is part of; None for a standalone server."""

    @property
    def cluster_view(self) -> ClusterView:
        return self.cluster or OneNode(self)
