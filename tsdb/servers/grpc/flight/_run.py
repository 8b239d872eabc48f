"""Describes and runs statements of Flight SQL, with their parameters. Blocks."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from tsdb.database import DatabasePort
from tsdb.errors import InvalidArguments, InvalidSyntax, Unsupported
from tsdb.query import Affected, Output, PlanQuery, Records, Session, TableMissing, read_all
from tsdb.servers.grpc.flight._codec import Compression, encode_stream
from tsdb.servers.grpc.flight._prepared import FlightStatement, check_width
from tsdb.servers.grpc.flight._tickets import StatementTicket, encode_rows
from tsdb.sql import Parsed, parse
from tsdb.sql.statements import SetMany, SetVariable, Use
from tsdb.sql.template import PARAMETERS_TABLE, StatementTemplate

QUERY_ROWS_MAX = 1_000
"""How many rows of values a query may be run with: it runs once for each."""

NO_COLUMNS = pa.schema([])


@dataclass(frozen=True, slots=True)
class StatementInfo:
    """What GetFlightInfo returns for a statement."""

    schema: pa.Schema
    ticket: StatementTicket
    rows: int = -1
    """How many there are, or how many a statement without rows has changed; -1 is not known."""


def parse_one(text: str, session: Session) -> Parsed:
    """Parse a text of exactly one statement."""
    found = parse(text, session.dialect)
    if len(found) != 1:
        raise InvalidSyntax(f"expected one statement, found {len(found)}", hint="send them one by one")
    _refuse_session_change(found[0])
    return found[0]


def _refuse_session_change(parsed: Parsed) -> None:
    """Every call is a session of its own: a statement that only changes the session would have no effect."""
    match parsed.statement:
        case Use():
            header = "x-tsdb-db-name"
        case SetVariable(name="time_zone"):
            header = "x-tsdb-timezone"
        case SetMany(settings) if any(setting.name == "time_zone" for setting in settings):
            header = "x-tsdb-timezone"
        case _:
            return
    raise Unsupported("there are no sessions: this statement would have no effect", hint=f"send the header {header}")


def describe(text: str, database: DatabasePort, session: Session) -> pa.Schema:
    """Return the columns a statement answers with, none if it answers without rows. Nothing is changed."""
    schema = database.schema_of(parse_one(text, session), session)
    return NO_COLUMNS if schema is None else schema


def begin(text: str, database: DatabasePort, session: Session) -> StatementInfo:
    """Prepare the answer of a statement; one that answers without rows is run."""
    parsed = parse_one(text, session)
    schema = database.schema_of(parsed, session)
    if schema is not None:
        return StatementInfo(schema, _ticket((text,), session))
    return _finish(database.run_parsed(parsed, session), session)


def _finish(output: Output, session: Session) -> StatementInfo:
    if isinstance(output, Affected):
        return StatementInfo(NO_COLUMNS, _ticket((), session), output.rows)
    table = read_all(output)
    return StatementInfo(table.schema, replace(_ticket((), session), rows=encode_rows(table)), table.num_rows)


def _ticket(texts: tuple[str, ...], session: Session) -> StatementTicket:
    return StatementTicket(secrets.token_hex(8), texts, session.database, session.time_zone)


def begin_prepared(prepared: FlightStatement, database: DatabasePort, session: Session) -> StatementInfo:
    """Prepare the answer of a statement with the values that are bound to it."""
    template, values = prepared.template, prepared.bound
    if not template.places:
        return begin(template.text, database, session)
    if values is None:
        raise InvalidArguments(f"the statement takes {template.count} values, none are bound")
    if database.schema_of(parse_one(template.with_nulls(), session), session) is None:
        return StatementInfo(NO_COLUMNS, _ticket((), session), update(template, values, database, session))
    if not 1 <= values.num_rows <= QUERY_ROWS_MAX:
        raise InvalidArguments(f"a query takes 1 to {QUERY_ROWS_MAX} rows of values, {values.num_rows} are bound")
    texts = tuple(template.with_row(row) for row in _rows(values))
    schema = database.schema_of(parse_one(texts[0], session), session)
    return StatementInfo(NO_COLUMNS if schema is None else schema, _ticket(texts, session))


def describe_prepared(template: StatementTemplate, database: DatabasePort, session: Session) -> pa.Schema | None:
    """Return the columns of a statement as far as they are known without its values; None if it has none."""
    parsed = parse_one(template.with_nulls(), session)
    try:
        return database.schema_of(parsed, session)
    except TableMissing:
        raise
    except PlanQuery:
        if not template.places:
            raise
        return None  # depends on the values


def update(template: StatementTemplate, values: pa.Table | None, database: DatabasePort, session: Session) -> int:
    """Run a statement for each row of values, or once if it takes none; how many rows it changed."""
    if values is None or not template.places:
        check_width(template, 0 if values is None else values.num_columns)
        return run_update(template.text, database, session)
    check_width(template, values.num_columns)
    text = template.as_insert_select()
    if text is None:
        return sum(run_update(template.with_row(row), database, session) for row in _rows(values))
    named = values.rename_columns([f"p{number}" for number in range(values.num_columns)])
    return sum(_affected(each) for each in database.execute(text, session, tables={PARAMETERS_TABLE: named}))


def run_update(text: str, database: DatabasePort, session: Session) -> int:
    """Run one statement; how many rows it changed, or answers with."""
    return _affected(database.run_parsed(parse_one(text, session), session))


def _affected(output: Output) -> int:
    if isinstance(output, Affected):
        return output.rows
    output.close()
    return -1


def _rows(values: pa.Table) -> Iterator[list[pa.Scalar]]:
    for batch in values.to_batches():
        for row in range(batch.num_rows):
            yield [column[row] for column in batch.columns]


def read_ticket(
    ticket: StatementTicket, database: DatabasePort, session: Session, compression: Compression | None
) -> Generator[bytes, None, None]:
    """Yield the messages of the rows that a ticket stands for."""
    if ticket.rows:
        table = ticket.read_rows()
        yield from encode_stream(table.schema, table.to_batches(), compression)
        return
    if not ticket.texts:
        yield from encode_stream(NO_COLUMNS, (), compression)
        return
    first = database.run_parsed(parse_one(ticket.texts[0], session), session)
    if isinstance(first, Affected):
        raise InvalidArguments("the ticket is not one of this server")
    with closing(first):
        yield from encode_stream(first.schema, _batches(first, ticket.texts[1:], database, session), compression)


def _batches(
    first: Records, texts: tuple[str, ...], database: DatabasePort, session: Session
) -> Iterator[pa.RecordBatch]:
    yield from first
    for text in texts:
        following = database.run_parsed(parse_one(text, session), session)
        if isinstance(following, Affected):
            raise InvalidArguments("the ticket is not one of this server")
        with closing(following):
            for batch in following:
                yield _alike(batch, first.schema)


def _alike(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring the rows of a later run to the columns of the first: a value may change a type."""
    if batch.schema.equals(schema):
        return batch
    try:
        return pa.record_batch(batch.columns, batch.schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise _Unlike(f"the values of the rows lead to different columns: {error}") from error


class _Unlike(InvalidArguments):
    """The runs of a query with several rows of values do not answer with the same columns."""
