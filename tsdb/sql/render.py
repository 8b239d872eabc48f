"""Statements as text and as JSON: what the endpoints that format and parse SQL answer.

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


_TIGHT_BEFORE = frozenset({",", ")", ".", ";", "::", "]", "["})
_TIGHT_AFTER = frozenset({"(", ".", "::", "[", "@", "@@", "$"})


def _join(tokens: list[Token]) -> str:
    pieces: list[str] = []
    before: Token | None = None
    is_after_sign = False
    for token in tokens[:-1]:
        if before is not None and not is_after_sign and _needs_blank(before, token):
            pieces.append(" ")
        pieces.append(token.text.upper() if token.word in KEYWORDS else token.text)
        is_after_sign = _is_sign(before, token)
        before = token
    return "".join(pieces)


def _needs_blank(before: Token, token: Token) -> bool:
    if token.kind == TokenKind.OPERATOR and token.text in _TIGHT_BEFORE:
        return False
    if before.kind == TokenKind.OPERATOR and before.text in _TIGHT_AFTER:
        return False
    # A call keeps its parenthesis where the user put it: `count(x)`, but `IN (1, 2)`.
    is_call = token.text == "(" and before.kind in (TokenKind.WORD, TokenKind.QUOTED) and before.end == token.start
    return not is_call


def _is_sign(before: Token | None, token: Token) -> bool:
    """Whether a `-` or `+` belongs to the number behind it."""
    if token.kind != TokenKind.OPERATOR or token.text not in ("-", "+"):
        return False
    if before is None or before.word in KEYWORDS:
        return True
    return before.kind == TokenKind.OPERATOR and before.text not in (")", "]", "-", "+")


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
