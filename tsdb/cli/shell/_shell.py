"""The shell without its terminal: settings, and what runs a statement and prints its result.

Requests over HTTP are sessions of their own, so the shell keeps what is to last: `USE` and `SET time_zone` are seen
here and sent with every later statement.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow.types as pt

from tsdb.cli.server import (
    AffectedRows,
    CannotConnect,
    ResultRows,
    ServerAddress,
    ServerError,
    StatementResult,
    run_promql,
    run_statement,
)
from tsdb.cli.shell._statements import Language
from tsdb.cli.shown import TextSink, show_rows
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import InvalidTimeZone, canonical_zone

_USE = re.compile(r"use\s+(\"[^\"]+\"|`[^`]+`|[^\s;]+)\s*", re.IGNORECASE)
_ZONE = re.compile(
    r"set\s+(?:session\s+|@@(?:session\.)?)?(?:time_zone\s*=|timezone\s*(?:=|to)|time\s+zone)\s*'([^']+)'\s*",
    re.IGNORECASE,
)
_SET = re.compile(r"set\s", re.IGNORECASE)


@dataclass
class ShellSettings:
    """What meta commands change."""

    database: str
    time_zone: str | None = None
    """None until it is known: it is that of the server, unless the user chose one."""
    language: Language = Language.SQL
    format: str = "table"
    has_timing: bool = False
    range_seconds: float | None = None
    """How far back PromQL is evaluated; None for an instant query."""
    step_seconds: float | None = None


@dataclass
class Shell:
    """Runs statements against one server."""

    address: ServerAddress
    settings: ShellSettings
    out: BinaryIO
    is_terminal: bool = False
    """Whether a person reads the output."""
    has_colors: bool = False
    note: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    last: str | None = None
    """The statement that was run last."""
    depth: int = 0
    """How many scripts are being run inside each other."""
    has_error_colors: bool = False
    _file: BinaryIO | None = field(default=None, repr=False)

    @property
    def sink(self) -> TextSink:
        return TextSink(self._file or self.out)

    @property
    def is_quiet(self) -> bool:
        """Whether only rows are printed, for programs to read."""
        return self.settings.format in ("csv", "json", "arrow")

    def open_file(self, file: BinaryIO | None) -> None:
        """Print results to a file from now on, or again to the standard output."""
        if self._file is not None:
            self._file.close()
        self._file = file

    def run(self, text: str) -> None:
        """Run a statement or an expression and print its result; errors are raised."""
        self.last = text
        started = time.perf_counter()
        if not (self.settings.language is Language.SQL and self._run_session_statement(text)):
            with self.ask(text) as result:
                self._show(result)
        self.sink.flush()
        if self.settings.has_timing:
            self.note(f"Time: {(time.perf_counter() - started) * 1000:.3f} ms")

    def ask(self, text: str) -> AbstractContextManager[StatementResult]:
        """Send a statement or an expression in the language that is chosen."""
        settings = self.settings
        if settings.language is Language.SQL:
            return run_statement(self.address, text, database=settings.database, time_zone=settings.time_zone)
        if settings.range_seconds is None:
            return run_promql(self.address, text, database=settings.database)
        return self.ask_range(text, settings.range_seconds, settings.step_seconds)

    def ask_range(
        self, text: str, seconds: float, step: float | None = None
    ) -> AbstractContextManager[StatementResult]:
        """Evaluate an expression over the last seconds, with a step that gives about 100 points unless one is given."""
        now = time.time()
        chosen = step or max(1.0, round(seconds / 100))
        return run_promql(
            self.address, text, database=self.settings.database, start=now - seconds, end=now, step=chosen
        )

    def query(self, text: str, *, database: str | None = None) -> ResultRows:
        """Run SQL of the shell's own and return all of its rows, which are few."""
        chosen = database or self.settings.database
        with run_statement(self.address, text, database=chosen, time_zone=self.settings.time_zone) as result:
            if isinstance(result, AffectedRows):
                raise InvalidArguments(f"the statement has no rows: {text}")
            rows = result.read_all()
        return ResultRows(rows.schema, iter(rows.to_batches()))

    def show_query(self, text: str) -> None:
        """Run SQL of the shell's own and print the rows."""
        self._show(self.query(text))
        self.sink.flush()

    def change_database(self, name: str) -> None:
        """Use another database from now on; it must exist."""
        self.query("SELECT 1", database=name)
        self.settings.database = name

    def change_zone(self, name: str) -> None:
        """Show and read times in another zone from now on."""
        try:
            self.settings.time_zone = canonical_zone(name)
        except InvalidTimeZone as error:
            raise InvalidArguments(str(error)) from error

    @property
    def zone(self) -> str:
        """The zone of the session: that of the server, unless the user chose one."""
        if self.settings.time_zone is None:
            found = self.query("SELECT timezone()").read_all().column(0)[0].as_py()
            self.settings.time_zone = canonical_zone(found)
        return self.settings.time_zone

    def tell_error(self, error: TsdbError) -> None:
        """Print an error to the standard error, after the output before it."""
        with suppress(BrokenPipeError):
            self.sink.flush()
        text = error_text(error)
        self.note(f"\x1b[31m{text}\x1b[0m" if self.has_error_colors else text)

    def _run_session_statement(self, text: str) -> bool:
        """Handle what a session keeps; returns whether that was all."""
        if (found := _USE.fullmatch(text)) is not None:
            self.change_database(found[1].strip('"`'))
        elif (found := _ZONE.fullmatch(text)) is not None:
            self.change_zone(found[1])
        else:
            if _SET.match(text) and self.is_terminal:
                self.note("note: over HTTP a SET lasts for its own request; only SET time_zone and USE are kept")
            return False
        if not self.is_quiet:
            self.sink.write("OK\n")
        return True

    def _show(self, result: StatementResult) -> None:
        if isinstance(result, AffectedRows):
            if not self.is_quiet:
                self.sink.write(_affected(result.rows))
            return
        name = self.settings.format
        if name == "arrow" and self.is_terminal and self._file is None:
            raise InvalidArguments("the format arrow is not text", hint="print it to a file with \\o, or redirect it")
        has_times = any(pt.is_timestamp(each.type) for each in result.schema)
        zone = self.zone if has_times else "UTC"
        rows = show_rows(name, result.schema, result, self.sink, zone=zone)
        if not self.is_quiet:
            self.sink.write(f"({rows} {'row' if rows == 1 else 'rows'})\n")


def _affected(rows: int | None) -> str:
    if rows is None:
        return "OK\n"
    return f"OK, {rows} {'row' if rows == 1 else 'rows'} affected\n"


def error_text(error: TsdbError) -> str:
    """An error as it is printed: the code of the server, what happened, and what to do."""
    return f"ERROR {error}" if isinstance(error, ServerError) else f"ERROR: {error}"


def exit_code_of(error: TsdbError) -> int:
    """3 if the server cannot be reached, 1 for everything else."""
    return 3 if isinstance(error, CannotConnect) else 1
