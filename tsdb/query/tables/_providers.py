"""The catalog that DataFusion looks tables up in.

DataFusion looks up `tsdb.<database>.<table>` while it plans. A table is opened only then, so a query
pins the snapshots of the tables it names and of no others. An error raised here (a region that is not ready) reaches
the caller of `SessionContext.sql` as it was raised.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import datafusion
import pyarrow as pa
import pyarrow.dataset as ds
from datafusion.catalog import CatalogProvider, SchemaProvider, Table

from tsdb.auth import PermissionDenied
from tsdb.engine import Regions
from tsdb.engine.reading import RegionReader
from tsdb.errors import InvalidArguments, Status, TsdbError, Unsupported
from tsdb.model import DEFAULT_DATABASE, DatabaseInfo, RegionId, Semantic, TableInfo, ViewInfo
from tsdb.query.lifetime import QueryLife, in_thread
from tsdb.query.tables._dataset import Handed, TableDataset
from tsdb.query.tables._numbers import NUMBERS, numbers_table
from tsdb.query.tables._partitions import TableRegions
from tsdb.query.tables._zoned_files import ZonedFiles, zoned_schema
from tsdb.telemetry import using_span

INFORMATION_SCHEMA = "information_schema"
PG_CATALOG = "pg_catalog"
_SYSTEM = frozenset({INFORMATION_SCHEMA, PG_CATALOG})
"""Databases that are found, with their tables, in any case of letters, as in MySQL."""


class TableCatalog(Protocol):
    """The part of the catalog that queries read."""

    def find_database(self, name: str) -> DatabaseInfo | None: ...

    def find_table(self, database: str, name: str) -> TableInfo | None: ...

    def table_by_id(self, table_id: int) -> TableInfo | None: ...

    def logical_tables(self, physical: TableInfo) -> list[TableInfo]: ...

    def find_view(self, database: str, name: str) -> ViewInfo | None: ...

    def near_table(self, database: str, name: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class NumbersFound:
    """The table of numbers, which has no rows until it is read."""


Found: TypeAlias = pa.Table | ds.Dataset | ViewInfo | NumbersFound
"""Rows that are there, a table of regions or files, a view, or numbers."""


class TableLookup(ABC):
    """Where a query finds its tables; each is opened once, however often the query names it."""

    def __init__(self, numbers_rows: int) -> None:
        self._numbers_rows = numbers_rows
        self._opened: dict[tuple[str, str], Table | None] = {}

    @property
    def numbers_rows(self) -> int:
        """How many rows the table `numbers` has."""
        return self._numbers_rows

    @numbers_rows.setter
    def numbers_rows(self, rows: int) -> None:
        self._numbers_rows = rows
        self._opened.pop((DEFAULT_DATABASE, NUMBERS), None)

    @abstractmethod
    def has_database(self, name: str) -> bool: ...

    @abstractmethod
    def _open(self, database: str, name: str) -> Table | None: ...

    def open(self, database: str, name: str) -> Table | None:
        """Return a table for DataFusion, None if there is none."""
        key = system_key(database, name)
        if key not in self._opened:
            self._opened[key] = self._open(*key)
        return self._opened[key]

    def add(self, database: str, name: str, rows: pa.Table) -> None:
        """Let a table be found that only this query has."""
        self._opened[(database, name)] = in_thread(lambda: memory_table(rows))


class TableSource(TableLookup):
    """Where one query finds its tables in this process."""

    def __init__(
        self,
        catalog: TableCatalog,
        regions: Regions,
        life: QueryLife,
        *,
        database: str,
        extra: Mapping[str, pa.Table],
        system_table: Callable[[str, str], pa.Table | None],
        is_ordered: bool,
        is_single: bool,
        numbers_rows: int,
        handed: Handed | None = None,
    ) -> None:
        """`handed` are conditions of a query that reads one table, for that table."""
        super().__init__(numbers_rows)
        self._catalog = catalog
        self._regions = regions
        self._life = life
        self._database = database
        self._extra = extra
        self._system_table = system_table
        self._is_ordered = is_ordered
        self._is_single = is_single
        self._handed = handed
        self._views_open: list[str] = []
        self.plan_view: Callable[[ViewInfo], datafusion.DataFrame] | None = None
        """Plans the query of a view; set by the owner of the context."""
        life.on_end(self._close)

    def _close(self) -> None:
        """Forget the tables: DataFusion's objects refer back to them, and the garbage collector cannot see how."""
        self._opened.clear()
        self.plan_view = None

    def has_database(self, name: str) -> bool:
        if name.lower() in _SYSTEM or (self._extra and name == self._database):
            return True
        try:
            return self._catalog.find_database(name) is not None
        except PermissionDenied:
            # Reported when one of its tables is opened: DataFusion drops errors raised here.
            return True

    def _open(self, database: str, name: str) -> Table | None:
        found = self.find(database, name)
        return None if found is None else self._for_datafusion(found)

    def find(self, database: str, name: str) -> Found | None:
        """Return what a name stands for, None if there is nothing of that name."""
        if database == self._database and name in self._extra:
            return self._extra[name]
        if database in (INFORMATION_SCHEMA, PG_CATALOG):
            return self._system_table(database, name)
        if (table := self._catalog.find_table(database, name)) is not None:
            dataset: ds.Dataset = self.dataset(table)
            if isinstance(dataset, TableDataset):
                self._life.scans.append(dataset)
            return dataset
        if (view := self._catalog.find_view(database, name)) is not None:
            return view
        return NumbersFound() if database == DEFAULT_DATABASE and name == NUMBERS else None

    def _for_datafusion(self, found: Found) -> Table:
        if isinstance(found, pa.Table):
            return in_thread(lambda: memory_table(found))
        if isinstance(found, ViewInfo):
            return self._open_view(found)
        if isinstance(found, NumbersFound):
            return numbers_table(self._numbers_rows, self._life)
        return Table(found)

    def dataset(self, table: TableInfo) -> Any:
        """Return the rows of a table that has some of its own."""
        if table.engine == "file":
            return external_dataset(table)
        return TableDataset(
            table,
            self._regions_of(table),
            self._life,
            is_ordered=self._is_ordered,
            is_single=self._is_single,
            handed=self._handed,
        )

    def _regions_of(self, table: TableInfo) -> TableRegions:
        """Return the regions that hold the rows of a table; what is opened is released at the end of the query."""
        stored, view = table, table.view
        if table.physical_table_id is not None:
            physical = self._catalog.table_by_id(table.physical_table_id)
            if physical is None:
                raise InvalidArguments("the physical table is gone", table=table.full_name)
            stored = physical
        elif view is not None:
            view = replace(view, visible=tuple(sorted(each.id for each in self._catalog.logical_tables(table))))
        life, regions = self._life, self._regions

        def open_reader(region: RegionId) -> RegionReader:
            with using_span(life.span):
                reader = regions.open_reader(region, timeout=life.timeout, view=view, check=life.check)
            life.on_end(reader.release)
            life.on_cancel(reader.interrupt)
            return reader

        return TableRegions(stored, open_reader)

    def _open_view(self, view: ViewInfo) -> Table:
        name = f"{view.database}.{view.name}"
        if name in self._views_open:
            raise InvalidArguments("the view reads itself", view=name)
        self._views_open.append(name)
        try:
            return in_thread(lambda: self._plan(view))
        finally:
            self._views_open.pop()

    def _plan(self, view: ViewInfo) -> Table:
        assert self.plan_view is not None
        return Table(self.plan_view(view))


