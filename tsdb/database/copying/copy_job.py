"""One COPY: the rows of a table or a query to a file, and files into a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.database._files import (
    FileOptions,
    bytes_of_text,
    files_at,
    numbers_of_text,
    read_file,
    vectors_of_text,
    write_file,
)
from tsdb.database._names import check_writable, quoted, resolve
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.writing.assign import assign_column
from tsdb.database.writing.columns import complete_rows, make_rows
from tsdb.model import ColumnInfo, Kind, TableInfo, canonical_zone, parse_timestamp, to_unit
from tsdb.query import Session
from tsdb.sql.statements import Copy


class CopyJob:
    """One COPY and what it needs."""

    def __init__(self, statement: Copy, services: Services, session: Session, process: Process) -> None:
        self.statement, self.services, self.session, self.process = statement, services, session, process
        self.settings = dict(statement.options)
        is_utc = canonical_zone(session.time_zone) == "UTC"
        self.files = replace(FileOptions.parse(statement.options), time_suffix="" if is_utc else "Z")
        # The times of a backup are in UTC, in whatever zone it is read.
        self.zone = "UTC" if statement.database is not None else session.time_zone

    def table(self) -> TableInfo:
        assert self.statement.table is not None
        database, name = resolve(self.statement.table, self.session)
        if self.statement.direction == "from":
            check_writable(database)
        return self.services.catalog.table(database, name)

    def query_to(self, path: Path) -> int:
        if self.statement.query is not None:
            return self.export(self.statement.query.text, path)
        return self.export(self.table_query(self.table()), path)

    def export(self, query: str, path: Path) -> int:
        records = self.services.queries.query(query, self.session)
        self.process.on_cancel(records.close)
        try:
            return write_file(path, records.schema, self._checked(iter(records)), self.files)
        finally:
            records.close()

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.process.check()
            yield batch

    def table_query(self, table: TableInfo) -> str:
        def quote(name: str) -> str:
            return quoted(name, self.session.dialect)

        text = f"SELECT * FROM {quote(table.database)}.{quote(table.name)}"
        bounds = [
            f"{quote(table.time_index.name)} {operator} {value}"
            for operator, value in ((">=", self._bound("start_time", table)), ("<", self._bound("end_time", table)))
            if value is not None
        ]
        return f"{text} WHERE {' AND '.join(bounds)}" if bounds else text

    def _bound(self, key: str, table: TableInfo) -> int | None:
        text = self.settings.get(key)
        if text is None:
            return None
        return to_unit(parse_timestamp(text, self.session.time_zone), table.time_index.type.arrow.unit)

    def table_from(self, table: TableInfo, path: Path, text: str) -> int:
        total, limit = 0, self.statement.limit
        for file in files_at(path, text, self.settings.get("pattern")):
            for batch in read_file(file, self.files, table.columns):
                self.process.check()
                rows = self._fitted(table, batch)
                if limit is not None:
                    rows = rows.slice(0, limit - total)
                total += self.services.writer.put(make_rows(table, rows), self.process.token)
                if limit is not None and total >= limit:
                    return total
        return total

    def _fitted(self, table: TableInfo, batch: pa.RecordBatch) -> pa.Table:
        """Match the columns of a file by name; those the table does not have are left out."""
        given = {
            column.name: assign_column(_cells(batch, column), column, zone=self.zone)
            for column in table.columns
            if batch.schema.get_field_index(column.name) >= 0
        }
        rows = complete_rows(table, given, batch.num_rows, now_ns=self.services.clock.now_ns())
        start, end = self._bound("start_time", table), self._bound("end_time", table)
        if start is None and end is None:
            return rows
        times = rows.column(table.time_index.name).cast(pa.int64())
        mask = pc.and_(
            pc.greater_equal(times, pa.scalar(-(1 << 63) if start is None else start)),
            pc.less(times, pa.scalar((1 << 63) - 1 if end is None else end)),
        )
        return rows.filter(mask)


def _cells(batch: pa.RecordBatch, column: ColumnInfo) -> pa.Array:
    values = batch.column(column.name)
    kind = column.type.kind
    if kind in (Kind.DECIMAL, Kind.UINT64):
        return numbers_of_text(values, kind)
    if kind is Kind.VECTOR:
        return vectors_of_text(values)
    return bytes_of_text(values) if kind is Kind.BINARY else values
