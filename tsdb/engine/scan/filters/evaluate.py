"""Evaluating filters in three-valued logic, on rows or on series."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.scan.filters.compare import FLIPPED, Value, compare, is_in
from tsdb.engine.scan.filters.expression import Call, Constant, Node, Ref

CONNECTIVES = frozenset({"and", "and_kleene", "or", "or_kleene", "invert"})
_PATTERNS = frozenset({"match_substring", "match_substring_regex", "match_like", "starts_with", "ends_with"})
KNOWN_FUNCTIONS = CONNECTIVES | FLIPPED.keys() | _PATTERNS | {"is_in", "is_null", "is_valid", "coalesce"}


class FilterFrame(Protocol):
    """What a filter is evaluated on."""

    def decide(self, node: Node) -> Value | None:
        """Return what a node comes to if there is a shorter way than to evaluate it."""
        ...

    def column(self, name: str) -> pa.Array: ...


def is_understood(node: Node) -> bool:
    """Tell whether `evaluate` knows every function of a filter."""
    if isinstance(node, Call):
        return node.function in KNOWN_FUNCTIONS and all(is_understood(each) for each in node.arguments)
    return True


def evaluate(node: Node, frame: FilterFrame) -> Value:
    """Return a node's value in every row: an array, or a scalar where it is the same in all of them."""
    if isinstance(node, Constant):
        return node.value
    decided = frame.decide(node)
    if decided is not None:
        return decided
    if isinstance(node, Ref):
        return frame.column(node.name)
    return _apply(node, [evaluate(argument, frame) for argument in node.arguments])


def _apply(call: Call, arguments: list[Value]) -> Value:
    function = call.function
    if function in ("and", "and_kleene"):
        return pc.and_kleene(*arguments)
    if function in ("or", "or_kleene"):
        return pc.or_kleene(*arguments)
    if function in FLIPPED:
        return compare(function, *arguments)
    if function == "is_in":
        return is_in(arguments[0], _option(call, "value_set").values)
    if function == "is_null":
        return pc.is_null(arguments[0], nan_is_null=_option(call, "nan_is_null").as_py())
    if function in _PATTERNS:
        ignore_case = _option(call, "ignore_case").as_py()
        return getattr(pc, function)(arguments[0], _option(call, "pattern").as_py(), ignore_case=ignore_case)
    return pc.call_function(function, arguments)


def _option(call: Call, name: str) -> pa.Scalar:
    assert call.options is not None
    return call.options[name]
