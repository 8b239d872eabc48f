"""Clauses of standard SQL that the query engine does not know, written with those it knows.

FETCH FIRST 3 ROWS ONLY             LIMIT 3
GROUP BY a, b WITH ROLLUP           GROUP BY ROLLUP(a, b)
t TABLESAMPLE (10 PERCENT)          (SELECT * FROM t WHERE random() < 0.1) AS t
OVER (w ORDER BY x)                 OVER (PARTITION BY y ORDER BY x), from WINDOW w AS (PARTITION BY y)
TABLE t, FROM t                     SELECT * FROM t
x COLLATE "C"                       x, since text is ordered by its bytes
"""

from __future__ import annotations

from decimal import Decimal

from tsdb.errors import InvalidSyntax, Unsupported
from tsdb.sql.lexer import TokenKind, locate, unquote
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.rewrite._refused import behind_operand
from tsdb.sql.statements import Dialect

CLAUSE_WORDS = frozenset({"FETCH", "ROLLUP", "CUBE", "TABLESAMPLE", "TABLE", "COLLATE", "ONLY"})

_SET_WORDS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_FRAME_WORDS = frozenset({"PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"})
_SAMPLE_ORDER = "sample__order"
_BYTE_ORDERS = frozenset({"c", "default", "posix", "ucs_basic", "binary", "utf8_bin", "utf8mb4_bin"})


def edit_clauses(layout: TokenLayout, edits: Edits, dialect: Dialect) -> None:
    """Edit the clauses of a query, after everything inside of them."""
    for index, word in enumerate(layout.words):
        if word == "FETCH" and layout.word(index + 1) in ("FIRST", "NEXT"):
            _edit_fetch(layout, edits, index)
        elif word == "WITH" and layout.word(index + 1) in ("ROLLUP", "CUBE") and layout.word(index + 2) != "AS":
            _edit_rollup(layout, edits, index)
        elif word == "TABLESAMPLE" and behind_operand(layout, index):
            _edit_sample(layout, edits, index)
        elif word == "COLLATE" and behind_operand(layout, index):
            _edit_collate(layout, edits, index, dialect)
        elif word == "ONLY" and dialect is Dialect.POSTGRESQL and _names_only(layout, index):
            edits.replace(layout.tokens[index].start, layout.tokens[index].end, "")
    if layout.word(0) == "TABLE" and layout.is_name(1):
        edits.replace(layout.tokens[0].start, layout.tokens[0].end, "SELECT * FROM")


def _names_only(layout: TokenLayout, index: int) -> bool:
    """`FROM ONLY t`: no table inherits from another one."""
    return layout.word(index - 1) in ("FROM", "JOIN") and layout.is_name(index + 1)


def edit_from_first(layout: TokenLayout, edits: Edits) -> None:
    """Add the list of columns to queries that begin with FROM and have none."""
    selected = [False]
    waiting: list[int | None] = [None]
    for index, token in enumerate(layout.tokens):
        word = layout.word(index)
        if token.kind == TokenKind.OPERATOR and token.text in ("(", "["):
            # Between the brackets of a call, FROM belongs to the call: extract(hour FROM ts).
            selected.append(index > 0 and layout.is_name(index - 1))
            waiting.append(None)
        elif word in _SET_WORDS or token.kind == TokenKind.END or (token.text in (")", "]") and len(selected) > 1):
            start = waiting[-1]
            if start is not None:
                edits.insert(layout.tokens[start].start, "SELECT * ")
            if token.text in (")", "]"):
                selected.pop()
                waiting.pop()
            else:
                selected[-1], waiting[-1] = False, None
        elif word == "SELECT" and not layout.is_operator(index - 1, ">"):
            selected[-1], waiting[-1] = True, None
        elif word == "FROM" and layout.word(index - 1) != "DISTINCT" and not selected[-1] and waiting[-1] is None:
            waiting[-1] = index


