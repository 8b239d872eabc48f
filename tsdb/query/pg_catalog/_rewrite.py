r"""What PostgreSQL's clients write and the query engine cannot read, put into other words. Pure edits of tokens.

    pg_catalog.format_type(…)                 format_type(…)
    x OPERATOR(pg_catalog.~) 'p'              x ~ 'p'
    x COLLATE pg_catalog.default              x
    x = ANY('{a,b}')                          x = ANY(ARRAY['a', 'b'])
    'a.t'::regclass                           the number, looked up in pg_class
    t.oid::regtype::text                      format_type(t.oid, NULL)
    pg_get_expr(x, y)                         (x)
    x LIKE p ESCAPE '/'                       x LIKE replace(replace(p, '\', '\\'), '/', '\')
    EXISTS (SELECT … FROM pg_trigger …)       false, as for every table that is always empty
    (SELECT x FROM pg_attrdef d WHERE …)      (SELECT max(x) FROM …): the engine wants an aggregate there
    (i.keys).x                                get_field((i.keys), 'x')
    generate_series(1, array_upper(a, 1)) AS s(r)   (SELECT unnest(…) AS r) AS s
    format('%I.%I', a, b)::regclass           pg_class_number(concat(quote_ident(a), '.', quote_ident(b), ''))
    FROM string_to_array(a, ',') s            FROM (SELECT string_to_array(a, ',') AS s) AS s
    CASE WHEN x IN (SELECT …) THEN …          CASE WHEN array_has((SELECT array_agg(…) …), x) THEN …
    t.typreceive <> 0                         t.typreceive <> '-': functions are given by name
    proc.oid = t.typreceive                   proc.proname = t.typreceive
    i.indisprimary = 't'                      i.indisprimary = true
    CAST(x AS OID)                            CAST(x AS BIGINT)
    "pg_class"                                pg_catalog."pg_class"
    to_timestamp('…', 'YYYY-MM-DD')           to_timestamp__pattern('…', 'YYYY-MM-DD'); so is to_date
    _pg_expandarray(i.indkey)                 unnest(pg_expanded(i.indkey)): places and numbers of the columns of a key
    SELECT NULL, NULL                         each gets a name: the engine wants names to differ
    date(x)                                   CAST(x AS DATE)
    '… 00:00:00.123456'::timestamp            …::timestamp(6): without a precision the engine keeps milliseconds
    make_timestamp(1970, 1, 1, 0, 0, 0)       TIMESTAMP '1970-01-01 00:00:00'
    table_catalog = 'public'                  (table_catalog = 'public' OR current_database() = 'public'): PostgreSQL's
                                              clients take the database of their connection for the catalog

Only texts that speak of PostgreSQL's own things are touched at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tsdb.query.pg_catalog._calls import rewrite_call
from tsdb.query.pg_catalog._format import format_pieces
from tsdb.query.pg_catalog._oids import CATALOG_CLASS_OIDS, type_number
from tsdb.query.pg_catalog._schemas import PG_TABLES, boolean_columns
from tsdb.query.pg_catalog._subqueries import Structure, rewrite_subquery
from tsdb.query.pg_catalog._type_tree import rewrite_type_tree
from tsdb.sql.lexer import Token, TokenKind
from tsdb.sql.rewrite import KEYWORDS

_MARKERS = re.compile(
    r"pg_|typeinfo_tree|parse_ident|array_lower|array_upper|quote_ident|\bformat\s*\(|current_setting|set_config|::\s*(?:reg|oid|name\b|\"char\")|\bcollate\b|\boperator\s*\(|format_type|_description\s*\(|to_regclass"
    r"|has_\w+_privilege|\bcurrent_schema\b|\bcurrent_catalog\b|\bcast\s*\(|\bescape\b"
    r"|\bdate\s*\(|\bto_(?:timestamp|date)\s*\(|make_timestamp|table_catalog|gen_random_uuid|\.\d{4,9}[^']{0,12}'\s*::\s*timestamp|\b(?:any|all|some)\s*\(\s*'\{",
    re.IGNORECASE,
)
_TABLES = frozenset(PG_TABLES)

_TEXT_TYPES = frozenset({"name", "char", "text", "bpchar"})
_DROPPED_TYPES = frozenset({"regtype", "regproc", "regprocedure", "regnamespace", "regrole", "regoper", "xid", "tid"})

_PATTERN_ENDS = frozenset({"AND", "OR", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "FROM", "AS"})
_MEMBER = r'[^",{}\\]+|"(?:[^"\\]|\\.)*"'
_ARRAY = re.compile(rf"\{{(?:(?:{_MEMBER})(?:,(?:{_MEMBER}))*)?\}}")
_MEMBERS = re.compile(_MEMBER)
_FOREIGN_KEYS = re.compile(r"\bcontype\s*=\s*'f'", re.IGNORECASE)
"""There are none: what stands for each of them needs no plan, only a type."""
_KEY_COLUMNS = re.compile(r"\bconf?key\b", re.IGNORECASE)
_BEFORE_VALUES = frozenset({"SELECT", "WHERE", "AND", "OR", "NOT", "ON", "BY", "IN", "WHEN", "THEN", "ELSE", "CASE"})
_UNNESTED = {"_pg_expandarray": "pg_expanded", "generate_subscripts": "pg_subscripts"}
"""Functions that answer with rows, and those that answer with the same in an array."""
_FUNCTION_COLUMNS = frozenset({"TYPINPUT", "TYPOUTPUT", "TYPRECEIVE", "TYPSEND"})
_BOOLEAN_COLUMNS = boolean_columns()
_EQUALITIES = frozenset({"=", "<>", "!="})
_MARKED_OPERAND = re.compile(r"pg_|::|\bselect\b", re.IGNORECASE)
_BOUNDS = {
    "array_lower": ("nullif(least(1, CAST(cardinality", " AS BIGINT)), 0)"),
    "array_upper": ("nullif(CAST(cardinality", " AS BIGINT), 0)"),
}
"""Functions of an array and a dimension: what stands before and behind the array in brackets."""
_TEXT_CALLS = frozenset({"FORMAT", "CONCAT", "CONCAT_WS", "QUOTE_IDENT", "REPLACE", "LOWER"})
"""Functions whose result is a name where it is cast to regclass; that of others is a number."""
_MICROSECONDS = re.compile(r"\.\d{4}")
_TIMES = frozenset({"TIMESTAMP", "TIMESTAMPTZ"})
_CASTS = frozenset({"CAST", "(", ")", "AS", "INT", "INTEGER", "DOUBLE", "PRECISION"})
_AHEAD = 6


class PgEdit(NamedTuple):
    """Replace `text[start:end]`; equal numbers mean an insertion."""

    start: int
    end: int
    replacement: str


def rewrite_pg(text: str, tokens: Sequence[Token]) -> list[PgEdit]:
    """Return the edits that make a query of a PostgreSQL client ready, in the order of the text; none overlap."""
    if _MARKERS.search(text) is None:
        return []
    if (other := rewrite_type_tree(text)) is not None:
        return [PgEdit(tokens[0].start, tokens[-1].end, other)]
    # Looking some tokens ahead needs no care at the end.
    return _Rewriter(text, [*tokens, *[tokens[-1]] * _AHEAD]).run()


class _Rewriter:
    """One pass over the tokens of a text."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.structure = Structure(tokens)
        self.edits: list[PgEdit] = []
        self._untitled = 0
        self._asks_foreign_keys = _FOREIGN_KEYS.search(text) is not None

    def run(self) -> list[PgEdit]:
        position = 0
        while position < len(self.tokens) and self.tokens[position].kind != TokenKind.END:
            position = self._step(position)
        self.edits.sort()
        return self.edits

    def _step(self, at: int) -> int:
        """Look at the token at a place and return the place to go on from."""
        token = self.tokens[at]
        if self.structure.is_skipped(at):
            return at + 1
        if token.kind == TokenKind.OPERATOR:
            if token.text == "::":
                return self._cast(at)
            if token.text == "(" and self._is_field(at):
                return self._field(at)
            return self._subquery(at) if token.text == "(" else at + 1
        if token.kind == TokenKind.STRING:
            return self._literal(at)
        if token.kind == TokenKind.NUMBER and token.text == "0" and self.tokens[at - 2].word in _FUNCTION_COLUMNS:
            return self._replace(at, at + 1, "'-'") if self.tokens[at - 1].text in _EQUALITIES else at + 1
        column = at + 2 if self._is(at + 1, ".") else at
        if self._is(column + 1, "=") and self.tokens[column].text.strip('"').lower() == "table_catalog":
            return self._catalog(at, column)
        if token.kind == TokenKind.QUOTED:
            return self._table(at) if not self._is(at - 1, ".") and not self._is(at + 1, ".") else at + 1
        if token.kind != TokenKind.WORD:
            return at + 1
        word = token.word
        if word in ("LIKE", "ILIKE"):
            return self._like(at)
        if word == "COLLATE" and self.tokens[at - 1].word == "AS":  # the name of a column, which the engine reserves
            return self._replace(at, at + 1, '"collate"')
        if word == "COLLATE":
            return self._remove(at, self._name_end(at + 1))
        if word == "OPERATOR" and self._is(at + 1, "("):
            return self._operator(at)
        if word in ("EXISTS", "ARRAY") and self._is(at + 1, "("):
            return self._subquery(at + 1)
        if word == "PG_CATALOG" and self._is(at + 1, "."):
            return self._qualified(at)
        return self._word(at)

    def _is_catalog(self, at: int) -> bool:
        """Whether `pg_catalog.` stands here, with quotes or without."""
        return self.tokens[at].text.strip('"').lower() == "pg_catalog" and self._is(at + 1, ".")

    def _is(self, at: int, text: str) -> bool:
        token = self.tokens[at] if at < len(self.tokens) else None
        return token is not None and token.kind == TokenKind.OPERATOR and token.text == text

    def _replace(self, first: int, after: int, replacement: str) -> int:
        self.edits.append(PgEdit(self.tokens[first].start, self.tokens[after - 1].end, replacement))
        return after

    def _remove(self, first: int, after: int) -> int:
        return self._replace(first, after, "")

    def _name_end(self, at: int) -> int:
        """The place behind a name of one or more parts."""
        at += 1
        while self._is(at, "."):
            at += 2
        return at

    def _operator(self, at: int) -> int:
        """`OPERATOR(pg_catalog.~)`: the operator stands before the closing bracket."""
        close = self.structure.close_of(at + 1)
        begin = at + 2
        while self._is(begin + 1, "."):
            begin += 2
        symbol = self.text[self.tokens[begin].start : self.tokens[close - 1].end]
        return self._replace(at, close + 1, symbol)

    def _qualified(self, at: int) -> int:
        """`pg_catalog.` before a call goes away; before a table it stays; before a type `_cast` has seen it."""
        is_call = self._is(at + 3, "(") and not self.structure.is_relation(at)
        if is_call:
            self.edits.append(PgEdit(self.tokens[at].start, self.tokens[at + 2].start, ""))
            return self._call(at + 2)
        if at and self.tokens[at - 1].word == "AS":  # CAST(x AS pg_catalog.text)
            kind = self.tokens[at + 2].text.strip('"').lower()
            return self._replace(at, at + 3, "text" if kind in _TEXT_TYPES else kind)
        return at + 3

    def _word(self, at: int) -> int:
        is_part = at > 0 and self._is(at - 1, ".")
        if self._is(at + 1, "("):
            is_whole = not is_part or (at >= 2 and self.tokens[at - 2].word == "INFORMATION_SCHEMA")
            return self._call(at) if is_whole else at + 1
        if self.tokens[at].word == "INFORMATION_SCHEMA" and self._is(at + 1, ".") and self._is(at + 3, "("):
            return at + 2
        if is_part or self._is(at + 1, "."):
            return self._column_cast(at)
        word = self.tokens[at].word
        if word == "NULL" and self._is_whole_item(at):
            self._untitled += 1
            return self._replace(at, at + 1, f'NULL AS "?column?{self._untitled}"')
        if word.lower() in _TABLES and self.structure.is_relation(at):
            return self._table(at)
        if word in ("CURRENT_SCHEMA", "CURRENT_CATALOG") and not (at and self.tokens[at - 1].word == "AS"):
            return self._replace(at, at + 1, "current_schema()" if word == "CURRENT_SCHEMA" else "current_database()")
        return self._column_cast(at)

    def _table(self, at: int) -> int:
        """A name that may be that of a table of pg_catalog."""
        token = self.tokens[at]
        name = token.text[1:-1] if token.kind == TokenKind.QUOTED else token.word.lower()
        if name in _TABLES and self.structure.is_relation(at):
            self.edits.append(PgEdit(token.start, token.start, "pg_catalog."))
        return at + 1

    def _function_column(self, first: int, after: int) -> int:
        """A column with the name of a function, which is the number of one in PostgreSQL: `p.oid = t.typreceive`."""
        numbers = [first - 2] if self._is(first - 1, "=") else []
        if self._is(after, "="):
            numbers.append(after + (3 if self._is(after + 2, ".") else 1))
        for number in numbers:
            if self.tokens[number].word == "OID":
                self._replace(number, number + 1, "proname")
        return after

    def _boolean_column(self, after: int) -> int:
        """A column of truth values that is compared with one as text: `i.indisprimary = 't'`."""
        value = after + 1
        if self.tokens[after].text not in _EQUALITIES or self.tokens[value].kind != TokenKind.STRING:
            return after
        written = self._string(value).strip().lower()
        found = next((each for each in ("true", "false") if written and each.startswith(written)), None)
        return after if found is None else self._replace(value, value + 1, found)

    def _is_whole_item(self, at: int) -> bool:
        """Whether a token is all of what one column of the result is made of; the engine wants such columns named."""
        before, behind = self.tokens[at - 1], self.tokens[at + 1]
        is_begun = before.word == "SELECT" or before.text == ","
        is_ended = behind.word == "FROM" or behind.text == ","
        return self.structure.is_projection(at) and is_begun and is_ended and not self._is_enclosed(at)

    def _is_enclosed(self, at: int) -> bool:
        """Whether a token of a projection stands in brackets of its own: an argument, an item of an array."""
        depth = 0
        for index in range(at - 1, -1, -1):
            token = self.tokens[index]
            if token.kind == TokenKind.OPERATOR and token.text in ")]":
                depth += 1
            elif token.kind == TokenKind.OPERATOR and token.text in "([":
                if depth == 0:
                    return True
                depth -= 1
            elif depth == 0 and token.word == "SELECT":
                return False
        return False

    def _like(self, at: int) -> int:
        """`LIKE pattern ESCAPE '/'`: the engine knows the backslash only, so the pattern is written with that."""
        depth = 0
        for index in range(at + 1, len(self.tokens)):
            token = self.tokens[index]
            if token.kind == TokenKind.END or (depth == 0 and token.word in _PATTERN_ENDS):
                return at + 1
            if token.kind == TokenKind.OPERATOR and token.text in "()":
                depth += 1 if token.text == "(" else -1
                if depth < 0:
                    return at + 1
            if depth == 0 and token.word == "ESCAPE" and self.tokens[index + 1].kind == TokenKind.STRING:
                break
        sign = self._string(index + 1)
        if len(sign) == 1 and sign != "\\":
            start = self.tokens[at + 1].start
            self.edits.append(PgEdit(start, start, "replace(replace("))
            behind = f", '\\', '\\\\'), {_literal(sign)}, '\\')"
            self.edits.append(PgEdit(self.tokens[index].start, self.tokens[index + 1].end, behind))
        return at + 1

    def _call(self, at: int) -> int:
        """A call of a function: some are answered here, the arguments of the others are looked at in turn."""
        close = self.structure.close_of(at + 1)
        arguments = self.structure.arguments(at + 1)
        name = self.tokens[at].text.lower()
        if name == "cast" and self.tokens[close - 1].word == "REGCLASS":
            return self._cast_class(at, close)
        if name == "cast" and self.tokens[close - 1].word == "OID":
            self._replace(close - 1, close, "BIGINT")
            return at + 1
        if name in ("to_timestamp", "to_date") and len(arguments) == 2:
            return self._by_pattern(at, arguments[1])
        if name == "cast":
            marks = [each for each in self.structure.level(at + 2, close) if self.tokens[each].word == "AS"]
            self._keep_microseconds(marks[-1] - 1 if marks else at, marks[-1] + 1 if marks else at)
            return at + 1
        if name == "date" and len(arguments) == 1:
            self._replace(at, at + 1, "CAST")
            self.edits.append(PgEdit(self.tokens[close].start, self.tokens[close].start, " AS DATE"))
            return at + 1
        if name == "make_timestamp" and (moment := self._moment(arguments)) is not None:
            return self._replace(at, close + 1, f"TIMESTAMP '{moment}'")
        if name in _UNNESTED and arguments:
            return self._unnest(at, _UNNESTED[name])
        if name == "generate_series" and self.structure.is_relation(at) and len(arguments) == 2:
            return self._series(at, arguments[1])
        if name == "string_to_array" and self.structure.is_relation(at):
            return self._value_row(at, "")
        if name == "unnest" and self.structure.is_relation(at):
            return self._name_member(at)
        if name in _BOUNDS and len(arguments) > 1:
            return self._bound(at, *_BOUNDS[name])
        if name == "to_regclass" and len(arguments) == 1:
            is_literal = arguments[0] == (at + 2, at + 3) and self.tokens[at + 2].kind == TokenKind.STRING
            if is_literal:
                return self._replace(at, close + 1, _class_lookup(self._string(at + 2)))
            return self._replace(at, at + 1, "pg_class_number")
        if name == "format" and arguments and self.tokens[at + 2].kind == TokenKind.STRING:
            return self._format(at, arguments)
        found = rewrite_call(name, len(arguments))
        if found is None:
            return at + 1
        if found.replacement is not None:
            return self._replace(at, close + 1, found.replacement)
        if found.name is not None:
            self._replace(at, at + 1, found.name)
        if found.keeps is not None and found.keeps < len(arguments):
            _, last = arguments[found.keeps - 1]
            self._remove_tail(last, close)
        return at + 1

    def _catalog(self, at: int, column: int) -> int:
        """`table_catalog = x`, where x is a literal or the session's own database."""
        value = column + 2
        is_current = self.tokens[value].word == "CURRENT_DATABASE" and self._is(value + 1, "(")
        if self.tokens[value].kind != TokenKind.STRING and not is_current:
            return value
        after = value + 3 if is_current else value + 1
        start, end = self.tokens[at].start, self.tokens[after - 1].end
        other = f" OR current_database() = {self.text[self.tokens[value].start : end]})"
        self.edits += [PgEdit(start, start, "("), PgEdit(end, end, other)]
        return after

    def _keep_microseconds(self, literal: int, kind: int) -> None:
        """Give a cast of a literal with microseconds the precision that PostgreSQL's type has."""
        is_literal = self.tokens[literal].kind == TokenKind.STRING and _MICROSECONDS.search(self.tokens[literal].text)
        if is_literal and self.tokens[kind].word in _TIMES and not self._is(kind + 1, "("):
            end = self.tokens[kind].end
            self.edits.append(PgEdit(end, end, "(6)"))

    def _by_pattern(self, at: int, form: tuple[int, int]) -> int:
        """Read a time by a pattern of PostgreSQL; the engine's own functions know those with `%`."""
        first, after = form
        is_own = after == first + 1 and self.tokens[first].kind == TokenKind.STRING and "%" in self.tokens[first].text
        return at + 1 if is_own else self._replace(at, at + 1, f"{self.tokens[at].text.lower()}__pattern")

    def _moment(self, arguments: Sequence[tuple[int, int]]) -> str | None:
        """The time that six numbers tell, each perhaps cast; None if they are something else."""
        words = [
            [token for token in self.tokens[first:after] if token.text.upper() not in _CASTS]
            for first, after in arguments
        ]
        if len(words) != 6 or any(len(each) != 1 or each[0].kind != TokenKind.NUMBER for each in words):
            return None
        *whole, seconds = (each[0].text for each in words)
        if not all(each.isdigit() for each in whole) or "e" in seconds.lower():
            return None
        year, month, day, hour, minute = map(int, whole)
        second, _, fraction = seconds.partition(".")
        fraction = f".{fraction[:6]}" if fraction else ""
        return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{int(second or 0):02d}{fraction}"

    def _format(self, at: int, arguments: Sequence[tuple[int, int]]) -> int:
        """`format('…', a, b)` with the template as a literal."""
        pieces = format_pieces(self._string(at + 2), len(arguments) - 1) if arguments[0][1] == at + 3 else None
        if pieces is None:
            return at + 1
        starts = [self.tokens[first].start for first, _ in arguments[1:]]
        ends = [self.tokens[at].start, *(self.tokens[after - 1].end for _, after in arguments[1:])]
        starts.append(self.tokens[self.structure.close_of(at + 1)].start)
        pieces[0] = f"concat({pieces[0]}"
        self.edits += [PgEdit(*each) for each in zip(ends, starts, pieces, strict=True)]
        return at + 3

    def _unnest(self, at: int, name: str) -> int:
        """A function that answers with rows, of an array in its first argument."""
        close = self.structure.close_of(at + 1)
        is_qualified = at >= 2 and self._is(at - 1, ".")
        first = at - 2 if is_qualified else at
        self.edits.append(PgEdit(self.tokens[first].start, self.tokens[at].end, f"unnest({name}"))
        self.edits.append(PgEdit(self.tokens[close].start, self.tokens[close].start, ")"))
        _, last = self.structure.arguments(at + 1)[0]
        if last < close:
            self._remove_tail(last, close)
        return at + 1

    def _series(self, at: int, last: tuple[int, int]) -> int:
        """`generate_series(1, array_upper(a, 1)) AS s(r)`: the places of an array, which the engine lists in SELECT."""
        close = self.structure.close_of(at + 1)
        is_upper = self.tokens[last[0]].word == "ARRAY_UPPER" and self._is(last[0] + 1, "(")
        is_named = self.tokens[close + 1].word == "AS" and self._is(close + 3, "(") and self._is(close + 5, ")")
        if not is_upper:
            return at + 1
        if not is_named:
            return self._value_row(at, "unnest")
        first, after = self.structure.arguments(last[0] + 1)[0]
        array = self.text[self.tokens[first].start : self.tokens[after - 1].end]
        row, series = self.tokens[close + 4].text, self.tokens[close + 2].text
        places = f"range(1, CAST(cardinality({array}) AS BIGINT) + 1)"
        return self._replace(at, close + 6, f"(SELECT unnest({places}) AS {row}) AS {series}")

    def _value_row(self, at: int, unnest: str) -> int:
        """A function in FROM: a table of one column, both of the name behind it."""
        close = self.structure.close_of(at + 1)
        named = close + 2 if self.tokens[close + 1].word == "AS" else close + 1
        name = self.tokens[named]
        if name.kind not in (TokenKind.WORD, TokenKind.QUOTED) or name.word in KEYWORDS or self._is(named + 1, "("):
            return at + 1
        opening, closing = ("(", ")") if unnest else ("", "")
        start = self.tokens[at].start
        self.edits.append(PgEdit(start, start, f"(SELECT {unnest}{opening}"))
        self._replace(close + 1, named + 1, f"{closing} AS {name.text}) AS {name.text}")
        self.structure.skip(close + 1, named + 1)
        return at + 1

    def _name_member(self, at: int) -> int:
        """`t AS x CROSS JOIN UNNEST(a) AS n`, where the engine does not let `a` be a column of `t`.

        It becomes `(SELECT *, unnest(a) AS n FROM t) AS x`: the members stand beside the row that has them.
        """
        close = self.structure.close_of(at + 1)
        words = [self.tokens[each].word for each in (at - 4, at - 2, at - 1, close + 1)]
        if at < 5 or words != ["AS", "CROSS", "JOIN", "AS"]:
            return at + 1
        first = at - 5
        while self._is(first - 1, "."):
            first -= 2
        start = self.tokens[first].start
        table = self.text[start : self.tokens[at - 5].end]
        member = self.text[self.tokens[at].start : self.tokens[close].end]
        self.edits = [each for each in self.edits if each.start < start]
        self._replace(
            first,
            close + 3,
            f"(SELECT *, {member} AS {self.tokens[close + 2].text} FROM {table}) AS {self.tokens[at - 3].text}",
        )
        return close + 3

    def _bound(self, at: int, before: str, behind: str) -> int:
        """`array_upper(a, 1)`: there is one dimension."""
        close = self.structure.close_of(at + 1)
        self._replace(at, at + 1, before)
        self._remove_tail(self.structure.arguments(at + 1)[-1][0] - 1, close)
        self.edits.append(PgEdit(self.tokens[close].end, self.tokens[close].end, behind))
        return at + 1

    def _member(self, at: int) -> bool:
        """`x IN (SELECT …)` inside of CASE, where the engine takes a value but no set; at the bracket.

        The set becomes an array. Whether there was such a place to edit.
        """
        is_negated = self.tokens[at - 2].word == "NOT"
        last = at - 3 if is_negated else at - 2
        first = self.structure.operand_start(last)
        if first is None or not self.structure.is_in_case(at):
            return False
        operand = self.text[self.tokens[first].start : self.tokens[last].end]
        if _MARKED_OPERAND.search(operand) is not None:
            return False
        close = self.structure.close_of(at)
        self.edits = [each for each in self.edits if each.start < self.tokens[first].start]
        head = "NOT array_has" if is_negated else "array_has"
        self._replace(first, at, f"{head}((SELECT array_agg(pg_member) FROM ")
        behind = f" AS pg_set(pg_member)), {operand})"
        self.edits.append(PgEdit(self.tokens[close].end, self.tokens[close].end, behind))
        return True

    def _field(self, at: int) -> int:
        """`(value).field`; at the bracket, which does not begin the arguments of a call."""
        close = self.structure.close_of(at)
        start = self.tokens[at].start
        self.edits.append(PgEdit(start, start, "get_field("))
        self._replace(close + 1, close + 3, f", {_literal(self.tokens[close + 2].text.lower())})")
        self.structure.skip(close + 1, close + 3)
        return at + 1

    def _is_field(self, at: int) -> bool:
        """Whether the value in the brackets that open here is a record whose field is selected."""
        close = self.structure.close_of(at)
        behind = self.tokens[close + 2] if close + 2 < len(self.tokens) else None
        is_called = at > 0 and self.tokens[at - 1].kind in (TokenKind.WORD, TokenKind.QUOTED)
        is_called = is_called and self.tokens[at - 1].word not in _BEFORE_VALUES
        return self._is(close + 1, ".") and behind is not None and behind.kind == TokenKind.WORD and not is_called

    def _cast_class(self, at: int, close: int) -> int:
        """`CAST('t' AS REGCLASS)` is the number of the table; so it is of other texts; a number stays one."""
        if self.tokens[at + 2].kind == TokenKind.STRING and at + 5 == close:
            name = self._string(at + 2)
            return self._replace(at, close + 1, name if name.isdigit() else _class_lookup(name))
        if self._is(close - 3, ")") and self._text_start(close - 3) == at + 2:
            self._replace(close - 2, close, "")
            return self._replace(at, at + 1, "pg_class_number")
        self._replace(close - 1, close, "BIGINT")
        return at + 1

    def _remove_tail(self, after: int, close: int) -> None:
        """Take away the arguments a function does not look at."""
        self.edits.append(PgEdit(self.tokens[after - 1].end, self.tokens[close].start, ""))
        self.structure.skip(after, close)

    def _subquery(self, at: int) -> int:
        """A bracket: if a query begins in it, see whether it has to be put another way."""
        if self.tokens[at + 1].word != "SELECT":
            return at + 1
        if self.tokens[at - 1].word == "IN" and self._member(at):
            return at + 1
        close = self.structure.close_of(at)
        inside = self.text[self.tokens[at].start : self.tokens[close].end]
        is_named = self.tokens[at - 1].word == "AS"  # WITH name AS (…)
        if self._asks_foreign_keys and not is_named and _KEY_COLUMNS.search(inside):
            return self._replace(at, close + 1, "CAST(NULL AS TEXT[])")
        found = rewrite_subquery(self.structure, at)
        if found is None:
            return at + 1
        if found.replacement is not None:
            return self._replace(found.first, self.structure.close_of(at) + 1, found.replacement)
        for first, after, replacement in found.edits:
            self.edits.append(PgEdit(first, after, replacement))
        return at + 1

    def _string(self, at: int) -> str:
        return self.tokens[at].text[1:-1].replace("''", "'")

    def _literal(self, at: int) -> int:
        """`'t'::regclass` and `'int8'::regtype`, the only casts that change what stands before them."""
        kind, after = self._cast_type(at + 1)
        if kind == "regtype" and self.tokens[at].text[0] == "'":
            number = type_number(self._string(at))
            return self._replace(at, after, "CAST(NULL AS BIGINT)" if number is None else str(number))
        if kind is None and self._string(at).startswith("{") and self._is(at - 1, "(") and self._is(at + 1, ")"):
            return self._array(at)
        if kind == "regproc" and self.tokens[at].text[0] == "'":
            return self._replace(at, after, _literal(self._string(at).removeprefix("pg_catalog.")))
        if kind != "regclass" or self.tokens[at].text[0] != "'":
            return at + 1
        name = self._string(at)
        self._replace(at, after, name if name.isdigit() else _class_lookup(name))
        return after

    def _array(self, at: int) -> int:
        """`= ANY('{a,b}')`: an array written as text."""
        body = self._string(at)
        if self.tokens[at - 2].word not in ("ANY", "ALL", "SOME") or _ARRAY.fullmatch(body) is None:
            return at + 1
        members = _MEMBERS.findall(body)
        is_numeric = all(member.lstrip("-").isdigit() for member in members)
        written = members if is_numeric else [_literal(_unquoted(member)) for member in members]
        return self._replace(at, at + 1, f"ARRAY[{', '.join(written)}]" if members else "CAST(NULL AS TEXT[])")

    def _column_cast(self, at: int) -> int:
        """`c.oid::regclass::text` is the name of the relation; without `::text` it stays a number, see `_cast`."""
        after = self._name_end(at) if not (at and self._is(at - 1, ".")) else at + 1
        if self.tokens[after - 1].word in _FUNCTION_COLUMNS:
            return self._function_column(at, after)
        if self.tokens[after - 1].word.lower() in _BOOLEAN_COLUMNS:
            return self._boolean_column(after)
        kind, behind = self._cast_type(after)
        second, behind_text = self._cast_type(behind)
        if kind == "regtype" and second in _TEXT_TYPES:
            start = self.tokens[at].start
            name = self.text[start : self.tokens[after - 1].end]
            self.edits.append(PgEdit(start, self.tokens[behind_text - 1].end, f"format_type({name}, NULL)"))
            return behind_text
        if kind != "regclass":
            return after
        is_shown = second in _TEXT_TYPES or self.structure.is_projection(at)
        if not is_shown:
            return self._remove(after, behind)
        start = self.tokens[at].start
        name = self.text[start : self.tokens[after - 1].end]
        end = behind_text if second in _TEXT_TYPES else behind
        self.edits.append(PgEdit(start, self.tokens[end - 1].end, f"pg_relation_name({name})"))
        return end

    def _cast_type(self, at: int) -> tuple[str | None, int]:
        """The type of a cast that begins here, and the place behind it."""
        if not self._is(at, "::"):
            return None, at
        kind = at + 1
        if self._is_catalog(kind):
            kind += 2
        after = kind + 1
        while self._is(after, "[") and self._is(after + 1, "]"):
            after += 2
        return self.tokens[kind].text.strip('"').lower(), after

    def _cast(self, at: int) -> int:
        kind, after = self._cast_type(at)
        self._keep_microseconds(at - 1, at + 1)
        is_array = self._is(after - 1, "]")
        if kind == "regclass" and self._is(at - 1, ")") and (first := self._text_start(at - 1)) is not None:
            self.edits.append(PgEdit(self.tokens[first].start, self.tokens[first].start, "pg_class_number("))
            return self._replace(at, after, ")")
        if kind in _DROPPED_TYPES or kind == "regclass" or (is_array and self._is_catalog(at + 1)):
            return self._remove(at, after)
        if kind == "oid":
            return self._replace(at, after, "::bigint")
        is_quoted_char = kind == "char" and self.tokens[after - 1].kind == TokenKind.QUOTED
        if kind == "name" or is_quoted_char:
            return self._replace(at, after, "::text")
        if self._is_catalog(at + 1):
            return self._replace(at, after, "::text" if kind in _TEXT_TYPES else f"::{kind}")
        return after

    def _text_start(self, close: int) -> int | None:
        """Return where an expression begins that ends with a bracket, if its value is text."""
        brackets = (each for each in range(close) if self._is(each, "("))
        opened = next((each for each in brackets if self.structure.close_of(each) == close), None)
        if opened is None:
            return None
        if self.tokens[opened - 1].word in _TEXT_CALLS:
            return opened - 1
        is_joined = any(self._is(each, "||") for each in self.structure.level(opened + 1, close))
        return opened if is_joined else None


