"""How large a query becomes once its common table expressions, views and derived columns are expanded.

The query engine copies the plan of a common table expression or a view to every place that names it, and the
expression of a derived column to every place that uses it. A kilobyte of text can become a plan of millions of nodes:
each of twenty CTEs that reads the one before it twice doubles it. `measure` computes that size from the tokens alone,
without expanding anything, in a time that grows with the text.

    relations   tables, derived tables and SELECTs
    tokens      tokens, each derived column counted as the expression behind it
    depth       operators on the longest path through expressions within expressions
    growth      bytes that functions such as repeat() make in one row, as far as the text says it
    pairs       rows that the largest join without an equality has to compare, as far as sizes are written in the text

It is no parser: where the text is not understood, its tokens count as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from tsdb.errors import InvalidSyntax
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.parser import QUERY_OPERATORS_MAX
from tsdb.sql.rewrite import TokenLayout
from tsdb.sql.statements import Dialect

QUERY_RELATIONS_MAX = 2000
"""How many tables and SELECTs a query may have after expansion; 2,000 took a third of a second to plan."""

QUERY_TOKENS_MAX = 200_000
"""How many tokens its expressions may have after expansion, unless its own text has more."""

QUERY_PAIRS_MAX = 10_000_000_000
"""How many pairs of rows a join without an equality may compare, where the text says how many there are."""

QUERY_GROWTH_BYTES_MAX = 100_000_000
"""How many bytes functions such as repeat() may make of what the text says, all values of a row together."""

_PARENTHESES = re.compile(r"[()]")
_COUNT_FACTOR = 1000.0
"""The assumed number of repetitions where it is not a literal; the real one is known when the query runs."""

_ITEM_BYTES = 8.0

# Functions that repeat an argument as often as a number says, those that list numbers, those that put a text in places.
_REPEATING = frozenset(
    {"REPEAT", "LPAD", "RPAD", "SPACE", "ARRAY_REPEAT", "LIST_REPEAT", "ARRAY_RESIZE", "LIST_RESIZE"}
)
_LISTING = frozenset({"RANGE", "GENERATE_SERIES", "GEN_SERIES"})
_REPLACING = frozenset({"REPLACE", "REGEXP_REPLACE", "TRANSLATE", "ARRAY_TO_STRING", "LIST_TO_STRING", "ARRAY_JOIN"})
_FILLING = frozenset({"LPAD", "RPAD", "SPACE"})
GROWING_FUNCTIONS = _REPEATING | _LISTING | _REPLACING
"""Functions whose result can be many times as large as their arguments."""

_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES"})
_CLAUSES = frozenset(
    {"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "FETCH", "FOR"}
)
_SERIES = frozenset({"GENERATE_SERIES", "RANGE"})
_OPERATOR_WORDS = frozenset({"AND", "OR", "NOT", "LIKE", "ILIKE", "BETWEEN", "IN", "IS", "WHEN", "CASE"})
_FREE = frozenset({".", ",", "(", ")", "[", "]", ";"})


@dataclass(frozen=True, slots=True)
class ColumnGrowth:
    """The size of the expression of a result column."""

    name: str
    tokens: int
    depth: int
    growth: float = 1.0
    """How many bytes functions make of it, as far as the text says it."""


@dataclass(frozen=True, slots=True)
class QuerySize:
    """The size of a query after expansion."""

    relations: int
    tokens: int
    depth: int = 0
    growth: float = 0.0
    pairs: float = 0.0
    rows: float = 1.0
    """How many rows it gives, 1 if the text does not say it."""
    columns: tuple[ColumnGrowth, ...] = ()

    def check(self, *, own_tokens: int) -> None:
        """Raise InvalidSyntax if this is more than can be planned or run."""
        if self.relations > QUERY_RELATIONS_MAX:
            raise InvalidSyntax(
                f"the query reads more than {QUERY_RELATIONS_MAX} tables and subqueries after its views and common "
                f"table expressions are expanded",
                hint="a common table expression counts wherever it is named",
            )
        if self.tokens > max(QUERY_TOKENS_MAX, own_tokens):
            raise InvalidSyntax(
                f"the expressions of the query have more than {QUERY_TOKENS_MAX} tokens after its derived "
                f"columns are expanded"
            )
        if self.depth > QUERY_OPERATORS_MAX:
            raise InvalidSyntax(
                f"one expression of the query has more than {QUERY_OPERATORS_MAX} operators after its derived columns "
                f"are expanded"
            )
        if self.growth > QUERY_GROWTH_BYTES_MAX:
            raise InvalidSyntax(
                f"the functions of the query would make more than {QUERY_GROWTH_BYTES_MAX} bytes in one row",
                hint="use shorter strings and lists",
            )
        if self.pairs > QUERY_PAIRS_MAX:
            raise InvalidSyntax(
                f"the query joins without an equality and would compare more than {QUERY_PAIRS_MAX} pairs of rows",
                hint="add a condition of the form a = b, or a LIMIT",
            )


ViewSize = Callable[[tuple[str, ...]], QuerySize | None]
"""The size of the view that a name of one to three parts stands for, None for anything else."""

_TABLE = QuerySize(1, 0)


def measure(layout: TokenLayout, dialect: Dialect, view: ViewSize) -> QuerySize:
    """Return the size of a query; raises InvalidSyntax as soon as a part of it is too large."""
    reader = _GrowthReader(layout, dialect, view)
    return reader.query(0, len(layout.tokens) - 1, {})


class _GrowthReader:
    def __init__(self, layout: TokenLayout, dialect: Dialect, view: ViewSize) -> None:
        self._layout = layout
        self._dialect = dialect
        self._view = view
        self._words = layout.words
        self._own_tokens = len(layout.tokens)
        self._grows = not GROWING_FUNCTIONS.isdisjoint(layout.words)

    def query(self, start: int, end: int, known: Mapping[str, QuerySize]) -> QuerySize:
        """Measure WITH …, SELECT … UNION SELECT …, VALUES …, or one of these in brackets."""
        if start < end and self._layout.is_operator(start, "(") and self._closing(start, end) == end - 1:
            return self.query(start + 1, end - 1, known)
        if self._words[start] == "WITH":
            start, known = self._common_tables(start + 1, end, known)
        total = QuerySize(0, 0)
        for number, (left, right) in enumerate(self._branches(start, end)):
            if left >= right:
                continue
            bracketed = self._layout.is_operator(left, "(")
            branch = self.query(left, self._closing(left, right) + 1, known) if bracketed else None
            if branch is None or branch.relations == 0:
                branch = self._select(left, right, known)
            columns = branch.columns if not number else _widest(total.columns, branch.columns)
            rows = branch.rows if not number else total.rows + branch.rows
            total = replace(_sum(total, branch), columns=columns, rows=rows)
        total.check(own_tokens=self._own_tokens)
        return total

    def _common_tables(self, index: int, end: int, known: Mapping[str, QuerySize]) -> tuple[int, dict[str, QuerySize]]:
        """Measure the definitions behind WITH; returns where the query itself starts."""
        found = dict(known)
        if self._words[index] == "RECURSIVE":
            index += 1
        while index < end and self._layout.is_name(index):
            name = unquote(self._layout.tokens[index], self._dialect)
            index += 1
            names: list[str] = []
            if self._layout.is_operator(index, "("):
                names = self._names(index)
                index = self._closing(index, end) + 1
            while self._words[index] in ("AS", "NOT", "MATERIALIZED"):
                index += 1
            if not self._layout.is_operator(index, "("):
                break
            closing = self._closing(index, end)
            found[name] = _renamed(self.query(index + 1, closing, {**found, name: _TABLE}), names)
            index = closing + 1
            if not self._layout.is_operator(index, ","):
                break
            index += 1
        return index, found

    def _branches(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the operands of UNION, INTERSECT and EXCEPT."""
        left = start
        for index in self._outermost(start, end):
            if self._words[index] in _SET_OPERATIONS:
                yield left, index
                left = index + 1
                while self._words[left] in ("ALL", "DISTINCT", "BY", "NAME"):
                    left += 1
        yield left, end

    def _select(self, start: int, end: int, known: Mapping[str, QuerySize]) -> QuerySize:
        if self._words[start] == "VALUES":
            listed = sum(1 for each in self._outermost(start, end) if self._layout.is_operator(each, "("))
            return QuerySize(1, end - start, rows=float(listed))
        if self._words[start] == "TABLE" and self._layout.is_name(start + 1):
            return self._source(start + 1, end, known)[0]
        bounds = self._clause_bounds(start, end)
        sources, rest, count = QuerySize(0, 0), 0, 0
        conditions_equal, source_rows = False, 1.0
        from_start, from_end = bounds.get("FROM", (end, end))
        for source, stop in self._sources(from_start, from_end, known):
            sources = replace(_sum(sources, source), columns=sources.columns + source.columns)
            source_rows, count, rest = source_rows * source.rows, count + 1, stop
        columns = _by_name(sources.columns)
        total = sources
        for name, (left, right) in bounds.items():
            if name in ("WHERE", "FROM"):
                conditions_equal = conditions_equal or self._has_equality(left, right)
            if name not in ("SELECT", "FROM"):
                total = _sum(total, self._expression(left, right, columns, known))
        if rest < from_end:
            total = _sum(total, self._expression(from_start, from_end, columns, known, is_from=True))
        items, growth = self._items(*bounds.get("SELECT", (start, start)), sources.columns, columns, known)
        total = _sum(total, growth)
        is_joined = count > 1 and not conditions_equal
        pairs = source_rows if is_joined and "LIMIT" not in bounds else 0.0
        rows = 1.0 if "GROUP" in bounds else source_rows if is_joined or count == 1 else 1.0
        return replace(
            total,
            relations=total.relations + 1,
            columns=tuple(items),
            pairs=max(total.pairs, pairs),
            rows=min(rows, self._limit(bounds)) * self._unnested(*bounds.get("SELECT", (start, start))),
        )

    def _clause_bounds(self, start: int, end: int) -> dict[str, tuple[int, int]]:
        """Return the tokens of each clause of a SELECT without the word in front, by that word."""
        found: dict[str, tuple[int, int]] = {}
        word, left = "", start
        for index in self._outermost(start, end):
            if self._words[index] in _CLAUSES or (self._words[index] == "SELECT" and "SELECT" not in found):
                if word and word not in found:
                    found[word] = (left, index)
                word, left = self._words[index], index + 1
        if word and word not in found:
            found[word] = (left, end)
        return found

    def _sources(self, start: int, end: int, known: Mapping[str, QuerySize]) -> Iterator[tuple[QuerySize, int]]:
        """Yield what a FROM clause reads and where each of them ends."""
        is_next = True
        index = start
        while index < end:
            if is_next and self._words[index] not in ("LATERAL", "ONLY"):
                source, index = self._source(index, end, known)
                yield source, index
                is_next = False
                continue
            is_next = is_next or self._words[index] == "JOIN" or self._layout.is_operator(index, ",")
            index = self._closing(index, end) + 1 if self._layout.is_operator(index, "(") else index + 1

    def _source(self, index: int, end: int, known: Mapping[str, QuerySize]) -> tuple[QuerySize, int]:
        """Measure one table of a FROM clause; returns the place behind it."""
        layout = self._layout
        if layout.is_operator(index, "("):
            closing = self._closing(index, end)
            if self._words[index + 1] in _QUERY_STARTS or layout.is_operator(index + 1, "("):
                source = self.query(index + 1, closing, known)
            else:
                source = QuerySize(0, 0)
                for each, _ in self._sources(index + 1, closing, known):
                    source = replace(
                        _sum(source, each), rows=source.rows * each.rows, columns=source.columns + each.columns
                    )
            return self._aliased(source, closing + 1, end)
        if not layout.is_name(index):
            return _TABLE, index + 1
        last = layout.chain_end(index)
        if layout.is_operator(last + 1, "("):
            closing = self._closing(last + 1, end)
            rows = self._series_rows(last, closing) if self._words[last] in _SERIES else 1.0
            return self._aliased(QuerySize(1, closing - index, rows=rows), closing + 1, end)
        parts = tuple(unquote(layout.tokens[each], self._dialect) for each in range(index, last + 1, 2))
        own = known.get(parts[0]) if len(parts) == 1 else None
        return self._aliased(own or self._view(parts) or _TABLE, last + 1, end)

    def _aliased(self, source: QuerySize, index: int, end: int) -> tuple[QuerySize, int]:
        """Give a source the column names of its alias: `AS x (a, b)`."""
        if self._words[index] == "AS":
            index += 1
        if index < end and self._layout.is_name(index):
            index += 1
            if self._layout.is_operator(index, "("):
                return _renamed(source, self._names(index)), self._closing(index, end) + 1
        return source, index

    def _items(
        self,
        start: int,
        end: int,
        all_columns: tuple[ColumnGrowth, ...],
        columns: Mapping[str, ColumnGrowth],
        known: Mapping[str, QuerySize],
    ) -> tuple[list[ColumnGrowth], QuerySize]:
        """Measure the items of a SELECT list."""
        items: list[ColumnGrowth] = []
        total, left = QuerySize(0, 0), start
        commas = [each for each in self._outermost(start, end) if self._layout.is_operator(each, ",")]
        for right in (*commas, end):
            if right > left and self._layout.is_operator(right - 1, "*") and right - left <= 4:
                items += all_columns
                total = _sum(total, QuerySize(0, sum(each.tokens for each in all_columns) + 1))
            elif right > left:
                named = self._item_name(left, right)
                size = self._expression(left, right, columns, known)
                items.append(ColumnGrowth(named, max(size.tokens, 1), size.depth, max(size.growth, 1.0)))
                total = _sum(total, size)
            left = right + 1
        return items, total

    def _item_name(self, left: int, right: int) -> str:
        last = right - 1
        return unquote(self._layout.tokens[last], self._dialect) if self._layout.is_name(last) else f"#{left}"

    def _expression(
        self,
        start: int,
        end: int,
        columns: Mapping[str, ColumnGrowth],
        known: Mapping[str, QuerySize],
        *,
        is_from: bool = False,
    ) -> QuerySize:
        """Measure expressions: their tokens, with those behind derived columns, and the queries inside of them."""
        layout, words = self._layout, self._words
        total = QuerySize(0, 0)
        tokens = operators = depth = 0
        growth = _Growth()
        index = start
        while index < end:
            token = layout.tokens[index]
            if token.kind == TokenKind.OPERATOR:
                if token.text == "(" and words[index + 1] in _QUERY_STARTS:
                    closing = self._closing(index, end)
                    if not is_from:
                        inner = self.query(index + 1, closing, known)
                        total = _sum(total, inner)
                        growth.add(max((each.growth for each in inner.columns), default=1.0))
                    index = closing + 1
                    continue
                tokens += 1
                operators += token.text not in _FREE
                if token.text in "([":
                    growth.open(*self._factor(index, end) if self._grows else (1.0, False))
                elif token.text in ")]":
                    growth.close()
            else:
                column = columns.get(self._name_at(index)) if columns and layout.is_name(index) else None
                if column is None or layout.is_operator(index + 1, ".") or layout.is_operator(index + 1, "("):
                    tokens += 1
                    operators += words[index] in _OPERATOR_WORDS
                    growth.add(float(len(token.text)) if token.kind == TokenKind.STRING else 1.0)
                elif words[index - 1] != "AS":
                    tokens += column.tokens
                    depth = max(depth, column.depth)
                    growth.add(column.growth)
            index += 1
        return replace(
            total,
            tokens=total.tokens + tokens,
            depth=max(total.depth, operators + depth),
            growth=total.growth + growth.close_all() if self._grows else 0.0,
        )

    def _factor(self, opening: int, end: int) -> tuple[float, bool]:
        """Return how large the result of a call may be, and whether that is so whatever the size of its arguments."""
        name = self._words[opening - 1] if opening else ""
        if name not in GROWING_FUNCTIONS:
            return 1.0, False
        inside = range(opening + 1, self._closing(opening, end))
        tokens = [self._layout.tokens[each] for each in inside]
        if name in _REPLACING:
            texts = [float(len(each.text)) for each in tokens if each.kind == TokenKind.STRING]
            return max(texts, default=_COUNT_FACTOR), False
        arguments = [each for each in self._split(opening + 1, inside.stop) if each]
        numbers = [_constant(self._layout.tokens[each.start : each.stop]) for each in arguments]
        if name in _LISTING:
            largest = max(_COUNT_FACTOR if each is None else abs(each) for each in (*numbers, 0.0))
            return _ITEM_BYTES * largest, True
        count = numbers[-1] if len(numbers) == 1 else (*numbers, None, None)[1]
        return max(_COUNT_FACTOR if count is None else count, 1.0), name in _FILLING

    def _split(self, start: int, end: int) -> Iterator[range]:
        """Yield the arguments between two brackets."""
        left = start
        for index in self._outermost(start, end):
            if self._layout.is_operator(index, ","):
                yield range(left, index)
                left = index + 1
        yield range(left, end)

    def _name_at(self, index: int) -> str:
        return unquote(self._layout.tokens[index], self._dialect)

    def _has_equality(self, start: int, end: int) -> bool:
        return any(
            self._layout.is_operator(each, "=") or self._words[each] in ("USING", "NATURAL", "IN", "EXISTS")
            for each in range(start, end)
        )

    def _limit(self, bounds: Mapping[str, tuple[int, int]]) -> float:
        start, end = bounds.get("LIMIT", (0, 0))
        number = self._layout.tokens[start] if end - start == 1 else None
        return float(number.text) if number is not None and number.text.isdigit() else inf

    def _unnested(self, start: int, end: int) -> float:
        """Return into how many rows `unnest(range(a, b))` makes each one."""
        rows = 1.0
        for index in range(start, end - 2):
            if self._words[index] == "UNNEST" and self._words[index + 2] in _SERIES:
                rows *= self._series_rows(index + 2, self._closing(index + 3, end))
        return max(rows, 1.0)

    def _series_rows(self, index: int, closing: int) -> float:
        """Return how many numbers a series with bounds that are written as numbers has; 1 for any other."""
        numbers: list[float] = []
        sign = 1.0
        for each in range(index + 2, closing):
            token = self._layout.tokens[each]
            if token.kind == TokenKind.NUMBER:
                numbers.append(sign * _number(token.text))
                sign = 1.0
            elif token.text == "-":
                sign = -1.0
            elif token.text != ",":
                return 1.0
        first, last, step = (0.0, *numbers, 1.0) if len(numbers) == 1 else (*numbers, 1.0, 0.0, 0.0)[:3]
        return max((last - first) / step, 1.0) if step else 1.0

    def _names(self, opening: int) -> list[str]:
        inside = range(opening + 1, self._layout.partner.get(opening, opening))
        return [self._name_at(each) for each in inside if self._layout.is_name(each)]

    def _closing(self, opening: int, end: int) -> int:
        return min(self._layout.partner.get(opening, end - 1), end)

    def _outermost(self, start: int, end: int) -> Iterator[int]:
        """Yield the tokens that stand in no bracket, and the opening ones of those brackets."""
        index = start
        while index < end:
            yield index
            opens = self._layout.tokens[index].kind == TokenKind.OPERATOR and self._layout.tokens[index].text in "(["
            index = max(self._closing(index, end), index) + 1 if opens else index + 1


