"""Limits on what is handed to the query engine, whose planner recurses over expressions and ends the process when the
stack runs out.

A chain of operators without parentheses is a tree as deep as the chain is long, so that what counts is the deepest
path: operators add up along nested parentheses, while a comma or the next clause starts again. Lists (VALUES, IN,
arguments) are therefore free.
"""

from __future__ import annotations

from tsdb.errors import InvalidSyntax
from tsdb.sql.lexer import Token, TokenKind, locate

QUERY_NESTING_MAX = 50
"""How deep parentheses may nest."""

QUERY_OPERATORS_MAX = 2000
"""How many operators may follow each other in one expression."""

QUERY_BRANCHES_MAX = 400
"""How many UNION, INTERSECT, EXCEPT and JOIN a statement may have."""

_OPERATOR_WORDS = "AND OR NOT IS LIKE ILIKE BETWEEN IN COLLATE SIMILAR RLIKE REGEXP XOR DIV AT WHEN INTERVAL CASE"
_OPERATORS = frozenset(_OPERATOR_WORDS.split())
_CLAUSE_WORDS = """
SELECT FROM WHERE GROUP HAVING ORDER LIMIT OFFSET QUALIFY WINDOW ON ALIGN RANGE BY AS UNION INTERSECT EXCEPT JOIN VALUES
"""
_CLAUSES = frozenset(_CLAUSE_WORDS.split())
_BRANCHES = frozenset({"UNION", "INTERSECT", "EXCEPT", "JOIN"})
_FREE = frozenset({".", ";", "$", "?", "@"})


def check_query_limits(text: str, tokens: list[Token]) -> None:
    """Raise InvalidSyntax for a query that nests too deep or chains too many operators; `tokens` are its own."""
    frames: list[tuple[int, int]] = []
    base, peak, count, branches = 0, 0, 0, 0
    for kind, sign, start, _ in tokens:
        if kind == TokenKind.OPERATOR:
            if sign in "([{":
                frames.append((base, peak))
                base = peak = count
                if len(frames) > QUERY_NESTING_MAX:
                    raise _refusal(text, start, f"the query nests parentheses deeper than {QUERY_NESTING_MAX}")
            elif sign in ")]}":
                count = max(count, peak)
                if frames:
                    base, peak = frames.pop()
            elif sign == ",":
                peak, count = max(peak, count), base
            elif sign not in _FREE:
                count += 1
        elif kind == TokenKind.WORD:
            word = sign.upper()
            if word in _OPERATORS:
                count += 1
            elif word in _CLAUSES:
                peak, count = max(peak, count), base
                branches += word in _BRANCHES
        if count > QUERY_OPERATORS_MAX:
            message = f"one expression of the query has more than {QUERY_OPERATORS_MAX} operators"
            raise _refusal(text, start, message, hint="write long lists of alternatives as x IN (…)")
        if branches > QUERY_BRANCHES_MAX:
            raise _refusal(text, start, f"the query has more than {QUERY_BRANCHES_MAX} joins and set operations")


def _refusal(text: str, start: int, message: str, *, hint: str | None = None) -> InvalidSyntax:
    line, column = locate(text, start)
    return InvalidSyntax(f"{message} at line {line}, column {column}", hint=hint)
