"""The catalog of a frontend: reads from a copy of the metadata, changes by the metadata server.

    metadata ─▶ MirrorKv ─▶ the keys that changed ─▶ the next snapshot
    change ─▶ send ─▶ wait until the mirror shows its revision ─▶ the caller reads its own write

A change that is refused is waited for in the same way: what it was refused for can then be seen, and the caller can
decide anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from tsdb.catalog import _changes
from tsdb.catalog._changes import CatalogChange
from tsdb.catalog._codec import decode
from tsdb.catalog._errors import CatalogCorrupted
from tsdb.catalog._keys import DATABASES, TABLES, VIEWS
from tsdb.catalog._metric_descriptions import MetricDescriptions
from tsdb.catalog._reader import CatalogReader
from tsdb.catalog._snapshot import CatalogSnapshot, Relation
from tsdb.errors import DeadlineExceeded, TsdbError
from tsdb.kv import MirrorKv
from tsdb.model import DatabaseInfo, SchemaChange, TableInfo, ViewInfo
from tsdb.telemetry import get_logger

CATCH_UP_SECONDS = 10.0
"""How long a change that was made may take to be seen here."""

_log = get_logger("tsdb.catalog")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChangeMade:
    """What became of a change: what it returned or raised, and the revision of the metadata that shows it."""

    result: Any
    revision: int
    error: TsdbError | None = None


SendChange: TypeAlias = Callable[[CatalogChange], ChangeMade]


class RemoteCatalog(CatalogReader):
    """Databases, tables and views of a cluster."""

    def __init__(self, mirror: MirrorKv, send: SendChange) -> None:
        """`send` raises what keeps a change from being made, such as a metadata server that cannot be reached."""
        super().__init__()
        self._mirror = mirror
        self._send = send
        self._relations: dict[str, Relation] = {}
        """By key, also those whose database is being dropped."""
        self._databases: dict[str, DatabaseInfo] = {}
        mirror.subscribe([DATABASES, TABLES, VIEWS], self._follow)
        self.metric_descriptions = MetricDescriptions(mirror, lambda name: self.find_database(name) is not None)
        """What metrics say about themselves."""

    def create_database(self, info: DatabaseInfo) -> None:
        self._change(_changes.create_database(info))

    def alter_database(self, info: DatabaseInfo) -> None:
        self._change(_changes.alter_database(info))

    def drop_database(self, name: str) -> None:
        self._change(_changes.drop_database(name))

    def create_table(self, draft: TableInfo) -> TableInfo:
        return self._shown(self._change(_changes.create_table(draft)))

    def create_logical_tables(self, drafts: Sequence[TableInfo]) -> list[TableInfo]:
        return [self._shown(each) for each in self._change(_changes.create_logical_tables(drafts))]

    def alter_table(self, old: TableInfo, new: TableInfo, changes: Sequence[SchemaChange] = ()) -> TableInfo:
        return self._shown(self._change(_changes.alter_table(old, new, changes)))

    def drop_tables(self, tables: Sequence[TableInfo]) -> None:
        self._change(_changes.drop_tables(tables))

    def truncate_table(self, table: TableInfo) -> None:
        self._change(_changes.truncate_table(table))

    def create_view(self, draft: ViewInfo, *, replace: bool) -> ViewInfo:
        return ViewInfo.from_json(self._change(_changes.create_view(draft, replace=replace)))

    def drop_view(self, database: str, name: str) -> None:
        self._change(_changes.drop_view(database, name))

    def _change(self, change: CatalogChange) -> Any:
        made = self._send(change)
        try:
            self._mirror.wait_for(made.revision, CATCH_UP_SECONDS)
        except DeadlineExceeded as error:
            # It was made or refused all the same, and is seen here later.
            _log.warning("a catalog change is not visible yet", kind=change.kind, error=error)
        if made.error is not None:
            raise made.error
        return made.result

    def _shown(self, described: dict[str, Any]) -> TableInfo:
        """Return a table as the snapshot has it: what is kept about a table is found again by the same object."""
        table = TableInfo.from_json(described)
        found = self.table_by_id(table.id)
        return found if found == table else table

    def _follow(self, changed: Mapping[str, bytes | None]) -> None:
        """Make the next snapshot of keys that changed together; called by the mirror's thread alone."""
        snapshot = self._without_changed(self._snapshot, changed)
        for key, value in changed.items():
            if key.startswith(DATABASES) and value is not None:
                info = _read(key, value, DatabaseInfo.from_json)
                if info is not None:
                    self._databases[key] = info
                    is_new = info.name not in snapshot.databases
                    snapshot = snapshot.with_database(info)
                    if is_new:
                        snapshot = snapshot.with_relations(self._of_database(info.name))
        added: list[Relation] = []
        for key, value in changed.items():
            relation = None if value is None or key.startswith(DATABASES) else _read_relation(key, value)
            if relation is not None:
                self._relations[key] = relation
                added.append(relation)
        # Tables of a database that is gone wait to be moved away, and are gone with it.
        self._snapshot = snapshot.with_relations(each for each in added if each.database in snapshot.databases)

    def _without_changed(self, snapshot: CatalogSnapshot, changed: Mapping[str, bytes | None]) -> CatalogSnapshot:
        old = [self._relations.pop(key) for key in changed if key in self._relations]
        snapshot = snapshot.without_relations(each for each in old if each.database in snapshot.databases)
        for key, value in changed.items():
            if value is None and (gone := self._databases.pop(key, None)) is not None:
                snapshot = snapshot.without_database(gone.name)
        return snapshot

    def _of_database(self, name: str) -> list[Relation]:
        return [each for each in self._relations.values() if each.database == name]


def _read_relation(key: str, value: bytes) -> Relation | None:
    if key.startswith(TABLES):
        return _read(key, value, TableInfo.from_json)
    return _read(key, value, ViewInfo.from_json)


def _read(key: str, value: bytes, make: Callable[[Any], T]) -> T | None:
    try:
        return decode(key, value, make)
    except CatalogCorrupted as error:
        _log.error("a metadata key cannot be read and is skipped", error=error)
        return None
