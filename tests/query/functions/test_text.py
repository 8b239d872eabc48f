"""String functions as MySQL users know them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.query.functions.asking import check, column, error

CASES = [
    ("locate('lo', 'hello')", 4),
    ("locate('x', 'hello')", 0),
    ("locate('', 'hello')", 1),
    ("locate('界', 'hi世界')", 4),
    ("locate('o', 'foo boo', 4)", 6),
    ("locate('o', 'foo boo', 3)", 3),
    ("locate('o', 'foo boo', 0)", 0),
    ("locate('o', 'foo boo', -1)", 0),
    ("locate('', 'abc', 2)", 2),
    ("locate('', 'abc', 4)", 4),
    ("locate('', 'abc', 5)", 0),
    ("locate(NULL, 'a')", None),
    ("locate('a', NULL)", None),
    ("locate('a', 'a', NULL)", None),
    ("locate(1, 21)", 2),
    ("elt(1, 'x', 'y')", "x"),
    ("elt(2, 'x', 'y')", "y"),
    ("elt(2, 'x', 7)", "7"),
    ("elt(0, 'x', 'y')", None),
    ("elt(3, 'x', 'y')", None),
    ("elt(-1, 'x', 'y')", None),
    ("elt(NULL, 'x', 'y')", None),
    ("elt(1, NULL, 'y')", None),
    ("field('y', 'x', 'y')", 2),
    ("field('x', 'x', 'x')", 1),
    ("field('X', 'x', 'y')", 0),
    ("field(NULL, 'x', 'y')", 0),
    ("field('x', NULL, 'x')", 2),
    ("field(2, 1, 2)", 2),
    ("insert('Database', 5, 2, '--')", "Data--se"),
    ("insert('Database', 5, 99, '')", "Data"),
    ("insert('ab', 3, 1, 'c')", "abc"),
    ("insert('ab', 4, 1, 'c')", "ab"),
    ("insert('ab', 0, 1, 'c')", "ab"),
    ("insert('ab', -1, 1, 'c')", "ab"),
    ("insert('ab', 1, -5, 'c')", "cab"),
    ("insert('a世b', 2, 1, '界')", "a界b"),
    ("insert(NULL, 1, 1, 'x')", None),
    ("insert('a', 1, 1, NULL)", None),
    ("space(3)", "   "),
    ("space(0)", ""),
    ("space(-4)", ""),
    ("space(NULL)", None),
    ("concat('a', space(2), 'b')", "a  b"),
    ("format(9876543.215, 2)", "9,876,543.22"),
    ("format(9876543.215, 0)", "9,876,543"),
    ("format(0.5, 0)", "1"),
    ("format(-0.5, 0)", "-1"),
    ("format(2.675, 2)", "2.68"),
    ("format(-1234, 1)", "-1,234.0"),
    ("format(12, -3)", "12"),
    ("format(1, 99)", "1." + "0" * 30),
    ("format(9007199254740993, 0)", "9,007,199,254,740,993"),
    ("format(CAST(1234.5 AS DECIMAL(10,2)), 1)", "1,234.5"),
    ("format(1e300, 0)", "1" + ",000" * 100),
    ("format(CAST('NaN' AS DOUBLE), 2)", "NaN"),
    ("format(CAST('-inf' AS DOUBLE), 2)", "-Infinity"),
    ("format(NULL, 2)", None),
    ("format(1, NULL)", None),
    ("regexp_extract('order 66 of 99', '[0-9]+')", "66"),
    ("regexp_extract('a-12-b', '([a-z])-(\\d+)')", "a-12"),
    ("regexp_extract('x(y)', '\\([^)]\\)')", "(y)"),
    ("regexp_extract('a[(]b', '[(\\]]+')", "(]"),
    ("regexp_extract('Key=V', '(?i)key=(?P<v>\\w)')", "Key=V"),
    ("regexp_extract('abc', '\\d')", None),
    ("regexp_extract(NULL, 'a')", None),
    ("regexp_extract('a', NULL)", None),
    ("ucase('a')", "A"),
    ("lcase('A')", "a"),
    ("ceiling(1.2)", 2.0),
    ("mid('abcdef', 2, 3)", "bcd"),
]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_string_function_gives(expression: str, expected: object) -> None:
    check(expression, expected)


def test_space_refuses_more_blanks_than_a_megabyte() -> None:
    assert "1048577" in error("space(1048577)")


def test_regexp_extract_tells_what_is_wrong_with_a_pattern() -> None:
    assert "cannot read the pattern '(a'" in error("regexp_extract('a', '(a')")


def test_format_refuses_text_that_is_no_number() -> None:
    assert "'abc'" in error("format('abc', 2)")


def test_functions_of_columns_go_row_by_row() -> None:
    table = pa.table({"s": ["foo", "bar", None, "世界o"], "sub": ["o", "r", "x", "o"], "n": [1, 2, 3, None]})
    assert column("locate('o', s)", table) == [2, 0, None, 3]
    assert column("locate(sub, s)", table) == [2, 3, None, 3]
    assert column("elt(n, s, sub)", table) == ["foo", "r", None, None]
    assert column("field(s, 'bar', 'foo')", table) == [2, 1, 0, 0]
    assert column("insert(s, n, 1, sub)", table) == ["ooo", "brr", None, None]


def test_functions_of_no_rows_give_no_rows() -> None:
    table = pa.table({"s": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
    for call in ("locate('o', s)", "elt(n, s)", "field(s, s)", "insert(s, n, n, s)", "space(n)", "format(n, n)"):
        assert column(call, table) == []
    for call in ("matches_term(s, 'a')", "matches(s, 'a')", "regexp_extract(s, 'a')", "date_format(s, '%Y')"):
        assert column(call, table) == []
    for call in ("to_unixtime(s)", "json_get_int(s, 'a')", "json_is_int(s)", "json_object('a', n)", "clamp(n, 1, 2)"):
        assert column(call, table) == []
