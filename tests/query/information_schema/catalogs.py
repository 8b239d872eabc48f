"""A small catalog in memory, for tests of what describes one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tsdb.clock import ManualClock
from tsdb.engine import CompactionRecord, FileFacts, RegionStat, SegmentFacts
from tsdb.errors import Status, TsdbError
from tsdb.model import (
    ColumnDefault,
    ColumnId,
    ColumnIndex,
    ColumnInfo,
    DatabaseInfo,
    DataType,
    Kind,
    RegionId,
    Semantic,
    TableInfo,
    TimeRange,
    ViewInfo,
    table_id_of,
)
from tsdb.query import Channel, Session
from tsdb.query.information_schema import InformationContext, NodeFacts
from tsdb.store import RequestFacts

TAG, FIELD, TIME = Semantic.TAG, Semantic.FIELD, Semantic.TIMESTAMP

SKIPPING = ColumnIndex("skipping", (("granularity", "10240"), ("type", "BLOOM"), ("false_positive_rate", "0.01")))
FULLTEXT = ColumnIndex("fulltext", (("backend", "bloom"), ("analyzer", "English")))


def column(
    name: str,
    kind: Kind | DataType,
    semantic: Semantic = FIELD,
    *,
    nullable: bool = True,
    default: ColumnDefault | None = None,
    comment: str | None = None,
    indexes: tuple[ColumnIndex, ...] = (),
) -> ColumnInfo:
    kind = kind if isinstance(kind, DataType) else DataType(kind)
    return ColumnInfo(ColumnId(0), name, kind, semantic, nullable, default, comment, indexes)


NOW = ColumnDefault(function="current_timestamp()")
MONITOR = TableInfo(
    id=1024,
    database="public",
    name="monitor",
    columns=(
        column("host", Kind.STRING, TAG, indexes=(SKIPPING, ColumnIndex("inverted"))),
        column("zone", Kind.INT32, TAG),
        column("ts", Kind.TIMESTAMP_MILLISECOND, TIME, nullable=False, default=NOW),
        column("load", Kind.FLOAT64, default=ColumnDefault(literal="0.5"), comment="the host's load"),
    ),
    primary_key=("zone", "host"),
    options={"ttl": "7days"},
    partition_columns=("zone",),
    partition_rules=("zone < 5", "zone >= 5"),
    region_numbers=(0, 1),
    comment="machines",
    created_ms=1_700_000_000_000,
)
LOGS = TableInfo(
    id=1025,
    database="other",
    name="logs",
    columns=(
        column("ts", Kind.TIMESTAMP_NANOSECOND, TIME, nullable=False),
        column("line", Kind.STRING, indexes=(FULLTEXT,)),
        column("size", DataType(Kind.DECIMAL, precision=10, scale=2)),
        column("blob", Kind.BINARY),
        column("count", Kind.UINT64),
    ),
)
VIEW = ViewInfo(
    1026, "public", "busy", "CREATE VIEW busy AS SELECT host FROM monitor", "SELECT host FROM public.monitor"
)


class RegionGone(TsdbError):
    """The region cannot be asked."""

    status = Status.REGION_NOT_FOUND


@dataclass
class FakeCatalog:
    """What a test put there."""

    known: list[TableInfo] = field(default_factory=lambda: [LOGS, MONITOR])
    known_views: list[ViewInfo] = field(default_factory=lambda: [VIEW])

    def databases(self) -> list[DatabaseInfo]:
        return [DatabaseInfo("other", {"ttl": "1day"}), DatabaseInfo("public"), DatabaseInfo("tsdb_private")]

    def find_database(self, name: str) -> DatabaseInfo | None:
        return next((each for each in self.databases() if each.name == name), None)

    def tables(self, database: str) -> list[TableInfo]:
        return [each for each in self.known if each.database == database]

    def find_table(self, database: str, name: str) -> TableInfo | None:
        return next((each for each in self.tables(database) if each.name == name), None)

    def views(self, database: str) -> list[ViewInfo]:
        return [each for each in self.known_views if each.database == database]

    def find_view(self, database: str, name: str) -> ViewInfo | None:
        return next((each for each in self.views(database) if each.name == name), None)

    def effective_options(self, table: TableInfo) -> dict[str, str]:
        inherited = self.find_database(table.database)
        return {**(inherited.options if inherited else {}), **table.options}


@dataclass
class FakeRegions:
    """Regions of equal size, some of which cannot be asked."""

    gone: frozenset[int] = frozenset()

    def stat(self, region_id: RegionId) -> RegionStat:
        if table_id_of(region_id) in self.gone:
            raise RegionGone("gone")
        return RegionStat(
            state="writable",
            schema_version=0,
            memtable_rows=10,
            memtable_bytes=1000,
            files=2,
            file_rows=90,
            file_bytes=9000,
            flush_failures=0,
            last_entry_id=7,
            last_sequence=100,
            written_bytes=500,
            manifest_version=3,
            manifest_bytes=70,
        )

    def files(self, region_id: RegionId) -> list[FileFacts]:
        if table_id_of(region_id) in self.gone:
            raise RegionGone("gone")
        directory = f"data/tsdb/public/{table_id_of(region_id)}/region"
        return [
            FileFacts(
                file_id=f"{number:032x}",
                path=f"{directory}/{number:032x}.parquet",
                size_bytes=4500,
                index_path=f"{directory}/index/{number:032x}.idx",
                index_bytes=50,
                rows=45,
                row_groups=1,
                series=5,
                time_range=TimeRange(number * 1000, number * 1000 + 500),
                sequence=40 * (number + 1),
                level=0,
                created_ms=1_700_000_000_000,
            )
            for number in range(2)
        ]

    def compactions(self) -> list[CompactionRecord]:
        return [
            CompactionRecord(
                number=number,
                region_id=RegionId(table << 32),
                reason="many files in a window",
                started_ms=1_700_000_000_000,
                input_ids=("a", "b"),
                input_rows=100,
                input_bytes=3000,
                largest_bytes=2000,
                rows_written=25 * number,
            )
            for number, table in enumerate((1024, 1025, 99), start=1)
        ]

    def wal_segments(self) -> list[tuple[str, SegmentFacts]]:
        facts = SegmentFacts(7, 4096, 12, 1_700_000_000_000, "pinned", "1 regions have entries", (1024 << 32,))
        return [("wal/0000000000000007.wal", facts)]

    def storage_requests(self) -> list[RequestFacts]:
        count = RequestFacts("default", "put", "flush", 3, 1, 1, 4096, 0.015)
        trouble = {"state": "down", "reason": "no answer", "since_ms": 1_700_000_050_000, "last_error": "no answer"}
        return [count, replace(count, store="cold", **trouble)]  # type: ignore[arg-type]


def make_context(
    *, channel: Channel = Channel.HTTP, regions: FakeRegions | None = None, catalog: FakeCatalog | None = None
) -> InformationContext:
    clock = ManualClock(1_700_000_100_000_000_000)
    node = NodeFacts(version="1.2.3", commit="0123456789abcdef", branch="main", address="127.0.0.1:4000")
    session = Session(channel=channel)
    return InformationContext(catalog or FakeCatalog(), regions or FakeRegions(), session, clock, node)
