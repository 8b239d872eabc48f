"""CREATE FLOW: a query whose answer is kept up to date in a table."""

from __future__ import annotations

from tsdb.errors import Unsupported
from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.parser._options import parse_with
from tsdb.sql.statements import CreateFlow

_UNITS = frozenset(
    f"{unit}{plural}" for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR") for plural in ("", "S")
)


def parse_create_flow(cursor: TokenCursor, *, or_replace: bool) -> CreateFlow:
    """A flow, behind CREATE [OR REPLACE] FLOW."""
    if_not_exists = cursor.if_not_exists()
    if or_replace and if_not_exists:
        raise Unsupported("CREATE FLOW cannot be both OR REPLACE and IF NOT EXISTS")
    name = cursor.name("the name of a flow", parts_max=2)
    cursor.expect("SINK", "TO")
    sink = cursor.name("the name of the sink table")
    expire_after = _interval(cursor) if _clause(cursor, "EXPIRE", "AFTER") else None
    eval_interval = _interval(cursor) if _clause(cursor, "EVAL", "INTERVAL") else None
    comment = None
    if cursor.accept("COMMENT"):
        cursor.accept_operator("=")
        comment = cursor.string("a comment in quotes")
    options = parse_with(cursor)
    cursor.expect("AS")
    if not (cursor.word in ("SELECT", "WITH", "TQL") or cursor.is_operator("(")):
        cursor.fail("SELECT, WITH or TQL")
    query = cursor.rest("a query")
    return CreateFlow(name, sink, query, or_replace, if_not_exists, expire_after, eval_interval, comment, options)


def _clause(cursor: TokenCursor, first: str, second: str) -> bool:
    if not cursor.accept(first):
        return False
    cursor.expect(second)
    return True


def _interval(cursor: TokenCursor) -> str:
    """A span of time as its text: `'1 h'`, `INTERVAL '1 h'`, `'1 h'::INTERVAL`, `INTERVAL 1 DAY`; seconds when bare."""
    is_interval = cursor.accept("INTERVAL")
    token = cursor.take()
    if token.kind == TokenKind.STRING:
        text = unquote(token, cursor.dialect).strip()
        if cursor.accept_operator("::"):
            cursor.expect("INTERVAL")
            return text
    elif token.kind == TokenKind.NUMBER:
        text = token.text
        if not is_interval:
            return f"{text} seconds"
    else:
        cursor.position -= 1
        cursor.fail("an interval")
    if is_interval and cursor.word in _UNITS:
        return f"{text} {cursor.take().text.lower()}"
    return text
