"""Asking the queries of before a restart again, before the first client does.

The first query of its kind is planned, opens data files and decodes columns, which later ones find done. What clients
will ask is what they have asked: when a server stops, it writes down the last statement of each of the shapes that were
used last, and some before it, which differ in their literals; when it starts, it answers them and throws the answers
away. That is bounded in number and in time, and nothing depends on it: a file that is missing, old or damaged costs
warmth only.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from tsdb.auth import SYSTEM
from tsdb.errors import TsdbError
from tsdb.query import Channel, QueryEngine, RecentStatement, Session
from tsdb.sql.statements import Dialect
from tsdb.store import Files, replace_file
from tsdb.telemetry import get_logger
from tsdb.units import Duration

STATEMENTS_FILE = "recent_statements.json"
STATEMENTS_MAX = 256
ROUNDS = 4
"""How often the last of each shape is asked: the second time takes the way of queries whose shape is known. Without the
first, which is slow, it has then been fast as often as it takes to run inline for a client that is alone. Statements
with other literals are asked once, to decode what they read."""
WARM_SECONDS_MAX = 1.0
"""How much longer a start may take."""

Rehearse: TypeAlias = Callable[[str, Session, float], None]
"""Answers a statement in a session within some seconds, and throws the answer away."""

_CHANNELS = {Dialect.MYSQL: Channel.MYSQL, Dialect.POSTGRESQL: Channel.POSTGRES}
_log = get_logger("tsdb.warm_up")


def save_statements(queries: QueryEngine, directory: Path, unreached: Sequence[RecentStatement] = ()) -> None:
    """Write down what was asked last; if nothing was, the file stays as it is.

    `unreached` are statements of the file for which there was no time at the start. They are kept for the next one.
    """
    statements = queries.recent_statements()
    if not statements:
        return
    statements = [*statements, *(each for each in unreached if each not in statements)][:STATEMENTS_MAX]
    content = json.dumps({"statements": [each._asdict() for each in statements]}, indent=1)
    file = directory / STATEMENTS_FILE
    try:
        replace_file(Files(), file, content.encode())
    except OSError as error:
        _log.warning("the queries for the warm-up could not be saved", file=file, error=error)


def load_statements(directory: Path) -> list[RecentStatement]:
    """Return what was asked before the restart, as far as that can be read."""
    try:
        found = json.loads((directory / STATEMENTS_FILE).read_bytes())["statements"]
        return [
            RecentStatement(
                each["text"],
                each["database"],
                Dialect(each["dialect"]),
                each["time_zone"],
                bool(each.get("is_variant")),
            )
            for each in found[:STATEMENTS_MAX]
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError) as error:
        _log.warning("the queries for the warm-up cannot be read", file=directory / STATEMENTS_FILE, error=error)
        return []


def warm_up(answer: Rehearse, statements: Sequence[RecentStatement], *, seconds_max: float = WARM_SECONDS_MAX) -> int:
    """Answer statements some times within a limited time, and return how many answers were there by then."""
    if not statements:
        return 0
    began = time.monotonic()
    done: list[RecentStatement] = []

    def left() -> float:
        return seconds_max - (time.monotonic() - began)

    # A store that does not answer must not delay the start: the thread is left alone when the time is over.
    thread = threading.Thread(target=_run_all, args=(answer, statements, done, left), name="tsdb-warm-up", daemon=True)
    thread.start()
    thread.join(seconds_max)
    _log.debug("the warm-up is complete", statements=len(statements), done=len(done))
    return len(done)


def _run_all(
    answer: Rehearse,
    statements: Sequence[RecentStatement],
    done: list[RecentStatement],
    left: Callable[[], float],
) -> None:
    again = [each for each in statements if not each.is_variant] * (ROUNDS - 1)
    for statement in [*statements, *again]:
        if (seconds := left()) <= 0:
            return
        # Its table may be gone, or another one by now.
        with suppress(TsdbError, TimeoutError):
            answer(statement.text, _session_of(statement, seconds), seconds)
        done.append(statement)


def _session_of(statement: RecentStatement, seconds: float) -> Session:
    return Session(
        channel=_CHANNELS.get(statement.dialect, Channel.HTTP),
        database=statement.database,
        time_zone=statement.time_zone,
        identity=SYSTEM,
        timeout=Duration.of_seconds(seconds),
    )
