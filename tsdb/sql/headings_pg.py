"""The names that PostgreSQL gives to unnamed result columns.

A name is found from the outside in: brackets and collations are transparent, a cast takes the name of its operand and
that of the type if it has none, CASE that of its ELSE. `_Name.strength` ranks names: a column or a function (2) goes
before a cast's type or `case` (1).
"""

from __future__ import annotations

from typing import NamedTuple

from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.rewrite import TokenLayout
from tsdb.sql.statements import Dialect

UNNAMED = "?column?"

_TYPES = {
    "int": "int4", "integer": "int4", "bigint": "int8", "smallint": "int2", "float": "float8", "real": "float4",
    "double": "float8", "decimal": "numeric", "boolean": "bool", "char": "bpchar", "character": "bpchar",
    "string": "text",
}  # fmt: skip
_LITERAL_TYPES = frozenset({"INTERVAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ"})
VALUE_WORDS = frozenset({
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER", "CURRENT_ROLE",
    "SESSION_USER", "USER", "CURRENT_CATALOG", "CURRENT_SCHEMA",
})  # fmt: skip
"""Functions that are called without brackets."""
_INTERVAL_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO"})
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "btrim"}
_NAMED_CALLS = frozenset({"EXISTS", "ROW", "ARRAY", "LEFT", "RIGHT"})
_DEPTH_MAX = 32


class _Name(NamedTuple):
    text: str | None
    strength: int
    end: int
    """The token behind the expression."""


class _Other(Exception):
    """An expression that has no name: an operation, a literal, something unknown."""


def pg_heading(layout: TokenLayout, start: int, end: int) -> str:
    """Return the name of the column that an expression between two tokens gives."""
    return _name(layout, start, end, 0)[0] or UNNAMED


def _name(layout: TokenLayout, start: int, end: int, depth: int) -> tuple[str | None, int]:
    """Return the name of a whole expression and its strength."""
    if depth > _DEPTH_MAX or start >= end:
        return None, 0
    try:
        found = _postfix(layout, _primary(layout, start, end, depth), end)
    except _Other:
        return None, 0
    return (found.text, found.strength) if found.end == end else (None, 0)


def _primary(layout: TokenLayout, at: int, end: int, depth: int) -> _Name:
    token, word = layout.tokens[at], layout.words[at]
    if token.kind in (TokenKind.NUMBER, TokenKind.STRING, TokenKind.HEX):
        return _Name(None, 0, at + 1)
    if layout.is_operator(at, "$"):
        return _Name(None, 0, at + 2)
    if layout.is_operator(at, "("):
        return _bracketed(layout, at, depth)
    if word == "CASE":
        return _case(layout, at, end, depth)
    if word in ("CAST", "TRY_CAST") and layout.is_operator(at + 1, "("):
        return _cast(layout, at, depth)
    if word == "ARRAY" and layout.is_operator(at + 1, "["):
        return _Name("array", 2, _closing(layout, at + 1) + 1)
    if word in ("TRUE", "FALSE"):
        return _Name("bool", 1, at + 1)
    if word == "NULL":
        return _Name(None, 0, at + 1)
    if word in _LITERAL_TYPES and layout.tokens[at + 1].kind == TokenKind.STRING:
        return _literal(layout, at, end)
    if word in _NAMED_CALLS and layout.is_operator(at + 1, "("):
        return _Name(word.lower(), 2, _closing(layout, at + 1) + 1)
    if word in VALUE_WORDS and not layout.is_operator(at + 1, "("):
        return _Name(word.lower(), 2, at + 1)
    return _chain(layout, at)


def _chain(layout: TokenLayout, at: int) -> _Name:
    """A column, or the call of a function; either may have a schema or a table before it."""
    if not layout.is_name(at):
        raise _Other
    last = layout.chain_end(at)
    name = unquote(layout.tokens[last], Dialect.POSTGRESQL)
    if not layout.is_operator(last + 1, "("):
        return _Name(name, 2, last + 1)
    if name == "trim":
        name = _TRIMS.get(layout.words[last + 2], "btrim")
    return _Name(name, 2, _closing(layout, last + 1) + 1)


def _bracketed(layout: TokenLayout, at: int, depth: int) -> _Name:
    closing = _closing(layout, at)
    if layout.words[at + 1] in ("SELECT", "WITH"):
        return _Name(_subquery_name(layout, at + 1, closing, depth), 2, closing + 1)
    if len(layout.arguments(at)) > 1:
        return _Name("row", 2, closing + 1)
    name, strength = _name(layout, at + 1, closing, depth + 1)
    return _Name(name, strength, closing + 1)