def system_key(database: str, name: str) -> tuple[str, str]:
    """Return the names of a table as they are looked up: those of the system are found in any case of letters."""
    return (database.lower(), name.lower()) if database.lower() in _SYSTEM else (database, name)


class LazyCatalog(CatalogProvider):
    """The catalog `tsdb`, as far as one query sees it."""

    def __init__(self, source: TableLookup) -> None:
        self._source = source

    def schema_names(self) -> set[str]:
        """None: a query finds out about databases from information_schema."""
        return set()

    def schema(self, name: str) -> SchemaProvider | None:  # type: ignore[override]
        """Return a database; the base class speaks of its own kind of schema only, DataFusion takes both."""
        return LazySchema(self._source, name) if self._source.has_database(name) else None


class LazySchema(SchemaProvider):
    """A database, as far as one query sees it."""

    def __init__(self, source: TableLookup, database: str) -> None:
        self._source = source
        self._database = database

    def table_names(self) -> set[str]:
        """None: a query finds out about tables from information_schema."""
        return set()

    def table(self, name: str) -> Table | None:
        return self._source.open(self._database, name)

    def table_exist(self, name: str) -> bool:
        return self._source.open(self._database, name) is not None


def memory_table(rows: pa.Table) -> Table:
    """Return rows as a table of DataFusion's own."""
    context = datafusion.SessionContext()
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return Table(context.create_dataframe([batches]))


def external_dataset(table: TableInfo) -> ds.Dataset:
    """Return the files of an external table."""
    location, kind = table.options.get("location", ""), table.options.get("format", "parquet").lower()
    if kind not in ("csv", "json", "parquet"):
        raise Unsupported("files of this format cannot be read", format=kind, table=table.full_name)
    path = location.removeprefix("file://")
    if not os.path.exists(path):
        raise ExternalFileMissing("the file of an external table is missing", table=table.full_name, location=location)
    try:
        schema = zoned_schema(path, table.arrow) if kind == "csv" else table.arrow
        files = _with_time_index(ds.dataset(path, schema=schema, format=kind), table)
        return files if schema is table.arrow else ZonedFiles(files, table.arrow)
    except (OSError, pa.ArrowInvalid) as error:
        raise ExternalFileMissing(
            f"the file of an external table cannot be read: {error}", table=table.full_name, location=location
        ) from error


def _with_time_index(files: ds.FileSystemDataset, table: TableInfo) -> ds.Dataset:
    """Give files without a time index the epoch as one: a column that may not be null cannot be missing."""
    if not any(column.semantic is Semantic.TIMESTAMP for column in table.columns):
        return files
    time = table.time_index
    epoch = ds.field(time.name) == pa.scalar(0, time.type.arrow)
    fragments = [
        each
        if time.name in each.physical_schema.names
        else files.format.make_fragment(each.path, files.filesystem, partition_expression=epoch)
        for each in files.get_fragments()
    ]
    return ds.FileSystemDataset(fragments, files.schema, files.format, files.filesystem)


class ExternalFileMissing(TsdbError):
    """The files behind an external table are not there or cannot be read."""

    status = Status.STORAGE_UNAVAILABLE
