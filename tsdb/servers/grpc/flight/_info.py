"""GetFlightInfo, GetSchema, PollFlightInfo, ListFlights: the schema and the ticket of a query or a table.

A descriptor is a command of Flight SQL, or a path: a table, of the session's database unless the path names another.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pyarrow as pa

from tsdb.catalog import TableNotFound
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.query import Session
from tsdb.servers.grpc._calls import GrpcCall, parse_message
from tsdb.servers.grpc._context import GrpcContext
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._catalog import FlightCatalog, find_listing
from tsdb.servers.grpc.flight._commands import parse_command, refuse_transaction, table_of_path
from tsdb.servers.grpc.flight._flow import send_all
from tsdb.servers.grpc.flight._prepared import FlightStatement, FlightStatements
from tsdb.servers.grpc.flight._run import begin, begin_prepared, describe, describe_prepared
from tsdb.servers.grpc.flight.flight_pb2 import (
    Criteria,
    FlightDescriptor,
    FlightEndpoint,
    FlightInfo,
    PollInfo,
    SchemaResult,
    Ticket,
)
from tsdb.sql.template import quoted_name

PATTERN_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class _FlightAnswer:
    """The schema and ticket of a descriptor."""

    schema: pa.Schema
    ticket: bytes
    rows: int = -1


class Info:
    """Answers the calls that describe queries and tables."""

    def __init__(self, context: GrpcContext, prepared: FlightStatements) -> None:
        self._context = context
        self._database = context.database
        self._prepared = prepared

    async def flight_info(self, raw: bytes, call: GrpcCall) -> bytes:
        return (await self._find_info(raw, call)).SerializeToString()

    async def poll_info(self, raw: bytes, call: GrpcCall) -> bytes:
        """Everything is ready when it is found: nothing is left to poll for."""
        return PollInfo(info=await self._find_info(raw, call), progress=1.0).SerializeToString()

    async def schema(self, raw: bytes, call: GrpcCall) -> bytes:
        descriptor = parse_message(FlightDescriptor, raw)
        session = await self._context.sessions.open(call)
        prepared = self._find_prepared(descriptor, session)
        schema = await self._context.queries.run(
            lambda: self._describe(descriptor, prepared, session),
            cancel=lambda: self._database.cancel(session),
            seconds_max=call.seconds_left,
        )
        return SchemaResult(schema=schema.serialize().to_pybytes()).SerializeToString()

    async def list_flights(self, call: GrpcCall) -> None:
        criteria = parse_message(Criteria, await call.receive_one())
        session = await self._context.sessions.open(call)
        pattern = _read_pattern(criteria.expression)
        pieces = self._list(pattern, session)
        await send_all(call, self._context.queries, pieces, cancel=lambda: self._database.cancel(session))

    async def _find_info(self, raw: bytes, call: GrpcCall) -> FlightInfo:
        descriptor = parse_message(FlightDescriptor, raw)
        session = await self._context.sessions.open(call)
        prepared = self._find_prepared(descriptor, session)
        found = await self._context.queries.run(
            lambda: self._find(descriptor, prepared, session),
            cancel=lambda: self._database.cancel(session),
            seconds_max=call.seconds_left,
        )
        return _make_info(descriptor, found)

    def _find_prepared(self, descriptor: FlightDescriptor, session: Session) -> FlightStatement | None:
        """The prepared statement that a descriptor names; its session is the one it was prepared in."""
        if descriptor.type != FlightDescriptor.CMD:
            return None
        command = parse_command(descriptor.cmd)
        if not isinstance(command, sql.CommandPreparedStatementQuery):
            return None
        found = self._prepared.find(command.prepared_statement_handle, session)
        session.database, session.time_zone = found.database, found.time_zone
        return found

    # What follows runs on threads.

    def _find(self, descriptor: FlightDescriptor, prepared: FlightStatement | None, session: Session) -> _FlightAnswer:
        if descriptor.type == FlightDescriptor.PATH:
            name = ".".join(quoted_name(part) for part in table_of_path(descriptor))
            answer = begin(f"SELECT * FROM {name}", self._database, session)
            return _FlightAnswer(answer.schema, answer.ticket.encode(), answer.rows)
        if prepared is not None:
            answer = begin_prepared(prepared, self._database, session)
            return _FlightAnswer(answer.schema, answer.ticket.encode(), answer.rows)
        command = parse_command(_command_bytes(descriptor))
        refuse_transaction(command)
        if isinstance(command, sql.CommandStatementQuery):
            answer = begin(command.query, self._database, session)
            return _FlightAnswer(answer.schema, answer.ticket.encode(), answer.rows)
        listing = find_listing(command, self._database, session, version=self._context.version)
        if listing is None:
            raise InvalidArguments(f"{command.DESCRIPTOR.name} returns no rows", hint="send it by DoPut or DoAction")
        return _FlightAnswer(listing.schema, descriptor.cmd)

    def _describe(self, descriptor: FlightDescriptor, prepared: FlightStatement | None, session: Session) -> pa.Schema:
        """Return the columns that a descriptor leads to; nothing is run."""
        if descriptor.type == FlightDescriptor.PATH:
            return self._table_schema(table_of_path(descriptor), session)
        if prepared is not None:
            return describe_prepared(prepared.template, self._database, session) or pa.schema([])
        command = parse_command(_command_bytes(descriptor))
        refuse_transaction(command)
        if isinstance(command, sql.CommandStatementQuery):
            return describe(command.query, self._database, session)
        listing = find_listing(command, self._database, session, version=self._context.version)
        if listing is None:
            raise InvalidArguments(f"{command.DESCRIPTOR.name} returns no rows")
        return listing.schema

    def _table_schema(self, parts: tuple[str, ...], session: Session) -> pa.Schema:
        schema = FlightCatalog(self._database, session).schema_of(*parts)
        if schema is None:
            raise TableNotFound(session.database, parts[-1])
        return schema

    def _list(self, pattern: str | None, session: Session) -> Generator[bytes, None, None]:
        for name in FlightCatalog(self._database, session).of_database(pattern):
            descriptor = FlightDescriptor(type=FlightDescriptor.PATH, path=[session.database, name])
            try:
                found = self._find(descriptor, None, session)
            except TsdbError:  # dropped meanwhile, or a view of something that was
                continue
            yield _make_info(descriptor, found).SerializeToString()


def _command_bytes(descriptor: FlightDescriptor) -> bytes:
    if descriptor.type != FlightDescriptor.CMD:
        raise InvalidArguments("a descriptor is a path or a command")
    return descriptor.cmd


def _make_info(descriptor: FlightDescriptor, found: _FlightAnswer) -> FlightInfo:
    return FlightInfo(
        schema=found.schema.serialize().to_pybytes(),
        flight_descriptor=descriptor,
        endpoint=[FlightEndpoint(ticket=Ticket(ticket=found.ticket))],
        total_records=found.rows,
        total_bytes=-1,
    )


def _read_pattern(expression: bytes) -> str | None:
    if not expression:
        return None
    if len(expression) > PATTERN_BYTES_MAX:
        raise InvalidArguments(f"the criteria have at most {PATTERN_BYTES_MAX} bytes")
    try:
        return expression.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArguments("the criteria are a pattern of LIKE for names of tables, in UTF-8") from None
