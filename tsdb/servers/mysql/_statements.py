"""Statements and their answers as packets; runs on the threads of the server.

Each method is a generator of packets. `ending_in_error` turns an exception into the last packet, an error, also after
rows that were already sent, as MySQL does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import perf_counter

import pyarrow as pa

from tsdb.database import DatabasePort
from tsdb.errors import InvalidSyntax, Status, TsdbError, Unsupported
from tsdb.query import Affected, PlanQuery, Session, TableMissing
from tsdb.servers._failures import log_failure
from tsdb.servers.mysql._answers import PacketEncoder
from tsdb.servers.mysql._columns import encode_column
from tsdb.servers.mysql._prepared import MysqlStatements
from tsdb.servers.mysql._protocol import WireError
from tsdb.servers.mysql._reflection import as_engine_reads, as_mysql_prints, is_reflection
from tsdb.servers.mysql._startup import answer_startup, without_dual
from tsdb.servers.mysql._texts import count_statements, executable_comment, is_about_warnings, killed_connection
from tsdb.sql import parse, statements
from tsdb.telemetry import counter, fail_span, get_logger, histogram

_log = get_logger("tsdb.mysql")
_QUERIES = counter(
    "tsdb_servers_mysql_queries_total",
    "Queries answered; outcome is ok or error.",
    labels=("protocol", "outcome"),
)
_ELAPSED = histogram(
    "tsdb_servers_mysql_queries_elapsed_seconds",
    "Time from receiving a query to the end of its result.",
    labels=("protocol",),
)

Packets = Generator[bytes, None, None]


class _Unexpected(TsdbError):
    """A mistake of the server."""

    status = Status.UNEXPECTED


def note_answered(seconds: float, *, is_binary: bool, outcome: str = "ok") -> None:
    """Count the answer to a text."""
    protocol = "binary" if is_binary else "text"
    _QUERIES.labels(protocol, outcome).inc()
    _ELAPSED.labels(protocol).observe(seconds)


def ending_in_error(packets: Packets, answer: PacketEncoder) -> Packets:
    """Make an error that a generator raises its last packet."""
    try:
        yield from packets
    except (TsdbError, WireError) as error:
        if isinstance(error, TsdbError):
            log_failure(_log, error)
        fail_span(error)
        yield answer.error(error)
    except Exception as error:  # noqa: BLE001 - a client waits for an answer
        _log.exception("a statement failed because of an internal error")
        fail_span(error)
        yield answer.error(_Unexpected(f"{type(error).__name__}: {error}"))


_EXECUTED = statements.SetVariable | statements.SetMany | statements.CreateView | statements.DropView
"""What is executed when it stands in a comment for servers that know it."""


class Statements:
    """Runs the statements of one connection."""

    def __init__(self, database: DatabasePort, close_connection: Callable[[int], bool]) -> None:
        self._database = database
        self._close_connection = close_connection

    def run(
        self, text: str, session: Session, answer: PacketEncoder, *, allows_many: bool, is_binary: bool = False
    ) -> Packets:
        """Run the statements of a text."""
        started, outcome = perf_counter(), "error"
        try:
            if (inner := executable_comment(text)) is None:
                yield from self._run(text, session, answer, allows_many=allows_many, is_binary=is_binary)
            else:
                yield self._run_comment(inner, session, answer)
            outcome = "ok"
        finally:
            note_answered(perf_counter() - started, is_binary=is_binary, outcome=outcome)

    def _run(
        self, text: str, session: Session, answer: PacketEncoder, *, allows_many: bool, is_binary: bool
    ) -> Packets:
        count = count_statements(text)
        if count > 1 and not allows_many:
            raise InvalidSyntax(
                f"the text has {count} statements, and the client has not said that it sends more than one",
                hint="set the client's flag CLIENT_MULTI_STATEMENTS",
            )
        answer.has_warnings = not (count == 1 and is_about_warnings(text))
        known = answer_startup(text, session) if count == 1 else None
        outputs = (
            self._database.execute(as_engine_reads(without_dual(text)), session) if known is None else iter((known,))
        )
        if is_reflection(text):
            outputs = map(as_mysql_prints, outputs)
        try:
            for number, output in enumerate(outputs, 1):
                has_more = number < count
                if isinstance(output, Affected):
                    yield answer.ok(output.rows, has_more=has_more)
                else:
                    yield from answer.rows(output, is_binary=is_binary, has_more=has_more)
        finally:
            if isinstance(outputs, Generator):
                outputs.close()
        killed = killed_connection(text)
        if killed is not None and killed != session.connection_id:
            self._close_connection(killed)

    def _run_comment(self, text: str, session: Session, answer: PacketEncoder) -> bytes:
        """Run a statement that is meant for servers that know it."""
        try:
            found = parse(text, session.dialect)
        except (InvalidSyntax, Unsupported):
            found = []
        if len(found) == 1 and isinstance(found[0].statement, _EXECUTED):
            for _ in self._database.execute(text, session):
                pass
        else:
            session.warnings[:] = [f"Passed: {text[:200]}"]
        return answer.ok()

    def prepare(self, text: str, kept: MysqlStatements, session: Session, answer: PacketEncoder) -> Packets:
        """Keep a statement for later, and describe its parameters and columns."""
        prepared = kept.cut(text)
        example = prepared.with_nulls()
        if executable_comment(example) is None and count_statements(example) > 1:
            raise InvalidSyntax("a prepared statement is one statement")
        columns = self._columns_of(example, session)
        kept.keep(prepared)
        yield answer.packet(
            b"\x00"
            + prepared.number.to_bytes(4, "little")
            + len(columns).to_bytes(2, "little")
            + prepared.places.to_bytes(2, "little")
            + b"\x00\x00\x00"
        )
        yield answer.definitions([pa.field("?", pa.string())] * prepared.places)
        yield answer.definitions(columns)

    def _columns_of(self, text: str, session: Session) -> list[pa.Field]:
        """Return the columns of the result, none if they depend on the values."""
        if executable_comment(text) is not None:
            return []
        known = answer_startup(text, session)
        if known is not None:
            return [] if isinstance(known, Affected) else list(known.schema)
        found = parse(as_engine_reads(without_dual(text)), session.dialect)
        try:
            schema = self._database.schema_of(found[0], session)
        except TableMissing:
            raise
        except PlanQuery:
            return []
        return [] if schema is None else list(schema)

    def list_fields(self, table: str, session: Session, answer: PacketEncoder) -> Packets:
        """Answer COM_FIELD_LIST: the columns of a table, without their defaults."""
        name = table.replace("`", "``")
        found = parse(f"SELECT * FROM `{name}`", session.dialect)
        schema = self._database.schema_of(found[0], session)
        assert schema is not None, "a query has columns"
        for field in schema:
            yield answer.packet(encode_column(field, session.database) + b"\xfb")
        yield answer.end()
