"""Clauses that the query engine parses and then ignores, refused by name.

A clause that changes nothing is worse than an error: its user takes the result for the requested one. The table lists
such clauses by the words that begin them; a word counts only where the clause can stand, so that a column may still
be called `sample` or `format`. Clauses that the engine refuses in terms of its own are listed as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tsdb.errors import Unsupported
from tsdb.sql.aggregate_names import AGGREGATE_NAMES, IGNORES_DISTINCT, RANKING_NAMES, WINDOW_NAMES
from tsdb.sql.lexer import TokenKind, locate
from tsdb.sql.rewrite._layout import TokenLayout

_LITERALS = (TokenKind.STRING, TokenKind.NUMBER, TokenKind.HEX)
_LOCK_HINT = "rows are not locked, since there are no transactions; leave the clause out"


@dataclass(frozen=True, slots=True)
class _RefusedClause:
    """A clause: what it is called, where its first word begins it, and what to do instead."""

    name: str
    begins: Callable[[TokenLayout, int], bool]
    hint: str = ""


def refuse_clauses(layout: TokenLayout) -> None:
    """Raise Unsupported for a clause that would have no effect."""
    for index, word in enumerate(layout.words):
        for clause in _CLAUSES.get(word, ()):
            if clause.begins(layout, index):
                raise _refusal(layout, index, f"{clause.name} is not supported", clause.hint)
    for index in layout.calls():
        _refuse_in_call(layout, index)


def _refusal(layout: TokenLayout, index: int, message: str, hint: str = "") -> Unsupported:
    line, column = locate(layout.text, layout.tokens[index].start)
    return Unsupported(f"{message}, at line {line}, column {column}", hint=hint or None)


def behind_operand(layout: TokenLayout, index: int) -> bool:
    """Return whether a name, a literal or a closing bracket stands before a token."""
    if index < 1:
        return False
    before = layout.tokens[index - 1]
    if before.kind in _LITERALS or before.text in (")", "]", "*"):
        return True
    return layout.is_name(index - 1) or layout.word(index - 1) in ("ASC", "DESC", "END")


def _follows(*words: str) -> Callable[[TokenLayout, int], bool]:
    """The clause goes on with one of some words."""

    def begins(layout: TokenLayout, index: int) -> bool:
        return layout.word(index + 1) in words and behind_operand(layout, index)

    return begins


def _follows_group(word: str) -> Callable[[TokenLayout, int], bool]:
    """`WITH word`, which is no common table expression of that name."""

    def begins(layout: TokenLayout, index: int) -> bool:
        return _follows(word)(layout, index) and layout.word(index + 2) != "AS"

    return begins


def _opens(layout: TokenLayout, index: int) -> bool:
    """A bracket follows, and the word is no function: what stands before it ends a table or an expression."""
    return layout.is_operator(index + 1, "(") and behind_operand(layout, index)


def _takes_number(layout: TokenLayout, index: int) -> bool:
    return behind_operand(layout, index) and (
        layout.tokens[index + 1].kind == TokenKind.NUMBER or layout.is_operator(index + 1, "(")
    )


def _takes_condition(layout: TokenLayout, index: int) -> bool:
    return behind_operand(layout, index) and (
        layout.is_name(index + 1)
        or layout.tokens[index + 1].kind in _LITERALS
        or layout.is_operator(index + 1, "(")
        or layout.word(index + 1) in ("NOT", "EXISTS", "CASE")
    )


def _is_settings(layout: TokenLayout, index: int) -> bool:
    return layout.is_name(index + 1) and layout.is_operator(index + 2, "=") and behind_operand(layout, index)


def _is_format(layout: TokenLayout, index: int) -> bool:
    if not behind_operand(layout, index) or not layout.is_name(index + 1):
        return False
    behind = layout.tokens[index + 2]
    return behind.kind == TokenKind.END or behind.text in (")", ";")


def _is_top(layout: TokenLayout, index: int) -> bool:
    return layout.word(index - 1) in ("SELECT", "DISTINCT", "ALL") and (
        layout.tokens[index + 1].kind == TokenKind.NUMBER or layout.is_operator(index + 1, "(")
    )


def _is_table_hint(layout: TokenLayout, index: int) -> bool:
    return layout.is_operator(index + 1, "(")


def _filters_names(layout: TokenLayout, index: int) -> bool:
    """`SELECT * ILIKE '…'`, where a product has something else before the sign."""
    return layout.is_operator(index - 1, "*") and (
        layout.word(index - 2) in ("SELECT", "DISTINCT", "ALL")
        or layout.is_operator(index - 2, ",")
        or layout.is_operator(index - 2, ".")
    )


def _is_limit_by(layout: TokenLayout, index: int) -> bool:
    return index > 1 and layout.tokens[index - 1].kind == TokenKind.NUMBER and layout.word(index - 2) == "LIMIT"


def _is_into(layout: TokenLayout, index: int) -> bool:
    return behind_operand(layout, index)


_CLAUSES: dict[str, tuple[_RefusedClause, ...]] = {
    "SAMPLE": (_RefusedClause("SAMPLE", _takes_number, "write TABLESAMPLE (10 PERCENT)"),),
    "FOR": (
        _RefusedClause("FOR UPDATE", _follows("UPDATE"), _LOCK_HINT),
        _RefusedClause("FOR SHARE", _follows("SHARE"), _LOCK_HINT),
        _RefusedClause("FOR NO KEY UPDATE", _follows("NO"), _LOCK_HINT),
        _RefusedClause("FOR KEY SHARE", _follows("KEY"), _LOCK_HINT),
        _RefusedClause("FOR JSON", _follows("JSON")),
        _RefusedClause("FOR XML", _follows("XML")),
        _RefusedClause("FOR BROWSE", _follows("BROWSE")),
        _RefusedClause("FOR SYSTEM_TIME AS OF", _follows("SYSTEM_TIME")),
    ),
    "LOCK": (_RefusedClause("LOCK IN SHARE MODE", _follows("IN"), _LOCK_HINT),),
    "WITH": (
        _RefusedClause("WITH (…) after a table", _is_table_hint, "leave the hints out"),
        _RefusedClause("WITH TOTALS", _follows_group("TOTALS"), "write GROUP BY ROLLUP (…)"),
        _RefusedClause("WITH ORDINALITY", _follows_group("ORDINALITY"), "use row_number() OVER ()"),
    ),
    "PREWHERE": (_RefusedClause("PREWHERE", _takes_condition, "write WHERE"),),
    "CONNECT": (_RefusedClause("CONNECT BY", _follows("BY", "NOCYCLE"), "use WITH RECURSIVE"),),
    "START": (_RefusedClause("START WITH … CONNECT BY", _follows("WITH"), "use WITH RECURSIVE"),),
    "BY": (_RefusedClause("LIMIT … BY", _is_limit_by, "use row_number() OVER (PARTITION BY …) and QUALIFY"),),
    "SETTINGS": (_RefusedClause("SETTINGS", _is_settings, "use SET"),),
    "FORMAT": (_RefusedClause("FORMAT", _is_format, "the format of an answer is a parameter of the request"),),
    "PARTITION": (_RefusedClause("PARTITION (…) after a table", _opens, "use WHERE"),),
    "ILIKE": (_RefusedClause("SELECT * ILIKE", _filters_names, "name the columns"),),
    "TOP": (_RefusedClause("TOP", _is_top, "use LIMIT"),),
    "PIVOT": (_RefusedClause("PIVOT", _opens, "use aggregates with FILTER (WHERE …)"),),
    "UNPIVOT": (_RefusedClause("UNPIVOT", _opens, "use UNION ALL"),),
    "MATCH_RECOGNIZE": (_RefusedClause("MATCH_RECOGNIZE", _opens),),
    "LATERAL": (_RefusedClause("LATERAL VIEW", _follows("VIEW"), "use unnest(…)"),),
    "CLUSTER": (_RefusedClause("CLUSTER BY", _follows("BY"), "use ORDER BY"),),
    "DISTRIBUTE": (_RefusedClause("DISTRIBUTE BY", _follows("BY")),),
    "SORT": (_RefusedClause("SORT BY", _follows("BY"), "use ORDER BY"),),
    "INTO": (_RefusedClause("SELECT … INTO", _is_into, "create the table, then INSERT … SELECT"),),
    "ASOF": (_RefusedClause("ASOF JOIN", _follows("JOIN")),),
}


def _refuse_in_call(layout: TokenLayout, index: int) -> None:
    """Refuse the clauses of aggregates in calls that do not take them."""
    name = layout.tokens[index].text.lower()
    closing = layout.partner[index + 1]
    is_aggregate, is_window = name in AGGREGATE_NAMES, name in WINDOW_NAMES
    if layout.word(index + 2) == "DISTINCT":
        if not is_aggregate or name in IGNORES_DISTINCT:
            raise _refusal(layout, index + 2, f"DISTINCT has no effect on {name}")
        if name == "count" and layout.is_operator(closing - 1, "*"):
            raise _refusal(
                layout, index + 2, "count(DISTINCT *) is not supported", "count the rows of SELECT DISTINCT *"
            )
    if name in RANKING_NAMES and _treats_nulls(layout, closing):
        raise _refusal(layout, index, f"IGNORE NULLS has no effect on {name}")
    if is_aggregate or is_window:
        return
    clause = _aggregate_clause(layout, index, closing)
    if clause:
        raise _refusal(layout, index, f"{clause} has no effect on {name}, which is not an aggregate function")


def _treats_nulls(layout: TokenLayout, closing: int) -> bool:
    if layout.word(closing + 1) in ("IGNORE", "RESPECT") and layout.word(closing + 2) == "NULLS":
        return True
    # Behind a call between the brackets they belong to that call.
    return (
        layout.word(closing - 1) == "NULLS"
        and layout.word(closing - 2) in ("IGNORE", "RESPECT")
        and not layout.is_operator(closing - 3, ")")
    )


def _aggregate_clause(layout: TokenLayout, index: int, closing: int) -> str:
    """Return the clause of an aggregate that a call has, '' if it has none."""
    behind = layout.word(closing + 1)
    if behind == "FILTER" and layout.is_operator(closing + 2, "("):
        return "FILTER"
    if behind == "OVER" and (layout.is_operator(closing + 2, "(") or layout.is_name(closing + 2)):
        return "OVER"
    if behind == "WITHIN" and layout.word(closing + 2) == "GROUP":
        return "WITHIN GROUP"
    if _treats_nulls(layout, closing):
        return "IGNORE NULLS"
    if layout.word(index + 2) in ("SELECT", "WITH", "VALUES", "FROM"):
        return ""
    depth = layout.depths[index + 1] + 1
    for each in range(index + 3, closing):
        if layout.word(each) == "ORDER" and layout.depths[each] == depth and layout.word(each + 1) == "BY":
            return "ORDER BY"
    return ""
