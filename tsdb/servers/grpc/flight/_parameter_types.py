"""Infers the types of parameters from the text of a statement.

A value that is written to a column, or compared with one, has the type of that column; LIMIT takes an integer. Other
types are unknown, which Arrow calls the null type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from tsdb.errors import TsdbError
from tsdb.model import TableInfo
from tsdb.sql import Dialect, Token, TokenKind
from tsdb.sql.lexer import unquote
from tsdb.sql.template import StatementTemplate, find_cells

FindTable = Callable[[Sequence[str]], TableInfo | None]

_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!="})
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def parameter_schema(template: StatementTemplate, find_table: FindTable) -> pa.Schema:
    """Return a column for each value that a statement takes."""
    if not template.places:
        return pa.schema([])
    tables = _find_tables(template.tokens, find_table)
    cells = _find_cells(template.tokens, tables)
    columns = {name: column.field for table in tables for name, column in table.by_name.items()}
    kinds: dict[int, pa.DataType] = {}
    for place in template.places:
        kind = cells.get(place.token) or _kind_beside(template, place.token, place.end, columns)
        if kind is not None:
            kinds.setdefault(place.number, kind)
    return pa.schema([pa.field(f"${n + 1}", kinds.get(n, pa.null())) for n in range(template.count)])


def _kind_beside(template: StatementTemplate, at: int, end: int, columns: Mapping[str, pa.Field]) -> pa.DataType | None:
    tokens = template.tokens
    if at and tokens[at - 1].word in ("LIMIT", "OFFSET"):
        return pa.int64()
    if at > 1 and (tokens[at - 1].text in _COMPARISONS or tokens[at - 1].word == "BETWEEN"):
        return _kind_of(tokens[at - 2], columns)
    behind = next(index for index in range(at, len(tokens)) if tokens[index].start >= end)
    if behind + 1 < len(tokens) and tokens[behind].text in _COMPARISONS:
        return _kind_of(tokens[behind + 1], columns)
    return None


def _kind_of(token: Token, columns: Mapping[str, pa.Field]) -> pa.DataType | None:
    if token.kind not in _NAMES:
        return None
    field = columns.get(unquote(token, Dialect.GENERIC))
    return None if field is None else field.type


def _find_tables(tokens: Sequence[Token], find_table: FindTable) -> list[TableInfo]:
    """The tables that the text names behind FROM, JOIN and INTO."""
    found = []
    for at, token in enumerate(tokens):
        if token.word in ("FROM", "JOIN", "INTO"):
            parts, _ = _name_at(tokens, at + 1)
            try:
                table = find_table(parts) if 1 <= len(parts) <= 3 else None
            except TsdbError:  # the statement itself will say so
                table = None
            if table is not None:
                found.append(table)
    return found


def _name_at(tokens: Sequence[Token], at: int) -> tuple[list[str], int]:
    """A name of several parts, and the token behind it."""
    parts: list[str] = []
    while at < len(tokens) and tokens[at].kind in _NAMES:
        parts.append(unquote(tokens[at], Dialect.GENERIC))
        at += 1
        if at >= len(tokens) or tokens[at].text != ".":
            break
        at += 1
    return parts, at


def _find_cells(tokens: Sequence[Token], tables: Sequence[TableInfo]) -> dict[int, pa.DataType]:
    """The types of the cells of INSERT … VALUES, by the token that a place begins with."""
    if not tables or tokens[0].word not in ("INSERT", "REPLACE"):
        return {}
    into = next((at for at, token in enumerate(tokens) if token.word == "INTO"), 0)
    _, at = _name_at(tokens, into + 1)
    names = [column.name for column in tables[0].columns]
    if at < len(tokens) and tokens[at].text == "(":
        names = []
        while at < len(tokens) and tokens[at].text != ")":
            if tokens[at].kind in _NAMES:
                names.append(unquote(tokens[at], Dialect.GENERIC))
            at += 1
        at += 1
    found: dict[int, pa.DataType] = {}
    for position, cell in find_cells(tokens, at + 1):
        column = tables[0].by_name.get(names[cell]) if cell < len(names) else None
        if column is not None:
            found[position] = column.type.arrow
    return found
