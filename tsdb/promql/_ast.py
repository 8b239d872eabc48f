"""The syntax tree of a query. Every node knows its place in the text, for messages.

Durations are milliseconds where they are written as such, or an expression (`offset_expr`, `range_expr`, `step_expr`)
that is computed once the times of the query are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from tsdb.model import Matcher


class ValueType(StrEnum):
    """The type of an expression."""

    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Where in the text: from `start` up to `end`, which is not part of it."""

    start: int
    end: int


@dataclass(slots=True)
class Expr:
    """A node."""

    span: TextSpan

    @property
    def type(self) -> ValueType:
        raise NotImplementedError

    def children(self) -> tuple[Expr, ...]:
        return ()


@dataclass(slots=True)
class NumberLiteral(Expr):
    value: float
    is_duration: bool = False

    @property
    def type(self) -> ValueType:
        return ValueType.SCALAR


@dataclass(slots=True)
class StringLiteral(Expr):
    value: str

    @property
    def type(self) -> ValueType:
        return ValueType.STRING


@dataclass(slots=True)
class DurationExpr(Expr):
    """Arithmetic of durations: an operator, or `step`, `range`, `min`, `max`."""

    op: str
    lhs: Expr | None = None
    rhs: Expr | None = None
    is_wrapped: bool = False

    @property
    def type(self) -> ValueType:
        return ValueType.SCALAR


@dataclass(slots=True)
class TimeShift:
    """The modifiers `offset` and `@`."""

    offset_ms: int = 0
    offset_expr: Expr | None = None
    at_ms: int | None = None
    at_edge: Literal["start", "end"] | None = None

    @property
    def is_fixed(self) -> bool:
        return self.at_ms is not None or self.at_edge is not None


@dataclass(slots=True)
class VectorSelector(Expr):
    name: str
    matchers: tuple[Matcher, ...]
    """All of them, that of the name included."""
    shift: TimeShift = field(default_factory=TimeShift)
    extension: Literal["", "anchored", "smoothed"] = ""

    @property
    def type(self) -> ValueType:
        return ValueType.VECTOR


@dataclass(slots=True)
class MatrixSelector(Expr):
    selector: VectorSelector
    range_ms: int = 0
    range_expr: Expr | None = None

    @property
    def type(self) -> ValueType:
        return ValueType.MATRIX

    def children(self) -> tuple[Expr, ...]:
        return (self.selector,)


@dataclass(slots=True)
class Subquery(Expr):
    expr: Expr
    range_ms: int = 0
    range_expr: Expr | None = None
    step_ms: int | None = None
    step_expr: Expr | None = None
    shift: TimeShift = field(default_factory=TimeShift)

    @property
    def type(self) -> ValueType:
        return ValueType.MATRIX

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,)


@dataclass(slots=True)
class Unary(Expr):
    op: str
    expr: Expr

    @property
    def type(self) -> ValueType:
        return self.expr.type

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,)


@dataclass(slots=True)
class Paren(Expr):
    expr: Expr

    @property
    def type(self) -> ValueType:
        return self.expr.type

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,)


Cardinality: TypeAlias = Literal["one-to-one", "many-to-one", "one-to-many", "many-to-many"]


@dataclass(slots=True)
class Matching:
    """How the series of two sides find each other."""

    card: Cardinality = "one-to-one"
    is_on: bool = False
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    fill_left: float | None = None
    fill_right: float | None = None


@dataclass(slots=True)
class Binary(Expr):
    op: str
    lhs: Expr
    rhs: Expr
    matching: Matching | None = None
    """None unless both sides are vectors."""
    is_bool: bool = False
    # Known from the start: a chain of operators can be longer than the stack is deep.
    returns: ValueType = field(init=False)

    def __post_init__(self) -> None:
        both = self.lhs.type is ValueType.SCALAR and self.rhs.type is ValueType.SCALAR
        self.returns = ValueType.SCALAR if both else ValueType.VECTOR

    @property
    def type(self) -> ValueType:
        return self.returns

    def children(self) -> tuple[Expr, ...]:
        return (self.lhs, self.rhs)


@dataclass(slots=True)
class Aggregation(Expr):
    op: str
    expr: Expr
    param: Expr | None = None
    grouping: tuple[str, ...] = ()
    is_without: bool = False

    @property
    def type(self) -> ValueType:
        return ValueType.VECTOR

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,) if self.param is None else (self.param, self.expr)


@dataclass(slots=True)
class FunctionCall(Expr):
    name: str
    args: tuple[Expr, ...]
    returns: ValueType = ValueType.VECTOR

    @property
    def type(self) -> ValueType:
        return self.returns

    def children(self) -> tuple[Expr, ...]:
        return self.args


def unwrap(expr: Expr) -> Expr:
    """Return what parentheses hold."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and everything in it, the outer before the inner."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children()))


ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "^", "atan2"})
COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
SET_OPERATORS = frozenset({"and", "or", "unless"})
TRIMS = frozenset({"</", ">/"})

AGGREGATORS = frozenset(
    {
        "avg",
        "bottomk",
        "count",
        "count_values",
        "group",
        "limit_ratio",
        "limitk",
        "max",
        "min",
        "quantile",
        "stddev",
        "stdvar",
        "sum",
        "topk",
    }
)
PARAM_AGGREGATORS = frozenset({"bottomk", "count_values", "limit_ratio", "limitk", "quantile", "topk"})
