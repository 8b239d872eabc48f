"""Tickets of statements: they have everything that is needed to run one, so that the server keeps nothing.

A statement without rows has run when its ticket is made; its ticket stands for an answer without columns. A statement
that cannot run twice and returns few rows has its rows in the ticket. A ticket grants no permission: the client that
brings it is checked as if it had sent the text.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import pyarrow as pa
import pyarrow.ipc

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._commands import pack
from tsdb.sql.template import parse_template

TICKET_BYTES_MAX = 2 << 20
"""Clients take messages of 4 MiB by default."""


@dataclass(frozen=True, slots=True)
class StatementTicket:
    """Statements to run, one after the other; all have the same columns."""

    id: str
    """By which it can be cancelled."""
    texts: tuple[str, ...] = ()
    database: str = ""
    time_zone: str = ""
    rows: str = ""
    """Rows that are already there: an IPC stream in hexadecimal."""

    def encode(self) -> bytes:
        """Return the bytes of a Flight ticket."""
        handle = orjson.dumps(
            {"id": self.id, "texts": self.texts, "db": self.database, "zone": self.time_zone, "rows": self.rows}
        )
        if len(handle) > TICKET_BYTES_MAX:
            raise InvalidArguments(f"the statement with its values is larger than {TICKET_BYTES_MAX} bytes")
        return pack(sql.TicketStatementQuery(statement_handle=handle))

    @classmethod
    def parse(cls, handle: bytes) -> StatementTicket:
        """Read what `encode` wrote; InvalidArguments for anything else."""
        try:
            said = orjson.loads(handle)
            texts, rest = said["texts"], [said[key] for key in ("id", "db", "zone", "rows")]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise InvalidArguments("the ticket is not one of this server") from error
        if not isinstance(texts, list) or not all(isinstance(each, str) for each in [*texts, *rest]):
            raise InvalidArguments("the ticket is not one of this server")
        return cls(rest[0], tuple(texts), rest[1], rest[2], rest[3])

    def read_rows(self) -> pa.Table:
        """The rows that are in the ticket itself."""
        try:
            return pa.ipc.open_stream(bytes.fromhex(self.rows)).read_all()
        except (pa.ArrowException, ValueError, OSError) as error:
            raise InvalidArguments("the ticket is not one of this server") from error


def encode_rows(table: pa.Table) -> str:
    """Write rows for a ticket."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written.hex()


@dataclass(frozen=True, slots=True)
class InfluxTicket:
    """A query of a client of InfluxDB 3: JSON, without a GetFlightInfo before it."""

    text: str
    database: str

    @classmethod
    def parse(cls, ticket: bytes) -> InfluxTicket | None:
        """Read a ticket; None for any other kind."""
        if not ticket.startswith(b"{"):
            return None
        try:
            said = orjson.loads(ticket)
        except orjson.JSONDecodeError:
            return None
        text, database = said.get("sql_query"), said.get("database", "")
        if not isinstance(text, str) or not isinstance(database, str):
            raise InvalidArguments("the ticket has no text of sql_query and database")
        if (language := said.get("query_type", "sql")) != "sql":
            raise Unsupported(f"queries in {str(language)[:40]!r} are not supported", hint="send SQL")
        return cls(_with_parameters(text, said.get("params") or {}), database)


def _with_parameters(text: str, values: object) -> str:
    if not isinstance(values, dict):
        raise InvalidArguments("the params of the ticket are not an object")
    template = parse_template(text)
    missing = [name for name in template.names if name not in values]
    if missing or (template.places and not template.names):
        raise InvalidArguments(f"no value was given for {'$' + missing[0] if missing else 'a placeholder'}")
    try:
        row = [pa.scalar(values[name]) for name in template.names]
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidArguments(f"a value cannot be a parameter: {error}") from error
    return template.with_row(row)
