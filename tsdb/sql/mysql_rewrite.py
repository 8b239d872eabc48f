"""Rewrites MySQL syntax that the query engine does not know.

    a DIV b                         CAST(a / nullif(b, 0) AS BIGINT)
    a MOD b                         a % nullif(b, 0), and likewise a / b
    a <=> b                         a IS NOT DISTINCT FROM b
    CAST(x AS SIGNED)               cast_signed(x): rounded, as much of a text as is a number
    CONVERT(x, CHAR)                CAST(x AS STRING)
    INTERVAL n DAY                  INTERVAL '1' DAY, or made of text where n is no literal
    GROUP_CONCAT(x SEPARATOR ';')   string_agg(x, ';')
    EXTRACT(MICROSECOND FROM x)     microsecond(x): the fraction alone, without the seconds
    SELECT SQL_NO_CACHE …           SELECT …

Functions have a table of their own, `tsdb.sql.mysql_calls`. The edited text is tokenized again, so that all other
edits apply to it. Headings come from the original text.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tsdb.sql.derived_names import name_derived
from tsdb.sql.headings import is_distinct, item_heading, outer_items
from tsdb.sql.lexer import Token, TokenKind, tokenize, unquote
from tsdb.sql.mysql_calls import EXPANSIONS, interval, unit_of
from tsdb.sql.rewrite import Edits, TokenLayout
from tsdb.sql.statements import Dialect

_OPERATOR_WORDS = frozenset({"DIV", "MOD"})
_MODIFIERS = frozenset({
    "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT",
    "SQL_NO_CACHE", "SQL_CACHE",
})  # fmt: skip
_CALLS = frozenset(name.upper() for name in EXPANSIONS) | {"CAST", "CONVERT", "GROUP_CONCAT", "EXTRACT"}
_WORDS = _CALLS | _OPERATOR_WORDS | _MODIFIERS | {"INTERVAL", "REGEXP", "RLIKE"}
_TEXT_TYPES = frozenset({"CHAR", "NCHAR", "CHARACTER"})


def rewrite_mysql(text: str, tokens: list[Token]) -> str:
    """Return the text of a MySQL client's query in the words of the query engine."""
    words = {token.word for token in tokens}
    if words.isdisjoint(_WORDS) and "<=>" not in text and "/" not in text and "%" not in text:
        return text
    edits = Edits(text)
    layout = before = TokenLayout(text, tokens)
    _edit_operators(layout, edits)
    if edits:
        text = edits.render()
        layout, edits = TokenLayout(text, tokenize(text, Dialect.MYSQL)), Edits(text)
    _edit_calls(layout, edits)
    return _named(before, edits.render())


def as_generic(text: str) -> str:
    """Return a query of a MySQL client as any client may read it: strings in single quotes, without escapes."""
    text = name_derived(text, tokenize(text, Dialect.MYSQL), Dialect.MYSQL)
    text = rewrite_mysql(text, tokenize(text, Dialect.MYSQL))
    edits = Edits(text)
    for token in tokenize(text, Dialect.MYSQL):
        if token.kind == TokenKind.STRING and (token.text[0] == '"' or "\\" in token.text):
            edits.replace(token.start, token.end, "'" + unquote(token, Dialect.MYSQL).replace("'", "''") + "'")
    return edits.render() if edits else text


def _named(before: TokenLayout, text: str) -> str:
    """Give the items of the SELECT list that were edited their headings as names.

    The query engine names a cast after what is cast, so `SELECT ts, DATE(ts)` would have one name twice.
    """
    items = outer_items(before)
    after = TokenLayout(text, tokenize(text, Dialect.MYSQL))
    places = outer_items(after)
    headings = [item_heading(before, *item, Dialect.MYSQL) for item in items]
    if len(items) != len(places) or is_distinct(after):
        return text
    edits = Edits(text)
    for (start, end), place, heading in zip(items, places, headings, strict=True):
        if isinstance(heading, str) and headings.count(heading) == 1 and not _WORDS.isdisjoint(before.words[start:end]):
            edits.insert(after.tokens[place[1] - 1].end, " AS `" + heading.replace("`", "``") + "`")
    return edits.render()


