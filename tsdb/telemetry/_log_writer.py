"""The path of a log record from the thread that logs to the files and stdout.

    caller ─▶ QueueingHandler: text of the message, fields and traceback ─▶ bounded queue ─▶ LogWriter thread:
              secrets out ─▶ line ─▶ hourly file, error file, stdout

A caller never waits for a disk or a terminal. When the queue is full the record is dropped and counted, and a
line in the log, at the place of the gap, says how many are missing. Nothing else is lost: `stop` writes all
that was queued.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple, TextIO

from tsdb.clock import Clock
from tsdb.telemetry._log_files import HourlyFile
from tsdb.telemetry._logger import FIELDS_ATTRIBUTE, render_fields
from tsdb.telemetry._metrics import counter, gauge
from tsdb.telemetry._secrets import Redactor

QUEUED_RECORDS_MAX = 10_000
SLOW_QUERIES = "tsdb.slow_query"
"""The logger whose lines also go to a file of their own, which exists once there is one."""
STOP_SECONDS_MAX = 5.0
"""How long `stop` waits for a disk or terminal that takes no more bytes."""

_QUEUED = gauge("tsdb_log_queue_records", "Log records waiting to be written; at most 10000.")
_DROPPED = counter(
    "tsdb_log_records_dropped_total", "Log records dropped because the queue was full; the log marks the gaps."
)
_FAILED = counter("tsdb_log_write_errors_total", "Failed writes to a log file, for example on a full disk.")

_LEVEL_COLOURS = {"DEBUG": "\x1b[34m", " INFO": "\x1b[32m", " WARN": "\x1b[33m", "ERROR": "\x1b[31m"}
_COLOUR_OFF = "\x1b[0m"

# Continuation lines are indented, so a line that does not begin with a space is always the start of a record,
# whatever a client managed to put into a message. Control characters are shown, not sent to the operator's
# terminal.
_LAYOUT: dict[int, str] = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029)},
    ord("\n"): "\n    ",
    ord("\t"): "\t",
}


class Entry(NamedTuple):
    """A record as the queue holds it: all of it text, so later changes to the logged objects do not show."""

    now_ns: int
    level: int
    target: str
    message: str
    fields: str = ""
    traceback: str = ""


class QueueingHandler(logging.Handler):
    """Turns records into entries and queues them without ever waiting.

    `logging.Handler.handle` holds this handler's lock around `emit`, which keeps the mark of a gap and the
    record behind it together.
    """

    def __init__(self, clock: Clock, *, records_max: int = QUEUED_RECORDS_MAX) -> None:
        super().__init__()
        self._clock = clock
        self._dropped = 0
        self.queue: queue.Queue[Entry | None] = queue.Queue(records_max)
        _QUEUED.set_function(self.queue.qsize)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._put(self._make_entry(record))
        except Exception:  # noqa: BLE001 - whatever a logged object raises while it is rendered is no failure of the caller
            self.handleError(record)

    def take_gap(self) -> Entry | None:
        """Return a line with the number of dropped records, if there are any, and reset the count."""
        self.acquire()
        dropped, self._dropped = self._dropped, 0
        self.release()
        if not dropped:
            return None
        text = "log records were dropped because the queue was full"
        return Entry(self._clock.now_ns(), logging.WARNING, "tsdb.telemetry", text, f" count={dropped}")

    def _make_entry(self, record: logging.LogRecord) -> Entry:
        fields: Mapping[str, object] = getattr(record, FIELDS_ATTRIBUTE, {})
        text = ""
        if record.exc_info and record.exc_info[1] is not None:
            text = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        return Entry(
            self._clock.now_ns(),
            record.levelno,
            record.name,
            record.getMessage(),
            render_fields(fields) if fields else "",
            text,
        )

    def _put(self, entry: Entry) -> None:
        try:
            if self._dropped and not self.queue.full() and (gap := self.take_gap()):
                self.queue.put_nowait(gap)
            self.queue.put_nowait(entry)
        except queue.Full:
            self._dropped += 1
            _DROPPED.inc()


class LineFormat:
    """Writes entries as `2024-05-01T12:00:00.123456Z  INFO tsdb.http: message key=value`."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def format(self, entry: Entry) -> tuple[str, str, str]:
        """Return the time, the level in five characters, and the rest of the line with its end."""
        seconds, ns = divmod(entry.now_ns, 1_000_000_000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ns // 1000:06d}Z"
        text = f"{entry.message}{entry.fields}"
        if entry.traceback:
            text = f"{text}\n{entry.traceback}"
        text = f"{entry.target}: {self._redactor.redact(text)}"
        if not text.isprintable():
            text = text.translate(_LAYOUT)
        return stamp, _level_text(entry.level), f"{text}\n"


class LogWriter:
    """The thread that owns the files and stdout."""

    def __init__(
        self,
        handler: QueueingHandler,
        line_format: LineFormat,
        *,
        file: HourlyFile,
        error_file: HourlyFile,
        slow_file: HourlyFile,
        stdout: TextIO | None,
        has_colour: bool,
    ) -> None:
        self._handler = handler
        self._format = line_format
        self._file = file
        self._error_file = error_file
        self._slow_file = slow_file
        self._stdout = stdout
        self._has_colour = has_colour
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="tsdb-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write everything that is queued, close the files and end the thread."""
        deadline = time.monotonic() + STOP_SECONDS_MAX
        try:
            self._handler.queue.put(None, timeout=STOP_SECONDS_MAX)
        except queue.Full:
            return
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        entries = self._handler.queue
        while (entry := entries.get()) is not None:
            self._write(entry)
            if entries.empty():
                self._write_gap()
                self._flush()
        self._write_gap()
        self._flush()
        self._try(self._file.close)
        self._try(self._error_file.close)
        self._try(self._slow_file.close)

    def _write_gap(self) -> None:
        if gap := self._handler.take_gap():
            self._write(gap)

    def _write(self, entry: Entry) -> None:
        stamp, level, rest = self._format.format(entry)
        line = f"{stamp} {level} {rest}".encode("utf-8", "backslashreplace")
        self._try(lambda: self._file.append(line, entry.now_ns))
        if entry.level >= logging.ERROR:
            self._try(lambda: self._error_file.append(line, entry.now_ns))
        if entry.target == SLOW_QUERIES:
            self._try(lambda: self._slow_file.append(line, entry.now_ns))
        if self._stdout is not None:
            if self._has_colour:
                level = f"{_LEVEL_COLOURS[level]}{level}{_COLOUR_OFF}"
            self._print(f"{stamp} {level} {rest}")

    def _flush(self) -> None:
        self._try(self._file.flush, proves_recovery=False)
        self._try(self._error_file.flush, proves_recovery=False)
        self._try(self._slow_file.flush, proves_recovery=False)
        self._print("")

    def _try(self, write: Callable[[], None], *, proves_recovery: bool = True) -> None:
        """Write, and tell a failure once; a flush that had nothing to write is no sign that writing works again."""
        try:
            write()
        except OSError as error:
            _FAILED.inc()
            if not self._has_failed:
                # The one place that is left to say it; once, until writing works again.
                self._has_failed = True
                sys.stderr.write(f"tsdb: cannot write the log: {error}\n")
        else:
            self._has_failed = self._has_failed and not proves_recovery

    def _print(self, text: str) -> None:
        """Write to stdout; an empty text flushes. A reader that went away does not stop the files."""
        if self._stdout is None:
            return
        try:
            if text:
                encoding = self._stdout.encoding or "utf-8"
                self._stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
            else:
                self._stdout.flush()
        except (OSError, ValueError):
            self._stdout = None


def _level_text(level: int) -> str:
    if level >= logging.ERROR:
        return "ERROR"
    if level >= logging.WARNING:
        return " WARN"
    return " INFO" if level >= logging.INFO else "DEBUG"