def _class_lookup(name: str) -> str:
    """The number of a relation by its name, in SQL: the session's own database first.

    `nullif` because the engine takes a query inside an expression for never null when its column is never null.
    """
    parts = [part.replace('""', '"') if quoted else part.lower() for quoted, part in _name_parts(name)]
    last, database = parts[-1], parts[-2] if len(parts) > 1 else None
    if database in (None, "pg_catalog") and last in CATALOG_CLASS_OIDS:
        return str(CATALOG_CLASS_OIDS[last])
    where = f"regc.relname = {_literal(last)}"
    if database is not None:
        where += f" AND regn.nspname = {_literal(database)}"
    return (
        "(SELECT nullif(regc.oid, 0) FROM pg_catalog.pg_class regc JOIN pg_catalog.pg_namespace regn ON "
        f"regn.oid = regc.relnamespace WHERE {where} ORDER BY regn.nspname = current_schema() DESC, regc.oid LIMIT 1)"
    )


def _name_parts(name: str) -> list[tuple[bool, str]]:
    parts = re.findall(r'"((?:[^"]|"")*)"|([^."\s]+)', name)
    return [(bool(quoted), quoted or plain) for quoted, plain in parts] or [(False, name)]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unquoted(member: str) -> str:
    """A member of an array that is written as text."""
    return re.sub(r"\\(.)", r"\1", member[1:-1]) if member.startswith('"') else member
