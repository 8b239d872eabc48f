"""Statements with places for values: PREPARE, EXECUTE, DEALLOCATE."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tsdb.database._services import Services
from tsdb.errors import InvalidArguments
from tsdb.query import Affected, Session
from tsdb.sql import Dialect, parse, tokenize
from tsdb.sql.lexer import TokenKind
from tsdb.sql.statements import Deallocate, Prepare

PREPARED_MAX = 1_000


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
