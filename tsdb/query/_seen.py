"""A cache of statement shapes: a statement of a known shape is neither parsed nor planned again.

    text ─▶ shape ─▶ which literals are those of its conditions ─▶ what the rest means for a table ─▶ new literals in it

What a query without its conditions means depends on its text, on the table and on what the session has chosen; that is
remembered under all of these. Of a condition it is remembered where its literals are, and what each is compared with.
The caller checks each time whether the session may read the table. A literal that does not have the type of its column
is a reason to read the statement after all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from tsdb.engine.reading import Conditions, Node, TagIs
from tsdb.model import NS_PER_UNIT, InvalidTimestamp, Kind, Semantic, TableInfo, TimeRange, check_range, parse_timestamp
from tsdb.query._recent import RecentStatements
from tsdb.query.selection import conjuncts, fit_condition, is_canonical_time
from tsdb.query.session import Session
from tsdb.sql import clauses
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.shape import Shape, find_offsets, find_shape
from tsdb.sql.statements import Dialect
from tsdb.sql.tag_expression import TagExpression

SHAPES_MAX = 1024
"""How many shapes are remembered; the one used longest ago goes first."""

_INT64 = range(-(2**63), 2**63)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Slot:
    """A literal of a condition: which of the text's it is, and what it was."""

    number: int
    literal: clauses.ConditionLiteral

    def fill(self, literals: Sequence[str], dialect: Dialect) -> clauses.ConditionLiteral:
        """Return the literal that stands there now."""
        written = literals[self.number]
        if self.literal.is_string:
            return replace(self.literal, text=unquote(Token(TokenKind.STRING, written, 0, 0), dialect))
        sign = "-" if self.literal.text.startswith("-") else ""
        return replace(self.literal, text=sign + written)

    def text(self, literals: Sequence[str], dialect: Dialect) -> str:
        """Return what a string says."""
        written = literals[self.number]
        if dialect is Dialect.GENERIC:
            return written[1:-1].replace("''", "'") if "''" in written else written[1:-1]
        return unquote(Token(TokenKind.STRING, written, 0, 0), dialect)


@dataclass(frozen=True, slots=True)
class _TimeBound:
    operator: str
    slot: Slot

    def bind(self, literals: Sequence[str], dialect: Dialect, *, unit: str, zone: str) -> TimeRange | None:
        literal = self.slot.literal
        try:
            if not literal.is_string:
                text = self.slot.fill(literals, dialect).text
                if not text.lstrip("-").isdigit():
                    return None
                check_range(int(text), unit)
                return bound_of(self.operator, int(text), 1)
            text = self.slot.text(literals, dialect)
            if literal.is_timestamp and not is_canonical_time(text):
                return None
            nanoseconds = parse_timestamp(text, zone)
        except InvalidTimestamp:
            return None
        if nanoseconds not in _INT64:
            return None
        return bound_of(self.operator, nanoseconds, NS_PER_UNIT[unit])


def bound_of(operator: str, instant: int, unit: int) -> TimeRange:
    """Return the times, in steps of a unit, that compare so with an instant."""
    everything = TimeRange.ALL
    before, rest = divmod(instant, unit)
    first = before + (rest > 0)
    if operator == ">=":
        return TimeRange(first, everything.end)
    if operator == ">":
        return TimeRange(before + 1, everything.end)
    if operator == "<":
        return TimeRange(everything.start, first)
    if operator == "<=":
        return TimeRange(everything.start, before + 1)
    assert operator == "=", operator
    return TimeRange(first, before + 1)


@dataclass(frozen=True, slots=True)
class _TagBound:
    tag: str
    slots: tuple[Slot, ...]


class Where:
    """The conditions of a shape over a table, without their literals."""

    def __init__(
        self, condition: clauses.Condition | None, table: TableInfo, session: Session, numbers: Mapping[int, int]
    ) -> None:
        self._table = table
        self._zone = session.time_zone
        self._dialect = session.dialect
        self._numbers = numbers
        self._times: list[_TimeBound] = []
        self._tags: list[_TagBound] = []
        self._rest: list[clauses.Condition] = []
        self._unit: str = table.time_index.type.arrow.unit
        for part in conjuncts(condition):
            # What is of tags alone belongs to the meaning of a shape: its literals are part of the shape.
            if not isinstance(part, TagExpression):
                self._add(part)

    def _add(self, part: clauses.Condition) -> None:
        column = None
        if not isinstance(part, clauses.Not | clauses.Junction | TagExpression):
            column = self._table.by_name.get(part.column)
        if column is not None and isinstance(part, clauses.Comparison):
            if column is self._table.time_index and part.operator != "<>":
                self._times.append(_TimeBound(part.operator, self._slot(part.literal)))
                return
            if part.operator == "=" and _is_text_tag(column.semantic, column.type.kind):
                part = clauses.Membership(part.column, (part.literal,))
        if isinstance(part, clauses.Membership) and column is not None:
            is_plain = all(each.is_string and not each.is_timestamp for each in part.literals)
            if is_plain and _is_text_tag(column.semantic, column.type.kind):
                self._tags.append(_TagBound(column.name, tuple(self._slot(each) for each in part.literals)))
                return
        self._rest.append(part)

    def _slot(self, literal: clauses.ConditionLiteral) -> Slot:
        return Slot(self._numbers[literal.place], literal)

    def bind(self, literals: Sequence[str]) -> Conditions | None:
        """Return the conditions with other literals; None if one does not have the type of its column."""
        dialect = self._dialect
        span = TimeRange.ALL
        for bound in self._times:
            times = bound.bind(literals, dialect, unit=self._unit, zone=self._zone)
            if times is None:
                return None
            span = span.intersection(times)
        tags = tuple(
            TagIs.one_of(each.tag, [slot.text(literals, dialect) for slot in each.slots]) for each in self._tags
        )
        if not self._rest:
            return Conditions(span, tags, None)
        rest = self._bind_rest(literals)
        return None if rest is None else Conditions(span, tags, rest)

    def _bind_rest(self, literals: Sequence[str]) -> Node | None:
        def fill(literal: clauses.ConditionLiteral) -> clauses.ConditionLiteral:
            return self._slot(literal).fill(literals, self._dialect)

        parts = tuple(_mapped(part, fill) for part in self._rest)
        condition = parts[0] if len(parts) == 1 else clauses.Junction(parts, is_and=True)
        return fit_condition(condition, self._table, self._zone)


