"""Sets up the log of the process: files by the hour, an error file beside them, and stdout.

    <dir>/tsdb-standalone.2024-05-01-12        everything the filter lets through
    <dir>/tsdb-standalone-err.2024-05-01-12    errors only

There is one log per process, because the standard library has one root logger.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tsdb.clock import Clock, SystemClock
from tsdb.errors import StartError
from tsdb.telemetry._log_files import HourlyFile
from tsdb.telemetry._log_filter import LogFilter, parse_log_filter
from tsdb.telemetry._log_writer import LineFormat, LogWriter, QueueingHandler
from tsdb.telemetry._secrets import Redactor

_SYSTEM_CLOCK = SystemClock()


class LogSetup:
    """The running log: change its level, and close it last of all."""

    def __init__(self, handler: QueueingHandler, writer: LogWriter, log_filter: LogFilter) -> None:
        self._handler = handler
        self._writer = writer
        self._root = logging.getLogger()
        self._root_level_before = self._root.level
        self._filter = log_filter
        self._is_closed = False

    @property
    def level(self) -> str:
        """The filter in force, such as `info,tsdb.http=debug`."""
        return str(self._filter)

    def set_level(self, level: str) -> None:
        """Put another filter in force; raise ValueError and change nothing when it cannot be read."""
        log_filter = parse_log_filter(level)
        self._clear_targets()
        self._filter = log_filter
        self._apply_filter()

    def close(self) -> None:
        """Write all that was logged, close the files, leave the process' logging as it was found."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        logging.captureWarnings(False)
        self._root.removeHandler(self._handler)
        self._clear_targets()
        self._root.setLevel(self._root_level_before)
        self._writer.stop()

    def _start(self) -> None:
        self._writer.start()
        self._apply_filter()
        self._root.addHandler(self._handler)
        logging.captureWarnings(True)
        # A process that ends without closing its log still gets its last lines written.
        atexit.register(self.close)

    def _apply_filter(self) -> None:
        self._root.setLevel(self._filter.level)
        for target, level in self._filter.targets.items():
            logging.getLogger(target).setLevel(level)

    def _clear_targets(self) -> None:
        for target in self._filter.targets:
            logging.getLogger(target).setLevel(logging.NOTSET)


def setup_logging(
    *,
    app: str,
    directory: Path,
    level: str,
    append_stdout: bool,
    secrets: Iterable[str] = (),
    clock: Clock = _SYSTEM_CLOCK,
) -> LogSetup:
    """Start the log of the process; `app` names the files, as in `tsdb-standalone`.

    Every occurrence of one of the `secrets` is written as `******`. Raises ValueError for a level that cannot
    be read and StartError for a directory that cannot be used.
    """
    log_filter = parse_log_filter(level)
    file, error_file = HourlyFile(directory, app), HourlyFile(directory, f"{app}-err")
    try:
        directory.mkdir(0o700, parents=True, exist_ok=True)
        file.open(clock.now_ns())
        error_file.open(clock.now_ns())
    except OSError as error:
        raise StartError(
            f"logging.dir: cannot write to {directory}: {error.strerror or error}",
            hint="choose another directory with --log-dir",
        ) from error
    handler = QueueingHandler(clock)
    stdout = sys.stdout if append_stdout else None
    writer = LogWriter(
        handler,
        LineFormat(Redactor(secrets)),
        file=file,
        error_file=error_file,
        slow_file=HourlyFile(directory, f"{app}-slow-queries"),
        stdout=stdout,
        has_colour=stdout is not None and stdout.isatty() and not os.environ.get("NO_COLOR"),
    )
    setup = LogSetup(handler, writer, log_filter)
    setup._start()
    return setup