def _edit_fetch(layout: TokenLayout, edits: Edits, index: int) -> None:
    """`FETCH FIRST [n] ROWS ONLY`."""
    position = index + 2
    count = "1"
    if layout.word(position) not in ("ROW", "ROWS"):
        end = layout.operand_end(position)
        if end is None and layout.is_operator(position, "?"):
            end = position
        if end is None:
            raise _syntax(layout, position, "expected a number of rows after FETCH")
        count = edits.render(layout.tokens[position].start, layout.tokens[end].end)
        position = end + 1
    if layout.word(position) == "PERCENT":
        raise _unsupported(layout, index, "FETCH … PERCENT")
    if layout.word(position) not in ("ROW", "ROWS"):
        raise _syntax(layout, position, "expected ROWS ONLY after FETCH")
    if layout.word(position + 1) == "WITH":
        raise _unsupported(layout, index, "FETCH … WITH TIES")
    if layout.word(position + 1) != "ONLY":
        raise _syntax(layout, position + 1, "expected ROWS ONLY after FETCH")
    edits.absorb(layout.tokens[index].start, layout.tokens[position + 1].end, f"LIMIT {count}")


def _edit_rollup(layout: TokenLayout, edits: Edits, index: int) -> None:
    """`GROUP BY a, b WITH ROLLUP`."""
    depth = layout.depths[index]
    group = next(
        (
            each
            for each in range(index - 1, -1, -1)
            if layout.word(each) == "GROUP" and layout.word(each + 1) == "BY" and layout.depths[each] == depth
        ),
        None,
    )
    name = layout.word(index + 1)
    if group is None:
        raise _syntax(layout, index, f"WITH {name} needs a GROUP BY")
    if any(
        layout.tokens[each].kind == TokenKind.NUMBER and layout.depths[each] == depth
        for each in range(group + 2, index)
    ):
        raise _unsupported(layout, index, f"a position in GROUP BY … WITH {name}", "name the column")
    edits.insert(layout.tokens[group + 2].start, f"{name}(")
    edits.replace(layout.tokens[index].start, layout.tokens[index + 1].end, ")")


def _edit_sample(layout: TokenLayout, edits: Edits, index: int) -> None:
    """`t TABLESAMPLE [BERNOULLI | SYSTEM] (n [PERCENT | ROWS])`, the alias on either side."""
    opening = index + 1 if layout.is_operator(index + 1, "(") else index + 2
    if not layout.is_operator(opening, "(") or opening not in layout.partner:
        raise _syntax(layout, opening, "expected the size of the sample in parentheses after TABLESAMPLE")
    if opening == index + 2 and layout.word(index + 1) not in ("BERNOULLI", "SYSTEM"):
        raise _unsupported(layout, index, f"TABLESAMPLE {layout.word(index + 1)}", "use BERNOULLI or SYSTEM")
    before, behind_it = _sample_query(layout, opening)
    end = layout.partner[opening]
    if layout.word(end + 1) in ("REPEATABLE", "SEED"):
        raise _unsupported(layout, index, f"TABLESAMPLE … {layout.word(end + 1)}", "every sample is a new one")
    relation_end, alias = _relation_before(layout, index)
    start = layout.operand_start(relation_end)
    if start is None or layout.word(start - 1) == "AS" or (start and behind_operand(layout, start)):
        raise _unsupported(layout, index, "TABLESAMPLE after a list of column names")
    if alias is None:
        behind = end + 2 if layout.word(end + 1) == "AS" else end + 1
        if layout.is_name(behind):
            alias = layout.tokens[behind].text
            end = behind
        elif layout.is_name(relation_end):
            alias = layout.tokens[relation_end].text
    edits.insert(layout.tokens[start].start, before)
    name = f" AS {alias}" if alias is not None else ""
    edits.absorb(layout.tokens[relation_end].end, layout.tokens[end].end, f" {behind_it}{name}")


def _relation_before(layout: TokenLayout, index: int) -> tuple[int, str | None]:
    """Return the last token of the table or subquery before a token, and its alias."""
    last = index - 1
    if layout.is_name(last) and not layout.is_operator(last - 1, "."):
        if layout.word(last - 1) == "AS":
            return last - 2, layout.tokens[last].text
        if behind_operand(layout, last):
            return last - 1, layout.tokens[last].text
    return last, None


