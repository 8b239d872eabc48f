"""Where the rows of a range query come from, and which column is their time.

A table knows its time index. Of anything else (a subquery, a join, a view) it is the timestamp column that carries the
name of the time index of a table inside, or an alias of it; failing that, the only timestamp column there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from tsdb.errors import InvalidSyntax
from tsdb.query.range._runner import RangeRunner, quote_name
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.range_query import RangeQuery

_NAMES = (TokenKind.WORD, TokenKind.QUOTED)
_JOINS = frozenset({"JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "NATURAL", "SEMI", "ANTI", "ON", "USING"})


@dataclass(frozen=True, slots=True)
class TimeSource:
    """The time of a source."""

    column: str
    """As SQL, to be used beside the source."""
    name: str
    kind: pa.DataType
    qualifiers: frozenset[str]
    """By which names of relations the time may be qualified."""
    tags: tuple[str, ...] | None
    """None when only BY can say how to group."""

    def is_time(self, chain: Sequence[str]) -> bool:
        """Whether a name, taken apart at its points, means the time."""
        return chain[-1] == self.name and (len(chain) == 1 or chain[-2] in self.qualifiers)


def in_scope(query: RangeQuery, text: str) -> str:
    """Return a query over the source of a range query, with the CTEs it may name."""
    for depth, scope in enumerate(reversed(query.scopes)):
        text = f"{scope.text} {text}" if depth == 0 else f"{scope.text} SELECT * FROM ({text}) AS __range_scope"
    return text


def find_source(query: RangeQuery, runner: RangeRunner) -> TimeSource:
    """Find the time of a query's source."""
    tokens = query.source.tokens
    table, rest = _chain(tokens, 0)
    alias, end = _alias(tokens, rest)
    if table and end == len(tokens) and not (len(table) == 1 and _is_cte(query, table[0])):
        written = query.text[tokens[0].start : tokens[rest - 1].end]
        index = runner.time_index(written)
        if index is not None:
            qualifiers = frozenset({alias or table[-1]})
            column = quote_name(index.name, runner.dialect)
            return TimeSource(column, index.name, pa.timestamp(index.unit), qualifiers, index.tags)
    text = query.text[query.source.start : query.source.end]
    schema = runner.schema(in_scope(query, f"SELECT * FROM {text}"))
    if query.by is None:
        raise InvalidSyntax(
            "a range query over anything but a table must say how it groups",
            hint="add BY (columns), or BY () for a single group",
        )
    return _find_in_relation(query, runner, schema)


def _find_in_relation(query: RangeQuery, runner: RangeRunner, schema: pa.Schema) -> TimeSource:
    fields = [field for field in schema if pt.is_timestamp(field.type)]
    known = _known_names(query, runner)
    descended = [field for field in fields if field.name in known]
    if not descended and len({field.name for field in fields}) != 1:
        what = "no column is a timestamp" if not fields else "several columns are timestamps, none a time index"
        raise InvalidSyntax(f"the source of the range query has no time index: {what}")
    field = (descended or fields)[0]
    column = quote_name(field.name, runner.dialect)
    qualifiers = frozenset(_relations(query.source.tokens))
    if sum(each.name == field.name for each in fields) > 1 and (leftmost := _leftmost(query.source.tokens)):
        column = f"{quote_name(leftmost, runner.dialect)}.{column}"
        qualifiers = frozenset({leftmost})
    return TimeSource(column, field.name, field.type, qualifiers, None)


def _known_names(query: RangeQuery, runner: RangeRunner) -> set[str]:
    """Return the names time indexes go by inside the source: their own, and those given to them with AS."""
    known: set[str] = set()
    scopes = [scope.names for scope in query.scopes]
    texts: list[tuple[str, Sequence[Token]]] = [(query.text, query.source.tokens)]
    for text, tokens in texts:
        for position, token in enumerate(tokens[:-1]):
            if token.word not in ("FROM", "JOIN") and position:
                continue
            start = position + 1 if token.word in ("FROM", "JOIN") else position
            table, rest = _chain(tokens, start)
            if not table or (len(table) == 1 and any(table[0] in names for names in scopes)):
                continue
            index = runner.time_index(text[tokens[start].start : tokens[rest - 1].end])
            if index is not None:
                known.add(index.name)
    tokens = query.source.tokens
    for before, word, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word.word == "AS" and before.kind in _NAMES and unquote(before) in known and after.kind in _NAMES:
            known.add(unquote(after))
    return known


def _is_cte(query: RangeQuery, name: str) -> bool:
    return any(name in scope.names for scope in query.scopes)


def _chain(tokens: Sequence[Token], position: int) -> tuple[tuple[str, ...], int]:
    """Read `a.b.c` at a position: its parts and the position behind it; no parts when there is no name."""
    parts: list[str] = []
    while position < len(tokens) and tokens[position].kind in _NAMES:
        parts.append(unquote(tokens[position]))
        position += 1
        if position >= len(tokens) or tokens[position].text != ".":
            break
        position += 1
    if position < len(tokens) and tokens[position].text == "(":
        return (), position
    return tuple(parts), position


def _alias(tokens: Sequence[Token], position: int) -> tuple[str | None, int]:
    start = position + 1 if position < len(tokens) and tokens[position].word == "AS" else position
    if start < len(tokens) and tokens[start].kind in _NAMES and tokens[start].word not in _JOINS:
        return unquote(tokens[start]), start + 1
    return None, position


def _relations(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names by which columns of a source may be qualified."""
    return (unquote(token) for token in tokens if token.kind in _NAMES)


def _leftmost(tokens: Sequence[Token]) -> str | None:
    """Return the name of the first relation of a join."""
    table, position = _chain(tokens, 0)
    if not table and tokens[0].text == "(":
        depth = 0
        for position, token in enumerate(tokens):  # noqa: B007 the position is needed behind the loop
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                break
        position += 1
    alias, _ = _alias(tokens, position)
    return alias or (table[-1] if table else None)
