"""SET in all of its spellings.

Every form becomes assignments of texts to names in lower case: `SET TIME ZONE 'x'` and `SET TIMEZONE TO 'x'` both set
`time_zone`, `SET NAMES x` sets `names`, `SET TRANSACTION …` sets `transaction`. A user variable keeps its `@`.
"""

from __future__ import annotations

from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.statements import SetMany, SetVariable

_SCOPES = ("SESSION", "LOCAL", "GLOBAL", "PERSIST", "PERSIST_ONLY")
_ALIASES = {"timezone": "time_zone"}


def parse_set(cursor: TokenCursor) -> SetVariable | SetMany:
    """SET, which the caller has passed, and one assignment or several."""
    settings = [_assignment(cursor)]
    while cursor.accept_operator(","):
        settings.append(_assignment(cursor))
    return settings[0] if len(settings) == 1 else SetMany(tuple(settings))


def _assignment(cursor: TokenCursor) -> SetVariable:
    special = _special(cursor)
    if special is not None:
        return special
    name = _name(cursor)
    if not (cursor.accept_operator("=") or cursor.accept_operator(":=") or cursor.accept("TO")):
        cursor.fail("'=' or TO")
    values = [_value(cursor)]
    while cursor.is_operator(",") and not _begins_assignment(cursor):
        cursor.take()
        values.append(_value(cursor))
    return SetVariable(_ALIASES.get(name, name), tuple(values))


def _special(cursor: TokenCursor) -> SetVariable | None:
    """The forms without `=`."""
    start = cursor.position
    if cursor.word in _SCOPES and not _is_assignment(cursor, 1):
        cursor.take()
    if cursor.accept("TIME", "ZONE"):
        _ = cursor.accept_operator("=") or cursor.accept("TO")
        return SetVariable("time_zone", (_value(cursor),))
    if cursor.word == "NAMES" and not _is_assignment(cursor, 1):
        cursor.take()
        values = [_value(cursor)]
        if cursor.accept("COLLATE"):
            values.append(_value(cursor))
        return SetVariable("names", tuple(values))
    if cursor.accept("CHARACTER", "SET") or (
        cursor.word == "CHARSET" and not _is_assignment(cursor, 1) and cursor.take()
    ):
        return SetVariable("character_set", (_value(cursor),))
    if cursor.word in ("TRANSACTION", "CHARACTERISTICS") and not _is_assignment(cursor, 1):
        cursor.take()
        return SetVariable("transaction", (cursor.rest("a property of transactions").text,))
    cursor.position = start
    return None


def _name(cursor: TokenCursor) -> str:
    """`[SESSION] name`, `@@[session.]name`, `@name`, `a.b`."""
    if cursor.accept_operator("@@"):
        if cursor.word in _SCOPES and cursor.ahead(1).text == ".":
            cursor.take()
            cursor.take()
        return cursor.identifier("the name of a variable").lower()
    if cursor.accept_operator("@"):
        return "@" + cursor.identifier("the name of a variable").lower()
    if cursor.word in _SCOPES and not _is_assignment(cursor, 1):
        cursor.take()
    parts = [cursor.identifier("the name of a variable")]
    while cursor.accept_operator("."):
        parts.append(cursor.identifier("the name of a variable"))
    return ".".join(parts).lower()


def _is_assignment(cursor: TokenCursor, count: int) -> bool:
    """Whether the token `count` places ahead says that what stands before it is a name."""
    token = cursor.ahead(count)
    return token.text in ("=", ":=", ".") or token.word == "TO"


def _begins_assignment(cursor: TokenCursor) -> bool:
    """Whether what follows the comma is another assignment and not another value."""
    count = 1
    if cursor.ahead(count).text in ("@", "@@"):
        return True
    if cursor.ahead(count).word == "NAMES":
        return True
    if cursor.ahead(count).word in _SCOPES:
        count += 1
    while cursor.ahead(count + 1).text == ".":
        count += 2
    return _is_assignment(cursor, count + 1)


def _value(cursor: TokenCursor) -> str:
    """A value as text: a string without its quotes, anything else as written."""
    begin = cursor.position
    cursor.skip_expression(_VALUE_ENDS)
    count = cursor.position - begin
    if count == 0:
        cursor.fail("a value")
    token = cursor.tokens[begin]
    if count == 1 and token.kind in (TokenKind.STRING, TokenKind.QUOTED):
        return unquote(token, cursor.dialect)
    return cursor.slice(begin, cursor.position).text


_VALUE_ENDS = frozenset({"COLLATE"})
