"""The commands beside the components. What they need is imported when they run: help answers at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tsdb.cli._backup_commands import backup_command, restore_command
from tsdb.cli._connection import connection_options
from tsdb.cli._demo_command import demo_command
from tsdb.cli._options import CONTEXT, GroupedCommand, option_group, version_option
from tsdb.cli._transfer_commands import export_command, import_command
from tsdb.quick_imports import quick_imports

if TYPE_CHECKING:
    from tsdb.cli.server import ServerAddress

_FORMATS = ("table", "vertical", "csv", "json", "arrow")
_CLI_EPILOG = """\b
Examples:
  tsdb cli                                             a shell; \\? lists its commands
  tsdb cli -e "SELECT count(*) FROM cpu"               run a statement and exit
  tsdb cli --format csv -e "SELECT * FROM cpu" > cpu.csv
  tsdb cli < script.sql                                run the statements of a file
  tsdb cli --promql -e "rate(requests_total[5m])"      PromQL
  tsdb cli --url https://db.example:4000 -u ann -p     log in, asking for the password

\b
Exit codes: 0 all statements ran, 1 a statement failed, 2 invalid usage, 3 the server cannot be reached or
refused the login. Errors go to standard error. The history of the shell is in
$XDG_STATE_HOME/tsdb/history (~/.local/state/tsdb/history). NO_COLOR turns colours off.
"""


_shell_option = option_group("Shell")


@click.command(
    "cli",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    epilog=_CLI_EPILOG,
    help="A shell for SQL and PromQL against a running server.",
)
@_shell_option(
    "-e",
    "--execute",
    "texts",
    metavar="TEXT",
    multiple=True,
    help="Run these statements, separated by ;, and exit. Can be repeated.",
)
@_shell_option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    default="table",
    show_default=True,
    help="Output format; json is one object per line.",
)
@_shell_option("--promql", is_flag=True, help="Read PromQL instead of SQL.")
@_shell_option(
    "--time-zone",
    metavar="ZONE",
    help="Time zone of statements and results, such as Europe/Berlin or +08:00.  [default: that of the server]",
)
@_shell_option("--timing", is_flag=True, help="Show how long statements take.")
@_shell_option("--keep-going", is_flag=True, help="Continue after a statement that failed; the exit code is still 1.")
@connection_options
def _cli(
    address: Callable[[], ServerAddress],
    database: str,
    texts: tuple[str, ...],
    format_name: str,
    promql: bool,
    time_zone: str | None,
    timing: bool,
    keep_going: bool,
) -> None:
    with quick_imports():
        from tsdb.cli.shell import ShellOptions, run_shell

    options = ShellOptions(
        texts=texts,
        database=database,
        time_zone=time_zone,
        format=format_name,
        is_promql=promql,
        has_timing=timing,
        keeps_going=keep_going,
    )
    sys.exit(run_shell(address(), options))


_COMMANDS: tuple[click.Command, ...] = (
    _cli,
    demo_command,
    import_command,
    export_command,
    backup_command,
    restore_command,
)
for _command in _COMMANDS:
    _command.params.append(version_option())


def client_commands() -> tuple[click.Command, ...]:
    """Return the commands for the root of the tree."""
    return _COMMANDS
