"""`tsdb import` and `tsdb export`: their options and help."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tsdb.cli._connection import connection_options
from tsdb.cli._options import CONTEXT, GroupedCommand, option_group
from tsdb.quick_imports import quick_imports

if TYPE_CHECKING:
    from tsdb.cli.server import ServerAddress

_IMPORT_FORMATS = ("csv", "parquet", "jsonl", "line", "prometheus", "openmetrics", "victoria")
_EXPORT_FORMATS = ("csv", "parquet", "jsonl", "line")
_IMPORT_EPILOG = """\b
Examples:
  tsdb import cpu.csv --tags host                              into the table cpu, which is created
  tsdb import data.csv --table cpu --time-column t --time-format ms --types "usage:double"
  tsdb import cpu.parquet more.parquet --table cpu --tags host
  tsdb import metrics.lp --precision s                         line protocol, which names its tables
  tsdb import samples.om                                       OpenMetrics; .prom for Prometheus text
  tsdb import export.jsonl --format victoria                   /api/v1/export of VictoriaMetrics
  cat rows.jsonl | tsdb import - --format jsonl --table events --tags id
  tsdb import --from-prometheus http://prometheus:9090 --start 2024-01-01 --end 2024-02-01
  tsdb import --from-victoriametrics http://victoria:8428 --match '{job="node"}'

\b
To continue an interrupted import, run the same command again. Rows that were not acknowledged are written
again; a row with the same tags and time replaces itself. See docs/import-export.md.
"""
_EXPORT_EPILOG = """\b
Examples:
  tsdb export cpu -o cpu.parquet
  tsdb export cpu -o cpu.csv --start "2024-01-01" --end "2024-02-01"
  tsdb export -q "SELECT host, max(usage) FROM cpu GROUP BY host" -o - --format jsonl
  tsdb export cpu -o cpu.lp                                    line protocol

