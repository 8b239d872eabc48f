"""Checks beyond the grammar: types, numbers of arguments, names, matchers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tsdb.model import Matcher, compile_matcher, matches_empty
from tsdb.promql._ast import (
    COMPARISONS,
    PARAM_AGGREGATORS,
    SET_OPERATORS,
    Binary,
    Expr,
    FunctionCall,
    Matching,
    Subquery,
    ValueType,
    VectorSelector,
    unwrap,
)
from tsdb.promql._functions import Signature
from tsdb.promql._lexer import PromToken, go_quote

if TYPE_CHECKING:
    from tsdb.promql._parser import Parser

_NUMERIC = (ValueType.SCALAR, ValueType.VECTOR)


def is_utf8(text: str) -> bool:
    """Return whether a text came from valid UTF-8."""
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def check_label_name(parser: Parser, token: PromToken) -> None:
    if not token.text or not is_utf8(token.text):
        raise parser.error(token.start, f"invalid label name: {go_quote(token.text)}")


def check_matcher(parser: Parser, matcher: Matcher, token: PromToken) -> None:
    """A regular expression must be one; of another kind nothing is to be checked."""
    try:
        compile_matcher(matcher)
    except (ValueError, pa.ArrowInvalid) as error:
        raise parser.error(token.start, f"error parsing regexp: {error}") from error


def check_selector(parser: Parser, selector: VectorSelector, *, is_info: bool) -> None:
    """A selector names one metric at most, and some label must not be empty; inside of `info` any may be."""
    names = [each for each in selector.matchers if each.name == "__name__" and each.op == "="]
    if len({each.value for each in names}) > 1:
        first, second = names[0].value, names[1].value
        raise parser.error(
            selector.span.start, f"metric name must not be set twice: {go_quote(first)} or {go_quote(second)}"
        )
    if not is_info and all(matches_empty(each) for each in selector.matchers):
        raise parser.error(selector.span.start, "vector selector must contain at least one non-empty matcher")


def check_unary(parser: Parser, expr: Expr, sign: PromToken) -> None:
    if expr.type not in _NUMERIC:
        raise parser.error(
            sign.start,
            f'unary expression only allowed on expressions of type scalar or instant vector, got "{expr.type}"',
        )


def check_binary(parser: Parser, expr: Binary, start: int) -> None:
    lhs, rhs = expr.lhs.type, expr.rhs.type
    if lhs not in _NUMERIC or rhs not in _NUMERIC:
        raise parser.error(expr.span.start, "binary expression must contain only scalar and instant vector types")
    if expr.is_bool and expr.op not in COMPARISONS:
        raise parser.error(start, "bool modifier can only be used on comparison operators")
    both_scalar = lhs is ValueType.SCALAR and rhs is ValueType.SCALAR
    if both_scalar and expr.op in COMPARISONS and not expr.is_bool:
        raise parser.error(start, "comparisons between scalars must use BOOL modifier")
    if both_scalar and expr.op in ("</", ">/"):
        raise parser.error(start, f'operator "{expr.op}" not allowed in binary scalar expression')
    if lhs is ValueType.VECTOR and rhs is ValueType.VECTOR:
        expr.matching = expr.matching or Matching()
        _check_matching(parser, expr, expr.matching, start)
        return
    if expr.op in SET_OPERATORS:
        raise parser.error(start, f'set operator "{expr.op}" not allowed in binary scalar expression')
    if expr.matching is not None:
        what = "filling in missing series" if expr.matching == _only_fills(expr.matching) else "vector matching"
        raise parser.error(start, f"{what} only allowed between instant vectors")


def _only_fills(matching: Matching) -> Matching:
    return Matching(fill_left=matching.fill_left, fill_right=matching.fill_right)


def _check_matching(parser: Parser, expr: Binary, matching: Matching, start: int) -> None:
    if expr.op in SET_OPERATORS:
        if matching.card != "one-to-one":
            raise parser.error(start, f'no grouping allowed for "{expr.op}" operation')
        if matching.fill_left is not None or matching.fill_right is not None:
            raise parser.error(start, f'filling in missing series not allowed for set operator "{expr.op}"')
        matching.card = "many-to-many"
    if matching.is_on:
        for name in matching.labels:
            if name in matching.include:
                raise parser.error(start, f"label {go_quote(name)} must not occur in ON and GROUP clause at once")


def check_subquery(parser: Parser, expr: Subquery) -> None:
    if expr.expr.type is not ValueType.VECTOR and expr.expr.type is not ValueType.SCALAR:
        raise parser.error(expr.span.start, f"subquery is only allowed on instant vector, got {expr.expr.type} instead")
    if expr.expr.type is ValueType.SCALAR:
        raise parser.error(expr.span.start, f"subquery is only allowed on instant vector, got {expr.expr.type} instead")


def check_call(parser: Parser, call: FunctionCall, signature: Signature) -> None:
    most = len(signature.types)
    count = len(call.args)
    name = go_quote(call.name)
    if signature.optional == 0 and count != most:
        raise parser.error(call.span.start, f"expected {most} argument(s) in call to {name}, got {count}")
    if count < signature.least:
        raise parser.error(
            call.span.start, f"expected at least {signature.least} argument(s) in call to {name}, got {count}"
        )
    if not signature.is_variadic and count > most:
        raise parser.error(call.span.start, f"expected at most {most} argument(s) in call to {name}, got {count}")
    for position, arg in enumerate(call.args):
        wanted = signature.types[min(position, most - 1)]
        if arg.type is not wanted:
            raise parser.error(arg.span.start, f"expected type {wanted} in call to function {name}, got {arg.type}")
    if call.name == "info" and count > 1:
        _check_info(parser, call)


def _check_info(parser: Parser, call: FunctionCall) -> None:
    selector = call.args[1]
    if not isinstance(selector, VectorSelector):
        raise parser.error(selector.span.start, "expected label selectors only")
    if any(each.name == "__name__" for each in selector.matchers) and parser.text[selector.span.start] != "{":
        raise parser.error(selector.span.start, "expected label selectors only, got vector selector instead")


def check_aggregate(parser: Parser, op: PromToken, args: tuple[Expr, ...]) -> tuple[Expr | None, Expr]:
    """Return the parameter, if the aggregation takes one, and what is aggregated."""
    name = op.lower
    wanted = 2 if name in PARAM_AGGREGATORS else 1
    if not args:
        raise parser.error(op.start, "no arguments for aggregate expression provided")
    if len(args) != wanted:
        raise parser.error(
            op.start, f"wrong number of arguments for aggregate expression provided, expected {wanted}, got {len(args)}"
        )
    inner = args[-1]
    if inner.type is not ValueType.VECTOR:
        raise parser.error(
            inner.span.start, f"expected type instant vector in aggregation expression, got {inner.type}"
        )
    if wanted == 1:
        return None, inner
    param = args[0]
    type_wanted = ValueType.STRING if name == "count_values" else ValueType.SCALAR
    if unwrap(param).type is not type_wanted:
        raise parser.error(param.span.start, f"expected type {type_wanted} in aggregation parameter, got {param.type}")
    return param, inner
