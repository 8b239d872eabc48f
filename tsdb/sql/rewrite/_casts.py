"""Casts to types that DataFusion does not know by these names, or takes for others.

    x::INT64                     arrow_cast(x,'Int64')
    CAST(x AS TIMESTAMP)         arrow_cast(x,'Timestamp(ms)')       TIMESTAMP means milliseconds here
    '  2020-01-01   00:00:00'    blanks of a text that becomes a timestamp are put in order

Types whose names mean the same to DataFusion stay, so that their casts do not show in the names of result columns.
"""

from __future__ import annotations

import re

import numpy as np

from tsdb.errors import InvalidSyntax
from tsdb.model import InvalidTimestamp, parse_timestamp
from tsdb.sql.lexer import TokenKind, syntax_error
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._intervals import expand_interval
from tsdb.sql.rewrite._layout import TokenLayout

_ALIASES = {
    "INT16": "Int16",
    "INT32": "Int32",
    "INT64": "Int64",
    "UINT8": "UInt8",
    "UINT16": "UInt16",
    "UINT32": "UInt32",
    "UINT64": "UInt64",
    "FLOAT32": "Float32",
    "FLOAT64": "Float64",
    "BOOL": "Boolean",
    "TINYTEXT": "Utf8",
    "MEDIUMTEXT": "Utf8",
    "LONGTEXT": "Utf8",
    "BINARY": "Binary",
    "VARBINARY": "Binary",
    "BLOB": "Binary",
    "TIMESTAMP_S": "Timestamp(s)",
    "TIMESTAMP_SEC": "Timestamp(s)",
    "TIMESTAMPSECOND": "Timestamp(s)",
    "TIMESTAMP_MS": "Timestamp(ms)",
    "TIMESTAMPMILLISECOND": "Timestamp(ms)",
    "TIMESTAMPTZ": "Timestamp(ms)",
    "TIMESTAMP_US": "Timestamp(µs)",
    "TIMESTAMPMICROSECOND": "Timestamp(µs)",
    "DATETIME": "Timestamp(µs)",
    "TIMESTAMP_NS": "Timestamp(ns)",
    "TIMESTAMPNANOSECOND": "Timestamp(ns)",
    "TIMESTAMP": "Timestamp(ms)",
}
_PRECISIONS = {"0": "Timestamp(s)", "3": "Timestamp(ms)", "6": "Timestamp(µs)", "9": "Timestamp(ns)"}
_UNSIGNED = {
    "TINYINT": "UInt8",
    "SMALLINT": "UInt16",
    "INT2": "UInt16",
    "INT": "UInt32",
    "INTEGER": "UInt32",
    "INT4": "UInt32",
    "BIGINT": "UInt64",
    "INT8": "UInt64",
}
_TIMES = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "DATETIME"})
# What TRY_CAST needs is a name that DataFusion reads.
_PLAIN_NAMES = {
    "Int16": "SMALLINT",
    "Int32": "INT",
    "Int64": "BIGINT",
    "UInt8": "TINYINT UNSIGNED",
    "UInt16": "SMALLINT UNSIGNED",
    "UInt32": "INT UNSIGNED",
    "UInt64": "BIGINT UNSIGNED",
    "Float32": "FLOAT",
    "Float64": "DOUBLE",
    "Boolean": "BOOLEAN",
    "Utf8": "STRING",
    "Binary": "BYTEA",
    "Timestamp(s)": "TIMESTAMP(0)",
    "Timestamp(ms)": "TIMESTAMP(3)",
    "Timestamp(µs)": "TIMESTAMP(6)",
    "Timestamp(ns)": "TIMESTAMP(9)",
}
_BLANKS = re.compile(r"\s+")
_PLAIN = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})?)?")


def is_plain_time(text: str) -> bool:
    """Return whether DataFusion reads a text of a time by itself, as one of UTC."""
    return _PLAIN.fullmatch(text) is not None


def utc_text(text: str, zone: str) -> str | None:
    """Return a text of a time in the form DataFusion reads, in UTC; None for what is none."""
    try:
        nanoseconds = parse_timestamp(text, zone)
    except InvalidTimestamp:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{np.datetime64(seconds, 's')}{fraction}"


def edit_time_literals(layout: TokenLayout, edits: Edits) -> None:
    """Put the text of every `TIMESTAMP '…'` into the form DataFusion reads."""
    for index, word in enumerate(layout.words):
        if word in _TIMES and layout.tokens[index + 1].kind == TokenKind.STRING:
            _edit_literal(layout, edits, index + 1, "Timestamp", word)


