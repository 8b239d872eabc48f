"""`tsdb import`: from files and servers to a running server."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from tsdb.cli.server import CannotConnect, ServerAddress, parse_address, run_statement
from tsdb.cli.transfer._blocks import UnreadableSource
from tsdb.cli.transfer._columns import TimeReading
from tsdb.cli.transfer._import import Importer, ImportLimits, ImportResult, begin
from tsdb.cli.transfer._progress import showing
from tsdb.cli.transfer._read_csv import CsvOptions, CsvSource
from tsdb.cli.transfer._read_json import JsonSource
from tsdb.cli.transfer._read_lines import LineProtocolSource
from tsdb.cli.transfer._read_parquet import ParquetSource
from tsdb.cli.transfer._read_prometheus import PrometheusTextSource
from tsdb.cli.transfer._read_remote import PrometheusServerSource
from tsdb.cli.transfer._read_victoria import VictoriaFileSource, VictoriaServerSource
from tsdb.cli.transfer._rows import RowMaker
from tsdb.cli.transfer._signals import interrupt_on_sigterm
from tsdb.cli.transfer._source import ImportSource
from tsdb.cli.transfer._state import StateFile, default_state_path, fingerprint_of
from tsdb.cli.transfer._target import TargetOptions, parse_types
from tsdb.cli.transfer._windows import TimeWindows
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import InvalidTimestamp, InvalidTimeZone, canonical_zone, parse_timestamp
from tsdb.units import Duration

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".lp": "line",
    ".line": "line",
    ".prom": "prometheus",
    ".om": "openmetrics",
}
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class ImportOptions:
    """What the command line says."""

    sources: Sequence[str] = ()
    format: str | None = None
    table: str | None = None
    database: str = "public"
    time_column: str | None = None
    time_format: str = "auto"
    time_zone: str = "UTC"
    tags: Sequence[str] = ()
    types: str = ""
    columns: Sequence[str] = ()
    delimiter: str | None = None
    has_header: bool = True
    nulls: Sequence[str] = ()
    precision: str = "ns"
    prometheus: str | None = None
    victoria: str | None = None
    match: str | None = None
    start: str | None = None
    end: str | None = None
    window: str = "6h"
    state: str | None = None
    is_restart: bool = False
    resumes: bool = True
    limits: ImportLimits = field(default_factory=ImportLimits)
    is_quiet: bool = False


def run_import(address: ServerAddress, options: ImportOptions) -> int:
    """Import everything and return the exit code."""
    interrupt_on_sigterm()
    try:
        with run_statement(address, "SELECT 1", database=options.database):
            pass
        for make in _plan_sources(address, options):
            _import_one(address, make(), options)
    except TsdbError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 3 if isinstance(error, CannotConnect) else 1
    except KeyboardInterrupt:
        print("interrupted; the same command continues the import", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


def _import_one(address: ServerAddress, source: ImportSource, options: ImportOptions) -> None:
    identity = source.identity()
    file, fingerprint = None, ""
    if identity is not None and options.resumes:
        target = [address.url, options.database, options.table, options.format]
        fingerprint = fingerprint_of(identity, target, options.types, options.time_column, options.time_format,
                                     options.time_zone, options.tags, options.columns, options.delimiter,
                                     options.has_header, options.nulls, options.precision)  # fmt: skip
        path = Path(options.state) if options.state else default_state_path(str([identity[0], target]))
        file = StateFile(path)
    is_other = file is not None and file.path.exists() and file.load(fingerprint) is None
    state = begin(source, file, fingerprint, is_restart=options.is_restart)
    started = time.monotonic()
    with showing(source.name, source.size, is_quiet=options.is_quiet, unit=source.unit, rows=state.rows) as view:
        if not options.is_quiet and state.position:
            view.note(f"{source.name}: continues after {state.rows:,} rows; --restart starts over")
        elif not options.is_quiet and is_other:
            view.note(f"{source.name}: source or options have changed since it was interrupted; begins at the start")
        before = state.rows
        result = Importer(address, source, state, file, options.limits, view).run()
    if not options.is_quiet:
        _tell_end(source.name, result, before, time.monotonic() - started)


def _tell_end(name: str, result: ImportResult, before: int, seconds: float) -> None:
    rejected = f", {result.rejected:,} rejected" if result.rejected else ""
    rate = (result.rows - before) / max(seconds, 0.001)
    print(f"{name}: {result.rows:,} rows{rejected}, {seconds:.1f} s, {rate:,.0f} rows/s", file=sys.stderr)


def _plan_sources(address: ServerAddress, options: ImportOptions) -> list[Callable[[], ImportSource]]:
    """Return what opens each source; what is wrong with the options comes up before anything is written."""
    if options.prometheus or options.victoria:
        if options.sources:
            raise InvalidArguments("name files or a server to import from, not both")
        return [lambda: _server_source(options)]
    if not options.sources:
        raise InvalidArguments("there is nothing to import", hint="name a file, - or a server; see --help")
    return [_file_maker(address, name, options) for name in options.sources]


def _file_maker(address: ServerAddress, name: str, options: ImportOptions) -> Callable[[], ImportSource]:
    kind = options.format or _format_of(name)
    if name != "-" and not Path(name).is_file():
        raise UnreadableSource(f"{name} cannot be read: no such file")
    source = "stdin" if name == "-" else name
    if kind == "line":
        return lambda: LineProtocolSource(name, database=options.database, precision=options.precision, source=source)
    if kind == "victoria":
        return lambda: VictoriaFileSource(name, database=options.database, source=source)
    if kind in ("prometheus", "openmetrics"):
        dialect = cast(Literal["prometheus", "openmetrics"], kind)
        return lambda: PrometheusTextSource(name, database=options.database, source=source, dialect=dialect)
    maker = _row_maker(address, name, options, source)
    if kind == "parquet":
        return lambda: ParquetSource(name, maker, options.columns)
    if kind == "jsonl":
        return lambda: JsonSource(name, maker, options.columns)
    delimiter = options.delimiter or ("\t" if ".tsv" in name else ",")
    reading = CsvOptions(delimiter, options.has_header, options.nulls, options.columns)
    return lambda: CsvSource(name, maker, reading)


def _format_of(name: str) -> str:
    for suffix in reversed(Path(name.removesuffix(".gz")).suffixes):
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    raise InvalidArguments(f"the format of {name} cannot be inferred from its name", hint="pass --format")


def _row_maker(address: ServerAddress, name: str, options: ImportOptions, source: str) -> RowMaker:
    table = options.table or (Path(name).name.partition(".")[0] if name != "-" else "")
    if not table:
        raise InvalidArguments("pass --table for rows from standard input")
    try:
        zone = canonical_zone(options.time_zone)
    except InvalidTimeZone as error:
        raise InvalidArguments(str(error)) from error
    types = parse_types(options.types) if options.types else {}
    target = TargetOptions(table, options.database, options.time_column, options.tags, types)
    return RowMaker(address, target, TimeReading(options.time_format, zone), source)


def _server_source(options: ImportOptions) -> ImportSource:
    windows = _windows(options)
    if options.victoria:
        address = parse_address(options.victoria)
        match = options.match or '{__name__!=""}'
        return VictoriaServerSource(address, database=options.database, match=match, windows=windows)
    address = parse_address(options.prometheus or "")
    # The URL is that of Prometheus, or of remote read itself: …/v1/prometheus/read of another tsdb.
    if address.path.endswith("/read"):
        address, path = replace(address, path=address.path.removesuffix("/read")), "/read"
    else:
        path = "/api/v1/read"
    return PrometheusServerSource(
        address, database=options.database, match=options.match, windows=windows, read_path=path
    )


def _windows(options: ImportOptions) -> TimeWindows:
    now_ms = time.time_ns() // 1_000_000
    end_ms = _moment(options.end) if options.end else now_ms
    start_ms = _moment(options.start) if options.start else end_ms - _DAY_MS
    try:
        step_ms = round(Duration.parse(options.window).seconds * 1000)
    except ValueError as error:
        raise InvalidArguments(f"--window {options.window!r} is not a duration: {error}") from error
    if start_ms > end_ms or step_ms <= 0:
        raise InvalidArguments("--start must lie before --end, and --window be above 0")
    return TimeWindows(start_ms, end_ms, step_ms, is_open=not (options.start and options.end))


def _moment(text: str) -> int:
    """A time of a user in milliseconds: seconds since 1970, or a text such as 2024-01-30 12:00."""
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        return parse_timestamp(text, "UTC") // 1_000_000
    except InvalidTimestamp as error:
        raise InvalidArguments(str(error)) from error
