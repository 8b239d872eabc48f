"""Names and order of the columns of a PromQL query that is run from SQL.

PromQL has labels and a value; SQL has columns. A selector keeps those of its table. What is computed gets the name of
the computation: `prom_rate(ts_range,val,ts,Int64(60000))`, `sum(cpu.usage)`, `a.val + b.val`. An operator puts the
table before each of its sides, or `lhs` and `rhs` when both are the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tsdb.model import TableInfo
from tsdb.promql import (
    Aggregation,
    Binary,
    Expr,
    FunctionCall,
    MatrixSelector,
    NumberLiteral,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
    unwrap,
)
from tsdb.query.promql._tables import value_columns

TIME, VALUE = "time", "value"
"""What columns are called where no table gives them names."""

VECTOR_VALUE = "tsdb_value"
_FUNCTIONS = {"rad": "radians", "deg": "degrees", "sgn": "signum", "round": "prom_round"}
_AGGREGATES = {"stddev": "stddev_pop", "stdvar": "var_pop"}
_KEEPS_VALUE = frozenset({"sort", "sort_desc", "sort_by_label", "sort_by_label_desc", "absent", "absent_over_time"})
_WITH_RANGE = frozenset({"rate", "increase", "delta"})


@dataclass(frozen=True, slots=True)
class ExpressionColumns:
    """The columns of an expression."""

    values: tuple[str, ...]
    """One for each field."""
    time: str = TIME
    tags: tuple[str, ...] = ()
    table: str = ""
    order: tuple[str, ...] = ()
    """The names in their order, where a table defines one."""
    is_selector: bool = False
    is_plain: bool = False
    """A selector, or arithmetic on such: operators name their tables and nothing else."""
    layout: str = "computed"
    """`table`, `function` (time, value, tags), `computed` (tags, time, value), `sorted` or `counted`."""
    fields: tuple[str, ...] = ()
    """The fields of the table, where there are several."""
    is_open: bool = False
    """There may be labels beside `tags`, known only from the answer."""

    def columns(self) -> list[str]:
        """Return all names in order."""
        if self.layout == "table" and self.order:
            return [name for name in self.order if name in {*self.values, *self.tags, self.time}]
        if self.layout == "function":
            return [self.time, *self.values, *self.tags]
        if self.layout == "sorted":
            return [self.time, *sorted({*self.tags, *self.values}, key=_sorted_as)]
        if self.layout == "aliased":
            return [*self.values, *self.tags, self.time]
        if self.layout == "counted":
            return [*self.values, *self.tags[:-1], self.time, self.tags[-1]]
        return [*self.tags, self.time, *self.values]

    @property
    def argument(self) -> tuple[str, ...]:
        """How an aggregation speaks of the values."""
        return tuple(f"{self.table}.{each}" for each in self.values) if self.is_selector and self.table else self.values


def _sorted_as(name: str) -> str:
    """The value of a metric keeps the place among the columns that clients know it by, that of its older name."""
    return name.replace(VECTOR_VALUE, "greptime_value")


FindTable = Callable[[VectorSelector], TableInfo | None]


def shape_of(expr: Expr, find_table: FindTable) -> ExpressionColumns:
    """Return the columns of a query."""
    expr = unwrap(expr)
    if isinstance(expr, NumberLiteral | StringLiteral):
        return ExpressionColumns((VALUE,), layout="function")
    if isinstance(expr, VectorSelector):
        return _of_selector(expr, find_table)
    if isinstance(expr, MatrixSelector):
        return _of_selector(expr.selector, find_table)
    if isinstance(expr, Subquery):
        return shape_of(expr.expr, find_table)
    if isinstance(expr, Unary):
        inner = shape_of(expr.expr, find_table)
        return _computed(inner, tuple(f"(- {each})" for each in inner.values))
    if isinstance(expr, FunctionCall):
        return _of_call(expr, find_table)
    if isinstance(expr, Aggregation):
        return _of_aggregate(expr, find_table)
    assert isinstance(expr, Binary)
    return _of_binary(expr, find_table)


def _of_selector(expr: VectorSelector, find_table: FindTable) -> ExpressionColumns:
    table = find_table(expr)
    if table is None:
        return ExpressionColumns((VALUE,), layout="function", is_selector=True, is_plain=True, is_open=True)
    chosen = [matcher for matcher in expr.matchers if matcher.name == "__field__"]
    fields = tuple(
        column.name
        for column in value_columns(table)
        if all(matcher.op != "=" or matcher.value == column.name for matcher in chosen)
    )
    tags = tuple(column.name for column in table.columns if column.name in table.primary_key)
    return ExpressionColumns(
        fields,
        table.time_index.name,
        tags,
        table.name,
        order=tuple(column.name for column in table.columns),
        is_selector=True,
        is_plain=True,
        layout="table" if _is_as_stored(table) and not chosen else "aliased",
        fields=fields,
    )


def _is_as_stored(table: TableInfo) -> bool:
    """Return whether a selector gives the columns of a table as they are: no labels unpacked, no times converted."""
    return not table.is_logical and str(table.time_index.type.arrow.unit) == "ms"


def _computed(inner: ExpressionColumns, values: tuple[str, ...], layout: str = "computed") -> ExpressionColumns:
    return replace(inner, values=values, is_selector=False, is_plain=False, layout=layout)


# Numbers


def _number(expr: Expr) -> str:
    """Return how a constant is written in names."""
    expr = unwrap(expr)
    if isinstance(expr, NumberLiteral):
        text = repr(expr.value)
        return f"Float64({text.removesuffix('.0')})"
    if isinstance(expr, Binary):
        return f"{_number(expr.lhs)} {expr.op} {_number(expr.rhs)}"
    if isinstance(expr, Unary):
        return f"(- {_number(expr.expr)})"
    if isinstance(expr, FunctionCall) and expr.name == "time":
        return "time / Float64(1000)"
    return "" if not isinstance(expr, FunctionCall) else f"{expr.name}()"


def is_literal(expr: Expr) -> bool:
    """Return whether an expression is made of numbers alone."""
    expr = unwrap(expr)
    if isinstance(expr, NumberLiteral | StringLiteral):
        return True
    if isinstance(expr, Binary | Unary):
        return all(is_literal(child) for child in expr.children())
    return False


def _is_constant_call(expr: Expr) -> bool:
    expr = unwrap(expr)
    return isinstance(expr, FunctionCall) and not expr.args and expr.type is ValueType.SCALAR


# Functions


def _of_call(expr: FunctionCall, find_table: FindTable) -> ExpressionColumns:
    ranges = [arg for arg in expr.args if arg.type is ValueType.MATRIX]
    vectors = [arg for arg in expr.args if arg.type is ValueType.VECTOR]
    if ranges:
        return _of_range_call(expr, ranges[0], find_table)
    if not expr.args:
        return ExpressionColumns((_number(expr),), layout="function")
    if expr.name == "vector":
        return ExpressionColumns((VECTOR_VALUE,), layout="function")
    inner = shape_of(vectors[0], find_table)
    if expr.name == "scalar":
        return replace(_computed(inner, tuple(f"scalar({each})" for each in inner.values), "function"), tags=())
    if expr.name.startswith("histogram_"):
        layout = inner.layout if inner.layout in ("table", "aliased") else "function"
        return replace(inner, tags=tuple(tag for tag in inner.tags if tag != "le"), layout=layout)
    if expr.name in _KEEPS_VALUE:
        return _kept(expr, vectors[0], inner)
    if expr.name in ("label_replace", "label_join", "info"):
        layout = "function" if inner.layout == "table" else inner.layout
        return replace(inner, layout=layout, is_selector=False, is_open=True)
    name = _FUNCTIONS.get(expr.name, expr.name)
    rest = "".join(f",{_number(arg)}" for arg in expr.args if arg.type is ValueType.SCALAR)
    return _computed(inner, tuple(f"{name}({each}{rest})" for each in inner.values), "function")


def _kept(expr: FunctionCall, arg: Expr, inner: ExpressionColumns) -> ExpressionColumns:
    shape = _computed(inner, inner.values, "function")
    if not expr.name.startswith("absent"):
        return shape
    node = unwrap(arg)
    selector = node.selector if isinstance(node, MatrixSelector) else node
    matchers = selector.matchers if isinstance(selector, VectorSelector) else ()
    wanted = {matcher.name for matcher in matchers if matcher.op == "="}
    return replace(shape, tags=tuple(tag for tag in inner.tags if tag in wanted), is_open=False)


def _of_range_call(expr: FunctionCall, arg: Expr, find_table: FindTable) -> ExpressionColumns:
    inner = shape_of(arg, find_table)
    if expr.name in _KEEPS_VALUE:
        return _kept(expr, arg, inner)
    node = unwrap(arg)
    range_ms = node.range_ms if isinstance(node, MatrixSelector | Subquery) else 0
    rest = f",{inner.time},Int64({range_ms})" if expr.name in _WITH_RANGE else ""
    rest += "".join(f",{_number(each)}" for each in expr.args if each.type is ValueType.SCALAR)
    head = f"prom_{expr.name}({inner.time}_range"
    return _computed(inner, tuple(f"{head},{each}{rest})" for each in inner.values), "function")


def _of_aggregate(expr: Aggregation, find_table: FindTable) -> ExpressionColumns:
    inner = shape_of(expr.expr, find_table)
    if expr.op in ("topk", "bottomk", "limitk", "limit_ratio"):
        return inner if inner.layout == "table" else replace(inner, layout="computed")
    if expr.is_without:
        tags = tuple(tag for tag in inner.tags if tag not in expr.grouping)
    else:
        tags = tuple(tag for tag in expr.grouping if tag in inner.tags)
    name = _AGGREGATES.get(expr.op, expr.op)
    if expr.op == "group":
        values: tuple[str, ...] = tuple("max(Float64(1))" for _ in inner.values)
    elif expr.op == "count_values":
        values = tuple(f"count({each})" for each in inner.argument)
        label = unwrap(expr.param) if expr.param is not None else None
        name = label.value if isinstance(label, StringLiteral) else VALUE
        return replace(_computed(inner, values, "counted"), tags=(*tags, name))
    elif expr.op == "quantile" and expr.param is not None:
        values = tuple(f"quantile({_number(expr.param)},{each})" for each in inner.argument)
    else:
        values = tuple(f"{name}({each})" for each in inner.argument)
    return replace(_computed(inner, values), tags=tags, is_open=inner.is_open and expr.is_without)


# Operators


def _of_binary(expr: Binary, find_table: FindTable) -> ExpressionColumns:
    if is_literal(expr):
        return ExpressionColumns((VALUE,), layout="function")
    spine = [expr]
    while isinstance(spine[-1].lhs, Binary) and not is_literal(spine[-1].lhs):
        spine.append(spine[-1].lhs)
    left = shape_of(spine[-1].lhs, find_table)
    for node in reversed(spine):
        left = _operate(node, left, shape_of(node.rhs, find_table))
    return left


def _operate(expr: Binary, left: ExpressionColumns, right: ExpressionColumns) -> ExpressionColumns:
    if expr.op in ("and", "unless"):
        return left
    if expr.op == "or":
        tags = tuple(dict.fromkeys((*left.tags, *right.tags)))
        return replace(left, tags=tags, layout="sorted", is_selector=False, is_plain=False)
    if is_literal(expr.rhs):
        return _with_number(expr, left, lambda each: _apply(expr.op, each, _number(expr.rhs)))
    if is_literal(expr.lhs):
        return _with_number(expr, right, lambda each: _apply(expr.op, _number(expr.lhs), each))
    return _of_both(expr, left, right)


def _apply(op: str, left: str, right: str) -> str:
    return f"atan2({left},{right})" if op == "atan2" else f"{left} {op} {right}"


def _is_filter(expr: Binary) -> bool:
    return not expr.is_bool and expr.op in ("==", "!=", "<", ">", "<=", ">=")


def _with_number(expr: Binary, inner: ExpressionColumns, name: Callable[[str], str]) -> ExpressionColumns:
    if _is_filter(expr):
        return inner if inner.layout == "table" else replace(inner, layout="computed", is_selector=False)
    layout = "function" if not inner.tags and not inner.table else "computed"
    return _computed(inner, tuple(name(each) for each in inner.values), layout)


def _of_both(expr: Binary, left: ExpressionColumns, right: ExpressionColumns) -> ExpressionColumns:
    matching = expr.matching
    is_plain = (
        left.is_plain
        and right.is_plain
        and (matching is None or (not matching.labels and not matching.is_on))
        and not _is_filter(expr)
        and not expr.is_bool
    )
    if is_plain:
        names = [(_plain(left, a), _plain(right, b)) for a, b in zip(left.values, right.values, strict=False)]
    else:
        sides = ("lhs", "rhs") if left.table == right.table else (left.table, right.table)
        pairs = zip(left.values, right.values, strict=False)
        names = [(f"{sides[0]}.{a}", f"{sides[1]}.{b}") for a, b in pairs]
    base = left if left.tags or not right.tags else right
    if _is_filter(expr):
        return replace(base, values=left.values, table="", layout="computed", is_selector=False, is_plain=False)
    values = tuple(_apply(expr.op, a, b) for a, b in names)
    tags = _result_tags(expr, left, right)
    time = base.time if base.time != TIME else right.time
    layout = "computed"
    if _is_constant_call(expr.rhs):
        time, tags, layout = TIME, (), "function"
    fields, is_open = left.fields or right.fields, (left.is_open or right.is_open) and layout != "function"
    return ExpressionColumns(
        values, time, tags, right.table, is_plain=is_plain, layout=layout, fields=fields, is_open=is_open
    )


def _plain(shape: ExpressionColumns, value: str) -> str:
    return f"{shape.table}.{value}" if shape.is_selector else value


def _result_tags(expr: Binary, left: ExpressionColumns, right: ExpressionColumns) -> tuple[str, ...]:
    many = right if not left.tags and right.tags else left
    matching = expr.matching
    if matching is None:
        return many.tags
    if matching.card == "one-to-one" and matching.is_on:
        return tuple(tag for tag in many.tags if tag in matching.labels)
    if matching.card == "one-to-one":
        return tuple(tag for tag in many.tags if tag not in matching.labels)
    if matching.card == "one-to-many":
        many = right
    return tuple(dict.fromkeys((*many.tags, *matching.include)))
