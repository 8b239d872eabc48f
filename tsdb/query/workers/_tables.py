"""The tables of a query as its worker sees them: names are looked up, and rows read, by asking the server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from datafusion import DataFrame
from datafusion.catalog import Table

from tsdb.errors import InvalidArguments
from tsdb.processes.messages import MessageKind, opened, read_batch, receive, receive_object, send_object
from tsdb.query.functions import Function
from tsdb.query.lifetime import QueryLife, in_thread
from tsdb.query.planning import Job
from tsdb.query.tables import NUMBERS_ROWS, TableLookup, memory_table, numbers_table
from tsdb.query.workers._requests import (
    CallFunction,
    FileTable,
    FoundTable,
    Fragments,
    HasDatabase,
    InlineTable,
    OpenTable,
    ScanFragment,
    StoredTable,
    ViewTable,
)


class Server:
    """The server's side of a worker's requests; safe to use from several threads."""

    def __init__(self, calls: socket.socket) -> None:
        self._calls = calls
        self._lock = threading.Lock()

    def ask(self, request: Any, descriptors: Sequence[int] = ()) -> Any:
        with self._lock:
            send_object(self._calls, request, descriptors)
            return receive_object(self._calls)[0]

    def function(self, signature: Function) -> Any:
        """Return a function whose body runs in the server."""
        name = signature.name

        def call(*arguments: pa.Array) -> pa.Array:
            return self.ask(CallFunction(name, arguments))

        return Function(name, signature.arguments, signature.result, call, signature.volatility).make()


class RemoteSource(TableLookup):
    """Where one query finds its tables."""

    def __init__(
        self,
        server: Server,
        life: QueryLife,
        plan_view: Callable[[Job, RemoteSource, QueryLife], DataFrame],
        known: Mapping[tuple[str, str], FoundTable],
    ) -> None:
        """`known` are tables that the server has opened already."""
        super().__init__(NUMBERS_ROWS)
        self._known = known
        self._databases = {database for database, _ in known}
        self._server = server
        self._life = life
        self._plan_view = plan_view
        self._views_open: list[tuple[str, str]] = []

    def has_database(self, name: str) -> bool:
        return name in self._databases or bool(self._server.ask(HasDatabase(name)))

    def _open(self, database: str, name: str) -> Table | None:
        key = database, name
        found: FoundTable | None = self._known[key] if key in self._known else self._server.ask(OpenTable(*key))
        if found is None:
            return None
        if isinstance(found, StoredTable):
            return Table(RemoteDataset(self._server, found.table, found.schema))
        if isinstance(found, InlineTable):
            return in_thread(lambda: memory_table(found.rows))
        if isinstance(found, FileTable):
            return Table(found.dataset)
        if isinstance(found, ViewTable):
            return self._open_view(key, found)
        return numbers_table(self._numbers_rows, self._life)

    def _open_view(self, key: tuple[str, str], view: ViewTable) -> Table:
        if key in self._views_open:
            raise InvalidArguments("the view reads itself", view=".".join(key))
        for name, rows in view.tables.items():
            self.add(key[0], name, rows)
        self._views_open.append(key)
        try:
            return in_thread(lambda: Table(self._plan_view(view.job, self, self._life)))
        finally:
            self._views_open.pop()


class RemoteDataset(ds.Dataset):  # type: ignore[misc]
    """The rows of a table, read by the server."""

    def __init__(self, server: Server, table: int, schema: pa.Schema) -> None:
        self._server = server
        self._table = table
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, **_: Any) -> RemoteScanner:
        """Return a scanner of which DataFusion wants to know the schema alone."""
        return RemoteScanner(self._server, None, self._schema, columns, None)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[RemoteFragment]:
        number, parts = self._server.ask(Fragments(self._table, filter))
        return iter([RemoteFragment(self._server, (number, part), self._schema) for part in range(parts)])


class RemoteFragment:
    """What one thread reads of a table."""

    def __init__(self, server: Server, place: tuple[int, int], schema: pa.Schema) -> None:
        self._server = server
        self._place = place
        self.physical_schema = schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> RemoteScanner:
        return RemoteScanner(self._server, self._place, self.physical_schema, columns, filter)


class RemoteScanner:
    """What DataFusion needs of a scanner."""

    def __init__(
        self,
        server: Server,
        place: tuple[int, int] | None,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        filter: Any,
    ) -> None:
        self._server = server
        self._place = place
        self._columns = None if columns is None else tuple(columns)
        self._filter = filter
        names = schema.names if columns is None else list(columns)
        self.projected_schema = pa.schema([schema.field(name) for name in names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        assert self._place is not None, "rows are read by fragment"
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._server.ask(ScanFragment(*self._place, self._columns, self._filter), [theirs.fileno()])
            while True:
                kind, body = receive(ours)
                if kind is not MessageKind.BATCH:
                    opened(kind, body)
                    return
                yield read_batch(body, self.projected_schema)
