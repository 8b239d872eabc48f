"""The evaluation of a syntax tree, all steps at once.

Each node becomes a `Value` for a row of times. What does not depend on the step (`@`) is evaluated once and repeated. A
chain of operators is evaluated from its left end, without recursion, so that its length does not matter.
"""

from __future__ import annotations

import numpy as np

from tsdb.promql._ast import (
    Aggregation,
    Binary,
    Expr,
    FunctionCall,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
    unwrap,
)
from tsdb.promql.evaluation._aggregate import aggregate
from tsdb.promql.evaluation._binary import binary
from tsdb.promql.evaluation._context import SUBQUERY_STEP_MS, EvalContext
from tsdb.promql.evaluation._info import info
from tsdb.promql.evaluation._native_binary import negated
from tsdb.promql.evaluation._range_functions import call_range
from tsdb.promql.evaluation._selectors import (
    Windows,
    instant_vector,
    selected_windows,
    timed_vector,
    windows_of_vector,
)
from tsdb.promql.evaluation._values import Scalar, StringValue, Times, Value, Vector, broadcast, merge_same
from tsdb.promql.evaluation._vector_functions import call_vector

_STEP_FUNCTIONS = frozenset(
    [
        "days_in_month",
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "hour",
        "minute",
        "month",
        "year",
        "predict_linear",
        "time",
        "timestamp",
    ]
)
"""Their value depends on the step, whatever their arguments are."""


class Evaluator:
    """Evaluates the nodes of one query."""

    def __init__(self, context: EvalContext) -> None:
        self.context = context
        self._fixed: dict[int, bool] = {}

    def evaluate(self, expr: Expr, times: Times) -> Value:
        """Return the value of a node at each of the times."""
        if len(times) > 1 and not isinstance(expr, NumberLiteral | StringLiteral) and self._is_fixed(expr):
            return broadcast(self._evaluate(expr, times[:1]), len(times))
        return self._evaluate(expr, times)

    def _evaluate(self, expr: Expr, times: Times) -> Value:
        if isinstance(expr, Paren):
            return self.evaluate(expr.expr, times)
        if isinstance(expr, NumberLiteral):
            return Scalar(np.full(len(times), expr.value))
        if isinstance(expr, StringLiteral):
            return StringValue(expr.value)
        if isinstance(expr, VectorSelector):
            return instant_vector(self.context, expr, times)
        if isinstance(expr, FunctionCall):
            return self._call(expr, times)
        if isinstance(expr, Aggregation):
            return self._aggregate(expr, times)
        if isinstance(expr, Binary):
            return self._chain(expr, times)
        if isinstance(expr, Unary):
            return self._unary(expr, times)
        raise AssertionError(f"{type(expr).__name__} is evaluated as part of another node")

    def vector(self, expr: Expr, times: Times) -> Vector:
        value = self.evaluate(expr, times)
        assert isinstance(value, Vector)
        return value

    def scalar(self, expr: Expr, times: Times) -> Scalar:
        value = self.evaluate(expr, times)
        assert isinstance(value, Scalar)
        return value

    def windows(self, expr: Expr, times: Times) -> Windows:
        """Return the windows of a range vector."""
        expr = unwrap(expr)
        if isinstance(expr, MatrixSelector):
            return selected_windows(self.context, expr, times)
        assert isinstance(expr, Subquery)
        context = self.context
        range_ms = expr.range_ms if expr.range_expr is None else context.duration(expr.range_expr)
        step = SUBQUERY_STEP_MS if expr.step_ms is None else expr.step_ms
        if expr.step_expr is not None:
            step = context.duration(expr.step_expr)
        ends = context.shifted(times, expr.shift)
        # Steps lie on multiples of the step, whatever the time of the query is.
        first = (int(ends[0]) - range_ms) // step * step + step
        count = max(0, (int(ends[-1]) - first) // step + 1)
        context.reserve(1, count)
        inner = first + step * np.arange(count, dtype=np.int64)
        vector = Vector.empty(0) if not count else merge_same(self.vector(expr.expr, inner))
        context.count(int(vector.present.sum()))
        return windows_of_vector(vector, inner, ends, range_ms, expr.span)

    # Nodes

    def _call(self, call: FunctionCall, times: Times) -> Value:
        if call.name == "info":
            matchers = call.args[1] if len(call.args) > 1 else None
            assert matchers is None or isinstance(matchers, VectorSelector)
            return info(self.context, call, self.vector(call.args[0], times), matchers, times)
        ranges = [arg for arg in call.args if arg.type is ValueType.MATRIX]
        if ranges:
            scalars = [self.scalar(arg, times) for arg in call.args if arg.type is ValueType.SCALAR]
            return call_range(self.context, call, self.windows(ranges[0], times), scalars, times)
        if call.name == "timestamp":
            arg = unwrap(call.args[0])
            if isinstance(arg, VectorSelector):
                vector, seen = timed_vector(self.context, arg, times)
                return vector.mapped(seen / 1000, vector.present)
        return call_vector(self.context, call, [self.evaluate(arg, times) for arg in call.args], times)

    def _aggregate(self, expr: Aggregation, times: Times) -> Vector:
        param: Value | None = None
        if expr.param is not None:
            param = self.evaluate(expr.param, times)
        return aggregate(self.context, expr, self.vector(expr.expr, times), param)

    def _chain(self, expr: Binary, times: Times) -> Value:
        spine = [expr]
        while isinstance(spine[-1].lhs, Binary) and not (len(times) > 1 and self._is_fixed(spine[-1].lhs)):
            spine.append(spine[-1].lhs)
        left = self.evaluate(spine[-1].lhs, times)
        for node in reversed(spine):
            self.context.check()
            with self.context.holding(left):
                right = self.evaluate(node.rhs, times)
            left = binary(self.context, node, left, right)
        return left

    def _unary(self, expr: Unary, times: Times) -> Value:
        value = self.evaluate(expr.expr, times)
        if expr.op == "+":
            return value
        if isinstance(value, Scalar):
            return Scalar(-value.values)
        assert isinstance(value, Vector)
        return negated(value)

    def _is_fixed(self, expr: Expr) -> bool:
        """Return whether a node has the same value at all steps."""
        found = self._fixed.get(id(expr))
        if found is None:
            # From the leaves up, because a chain of operators may be longer than the stack is deep.
            pending, order = [expr], []
            while pending:
                node = pending.pop()
                order.append(node)
                pending.extend(child for child in node.children() if id(child) not in self._fixed)
            for node in reversed(order):
                self._fixed[id(node)] = self._decide_fixed(node)
            found = self._fixed[id(expr)]
        return found

    def _decide_fixed(self, expr: Expr) -> bool:
        if isinstance(expr, VectorSelector):
            return expr.shift.is_fixed
        if isinstance(expr, MatrixSelector):
            return expr.selector.shift.is_fixed
        if isinstance(expr, Subquery):
            return expr.shift.is_fixed
        if isinstance(expr, FunctionCall) and expr.name in _STEP_FUNCTIONS:
            return False
        return all(self._fixed[id(child)] for child in expr.children())
