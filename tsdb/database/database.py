"""The facade of a database: executes the statements of a session and returns their results.

    text ─▶ parse ─▶ for each statement: show it in the process list ─▶ the function of its kind ─▶ Affected or Records

Each kind of statement has its function in a module of its own; this one only finds it. Statements of one text run one
after the other, and the first that fails ends the text; what ran before it stays done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache, partial
from time import perf_counter
from typing import Any

import pyarrow as pa

from tsdb.auth import PermissionDenied
from tsdb.database._admin import admin
from tsdb.database._failures import note_statement, note_text, parse_noted
from tsdb.database._names import READ_ONLY_DATABASES, check_writable, resolve
from tsdb.database._processes import Process
from tsdb.database._repeated import RepeatedQuery, find_repeated
from tsdb.database._services import Services
from tsdb.database._slow_queries import SlowQueries
from tsdb.database._statement_spans import begin_statement
from tsdb.database.copying.copy import copy
from tsdb.database.definitions import objects
from tsdb.database.definitions.alter_table import alter_table
from tsdb.database.definitions.create_table import create_table, create_table_like
from tsdb.database.modifying.delete import delete, delete_rows
from tsdb.database.modifying.insert import insert
from tsdb.database.modifying.update import update
from tsdb.database.prometheus.metrics import Metrics
from tsdb.database.prometheus.remote_read import read_remote
from tsdb.database.prometheus.tql import evaluate_tql, expand_tql, explained_tql, run_tql
from tsdb.database.sessions import cursors, prepared, users, variables
from tsdb.database.sessions.access import (
    authorize,
    check_reading,
    check_statement,
    check_target,
    check_writing,
    write_rights,
)
from tsdb.database.showing.describe import describe
from tsdb.database.showing.headings import headed_schema, with_headings
from tsdb.database.showing.show import show
from tsdb.database.writing.rejections import count_accepted
from tsdb.database.writing.request import WriteRequest
from tsdb.engine.lending import Lender
from tsdb.errors import Cancelled, DeadlineExceeded, InvalidArguments, TsdbError, Unsupported
from tsdb.ingest import NewTable, Rejection, TableRows, WriteOutcome
from tsdb.ingest.prometheus import Samples
from tsdb.ingest.prometheus_read import ReadQuery
from tsdb.model import MetricDescription, TableInfo
from tsdb.promql.evaluation import SampleBudget
from tsdb.query import Affected, Channel, Output, Records, Session, TableRecords, WriteToken
from tsdb.query.promql import PromqlEngine, QueryTimes
from tsdb.query.series_aggregate import AggregateRecords, LentAggregate
from tsdb.sql import Parsed, parse, statements
from tsdb.telemetry import TraceSpan, counter, histogram, iterate_within, span, using_span

_STATEMENTS = counter(
    "tsdb_database_statements_total", "Statements executed; outcome is ok or error.", labels=("kind", "outcome")
)

_SECONDS = histogram(
    "tsdb_database_statement_elapsed_seconds",
    "Time from the start of a statement until its last row was read.",
    labels=("kind",),
)

# To find the counter of some labels takes longer than to count.
_counter_of = cache(_STATEMENTS.labels)
_seconds_of = cache(_SECONDS.labels)

EXECUTE_DEPTH_MAX = 8
"""How deep EXECUTE may execute EXECUTE."""


class Database:
    """Executes statements. Safe to use from many threads, each with its own session."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.promql = PromqlEngine(
            services.catalog,
            services.regions,
            services.clock,
            budget=SampleBudget.of_bytes(services.options.promql_bytes),
            index_bytes=services.options.series_index_bytes,
            authorize=partial(check_reading, services),
        )
        self.metrics = Metrics(self.promql, services.catalog.metric_descriptions.of)
        services.queries.expand_with(self._expand)
        self.slow_queries = SlowQueries(services, services.options.slow_queries)

    def has_database(self, name: str) -> bool:
        """Return whether a session may use this database."""
        catalog = self.services.catalog
        return name.lower() == "information_schema" or catalog.find_database(name) is not None

    def execute(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] | None = None) -> Iterator[Output]:
        """Run the statements of a text, each when its result is read. Rows are to be read, or closed, in order.

        `tables` are visible to queries by their bare names, as if they were tables of the session's database.
        """
        with span("parse"):
            found = parse_noted(text, session.dialect)
        for parsed in found:
            yield self._run(parsed, session, tables=tables)

    def find_repeated(self, text: str, session: Session) -> RepeatedQuery | None:
        """Return a query of a known shape that needs nothing but its table; None for anything else."""
        return find_repeated(text, session, self.services)

    def end_repeated(self, query: RepeatedQuery, *, is_answered: bool) -> None:
        """End such a query; raises if it was killed meanwhile."""
        query.end(is_answered=is_answered, note=self._note_repeated)

    def _note_repeated(self, seconds: float, query: RepeatedQuery) -> None:
        _counter_of("Query", "ok").inc()
        _seconds_of("Query").observe(seconds)
        self.slow_queries.note(seconds, query.text, query.session)

    def has_table(self, name: str, session: Session) -> bool:
        """Return whether the session's database has a table or a view of this name."""
        catalog = self.services.catalog
        found = catalog.find_table(session.database, name) or catalog.find_view(session.database, name)
        return found is not None or session.database in READ_ONLY_DATABASES

    def write(
        self, database: str, table: str, frame: pa.Table, session: Session, *, tags: Sequence[str], time: str
    ) -> int:
        """Write columns into a table, which is created or widened as needed; return the number of rows."""
        check_writing(self.services, session)
        self._admit(session, database)
        token = session.token or WriteToken()
        return self.services.frames.write(database, table, frame, tags=tags, time=time, token=token)

    def append(self, parts: Sequence[str], frame: pa.Table, session: Session, *, protocol: str = "other") -> int:
        """Write columns into an existing table without changing its columns; return the number of rows."""
        check_writing(self.services, session)
        database, name = resolve(statements.Name(tuple(parts)), session)
        check_target(session, database)
        check_writable(database)
        written = self.services.frames.append(database, name, frame, session.token or WriteToken())
        count_accepted(protocol, written)
        return written

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
        """Create the table that columns of a schema need; TableAlreadyExists if the name is taken."""
        check_writing(self.services, session)
        database, name = resolve(statements.Name(tuple(parts)), session)
        self._admit(session, database)
        self.services.frames.create_table(
            database, name, schema, tags=tags, time=time, options=options or {}, token=session.token
        )

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
        """Write the rows of a protocol into tables that are created or widened as needed.

        IngestRejected, and nothing is written, if a row does not fit its table. With `dry_run` nothing changes, and
        the outcome tells what would, or what would be refused. Without `notes_rejections` a refusal is not counted and
        remembered, because the caller tries again in another way.
        """
        check_writing(self.services, session)
        request = self._request(session, new_table, hints, protocol, is_dry=dry_run, notes_rejections=notes_rejections)
        return self.services.writer.write(rows, request)

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
        """Write as `ingest` does, but do not wait for the end if all rows go to one region; None if they are written.

        When the future ends with SchemaOutdated or RegionNotFound, nothing was written, and `ingest` has to do it.
        """
        check_writing(self.services, session)
        request = self._request(session, new_table, hints, protocol, notes_rejections=notes_rejections)
        begun = self.services.writer.begin_rows(rows, request)
        return None if isinstance(begun, WriteOutcome) else begun

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
        check_writing(self.services, session)
        request = self._request(session, new_table, hints, protocol, is_dry=dry_run, notes_rejections=notes_rejections)
        return self.services.samples.write(samples, request)

    def begin_samples(
        self,
        samples: Samples,
        session: Session,
        new_table: NewTable,
        *,
        hints: Mapping[str, str] | None = None,
        protocol: str = "other",
    ) -> Future[int] | None:
        """Begin to write samples, and do not wait for the end; None if `ingest_samples` has to do it.

        It has to as well when the future ends with SchemaOutdated or RegionNotFound: then nothing was written.
        """
        check_writing(self.services, session)
        return self.services.samples.begin(samples, self._request(session, new_table, hints, protocol))

    def _request(
        self,
        session: Session,
        new_table: NewTable,
        hints: Mapping[str, str] | None,
        protocol: str,
        *,
        is_dry: bool = False,
        notes_rejections: bool = True,
    ) -> WriteRequest:
        return WriteRequest(
            session.database,
            session.token or WriteToken(),
            new_table,
            hints or {},
            protocol=protocol,
            is_dry=is_dry,
            notes_rejections=notes_rejections,
            admit=partial(self._admit, session),
            rights=write_rights(session),
        )

    def _admit(self, session: Session, database: str) -> None:
        """Raise if a session may not write rows to a database."""
        check_writable(database)
        check_target(session, database)
        self.services.catalog.database(database)

    def delete_rows(self, table: str, keys: pa.Table, time: str, session: Session) -> int:
        """Delete rows of a table of the session's database by their tags and times; the number of keys."""
        check_writing(self.services, session)
        return delete_rows(table, keys, time, self.services, session)

    def read_remote(self, queries: Sequence[ReadQuery], session: Session) -> list[bytes]:
        """Answer queries of Prometheus remote read, each with an encoded `QueryResult`."""
        check_reading(self.services, session)
        return read_remote(self.services, queries, session)

    def describe_metrics(self, described: Sequence[tuple[str, MetricDescription]], session: Session) -> None:
        """Store the metadata of metrics of the session's database."""
        if described:
            check_writing(self.services, session)
            check_target(session, session.database)
            self.services.catalog.database(session.database)
            self.services.catalog.metric_descriptions.keep(session.database, described)

    def reject(self, rejections: Sequence[Rejection], session: Session, *, protocol: str) -> None:
        """Count and record rows that a protocol refused because they could not be parsed."""
        self.services.rejections.add(rejections, protocol=protocol, database=session.database)

    def run(self, text: str, session: Session) -> Output:
        """Run a text of exactly one statement."""
        found = parse_noted(text, session.dialect)
        if len(found) != 1:
            raise InvalidArguments(f"expected one statement, found {len(found)}")
        return self._run(found[0], session)

    def run_parsed(self, parsed: Parsed, session: Session) -> Output:
        """Run a statement that is already parsed."""
        return self._run(parsed, session)

    def schema_of(self, parsed: Parsed, session: Session) -> pa.Schema | None:
        """Return the columns of a statement's result, None if it returns no rows. Nothing is executed."""
        statement = parsed.statement
        check_statement(statement, self.services, session)
        if isinstance(statement, statements.Query):
            return headed_schema(self.services.queries.schema_of(parsed.text, session), parsed.text, session.dialect)
        if isinstance(statement, statements.FetchCursor):
            return cursors.cursor_schema(statement.name, session)
        if isinstance(statement, statements.Execute):
            return self.schema_of(self._executed(statement, session), session)
        if not isinstance(statement, _ANSWERS_FREELY):
            return None
        output = self._run(parsed, session)
        if isinstance(output, Affected):
            return None
        output.close()
        return output.schema

    def executed(self, statement: statements.Statement, session: Session) -> statements.Statement:
        """Return the statement that EXECUTE runs; any other is its own."""
        for _ in range(EXECUTE_DEPTH_MAX):
            if not isinstance(statement, statements.Execute):
                break
            statement = self._executed(statement, session).statement
        return statement

    def connect(self, session: Session) -> None:
        """Show a session among the connections until `disconnect`."""
        self.services.processes.connect(session)

    def disconnect(self, session: Session) -> None:
        self.services.processes.disconnect(session)

    def find_table(self, parts: Sequence[str], session: Session) -> TableInfo | None:
        """Return the table that a name of one to three parts stands for in a session; None for anything else."""
        return self.services.queries.find_table(parts, session)

    def table_to_write(self, parts: Sequence[str], session: Session) -> TableInfo:
        """Return the table that a name stands for, for those who may write to it; they need not read it."""
        check_writing(self.services, session)
        database, name = resolve(statements.Name(tuple(parts)), session)
        check_target(session, database)
        return self.services.catalog.table(database, name)

    @contextmanager
    def running_promql(
        self, text: str, session: Session, times: QueryTimes | None = None
    ) -> Iterator[Callable[[], None]]:
        """Show a PromQL query in the process list while it runs; what is yielded raises when it was killed."""
        started = perf_counter()
        traced = begin_statement("Promql", text, text, session)
        try:
            check_reading(self.services, session)
            with self.services.processes.entered(session, text) as process, using_span(traced):
                session.statement = process
                yield process.check
        except Exception as error:
            _counter_of("Promql", "error").inc()
            if isinstance(error, TsdbError):
                note_text(error, text)
            if traced is not None:
                traced.fail(error)
            raise
        finally:
            if traced is not None:
                traced.end()
        _counter_of("Promql", "ok").inc()
        seconds = perf_counter() - started
        _seconds_of("Promql").observe(seconds)
        self.slow_queries.note(seconds, text, session, is_promql=True, times=times, trace=traced)

    def cancel(self, session: Session) -> None:
        """Cancel the running statement of a session; from any thread."""
        if session.token is not None:
            session.token.cancel()
        self.services.processes.cancel_session(session)

    def _run(
        self,
        parsed: Parsed,
        session: Session,
        depth: int = 0,
        *,
        tables: Mapping[str, pa.Table] | None = None,
    ) -> Output:
        statement, kind = parsed.statement, type(parsed.statement).__name__
        if isinstance(statement, statements.Execute):
            return self._execute(statement, session, depth)
        try:
            check_statement(statement, self.services, session)
        except TsdbError as error:
            note_statement(error, parsed)
            raise
        if not (isinstance(statement, statements.Show) and statement.what == "warnings"):
            session.warnings.clear()
        process = self.services.processes.enter(session, users.discreet_text(parsed))
        session.statement = process
        traced = begin_statement(kind, parsed.text, process.text, session)
        started = perf_counter()

        def leave() -> None:
            seconds = perf_counter() - started
            self.services.processes.leave(process)
            _seconds_of(kind).observe(seconds)
            self.slow_queries.note(seconds, process.text, session, is_promql=kind == "Tql", trace=traced)
            if traced is not None:
                traced.end()

        try:
            if traced is None:
                output = self._dispatch(parsed, session, process, tables)
            else:
                with using_span(traced), span("plan" if kind == "Query" else "run"):
                    output = self._dispatch(parsed, session, process, tables)
        except Exception as error:
            if traced is not None:
                traced.fail(error)
            leave()
            _counter_of(kind, "error").inc()
            if isinstance(error, Cancelled | DeadlineExceeded) and process.token.has_begun:
                process.token.is_over = True
                error.message = f"{error.message}; {process.token.describe()}"
            note_statement(error, parsed)
            raise
        except BaseException:
            # Abandoned by the caller: neither a success nor an error of the statement.
            self.services.processes.leave(process)
            if traced is not None:
                traced.end()
            raise
        _counter_of(kind, "ok").inc()
        if isinstance(output, Affected):
            leave()
            return output
        process.on_cancel(output.close)
        return _TrackedRecords(output, parsed, leave, traced)

    def _expand(self, text: str, session: Session) -> tuple[str, Mapping[str, pa.Table]]:
        """Evaluate the TQL of a query."""

        def check() -> None:
            self.services.processes.check_connection(session.connection_id)

        return expand_tql(text, session, lambda tql: evaluate_tql(tql, self.services, self.promql, session, check))

    def _dispatch(
        self, parsed: Parsed, session: Session, process: Process, tables: Mapping[str, pa.Table] | None
    ) -> Output:
        statement, services = parsed.statement, self.services
        if isinstance(statement, statements.Query):
            found = services.queries.query(parsed.text, session, tables=tables)
            return with_headings(found, parsed.text, session.dialect)
        if isinstance(statement, statements.Tql):
            return run_tql(statement, services, self.promql, session, process.check)
        if isinstance(statement, statements.Explain) and isinstance(statement.statement, statements.Tql):
            return run_tql(explained_tql(statement), services, self.promql, session, process.check)
        if isinstance(statement, statements.Explain):
            return services.queries.explain(statement, parsed.text, session)
        if isinstance(statement, statements.Insert):
            return insert(statement, services, session, process, tables)
        if isinstance(statement, statements.Delete):
            return delete(statement, services, session, process)
        if isinstance(statement, statements.Update):
            return update(statement, services, session, process)
        if isinstance(statement, statements.TruncateTable):
            return objects.truncate_table(statement, services, session, process)
        if isinstance(statement, statements.Copy):
            return copy(statement, services, session, process)
        if isinstance(statement, statements.Admin):
            return admin(statement, services, session, process)
        run = _SIMPLE.get(type(statement))
        if run is None:
            raise Unsupported(f"{type(statement).__name__} is not supported")
        if isinstance(statement, _CHANGES_SCHEMA):
            process.token.enter()
        return run(statement, services, session)

    def _execute(self, statement: statements.Execute, session: Session, depth: int) -> Output:
        if depth >= EXECUTE_DEPTH_MAX:
            raise InvalidArguments("prepared statements execute each other recursively")
        return self._run(self._executed(statement, session), session, depth + 1)

    def _executed(self, statement: statements.Execute, session: Session) -> Parsed:
        text = prepared.executed_text(statement.name, [each.text for each in statement.arguments], session)
        found = parse(text, session.dialect)
        if len(found) != 1:
            raise InvalidArguments(f"a prepared statement is one statement, this text has {len(found)}")
        return found[0]