class _Growth:
    """Adds up how large an expression becomes: sums within brackets, multiplied by what the call before them does."""

    def __init__(self) -> None:
        self._sums = [0.0]
        self._calls: list[tuple[float, bool]] = []

    def add(self, size: float) -> None:
        self._sums[-1] += size

    def open(self, factor: float, is_whole: bool) -> None:
        self._calls.append((factor, is_whole))
        self._sums.append(0.0)

    def close(self) -> None:
        if self._calls:
            (factor, is_whole), total = self._calls.pop(), self._sums.pop()
            self.add(factor if is_whole else factor * max(total, 1.0))

    def close_all(self) -> float:
        while self._calls:
            self.close()
        return self._sums[0]


def _constant(tokens: list[Token]) -> float | None:
    """Return the number that an argument is, None for an expression."""
    if len(tokens) == 2 and tokens[0].text == "-":
        tokens = tokens[1:]
    return _number(tokens[0].text) if len(tokens) == 1 and tokens[0].kind == TokenKind.NUMBER else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _sum(one: QuerySize, other: QuerySize) -> QuerySize:
    return replace(
        one,
        relations=one.relations + other.relations,
        tokens=one.tokens + other.tokens,
        depth=max(one.depth, other.depth),
        growth=one.growth + other.growth,
        pairs=max(one.pairs, other.pairs),
    )


