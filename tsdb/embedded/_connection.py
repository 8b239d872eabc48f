"""A connection to a database in this process.

It may be used from several threads at once. `USE` and `SET` hold for the whole connection, from the next statement on.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from tsdb.components import LocalDatabase, LocalOptions, open_directory, open_memory
from tsdb.database import Affected, Channel, Database, DatabaseOptions, Output, Session, read_all
from tsdb.embedded._frames import to_arrow
from tsdb.embedded._result import Result
from tsdb.engine import EngineOptions, WalOptions
from tsdb.errors import InvalidArguments, Status, TsdbError
from tsdb.promql import parse_duration_ms
from tsdb.query import QueryOptions
from tsdb.query.promql import Span, rows_of
from tsdb.store import DirectoryLock, MemoryStore
from tsdb.units import Size

MEMORY = ":memory:"


class ConnectionClosed(TsdbError):
    """The connection was closed: nothing can be asked of it any more."""

    status = Status.ILLEGAL_STATE


def connect(path: str | Path = MEMORY, *, sync_write: bool = False, write_buffer: str = "256MB") -> Connection:
    """Open the database of a directory, which is made if it is not there; ":memory:" forgets all at the end.

    Only one process may have a directory open at a time. `sync_write` syncs every write to the disk before it returns;
    without it, a power loss may cost the last second. `write_buffer` bounds the memory for rows not yet in data files.
    """
    return Connection(path, sync_write=sync_write, write_buffer=write_buffer)


class Connection:
    """An open database. To be closed, or used with `with`."""

    def __init__(self, path: str | Path = MEMORY, *, sync_write: bool = False, write_buffer: str = "256MB") -> None:
        self._lock = threading.Lock()
        self._session = Session(channel=Channel.EMBEDDED)
        self._frames: dict[str, pa.Table] = {}
        self._stack = ExitStack()
        try:
            self._local: LocalDatabase | None = self._open(path, sync_write=sync_write, write_buffer=write_buffer)
        except BaseException:
            self._stack.close()
            raise

    def _open(self, path: str | Path, *, sync_write: bool, write_buffer: str) -> LocalDatabase:
        if str(path) == MEMORY:
            scratch = Path(tempfile.mkdtemp(prefix="tsdb-"))
            self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            return open_memory(MemoryStore(), scratch / "wal", options=_options(scratch, sync_write, write_buffer))
        home = Path(path)
        self._stack.enter_context(DirectoryLock(home, key="the path"))
        return open_directory(home, options=_options(home, sync_write, write_buffer))

    def sql(self, text: str) -> Result:
        """Run one or more statements and return the answer to the last."""
        session = self._start_session()
        output: Result | None = None
        for each in self._database().execute(text, session, tables=dict(self._frames)):
            output = _result(each)
            self._keep(session)
        if output is None:
            raise InvalidArguments("there is no statement to run")
        return output

    def promql(
        self, query: str, start: float | datetime, end: float | datetime | None = None, step: float | str = 60
    ) -> Result:
        """Evaluate PromQL at each step from `start` to `end`, or at `start` alone; return the rows.

        Times are seconds since 1970 or datetimes, which without a zone are in UTC; a step is seconds or a text, `5m`.
        """
        first = _to_ms(start)
        span = Span(first, first if end is None else _to_ms(end), _step_ms(step))
        session = self._start_session()
        engine = self._database().promql
        return Result(rows_of(engine, query, engine.source(session), span), None)

    def write(
        self, table: str, data: Any, *, tags: Sequence[str] = (), time: str = "ts", database: str | None = None
    ) -> int:
        """Write rows into a table; it is created, or gets new columns, as the data needs. Returns the number of rows.

        `data` is a DataFrame of pandas or polars, a table of pyarrow or a list of dictionaries. `tags` name the columns
        that identify a series, `time` the column of timestamps; all others are fields.
        """
        frame = to_arrow(data, time=time)
        target = database or self._session.database
        return self._database().write(target, table, frame, tags=tuple(tags), time=time)

    def register(self, name: str, data: Any) -> None:
        """Let queries of this connection read a frame under a name, as if it were a table."""
        frame = to_arrow(data)
        with self._lock:
            self._frames[name] = frame

    def unregister(self, name: str) -> None:
        """Forget a registered frame."""
        with self._lock:
            if self._frames.pop(name, None) is None:
                raise InvalidArguments(f"no frame is registered as {name!r}")

    def flush(self, table: str) -> None:
        """Put the rows of a table that are in memory into data files."""
        self.sql(f"ADMIN flush_table('{table}')")

    def close(self) -> None:
        """Flush everything and let go of the directory; any number of times."""
        with self._lock:
            local, self._local = self._local, None
        if local is not None:
            local.close()
            self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _database(self) -> Database:
        local = self._local
        if local is None:
            raise ConnectionClosed("the connection is closed")
        return local.database

    def _start_session(self) -> Session:
        """A session for one call: what is set now, with statements and cursors that all calls share."""
        with self._lock:
            return replace(self._session, variables=dict(self._session.variables), warnings=[])

    def _keep(self, session: Session) -> None:
        """Let what a statement has chosen hold for the next call."""
        with self._lock:
            self._session.database = session.database
            self._session.time_zone = session.time_zone
            self._session.timeout = session.timeout
            self._session.variables.update(session.variables)


def _to_ms(moment: float | datetime) -> int:
    if isinstance(moment, datetime):
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1000)
    return round(moment * 1000)


def _step_ms(step: float | str) -> int:
    ms = parse_duration_ms(step) if isinstance(step, str) else round(step * 1000)
    if ms is None or ms <= 0:
        raise InvalidArguments(f"the step must be a duration greater than 0, received {step!r}")
    return ms


def _options(home: Path, sync_write: bool, write_buffer: str) -> LocalOptions:
    size = Size.parse(write_buffer)
    return LocalOptions(
        engine=EngineOptions(
            num_workers=2,
            max_background_jobs=2,
            global_write_buffer_size=size,
            global_write_buffer_reject_size=Size(size * 2),
        ),
        wal=WalOptions(sync_write=sync_write, ballast_bytes=Size(0)),
        query=QueryOptions(spill_dir=home / "spill"),
        database=DatabaseOptions(copy_root=home / "copy"),
        address="embedded",
    )


def _result(output: Output) -> Result:
    if isinstance(output, Affected):
        return Result(pa.table({}), output.rows)
    return Result(read_all(output), None)
