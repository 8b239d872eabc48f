"""What is done with lines that arrived together: good ones become one write, the others one error line each.

put x 1667898896 1 h=a      silence
put x                       Invalid query: put: illegal argument: not enough arguments (need least 4, got 2)
version                     the version
quit, exit                  the connection ends
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tsdb import __version__
from tsdb.errors import TsdbError, wire
from tsdb.ingest import NewTable, TableRows, WriteOutcome
from tsdb.ingest.opentsdb import NEW_TABLE, InvalidPoint, Point, make_rows, parse_put
from tsdb.query import Session
from tsdb.servers._partial_write import write_what_fits
from tsdb.telemetry import get_logger

LINE_BYTES_MAX = 64 << 10
"""How long a line may be."""
LINE_TOO_LONG = f"Invalid query: the line is longer than {LINE_BYTES_MAX} bytes"

_log = get_logger("tsdb.opentsdb")


class TelnetDatabase(Protocol):
    """What the server needs of the database."""

    def ingest(
        self,
        rows: Sequence[TableRows],
        session: Session,
        new_table: NewTable,
        *,
        dry_run: bool = False,
        hints: Mapping[str, str] = ...,
    ) -> WriteOutcome:
        """Write rows into tables that are made to fit; raises IngestRejected when some do not."""


@dataclass(slots=True)
class Handled:
    """What became of some lines."""

    replies: dict[int, str] = field(default_factory=dict)
    """By the number of the line."""
    refused: int = 0
    """Lines that did not reach the database."""
    has_quit: bool = False


def handle_lines(lines: Sequence[bytes], database: TelnetDatabase, session: Session) -> Handled:
    """Handle lines in their order, up to one that ends the connection; blocks while it writes."""
    handled = Handled()
    points: list[tuple[int, Point]] = []
    for number, raw in enumerate(lines):
        if len(raw) > LINE_BYTES_MAX:
            handled.replies[number] = LINE_TOO_LONG
            handled.refused += 1
            continue
        try:
            line = raw.decode("utf-8").strip()
            command = line.lower()
            if command in ("quit", "exit"):
                handled.has_quit = True
                break
            if command == "version":
                handled.replies[number] = f"tsdb {__version__}"
            elif line:
                points.append((number, parse_put(line)))
        except UnicodeDecodeError:
            handled.replies[number] = "Invalid query: the line is not valid UTF-8"
            handled.refused += 1
        except InvalidPoint as error:
            handled.replies[number] = f"Invalid query: {error.message}"
            handled.refused += 1
    if points:
        _write(points, database, session, handled)
    return handled


def _write(points: list[tuple[int, Point]], database: TelnetDatabase, session: Session, handled: Handled) -> None:
    rows = make_rows(points)
    refused: dict[int, str] = {}
    try:
        reasons = write_what_fits(rows, lambda left: database.ingest(left, session, NEW_TABLE))[2]
        refused = {number: f"Invalid query: {reason}" for number, reason in reasons.items()}
    except TsdbError as error:
        if wire(error.status).is_fault:
            _log.exception("a write failed", status=error.status.title)
        refused = {number: f"Internal error: {error.status.value}, {error}" for number, _ in points}
    handled.replies |= refused
