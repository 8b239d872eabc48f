"""The parts of a range query, as values.

Offsets count characters of `RangeQuery.text`, the whole statement in which the query stands. Expressions stay text;
what must be replaced in them is kept as `CallEdit`s, so that all else reaches the query engine as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tsdb.sql.lexer import Token


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time: `'5m'`, or the expression of an interval in parentheses."""

    text: str
    """The duration without quotes, or the expression without its parentheses."""
    ms: int | None
    """None for an expression."""


class FillKind(StrEnum):
    NULL = "NULL"
    PREV = "PREV"
    LINEAR = "LINEAR"
    CONSTANT = "CONSTANT"


@dataclass(frozen=True, slots=True)
class Fill:
    """The value of a slot whose aggregate is NULL."""

    kind: FillKind
    constant: str = ""
    """The value as text, without quotes."""

    @property
    def label(self) -> str:
        return self.constant if self.kind is FillKind.CONSTANT else self.kind.value


@dataclass(frozen=True, slots=True)
class RangeCall:
    """An aggregate over a range: `max(v) RANGE '1m' FILL 0`."""

    text: str
    """The call alone: `max(v)`."""
    function: str
    """Its name, in lower case unless it was quoted."""
    argument: str | None
    """The text of its only plain argument; None when it has none, several, DISTINCT, an ORDER BY or the like."""
    close: int
    """Offset in `text` of the parenthesis that ends the arguments."""
    has_order: bool
    """Its arguments, or WITHIN GROUP, say in which order rows come."""
    span: Span
    fill: Fill | None
    """Its own, or what the whole query says."""


@dataclass(frozen=True, slots=True)
class CallEdit:
    """A range of text to replace with the result of a call, or to remove."""

    start: int
    end: int
    call: int | None


@dataclass(frozen=True, slots=True)
class RangeExpression:
    """A part of the statement, and the calls in it."""

    start: int
    end: int
    tokens: tuple[Token, ...]
    edits: tuple[CallEdit, ...] = ()

    def render(self, text: str, names: Iterable[str], more: Iterable[tuple[int, int, str]] = ()) -> str:
        """Return the text with every call replaced by the name of its result, and with `more` replacements."""
        called = list(names)
        parts, position = [], self.start
        edits = [(edit.start, edit.end, "" if edit.call is None else called[edit.call]) for edit in self.edits]
        for start, end, replacement in sorted([*edits, *more]):
            parts += [text[position:start], replacement]
            position = end
        parts.append(text[position : self.end])
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the select list."""

    expression: RangeExpression
    alias: str | None
    """As written, quotes included."""


@dataclass(frozen=True, slots=True)
class AlignOrigin:
    """Where slots are counted from: `NOW`, a timestamp in quotes, or an expression."""

    is_now: bool = False
    timestamp: str | None = None
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """The CTEs of one WITH that a query sees."""

    text: str
    """`WITH [RECURSIVE] a AS (…), b AS (…)`."""
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """One SELECT with ALIGN."""

    text: str
    start: int
    end: int
    """The query is `text[start:end]`."""
    is_whole: bool
    """Its result is the statement's result: at most a WITH stands before it, and nothing behind it."""
    scopes: tuple[Scope, ...]
    """From the outside in."""
    quantifier: str
    """`DISTINCT`, `ALL`, … or nothing."""
    items: tuple[Item, ...]
    calls: tuple[RangeCall, ...]
    source: RangeExpression
    where: str | None
    align: Span
    origin: AlignOrigin | None
    by: tuple[RangeExpression, ...] | None
    """None without a BY: the tags of the table."""
    order: RangeExpression | None
    """The contents of ORDER BY."""
    tail: str
    """LIMIT and the like."""

    @property
    def has_fill(self) -> bool:
        return any(call.fill is not None for call in self.calls)
