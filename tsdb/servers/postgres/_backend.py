"""One session of the protocol after the login: messages in, messages out. It blocks, so it runs on a worker thread.

    simple      Query                                       rows of every statement of a text, as text
    copy        CopyData … CopyDone | CopyFail              the rows of COPY … FROM STDIN, of either protocol
    extended    Parse Bind Describe Execute Close … Sync    one statement, with values; after an error everything up to
                                                            Sync is skipped

There are no transactions: BEGIN and COMMIT are accepted and only change the status in ReadyForQuery. Portals live until
the Sync that ends their transaction, as in PostgreSQL.

Nothing here waits for a client. `run` is a generator: its caller sends the pieces, at the client's speed. An empty
piece means that a statement waits for an advisory lock and continues when the next piece is taken, a little later.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from tsdb.database import DatabasePort, note_text
from tsdb.errors import InvalidArguments, TsdbError, Unsupported
from tsdb.query import Affected, Output, Session, WriteToken
from tsdb.servers._failures import log_failure
from tsdb.servers.postgres import _messages as m
from tsdb.servers.postgres._copy import copied_query, copy_out, parse_copy_options
from tsdb.servers.postgres._copy_in import CopyIn
from tsdb.servers.postgres._errors import (
    PgError,
    ProtocolViolation,
    error_fields,
    internal_error_fields,
)
from tsdb.servers.postgres._fast import FastRequest, find_request
from tsdb.servers.postgres._lock_wait import LockWait
from tsdb.servers.postgres._portals import Portal, PostgresStatement, expand_formats
from tsdb.servers.postgres._settings import SessionSettings
from tsdb.servers.postgres._tags import command_tag
from tsdb.servers.postgres._transaction import TransactionStatus
from tsdb.servers.postgres._tuning import PostgresTuning
from tsdb.servers.postgres._types import column_heads, encode_rows, style_of
from tsdb.sql import Parsed, parse
from tsdb.sql import statements as s
from tsdb.sql.statements import Dialect
from tsdb.telemetry import counter, fail_span, get_logger

PREPARED_MAX = 10_000
"""How many statements a connection may keep prepared."""
PORTALS_MAX = 1_000
"""How many portals a connection may have open."""

_log = get_logger("tsdb.postgres")
_STATEMENTS = counter(
    "tsdb_servers_postgres_statements_total",
    "Statements of PostgreSQL clients, by protocol (simple, extended) and outcome.",
    labels=("protocol", "outcome"),
)
_DESCRIBED_BY_RUNNING = (s.Query, s.Show, s.Describe, s.Tql, s.Explain)

WAITING = b""
"""The piece that says that a statement waits."""

Pieces = Iterator[bytes]


class Backend:
    """The prepared statements and portals of a connection. Used by one thread at a time; `close` it in the end."""

    def __init__(
        self, database: DatabasePort, session: Session, settings: SessionSettings, tuning: PostgresTuning
    ) -> None:
        self._database = database
        self.session = session
        self._settings = settings
        self._tuning = tuning
        self._lock_wait = LockWait(session)
        self._prepared: dict[str, PostgresStatement] = {}
        self._portals: dict[str, Portal] = {}
        self._transaction = TransactionStatus()
        self._is_skipping = False
        self._copying: CopyIn | None = None
        self._copies_simply = False
        self._handlers: dict[int, Callable[[bytes], Pieces]] = {
            ord("P"): self._parse,
            ord("B"): self._bind,
            ord("D"): self._describe,
            ord("E"): self._execute,
            ord("C"): self._close,
        }

    def run(self, messages: Sequence[m.Message]) -> Generator[bytes, None, None]:
        """Answer messages in their order; ProtocolViolation when the client violates the protocol."""
        for message in messages:
            if self._copying is not None and message.tag in b"dcfSH":
                yield from self._take_copy(self._copying, message)
            elif message.tag == ord("Q"):
                yield from self._query(message.body)
            elif message.tag == ord("S"):
                self._sync()
                yield self._transaction.ready()
            elif message.tag in self._handlers:
                if not self._is_skipping:
                    yield from self._handle(message)
            elif message.tag == ord("F"):
                yield m.error(error_fields(PgError("0A000", "function calls are not supported", hint="use SELECT")))
                yield self._transaction.ready()
            elif message.tag not in b"Hdcf":
                # What is left of a COPY that failed, and Flush, need no answer.
                raise ProtocolViolation(f"invalid frontend message type {message.tag}")

    def refuse(self, messages: Sequence[m.Message], error: TsdbError) -> bytes:
        """Answer messages that cannot be worked on now."""
        pieces = []
        for message in messages:
            if message.tag in b"QF":
                pieces += [self._fail(error, None, "simple"), self._transaction.ready()]
            elif message.tag == ord("S"):
                self._sync()
                pieces.append(self._transaction.ready())
            elif message.tag in self._handlers and not self._is_skipping:
                self._is_skipping = True
                pieces.append(self._fail(error, None, "extended"))
        return b"".join(pieces)

    # Queries that a fast worker computes ------------------------------------------------------------------------------

    def find_fast(self, messages: Sequence[m.Message]) -> FastRequest | None:
        """Return what a fast worker can perhaps answer, if messages ask for one query and nothing else."""
        if self._copying is not None or self._is_skipping:
            return None
        return find_request(messages, self._prepared, self._database, self.session, self._transaction.letter)

    def end_fast(self, request: FastRequest, outcome: bytes | TsdbError) -> bytes:
        """Change the state as if the messages had been answered here; returns the answer."""
        self._drop_portal("")
        if request.is_simple:
            self._prepared.pop("", None)
        elif request.statement is not None:
            self._prepared[""] = request.statement
        protocol = "simple" if request.is_simple else "extended"
        if isinstance(outcome, TsdbError):
            failed = self._fail(outcome, request.text, protocol)
            outcome = request.encode.before + failed + self._transaction.ready()
        else:
            _STATEMENTS.labels(protocol, "ok").inc()
        self._end_transaction_if_idle()
        return outcome

    @property
    def is_copying(self) -> bool:
        """Whether the rows of a COPY are on their way."""
        return self._copying is not None

    @property
    def timeout_seconds(self) -> float | None:
        """How long a statement may take, None if that is not limited."""
        return self.session.timeout.seconds if self.session.timeout else None

    def cancel(self) -> None:
        """Stop what runs; from any thread."""
        self._database.cancel(self.session)

    def close(self) -> None:
        """Close everything that is open."""
        self._close_portals()
        for cursor in self.session.cursors.values():
            cursor.records.close()
        self.session.cursors.clear()
        self._lock_wait.close()

    # Errors -----------------------------------------------------------------------------------------------------------

    def _fail(self, error: Exception, text: str | None, protocol: str) -> bytes:
        """Note that a statement has failed, and say how."""
        _STATEMENTS.labels(protocol, "error").inc()
        fail_span(error)
        self._transaction.note_failure()
        if not isinstance(error, TsdbError):
            _log.error("a statement failed unexpectedly", statement=(text or "")[:200], exc_info=error)
            return m.error(internal_error_fields())
        if text is not None:
            note_text(error, text)
        log_failure(_log, error)
        return m.error(error_fields(error, text=text))

    def _handle(self, message: m.Message) -> Pieces:
        """Answer a message of the extended protocol."""
        try:
            yield from self._handlers[message.tag](message.body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client hears of it and the connection lives
            self._is_skipping = True
            yield self._fail(error, None, "extended")

    # Simple protocol --------------------------------------------------------------------------------------------------

    def _query(self, body: bytes) -> Pieces:
        text = None
        self._is_skipping = False
        self._drop_portal("")
        self._prepared.pop("", None)
        try:
            text = m.parse_query(body)
            found = parse(text, Dialect.POSTGRESQL)
            if not found:
                yield m.EMPTY_QUERY
            for number, parsed in enumerate(found, 1):
                yield from self._answer(parsed)
                _STATEMENTS.labels("simple", "ok").inc()
                if self._copying is not None:
                    if number < len(found):
                        raise Unsupported("COPY … FROM STDIN must be the last statement of its text")
                    self._copies_simply = True
                    return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client hears of it and the connection lives
            self._end_copy()
            yield self._fail(error, text, "simple")
        self._end_transaction_if_idle()
        yield self._transaction.ready()

    def _answer(self, parsed: Parsed) -> Pieces:
        """Run one statement of the simple protocol."""
        portal = Portal(parsed, _UNPREPARED, ())
        with closing(portal):
            if not portal.is_copy and not self._is_own(parsed):
                output = yield from self._begin(portal)
                if not isinstance(output, Affected):
                    yield m.row_description(column_heads(output.schema), portal.formats)
            yield from self._complete(portal, 0)

    # Extended protocol ------------------------------------------------------------------------------------------------

    def _parse(self, body: bytes) -> Pieces:
        request = m.parse_parse(body)
        if request.name and request.name in self._prepared:
            raise PgError("42P05", f'prepared statement "{request.name}" already exists')
        if len(self._prepared) >= PREPARED_MAX:
            raise PgError("53400", f"a connection keeps at most {PREPARED_MAX} prepared statements")
        try:
            self._prepared[request.name] = PostgresStatement.of(request.text, request.types)
        except TsdbError as error:
            self._is_skipping = True
            yield self._fail(error, request.text, "extended")
            return
        yield m.PARSE_COMPLETE

    def _bind(self, body: bytes) -> Pieces:
        bind = m.parse_bind(body)
        prepared = self._find_prepared(bind.statement)
        if bind.portal and bind.portal in self._portals:
            raise PgError("42P03", f'portal "{bind.portal}" already exists')
        if len(self._portals) >= PORTALS_MAX:
            raise PgError("53400", f"a connection has at most {PORTALS_MAX} portals")
        parsed = prepared.bound(bind, self._database, self.session)
        self._drop_portal(bind.portal)
        self._portals[bind.portal] = Portal(parsed, prepared, bind.result_formats)
        yield m.BIND_COMPLETE

    def _describe(self, body: bytes) -> Pieces:
        kind, name = m.parse_target(body)
        if kind == "S":
            yield from self._describe_statement(self._find_prepared(name))
            return
        if name not in self._portals and name in self.session.cursors:
            # A cursor of DECLARE is a portal to PostgreSQL's clients.
            schema = self.session.cursors[name].records.schema
            yield m.row_description(column_heads(schema), [False] * len(schema))
            return
        yield from self._describe_portal(self._find_portal(name))

    def _describe_statement(self, prepared: PostgresStatement) -> Pieces:
        yield m.parameter_description(prepared.oids(self._database, self.session))
        parsed = prepared.described(self._database, self.session)
        schema = None
        if parsed is not None and not self._is_own(parsed):
            schema = self._database.schema_of(parsed, self.session)
        if schema is None:
            yield m.NO_DATA
            return
        prepared.heads = tuple(column_heads(schema))
        yield m.row_description(prepared.heads, [False] * len(prepared.heads))

    def _describe_portal(self, portal: Portal) -> Pieces:
        schema = None
        if portal.parsed is None or self._is_own(portal.parsed) or portal.is_copy:
            pass
        elif isinstance(portal.parsed.statement, _DESCRIBED_BY_RUNNING):
            output = yield from self._begin(portal)
            schema = None if isinstance(output, Affected) else output.schema
        else:
            schema = self._database.schema_of(portal.parsed, self.session)
        if schema is None:
            yield m.NO_DATA
        else:
            yield m.row_description(column_heads(schema), expand_formats(portal.result_formats, len(schema)))

    def _execute(self, body: bytes) -> Pieces:
        name, limit = m.parse_execute(body)
        portal = self._find_portal(name)
        if portal.parsed is None:
            yield m.EMPTY_QUERY
            return
        yield from self._complete(portal, limit)
        _STATEMENTS.labels("extended", "ok").inc()

    def _close(self, body: bytes) -> Pieces:
        kind, name = m.parse_target(body)
        if kind == "S":
            self._prepared.pop(name, None)
        else:
            self._drop_portal(name)
        yield m.CLOSE_COMPLETE

    def _sync(self) -> None:
        self._is_skipping = False
        self._end_transaction_if_idle()

    def _find_prepared(self, name: str) -> PostgresStatement:
        found = self._prepared.get(name)
        if found is None:
            which = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise PgError("26000", f"{which} does not exist")
        return found

    def _find_portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise PgError("34000", f'portal "{name}" does not exist')
        return found

    def _drop_portal(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None:
            portal.close()

    def _close_portals(self) -> None:
        while self._portals:
            self._portals.popitem()[1].close()

    def _end_transaction_if_idle(self) -> None:
        if self._transaction.is_idle:
            self._close_portals()
            self._lock_wait.end_transaction()

    # Statements -------------------------------------------------------------------------------------------------------

    def _begin(self, portal: Portal) -> Generator[bytes, None, Output]:
        """Run a statement; waits while another connection has an advisory lock that it takes."""
        if portal.output is None:
            self._lock_wait.begin_statement()
        while True:
            try:
                return portal.begin(self._database, self.session)
            except TsdbError as error:
                self._lock_wait.retry(error)
            yield WAITING

    def _rows(self, portal: Portal, limit: int) -> Iterator[pa.RecordBatch | None]:
        """Yield the rows of a portal; None while another connection has an advisory lock."""
        while True:
            try:
                portal.begin(self._database, self.session)
                yield from portal.batches(limit)
                return
            except TsdbError as error:
                self._lock_wait.retry(error)
                portal.reset()
            yield None

    def _complete(self, portal: Portal, limit: int) -> Pieces:
        """Send the rows of a portal and its end, or what else its statement answers."""
        assert portal.parsed is not None
        statement = portal.parsed.statement
        if self._is_own(portal.parsed):
            yield from self._run_own(portal.parsed)
            return
        if isinstance(statement, s.Copy) and portal.is_copy:
            yield from self._copy_out(statement) if statement.direction == "to" else self._copy_in(statement)
            return
        # Before it runs: what it runs may take the prepared statement away.
        statement = self._database.executed(statement, self.session)
        output = yield from self._begin(portal)
        if isinstance(output, Affected):
            yield from self._settings.changes(self.session, statement)
            yield m.command_complete(command_tag(statement, output.rows))
            return
        rows = 0
        for batch in self._rows(portal, limit):
            if batch is None:
                yield WAITING
                continue
            rows += batch.num_rows
            yield from encode_rows(batch, portal.formats, style_of(self.session))
        if limit and rows >= limit:
            yield m.PORTAL_SUSPENDED
        else:
            yield m.command_complete(command_tag(statement, rows))

    def _copy_out(self, statement: s.Copy) -> Pieces:
        if statement.connection:
            raise InvalidArguments("CONNECTION belongs to COPY with a path")
        options = parse_copy_options(statement)
        records = self._database.run_parsed(copied_query(statement), self.session)
        assert not isinstance(records, Affected), "a query answers with rows"
        with closing(records):
            rows = yield from copy_out(records, options, self.session)
        yield m.command_complete(command_tag(statement, rows))

    def _copy_in(self, statement: s.Copy) -> Pieces:
        if statement.connection:
            raise InvalidArguments("CONNECTION belongs to COPY with a path")
        self._copying, self._copies_simply = CopyIn(statement, self._database, self.session, self._tuning), False
        self.session.token = WriteToken()
        yield m.copy_in_response(len(self._copying.columns), is_binary=self._copying.is_binary)

    def _end_copy(self) -> None:
        """Forget a COPY and its write token: a cancellation of it must not stop later statements."""
        self._copying = self.session.token = None

    def _take_copy(self, copying: CopyIn, message: m.Message) -> Pieces:
        """Go on with a COPY from the client. Sync and Flush mean nothing as long as it is under way."""
        protocol = "simple" if self._copies_simply else "extended"
        try:
            if message.tag == ord("d"):
                copying.take(message.body)
                return
            if message.tag == ord("f"):
                why = message.body.rstrip(b"\0").decode("utf-8", "replace")
                raise PgError("57014", f"COPY from stdin failed: {why}")
            if message.tag != ord("c"):
                return
            rows = copying.finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the client hears of it and the connection lives
            self._is_skipping = not self._copies_simply
            yield self._fail(error, None, protocol)
        else:
            yield m.command_complete(command_tag(copying.statement, rows))
        self._end_copy()
        if self._copies_simply:
            self._end_transaction_if_idle()
            yield self._transaction.ready()

    def _is_own(self, parsed: Parsed) -> bool:
        """Whether a statement is about the connection rather than the database."""
        return isinstance(parsed.statement, s.Reset | s.Transaction)

    def _run_own(self, parsed: Parsed) -> Pieces:
        statement = parsed.statement
        if isinstance(statement, s.Transaction):
            yield from self._transaction.change(statement.verb, parsed.text)
        elif isinstance(statement, s.Reset):
            yield from self._reset(statement)
        yield m.command_complete(command_tag(statement, 0))

    def _reset(self, statement: s.Reset) -> Pieces:
        if statement.verb == "unlisten":
            return
        if statement.verb == "discard" and statement.name is None:
            if not self._transaction.is_idle:
                raise PgError("25001", "DISCARD ALL cannot run inside a transaction block")
            self.close()
            self._prepared.clear()
            self.session.prepared.clear()
        if statement.verb == "discard" and statement.name in (None, "temp", "temporary"):
            self.session.views.clear()
        if statement.verb == "reset" or statement.name is None:
            self._settings.reset(self.session, statement.name)
        yield from self._settings.changes(self.session, statement)


_UNPREPARED = PostgresStatement.of("", ())
"""Stands for the statement of a portal of the simple protocol, which describes what it runs itself."""
