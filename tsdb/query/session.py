"""Sessions, and the results of statements.

A `Session` belongs to one connection, or to one request where the protocol has no connections. Statements change it
(`USE`, `SET`); it is used by one statement at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from tsdb.auth import Identity
from tsdb.model import DEFAULT_DATABASE, ViewInfo
from tsdb.query._write_token import WriteToken
from tsdb.query.advisory_locks import SessionLocks
from tsdb.sql.statements import Dialect
from tsdb.units import Duration

_connection_ids = itertools.count(1)


class Channel(StrEnum):
    """By which protocol a session came."""

    HTTP = "http"
    GRPC = "grpc"
    MYSQL = "mysql"
    POSTGRES = "postgres"
    EMBEDDED = "embedded"

    @property
    def dialect(self) -> Dialect:
        return _DIALECTS.get(self, Dialect.GENERIC)


_DIALECTS = {Channel.MYSQL: Dialect.MYSQL, Channel.POSTGRES: Dialect.POSTGRESQL}


class Statement(Protocol):
    """The running statement, as far as its queries need to know it."""

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Have `stop` called when the statement is cancelled; at once if it was."""

    def hold(self) -> Callable[[], None]:
        """Keep the statement in the process list until the returned function is called, even after its answer."""


@dataclass(slots=True)
class Session:
    """What a connection has chosen."""

    channel: Channel = Channel.HTTP
    database: str = DEFAULT_DATABASE
    time_zone: str = "UTC"
    """An IANA name or an offset `+08:00`, checked and in its canonical form."""
    user: str | None = None
    identity: Identity | None = None
    """The user. None if there is no login, which is enough only where none is required."""
    client: str = ""
    """Address of the peer, for the process list."""
    connection_id: int = field(default_factory=lambda: next(_connection_ids))
    timeout: Duration | None = None
    """How long one statement may take; None leaves it to the server."""
    statement: Statement | None = None
    """What runs now, set by the database when a statement begins."""
    token: WriteToken | None = None
    """Stops what the session of a single request writes; None gives every statement its own."""
    variables: dict[str, str] = field(default_factory=dict)
    """What SET has set, beside time zone and database; names in lower case."""
    warnings: list[str] = field(default_factory=list)
    """Of the last statement, for SHOW WARNINGS."""
    prepared: dict[str, str] = field(default_factory=dict)
    """Text of PREPAREd statements by name."""
    cursors: dict[str, Any] = field(default_factory=dict)
    views: dict[tuple[str, str], ViewInfo] = field(default_factory=dict)
    """Temporary views by database and name; they go before tables of the same name."""
    is_describing: bool = False
    """Whether the columns of a view are being found: a view of the columns of views has none of its own."""
    locks: SessionLocks | None = None
    """PostgreSQL's advisory locks; None where there are none."""

    @property
    def dialect(self) -> Dialect:
        return self.channel.dialect


class Records(Protocol):
    """Rows, as they come. To be read once and closed; closing early stops the work behind it."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns; `tsdb.model.type_of_field` gives the SQL type of one."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises TsdbError: a failed query, a deadline, a cancellation."""

    def close(self) -> None:
        """Stop the work and let go of what it holds; from any thread, any number of times."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The answer to a statement without rows."""

    rows: int


@dataclass(slots=True)
class TableRecords:
    """Rows that are already there."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches())

    def close(self) -> None:
        """Nothing is running."""


Output: TypeAlias = Affected | Records


def read_all(records: Records) -> pa.Table:
    """Read an answer to its end and close it."""
    try:
        return pa.Table.from_batches(list(records), records.schema)
    finally:
        records.close()
