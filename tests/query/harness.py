"""A query engine over real regions in a temporary directory, and a catalog that is a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.engine.harness import batch_of, open_engine
from tests.storage import store_of
from tsdb.clock import Clock, SystemClock
from tsdb.engine import Engine, region_directory
from tsdb.model import (
    CATALOG,
    ColumnInfo,
    DatabaseInfo,
    DataType,
    Kind,
    Semantic,
    TableInfo,
    ViewInfo,
    region_id,
)
from tsdb.nearest import nearest
from tsdb.query import QueryEngine, QueryEngineOptions, Session, read_all
from tsdb.query.information_schema import InformationContext, NodeFacts

Row = dict[str, Any]
STRING, DOUBLE, BIGINT = DataType(Kind.STRING), DataType(Kind.FLOAT64), DataType(Kind.INT64)
MILLIS = DataType(Kind.TIMESTAMP_MILLISECOND)


class DictCatalog:
    """What queries ask of a catalog, from dictionaries."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], TableInfo] = {}
        self.views_by_name: dict[tuple[str, str], ViewInfo] = {}
        self.names = {"public", "other"}

    def databases(self) -> list[DatabaseInfo]:
        return [DatabaseInfo(name) for name in sorted(self.names)]

    def find_database(self, name: str) -> DatabaseInfo | None:
        return DatabaseInfo(name) if name in self.names else None

    def near_table(self, database: str, name: str) -> str | None:
        return nearest(name, [table for owner, table in (*self.by_name, *self.views_by_name) if owner == database])

    def tables(self, database: str) -> list[TableInfo]:
        return [table for (owner, _), table in sorted(self.by_name.items()) if owner == database]

    def views(self, database: str) -> list[ViewInfo]:
        return [view for (owner, _), view in sorted(self.views_by_name.items()) if owner == database]

    def find_table(self, database: str, name: str) -> TableInfo | None:
        return self.by_name.get((database, name))

    def table_by_id(self, table_id: int) -> TableInfo | None:
        return next((table for table in self.by_name.values() if table.id == table_id), None)

    def logical_tables(self, physical: TableInfo) -> list[TableInfo]:
        return [table for table in self.by_name.values() if table.physical_table_id == physical.id]

    def find_view(self, database: str, name: str) -> ViewInfo | None:
        return self.views_by_name.get((database, name))

    def effective_options(self, table: TableInfo) -> dict[str, str]:
        return dict(table.options)


class World:
    """A catalog, an engine and the queries over them."""

    def __init__(self, engine: Engine, options: QueryEngineOptions | None = None, clock: Clock | None = None) -> None:
        self.engine = engine
        self.catalog = DictCatalog()
        self.clock = clock or SystemClock()
        self.queries = QueryEngine(
            self.catalog, engine, self.clock, options, information=lambda session: self._information(session)
        )

    def _information(self, session: Session) -> InformationContext:
        return InformationContext(
            catalog=self.catalog, regions=self.engine, session=session, clock=self.clock, node=NodeFacts()
        )

    def create(
        self,
        name: str,
        columns: Sequence[tuple[str, DataType]],
        *,
        tags: Sequence[str] = (),
        time: str = "ts",
        database: str = "public",
        regions: int = 1,
    ) -> TableInfo:
        """Create a table; its columns stay in the order given."""
        infos = tuple(
            ColumnInfo(
                number,
                column,
                kind,
                Semantic.TAG if column in tags else (Semantic.TIMESTAMP if column == time else Semantic.FIELD),
                nullable=column != time,
            )
            for number, (column, kind) in enumerate(columns)
        )
        table = TableInfo(
            id=1024 + len(self.catalog.by_name),
            database=database,
            name=name,
            columns=infos,
            primary_key=tuple(tags),
            region_numbers=tuple(range(regions)),
            next_column_id=len(infos),
        )
        for number in table.region_numbers:
            directory = region_directory(CATALOG, database, table.id, number)
            self.engine.create_region(region_id(table.id, number), directory, table.first_region_schema())
        self.catalog.by_name[(database, name)] = table
        return table

    def put(self, table: TableInfo, rows: Iterable[Row], *, region: int = 0) -> None:
        identity = region_id(table.id, region)
        batch = batch_of(self.engine.schema(identity), rows)
        self.engine.write(identity, batch).result(timeout=30)

    def flush(self, table: TableInfo) -> None:
        for identity in table.region_ids:
            self.engine.flush(identity).result(timeout=30)

    def table(
        self, text: str, session: Session | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        return read_all(self.queries.query(text, session or Session(), tables=tables))

    def rows(self, text: str, session: Session | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query, times as integers in their own unit."""
        columns = [_plain(column).to_pylist() for column in self.table(text, session).columns]
        return list(zip(*columns, strict=True))

    def close(self) -> None:
        self.queries.close()
        self.engine.close()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


@contextmanager
def world(root: Path, options: QueryEngineOptions | None = None, clock: Clock | None = None) -> Iterator[World]:
    made = World(open_engine(root, clock=clock, store=store_of(root)), options, clock)
    try:
        yield made
    finally:
        made.close()


def cpu(made: World, **kwargs: Any) -> TableInfo:
    """Create the table most tests use, with six rows of two hosts."""
    columns = [("ts", MILLIS), ("host", STRING), ("usage", DOUBLE), ("n", BIGINT), ("up", DataType(Kind.BOOLEAN))]
    table = made.create("cpu", columns, tags=["host"], **kwargs)
    made.put(
        table,
        [
            {"host": host, "ts": 1000 * step, "usage": base + step, "n": step, "up": step % 2 == 0}
            for host, base in (("b", 20.0), ("a", 10.0))
            for step in (2, 1, 0)
        ],
    )
    return table
