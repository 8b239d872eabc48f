"""PromQL: the language, and its evaluation over matrices of series and steps."""

from tsdb.promql._ast import (
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
    walk,
)
from tsdb.promql._durations import format_duration_ms, parse_duration_ms
from tsdb.promql._errors import PromqlFailure, PromqlSyntax, PromqlTooLarge
from tsdb.promql._functions import FUNCTIONS
from tsdb.promql._json import expr_to_json
from tsdb.promql._parser import parse_promql, parse_selector
from tsdb.promql._printer import format_query

__all__ = [
    "FUNCTIONS",
    "Aggregation",
    "Binary",
    "Expr",
    "FunctionCall",
    "MatrixSelector",
    "NumberLiteral",
    "PromqlFailure",
    "PromqlSyntax",
    "PromqlTooLarge",
    "StringLiteral",
    "Subquery",
    "Unary",
    "ValueType",
    "VectorSelector",
    "expr_to_json",
    "format_duration_ms",
    "format_query",
    "parse_duration_ms",
    "parse_promql",
    "parse_selector",
    "unwrap",
    "walk",
]
