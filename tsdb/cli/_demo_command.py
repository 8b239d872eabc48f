"""`tsdb demo`: its options and help."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tsdb.cli._connection import connection_options
from tsdb.cli._options import CONTEXT, GroupedCommand, option_group
from tsdb.quick_imports import quick_imports

if TYPE_CHECKING:
    from tsdb.cli.server import ServerAddress

_EPILOG = """\b
Examples:
  tsdb demo                                  3 hours of 5 hosts into the database public
  tsdb demo --hours 24 --hosts 20 -d demo    more data, into the database demo
  tsdb demo --follow                         keep adding data every 10 seconds, until Ctrl-C

\b
It writes the table host_metrics (CPU and memory of hosts), the Prometheus metrics of a web service
(http_requests_total, http_request_duration_seconds_bucket, up) and the table app_logs with a full-text
index. Running it again replaces rows with equal ones and adds data for the time since then.
"""


_option = option_group("Data")


@click.command(
    "demo",
    cls=GroupedCommand,
    context_settings=CONTEXT,
    epilog=_EPILOG,
    help="Load sample data into a running server: host metrics, Prometheus metrics and logs.",
)
@_option(
    "--hours", type=click.FloatRange(0.01, 24 * 31), default=3.0, show_default=True, help="Hours of data, up to now."
)
@_option("--hosts", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of hosts.")
@_option("--seed", type=click.IntRange(0, 2**32), default=1, show_default=True, help="Seed of the random values.")
@_option("--until", type=float, metavar="SECONDS", help="End of the data, in seconds since 1970.  [default: now]")
@_option("--follow", is_flag=True, help="Keep writing new data until Ctrl-C.")
@_option("-q", "--quiet", is_flag=True, help="Print errors only.")
@connection_options
def demo_command(
    address: Callable[[], ServerAddress],
    database: str,
    hours: float,
    hosts: int,
    seed: int,
    until: float | None,
    follow: bool,
    quiet: bool,
) -> None:
    with quick_imports():
        from tsdb.cli.demo import DemoOptions, run_demo

    options = DemoOptions(database, hours, hosts, seed, follow, until, quiet)
    sys.exit(run_demo(address(), options))
