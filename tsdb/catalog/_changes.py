"""Changes of the catalog as values: what a frontend sends to the metadata server, as JSON, and what it gets back.

    {"kind": "create_table", "draft": {…}} ─▶ apply_change(catalog, change) ─▶ {…}

A change is checked where it is made: what does not describe one is InvalidArguments, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tsdb.catalog._catalog import Catalog
from tsdb.catalog._codec import change_from_json, change_to_json
from tsdb.errors import InvalidArguments
from tsdb.model import DatabaseInfo, SchemaChange, TableInfo, ViewInfo


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One change: its kind, and its arguments as JSON."""

    kind: str
    arguments: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.arguments}

    @classmethod
    def from_json(cls, value: Any) -> CatalogChange:
        if not isinstance(value, dict) or value.get("kind") not in _KINDS:
            kind = value.get("kind") if isinstance(value, dict) else value
            raise InvalidArguments(f"unknown catalog change {kind!r}")
        return cls(value["kind"], {key: each for key, each in value.items() if key != "kind"})

    @property
    def subject(self) -> str:
        """What is changed, for lists of procedures."""
        found = next((self.arguments[name] for name in _SUBJECTS if name in self.arguments), "")
        if isinstance(found, list):
            found = found[0] if found else ""
        if isinstance(found, dict):
            return ".".join(str(found[part]) for part in ("database", "name") if part in found)
        return str(found)


_SUBJECTS = ("draft", "drafts", "old", "table", "tables", "info", "name", "database")


def create_database(info: DatabaseInfo) -> CatalogChange:
    return CatalogChange("create_database", {"info": info.to_json()})


def alter_database(info: DatabaseInfo) -> CatalogChange:
    return CatalogChange("alter_database", {"info": info.to_json()})


def drop_database(name: str) -> CatalogChange:
    return CatalogChange("drop_database", {"name": name})


def create_table(draft: TableInfo) -> CatalogChange:
    return CatalogChange("create_table", {"draft": draft.to_json()})


def create_logical_tables(drafts: Sequence[TableInfo]) -> CatalogChange:
    return CatalogChange("create_logical_tables", {"drafts": [each.to_json() for each in drafts]})


def alter_table(old: TableInfo, new: TableInfo, changes: Sequence[SchemaChange]) -> CatalogChange:
    columns = [change_to_json(each) for each in changes]
    return CatalogChange("alter_table", {"old": old.to_json(), "new": new.to_json(), "changes": columns})


def drop_tables(tables: Sequence[TableInfo]) -> CatalogChange:
    return CatalogChange("drop_tables", {"tables": [each.to_json() for each in tables]})


def truncate_table(table: TableInfo) -> CatalogChange:
    return CatalogChange("truncate_table", {"table": table.to_json()})


def create_view(draft: ViewInfo, *, replace: bool) -> CatalogChange:
    return CatalogChange("create_view", {"draft": draft.to_json(), "replace": replace})


def drop_view(database: str, name: str) -> CatalogChange:
    return CatalogChange("drop_view", {"database": database, "name": name})


def apply_change(catalog: Catalog, change: CatalogChange) -> Any:
    """Make a change; return what the method of the catalog returns, as JSON."""
    try:
        act = _KINDS[change.kind](catalog, change.arguments)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidArguments(f"a change of the catalog cannot be read: {type(error).__name__}: {error}") from error
    return act()


_Act = Callable[[], Any]


def _create_database(catalog: Catalog, given: dict[str, Any]) -> _Act:
    info = DatabaseInfo.from_json(given["info"])
    return lambda: catalog.create_database(info)


def _alter_database(catalog: Catalog, given: dict[str, Any]) -> _Act:
    info = DatabaseInfo.from_json(given["info"])
    return lambda: catalog.alter_database(info)


def _drop_database(catalog: Catalog, given: dict[str, Any]) -> _Act:
    name = str(given["name"])
    return lambda: catalog.drop_database(name)


def _create_table(catalog: Catalog, given: dict[str, Any]) -> _Act:
    draft = TableInfo.from_json(given["draft"])
    return lambda: catalog.create_table(draft).to_json()


def _create_logical_tables(catalog: Catalog, given: dict[str, Any]) -> _Act:
    drafts = [TableInfo.from_json(each) for each in given["drafts"]]
    return lambda: [each.to_json() for each in catalog.create_logical_tables(drafts)]


def _alter_table(catalog: Catalog, given: dict[str, Any]) -> _Act:
    old, new = TableInfo.from_json(given["old"]), TableInfo.from_json(given["new"])
    changes = [change_from_json(each) for each in given["changes"]]
    return lambda: catalog.alter_table(old, new, changes).to_json()


def _drop_tables(catalog: Catalog, given: dict[str, Any]) -> _Act:
    tables = [TableInfo.from_json(each) for each in given["tables"]]
    return lambda: catalog.drop_tables(tables)


def _truncate_table(catalog: Catalog, given: dict[str, Any]) -> _Act:
    table = TableInfo.from_json(given["table"])
    return lambda: catalog.truncate_table(table)


def _create_view(catalog: Catalog, given: dict[str, Any]) -> _Act:
    draft, replace = ViewInfo.from_json(given["draft"]), bool(given["replace"])
    return lambda: catalog.create_view(draft, replace=replace).to_json()


def _drop_view(catalog: Catalog, given: dict[str, Any]) -> _Act:
    database, name = str(given["database"]), str(given["name"])
    return lambda: catalog.drop_view(database, name)


_KINDS: dict[str, Callable[[Catalog, dict[str, Any]], _Act]] = {
    "create_database": _create_database,
    "alter_database": _alter_database,
    "drop_database": _drop_database,
    "create_table": _create_table,
    "create_logical_tables": _create_logical_tables,
    "alter_table": _alter_table,
    "drop_tables": _drop_tables,
    "truncate_table": _truncate_table,
    "create_view": _create_view,
    "drop_view": _drop_view,
}
CHANGE_KINDS = tuple(_KINDS)
