"""`tsdb export`: tables and results of queries to files.

A file is written beside its final name and renamed when it is complete: what exists is whole.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from tsdb.cli.server import CannotConnect, ResultRows, ServerAddress, run_statement
from tsdb.cli.shown import TimeStyle, csv_head, csv_lines, json_lines
from tsdb.cli.transfer._line_texts import line_texts
from tsdb.cli.transfer._literals import quoted, quoted_path
from tsdb.cli.transfer._progress import ProgressView, showing
from tsdb.cli.transfer._target import TargetOptions, find_table
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import InvalidTimeZone, canonical_zone

_SUFFIXES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".lp": "line",
    ".line": "line",
}
_ROW_GROUP_ROWS = 100_000


@dataclass(frozen=True)
class ExportOptions:
    """What the command line says."""

    table: str | None
    query: str | None
    output: str
    format: str | None
    database: str
    start: str | None = None
    end: str | None = None
    time_zone: str = "UTC"
    time_column: str | None = None
    tags: Sequence[str] = ()
    measurement: str | None = None
    is_quiet: bool = False


def run_export(address: ServerAddress, options: ExportOptions) -> int:
    """Export and return the exit code."""
    try:
        _export(address, options)
    except TsdbError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 3 if isinstance(error, CannotConnect) else 1
    except KeyboardInterrupt:
        print("interrupted; nothing was left behind", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return 0


def _export(address: ServerAddress, options: ExportOptions) -> None:
    kind = options.format or _format_of(options.output)
    text, layout = _plan(address, options, kind)
    started = time.monotonic()
    with (
        run_statement(address, text, database=options.database, time_zone=_zone(options.time_zone)) as result,
        showing(options.output, None, is_quiet=options.is_quiet) as view,
    ):
        if not isinstance(result, ResultRows):
            raise InvalidArguments("the statement has no rows to export")
        with _opened(options.output) as file:
            rows = _WRITERS[kind](result, file, layout, view)
    if not options.is_quiet:
        seconds = time.monotonic() - started
        print(f"{options.output}: {rows:,} rows, {seconds:.1f} s", file=sys.stderr)


@dataclass(frozen=True)
class _Layout:
    """What the formats need to know besides the rows."""

    zone: str
    measurement: str = ""
    time: str | None = None
    tags: Sequence[str] = ()


def _plan(address: ServerAddress, options: ExportOptions, kind: str) -> tuple[str, _Layout]:
    """Return the query, and what of its columns is time and tags."""
    zone = _zone(options.time_zone)
    if (options.table is None) == (options.query is None):
        raise InvalidArguments("pass either a table or --query")
    if options.query is not None:
        if options.start or options.end:
            raise InvalidArguments("--start and --end are for tables; a query has its own WHERE")
        name = options.measurement or ""
        if kind == "line" and not name:
            raise InvalidArguments("line protocol of a query needs a --measurement")
        return options.query, _Layout(zone, name, options.time_column, options.tags)
    table = options.table or ""
    found = find_table(address, TargetOptions(table, options.database, None, (), {}))
    if found is None:
        raise InvalidArguments(f"there is no table {table} in the database {options.database}")
    bounds = [
        f"{quoted(found.time)} {operator} {_literal(value)}"
        for operator, value in ((">=", options.start), ("<", options.end))
        if value
    ]
    where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
    name = options.measurement or table.rpartition(".")[2]
    return f"SELECT * FROM {quoted_path(table)}{where}", _Layout(zone, name, found.time, found.tags)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _zone(name: str) -> str:
    try:
        return canonical_zone(name)
    except InvalidTimeZone as error:
        raise InvalidArguments(str(error)) from error


def _format_of(name: str) -> str:
    found = _SUFFIXES.get(Path(name).suffix)
    if found is None:
        raise InvalidArguments(f"the format of {name} cannot be inferred from its name", hint="pass --format")
    return found


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise InvalidArguments(f"{name} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _write_csv(result: ResultRows, file: BinaryIO, layout: _Layout, view: ProgressView) -> int:
    file.write(csv_head(result.schema))
    return _each(result, view, lambda batch: file.write(csv_lines(batch, layout.zone, TimeStyle.RFC3339)))


def _write_json(result: ResultRows, file: BinaryIO, layout: _Layout, view: ProgressView) -> int:
    return _each(result, view, lambda batch: file.writelines(json_lines(batch, layout.zone)))


def _write_parquet(result: ResultRows, file: BinaryIO, layout: _Layout, view: ProgressView) -> int:
    with pq.ParquetWriter(file, result.schema, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []

        def flush() -> None:
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting), row_group_size=_ROW_GROUP_ROWS)
                waiting.clear()

        def take(batch: pa.RecordBatch) -> None:
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= _ROW_GROUP_ROWS:
                flush()

        rows = _each(result, view, take)
        flush()
    return rows


def _write_lines(result: ResultRows, file: BinaryIO, layout: _Layout, view: ProgressView) -> int:
    time_name = layout.time or _first_time(result.schema)
    left_out = 0

    def take(batch: pa.RecordBatch) -> None:
        nonlocal left_out
        text, without = line_texts(batch, measurement=layout.measurement, time=time_name, tags=layout.tags)
        file.write(text)
        left_out += without

    rows = _each(result, view, take)
    if left_out:
        view.note(f"{left_out:,} rows have no value that line protocol can carry and were left out")
    return rows - left_out


def _first_time(schema: pa.Schema) -> str:
    for each in schema:
        if pt.is_timestamp(each.type):
            return str(each.name)
    raise InvalidArguments("the result has no timestamp column", hint="name the time with --time-column")


def _each(result: ResultRows, view: ProgressView, take: Callable[[pa.RecordBatch], object]) -> int:
    rows = size = 0
    for batch in result:
        take(batch)
        rows += batch.num_rows
        size += batch.nbytes
        view.update(size, rows)
    return rows


_WRITERS = {"csv": _write_csv, "jsonl": _write_json, "parquet": _write_parquet, "line": _write_lines}
