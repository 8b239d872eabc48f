"""The rows of a table on the server, as an export asks for them: all of them, or those of a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from tsdb.cli.server import ResultRows, ServerAddress, run_statement
from tsdb.cli.transfer._literals import quoted, quoted_path
from tsdb.cli.transfer._target import TargetOptions, find_table
from tsdb.errors import InvalidArguments


@dataclass(frozen=True)
class ExportedTable:
    """The rows of a table between the times that the user names."""

    address: ServerAddress
    table: str
    database: str
    zone: str
    start: str | None
    end: str | None
    time: str
    tags: Sequence[str]

    def text(self, columns: str = "*", first: int | None = None, last: int | None = None) -> str:
        """Return a query of the rows, or of those of a window: a number is a time in the unit of its column."""
        time = quoted(self.time)
        bounds = [
            f"{time} {operator} {literal}"
            for operator, literal in (
                (">=", _literal(self.start)),
                ("<", _literal(self.end)),
                (">=", first),
                ("<=", last),
            )
            if literal is not None
        ]
        where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
        return f"SELECT {columns} FROM {quoted_path(self.table)}{where}"

    @contextmanager
    def read(self, first: int | None = None, last: int | None = None) -> Iterator[ResultRows]:
        with self._asked(self.text(first=first, last=last)) as result:
            yield result

    def schema(self) -> pa.Schema:
        with self._asked(f"{self.text()} LIMIT 0") as result:
            return result.schema

    def count(self, first: int | None = None, last: int | None = None) -> int:
        with self._asked(self.text("count(*)", first, last)) as result:
            return int(result.read_all().column(0)[0].as_py())

    def span(self) -> tuple[int, int, int]:
        """Return the first and the last time, and how many rows there are."""
        time = quoted(self.time)
        with self._asked(self.text(f"min({time}), max({time}), count(*)")) as result:
            found = result.read_all()
        rows = int(found.column(2)[0].as_py())
        if not rows:
            return 0, -1, 0
        first, last = (found.column(at).cast(pa.int64())[0].as_py() for at in (0, 1))
        return first, last, rows

    def number(self) -> str:
        """Return what tells this table from another one of the same name, such as one that was created later."""
        database, dot, name = self.table.partition(".")
        if not dot or not name:
            database, name = self.database, self.table
        where = f"table_schema = {_literal(database)} AND table_name = {_literal(name)}"
        with self._asked(f"SELECT table_id FROM information_schema.tables WHERE {where}") as result:
            found = result.read_all().column(0).to_pylist()
        return str(found[0]) if found else ""

    @contextmanager
    def _asked(self, text: str) -> Iterator[ResultRows]:
        with run_statement(self.address, text, database=self.database, time_zone=self.zone) as result:
            if not isinstance(result, ResultRows):
                raise InvalidArguments("the statement has no rows to export")
            yield result


def open_table(
    address: ServerAddress, table: str, *, database: str, zone: str, start: str | None, end: str | None
) -> ExportedTable:
    """Find out about a table; it is an error if there is none."""
    found = find_table(address, TargetOptions(table, database, None, (), {}))
    if found is None:
        raise InvalidArguments(f"there is no table {table} in the database {database}")
    return ExportedTable(address, table, database, zone, start or None, end or None, found.time, found.tags)


def _literal(text: str | None) -> str | None:
    return None if text is None else "'" + text.replace("'", "''") + "'"