def _edit_operators(layout: TokenLayout, edits: Edits) -> None:
    """Edit operators from the inside of brackets to the outside, from left to right."""
    order = sorted(range(len(layout.tokens)), key=lambda index: (-layout.depths[index], index))
    for index in order:
        token, word = layout.tokens[index], layout.words[index]
        if layout.is_operator(index, "<=>"):
            edits.replace(token.start, token.end, "IS NOT DISTINCT FROM")
        elif word in _OPERATOR_WORDS and index and _ends_operand(layout, index - 1):
            _edit_division(layout, edits, index)
        elif layout.is_operator(index, "/") or layout.is_operator(index, "%"):
            _edit_divisor(layout, edits, index)
        elif word in ("REGEXP", "RLIKE") and index and not layout.is_operator(index + 1, ","):
            _edit_match(layout, edits, index)
        elif word in _MODIFIERS and _is_modifier(layout, index):
            edits.replace(token.start, token.end, "DISTINCT" if word == "DISTINCTROW" else "")


def _ends_operand(layout: TokenLayout, index: int) -> bool:
    token = layout.tokens[index]
    if token.kind == TokenKind.OPERATOR:
        return token.text in ")]"
    return token.kind != TokenKind.WORD or layout.words[index] == "END" or layout.is_name(index)


def _edit_division(layout: TokenLayout, edits: Edits, index: int) -> None:
    token = layout.tokens[index]
    if layout.words[index] == "MOD":
        edits.replace(token.start, token.end, "%")
        _edit_divisor(layout, edits, index)
        return
    start, end = _left(layout, index), _right(layout, index)
    if start is None or end is None:
        return
    left = edits.render(layout.tokens[start].start, layout.tokens[index - 1].end)
    right = edits.render(layout.tokens[index + 1].start, layout.tokens[end].end)
    edits.absorb(layout.tokens[start].start, layout.tokens[end].end, f"CAST(({left}) / nullif({right}, 0) AS BIGINT)")
    layout.operand_starts[end] = start


def _edit_divisor(layout: TokenLayout, edits: Edits, index: int) -> None:
    """Make a division by zero NULL; a divisor that is a number other than zero stays."""
    end = _right(layout, index)
    if end is None or _is_constant(layout, end):
        return
    right = edits.render(layout.tokens[index + 1].start, layout.tokens[end].end)
    edits.take(layout.tokens[index + 1].start, layout.tokens[end].end, f"nullif({right}, 0)")


def _is_constant(layout: TokenLayout, index: int) -> bool:
    token = layout.tokens[index]
    return token.kind == TokenKind.NUMBER and any(digit in "123456789" for digit in token.text.lower().split("e")[0])


def _left(layout: TokenLayout, index: int) -> int | None:
    """Return where the left operand starts: DIV binds like `*`, from left to right."""
    start = layout.operand_start(index - 1)
    while start is not None and start:
        before = start - 1
        if layout.words[before] in _OPERATOR_WORDS or any(layout.is_operator(before, each) for each in "*/%"):
            further = layout.operand_start(before - 1) if before else None
            if further is None:
                return start
            start = further
        elif _is_sign(layout, before):
            start = before
        else:
            return start
    return start


def _is_sign(layout: TokenLayout, index: int) -> bool:
    is_sign = layout.is_operator(index, "-") or layout.is_operator(index, "+")
    return is_sign and not (index and _ends_operand(layout, index - 1))


def _right(layout: TokenLayout, index: int) -> int | None:
    at = index + 1
    while _is_sign(layout, at):
        at += 1
    return layout.operand_end(at)


def _edit_match(layout: TokenLayout, edits: Edits, index: int) -> None:
    """`x [NOT] REGEXP 'p'`: letters of both cases match."""
    is_negated = layout.words[index - 1] == "NOT"
    first = layout.tokens[index - 1 if is_negated else index]
    edits.replace(first.start, layout.tokens[index].end, "!~*" if is_negated else "~*")


def _is_modifier(layout: TokenLayout, index: int) -> bool:
    before = index - 1
    while before > 0 and layout.words[before] in _MODIFIERS | {"DISTINCT", "ALL"}:
        before -= 1
    return layout.words[before] == "SELECT"


def _edit_calls(layout: TokenLayout, edits: Edits) -> None:
    """Edit every call, inner ones before outer ones."""
    for index in range(len(layout.tokens) - 1, -1, -1):
        word = layout.words[index]
        if word == "INTERVAL":
            _edit_interval(layout, edits, index)
        elif word in _CALLS and layout.is_operator(index + 1, "(") and index + 1 in layout.partner:
            if layout.is_operator(index - 1, "."):
                continue
            replacement = _expand(layout, edits, index)
            if replacement is not None:
                closing = layout.tokens[layout.partner[index + 1]]
                edits.absorb(layout.tokens[index].start, closing.end, replacement)