_ANSWERS_FREELY = (statements.Show, statements.Describe, statements.Tql, statements.Explain)
"""Statements that may be run to find their result columns, because they change nothing."""


class _TrackedRecords:
    """Rows of a statement that stays in the process list until they are read."""

    def __init__(
        self, records: Records, parsed: Parsed, leave: Callable[[], None], traced: TraceSpan | None = None
    ) -> None:
        self._records = records
        self._parsed = parsed
        self._leave: Callable[[], None] | None = leave
        self._traced = traced

    @property
    def schema(self) -> pa.Schema:
        return self._records.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            if self._traced is None:
                yield from self._records
            else:
                yield from self._traced_batches(self._traced)
        except TsdbError as error:
            note_statement(error, self._parsed)
            raise
        finally:
            self._end()

    def _traced_batches(self, traced: TraceSpan) -> Iterator[pa.RecordBatch]:
        executing, rows = traced.child("execute"), 0
        try:
            for batch in iterate_within(executing, iter(self._records)):
                rows += batch.num_rows
                yield batch
        except Exception as error:
            executing.fail(error)
            traced.fail(error)
            raise
        finally:
            executing.set(rows=rows)
            executing.end()

    def close(self) -> None:
        self._end()
        self._records.close()

    def lend(self, lender: Lender) -> LentAggregate | None:
        return self._records.lend(lender) if isinstance(self._records, AggregateRecords) else None

    def end_lent(self, *, is_answered: bool) -> None:
        if self._traced is not None:
            self._traced.set({"tsdb.worker": "fast", "tsdb.answered": is_answered})
        try:
            if isinstance(self._records, AggregateRecords):
                self._records.end_lent(is_answered=is_answered)
            else:
                self._records.close()
        except TsdbError as error:
            note_statement(error, self._parsed)
            raise
        finally:
            self._end()

    def _end(self) -> None:
        """Remove the statement from the process list, once."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


def _transaction(statement: statements.Transaction, services: Services, session: Session) -> Affected:
    """Accept BEGIN, COMMIT and ROLLBACK, which many clients send; every statement is a transaction of its own."""
    if session.channel not in (Channel.MYSQL, Channel.POSTGRES):
        raise Unsupported(f"SQL statement is not supported, keyword: {statement.verb}")
    return Affected(0)


def _show(statement: statements.Show, services: Services, session: Session) -> Output:
    if statement.what == "grants":
        return TableRecords(users.show_grants(statement, services, session))
    if statement.what == "users":
        return TableRecords(users.show_users(statement, services, session))
    return show(statement, services, session)


def _kill(statement: statements.Kill, services: Services, session: Session) -> Affected:
    identity = authorize(services, session)
    if not identity.is_admin and any(
        each.session.user != identity.name
        for each in services.processes.all()
        if statement.process == each.id or statement.connection == each.session.connection_id
    ):
        raise PermissionDenied
    if statement.process is not None:
        return Affected(services.processes.kill(statement.process))
    assert statement.connection is not None
    return Affected(services.processes.kill_connection(statement.connection))


_CHANGES_SCHEMA = (
    statements.CreateDatabase,
    statements.AlterDatabase,
    statements.DropDatabase,
    statements.CreateTable,
    statements.CreateTableLike,
    statements.AlterTable,
    statements.DropTable,
    statements.CreateView,
    statements.DropView,
)
"""What becomes visible in one step."""

_SIMPLE: dict[type, Callable[[Any, Services, Session], Output]] = {
    statements.CreateDatabase: objects.create_database,
    statements.AlterDatabase: objects.alter_database,
    statements.DropDatabase: objects.drop_database,
    statements.CreateTable: create_table,
    statements.CreateTableLike: create_table_like,
    statements.AlterTable: alter_table,
    statements.DropTable: objects.drop_table,
    statements.Comment: objects.comment,
    statements.CreateView: objects.create_view,
    statements.DropView: objects.drop_view,
    statements.Show: _show,
    statements.Describe: describe,
    statements.Use: variables.use,
    statements.SetVariable: variables.set_variable,
    statements.SetMany: variables.set_many,
    statements.Kill: _kill,
    statements.CreateUser: users.create_user,
    statements.AlterUser: users.alter_user,
    statements.DropUser: users.drop_user,
    statements.Grant: users.grant,
    statements.Revoke: users.revoke,
    statements.Prepare: prepared.prepare,
    statements.Deallocate: prepared.deallocate,
    statements.DeclareCursor: cursors.declare_cursor,
    statements.FetchCursor: cursors.fetch_cursor,
    statements.MoveCursor: cursors.move_cursor,
    statements.CloseCursor: cursors.close_cursor,
    statements.Transaction: _transaction,
}