def edit_casts(layout: TokenLayout, edits: Edits) -> None:
    """Edit every cast, from the left to the right: of two in a row the second has the first as its operand."""
    for index, token in enumerate(layout.tokens):
        if token.kind == TokenKind.OPERATOR and token.text == "::":
            _edit_operator(layout, edits, index)
        elif layout.words[index] in ("CAST", "TRY_CAST") and layout.is_operator(index + 1, "("):
            _edit_call(layout, edits, index)


def _edit_operator(layout: TokenLayout, edits: Edits, index: int) -> None:
    start = layout.operand_start(index - 1) if index else None
    if start is None:
        return
    name, end = read_type(layout, index + 1)
    layout.operand_starts[end] = start
    tokens = layout.tokens
    _edit_literal(layout, edits, index - 1, name, tokens[index + 1].text.upper())
    if name is None:
        return
    edits.insert(tokens[start].start, "arrow_cast(")
    edits.replace(tokens[index].start, tokens[end].end, f",'{name}')")


def _edit_call(layout: TokenLayout, edits: Edits, index: int) -> None:
    opening = index + 1
    closing = layout.partner.get(opening)
    if closing is None:
        return
    depth = layout.depths[opening + 1]
    marks = [
        each for each in range(opening + 1, closing) if layout.words[each] == "AS" and layout.depths[each] == depth
    ]
    if not marks or marks[-1] + 1 >= closing:
        return
    name, end = read_type(layout, marks[-1] + 1)
    if end + 1 != closing:
        return
    tokens = layout.tokens
    _edit_literal(layout, edits, marks[-1] - 1, name, tokens[marks[-1] + 1].text.upper())
    if name is None:
        return
    if layout.words[index] == "TRY_CAST":
        edits.replace(tokens[marks[-1] + 1].start, tokens[end].end, _PLAIN_NAMES[name])
        return
    edits.replace(tokens[index].start, tokens[index].end, "arrow_cast")
    edits.replace(tokens[marks[-1] - 1].end, tokens[end].end, f",'{name}'")


def cast_text(operand: str, name: str | None, written: str, *, is_try: bool) -> str:
    """Return the text of a cast: to an Arrow type by its name, or to the type as it was written."""
    if is_try:
        return f"TRY_CAST({operand} AS {_PLAIN_NAMES[name] if name is not None else written})"
    return f"CAST({operand} AS {written})" if name is None else f"arrow_cast({operand},'{name}')"


def read_type(layout: TokenLayout, index: int) -> tuple[str | None, int]:
    """Return the Arrow name a type is to be cast to, None to leave the cast alone, and the type's last token."""
    if index >= len(layout.tokens) - 1:
        return None, index
    word = layout.words[index]
    end = index
    arguments: list[str] = []
    if layout.is_operator(index + 1, "(") and index + 1 in layout.partner:
        end = layout.partner[index + 1]
        arguments = [layout.text[start:stop].strip() for start, stop in layout.arguments(index + 1)]
    if layout.words[end + 1] == "UNSIGNED":
        return _UNSIGNED.get(word), end + 1
    if word in _TIMES:
        return _read_timestamp(layout, index, end, arguments)
    if layout.is_operator(end + 1, "["):
        return None, layout.partner.get(end + 1, end)
    if word == "DOUBLE" and layout.words[end + 1] == "PRECISION":
        return None, end + 1
    if word == "CHARACTER" and layout.words[end + 1] == "VARYING":
        return None, end + 1
    return _ALIASES.get(word), end


def _read_timestamp(layout: TokenLayout, index: int, end: int, arguments: list[str]) -> tuple[str | None, int]:
    name = _ALIASES[layout.words[index]]
    if arguments:
        if arguments[0] not in _PRECISIONS or len(arguments) > 1:
            raise _bad_precision(layout, index)
        name = _PRECISIONS[arguments[0]]
    if layout.words[end + 1] in ("WITH", "WITHOUT") and layout.words[end + 2 : end + 4] == ["TIME", "ZONE"]:
        end += 3
    return name, end


def _bad_precision(layout: TokenLayout, index: int) -> InvalidSyntax:
    return syntax_error(layout.text, layout.tokens[index].start, "a timestamp has a precision of 0, 3, 6 or 9")


def _edit_literal(layout: TokenLayout, edits: Edits, index: int, name: str | None, word: str) -> None:
    """Put the text of a literal that is cast into the form DataFusion reads."""
    token = layout.tokens[index]
    if token.kind != TokenKind.STRING or token.text[0] != "'":
        return
    body = token.text[1:-1]
    if word == "INTERVAL":
        wanted = expand_interval(body)
    elif name is not None and name.startswith("Timestamp"):
        wanted = _BLANKS.sub(" ", body.strip())
        wanted = wanted if is_plain_time(wanted) else utc_text(wanted, "UTC") or wanted
    else:
        return
    if wanted != body:
        edits.replace(token.start, token.end, f"'{wanted}'")
