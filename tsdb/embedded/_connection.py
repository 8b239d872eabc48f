"""A connection to a database in this process.

It may be used from several threads at once. `USE` and `SET` hold for the whole connection, from the next statement on.

A connection that is still open when the program ends is closed by `atexit`, after all threads of the program that are
not daemons: threads in native code would crash an interpreter that finalises. Calls of daemon threads are waited for.
Rows that are not in data files yet stay in the log: a flush needs new threads, which the interpreter does not start.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time as clock
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import pyarrow as pa

from tsdb.auth import Identity
from tsdb.backup import DestinationPlaces
from tsdb.components import (
    SCRATCH_DIRECTORY,
    LocalDatabase,
    LocalOptions,
    ScratchDatabases,
    open_directory,
    open_memory,
    open_read_only,
)
from tsdb.database import Affected, Channel, Database, DatabaseOptions, Output, Session, read_all
from tsdb.embedded._frames import to_arrow
from tsdb.embedded._parameters import Parameters, bind
from tsdb.embedded._result import Result
from tsdb.embedded._sources import Paths, caller_frames, read_files, with_files
from tsdb.engine import EngineOptions, WalSettings
from tsdb.errors import InvalidArguments, Status, TsdbError
from tsdb.model import parse_timestamp, zone_of
from tsdb.promql import parse_duration_ms
from tsdb.query import QueryEngineOptions
from tsdb.query.promql import QueryTimes, rows_of
from tsdb.store import DirectoryLock, MemoryStore
from tsdb.units import Size

MEMORY = ":memory:"
EXIT_SECONDS_MAX = 5
"""How long the end of a program waits for calls of daemon threads."""
READER = Identity("reader of a read-only database", can_write=False)

Moment = float | datetime | str


class ConnectionClosed(TsdbError):
    """The connection is closed and takes no more calls."""

    status = Status.ILLEGAL_STATE


def connect(
    path: str | Path = MEMORY, *, read_only: bool = False, sync_write: bool = False, write_buffer: str = "256MB"
) -> Connection:
    """Open the database of a directory, which is created if it does not exist; ":memory:" keeps nothing.

    One process at a time may have a directory open, or any number of processes with `read_only`. `sync_write` syncs
    every write to the disk before it returns; without it, a power loss may cost the last second. `write_buffer` bounds
    the memory for rows that are not in data files yet.
    """
    return Connection(path, read_only=read_only, sync_write=sync_write, write_buffer=write_buffer)


class Connection:
    """An open database. To be closed, or used with `with`."""

    def __init__(
        self,
        path: str | Path = MEMORY,
        *,
        read_only: bool = False,
        sync_write: bool = False,
        write_buffer: str = "256MB",
    ) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._call_ended = threading.Condition(self._lock)
        self._session = Session(channel=Channel.EMBEDDED, identity=READER if read_only else None)
        self._frames: dict[str, pa.Table] = {}
        self._stack = ExitStack()
        try:
            self._local: LocalDatabase | None = self._open(
                path,
                is_read_only=read_only,
                options=partial(_options, sync_write=sync_write, write_buffer=write_buffer),
            )
        except BaseException:
            self._stack.close()
            raise
        self._process_id = os.getpid()
        atexit.register(self._close_at_exit)

    def _open(self, path: str | Path, *, is_read_only: bool, options: Callable[[Path], LocalOptions]) -> LocalDatabase:
        if str(path) == MEMORY:
            if is_read_only:
                raise InvalidArguments("a database in memory cannot be opened read-only: it is empty")
            scratch = self._scratch()
            return open_memory(MemoryStore(), scratch / "wal", options=options(scratch))
        home = Path(path).expanduser()
        self._stack.enter_context(DirectoryLock(home, key="the path", is_shared=is_read_only))
        if is_read_only:
            scratch = self._scratch()
            return open_read_only(home, scratch, options=options(scratch))
        return open_directory(home, options=options(home))

    def _scratch(self) -> Path:
        scratch = Path(tempfile.mkdtemp(prefix="tsdb-"))
        self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        return scratch

    def sql(self, text: str, params: Parameters | None = None) -> Result:
        """Run one or more statements and return the result of the last.

        `params` are the values of placeholders: a sequence for `?` and `$1`, a mapping for `$name`. A query may name
        registered frames, variables of the caller that hold frames (pandas, polars, pyarrow, other results), and
        files: `FROM 'cpu.parquet'`, `FROM read_csv('cpu-*.csv')`.
        """
        session = self._start_session()
        bound = bind(text, params)
        statements, files = with_files(bound.text)
        tables = {**self._caller_frames(statements, session, sys._getframe(1)), **self._frames, **bound.tables, **files}
        output: Result | None = None
        with self._calling() as database:
            for each in database.execute(statements, session, tables=tables):
                output = _result(each)
                self._keep(session)
        if output is None:
            raise InvalidArguments("there is no statement to run")
        return output

    execute = sql

    def _caller_frames(self, text: str, session: Session, caller: FrameType) -> dict[str, pa.Table]:
        database = self._database()

        def is_known(name: str) -> bool:
            return name in self._frames or database.has_table(name, session)

        return caller_frames(text, caller, is_known)

    def read_parquet(self, paths: Paths) -> Result:
        """Read Parquet files: a path, a pattern such as `data/*.parquet`, or a list of them."""
        return Result(read_files(paths, "parquet"), None)

    def read_csv(self, paths: Paths) -> Result:
        """Read CSV files with a header; types are found in the values."""
        return Result(read_files(paths, "csv"), None)

    def read_json(self, paths: Paths) -> Result:
        """Read files with one JSON object per line."""
        return Result(read_files(paths, "json"), None)

    def promql(
        self, query: str, start: Moment | None = None, end: Moment | None = None, step: float | str = 60
    ) -> Result:
        """Evaluate PromQL at each step from `start` to `end`, or at `start` alone (default: now); return the rows.

        Times are seconds since 1970, datetimes or texts such as `2024-01-01 12:00`; without a zone they are in the zone
        of the connection (default UTC). A step is a number of seconds or a text, `5m`.
        """
        session = self._start_session()
        first = _to_ms(clock.time() if start is None else start, session.time_zone)
        span = QueryTimes(first, first if end is None else _to_ms(end, session.time_zone), _step_ms(step))
        with self._calling() as database:
            return Result(rows_of(database.promql, query, database.promql.source(session), span), None)

    def write(
        self, table: str, data: Any, *, tags: str | Sequence[str] = (), time: str = "ts", database: str | None = None
    ) -> int:
        """Write rows into a table; it is created, or gets new columns, as the data needs. Returns the number of rows.

        `data` is a DataFrame of pandas or polars, a pyarrow table, a list of dictionaries or a result. `tags` name the
        columns that identify a series, `time` the column of timestamps; all others are fields.
        """
        frame = to_arrow(data, time=time)
        session = self._start_session()
        names = (tags,) if isinstance(tags, str) else tuple(tags)
        with self._calling() as opened:
            return opened.write(database or session.database, table, frame, session, tags=names, time=time)

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
        """Write the rows of a table that are in memory to data files."""
        self.sql("ADMIN flush_table('" + table.replace("'", "''") + "')")

    def close(self) -> None:
        """Flush everything and unlock the directory; any number of times."""
        atexit.unregister(self._close_at_exit)
        with self._lock:
            local, self._local = self._local, None
        if local is not None:
            local.close()
            self._stack.close()

    def _close_at_exit(self) -> None:
        """Stop all threads and leave unflushed rows to the log; a forked process leaves both to its parent."""
        if self._local is not None and self._process_id == os.getpid():
            self._local.flushes_at_close = False
            self.close()
            with self._lock:
                self._call_ended.wait_for(lambda: not self._calls, EXIT_SECONDS_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _calling(self) -> Iterator[Database]:
        """Count a call while it runs."""
        with self._lock:
            self._calls += 1
        try:
            yield self._database()
        finally:
            with self._lock:
                self._calls -= 1
                self._call_ended.notify_all()

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


def _to_ms(moment: Moment, zone: str) -> int:
    if isinstance(moment, str):
        return parse_timestamp(moment, zone) // 1_000_000
    if isinstance(moment, datetime):
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone_of(zone))
        return round(zoned.timestamp() * 1000)
    return round(moment * 1000)


def _step_ms(step: float | str) -> int:
    ms = parse_duration_ms(step) if isinstance(step, str) else round(step * 1000)
    if ms is None or ms <= 0:
        raise InvalidArguments(f"the step must be a duration greater than 0, received {step!r}")
    return ms


def _options(home: Path, *, sync_write: bool, write_buffer: str) -> LocalOptions:
    size = Size.parse(write_buffer)
    return LocalOptions(
        engine=EngineOptions(
            num_workers=2,
            max_background_jobs=2,
            global_write_buffer_size=size,
            global_write_buffer_reject_size=Size(size * 2),
        ),
        wal=WalSettings(sync_write=sync_write, ballast_bytes=Size(0)),
        query=QueryEngineOptions(spill_dir=home / "spill"),
        database=DatabaseOptions(copy_root=home / "copy"),
        backups=DestinationPlaces(home, [], allows_directories=True),
        scratch=ScratchDatabases(home / SCRATCH_DIRECTORY).open,
        address="embedded",
    )


def _result(output: Output) -> Result:
    if isinstance(output, Affected):
        return Result(pa.table({}), output.rows)
    return Result(read_all(output), None)
