"""The commands of Flight SQL in descriptors, tickets and actions: a message inside an Any."""

from __future__ import annotations

from typing import TypeAlias

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight.flight_pb2 import FlightDescriptor

TYPE_PREFIX = "type.googleapis.com/"
PACKAGE = "arrow.flight.protocol.sql."

_KNOWN: dict[str, type[Message]] = {
    f"{PACKAGE}{kind.DESCRIPTOR.name}": kind
    for kind in (
        sql.CommandStatementQuery,
        sql.CommandStatementUpdate,
        sql.TicketStatementQuery,
        sql.ActionCreatePreparedStatementRequest,
        sql.ActionClosePreparedStatementRequest,
        sql.CommandPreparedStatementQuery,
        sql.CommandPreparedStatementUpdate,
        sql.CommandStatementIngest,
        sql.CommandGetSqlInfo,
        sql.CommandGetXdbcTypeInfo,
        sql.CommandGetCatalogs,
        sql.CommandGetDbSchemas,
        sql.CommandGetTables,
        sql.CommandGetTableTypes,
        sql.CommandGetPrimaryKeys,
        sql.CommandGetExportedKeys,
        sql.CommandGetImportedKeys,
        sql.CommandGetCrossReference,
        sql.ActionCancelQueryRequest,
    )
}

Command: TypeAlias = Message


def find_command(raw: bytes) -> Command | None:
    """Return the command that bytes hold, None if they hold something else; Unsupported for one we do not know."""
    try:
        wrapped = Any.FromString(raw)
    except DecodeError:
        return None
    prefix, _, name = wrapped.type_url.rpartition("/")
    if not prefix or not name.startswith(PACKAGE):
        return None
    kind = _KNOWN.get(name)
    if kind is None:
        raise Unsupported(f"{name.removeprefix(PACKAGE)[:100]} is not supported")
    try:
        return kind.FromString(wrapped.value)
    except DecodeError as error:
        raise InvalidArguments(f"the message is not a {name}: {error}") from None


def parse_command(raw: bytes) -> Command:
    """Return the command that bytes hold; InvalidArguments if they hold none."""
    found = find_command(raw)
    if found is None:
        raise InvalidArguments("the command is not one of Flight SQL")
    return found


def pack(message: Message) -> bytes:
    """Return a message inside an Any."""
    return Any(
        type_url=TYPE_PREFIX + message.DESCRIPTOR.full_name, value=message.SerializeToString()
    ).SerializeToString()


def parse_descriptor(raw: bytes) -> FlightDescriptor:
    try:
        return FlightDescriptor.FromString(raw)
    except DecodeError as error:
        raise InvalidArguments(f"the descriptor cannot be read: {error}") from None


def table_of_path(descriptor: FlightDescriptor) -> tuple[str, ...]:
    """Return the name of a table that a path is: one to three parts."""
    path = tuple(descriptor.path)
    if not 1 <= len(path) <= 3 or not all(path):
        raise InvalidArguments("a path is the name of a table, of its database and table, or with the catalog before")
    return path


def refuse_transaction(command: Message) -> None:
    """Refuse what wants to be part of a transaction."""
    if "transaction_id" in command.DESCRIPTOR.fields_by_name and command.transaction_id:  # type: ignore[attr-defined]
        raise no_transactions()


def no_transactions() -> Unsupported:
    return Unsupported(
        "there are no transactions: every statement takes effect by itself", hint="leave the connection in autocommit"
    )