def _sample_query(layout: TokenLayout, opening: int) -> tuple[str, str]:
    """Return what goes before and behind a table to make a sample of `(10 PERCENT)` or `(10 ROWS)` of it."""
    closing = layout.partner[opening]
    size = layout.tokens[opening + 1]
    unit = layout.word(opening + 2) if closing == opening + 3 else "PERCENT"
    if size.kind != TokenKind.NUMBER or unit not in ("PERCENT", "ROWS") or closing > opening + 3:
        raise _syntax(layout, opening, "expected a number of PERCENT or of ROWS after TABLESAMPLE")
    if unit == "PERCENT":
        share = Decimal(size.text) / 100
        if share > 1:
            raise _syntax(layout, opening, "a sample is at most 100 PERCENT")
        return "(SELECT * FROM ", f"WHERE random() < {share:f})"
    if not size.text.isdigit():
        raise _syntax(layout, opening, "expected a whole number of ROWS after TABLESAMPLE")
    # The engine cannot sort rows of which no column is wanted, so that what they are sorted by is a column.
    before = f"(SELECT * EXCLUDE ({_SAMPLE_ORDER}) FROM (SELECT *, random() AS {_SAMPLE_ORDER} FROM "
    return before, f"ORDER BY {_SAMPLE_ORDER} LIMIT {size.text}))"


def _edit_collate(layout: TokenLayout, edits: Edits, index: int, dialect: Dialect) -> None:
    if not layout.is_name(index + 1):
        raise _syntax(layout, index + 1, "expected a collation after COLLATE")
    end = layout.chain_end(index + 1)
    name = unquote(layout.tokens[end], dialect)
    if name.lower() not in _BYTE_ORDERS:
        hint = 'text is compared by its bytes, which is COLLATE "C"'
        raise _unsupported(layout, index, f"COLLATE {layout.tokens[end].text}", hint)
    edits.replace(layout.tokens[index].start, layout.tokens[end].end, "")


def edit_windows(layout: TokenLayout, edits: Edits, dialect: Dialect) -> None:
    """Write out windows that are made of named ones: the query engine takes such a name for nothing."""
    definitions = _window_definitions(layout, dialect)
    openings = sorted({*(opening for _, opening in definitions), *_over_openings(layout)})
    # A definition that another one is made of is edited before it is used, whatever their order in the text.
    for opening in sorted(openings, key=lambda each: (not any(each == own for _, own in definitions), each)):
        base = opening + 1
        if not layout.is_name(base) or layout.word(base) in _FRAME_WORDS:
            continue
        name = unquote(layout.tokens[base], dialect)
        found = [own for known, own in definitions if known == name and own != opening]
        if not found:
            raise _syntax(layout, base, f"the window {name!r} is not defined")
        own = next((each for each in found if each > opening), found[-1])
        text = edits.render(layout.tokens[own].end, layout.tokens[layout.partner[own]].start)
        edits.replace(layout.tokens[base].start, layout.tokens[base].end, text)


def _window_definitions(layout: TokenLayout, dialect: Dialect) -> list[tuple[str, int]]:
    """Return names and opening brackets of `WINDOW a AS (…), b AS (…)`."""
    found = []
    for index, word in enumerate(layout.words):
        if word != "WINDOW":
            continue
        position = index + 1
        while layout.is_name(position) and layout.word(position + 1) == "AS" and position + 2 in layout.partner:
            found.append((unquote(layout.tokens[position], dialect), position + 2))
            closing = layout.partner[position + 2]
            if not layout.is_operator(closing + 1, ","):
                break
            position = closing + 2
    return found


def _over_openings(layout: TokenLayout) -> list[int]:
    return [
        index + 1
        for index, word in enumerate(layout.words)
        if word == "OVER" and layout.is_operator(index + 1, "(") and index + 1 in layout.partner
    ]


def _unsupported(layout: TokenLayout, index: int, what: str, hint: str | None = None) -> Unsupported:
    line, column = locate(layout.text, layout.tokens[index].start)
    return Unsupported(f"{what} is not supported, at line {line}, column {column}", hint=hint)


def _syntax(layout: TokenLayout, index: int, message: str) -> InvalidSyntax:
    line, column = locate(layout.text, layout.tokens[index].start)
    return InvalidSyntax(f"{message}, at line {line}, column {column}")
