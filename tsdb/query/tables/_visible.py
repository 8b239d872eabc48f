"""What a user sees of the catalog.

A look-up in a database that the user may not read is refused, whether there is such a database or not; lists leave out
what the user may not know. Queries, views inside of them, PromQL and the describing tables all look through here, so
they read only what the user may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar, cast

from tsdb.auth import Identity
from tsdb.model import DatabaseInfo, TableInfo, ViewInfo
from tsdb.query.session import Session

SYSTEM_DATABASES = frozenset({"information_schema", "pg_catalog"})
"""Readable by every user with any read permission: they are built per user."""


class WholeCatalog(Protocol):
    """What there is to see."""

    def databases(self) -> list[DatabaseInfo]: ...

    def find_database(self, name: str) -> DatabaseInfo | None: ...

    def tables(self, database: str) -> list[TableInfo]: ...

    def find_table(self, database: str, name: str) -> TableInfo | None: ...

    def table_by_id(self, table_id: int) -> TableInfo | None: ...

    def logical_tables(self, physical: TableInfo) -> list[TableInfo]: ...

    def views(self, database: str) -> list[ViewInfo]: ...

    def find_view(self, database: str, name: str) -> ViewInfo | None: ...

    def near_table(self, database: str, name: str) -> str | None: ...

    def effective_options(self, table: TableInfo) -> dict[str, str]: ...


_Catalog = TypeVar("_Catalog")


def visible(catalog: _Catalog, session: Session) -> _Catalog:
    """Return the catalog as far as a session may see it: itself, unless its user is restricted."""
    identity = session.identity
    # What is returned has every method that readers of a catalog call.
    if identity is not None and not identity.sees_all:
        catalog = cast(_Catalog, VisibleCatalog(cast(WholeCatalog, catalog), identity))
    return cast(_Catalog, SessionCatalog(cast(WholeCatalog, catalog), session.views)) if session.views else catalog


class _CatalogLayer:
    """A catalog as it is, for those that change what is seen of it."""

    def __init__(self, catalog: WholeCatalog) -> None:
        self._catalog = catalog

    def table_by_id(self, table_id: int) -> TableInfo | None:
        return self._catalog.table_by_id(table_id)

    def logical_tables(self, physical: TableInfo) -> list[TableInfo]:
        return self._catalog.logical_tables(physical)

    def effective_options(self, table: TableInfo) -> dict[str, str]:
        return self._catalog.effective_options(table)


class SessionCatalog(_CatalogLayer):
    """A catalog with the temporary views of a session, which hide tables and views of the same names."""

    def __init__(self, catalog: WholeCatalog, views: Mapping[tuple[str, str], ViewInfo]) -> None:
        super().__init__(catalog)
        self._views = views

    def databases(self) -> list[DatabaseInfo]:
        return self._catalog.databases()

    def find_database(self, name: str) -> DatabaseInfo | None:
        return self._catalog.find_database(name)

    def tables(self, database: str) -> list[TableInfo]:
        return [each for each in self._catalog.tables(database) if (database, each.name) not in self._views]

    def find_table(self, database: str, name: str) -> TableInfo | None:
        return None if (database, name) in self._views else self._catalog.find_table(database, name)

    def views(self, database: str) -> list[ViewInfo]:
        own = [view for (home, _), view in self._views.items() if home == database]
        others = [each for each in self._catalog.views(database) if (database, each.name) not in self._views]
        return sorted([*own, *others], key=lambda each: each.name)

    def find_view(self, database: str, name: str) -> ViewInfo | None:
        return self._views.get((database, name)) or self._catalog.find_view(database, name)


class VisibleCatalog(_CatalogLayer):
    """The part of a catalog that one user may see."""

    def __init__(self, catalog: WholeCatalog, identity: Identity) -> None:
        super().__init__(catalog)
        self._identity = identity

    def databases(self) -> list[DatabaseInfo]:
        return [each for each in self._catalog.databases() if self._identity.may_see(each.name)]

    def tables(self, database: str) -> list[TableInfo]:
        return self._catalog.tables(database) if self._identity.may_see(database) else []

    def views(self, database: str) -> list[ViewInfo]:
        return self._catalog.views(database) if self._identity.may_see(database) else []

    def find_database(self, name: str) -> DatabaseInfo | None:
        self._check(name)
        return self._catalog.find_database(name)

    def find_table(self, database: str, name: str) -> TableInfo | None:
        self._check(database)
        return self._catalog.find_table(database, name)

    def find_view(self, database: str, name: str) -> ViewInfo | None:
        self._check(database)
        return self._catalog.find_view(database, name)

    def near_table(self, database: str, name: str) -> str | None:
        return self._catalog.near_table(database, name) if self._identity.may_see(database) else None

    def _check(self, database: str) -> None:
        if database not in SYSTEM_DATABASES:
            self._identity.check_read(database)
