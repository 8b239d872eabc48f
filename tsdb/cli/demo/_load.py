"""Writes the data of the demo into a running server, once or for as long as it is left running."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tsdb.cli.demo._data import STEP_SECONDS, DemoData
from tsdb.cli.server import CannotConnect, ServerAddress, run_statement
from tsdb.cli.transfer import BatchWriter, RowsBatch, WriteBatch, batches_of, encode_labels, showing
from tsdb.errors import InvalidArguments, TsdbError

_CHUNK_SECONDS = 1800
_LOG_STEP = 3
"""Every how many steps a service writes a line of log."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS host_metrics (host STRING, region STRING, ts TIMESTAMP(3) TIME INDEX,"
    " usage_user DOUBLE, usage_system DOUBLE, usage_idle DOUBLE, memory_used BIGINT, load1 DOUBLE,"
    " PRIMARY KEY (host, region))",
    "CREATE TABLE IF NOT EXISTS app_logs (service STRING, host STRING, ts TIMESTAMP(3) TIME INDEX, level STRING,"
    " message STRING FULLTEXT INDEX, PRIMARY KEY (service, host))",
)
QUERIES = (
    (
        "CPU of each region in steps of 10 minutes",
        "cli -e \"SELECT date_bin(INTERVAL '10 minutes', ts) AS time, region, avg(usage_user) AS cpu FROM host_metrics"
        " WHERE ts > now() - INTERVAL '1 hour' GROUP BY time, region ORDER BY time, region\"",
    ),
    (
        "Requests per second and errors, in PromQL",
        'cli --promql -e "sum by (code) (rate(http_requests_total[5m]))"',
    ),
    (
        "Timeouts in the logs, found by words",
        "cli -e \"SELECT ts, service, host, message FROM app_logs WHERE matches_term(message, 'timeout')"
        ' ORDER BY ts DESC LIMIT 5"',
    ),
)


@dataclass(frozen=True)
class DemoOptions:
    """What the command line says."""

    database: str
    hours: float
    hosts: int
    seed: int
    follows: bool
    until: float | None = None
    """The time up to which there is data, in seconds; now if it is not given."""
    is_quiet: bool = False


def run_demo(address: ServerAddress, options: DemoOptions, *, prefix: str = "tsdb") -> int:
    """Load the data and return the exit code."""
    loader = _Loader(address, options)
    try:
        end = int(options.until if options.until is not None else time.time()) // STEP_SECONDS * STEP_SECONDS
        loader.create()
        loader.load(end - round(options.hours * 3600), end)
        if not options.is_quiet:
            _tell_queries(address, options, prefix)
        if options.follows:
            loader.follow(end)
    except TsdbError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 3 if isinstance(error, CannotConnect) else 1
    except KeyboardInterrupt:
        return 0 if options.follows else 128 + signal.SIGINT
    finally:
        loader.close()
    return 0


class _Loader:
    def __init__(self, address: ServerAddress, options: DemoOptions) -> None:
        self._address = address
        self._options = options
        self._data = DemoData(options.seed, options.hosts)
        self._writer = BatchWriter(address)
        self._rows = 0

    def close(self) -> None:
        self._writer.stop()

    def create(self) -> None:
        """Create the database and the tables, if they are not there."""
        database = self._options.database
        if database != "public":
            quoted = '"' + database.replace('"', '""') + '"'
            self._run(f"CREATE DATABASE IF NOT EXISTS {quoted}", "public")
        for text in TABLES:
            self._run(text, database)

    def _run(self, text: str, database: str) -> None:
        with run_statement(self._address, text, database=database):
            pass

    def load(self, start: int, end: int) -> None:
        """Write the data of a span of time, its end included."""
        title = f"demo data into {self._options.database}"
        with showing(title, end - start, is_quiet=self._options.is_quiet, unit="steps") as view:
            for first, last in _chunks(start, end):
                self._write(np.arange(first, last, STEP_SECONDS, dtype=np.int64))
                view.update(last - start, self._rows)
        if not self._options.is_quiet:
            print(
                f"{self._rows:,} rows for {_count_of(self._options.hosts, 'host')} and "
                f"{_count_of(self._options.hours, 'hour')}",
                file=sys.stderr,
            )

    def follow(self, last: int) -> None:
        """Write what happens from now on, step by step, until the user stops it."""
        print("writing new data every 10 s; Ctrl-C ends", file=sys.stderr)
        while True:
            time.sleep(max(0.0, last + STEP_SECONDS - time.time()))
            now = int(time.time()) // STEP_SECONDS * STEP_SECONDS
            if now > last:
                self._write(np.arange(last + STEP_SECONDS, now + 1, STEP_SECONDS, dtype=np.int64))
                last = now

    def _write(self, times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        database = self._options.database
        hosts = self._data.host_rows(times)
        lines = np.arange(1, hosts.num_rows + 1, dtype=np.int64)
        self._send(RowsBatch("host_metrics", database, hosts, "demo", lines))
        chosen = times[times // STEP_SECONDS % _LOG_STEP == 0]
        if len(chosen):
            logs = self._data.log_rows(chosen)
            self._send(RowsBatch("app_logs", database, logs, "demo", np.arange(1, logs.num_rows + 1, dtype=np.int64)))
        series = (
            (encode_labels(labels), at * 1000, values, labels["__name__"])
            for labels, at, values in self._data.series(times)
        )
        for batch in batches_of(database, series):
            self._send(batch)

    def _send(self, batch: WriteBatch) -> None:
        written = self._writer.write(batch, rejected_max=0)
        if written.rejected:
            row = written.rejected[0]
            raise InvalidArguments(
                f"the server refused demo data: {row.reason}", hint="is there another table of the same name?"
            )
        self._rows += written.rows


def _chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide a span of time; the end of the last part lies just behind the end."""
    for first in range(start, end + 1, _CHUNK_SECONDS):
        yield first, min(first + _CHUNK_SECONDS, end + 1)


def _count_of(count: float, thing: str) -> str:
    return f"{count:g} {thing}{'' if count == 1 else 's'}"


def _tell_queries(address: ServerAddress, options: DemoOptions, prefix: str) -> None:
    where = "" if address.url == "http://127.0.0.1:4000" else f" --url {address.url}"
    where += "" if options.database == "public" else f" -d {options.database}"
    print("\nTry:")
    for title, command in QUERIES:
        print(f"\n# {title}\n{prefix} {command.replace('cli', f'cli{where}', 1)}")
