"""What exists, at one moment: readers take a snapshot and need no lock, a change makes the next one.

Tables and views of a database share one space of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tsdb.model import DatabaseInfo, TableInfo, ViewInfo

Relation = TableInfo | ViewInfo


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """Databases, tables and views."""

    databases: Mapping[str, DatabaseInfo] = field(default_factory=dict)
    relations: Mapping[str, Mapping[str, Relation]] = field(default_factory=dict)
    """By database, then by name."""
    tables_by_id: Mapping[int, TableInfo] = field(default_factory=dict)

    @classmethod
    def of(cls, databases: Iterable[DatabaseInfo], relations: Iterable[Relation]) -> CatalogSnapshot:
        by_database: dict[str, dict[str, Relation]] = {}
        tables: dict[int, TableInfo] = {}
        for relation in relations:
            by_database.setdefault(relation.database, {})[relation.name] = relation
            if isinstance(relation, TableInfo):
                tables[relation.id] = relation
        return cls({info.name: info for info in databases}, by_database, tables)

    def of_database(self, database: str) -> Mapping[str, Relation]:
        return self.relations.get(database, {})

    def with_database(self, info: DatabaseInfo) -> CatalogSnapshot:
        return replace(self, databases={**self.databases, info.name: info})

    def without_database(self, name: str) -> CatalogSnapshot:
        """Without a database and everything in it."""
        return CatalogSnapshot(
            {key: info for key, info in self.databases.items() if key != name},
            {key: relations for key, relations in self.relations.items() if key != name},
            {key: table for key, table in self.tables_by_id.items() if table.database != name},
        )

    def with_relations(self, new: Iterable[Relation]) -> CatalogSnapshot:
        """With relations, each in the place of the one that has its name or id."""
        copied: dict[str, dict[str, Relation]] = {}
        tables = dict(self.tables_by_id)
        for relation in new:
            if relation.database not in copied:
                copied[relation.database] = dict(self.of_database(relation.database))
            copied[relation.database][relation.name] = relation
            if isinstance(relation, TableInfo):
                tables[relation.id] = relation
        return replace(self, relations={**self.relations, **copied}, tables_by_id=tables)

    def without_relations(self, gone: Iterable[Relation]) -> CatalogSnapshot:
        relations = {database: dict(inside) for database, inside in self.relations.items()}
        tables = dict(self.tables_by_id)
        for relation in gone:
            relations[relation.database].pop(relation.name, None)
            if isinstance(relation, TableInfo):
                tables.pop(relation.id, None)
        return replace(self, relations=relations, tables_by_id=tables)