def _expand(layout: TokenLayout, edits: Edits, index: int) -> str | None:
    word = layout.words[index]
    if word == "GROUP_CONCAT":
        return _group_concat(layout, edits, index + 1)
    if word == "CAST":
        return _cast(layout, edits, index + 1, "AS")
    if word == "EXTRACT":
        is_fraction = layout.words[index + 2 : index + 4] == ["MICROSECOND", "FROM"]
        closing = layout.tokens[layout.partner[index + 1]]
        value = edits.render(layout.tokens[index + 3].end, closing.start).strip() if is_fraction else ""
        return EXPANSIONS["microsecond"]([value]) if is_fraction else None
    arguments = [edits.render(start, end).strip() for start, end in layout.arguments(index + 1)]
    if word == "CONVERT":
        if len(arguments) == 2:
            return _converted(arguments[0], arguments[1].upper().split()) or f"CAST({arguments[0]} AS {arguments[1]})"
        return _cast(layout, edits, index + 1, "USING")
    return EXPANSIONS[word.lower()](arguments)


def _cast(layout: TokenLayout, edits: Edits, opening: int, mark: str) -> str | None:
    """`(x AS type)`, or `(x USING charset)`; None for types the query engine knows."""
    closing, depth = layout.partner[opening], layout.depths[opening] + 1
    marks = [each for each in range(opening, closing) if layout.words[each] == mark and layout.depths[each] == depth]
    if not marks:
        return None
    value = edits.render(layout.tokens[opening].end, layout.tokens[marks[-1]].start).strip()
    if mark == "USING":
        return value
    return _converted(value, layout.text[layout.tokens[marks[-1]].end : layout.tokens[closing].start].upper().split())


def _converted(value: str, kind: list[str]) -> str | None:
    if kind in (["SIGNED"], ["SIGNED", "INTEGER"], ["SIGNED", "INT"]):
        return f"cast_signed({value})"
    if kind in (["UNSIGNED"], ["UNSIGNED", "INTEGER"], ["UNSIGNED", "INT"]):
        return f"cast_unsigned({value})"
    name, _, width = "".join(kind[:1]).partition("(")
    if name not in _TEXT_TYPES:
        return None
    text, digits = f"CAST({value} AS STRING)", width.rstrip(")")
    return f"left({text}, {digits})" if digits.isdigit() else text


def _edit_interval(layout: TokenLayout, edits: Edits, index: int) -> None:
    """`INTERVAL number unit`; the query engine's own form, with the unit in the string, stays."""
    end = _right(layout, index)
    if end is None or not layout.words[end + 1]:
        return
    number = edits.render(layout.tokens[index + 1].start, layout.tokens[end].end)
    written = interval(number, unit_of(layout.tokens[end + 1].text))
    if written is not None:
        edits.absorb(layout.tokens[index].start, layout.tokens[end + 1].end, written)


def _group_concat(layout: TokenLayout, edits: Edits, opening: int) -> str | None:
    """`([DISTINCT] x, … [ORDER BY …] [SEPARATOR ','])`."""
    closing, depth = layout.partner[opening], layout.depths[opening] + 1
    level = [each for each in range(opening + 1, closing) if layout.depths[each] == depth]
    order = next((each for each in level if layout.words[each] == "ORDER"), None)
    separator = next((each for each in level if layout.words[each] == "SEPARATOR"), None)
    is_distinct = layout.words[opening + 1] == "DISTINCT"
    begin = layout.tokens[opening + is_distinct].end
    end = layout.tokens[order or separator or closing].start
    commas = [
        layout.tokens[each].start for each in level if layout.is_operator(each, ",") and layout.tokens[each].start < end
    ]
    bounds = [begin, *commas, end]
    items = [edits.render(first, last).strip(", \n\t") for first, last in pairwise(bounds)]
    if not all(items):
        return None
    value = f"CAST({items[0]} AS STRING)" if len(items) == 1 else f"concat({', '.join(items)})"
    glue = "','" if separator is None else layout.tokens[separator + 1].text
    sort = ""
    if order is not None:
        behind = layout.tokens[separator or closing].start
        sort = " " + edits.render(layout.tokens[order].start, behind).strip()
        if len(items) == 1 and is_distinct:  # the engine wants to sort by the very value that is distinct
            sort = re.sub(rf"(?i)\b{re.escape(items[0])}(?=\s|,|$)", lambda _: value, sort)
    return f"string_agg({'DISTINCT ' if is_distinct else ''}{value}, {glue}{sort})"
