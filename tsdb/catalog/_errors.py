"""What can go wrong with databases, tables and views.

DatabaseNotFound          there is no such database
DatabaseExists            the name is taken by another database
TableNotFound             there is no such table, or view
TableAlreadyExists        the name is taken by another table, or by a view
PhysicalTableInUse        logical tables are on a physical one
CatalogOutdated           the description was changed meanwhile: read it again and try again
CatalogCorrupted          a key holds what cannot be parsed: restore the metadata
"""

from __future__ import annotations

from tsdb.errors import InvalidArguments, Status, TsdbError
from tsdb.model import CATALOG, TableInfo


class DatabaseNotFound(InvalidArguments):
    """There is no such database."""

    status = Status.DATABASE_NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"Database not found: {name}")


class DatabaseExists(InvalidArguments):
    """The name is taken by another database."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Schema {name} already exists")


class TableNotFound(InvalidArguments):
    """There is no table or view of this name."""

    status = Status.TABLE_NOT_FOUND

    def __init__(self, database: str, name: str, *, near: str | None = None) -> None:
        """`near` is the table that was probably meant."""
        hint = None if near is None else f"did you mean {near}?"
        super().__init__(f"Table not found: {CATALOG}.{database}.{name}", hint=hint)


class TableAlreadyExists(InvalidArguments):
    """The name is taken by another table or by a view."""

    status = Status.TABLE_ALREADY_EXISTS

    def __init__(self, database: str, name: str, *, is_rename: bool = False) -> None:
        full = f"{CATALOG}.{database}.{name}"
        super().__init__(f"Table already exists, table: {full}" if is_rename else f"Table already exists: `{full}`")


class PhysicalTableInUse(InvalidArguments):
    """A physical table of the metric engine stays while logical tables are on it."""

    def __init__(self, table: TableInfo, logical: TableInfo, *, count: int) -> None:
        super().__init__(
            f"Physical table {table.name} is busy: {count} logical tables are on it, {logical.name} is one",
            hint="drop them first",
        )


class CatalogOutdated(TsdbError):
    """What the change was made from is not the newest description any more."""

    status = Status.REQUEST_OUTDATED

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was changed concurrently", hint="try again")


class CatalogCorrupted(TsdbError):
    """A key of the metadata holds what cannot be parsed."""

    status = Status.STORAGE_UNAVAILABLE

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"the metadata is corrupted: {reason}", key=key, hint="restore it from a backup")
