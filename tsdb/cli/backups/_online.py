"""`tsdb backup --to`: let a running server make a backup, and watch it.

The backup runs in the server, so nothing is lost when the connection breaks; Ctrl-C cancels it.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

import orjson

from tsdb.cli.backups._view import Counts, format_bytes, watching
from tsdb.cli.server import CannotConnect, IncompleteAnswer, ResultRows, ServerAddress, ServerError, run_statement
from tsdb.errors import InvalidArguments, TsdbError

POLL_SECONDS = 0.2
RETRY_SECONDS_MAX = 60.0
"""How long a server may be away that was asked how far a backup has come."""


@dataclass(frozen=True)
class OnlineBackup:
    """What the command line says."""

    destination: str
    name: str | None = None
    skips_damaged: bool = False
    is_quiet: bool = False


def run_backup(address: ServerAddress, options: OnlineBackup) -> int:
    """Make a backup and return the exit code."""
    try:
        return _Watch(address, options).run()
    except TsdbError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 3 if isinstance(error, CannotConnect) else 1


class _Watch:
    """One backup, from its start to its end."""

    def __init__(self, address: ServerAddress, options: OnlineBackup) -> None:
        self._address = address
        self._options = options
        self._state: dict[str, Any] = {}

    def run(self) -> int:
        options = self._options
        settings = "skip_damaged=true" if options.skips_damaged else ""
        started = time.monotonic()
        job = self._ask("start_backup", options.destination, options.name or "", settings)
        try:
            with watching("backup", self._counts, is_quiet=options.is_quiet):
                self._wait(job)
        except KeyboardInterrupt:
            self._ask("cancel_backup", job)
            print("cancelled; earlier backups are as they were", file=sys.stderr)
            return 128 + signal.SIGINT
        return self._report(time.monotonic() - started)

    def _wait(self, job: str) -> None:
        last_answer = time.monotonic()
        while self._state.get("state", "running") == "running":
            try:
                self._state = orjson.loads(self._ask("backup_state", job))
                last_answer = time.monotonic()
            except (CannotConnect, IncompleteAnswer, ServerError) as error:
                is_refused = isinstance(error, ServerError) and not error.is_retryable
                if is_refused or time.monotonic() - last_answer > RETRY_SECONDS_MAX:
                    raise
            time.sleep(POLL_SECONDS)

    def _counts(self) -> Counts:
        state = self._state
        return state.get("phase", "starting"), state.get("bytes_done", 0), state.get("bytes_total", 0)

    def _report(self, seconds: float) -> int:
        state = self._state
        if state["state"] != "done":
            print(f"ERROR: {state['error'] or 'the backup was cancelled'}", file=sys.stderr)
            return 1
        print(f"{state['place']}: {state['name']}")
        if not self._options.is_quiet:
            print(
                f"{state['tables']} tables, {state['rows']:,} rows in {state['files_done']} files;"
                f" {state['files_copied']} files ({format_bytes(state['bytes_copied'])}) copied, {seconds:.1f} s",
                file=sys.stderr,
            )
        for each in state["damaged"]:
            print(f"damaged, not or not whole in the backup: {each}", file=sys.stderr)
        return 0

    def _ask(self, function: str, *arguments: str) -> str:
        """Call an ADMIN function; return its answer."""
        quoted = ", ".join("'" + each.replace("'", "''") + "'" for each in arguments)
        with run_statement(self._address, f"ADMIN {function}({quoted})") as result:
            if not isinstance(result, ResultRows):
                raise InvalidArguments("the server did not answer with a row; does it run another version?")
            answer: str = result.read_all().column(0)[0].as_py()
            return answer
