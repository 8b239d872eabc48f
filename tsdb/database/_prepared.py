"""Statements with places for values: PREPARE, EXECUTE, DEALLOCATE, and the cursors of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from tsdb.database._headings import with_headings
from tsdb.database._services import Services
from tsdb.errors import InvalidArguments
from tsdb.query import Affected, Output, Records, Session, TableRecords
from tsdb.sql import Dialect, parse, tokenize
from tsdb.sql.lexer import TokenKind
from tsdb.sql.statements import CloseCursor, Deallocate, DeclareCursor, FetchCursor, Prepare

PREPARED_MAX = 1_000
CURSORS_MAX = 100


def prepare(statement: Prepare, services: Services, session: Session) -> Affected:
    """Keep a statement for later; it must be one that can be read."""
    if len(session.prepared) >= PREPARED_MAX and statement.name not in session.prepared:
        raise InvalidArguments(f"a session keeps at most {PREPARED_MAX} prepared statements", hint="DEALLOCATE some")
    parse(_with_values(statement.text, _nulls(statement.text, session.dialect), session.dialect), session.dialect)
    session.prepared[statement.name] = statement.text
    return Affected(0)


def executed_text(name: str, arguments: Sequence[str], session: Session) -> str:
    """Return the text of a prepared statement with values in its places."""
    text = session.prepared.get(name)
    if text is None:
        raise InvalidArguments(f"Prepared statement {name} does not exist", hint="PREPARE it first")
    places = _places(text, session.dialect)
    wanted = max((number for _, _, number in places), default=0)
    if wanted != len(arguments):
        raise InvalidArguments(f"the statement {name} takes {wanted} values, {len(arguments)} were given")
    return _with_values(text, arguments, session.dialect)


def deallocate(statement: Deallocate, services: Services, session: Session) -> Affected:
    if statement.name is None:
        session.prepared.clear()
    elif session.prepared.pop(statement.name, None) is None:
        raise InvalidArguments(f"Prepared statement {statement.name} does not exist")
    return Affected(0)


def _places(text: str, dialect: Dialect) -> list[tuple[int, int, int]]:
    """Start, end and number (from 1) of every `?` and `$n`."""
    tokens, places, count = tokenize(text, dialect), [], 0
    for token, following in pairwise(tokens):
        if token.kind != TokenKind.OPERATOR:
            continue
        if token.text == "?":
            count += 1
            places.append((token.start, token.end, count))
        elif token.text == "$" and following.kind == TokenKind.NUMBER and following.start == token.end:
            places.append((token.start, following.end, int(following.text)))
    return places


def _nulls(text: str, dialect: Dialect) -> list[str]:
    return ["NULL"] * max((number for _, _, number in _places(text, dialect)), default=0)


def _with_values(text: str, values: Sequence[str], dialect: Dialect) -> str:
    pieces, at = [], 0
    for start, end, number in _places(text, dialect):
        pieces += [text[at:start], values[number - 1]]
        at = end
    return "".join([*pieces, text[at:]])


@dataclass(slots=True)
class Cursor:
    """A query that is read piece by piece."""

    records: Records
    batches: Iterator[pa.RecordBatch]
    rest: list[pa.RecordBatch] = field(default_factory=list)

    def fetch(self, count: int) -> pa.Table:
        taken: list[pa.RecordBatch] = []
        while count > 0:
            if not self.rest:
                following = next(self.batches, None)
                if following is None:
                    break
                self.rest.append(following)
            batch = self.rest.pop()
            taken.append(batch.slice(0, count))
            if batch.num_rows > count:
                self.rest.append(batch.slice(count))
            count -= taken[-1].num_rows
        return pa.Table.from_batches(taken, self.records.schema)


def declare_cursor(statement: DeclareCursor, services: Services, session: Session) -> Affected:
    if statement.name in session.cursors:
        raise InvalidArguments(f"Cursor {statement.name} already exists")
    if len(session.cursors) >= CURSORS_MAX:
        raise InvalidArguments(f"a session has at most {CURSORS_MAX} cursors", hint="CLOSE some")
    text = statement.query.text
    records = with_headings(services.queries.query(text, session), text, session)
    session.cursors[statement.name] = Cursor(records, iter(records))
    return Affected(0)


def fetch_cursor(statement: FetchCursor, services: Services, session: Session) -> Output:
    return TableRecords(_cursor(statement.name, session).fetch(statement.count))


def cursor_schema(name: str, session: Session) -> pa.Schema:
    """The columns of what a cursor reads."""
    return _cursor(name, session).records.schema


def close_cursor(statement: CloseCursor, services: Services, session: Session) -> Affected:
    if statement.name is None:
        close_cursors(session)
        return Affected(0)
    _cursor(statement.name, session).records.close()
    del session.cursors[statement.name]
    return Affected(0)


def close_cursors(session: Session) -> None:
    """Let go of all cursors of a session."""
    while session.cursors:
        _, cursor = session.cursors.popitem()
        cursor.records.close()


def _cursor(name: str, session: Session) -> Cursor:
    cursor = session.cursors.get(name)
    if not isinstance(cursor, Cursor):
        raise InvalidArguments(f"Cursor {name} does not exist")
    return cursor
