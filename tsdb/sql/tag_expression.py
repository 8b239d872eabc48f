"""Expressions that may use tags only: everything that the parser of conditions does not know, as written.

    upper(host)    host ILIKE 'web%'    CASE WHEN dc = 'x' THEN 1 ELSE 2 END

Only the words that can be columns are recognised. The caller, who knows the table, decides whether all of them are
tags; then the expression has one value per series, which the planner computes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.rewrite import KEYWORDS
from tsdb.sql.statements import Dialect

# What is no expression of one row, or has another value each time.
_REFUSED = frozenset({
    "SELECT", "EXISTS", "OVER", "FILTER", "WITHIN", "DISTINCT", "RANGE", "ALIGN", "RANDOM", "RAND", "UUID",
    "GEN_RANDOM_UUID", "UNNEST", "GROUPING",
})  # fmt: skip
_PURE = frozenset({
    "ascii", "bit_length", "btrim", "cast", "char_length", "coalesce", "concat", "concat_ws", "contains", "ends_with",
    "initcap", "in", "left", "length", "lower", "lpad", "ltrim", "md5", "nullif", "octet_length", "position",
    "regexp_like", "regexp_match", "regexp_replace", "repeat", "replace", "reverse", "right", "rpad", "rtrim",
    "split_part", "starts_with", "strpos", "substr", "substring", "trim", "upper",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TagExpression:
    """An expression, and the words in it that can be columns."""

    text: str
    names: frozenset[str]
    reason: str = field(default="", compare=False)
    """Why it is not something plainer."""
    is_pure: bool = field(default=False, compare=False)
    """Whether it has the same value for the same tags at any time."""


def make_expression(text: str, tokens: Sequence[Token], dialect: Dialect, reason: str) -> TagExpression | None:
    """Return tokens as an expression; None if they are certainly none that every series has one value of."""
    if not tokens or any(token.word in _REFUSED or token.text in (".", ";") for token in tokens):
        return None
    names: set[str] = set()
    is_pure = True
    for at, token in enumerate(tokens):
        is_call = at + 1 < len(tokens) and tokens[at + 1].text == "("
        if is_call and token.kind in (TokenKind.WORD, TokenKind.QUOTED):
            is_pure &= token.word.lower() in _PURE or token.word in KEYWORDS
        if token.kind == TokenKind.QUOTED or (token.kind == TokenKind.WORD and not is_call):
            names.add(unquote(token, dialect))
    is_pure &= not any(name.startswith(("current", "local", "session", "@")) for name in names)
    return TagExpression(text[tokens[0].start : tokens[-1].end], frozenset(names), reason, is_pure)


def split_at_and(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Cut a condition into those that must all hold: one piece, if it is none of several."""
    cuts = [0]
    depth = cases = betweens = 0
    for at, token in enumerate(tokens):
        if token.kind == TokenKind.OPERATOR:
            depth += (token.text in "([") - (token.text in ")]")
        if token.kind != TokenKind.WORD:
            continue
        word = token.text.upper()
        cases += (word == "CASE") - (word == "END")
        if depth or cases:
            continue
        if word in ("OR", "XOR"):
            return [tokens]
        if word == "BETWEEN":
            betweens += 1
        elif word == "AND" and betweens:
            betweens -= 1
        elif word == "AND":
            cuts += [at, at + 1]
    cuts.append(len(tokens))
    return [tokens[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)]


def tags_of(expression: TagExpression, columns: Collection[str], tags: Collection[str]) -> tuple[str, ...] | None:
    """Return the tags that an expression is of; None if it is of none, or of other columns too."""
    found = sorted(expression.names.intersection(columns))
    return tuple(found) if found and all(name in tags for name in found) else None