\b
The file appears under its name when it is complete. To continue an interrupted export of a table, run the same
command again. Exports of queries, and to standard output, cannot be continued. See docs/import-export.md.
"""


_rows, _source, _run, _what = (
    option_group("Rows"),
    option_group("Servers to import from"),
    option_group("Run"),
    option_group("Export"),
)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


@click.command(
    "import",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    epilog=_IMPORT_EPILOG,
    help="Import files, or the data of a running Prometheus or VictoriaMetrics, into a running server. "
    "Files that end with .gz are decompressed; - is standard input.",
)
@click.argument("sources", metavar="[FILE]...", nargs=-1)
@_rows(
    "--format", "format_name", type=click.Choice(_IMPORT_FORMATS), help="Format.  [default: by the name of the file]"
)
@_rows("-t", "--table", metavar="NAME", help="Table for CSV, Parquet and JSON Lines.  [default: the name of the file]")
@_rows("--time-column", metavar="NAME", help="Column with the time.  [default: ts, time, timestamp or the first time]")
@_rows(
    "--time-format",
    metavar="FORMAT",
    default="auto",
    show_default=True,
    help="Format of times: auto for ISO 8601; s, ms, us or ns for numbers; otherwise a strptime format.",
)
@_rows("--time-zone", metavar="ZONE", default="UTC", show_default=True, help="Time zone of times without an offset.")
@_rows("--tags", metavar="NAME,…", help="Columns that identify a series, if the table is created.")
@_rows("--types", metavar="NAME:TYPE,…", help="Types of columns, if the table is created.  [default: inferred]")
@_rows("--columns", metavar="NAME,…", help="Columns to import; with --no-header the names of all columns.")
@_rows("--delimiter", metavar="CHAR", help="Delimiter of CSV.  [default: comma; tab for .tsv]")
@_rows("--header/--no-header", default=True, help="Whether CSV has a header line.  [default: --header]")
@_rows("--null", "nulls", metavar="TEXT", multiple=True, help="A text that means NULL in CSV, in addition to empty.")
@_rows(
    "--precision",
    type=click.Choice(("ns", "us", "ms", "s")),
    default="ns",
    show_default=True,
    help="Unit of times in line protocol.",
)
@_source("--from-prometheus", "prometheus", metavar="URL", help="Read from a running Prometheus by remote read.")
@_source("--from-victoriametrics", "victoria", metavar="URL", help="Read from a running VictoriaMetrics.")
@_source("--match", metavar="SELECTOR", help="Series to import, as a PromQL selector.  [default: all]")
@_source("--start", metavar="TIME", help="First time, ISO 8601 or seconds.  [default: a day before the end]")
@_source("--end", metavar="TIME", help="Last time.  [default: now]")
@_source("--window", metavar="DURATION", default="6h", show_default=True, help="Time range of one request.")
@_run(
    "--max-errors",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of rows that may be rejected before the import stops.",
)
@_run("--in-flight", metavar="N", type=click.IntRange(1, 64), default=4, show_default=True, help="Concurrent requests.")
@_run(
    "--retry-for",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="How long to retry while the server is busy or unreachable.",
)
@_run("--state", metavar="FILE", help="State file.  [default: below $XDG_STATE_HOME/tsdb/imports]")
@_run("--restart", is_flag=True, help="Start over, even if there is a state of an earlier run.")
@_run("--resume/--no-resume", default=True, help="Keep a state file and continue from it.  [default: --resume]")
@_run("-q", "--quiet", is_flag=True, help="Print errors only.")
@connection_options
def import_command(
    address: Callable[[], ServerAddress],
    sources: tuple[str, ...],
    format_name: str | None,
    tags: str | None,
    columns: str | None,
    types: str | None,
    header: bool,
    max_errors: int,
    in_flight: int,
    retry_for: float,
    restart: bool,
    resume: bool,
    quiet: bool,
    **rest: Any,
) -> None:
    with quick_imports():
        from tsdb.cli.transfer import ImportLimits, ImportOptions, run_import

    options = ImportOptions(
        sources=sources,
        format=format_name,
        tags=_names(tags),
        columns=_names(columns),
        types=types or "",
        has_header=header,
        is_restart=restart,
        resumes=resume,
        is_quiet=quiet,
        limits=ImportLimits(in_flight, max_errors, retry_for),
        **rest,
    )
    sys.exit(run_import(address(), options))


@click.command(
    "export",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    epilog=_EXPORT_EPILOG,
    help="Export a table, or the result of a query, from a running server to a file.",
)
@click.argument("table", metavar="[TABLE]", required=False)
@_what("-o", "--output", metavar="FILE", required=True, help="Output file; - is standard output.")
@_what("-q", "--query", metavar="SQL", help="Export the result of a query instead of a table.")
@_what(
    "--format", "format_name", type=click.Choice(_EXPORT_FORMATS), help="Format.  [default: by the name of the file]"
)
@_what("--start", metavar="TIME", help="First time to export from a table, ISO 8601.")
@_what("--end", metavar="TIME", help="End of the time range to export from a table, exclusive.")
@_what(
    "--time-zone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Time zone of CSV and JSON Lines, and of --start and --end.",
)
@_what("--measurement", metavar="NAME", help="Measurement of line protocol.  [default: the table]")
@_what("--tags", metavar="NAME,…", help="Tags of line protocol, for a query; a table has its own.")
@_what("--time-column", metavar="NAME", help="Time of line protocol, for a query.  [default: the first timestamp]")
@_run("--window", metavar="DURATION", help="Time range of one request, for a table.  [default: by the number of rows]")
@_run("--restart", is_flag=True, help="Start over, even if there is a part of an interrupted export.")
@_run(
    "--resume/--no-resume",
    default=True,
    help="Export a table in windows and continue an interrupted export; otherwise in one query.  [default: --resume]",
)
@_run("--quiet", is_flag=True, help="Print errors only.")
@connection_options
def export_command(
    address: Callable[[], ServerAddress],
    format_name: str | None,
    tags: str | None,
    restart: bool,
    resume: bool,
    quiet: bool,
    **rest: Any,
) -> None:
    with quick_imports():
        from tsdb.cli.transfer import ExportOptions, run_export

    options = ExportOptions(
        format=format_name, tags=_names(tags), is_restart=restart, resumes=resume, is_quiet=quiet, **rest
    )
    sys.exit(run_export(address(), options))
