"""The server's side of a worker: opens the tables of its query, runs its scans, calls functions for it."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tsdb.errors import Cancelled, TsdbError
from tsdb.model import ViewInfo
from tsdb.processes.messages import Gone, receive_object, send_batch, send_end, send_object
from tsdb.query.planning import Job, ViewChain
from tsdb.query.session import Session
from tsdb.query.tables import NumbersFound, TableDataset, TableSource, system_key
from tsdb.query.workers._requests import (
    CallFunction,
    FileTable,
    FoundTable,
    Fragments,
    HasDatabase,
    InlineTable,
    NumbersTable,
    OpenTable,
    ScanFragment,
    StoredTable,
    ViewTable,
)

_numbers = itertools.count(1)
_NAMED_MAX = 16


class WorkerService:
    """Answers the requests of one worker, for one query after the other."""

    def __init__(self, calls: socket.socket, on_gone: Callable[[], None]) -> None:
        """`on_gone` is called when the worker has ended."""
        self._calls = calls
        self._on_gone = on_gone
        self.tables: QueryTables | None = None
        """Of the query that the worker runs now."""
        threading.Thread(target=self._serve, name="query-worker-calls", daemon=True).start()

    def _serve(self) -> None:
        with suppress(Gone), self._calls:
            while True:
                request, descriptors = receive_object(self._calls)
                try:
                    answer = self._answer(request, [socket.socket(fileno=each) for each in descriptors])
                except BaseException as error:  # noqa: BLE001 - the worker hears of it
                    send_end(self._calls, error)
                else:
                    send_object(self._calls, answer)
        self._on_gone()

    def _answer(self, request: Any, sockets: list[socket.socket]) -> Any:
        tables = self.tables
        try:
            if tables is None:
                raise Cancelled("the query is over")
            return tables.answer(request, sockets)
        except BaseException:
            for each in sockets:
                each.close()
            raise


class QueryTables:
    """The tables of one query."""

    def __init__(
        self,
        source: TableSource,
        job_of_view: Callable[[ViewInfo], Job],
        function: Callable[[str], Callable[..., pa.Array]],
    ) -> None:
        self._source = source
        self._job_of_view = job_of_view
        self._function = function
        self._datasets: dict[int, TableDataset] = {}
        self._fragments: dict[int, Sequence[Any]] = {}
        self._lock = threading.Lock()
        self._scans: set[socket.socket] = set()
        self._is_closed = False

    def answer(self, request: Any, sockets: list[socket.socket]) -> Any:
        """Answer a request of a worker; `sockets` came with it."""
        if isinstance(request, HasDatabase):
            return self._source.has_database(request.name)
        if isinstance(request, OpenTable):
            return self._open(request)
        if isinstance(request, Fragments):
            parts = list(self._datasets[request.table].get_fragments(filter=request.filter))
            number = next(_numbers)
            self._fragments[number] = parts
            return number, len(parts)
        if isinstance(request, CallFunction):
            return self._function(request.name)(*request.arguments)
        assert isinstance(request, ScanFragment)
        self._start_scan(request, *sockets)
        return None

    def open_named(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], FoundTable]:
        """Return tables that a query names; what cannot be opened fails when the query is planned."""
        found: dict[tuple[str, str], FoundTable] = {}
        for database, name in names[:_NAMED_MAX]:
            key = system_key(database, name)
            with suppress(TsdbError):
                table = None if key in found else self._open(OpenTable(*key))
                if table is not None:
                    found[key] = table
        return found

    def close(self) -> None:
        """End the scans that run."""
        with self._lock:
            self._is_closed = True
            scans = list(self._scans)
        for each in scans:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _open(self, request: OpenTable) -> FoundTable | None:
        found = self._source.find(request.database, request.name)
        if found is None:
            return None
        if isinstance(found, pa.Table):
            return InlineTable(found)
        if isinstance(found, ViewInfo):
            job = self._job_of_view(found)
            return ViewTable(travelling(job), job.tables)
        if isinstance(found, NumbersFound):
            return NumbersTable()
        if not isinstance(found, TableDataset):
            return FileTable(found)
        number = next(_numbers)
        self._datasets[number] = found
        return StoredTable(number, found.schema)

    def _start_scan(self, request: ScanFragment, connection: socket.socket) -> None:
        fragment = self._fragments[request.fragments][request.part]
        with self._lock:
            if self._is_closed:
                raise Cancelled("the query is over")
            self._scans.add(connection)
        arguments = (connection, fragment, request.columns, request.filter)
        threading.Thread(target=self._scan, args=arguments, name="query-worker-scan", daemon=True).start()

    def _scan(self, connection: socket.socket, fragment: Any, columns: Sequence[str] | None, filter: Any) -> None:
        """Send the rows of a part; the worker does not read them faster than it needs them."""
        with suppress(Gone), connection:
            try:
                for batch in fragment.scanner(columns=columns, filter=filter).to_batches():
                    send_batch(connection, batch)
            except Gone:
                raise
            except BaseException as error:  # noqa: BLE001 - the worker hears of it
                send_end(connection, error)
            else:
                send_end(connection)
        with self._lock:
            self._scans.discard(connection)


def travelling(job: Job) -> Job:
    """Return a query as a worker gets it: without what stays in the server, and free to read ahead."""
    return replace(job, session=_plain(job.session), tables={}, views=ViewChain(), is_single=True, handed=None)


def _plain(session: Session) -> Session:
    return Session(
        channel=session.channel,
        database=session.database,
        time_zone=session.time_zone,
        user=session.user,
        connection_id=session.connection_id,
        variables=dict(session.variables),
    )
