"""`greptime.v1.GreptimeDatabase`: SDKs write, delete, define tables, and run statements without rows.

Only the header of a request is parsed before authentication; the rest runs on a thread. All tables of a request are
checked before any is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.ingest import IngestRejected, NewTable, TableRows
from tsdb.query import Affected, Session
from tsdb.servers.grpc._calls import GrpcCall, Rpc, RpcService, parse_message, streaming_unary_rpc, unary_rpc
from tsdb.servers.grpc._context import GrpcContext
from tsdb.servers.grpc._ddl import ddl_statement
from tsdb.servers.grpc._hints import read_hints
from tsdb.servers.grpc._rows import check_table, make_keys, make_rows, time_column
from tsdb.servers.grpc._tables import tables_of_deletes, tables_of_inserts, tables_of_rows
from tsdb.servers.grpc._types import GivenTable
from tsdb.servers.grpc.proto import greptime_pb2 as v1
from tsdb.servers.grpc.proto.envelope_pb2 import Envelope
from tsdb.telemetry import continue_trace, entered, is_tracing

SERVICE = "greptime.v1.GreptimeDatabase"
PROTOCOL = "grpc"
"""The protocol in metrics and in the log of rejected rows."""
LARGE_BYTES = 1 << 20
"""Larger messages are not even copied on the event loop."""
ROWS_MAX = (1 << 32) - 1
"""The largest row count that a response can hold."""

_Hints = dict[str, str]


class DatabaseService:
    """Answers the calls of the service."""

    def __init__(self, context: GrpcContext) -> None:
        self._context = context
        self._database = context.database

    async def handle(self, raw: bytes, call: GrpcCall) -> bytes:
        """Answer one request."""
        return encode_affected(await self._answer(raw, call))

    async def handle_requests(self, call: GrpcCall) -> bytes:
        """Answer a stream of requests with the rows of all; the first that fails ends it."""
        rows = 0
        while (raw := await call.receive()) is not None:
            rows += await self._answer(raw, call)
        return encode_affected(rows)

    async def _answer(self, raw: bytes, call: GrpcCall) -> int:
        if len(raw) > LARGE_BYTES:
            envelope = await self._context.writes.run(lambda: parse_message(Envelope, raw))
        else:
            envelope = parse_message(Envelope, raw)
        with _continued(envelope.header, call):
            return await self._run(envelope, call)

    async def _run(self, envelope: Envelope, call: GrpcCall) -> int:
        session = await self._context.sessions.open(call, envelope.header)
        kind = envelope.WhichOneof("request")
        if kind is None:
            raise InvalidArguments("the request contains nothing that this server supports")
        body, hints = getattr(envelope, kind), read_hints(call)
        run = self._actions[kind]
        pool = self._context.queries if kind == "query" else self._context.writes
        return await pool.run(
            lambda: run(self, body, session, hints),
            cancel=lambda: self._database.cancel(session),
            seconds_max=call.seconds_left,
        )

    # What follows runs on threads.

    def _insert_rows(self, body: bytes, session: Session, hints: _Hints) -> int:
        return self._insert(tables_of_rows(body), session, hints)

    def _insert_columns(self, body: bytes, session: Session, hints: _Hints) -> int:
        return self._insert(tables_of_inserts(body), session, hints)

    def _delete_rows(self, body: bytes, session: Session, hints: _Hints) -> int:
        return self._delete(tables_of_rows(body), session)

    def _delete_columns(self, body: bytes, session: Session, hints: _Hints) -> int:
        return self._delete(tables_of_deletes(body), session)

    def _insert(self, tables: Sequence[GivenTable], session: Session, hints: _Hints) -> int:
        groups = group_tables(tables, hints)
        if len(groups) > 1:
            self._check_all(groups, session, hints)
        return sum(
            self._database.ingest(rows, session, new_table, hints=hints, protocol=PROTOCOL).rows
            for new_table, rows in groups
        )

    def _check_all(self, groups: Sequence[tuple[NewTable, list[TableRows]]], session: Session, hints: _Hints) -> None:
        """Refuse all tables if one does not fit: those that look alike are written together, the others are not."""
        for new_table, rows in groups:
            outcome = self._database.ingest(rows, session, new_table, hints=hints, protocol=PROTOCOL, dry_run=True)
            if outcome.rejections:
                self._database.reject(outcome.rejections, session, protocol=PROTOCOL)
                raise IngestRejected(outcome.rejections)

    def _delete(self, tables: Sequence[GivenTable], session: Session) -> int:
        for table in tables:
            check_table(table)
        keys = [(table, make_keys(table)) for table in tables if table.rows]
        return sum(
            self._database.delete_rows(table.name, each, time_column(table).name, session) for table, each in keys
        )

    def _define(self, body: bytes, session: Session, hints: _Hints) -> int:
        output = self._database.run_parsed(ddl_statement(parse_message(v1.DdlRequest, body)), session)
        return output.rows if isinstance(output, Affected) else 0

    def _run_query(self, body: bytes, session: Session, hints: _Hints) -> int:
        request = parse_message(v1.QueryRequest, body)
        kind = request.WhichOneof("query")
        if kind == "sql":
            return self._run_sql(request.sql, session)
        if kind == "prom_range_query":
            raise _has_rows()
        if kind is None:
            raise InvalidArguments("the request has no query")
        raise Unsupported(f"{kind} is not supported", hint="send SQL")

    def _run_sql(self, text: str, session: Session) -> int:
        rows = 0
        for output in self._database.execute(text, session):
            if not isinstance(output, Affected):
                output.close()
                raise _has_rows()
            rows += output.rows
        return rows

    _actions: ClassVar[dict[str, Callable[[DatabaseService, bytes, Session, _Hints], int]]] = {
        "inserts": _insert_columns,
        "query": _run_query,
        "ddl": _define,
        "deletes": _delete_columns,
        "row_inserts": _insert_rows,
        "row_deletes": _delete_rows,
    }


def _continued(header: v1.RequestHeader, call: GrpcCall) -> AbstractContextManager[object]:
    """Continue the trace that a request has in its header rather than in the metadata of the call."""
    if not is_tracing() or "traceparent" not in header.tracing_context:
        return entered(None)
    return entered(continue_trace(call.method, header.tracing_context["traceparent"], protocol="grpc"))


def database_services(context: GrpcContext) -> list[RpcService]:
    service = DatabaseService(context)
    methods: dict[str, Rpc] = {
        "Handle": unary_rpc(service.handle),
        "HandleRequests": streaming_unary_rpc(service.handle_requests),
    }
    return [RpcService(SERVICE, methods)]


def group_tables(tables: Sequence[GivenTable], hints: _Hints) -> list[tuple[NewTable, list[TableRows]]]:
    """Return rows by what a new table for them looks like: tables may call their times differently."""
    groups: dict[tuple[str, str], list[TableRows]] = {}
    for table in tables:
        check_table(table)
        if table.rows:
            rows = make_rows(table)
            groups.setdefault((time_column(table).name, rows.unit), []).append(rows)
    return [(_new_table(name, unit, hints), rows) for (name, unit), rows in groups.items()]


def _new_table(time_column: str, time_unit: str, hints: _Hints) -> NewTable:
    physical = hints.get("physical_table")
    if physical:
        return NewTable(time_unit="ms", single_value=True, is_metric=True, physical_table=physical)
    return NewTable(time_column=time_column, time_unit=time_unit)


def _has_rows() -> Unsupported:
    return Unsupported("this call returns a number of rows, not rows", hint="use Arrow Flight: DoGet")


def encode_affected(rows: int) -> bytes:
    """The answer to a request that has changed this many rows."""
    answer = v1.GreptimeResponse(affected_rows=v1.AffectedRows(value=min(rows, ROWS_MAX)))
    answer.header.status.status_code = 0
    return answer.SerializeToString()