def _subquery_name(layout: TokenLayout, at: int, closing: int, depth: int) -> str | None:
    """A subquery is called what its only column is."""
    inside = layout.depths[at]
    select = next(
        (each for each in range(at, closing) if layout.words[each] == "SELECT" and layout.depths[each] == inside), None
    )
    if select is None:
        return None
    last = next(
        (each for each in range(select + 1, closing) if layout.depths[each] == inside and layout.words[each] == "FROM"),
        closing,
    )
    if last - select > 2 and layout.words[last - 2] == "AS":
        return unquote(layout.tokens[last - 1], Dialect.POSTGRESQL)
    return _name(layout, select + 1, last, depth + 1)[0] or UNNAMED


def _case(layout: TokenLayout, at: int, end: int, depth: int) -> _Name:
    nested, otherwise = 0, None
    for index in range(at, end):
        word = layout.words[index]
        if word == "CASE":
            nested += 1
        elif word == "ELSE" and nested == 1:
            otherwise = index + 1
        elif word == "END":
            nested -= 1
            if not nested:
                name, strength = (None, 0) if otherwise is None else _name(layout, otherwise, index, depth + 1)
                return _Name(name, strength, index + 1) if strength > 1 else _Name("case", 1, index + 1)
    raise _Other


def _cast(layout: TokenLayout, at: int, depth: int) -> _Name:
    closing, inside = _closing(layout, at + 1), layout.depths[at] + 1
    marks = [each for each in range(at + 2, closing) if layout.words[each] == "AS" and layout.depths[each] == inside]
    if not marks:
        raise _Other
    name, strength = _name(layout, at + 2, marks[-1], depth + 1)
    if strength > 1:
        return _Name(name, strength, closing + 1)
    return _Name(_type(layout, marks[-1] + 1)[0], 1, closing + 1)


def _literal(layout: TokenLayout, at: int, end: int) -> _Name:
    behind = at + 2
    while behind < end and layout.words[at] == "INTERVAL" and layout.words[behind] in _INTERVAL_UNITS:
        behind += 1
    return _Name(layout.words[at].lower(), 1, behind)


def _type(layout: TokenLayout, at: int) -> tuple[str, int]:
    """Return PostgreSQL's own name of a type and the token behind it."""
    while layout.is_operator(at + 1, "."):
        at += 2
    token = layout.tokens[at]
    if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        raise _Other
    name = unquote(token, Dialect.POSTGRESQL)
    shown = _TYPES.get(name, name)
    at += 1
    if (name, layout.words[at]) == ("double", "PRECISION"):
        at += 1
    elif (name, layout.words[at]) == ("character", "VARYING"):
        shown, at = "varchar", at + 1
    if layout.is_operator(at, "("):
        at = _closing(layout, at) + 1
    if layout.words[at] in ("WITH", "WITHOUT") and layout.words[at + 1 : at + 3] == ["TIME", "ZONE"]:
        shown += "tz" if layout.words[at] == "WITH" else ""
        at += 3
    while layout.is_operator(at, "["):
        at = _closing(layout, at) + 1
    return shown, at


def _postfix(layout: TokenLayout, found: _Name, end: int) -> _Name:
    """Take what may stand behind an operand without being an operation."""
    while found.end < end:
        at = found.end
        word = layout.words[at]
        if layout.is_operator(at, "::"):
            kind, behind = _type(layout, at + 1)
            found = found._replace(end=behind) if found.strength > 1 else _Name(kind, 1, behind)
        elif layout.is_operator(at, "["):
            found = found._replace(end=_closing(layout, at) + 1)
        elif layout.is_operator(at, ".") and layout.is_name(at + 1):
            found = _Name(unquote(layout.tokens[at + 1], Dialect.POSTGRESQL), 2, at + 2)
        elif word == "COLLATE":
            found = found._replace(end=layout.chain_end(at + 1) + 1)
        elif layout.words[at : at + 3] == ["AT", "TIME", "ZONE"]:
            found = _Name("timezone", 2, (layout.operand_end(at + 3) or end - 1) + 1)
        elif word in ("FILTER", "OVER", "WITHIN") or word == "RANGE":
            found = found._replace(end=_clause_end(layout, at))
        elif word == "FILL":
            found = found._replace(end=at + 2)
        else:
            raise _Other
    return found


def _clause_end(layout: TokenLayout, at: int) -> int:
    """Return the token behind FILTER (…), OVER (…), OVER name, WITHIN GROUP (…) or RANGE '5m'."""
    at += 2 if layout.words[at] == "WITHIN" else 1
    return (_closing(layout, at) if layout.is_operator(at, "(") else at) + 1


def _closing(layout: TokenLayout, opening: int) -> int:
    closing = layout.partner.get(opening)
    if closing is None:
        raise _Other
    return closing
