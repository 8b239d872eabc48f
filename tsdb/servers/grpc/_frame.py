"""What every service of the gRPC server is made of, and what the services need of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from tsdb.ingest import NewTable, Rejection, TableRows, WriteOutcome
from tsdb.model import MetricDescription, TableInfo
from tsdb.query import Output, Session
from tsdb.query.promql import PromqlEngine, Span
from tsdb.servers.grpc._calls import RpcService
from tsdb.servers.grpc._session import Sessions
from tsdb.servers.grpc._work import Workers
from tsdb.sql import Parsed


class GrpcDatabase(Protocol):
    """The database as the services see it."""

    def has_database(self, name: str) -> bool:
        """Tell whether a session may choose this database."""

    @property
    def promql(self) -> PromqlEngine:
        """Evaluates PromQL."""

    def running_promql(
        self, text: str, session: Session, span: Span | None = None
    ) -> AbstractContextManager[Callable[[], None]]:
        """Show a PromQL query in the process list while it runs."""

    def execute(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> Iterator[Output]:
        """Run the statements of a text, each when its answer is asked for; `tables` are visible by their names."""

    def run_parsed(self, parsed: Parsed, session: Session) -> Output:
        """Run a statement that somebody parsed already."""

    def schema_of(self, parsed: Parsed, session: Session) -> pa.Schema | None:
        """Return the columns a statement would answer with, None if it answers without rows."""

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for."""

    def cancel(self, session: Session) -> None:
        """Stop what runs for a session; from any thread."""

    def ingest(
        self,
        rows: Sequence[TableRows],
        session: Session,
        new_table: NewTable,
        *,
        dry_run: bool = False,
        hints: Mapping[str, str] = ...,
        protocol: str = ...,
        notes_rejections: bool = True,
    ) -> WriteOutcome:
        """Write rows into tables that are made to fit; raises IngestRejected when some do not."""

    def append(self, parts: Sequence[str], frame: pa.Table, session: Session, *, protocol: str = ...) -> int:
        """Write columns into a table that exists and stays as it is; the number of rows."""

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

    def describe_metrics(self, described: Sequence[tuple[str, MetricDescription]], session: Session) -> None:
        """Keep what metrics of the session's database say about themselves."""

    def reject(self, rejections: Sequence[Rejection], session: Session, *, protocol: str) -> None:
        """Count and remember what a protocol refused itself, because it could not be read."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a service is built into."""

    database: GrpcDatabase
    sessions: Sessions
    workers: Workers
    version: str = ""


MakeServices: TypeAlias = Callable[[Frame], Sequence[RpcService]]
"""Makes services; the server is given a list of these."""
