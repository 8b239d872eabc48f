"""The edits that make a query ready for DataFusion, as a table of texts before and after."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidArguments, InvalidSyntax, TsdbError
from tsdb.model import DataType, Kind
from tsdb.sql.lexer import tokenize
from tsdb.sql.rewrite import (
    ColumnTypes,
    RewriteRules,
    TokenLayout,
    expand_interval,
    find_tables,
    header_of,
    keeps_order,
    redefined_names,
    rewrite,
)
from tsdb.sql.statements import Dialect

COLUMNS = {
    "t": {
        "ts": DataType(Kind.TIMESTAMP_MILLISECOND),
        "up": DataType(Kind.BOOLEAN),
        "v": DataType(Kind.INT64),
        "host": DataType(Kind.STRING),
    },
    "u": {"at": DataType(Kind.TIMESTAMP_NANOSECOND), "v": DataType(Kind.FLOAT64)},
}


def edited(text: str, *, zone: str = "UTC", dialect: Dialect = Dialect.GENERIC) -> str:
    layout = TokenLayout(text, tokenize(text, dialect))
    columns = ColumnTypes(COLUMNS, redefined_names(layout, dialect))
    return rewrite(layout, RewriteRules(dialect, columns, zone, {"time_zone": "it's"}.get))


def ms(ticks: int) -> str:
    return f"arrow_cast({ticks},'Timestamp(ms) ')"


CASTS = [
    ("SELECT x::INT64", "SELECT arrow_cast(x,'Int64')"),
    ("SELECT x :: UINT8 :: TIMESTAMP", "SELECT arrow_cast(arrow_cast(x ,'UInt8') ,'Timestamp(ms)')"),
    ("SELECT CAST(a + b AS TIMESTAMP(6)) c", "SELECT arrow_cast(a + b,'Timestamp(µs)') c"),
    ("SELECT cast(cast(1 AS int64) AS datetime)", "SELECT arrow_cast(arrow_cast(1,'Int64'),'Timestamp(µs)')"),
    ("SELECT f(a, b)::TIMESTAMP_NS", "SELECT arrow_cast(f(a, b),'Timestamp(ns)')"),
    ("SELECT -1::INT UNSIGNED", "SELECT -arrow_cast(1,'UInt32')"),
    ("SELECT a.b.c::BOOL", "SELECT arrow_cast(a.b.c,'Boolean')"),
    ("SELECT CASE WHEN a THEN 1 END::INT64", "SELECT arrow_cast(CASE WHEN a THEN 1 END,'Int64')"),
    ("SELECT (a + b)::FLOAT64, a[1]::INT64", "SELECT arrow_cast((a + b),'Float64'), arrow_cast(a[1],'Int64')"),
    ("SELECT x::TIMESTAMP WITH TIME ZONE", "SELECT arrow_cast(x,'Timestamp(ms)')"),
    ("SELECT TRY_CAST(x AS TIMESTAMP)", "SELECT TRY_CAST(x AS TIMESTAMP(3))"),
    ("SELECT ' 2020-01-01   10:00:00 '::TIMESTAMP", "SELECT arrow_cast('2020-01-01 10:00:00','Timestamp(ms)')"),
    ("SELECT '1h5m'::INTERVAL", "SELECT '1 hours 5 minutes'::INTERVAL"),
]
UNCHANGED = [
    "SELECT 1",
    "SELECT x::INT, x::BIGINT, x::DOUBLE PRECISION, x::STRING, x::DATE, x::DECIMAL(10, 2), CAST(x AS VARCHAR)",
    "SELECT 'x::INT64', \"y::INT64\" -- z::INT64",
    "SELECT ts FROM t WHERE ts > '2020-01-01 00:00:00.123' AND ts < '2020-01-01T00:00:00Z'",
    "SELECT ts FROM t WHERE ts + INTERVAL '1 day' > now() AND v > 1000 AND u.v > 1",
    "SELECT ts FROM t WHERE ts > '2020-01-01'::DATE AND ts = other.ts AND ts > 'nonsense'",
    "SELECT INTERVAL '1 year 2 months', INTERVAL '1' DAY",
    "SELECT v AS ts FROM t WHERE ts > 1000",
    "SELECT i FROM (SELECT i + 1 AS i FROM t)",
    "SELECT (SELECT 1), x FROM (SELECT 1 AS x) AS d",
]
COMPARISONS = [
    ("ts > 1000", f"ts > {ms(1000)}"),
    ("ts>=-5", f"ts>={ms(-5)}"),
    ("t.ts = 7", f"t.ts = {ms(7)}"),
    ('"ts" <> 7', f'"ts" <> {ms(7)}'),
    ("5 < ts", f"{ms(5)} < ts"),
    ("-5 <= ts AND v = 1", f"{ms(-5)} <= ts AND v = 1"),
    ("ts BETWEEN 1 AND 3", f"ts BETWEEN {ms(1)} AND {ms(3)}"),
    ("ts NOT IN (1, -2)", f"ts NOT IN ({ms(1)}, {ms(-2)})"),
    ("ts >= '1970-01-01 00:00:00.0000001'", f"ts >= {ms(1)}"),
    ("ts > '1970-01-01 00:00:00.0000001'", f"ts > {ms(0)}"),
    ("ts < '1970-01-01 00:00:00.0000001'", f"ts < {ms(1)}"),
    ("ts <= '1970-01-01 00:00:00.0000001'", f"ts <= {ms(0)}"),
    ("ts = '1970-01-01 00:00:00.0000001'", "(ts <> ts)"),
    ("'1970-01-01 00:00:00.0000001' <> ts", "(ts = ts)"),
    ("ts IN ('1970-01-01 00:00:00.0000001')", "(ts <> ts)"),
    ("ts NOT IN ('1970-01-01 00:00:00.0000001')", "(ts = ts)"),
    ("ts IN ('1970-01-01 00:00:00.0000001', 5)", f"ts IN ({ms(5)}, {ms(5)})"),
    (
        "ts BETWEEN '1970-01-01 00:00:00.0000001' AND '1970-01-01 00:00:00.0010001'",
        f"ts BETWEEN {ms(1)} AND {ms(1)}",
    ),
    ("ts = '1970-1-1 0:0:1'", f"ts = {ms(1000)}"),
    ("ts < TIMESTAMP '1970-01-01 00:00:00.0000001'", f"ts < {ms(1)}"),
    ("TIMESTAMP '1970-01-01 00:00:00.0000001' < ts", f"{ms(0)} < ts"),
    ("ts = TIMESTAMP '1970-01-01 00:00:00.0000001'", "(ts <> ts)"),
    ("ts < TIMESTAMP '1970-01-01 00:00:00.5'", "ts < TIMESTAMP '1970-01-01 00:00:00.5'"),
    (
        "ts >= CAST('1970-01-01 00:00:00.0000001' AS TIMESTAMP(9))",
        "ts >= arrow_cast('1970-01-01T00:00:00.001','Timestamp(ns)')",
    ),
    (
        "ts <= '1970-01-01 00:00:00.0000001'::TIMESTAMP(9)",
        "ts <= arrow_cast('1970-01-01T00:00:00.000','Timestamp(ns)')",
    ),
    ("ts <> '1970-01-01 00:00:00.0000001'::TIMESTAMP(9)", "(ts = ts)"),
    ("ts::TIMESTAMP(9) = '1970-01-01 00:00:00.0000001'", "(ts <> ts)"),
    ("CAST(ts AS TIMESTAMP(6)) > '1970-01-01 00:00:00.0000001'", f"arrow_cast(ts,'Timestamp(µs)') > {ms(0)}"),
    ("ts::TIMESTAMP(0) > '1970-01-01 00:00:00.5'", "arrow_cast(ts,'Timestamp(s)') > '1970-01-01 00:00:00.5'"),
    ("up = TIMESTAMP '1970-01-01 00:00:00.0000001'", "up = TIMESTAMP '1970-01-01 00:00:00.0000001'"),
    ("u.at > '1970-01-01 00:00:00.0000001'", "u.at > '1970-01-01 00:00:00.0000001'"),
    ("up = 'true' AND up <> 'False'", "up = true AND up <> false"),
    ("'t' = up", "true = up"),
    ("up IN ('true', 'f')", "up IN (true, false)"),
]
FUNCTIONS = [
    ("SELECT UCASE(a), lcase ( b )", "SELECT upper(a), lower ( b )"),
    ("SELECT std(v), variance(v)", "SELECT stddev_pop(v), var_pop(v)"),
    ("SELECT locate('a', b), locate('a', b, 2)", "SELECT locate('a', b), locate__3('a', b, 2)"),
    ("SELECT count_hash(a) FROM t", "SELECT count(DISTINCT a) FROM t"),
    ("SELECT mod(x::INT64, 2)", "SELECT coalesce(coalesce(arrow_cast(x,'Int64')) % coalesce(2))"),
    ("SELECT a @@ 'x' AND NOT b.c @@ 'y'", "SELECT matches_term(a , 'x') AND NOT matches_term(b.c , 'y')"),
    ("SELECT @@time_zone", "SELECT 'it''s' AS \"@@time_zone\""),
    ("SELECT @@session.time_zone AS z", "SELECT 'it''s' AS z"),
]


@pytest.mark.parametrize(("before", "after"), [*CASTS, *FUNCTIONS])
def test_texts_are_edited(before: str, after: str) -> None:
    assert edited(before) == after


@pytest.mark.parametrize("text", UNCHANGED)
def test_a_text_that_needs_no_edit_stays_the_same_object(text: str) -> None:
    assert edited(text) is text


@pytest.mark.parametrize(("before", "after"), COMPARISONS)
def test_literals_become_values_of_the_column_they_are_compared_with(before: str, after: str) -> None:
    assert edited(f"SELECT * FROM t, u WHERE {before}") == f"SELECT * FROM t, u WHERE {after}"


@pytest.mark.parametrize(
    ("zone", "literal", "ticks"),
    [
        ("+08:00", "1970-01-01 08:00:00", 0),
        ("Asia/Shanghai", "1970-01-01 08:00:01", 1000),
        ("+08:00", "1970-01-01", -28_800_000),
    ],
)
def test_text_without_a_zone_is_local_time_of_the_session(zone: str, literal: str, ticks: int) -> None:
    assert edited(f"SELECT * FROM t WHERE ts = '{literal}'", zone=zone) == f"SELECT * FROM t WHERE ts = {ms(ticks)}"


def test_text_with_a_zone_is_left_as_it_is() -> None:
    text = "SELECT * FROM t WHERE ts = '1970-01-01 08:00:00+01:00'"
    assert edited(text, zone="+08:00") is text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT * FROM t WHERE up = 'perhaps'", TsdbError),
        ("SELECT * FROM t WHERE ts > 99999999999999999999", TsdbError),
        ("SELECT x::TIMESTAMP(4)", InvalidSyntax),
        ("SELECT @@nothing", InvalidArguments),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, error: type[TsdbError]) -> None:
    with pytest.raises(error):
        edited(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("3y2mon4h", "3 years 2 months 4 hours"),
        ("-1h5m", "-1 hours 5 minutes"),
        ("1w", "1 weeks"),
        ("10ms", "10 milliseconds"),
        ("5millis2us3ns", "5 milliseconds 2 microseconds 3 nanoseconds"),
        ("P3Y3M700DT133H17M36.789S", "163343856789 milliseconds"),
        ("-p1d", "-86400000 milliseconds"),
        ("1 day", "1 day"),
        ("P", "P"),
        ("1h 5m", "1h 5m"),
        ("5 months", "5 months"),
        ("1x", "1x"),
    ],
)
def test_intervals_are_spelled_out(before: str, after: str) -> None:
    assert expand_interval(before) == after


MEDIANS = [
    ("SELECT median(v) FROM t", "SELECT median(v) FROM t"),
    ("SELECT median(t.v), max(t.v)", "SELECT arrow_cast(median(CAST(t.v AS DECIMAL(20,0))),'Int64 '), max(t.v)"),
    ("SELECT median(x::SMALLINT) + 1", "SELECT arrow_cast(median(x::SMALLINT),'Int16 ') + 1"),
    (
        "SELECT approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY t.v) FILTER (WHERE up) OVER w",
        "SELECT arrow_cast(approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY t.v) FILTER (WHERE up) OVER w,'Int64 ')",
    ),
    ("SELECT median(u.v), median(u.v + 1), median(*)", "SELECT median(u.v), median(u.v + 1), median(*)"),
]


@pytest.mark.parametrize(("before", "after"), MEDIANS)
def test_medians_of_integers_are_integers_where_the_column_is_known(before: str, after: str) -> None:
    assert edited(before) == after


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ('arrow_cast(median(t.v),Utf8("Int64 "))', "median(t.v)"),
        ('abs(arrow_cast(median(f(t.v)),Utf8("Int8 "))) + Int64(1)', "abs(median(f(t.v))) + Int64(1)"),
        ('t.ts > arrow_cast(Int64(-5),Utf8("Timestamp(ms) "))', "t.ts > Int64(-5)"),
        ('arrow_cast(t.v,Utf8("Int64"))', 'arrow_cast(t.v,Utf8("Int64"))'),
    ],
)
def test_headers_lose_the_marks_of_edits(name: str, header: str) -> None:
    assert header_of(name) == header


def test_stacked_derived_tables_that_share_a_column_get_names_and_lose_them_in_headers() -> None:
    text = "SELECT sum(i) FROM (SELECT i + 1 AS i FROM (SELECT i + 1 AS i FROM t))"
    after = edited(text)
    assert after.count(" AS tsdb__derived_") == 2
    assert header_of("sum(tsdb__derived_0.i)") == "sum(i)"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM a, b.c AS d JOIN e ON x = y, f", ["a", "b.c", "e", "f"]),
        ("WITH a AS (SELECT * FROM b) SELECT * FROM a, c WHERE x IN (SELECT 1, y FROM d)", ["b", "c", "d"]),
        ('SELECT a, b FROM (SELECT 1) q, "T" x WHERE y IN (1, 2)', ["T"]),
        ("VALUES (1, 2), (3, 4)", []),
        ("SELECT * FROM generate_series(1, 2), tsdb.public.t", ["tsdb.public.t"]),
    ],
)
def test_the_tables_a_query_names_are_found(text: str, names: list[str]) -> None:
    found = find_tables(TokenLayout(text, tokenize(text)), Dialect.GENERIC)
    assert [".".join(each.parts) for each in found] == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t WHERE v > 1 LIMIT 5", True),
        ("SELECT sum_of, max FROM t", True),
        ("SELECT max(v) FROM t", False),
        ("SELECT v FROM t ORDER BY v", False),
        ("SELECT * FROM a JOIN b ON x", False),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", False),
    ],
)
def test_queries_that_keep_the_order_of_their_table_are_known(text: str, expected: bool) -> None:
    layout = TokenLayout(text, tokenize(text))
    assert keeps_order(layout, {"max", "sum"}) is expected


WORDS = st.sampled_from([
    "SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "IN", "BETWEEN", "CAST", "TRY_CAST", "AS", "INTERVAL", "CASE",
    "WHEN", "END", "ts", "up", "v", "t", "u", "x", "::", "@@", "(", ")", "[", "]", ",", ".", ";", "<", ">=", "=",
    "<>", "-", "+", "1", "2.5", "'a'", "'1h5m'", "INT64", "TIMESTAMP", "UNSIGNED", "mod", "if", "locate", "ucase",
    "JOIN", '"q"', "`r`", "time_zone", "session", "'1970-01-01 00:00:00.0000001'",
])  # fmt: skip


@given(st.lists(WORDS, max_size=30))
def test_no_text_breaks_the_edits(words: list[str]) -> None:
    text = " ".join(words)
    with suppress(TsdbError):
        edited(text)


def test_long_lists_take_linear_time() -> None:
    numbers = ", ".join(str(n) for n in range(20_000))
    rows = ", ".join("(1, 2)" for _ in range(20_000))
    assert edited(f"SELECT * FROM t WHERE ts IN ({numbers})").count("arrow_cast(") == 20_000
    assert edited(f"VALUES {rows}").startswith("VALUES")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a IS DISTINCT FROM b", "SELECT (a IS DISTINCT FROM b)"),
        ("SELECT a IS DISTINCT FROM b c FROM t", "SELECT (a IS DISTINCT FROM b) c FROM t"),
        (
            "SELECT 1 FROM t WHERE x AND a + 1 IS NOT DISTINCT FROM -b * 2 AND y",
            "SELECT 1 FROM t WHERE x AND (a + 1 IS NOT DISTINCT FROM -b * 2) AND y",
        ),
        (
            "SELECT CASE WHEN a IS DISTINCT FROM CASE WHEN x THEN 1 END THEN 2 END",
            "SELECT CASE WHEN (a IS DISTINCT FROM CASE WHEN x THEN 1 END) THEN 2 END",
        ),
        (
            "SELECT f(a IS DISTINCT FROM left(b, 2), c) FROM t WHERE NOT a IS DISTINCT FROM (b OR c) OR d",
            "SELECT f((a IS DISTINCT FROM left(b, 2)), c) FROM t WHERE NOT (a IS DISTINCT FROM (b OR c)) OR d",
        ),
        (
            "SELECT 1 FROM t JOIN u ON t.a IS DISTINCT FROM u.a LEFT JOIN v ON true",
            "SELECT 1 FROM t JOIN u ON (t.a IS DISTINCT FROM u.a) LEFT JOIN v ON true",
        ),
        ("SELECT DISTINCT a IS NULL FROM t", "SELECT DISTINCT a IS NULL FROM t"),
    ],
)
def test_is_distinct_from_ends_where_its_right_side_ends(text: str, expected: str) -> None:
    assert rewrite(TokenLayout(text, tokenize(text)), RewriteRules()) == expected


@pytest.mark.parametrize(("operator", "count"), [("+", 50), ("*", 50), ("-", 50)])
def test_a_chain_of_integers_is_cast_back_once_at_its_end(operator: str, count: int) -> None:
    columns = ColumnTypes({"t": {"n": DataType(Kind.INT32)}})
    text = f"SELECT {operator.join(['n'] * count)} AS s FROM t"
    edited = rewrite(TokenLayout(text, tokenize(text)), RewriteRules(columns=columns))
    assert edited.count(" AS INT)") == 1, "each cast within another triples the time of planning"
    assert edited.count("CAST(n AS DECIMAL(20,0))") == count


def test_casts_of_integers_are_not_nested_deeply() -> None:
    columns = ColumnTypes({"t": {"n": DataType(Kind.INT64)}})
    expression = "n"
    for _ in range(14):
        expression = f"({expression} + 1) / 1"
    text = f"SELECT {expression} AS s FROM t"
    edited = rewrite(TokenLayout(text, tokenize(text)), RewriteRules(columns=columns))
    assert 0 < edited.count(" AS BIGINT)") <= 5
