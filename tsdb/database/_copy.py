"""COPY: tables, queries and whole databases to files and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.database._assign import assign_column
from tsdb.database._copy_files import FileOptions, confined, files_at, read_file, write_file
from tsdb.database._names import check_writable, quoted, resolve, resolve_database
from tsdb.database._processes import Process
from tsdb.database._rows import complete_rows, put_rows
from tsdb.database._services import Services
from tsdb.errors import Cancelled, InvalidArguments, TsdbError, Unsupported
from tsdb.model import TableInfo, parse_timestamp, to_unit
from tsdb.query import Affected, Session
from tsdb.sql.statements import Copy
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.copy")

_COPY_KEYS = frozenset(
    {
        *("format", "start_time", "end_time", "pattern", "compression_type", "timestamp_format", "date_format"),
        *("time_format", "delimiter", "headers", "has_header", "strict_headers", "skip_bad_records"),
        *("schema_infer_max_record", "parallelism", "continue_on_error", "max_insert_rows", "limit"),
    }
)


def copy(statement: Copy, services: Services, session: Session, process: Process) -> Affected:
    """Run a COPY; the number of rows."""
    if statement.path is None:
        where = "TO STDOUT" if statement.direction == "to" else "FROM STDIN"
        raise Unsupported(f"COPY … {where} is for PostgreSQL connections")
    for key, _ in statement.options:
        if key not in _COPY_KEYS:
            raise InvalidArguments(f"COPY has no option {key!r}")
    job = _Job(statement, services, session, process)
    if statement.database is not None:
        return Affected(job.database_to() if statement.direction == "to" else job.database_from())
    path = confined(statement.path, services.options.copy_root)
    if statement.direction == "to":
        return Affected(job.query_to(path))
    assert statement.table is not None
    return Affected(job.table_from(job.table(), path, statement.path))


class _Job:
    """One COPY and what it needs."""

    def __init__(self, statement: Copy, services: Services, session: Session, process: Process) -> None:
        self.statement, self.services, self.session, self.process = statement, services, session, process
        self.settings = dict(statement.options)
        self.files = FileOptions.parse(statement.options)

    def table(self) -> TableInfo:
        assert self.statement.table is not None
        database, name = resolve(self.statement.table, self.session)
        if self.statement.direction == "from":
            check_writable(database)
        return self.services.catalog.table(database, name)

    def query_to(self, path: Path) -> int:
        if self.statement.query is not None:
            return self._export(self.statement.query.text, path)
        return self._export(self._table_query(self.table()), path)

    def _export(self, query: str, path: Path) -> int:
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

    def _table_query(self, table: TableInfo) -> str:
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
            for batch in read_file(file, self.files):
                self.process.check()
                rows = self._fitted(table, batch)
                if limit is not None:
                    rows = rows.slice(0, limit - total)
                total += put_rows(self.services, table, rows, self.process.token)
                if limit is not None and total >= limit:
                    return total
        return total

    def _fitted(self, table: TableInfo, batch: pa.RecordBatch) -> pa.Table:
        """Match the columns of a file by name; those the table does not have are left out."""
        given = {
            column.name: assign_column(batch.column(column.name), column, zone="UTC")
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

    def database_to(self) -> int:
        total = 0
        for table in self._tables():
            path = self._directory() / f"{table.name}.{self.files.format}"
            if not path.resolve().is_relative_to(self._directory()):
                raise InvalidArguments(f"the name of table {table.name} is no name of a file")
            total += self._export(self._table_query(table), path)
        return total

    def database_from(self) -> int:
        """Read every file of a directory into the table of its name."""
        total = 0
        goes_on = self.settings.get("continue_on_error", "false").lower() == "true"
        tables = {table.name: table for table in self._tables()}
        for file in sorted(self._directory().glob(f"*.{self.files.format}")):
            table = tables.get(file.name.removesuffix(f".{self.files.format}"))
            if table is None:
                if goes_on:
                    _log.warning("no table for a file", file=file.name)
                    continue
                raise InvalidArguments(f"there is no table for the file {file.name}", hint="create it first")
            try:
                total += self.table_from(table, file, str(file))
            except TsdbError as error:
                if not goes_on or isinstance(error, Cancelled):
                    raise
                _log.warning("a file was not copied", file=file.name, error=error)
        return total

    def _directory(self) -> Path:
        assert self.statement.path is not None
        if not self.statement.path.endswith("/"):
            raise InvalidArguments("COPY DATABASE takes a directory: its path ends with /")
        return confined(self.statement.path, self.services.options.copy_root)

    def _tables(self) -> list[TableInfo]:
        assert self.statement.database is not None
        name = resolve_database(self.statement.database)
        self.services.catalog.database(name)
        return [table for table in self.services.catalog.tables(name) if table.engine == "mito" or table.is_logical]