def _is_text_tag(semantic: Semantic, kind: Kind) -> bool:
    return semantic is Semantic.TAG and kind is Kind.STRING


def literals_of(condition: clauses.Condition | None) -> list[clauses.ConditionLiteral]:
    """Return all literals of a condition."""
    if condition is None or isinstance(condition, clauses.IsNull | TagExpression):
        return []
    if isinstance(condition, clauses.Comparison | clauses.Match):
        return [condition.literal]
    if isinstance(condition, clauses.Membership):
        return list(condition.literals)
    if isinstance(condition, clauses.Not):
        return literals_of(condition.condition)
    return [literal for part in condition.parts for literal in literals_of(part)]


def shifted(condition: clauses.Condition | None, shift: int) -> clauses.Condition | None:
    """Return a condition whose literals stand further back by so much."""

    def move(literal: clauses.ConditionLiteral) -> clauses.ConditionLiteral:
        return replace(literal, place=literal.place + shift)

    return None if condition is None else _mapped(condition, move)


def _mapped(
    condition: clauses.Condition, change: Callable[[clauses.ConditionLiteral], clauses.ConditionLiteral]
) -> clauses.Condition:
    """Return a condition with other literals."""
    if isinstance(condition, clauses.Comparison | clauses.Match):
        return replace(condition, literal=change(condition.literal))
    if isinstance(condition, clauses.Membership):
        return replace(condition, literals=tuple(change(each) for each in condition.literals))
    if isinstance(condition, clauses.Not):
        return clauses.Not(_mapped(condition.condition, change))
    if isinstance(condition, clauses.Junction):
        return replace(condition, parts=tuple(_mapped(each, change) for each in condition.parts))
    return condition


@dataclass(slots=True, eq=False)
class SeenShape(Generic[T]):
    """What a shape means."""

    name: tuple[str, ...]
    """Of the table, as it was written."""
    table: TableInfo
    where: Where
    meaning: T

    def is_of(self, table: TableInfo | None) -> bool:
        """Return whether the name still stands for the same table, unchanged."""
        if table is self.table:
            return True
        return table is not None and (table.id, table.version) == (self.table.id, self.table.version)


_Key: TypeAlias = tuple[str, tuple[str, ...], str, Dialect, str]
"""Text of the shape, literals that belong to it, database, dialect, time zone."""


class SeenShapes(Generic[T]):
    """What shapes mean. Bounded; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._others: OrderedDict[Hashable, tuple[int, ...]] = OrderedDict()
        """Which literals of a shape are not those of its conditions."""
        self._templates: OrderedDict[_Key, SeenShape[T]] = OrderedDict()
        self.recent = RecentStatements()

    def find(self, text: str, session: Session) -> tuple[SeenShape[T], Shape] | None:
        """Return what a text of a known shape means, and its literals."""
        dialect = session.dialect
        shape = find_shape(text, dialect)
        if shape is None:
            return None
        written = dialect, shape.text
        with self._lock:
            others = self._others.get(written)
            if others is None:
                return None
            key = _key(shape, others, session)
            found = self._templates.get(key)
            if found is None:
                return None
            self._templates.move_to_end(key)
            self._others.move_to_end(written)
        self.recent.note(key, text, session)
        return found, shape

    def remember(
        self,
        text: str,
        session: Session,
        condition: clauses.Condition | None,
        name: tuple[str, ...],
        table: TableInfo,
        meaning: T,
    ) -> None:
        """Keep what a text means; nothing if its literals are not where they were read."""
        shape = find_shape(text, session.dialect)
        if shape is None:
            return
        numbers = {offset: number for number, offset in enumerate(find_offsets(text, session.dialect))}
        places = [literal.place for literal in literals_of(condition)]
        if any(place not in numbers for place in places):
            return
        own = {numbers[place] for place in places}
        others = tuple(number for number in numbers.values() if number not in own)
        template = SeenShape(name, table, Where(condition, table, session, numbers), meaning)
        key = _key(shape, others, session)
        with self._lock:
            _put(self._others, (session.dialect, shape.text), others)
            _put(self._templates, key, template)
        self.recent.note(key, text, session)


def _key(shape: Shape, others: Sequence[int], session: Session) -> _Key:
    rest = tuple([shape.literals[number] for number in others])
    return (shape.text, rest, session.database, session.dialect, session.time_zone)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _put(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > SHAPES_MAX:
        kept.popitem(last=False)
