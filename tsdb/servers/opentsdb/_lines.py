"""Handles lines that arrived together: valid ones become one write, the others one error line each.

put x 1667898896 1 h=a      silence
put x                       Invalid query: put: illegal argument: not enough arguments (need least 4, got 2)
version                     the version
quit, exit                  the connection ends
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tsdb import __version__
from tsdb.database import DatabasePort
from tsdb.errors import TsdbError
from tsdb.ingest import Rejection
from tsdb.ingest.opentsdb import NEW_TABLE, InvalidPoint, Point, make_rows, parse_put
from tsdb.query import Session
from tsdb.servers._failures import log_failure
from tsdb.servers._partial_write import write_what_fits
from tsdb.telemetry import get_logger

LINE_BYTES_MAX = 64 << 10
"""How long a line may be."""
LINE_TOO_LONG = f"the line is longer than {LINE_BYTES_MAX} bytes"
PROTOCOL = "opentsdb_telnet"

_log = get_logger("tsdb.opentsdb")


@dataclass(slots=True)
class Handled:
    """The outcome of some lines."""

    replies: dict[int, str] = field(default_factory=dict)
    """By the number of the line."""
    has_quit: bool = False


def handle_lines(lines: Sequence[bytes], database: DatabasePort, session: Session) -> Handled:
    """Handle lines in their order, up to one that ends the connection; blocks while it writes."""
    handled = Handled()
    points: list[tuple[int, Point]] = []
    refused: dict[int, str] = {}
    for number, raw in enumerate(lines):
        try:
            line = _read_line(raw)
            command = line.lower()
            if command in ("quit", "exit"):
                handled.has_quit = True
                break
            if command == "version":
                handled.replies[number] = f"tsdb {__version__}"
            elif line:
                points.append((number, parse_put(line)))
        except InvalidPoint as error:
            refused[number] = error.message
    handled.replies |= {number: f"Invalid query: {reason}" for number, reason in refused.items()}
    try:
        if refused:
            rejections = [Rejection("", reason, number, kind="syntax") for number, reason in refused.items()]
            database.reject(rejections, session, protocol=PROTOCOL)
        if points:
            handled.replies |= _write(points, database, session)
    except TsdbError as error:
        log_failure(_log, error)
        failed = f"Internal error: {error.status.value}, {error}"
        handled.replies |= {number: failed for number, _ in points}
    return handled


def _read_line(raw: bytes) -> str:
    if len(raw) > LINE_BYTES_MAX:
        raise InvalidPoint(LINE_TOO_LONG)
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidPoint("the line is not valid UTF-8") from None


def _write(points: list[tuple[int, Point]], database: DatabasePort, session: Session) -> dict[int, str]:
    """Write points; return replies to those that were refused."""
    reasons = write_what_fits(
        make_rows(points), lambda left: database.ingest(left, session, NEW_TABLE, protocol=PROTOCOL)
    )[2]
    return {number: f"Invalid query: {reason}" for number, reason in reasons.items()}