def _renamed(size: QuerySize, names: list[str]) -> QuerySize:
    if not names:
        return size
    renamed = [replace(column, name=name) for column, name in zip(size.columns, names, strict=False)]
    return replace(size, columns=(*renamed, *size.columns[len(renamed) :]))


def _widest(first: tuple[ColumnGrowth, ...], other: tuple[ColumnGrowth, ...]) -> tuple[ColumnGrowth, ...]:
    """Return the columns of a union: the names of its first branch, each as large as the largest there."""
    if len(first) != len(other):
        return first
    return tuple(
        replace(
            one,
            tokens=max(one.tokens, two.tokens),
            depth=max(one.depth, two.depth),
            growth=max(one.growth, two.growth),
        )
        for one, two in zip(first, other, strict=True)
    )


def _by_name(columns: tuple[ColumnGrowth, ...]) -> dict[str, ColumnGrowth]:
    found: dict[str, ColumnGrowth] = {}
    for column in columns:
        known = found.get(column.name)
        if known is None or known.tokens < column.tokens:
            found[column.name] = column
    return found


def calls_depth(text: str) -> int:
    """Return how deep parentheses are in parentheses: at least as deep as calls are in calls, quotes aside."""
    depth = deepest = 0
    for sign in _PARENTHESES.findall(text):
        depth += 1 if sign == "(" else -1
        deepest = max(deepest, depth)
    return deepest
