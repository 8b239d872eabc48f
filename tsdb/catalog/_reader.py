"""The reading half of a catalog: questions about databases, tables and views, answered from an immutable snapshot.

Readers never wait. `Catalog` makes the snapshots by its own changes, `RemoteCatalog` by following the changes of the
metadata server.
"""

from __future__ import annotations

from tsdb.catalog import _options
from tsdb.catalog._errors import DatabaseNotFound, TableNotFound
from tsdb.catalog._snapshot import CatalogSnapshot
from tsdb.model import DatabaseInfo, RegionId, RegionOptions, TableInfo, ViewInfo, table_id_of
from tsdb.nearest import nearest


class CatalogReader:
    """Databases, tables and views as they are now."""

    def __init__(self) -> None:
        self._snapshot = CatalogSnapshot()

    def databases(self) -> list[DatabaseInfo]:
        """All databases, by name."""
        return sorted(self._snapshot.databases.values(), key=lambda info: info.name)

    def find_database(self, name: str) -> DatabaseInfo | None:
        return self._snapshot.databases.get(name)

    def database(self, name: str) -> DatabaseInfo:
        return database_in(self._snapshot, name)

    def tables(self, database: str) -> list[TableInfo]:
        """All tables of a database, by name; none if there is no such database."""
        inside = self._snapshot.of_database(database).values()
        return sorted((each for each in inside if isinstance(each, TableInfo)), key=lambda table: table.name)

    @property
    def state(self) -> object:
        """What the catalog holds now: another object after every change."""
        return self._snapshot

    def find_table(self, database: str, name: str) -> TableInfo | None:
        found = self._snapshot.of_database(database).get(name)
        return found if isinstance(found, TableInfo) else None

    def table(self, database: str, name: str) -> TableInfo:
        found = self.find_table(database, name)
        if found is None:
            raise TableNotFound(database, name, near=self.near_table(database, name))
        return found

    def table_by_id(self, table_id: int) -> TableInfo | None:
        return self._snapshot.tables_by_id.get(table_id)

    def stored_in(self, table: TableInfo) -> TableInfo:
        """Return the table whose regions hold the rows of a table: itself, unless it is a logical metric table."""
        if table.physical_table_id is None:
            return table
        physical = self.table_by_id(table.physical_table_id)
        if physical is None:
            raise TableNotFound(table.database, table.options.get("on_physical_table", ""))
        return physical

    def logical_tables(self, physical: TableInfo) -> list[TableInfo]:
        """The tables of the metric engine that are on a physical one, by id."""
        found = [each for each in self._snapshot.tables_by_id.values() if each.physical_table_id == physical.id]
        return sorted(found, key=lambda table: table.id)

    def name_of_region(self, region_id: RegionId) -> str | None:
        """Return the table of a region as `database.table`."""
        table = self.table_by_id(table_id_of(region_id))
        return None if table is None else f"{table.database}.{table.name}"

    def near_table(self, database: str, name: str) -> str | None:
        """Return the table or view of a database that a name which does not exist probably means."""
        return nearest(name, self._snapshot.of_database(database))

    def views(self, database: str) -> list[ViewInfo]:
        """All views of a database, by name."""
        inside = self._snapshot.of_database(database).values()
        return sorted((each for each in inside if isinstance(each, ViewInfo)), key=lambda view: view.name)

    def find_view(self, database: str, name: str) -> ViewInfo | None:
        found = self._snapshot.of_database(database).get(name)
        return found if isinstance(found, ViewInfo) else None

    def effective_options(self, table: TableInfo) -> dict[str, str]:
        """Return the table's own options, with `ttl` and `compaction.*` of its database where it has none."""
        return effective_in(self._snapshot, table)

    def region_options(self, table: TableInfo) -> RegionOptions:
        """Return what the table's options mean to its regions."""
        return region_options_in(self._snapshot, table)


def database_in(snapshot: CatalogSnapshot, name: str) -> DatabaseInfo:
    found = snapshot.databases.get(name)
    if found is None:
        raise DatabaseNotFound(name)
    return found


def effective_in(snapshot: CatalogSnapshot, table: TableInfo) -> dict[str, str]:
    return _options.effective_options(table, database_in(snapshot, table.database))


def region_options_in(snapshot: CatalogSnapshot, table: TableInfo) -> RegionOptions:
    return _options.region_options(effective_in(snapshot, table), table.columns)
