"""DoGet: the rows of a ticket as a stream of record batches.

    TicketStatementQuery, CommandGet…    Flight SQL, in an Any
    GreptimeRequest                      SQL or PromQL from SDKs of `greptime.v1`; credentials may be inside
    {"sql_query": …}                     SQL from clients of InfluxDB 3

A stream begins with its schema. The answer to a GreptimeRequest without rows is a single message, of no kind that Arrow
knows, with the number of rows; its batches are compressed with LZ4, unless the call says otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.query import Affected, Session
from tsdb.servers.grpc._calls import GrpcCall, parse_message
from tsdb.servers.grpc._context import GrpcContext
from tsdb.servers.grpc._database import DatabaseService
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._catalog import find_listing
from tsdb.servers.grpc.flight._codec import Compression, encode_stream
from tsdb.servers.grpc.flight._commands import find_command
from tsdb.servers.grpc.flight._flow import send_all
from tsdb.servers.grpc.flight._run import parse_one, read_ticket
from tsdb.servers.grpc.flight._running import Running
from tsdb.servers.grpc.flight._tickets import InfluxTicket, StatementTicket
from tsdb.servers.grpc.flight._wire import encode_flight_data
from tsdb.servers.grpc.flight.flight_pb2 import Ticket
from tsdb.servers.grpc.proto import greptime_pb2 as v1
from tsdb.servers.grpc.proto.envelope_pb2 import Envelope
from tsdb.sql.template import quoted

_COMPRESSIONS: dict[str, Compression | None] = {"lz4": "lz4", "zstd": "zstd", "none": None}

# A message of Arrow's version 5 without content: a root, a table of one field, and its value.
_NO_HEADER = struct.pack("<IHHHHiHHI", 12, 0, 6, 8, 4, 6, 4, 0, 0)


class Get:
    """Answers DoGet."""

    def __init__(self, context: GrpcContext, running: Running) -> None:
        self._context = context
        self._running = running
        self._greptime = DatabaseService(context)

    async def serve(self, call: GrpcCall) -> None:
        """Answer one call."""
        ticket = parse_message(Ticket, await call.receive_one()).ticket
        command = find_command(ticket)
        if command is None:
            await self._serve_other(ticket, call)
            return
        session = await self._context.sessions.open(call)
        compression = _read_compression(call, None)
        if isinstance(command, sql.TicketStatementQuery):
            await self._serve_statement(StatementTicket.parse(command.statement_handle), call, session, compression)
            return
        listing = find_listing(command, self._context.database, session, version=self._context.version)
        if listing is None:
            raise InvalidArguments(f"{command.DESCRIPTOR.name} is not a ticket", hint="ask GetFlightInfo for one")
        await self._send(call, encode_stream(listing.schema, listing.batches(), compression), session)

    async def _serve_statement(
        self, ticket: StatementTicket, call: GrpcCall, session: Session, compression: Compression | None
    ) -> None:
        session = replace(
            session,
            database=ticket.database or session.database,
            time_zone=ticket.time_zone or session.time_zone,
        )
        pieces = read_ticket(ticket, self._context.database, session, compression)
        with self._running.entered(ticket.id, session):
            await self._send(call, pieces, session)

    async def _serve_other(self, ticket: bytes, call: GrpcCall) -> None:
        request = InfluxTicket.parse(ticket)
        if request is None:
            await self._serve_greptime(ticket, call)
            return
        session = await self._context.sessions.open(call)
        session = replace(session, database=request.database or session.database)
        await self._send(call, self._run(request.text, session, _read_compression(call, None)), session)

    async def _serve_greptime(self, raw: bytes, call: GrpcCall) -> None:
        try:
            envelope = parse_message(Envelope, raw)
        except InvalidArguments:
            raise InvalidArguments(
                "the ticket is neither one of this server nor a GreptimeRequest", hint="ask GetFlightInfo for one"
            ) from None
        if envelope.WhichOneof("request") != "query":
            answer = v1.GreptimeResponse.FromString(await self._greptime.handle(raw, call))
            await call.send(encode_affected(answer.affected_rows.value))
            return
        session = await self._context.sessions.open(call, envelope.header)
        text = query_text(parse_message(v1.QueryRequest, envelope.query))
        await self._send(call, self._run(text, session, _read_compression(call, "lz4")), session)

    def _run(self, text: str, session: Session, compression: Compression | None) -> Generator[bytes, None, None]:
        output = self._context.database.run_parsed(parse_one(text, session), session)
        if isinstance(output, Affected):
            yield encode_affected(output.rows)
            return
        with closing(output):
            yield from encode_stream(output.schema, output, compression)

    async def _send(self, call: GrpcCall, pieces: Generator[bytes, None, None], session: Session) -> None:
        await send_all(call, self._context.queries, pieces, cancel=lambda: self._context.database.cancel(session))


def query_text(query: v1.QueryRequest) -> str:
    """Return the statement that a query of `greptime.v1` is."""
    kind = query.WhichOneof("query")
    if kind == "sql":
        return query.sql
    if kind == "prom_range_query":
        request = query.prom_range_query
        arguments = [request.start, request.end, request.step, *([request.lookback] if request.lookback else [])]
        return f"TQL EVAL ({', '.join(quoted(each) for each in arguments)}) {request.query}"
    if kind is None:
        raise InvalidArguments("the request has no query")
    raise Unsupported(f"{kind} is not supported", hint="send SQL")


def encode_affected(rows: int) -> bytes:
    """The message that answers a statement without rows."""
    said = v1.FlightMetadata(affected_rows=v1.AffectedRows(value=min(rows, (1 << 32) - 1)))
    return encode_flight_data([_NO_HEADER], metadata=said.SerializeToString())


def _read_compression(call: GrpcCall, default: Compression | None) -> Compression | None:
    wanted = call.find("flight-compression")
    if wanted is None:
        return default
    if wanted.lower() not in _COMPRESSIONS:
        raise InvalidArguments(f"there is no compression {wanted[:40]!r}", hint="lz4, zstd or none")
    return _COMPRESSIONS[wanted.lower()]
