"""DoPut: record batches from a client.

    path: a table                       bulk: batches into a table that exists; an answer for each that has a number
    CommandStatementUpdate              a statement without rows
    CommandPreparedStatementUpdate      a prepared one, for each row of values
    CommandPreparedStatementQuery       values, kept for the next execution
    CommandStatementIngest              batches into a table that may be created for them

Batches are decoded and written on threads, one at a time, while the next one is received. A batch is written as a
whole; a rejected one ends the call, and the batches before it stay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from time import perf_counter
from typing import TypeAlias

import orjson
import pyarrow as pa

from tsdb.errors import InvalidArguments
from tsdb.query import Session
from tsdb.servers.grpc._calls import GrpcCall
from tsdb.servers.grpc._context import GrpcContext
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._codec import StreamDecoder
from tsdb.servers.grpc.flight._commands import parse_command, parse_descriptor, refuse_transaction, table_of_path
from tsdb.servers.grpc.flight._flow import ahead
from tsdb.servers.grpc.flight._ingest import IngestTarget, plan_ingest
from tsdb.servers.grpc.flight._prepared import BOUND_BYTES_MAX, FlightStatement, FlightStatements, check_width
from tsdb.servers.grpc.flight._run import run_update, update
from tsdb.servers.grpc.flight._wire import FlightMessage, MalformedMessage, parse_flight_data
from tsdb.servers.grpc.flight.flight_pb2 import FlightDescriptor, PutResult

_Work: TypeAlias = Callable[[], int]

PROTOCOL = "flight"
"""The protocol in metrics."""
METADATA_BYTES_MAX = 4096


class DoPut:
    """Answers DoPut."""

    def __init__(self, context: GrpcContext, prepared: FlightStatements) -> None:
        self._context = context
        self._database = context.database
        self._prepared = prepared

    async def serve(self, call: GrpcCall) -> None:
        """Answer one call."""
        session = await self._context.sessions.open(call)
        # Some clients send nothing until they know that they are welcome.
        await call.context.send_initial_metadata(())
        first = parse_flight_data(await call.receive_one())
        descriptor = parse_descriptor(bytes(first.descriptor))
        if descriptor.type == FlightDescriptor.PATH:
            await self._bulk(table_of_path(descriptor), first, call, session)
            return
        if descriptor.type != FlightDescriptor.CMD:
            raise InvalidArguments("the first message says by its descriptor, a path or a command, what it is about")
        command = parse_command(descriptor.cmd)
        refuse_transaction(command)
        if isinstance(command, sql.CommandStatementUpdate):
            text = command.query
            rows = await self._run(lambda: run_update(text, self._database, session), session)
        elif isinstance(command, sql.CommandPreparedStatementUpdate):
            prepared = self._prepared.find(command.prepared_statement_handle, session)
            rows = await self._update(prepared, first, call, _as_prepared(session, prepared))
        elif isinstance(command, sql.CommandPreparedStatementQuery):
            await self._bind(command.prepared_statement_handle, first, call, session)
            return
        elif isinstance(command, sql.CommandStatementIngest):
            rows = await self._ingest(command, first, call, session)
        else:
            raise InvalidArguments(f"{command.DESCRIPTOR.name} cannot be sent with DoPut")
        await _send_result(call, sql.DoPutUpdateResult(record_count=rows).SerializeToString())

    async def _run(self, work: _Work, session: Session) -> int:
        return await self._context.writes.run(work, cancel=lambda: self._database.cancel(session))

    # Bulk.

    async def _bulk(self, table: tuple[str, ...], first: FlightMessage, call: GrpcCall, session: Session) -> None:
        # The table must be there before anything is answered.
        decoder = await self._context.writes.run(lambda: self._open_bulk(table, first, session))
        number = _request_number(first)
        if number is not None:
            await _send_result(call, _bulk_result(number, 0, 0.0))
        async with ahead(call.receive) as messages:
            async for raw in messages:
                started = perf_counter()
                message = parse_flight_data(raw)
                rows = await self._run(partial(self._append, decoder, message, table, session), session)
                number = _request_number(message)
                if number is not None:
                    await _send_result(call, _bulk_result(number, rows, perf_counter() - started))

    def _open_bulk(self, table: tuple[str, ...], first: FlightMessage, session: Session) -> StreamDecoder:
        decoder = StreamDecoder(first.header)
        self._database.append(table, decoder.schema.empty_table(), session, protocol=PROTOCOL)
        return decoder

    def _append(self, decoder: StreamDecoder, message: FlightMessage, table: tuple[str, ...], session: Session) -> int:
        batch = decoder.decode(message)
        if batch is None or not batch.num_rows:
            return 0
        return self._database.append(table, pa.Table.from_batches([batch]), session, protocol=PROTOCOL)

    async def _ingest(
        self, command: sql.CommandStatementIngest, first: FlightMessage, call: GrpcCall, session: Session
    ) -> int:
        def begin() -> tuple[StreamDecoder, IngestTarget]:
            decoder = StreamDecoder(first.header)
            return decoder, plan_ingest(command, decoder.schema, self._database, session)

        decoder, target = await self._context.writes.run(begin, cancel=lambda: self._database.cancel(session))
        total = 0
        async with ahead(call.receive) as messages:
            async for raw in messages:
                append = partial(self._append, decoder, parse_flight_data(raw), target.table, session)
                total += await self._run(append, session)
        return total

    # Prepared statements.

    async def _bind(self, handle: bytes, first: FlightMessage, call: GrpcCall, session: Session) -> None:
        prepared = self._prepared.find(handle, session)
        tables = [table async for table in self._values(prepared, first, call)]
        if len(tables) > 1:
            raise InvalidArguments(f"the values of a query have more than {BOUND_BYTES_MAX} bytes")
        if tables:
            self._prepared.bind(prepared, tables[0])
        answer = sql.DoPutPreparedStatementResult(prepared_statement_handle=handle)
        await _send_result(call, answer.SerializeToString())

    async def _update(self, prepared: FlightStatement, first: FlightMessage, call: GrpcCall, session: Session) -> int:
        rows, has_values = 0, False
        async for values in self._values(prepared, first, call):
            has_values = True
            rows += await self._run(partial(update, prepared.template, values, self._database, session), session)
        if not has_values:
            bound, prepared.bound = prepared.bound, None
            rows = await self._run(lambda: update(prepared.template, bound, self._database, session), session)
        return rows

    async def _values(self, prepared: FlightStatement, first: FlightMessage, call: GrpcCall) -> AsyncIterator[pa.Table]:
        """Yield the rows of values that come, all of them at once up to a size; none if there are no columns."""
        if not len(first.header):
            return
        decoder = await self._context.writes.run(lambda: StreamDecoder(first.header))
        if not len(decoder.schema):
            return
        check_width(prepared.template, len(decoder.schema))
        batches: list[pa.RecordBatch] = []
        size = 0
        async with ahead(call.receive) as messages:
            async for raw in messages:
                batch = await self._context.writes.run(partial(decoder.decode, parse_flight_data(raw)))
                if batch is None:
                    continue
                batches.append(batch)
                size += batch.nbytes
                if size > BOUND_BYTES_MAX:
                    yield pa.Table.from_batches(batches)
                    batches, size = [], 0
        if batches:
            yield pa.Table.from_batches(batches)


def _as_prepared(session: Session, prepared: FlightStatement) -> Session:
    session.database, session.time_zone = prepared.database, prepared.time_zone
    return session


def _request_number(message: FlightMessage) -> int | None:
    """The number by which a client of the bulk protocol knows its request, None if it gives none."""
    if not len(message.metadata):
        return None
    if len(message.metadata) > METADATA_BYTES_MAX:
        raise MalformedMessage(f"the metadata of a batch has at most {METADATA_BYTES_MAX} bytes")
    try:
        said = orjson.loads(message.metadata)
    except orjson.JSONDecodeError:
        return None
    number = said.get("request_id") if isinstance(said, dict) else None
    return number if isinstance(number, int) else None


def _bulk_result(number: int, rows: int, seconds: float) -> bytes:
    return orjson.dumps({"request_id": number, "affected_rows": rows, "elapsed_secs": seconds})


async def _send_result(call: GrpcCall, metadata: bytes) -> None:
    await call.send(PutResult(app_metadata=metadata).SerializeToString())
