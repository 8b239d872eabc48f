"""What the statements of a database work with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from tsdb.auth import Authenticator, UserStore
from tsdb.backup import AnyBackups
from tsdb.catalog import AnyCatalog
from tsdb.clock import Clock
from tsdb.database._cluster_admin import ClusterCommands
from tsdb.database._processes import ProcessList
from tsdb.database.writing.frames import FrameWriter
from tsdb.database.writing.rejections import RejectionLog
from tsdb.database.writing.samples import SampleWriter
from tsdb.database.writing.writer import Writer
from tsdb.engine import Regions
from tsdb.kv import MemoryKv
from tsdb.query import QueryEngine, Session
from tsdb.query.information_schema import InformationContext
from tsdb.store import ObjectStore
from tsdb.units import Duration, Size


class RecordType(StrEnum):
    """Where slow statements are recorded."""

    SYSTEM_TABLE = "system_table"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class SlowQuerySettings:
    """The section `slow_query` of the configuration."""

    is_enabled: bool = False
    record_type: RecordType = RecordType.SYSTEM_TABLE
    threshold: Duration = Duration.of_seconds(30)
    sample_ratio: float = 1.0
    ttl: str = "90d"


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """Settings that the component that opens a database chooses."""

    copy_root: Path | None = None
    """The only directory COPY and external tables may read and write; None forbids both."""
    storages: frozenset[str] = frozenset()
    """The storages a table may choose beside the default one, in lower case."""
    write_timeout: Duration = Duration.of_seconds(30)
    """How long a write may wait for room in the write buffer."""
    promql_bytes: Size | None = None
    """What all PromQL queries together may hold, where the bound of their samples is not less."""
    series_index_bytes: Size | None = None
    """What PromQL may keep of the labels of series; None for its default."""
    slow_queries: SlowQuerySettings = field(default_factory=SlowQuerySettings)
    """Which statements are recorded as slow, and where."""


OpenScratch: TypeAlias = "Callable[[Callable[[Path], ObjectStore]], AbstractContextManager[Services]]"


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one database, handed to every statement."""

    catalog: AnyCatalog
    regions: Regions
    queries: QueryEngine
    clock: Clock
    processes: ProcessList
    information: Callable[[Session], InformationContext]
    rejections: RejectionLog
    options: DatabaseOptions = field(default_factory=DatabaseOptions)
    users: UserStore = field(default_factory=lambda: UserStore(MemoryKv()))
    """The users that SQL made."""
    authenticator: Authenticator = field(default_factory=Authenticator)
    """The current rights of users who have logged in."""
    cluster: ClusterCommands | None = None
    """The cluster that this server is part of."""
    backups: AnyBackups | None = None
    """Makes backups, or lets datanodes make them."""
    scratch: OpenScratch | None = None
    """Opens another database for the time of a statement: what a function puts into a directory."""
    writer: Writer = field(init=False)
    """Writes rows of every kind."""
    frames: FrameWriter = field(init=False)
    samples: SampleWriter = field(init=False)

    def __post_init__(self) -> None:
        writer = Writer(self.catalog, self.regions, self.clock, self.rejections, self.options.write_timeout)
        for name, made in (
            ("writer", writer),
            ("frames", FrameWriter(self.catalog, self.clock, writer)),
            ("samples", SampleWriter(self.catalog, self.regions, writer)),
        ):
            object.__setattr__(self, name, made)
