"""`tsdb export`: tables and results of queries to files.

What has the name of the file is whole. An interrupted export of a table to a file can be continued; that of a query, or
to the standard output, cannot be.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from tsdb.cli.server import CannotConnect, ResultRows, ServerAddress, StatementResult, run_statement
from tsdb.cli.transfer._progress import ProgressView, showing
from tsdb.cli.transfer._signals import interrupt_on_sigterm
from tsdb.cli.transfer.exports._formats import ExportLayout, encoder_of, write_parquet
from tsdb.cli.transfer.exports._kept import KeptExport, OtherExport
from tsdb.cli.transfer.exports._resumable import ResumableExport, ResumePlan
from tsdb.cli.transfer.exports._table import ExportedTable, open_table
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import NS_PER_UNIT, InvalidTimeZone, canonical_zone
from tsdb.units import Duration

_SUFFIXES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".lp": "line",
    ".line": "line",
}


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
    window: str | None = None
    is_restart: bool = False
    resumes: bool = True
    is_quiet: bool = False

    @property
    def kept(self) -> KeptExport | None:
        """Where an interrupted export is kept, if it can be continued."""
        if self.table is None or self.output == "-" or not self.resumes:
            return None
        return KeptExport(Path(self.output))


def run_export(address: ServerAddress, options: ExportOptions) -> int:
    """Export and return the exit code."""
    interrupt_on_sigterm()
    try:
        _export(address, options)
    except TsdbError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        if _has_kept(options) and not isinstance(error, OtherExport):
            print("what was exported is kept; the same command continues the export", file=sys.stderr)
        return 3 if isinstance(error, CannotConnect) else 1
    except KeyboardInterrupt:
        print(f"interrupted; {_after_interruption(options)}", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return 0


def _has_kept(options: ExportOptions) -> bool:
    return options.kept is not None and options.kept.state.exists()


def _after_interruption(options: ExportOptions) -> str:
    if _has_kept(options):
        return "the same command continues the export"
    if options.output == "-":
        return "an export to the standard output cannot be continued"
    why = "; an export of a query cannot be continued" if options.query is not None else ""
    return f"nothing was left behind{why}"


def _export(address: ServerAddress, options: ExportOptions) -> None:
    kind = options.format or _format_of(options.output)
    zone = _zone(options.time_zone)
    if (options.table is None) == (options.query is None):
        raise InvalidArguments("pass either a table or --query")
    started = time.monotonic()
    if options.query is not None:
        rows, left_out = _export_query(address, options.query, options, kind, zone)
    else:
        rows, left_out = _export_table(address, options.table or "", options, kind, zone)
    if left_out:
        print(f"{left_out:,} rows have no value that line protocol can carry and were left out", file=sys.stderr)
    if not options.is_quiet:
        print(f"{options.output}: {rows:,} rows, {time.monotonic() - started:.1f} s", file=sys.stderr)


def _export_query(address: ServerAddress, query: str, options: ExportOptions, kind: str, zone: str) -> tuple[int, int]:
    if options.start or options.end:
        raise InvalidArguments("--start and --end are for tables; a query has its own WHERE")
    if options.window or options.is_restart:
        raise InvalidArguments("--window and --restart are for tables; an export of a query cannot be continued")
    if kind == "line" and not options.measurement:
        raise InvalidArguments("line protocol of a query needs a --measurement")
    layout = ExportLayout(zone, options.measurement or "", options.time_column, options.tags)
    asked = run_statement(address, query, database=options.database, time_zone=zone)
    return _export_at_once(asked, None, options, kind, layout)


def _export_table(address: ServerAddress, table: str, options: ExportOptions, kind: str, zone: str) -> tuple[int, int]:
    source = open_table(address, table, database=options.database, zone=zone, start=options.start, end=options.end)
    layout = ExportLayout(zone, options.measurement or table.rpartition(".")[2], source.time, source.tags)
    if options.kept is None:
        if options.window or options.is_restart:
            raise InvalidArguments("--window and --restart are for exports to a file that can be continued")
        return _export_at_once(source.read(), source.count(), options, kind, layout)
    plan = ResumePlan(
        settings={
            "server": address.url,
            "database": options.database,
            "table": table,
            "table id": source.number(),
            "format": kind,
            "--start": options.start or "",
            "--end": options.end or "",
            "--time-zone": zone,
            "--measurement": layout.measurement,
        },
        encoder=encoder_of(kind, layout),
        is_parquet=kind == "parquet",
        length=_length(options.window, source),
        is_restart=options.is_restart,
        is_quiet=options.is_quiet,
    )
    with _written(options.output):
        state = ResumableExport(source, options.kept, plan).run()
    return state.rows, state.left_out


def _length(window: str | None, source: ExportedTable) -> int | None:
    """Return the length of a window in the unit of the time column."""
    if window is None:
        return None
    try:
        seconds = Duration.parse(window).seconds
    except ValueError as error:
        raise InvalidArguments(f"--window {window!r} is not a duration: {error}") from error
    unit = source.schema().field(source.time).type.unit
    length = round(seconds * 1_000_000_000) // NS_PER_UNIT[unit]
    if length <= 0:
        raise InvalidArguments(f"--window {window} is shorter than the unit of {source.time}")
    return length


def _export_at_once(
    asked: AbstractContextManager[StatementResult], size: int | None, options: ExportOptions, kind: str,
    layout: ExportLayout,
) -> tuple[int, int]:  # fmt: skip
    """Export a result in one go."""
    with asked as result, showing(options.output, size, is_quiet=options.is_quiet, unit="rows") as view:
        if not isinstance(result, ResultRows):
            raise InvalidArguments("the statement has no rows to export")
        with _opened(options.output) as file:
            writer = _AtOnce(view)
            if kind == "parquet":
                write_parquet(file, result.schema, writer.passing(result))
            else:
                encoder = encoder_of(kind, layout)
                file.write(encoder.head(result.schema))
                for batch in writer.passing(result):
                    pieces, without = encoder.encode(batch)
                    file.writelines(pieces)
                    writer.left_out += without
    return writer.rows - writer.left_out, writer.left_out


class _AtOnce:
    """Counts rows on their way into a file."""

    def __init__(self, view: ProgressView) -> None:
        self.rows = self.left_out = 0
        self._view = view

    def passing(self, batches: ResultRows) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self.rows += batch.num_rows
            self._view.update(self.rows, self.rows - self.left_out)


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
    with _written(name):
        try:
            with part.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _written(name: str) -> Iterator[None]:
    """Say of which file an error of the file system is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidArguments(f"{name} cannot be written: {error.strerror or error}") from error
