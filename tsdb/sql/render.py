"""Statements as text and as JSON, for the endpoints that format and parse SQL.

Formatting changes white space, comments and the case of keywords, nothing else: names, strings and numbers stay as they
were written.
"""

from __future__ import annotations

import dataclasses
from enum import Enum

from tsdb.model import DataType
from tsdb.sql.keywords import KEYWORDS
from tsdb.sql.lexer import Token, TokenKind, tokenize
from tsdb.sql.parser import parse
from tsdb.sql.statements import Dialect, Explain, Statement, Tql


def format_statement(text: str, dialect: Dialect = Dialect.GENERIC) -> str:
    """Return the statements of a text, one per line, each with a `;`: keywords in capitals, single blanks."""
    lines = []
    for parsed in parse(text, dialect):
        tql = _tql_of(parsed.statement)
        body = "" if tql is None else _tql_tail(tql)
        source = parsed.text if tql is None else parsed.text[: parsed.text.index(tql.promql.text)]
        lines.append(_join(tokenize(source, dialect)) + body + ";")
    return "\n".join(lines)


def _tql_of(statement: Statement) -> Tql | None:
    if isinstance(statement, Explain):
        statement = statement.statement
    return statement if isinstance(statement, Tql) else None


def _tql_tail(tql: Tql) -> str:
    """PromQL as it was written and the alias behind it."""
    if tql.alias is None:
        return f" {tql.promql.text}"
    is_plain = tql.alias.isidentifier() and tql.alias == tql.alias.lower()
    return f" {tql.promql.text} AS " + (tql.alias if is_plain else '"' + tql.alias.replace('"', '""') + '"')


_CLOSING = frozenset({",", ")", "]", ";"})
_OPENING = frozenset({"(", "["})
_MARKS = frozenset({"@", "@@", "$"})
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def _join(tokens: list[Token]) -> str:
    pieces: list[str] = []
    before: Token | None = None
    is_behind_sign = False
    for token in tokens[:-1]:
        is_tight = before is None or _is_tight(before, token) or (is_behind_sign and token.kind == TokenKind.NUMBER)
        pieces.append("" if is_tight else " ")
        pieces.append(token.text.upper() if token.word in KEYWORDS else token.text)
        is_behind_sign = _is_sign(before, token)
        before = token
    return "".join(pieces)


def _is_tight(before: Token, token: Token) -> bool:
    """Whether no blank stands between two tokens; never where they would become one."""
    if token.kind == TokenKind.OPERATOR:
        if token.text in _CLOSING:
            return True
        if token.text in (".", "::", "["):
            return before.kind in _NAMES or before.text in (")", "]") or _is_cast_literal(before, token)
        if token.text == "(":
            # A call keeps its parenthesis where the user put it: `count(x)`, but `IN (1, 2)`.
            return (before.kind in _NAMES and before.end == token.start) or before.text in _OPENING
    if before.kind != TokenKind.OPERATOR:
        return False
    if before.text in _OPENING:
        return True
    if before.text in (".", "::"):
        return token.kind in _NAMES or (before.text == "." and token.text == "*")
    return before.text in _MARKS and (token.kind == TokenKind.WORD or before.text == "$")


def _is_cast_literal(before: Token, token: Token) -> bool:
    return token.text == "::" and before.kind != TokenKind.OPERATOR


def _is_sign(before: Token | None, token: Token) -> bool:
    """Whether a `-` or `+` belongs to the number behind it."""
    if token.kind != TokenKind.OPERATOR or token.text not in ("-", "+"):
        return False
    if before is None or before.word in KEYWORDS:
        return True
    return before.kind == TokenKind.OPERATOR and before.text not in (")", "]")


def to_json(statement: object) -> object:
    """Return a statement as plain JSON values; the key `type` names it and each of its parts."""
    if isinstance(statement, DataType):
        return statement.name
    if dataclasses.is_dataclass(statement) and not isinstance(statement, type):
        fields = {each.name: to_json(getattr(statement, each.name)) for each in dataclasses.fields(statement)}
        kept = {"data_type" if name == "type" else name: value for name, value in fields.items()}
        return {"type": type(statement).__name__, **kept}
    if isinstance(statement, Enum):
        return statement.value
    if isinstance(statement, tuple | list | frozenset):
        return [to_json(each) for each in statement]
    return statement
