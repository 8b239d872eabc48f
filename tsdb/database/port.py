"""The database as servers see it: one protocol, one gate, one rule for the names of databases.

    server ─▶ DatabaseGate: is the database open? ─▶ DatabasePort: statements, writes, PromQL, connections

`Database` implements the port. Servers depend on the port alone, so that another implementation, of a frontend without
regions of its own for one, can take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from tsdb.database._repeated import RepeatedQuery
from tsdb.database.prometheus.metrics import Metrics
from tsdb.errors import Status, TsdbError
from tsdb.ingest import NewTable, Rejection, TableRows, WriteOutcome
from tsdb.ingest.prometheus import Samples
from tsdb.ingest.prometheus_read import ReadQuery
from tsdb.model import CATALOG_NAMES, MetricDescription, TableInfo
from tsdb.query import Output, Session
from tsdb.query.promql import PromqlEngine, QueryTimes
from tsdb.sql import Parsed
from tsdb.sql.statements import Statement


class NotReady(TsdbError):
    """The server is starting or stopping: the database cannot be used now."""

    status = Status.SUSPENDED


class DatabasePort(Protocol):
    """What servers need of a database. Every method may be called from any thread."""

    # Names and connections

    def has_database(self, name: str) -> bool:
        """Return whether a session may use this database."""

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for."""

    def table_to_write(self, parts: Sequence[str], session: Session) -> TableInfo:
        """Return the table that a name stands for; an error if there is none, or the user may not write to it."""

    def connect(self, session: Session) -> None:
        """Show a session among the connections until `disconnect`."""

    def disconnect(self, session: Session) -> None:
        """Remove a session from the connections."""

    # Statements

    def execute(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> Iterator[Output]:
        """Run the statements of a text, each when its answer is requested; `tables` are visible by their names."""

    def find_repeated(self, text: str, session: Session) -> RepeatedQuery | None:
        """Return a query of a known shape that another process can perhaps compute, to be ended; None for others."""

    def end_repeated(self, query: RepeatedQuery, *, is_answered: bool) -> None:
        """End such a query; raises if it was killed meanwhile."""

    def run_parsed(self, parsed: Parsed, session: Session) -> Output:
        """Run a parsed statement."""

    def schema_of(self, parsed: Parsed, session: Session) -> pa.Schema | None:
        """Return the columns a statement would answer with, None if it answers without rows."""

    def executed(self, statement: Statement, session: Session) -> Statement:
        """Return the statement that EXECUTE runs; any other is its own."""

    def cancel(self, session: Session) -> None:
        """Stop what runs for a session."""

    # Writes

    def ingest(
        self,
        rows: Sequence[TableRows],
        session: Session,
        new_table: NewTable,
        *,
        dry_run: bool = False,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
        notes_rejections: bool = True,
    ) -> WriteOutcome:
        """Write rows into tables that are created or altered to fit; raises IngestRejected when some do not.

        Without `notes_rejections` these are neither counted nor remembered: the caller tries again in another way.
        """

    def begin_ingest(
        self,
        rows: Sequence[TableRows],
        session: Session,
        new_table: NewTable,
        *,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
        notes_rejections: bool = True,
    ) -> Future[int] | None:
        """Write as `ingest` does, perhaps without waiting for the end; None if that is not necessary.

        When the future ends with SchemaOutdated or RegionNotFound, nothing was written, and `ingest` has to do it.
        """

    def ingest_samples(
        self,
        samples: Samples,
        session: Session,
        new_table: NewTable,
        *,
        dry_run: bool = False,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
        notes_rejections: bool = True,
    ) -> WriteOutcome:
        """Write samples of Prometheus, as `ingest` writes rows."""

    def begin_samples(
        self,
        samples: Samples,
        session: Session,
        new_table: NewTable,
        *,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
    ) -> Future[int] | None:
        """Begin to write samples without waiting; None if `ingest_samples` has to do it."""

    def append(self, parts: Sequence[str], frame: pa.Table, session: Session, *, protocol: str = "other") -> int:
        """Write columns into an existing table, which stays as it is; the number of rows."""

    def create_for(
        self,
        parts: Sequence[str],
        schema: pa.Schema,
        session: Session,
        *,
        tags: Sequence[str],
        time: str,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Create the table that columns of a schema need."""

    def delete_rows(self, table: str, keys: pa.Table, time: str, session: Session) -> int:
        """Delete rows of a table of the session's database by their tags and times; the number of keys."""

    def reject(self, rejections: Sequence[Rejection], session: Session, *, protocol: str) -> None:
        """Count and record rows that a protocol refused because they could not be parsed."""

    # Prometheus

    @property
    def promql(self) -> PromqlEngine:
        """Evaluates PromQL."""

    @property
    def metrics(self) -> Metrics:
        """Lists labels, series and metadata of metrics."""

    def running_promql(
        self, text: str, session: Session, times: QueryTimes | None = None
    ) -> AbstractContextManager[Callable[[], None]]:
        """Show a PromQL query in the process list while it runs; what is entered raises when it was killed."""

    def read_remote(self, queries: Sequence[ReadQuery], session: Session) -> list[bytes]:
        """Answer queries of remote read, each with an encoded `QueryResult`."""

    def describe_metrics(self, described: Sequence[tuple[str, MetricDescription]], session: Session) -> None:
        """Store the metadata of metrics of the session's database."""


class DatabaseGate:
    """Where servers get the database from: closed until it is open, and again before it is closed.

    The HTTP server listens before the database is open, so that each of its handlers goes through the gate; the other
    servers start afterwards and go through it once.
    """

    def __init__(self, database: DatabasePort | None = None) -> None:
        self._database = database

    def open(self, database: DatabasePort) -> None:
        """Let requests through to a database."""
        self._database = database

    def close(self) -> None:
        """Let no further request through."""
        self._database = None

    @property
    def database(self) -> DatabasePort:
        """The database; NotReady while the gate is closed."""
        if self._database is None:
            raise NotReady("the server is not ready", hint="try again when /ready answers 200")
        return self._database

    def check(self) -> None:
        """Raise NotReady while the gate is closed."""
        _ = self.database


def resolve_database(wanted: str, database: DatabasePort) -> str:
    """Return the name of the database that a client means by `database` or `catalog-database`.

    A database whose own name has the second form takes precedence. Whether the database exists is not checked.
    """
    catalog, dash, name = wanted.partition("-")
    return name if dash and catalog in CATALOG_NAMES and not database.has_database(wanted) else wanted
