"""Where a select list or ORDER BY names the time and what the query groups by.

These become columns of the aggregated table. Expressions are compared token by token: `BY (v % 2)` is found again in
`v % 2 + 10`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tsdb.query.range._plan import RangePlan
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.range_query import RangeExpression


def references(plan: RangePlan, expression: RangeExpression, hidden: Set[str]) -> list[tuple[int, int, str]]:
    """Return where an expression names BY expressions and the time, and the columns that hold them.

    `hidden` are names that mean something else.
    """
    text, by = plan.query.text, plan.query.by or ()
    written = {text[each.start : each.end]: _normal(each.tokens) for each in by}
    groups = [] if plan.query.by is None else [written[column.sql] for column in plan.by]
    tags = plan.source.tags or () if plan.query.by is None else ()
    tokens, found, position = expression.tokens, [], 0
    while position < len(tokens):
        if any(edit.start <= tokens[position].start < edit.end for edit in expression.edits):
            position += 1
            continue
        if tokens[position].text == "(" and _begins_query(tokens, position):
            position = _behind(tokens, position)
            continue
        length, name = _reference_at(plan, tokens, position, groups, tags, hidden)
        if name is not None:
            found.append((tokens[position].start, tokens[position + length - 1].end, name))
        position += length
    return found


def _reference_at(
    plan: RangePlan,
    tokens: Sequence[Token],
    position: int,
    groups: Sequence[Sequence[str]],
    tags: Sequence[str],
    hidden: Set[str],
) -> tuple[int, str | None]:
    """Return how many tokens to go on, and the column to put in their place."""
    for number, group in enumerate(groups):
        found = tokens[position : position + len(group)]
        if _normal(found) == group and _stands_alone(tokens, position, len(group)):
            is_hidden = len(group) == 1 and group[0] in hidden
            return len(group), None if is_hidden else plan.by[number].name
    chain = _chain_at(tokens, position)
    if not chain or not _is_bounded(tokens, position, 2 * len(chain) - 1):
        return max(2 * len(chain) - 1, 1), None
    length = 2 * len(chain) - 1
    if len(chain) == 1 and chain[0] in hidden:
        return length, None
    for number, group in enumerate(groups):
        # A column that BY names with its relation may be named without, and the other way round.
        if group[-1] == chain[-1] and _is_column(group) and (len(chain) == 1 or len(group) == 1):
            return length, plan.by[number].name
    if plan.source.is_time(chain):
        return length, plan.slot.name
    if chain[-1] in tags and (len(chain) == 1 or chain[-2] in plan.source.qualifiers):
        return length, plan.by[tags.index(chain[-1])].name
    return length, None


def _chain_at(tokens: Sequence[Token], position: int) -> list[str]:
    """Return the parts of the name `a.b.c` at a position."""
    parts: list[str] = []
    while position < len(tokens) and tokens[position].kind in (TokenKind.WORD, TokenKind.QUOTED):
        parts.append(unquote(tokens[position]))
        if position + 1 >= len(tokens) or tokens[position + 1].text != ".":
            break
        position += 2
    return parts


def _is_column(group: Sequence[str]) -> bool:
    return all(part == "." for part in group[1::2]) and len(group) % 2 == 1


def _is_bounded(tokens: Sequence[Token], position: int, length: int) -> bool:
    """Whether tokens stand for themselves: no call, no part of a longer name, no unit of an interval, no alias."""
    before = tokens[position - 1] if position else None
    after = tokens[position + length] if position + length < len(tokens) else None
    if after is not None and after.text in ("(", ".") and tokens[position + length - 1].text != ")":
        return False
    if before is None:
        return True
    is_unit = before.kind in (TokenKind.STRING, TokenKind.NUMBER) and tokens[position].kind == TokenKind.WORD
    return before.text not in (".", "::") and before.word != "AS" and not is_unit


def _stands_alone(tokens: Sequence[Token], position: int, length: int) -> bool:
    """Whether a run of tokens is an operand as a whole: `a + b` is one in `a + b - c`, and none in `a + b * c`."""
    found = tokens[position : position + length]
    if length == 1 and found[0].kind not in (TokenKind.WORD, TokenKind.QUOTED):
        return False  # a literal: it means itself, or the place of a column in ORDER BY
    if not _is_bounded(tokens, position, length):
        return False
    weakest = _weakest(found)
    before = _strength(tokens[position - 1]) if position else 0
    after = _strength(tokens[position + length]) if position + length < len(tokens) else 0
    return weakest > before and weakest >= after


_PRIMARY = 9
_SEPARATORS = frozenset("()[],;")
_STRENGTHS = {"OR": 1, "AND": 2, "NOT": 3, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_STRENGTHS |= dict.fromkeys(["=", "==", "<", ">", "<=", ">=", "<>", "!=", "IS", "IN", "LIKE", "ILIKE", "BETWEEN"], 4)


def _strength(token: Token) -> int:
    """How strongly an operator binds what stands beside it; 0 for what separates."""
    if token.kind == TokenKind.OPERATOR:
        return 0 if token.text in _SEPARATORS else _STRENGTHS.get(token.text, _PRIMARY - 1)
    return _STRENGTHS.get(token.word, 0)


def _weakest(tokens: Sequence[Token]) -> int:
    """Return the strength of the weakest operator outside of parentheses, `_PRIMARY` when there is none."""
    weakest, depth, previous = _PRIMARY, 0, None
    for token in tokens:
        depth -= token.text == ")"
        is_sign = token.text in ("-", "+") and previous is None
        if depth == 0 and token.text not in ("(", ")", "."):
            is_other = token.kind == TokenKind.OPERATOR and token.text not in _STRENGTHS
            weakest = min(weakest, 1 if is_other or is_sign else _strength(token) or _PRIMARY)
        depth += token.text == "("
        previous = token
    return weakest


def _begins_query(tokens: Sequence[Token], position: int) -> bool:
    return position + 1 < len(tokens) and tokens[position + 1].word in ("SELECT", "WITH")


def _behind(tokens: Sequence[Token], position: int) -> int:
    """Return the position behind the parenthesis that closes the one here."""
    depth = 0
    for place in range(position, len(tokens)):
        depth += (tokens[place].text == "(") - (tokens[place].text == ")")
        if depth == 0:
            return place + 1
    return len(tokens)


def _normal(tokens: Sequence[Token]) -> list[str]:
    """Return tokens in a form that is equal where their meaning is."""
    return [unquote(token) if token.kind != TokenKind.STRING else token.text for token in tokens]
