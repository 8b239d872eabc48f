"""The rows of INSERT … VALUES: both readers, and that they agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidArguments, InvalidSyntax, Unsupported
from tsdb.sql import Dialect, parse
from tsdb.sql.parser._values import read_any_values, read_plain_values
from tsdb.sql.statements import Expression, Insert, Literal, Slice, Special, Values

GENERIC = Dialect.GENERIC


def _values(text: str, dialect: Dialect = GENERIC) -> Values:
    [parsed] = parse(f"INSERT INTO t VALUES {text}", dialect)
    assert isinstance(parsed.statement, Insert)
    assert parsed.statement.values is not None
    return parsed.statement.values


def _cell(text: str, dialect: Dialect = GENERIC) -> Any:
    values = _values(f"({text})", dialect)
    assert values.rows == 1
    return values.columns[0][0]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("1", 1),
        ("-1", -1),
        ("+1", 1),
        ("- 1", -1),
        ("007", 7),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1E-3", -0.001),
        ("9223372036854775808", 9223372036854775808),
        ("-9223372036854775809", -9223372036854775809),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("0.047318541668048164", 0.047318541668048164),
        ("1.2345678901234567890123", Literal("number", "1.2345678901234567890123")),
        ("-1.2345678901234567890123", Literal("number", "-1.2345678901234567890123")),
        ("1e400", Literal("number", "1e400")),
        ("1e-400", Literal("number", "1e-400")),
        ("NULL", None),
        ("null", None),
        ("True", True),
        ("FALSE", False),
        ("default", Special.DEFAULT),
        ("''", ""),
        ("'x'", "x"),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("'a),(b'", "a),(b"),
        ("'NULL'", "NULL"),
        ("'-- no comment'", "-- no comment"),
        ("'/* no comment */'", "/* no comment */"),
        ("'a;b'", "a;b"),
        ("'a\"b'", 'a"b'),
        ("'a\\nb'", "a\\nb"),
        ("'two\nlines'", "two\nlines"),
        ("'{\"a\": [1, 2]}'", '{"a": [1, 2]}'),
        ('"quoted"', "quoted"),
        ('"it\'s"', "it's"),
        ("X'9F00'", Literal("hex", "9f00")),
        ("0x9f", Literal("hex", "9f")),
        ("/* c */ 1", 1),
        ("1 -- c\n", 1),
    ],
)
def test_a_literal_becomes_its_cell(text: str, cell: object) -> None:
    found = _cell(text)
    assert found == cell
    assert type(found) is type(cell)


@pytest.mark.parametrize(
    "text", ["now()", "1 + 1", "-(1)", "'1'::INT", "CAST('a' AS STRING)", "a", "[1, 2]", "?", "(1)"]
)
def test_anything_but_a_literal_is_kept_as_an_expression(text: str) -> None:
    values = _values(f"({text})")
    assert values.has_expressions
    assert values.columns == ([Expression(Slice(text, len("INSERT INTO t VALUES (")))],)


def test_expressions_may_hold_commas_and_parentheses() -> None:
    values = _values("(1, f(a, (b)), 'x'), (2, f(')'), 'y')")
    assert values.rows == 2
    assert values.columns[0] == [1, 2]
    assert [cell.text.text for cell in values.columns[1]] == ["f(a, (b))", "f(')')"]
    assert values.columns[2] == ["x", "y"]


def test_a_comma_may_end_a_row() -> None:
    assert _values("(1, 2,), (3, 4,)").columns == ([1, 3], [2, 4])


def test_backslashes_escape_in_mysql_only() -> None:
    assert _cell(r"'a\'b\n'", Dialect.MYSQL) == "a'b\n"
    assert _cell(r"'a\n'") == r"a\n"
    assert _cell('"x"', Dialect.MYSQL) == "x"
    assert _cell(r"E'a\n'", Dialect.POSTGRESQL) == "a\n"


def test_rows_of_different_lengths_are_told_by_number() -> None:
    with pytest.raises(InvalidArguments, match="row 3 of VALUES has 1 values, the rows before it have 2"):
        _values("(1, 2), (3, 4), (5)")


@pytest.mark.parametrize("text", ["", "()", "(,)", "(1,,2)", "(1", "1", "(1),", "(1) (", "(1), 2", "(1;2)", "('a)"])
def test_broken_rows_are_refused(text: str) -> None:
    with pytest.raises((InvalidSyntax, Unsupported)):
        _values(text)


@pytest.mark.parametrize("tail", ["ON DUPLICATE KEY UPDATE a = 1", "RETURNING a", "(2)", "AS x"])
def test_what_follows_the_rows_is_not_supported(tail: str) -> None:
    with pytest.raises(Unsupported):
        _values(f"(1) {tail}")


def test_an_odd_number_of_hex_digits_is_refused() -> None:
    with pytest.raises(InvalidSyntax, match="even number"):
        _cell("X'9'")


def test_a_number_beyond_all_types_is_refused() -> None:
    with pytest.raises(InvalidSyntax, match="digits"):
        _cell("1" * 5000)


def test_several_inserts_in_one_text_are_cut_at_the_right_place() -> None:
    found = parse("INSERT INTO a VALUES (1, ';'); INSERT INTO b VALUES ('x;'';y');;")
    assert [parsed.text for parsed in found] == ["INSERT INTO a VALUES (1, ';')", "INSERT INTO b VALUES ('x;'';y')"]
    assert [parsed.statement.values.columns for parsed in found] == [([1], [";"]), (["x;';y"],)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("('a; -- ')", ["a; -- "]),
        ("('a'), ('b'); -- c", ["a", "b"]),
        ("('a;'), ('b') /* ; */ ;", ["a;", "b"]),
        ("('it''s; '';') ; ", ["it's; ';"]),
    ],
)
def test_a_semicolon_ends_the_rows_only_outside_of_strings_and_comments(text: str, columns: list[str]) -> None:
    assert _values(text).columns == (columns,)


def test_plain_rows_take_the_fast_reader() -> None:
    text = "('h', 1700000000000000000, 0.1, -2, null, TRUE, '', '(),\"\\'), ('i',2,3.25,1e-05,NULL,false,'x','y')"
    values = read_plain_values(text)
    assert values is not None
    assert values.columns[0] == ["h", "i"]
    assert values.columns[3] == [-2, 1e-05]
    assert values.columns[7] == ['(),"\\', "y"]


_strings = st.text(st.sampled_from("ab'\"\\(),;[]{}:-/*#` \n\x00é1NULl"), max_size=8)
_CELLS = """
NULL null TRUE false DEFAULT now() -1 1+1 X'ff' 0x1 "q" E'x' 1.5e3 -0 1e999 1e-999 .5 5. 007 [1] {} 1:2 1.2.3 /*c*/1
18446744073709551616 -9223372036854775809 0.1000000000000000055511151231257827
"""
_cells = st.one_of(
    _strings.map(lambda value: "'" + value.replace("'", "''") + "'"),
    _strings.map(lambda value: f"'{value}'"),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=12).map(str),
    st.sampled_from(_CELLS.split()),
)
_rows = st.lists(st.lists(_cells, min_size=1, max_size=4).map(lambda cells: "(" + ", ".join(cells) + ")"), max_size=4)


@given(_rows.map(", ".join), st.sampled_from(Dialect))
def test_what_the_fast_reader_reads_the_slow_one_reads_alike(text: str, dialect: Dialect) -> None:
    fast = read_plain_values(text, dialect)
    if fast is None:
        return
    slow, end = read_any_values(text, 0, dialect)
    assert repr(fast.columns) == repr(slow.columns)
    assert (fast.rows, fast.has_expressions, end) == (slow.rows, slow.has_expressions, len(text))


@given(st.text(st.sampled_from("()'\",;:[]{}-+.0123456789eEnul\\/*# \n\x00tx"), max_size=40), st.sampled_from(Dialect))
def test_no_text_fools_the_fast_reader(text: str, dialect: Dialect) -> None:
    fast = read_plain_values(text, dialect)
    if fast is not None:
        slow, end = read_any_values(text, 0, dialect)
        assert repr(fast.columns) == repr(slow.columns)
        assert end == len(text)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"])), st.integers(), st.none() | st.booleans(), st.floats()
        ),
        min_size=1,
        max_size=5,
    )
)
def test_rows_come_back_as_they_were_written(rows: list[tuple[str, int, bool | None, float]]) -> None:
    def literal(value: object) -> str:
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        return "NULL" if value is None else str(value)

    finite = [row[:3] for row in rows]
    text = ",".join("(" + ",".join(map(literal, row)) + ")" for row in finite)
    assert _values(text).columns == tuple(map(list, zip(*finite, strict=True)))
