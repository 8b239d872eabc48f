"""Medians and percentiles of integers, which are integers.

DataFusion answers with a fraction whatever the column is. Here the answer has the type of the values, cut towards
zero; the cast that does it carries a mark, by which the name of the result column is freed of it.

    median(n)       arrow_cast(median(CAST(n AS DECIMAL(20,0))),'Int64 ')
"""

from __future__ import annotations

import re

from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.rewrite._tables import ColumnTypes
from tsdb.sql.statements import Dialect

MEDIANS = frozenset({"MEDIAN", "APPROX_MEDIAN", "APPROX_PERCENTILE_CONT", "APPROX_PERCENTILE_CONT_WITH_WEIGHT"})
_TYPES = {
    "TINYINT": "Int8",
    "SMALLINT": "Int16",
    "INT2": "Int16",
    "INT16": "Int16",
    "INT": "Int32",
    "INTEGER": "Int32",
    "INT4": "Int32",
    "INT32": "Int32",
    "BIGINT": "Int64",
    "INT8": "Int64",
    "INT64": "Int64",
    "UINT8": "UInt8",
    "UINT16": "UInt16",
    "UINT32": "UInt32",
    "UINT64": "UInt64",
}
# Doubles do not hold all of their values; decimals do, and casts to them do not show in names.
_INEXACT = frozenset({"Int64", "UInt64"})
_MARK = re.compile(r',Utf8\("U?Int\d+ "\)\)')
_OPENING = "arrow_cast("


def edit_medians(layout: TokenLayout, edits: Edits, dialect: Dialect, columns: ColumnTypes) -> None:
    """Cast the medians of integers."""
    for index, word in enumerate(layout.words):
        if word not in MEDIANS or not layout.is_call(index):
            continue
        end, (start, stop) = _extent(layout, index)
        kind = _integer_type(layout, start, stop, dialect, columns)
        if kind is not None:
            edits.insert(layout.tokens[index].start, _OPENING)
            edits.insert(layout.tokens[end].end, f",'{kind} ')")
            if word == "MEDIAN" and kind in _INEXACT:
                edits.insert(layout.tokens[start].start, "CAST(")
                edits.insert(layout.tokens[stop].end, " AS DECIMAL(20,0))")


def _extent(layout: TokenLayout, index: int) -> tuple[int, tuple[int, int]]:
    """Return the last token of a call with its clauses, and the tokens of the values it looks at."""
    closing = layout.partner[index + 1]
    start = index + 3 if layout.words[index + 2] == "DISTINCT" else index + 2
    commas = (each for each in range(start, closing) if layout.is_operator(each, ",") and _same(layout, each, start))
    values = (start, next(commas, closing) - 1)
    end = closing
    while True:
        opening = end + 2
        if layout.words[end + 1] == "WITHIN" and layout.words[end + 2] == "GROUP":
            opening = end + 3
            values = _ordered_by(layout, opening)
        elif layout.words[end + 1] not in ("FILTER", "OVER"):
            return end, values
        if layout.is_operator(opening, "(") and opening in layout.partner:
            end = layout.partner[opening]
        elif layout.words[end + 1] == "OVER" and layout.is_name(opening):
            end = opening
        else:
            return end, values


def _same(layout: TokenLayout, index: int, start: int) -> bool:
    return layout.depths[index] == layout.depths[start]


def _ordered_by(layout: TokenLayout, opening: int) -> tuple[int, int]:
    """Return the tokens of the expression in `(ORDER BY x DESC)`."""
    start, closing = opening + 3, layout.partner.get(opening, opening)
    stop = next((each for each in range(start, closing) if layout.words[each] in ("ASC", "DESC", "NULLS")), closing)
    return start, stop - 1


def _integer_type(layout: TokenLayout, start: int, stop: int, dialect: Dialect, columns: ColumnTypes) -> str | None:
    if stop < start:
        return None
    if layout.is_name(start) and layout.chain_end(start) == stop:
        names = [unquote(layout.tokens[each], dialect) for each in range(start, stop + 1, 2)]
        kind = columns.find(names[-2] if len(names) > 1 else None, names[-1])
        return kind.kind.value if kind is not None and kind.is_integer else None
    is_cast = layout.tokens[stop - 1].kind == TokenKind.OPERATOR and layout.tokens[stop - 1].text == "::"
    return _TYPES.get(layout.words[stop]) if is_cast else None


def strip_medians(header: str) -> str:
    """Return the name of a result column without the casts made here."""
    while (match := _MARK.search(header)) is not None:
        start = _opening_of(header, match.start())
        if start is None:
            return header
        header = header[:start] + header[start + len(_OPENING) : match.start()] + header[match.end() :]
    return header


def _opening_of(header: str, end: int) -> int | None:
    """Return where the cast begins whose first argument ends at a place."""
    position = end
    while (position := header.rfind(_OPENING, 0, position)) >= 0:
        inner = header[position + len(_OPENING) : end]
        if inner.count("(") == inner.count(")"):
            return position
    return None
