"""Names of result columns over MySQL and PostgreSQL, as a table of texts."""

from __future__ import annotations

import pytest

from tsdb.sql import Dialect
from tsdb.sql.headings import name_columns

# The items of a SELECT list, what PostgreSQL calls the column, what MySQL does. None: the query engine's own name.
ITEMS: list[tuple[str, str | None, str | None]] = [
    ("1", "?column?", "1"),
    ("-1", "?column?", "-1"),
    ("1.50", "?column?", "1.50"),
    ("1 +  1", "?column?", "1 +  1"),
    ("'abc'", "?column?", "abc"),
    ("NULL", "?column?", "NULL"),
    ("null", "?column?", "NULL"),
    ("true", "bool", "TRUE"),
    ("(1)", "?column?", "(1)"),
    ("v", "v", None),
    ("cpu.v", "v", None),
    ("(v)", "v", None),
    ("public.cpu.v", "v", None),
    ("v w", None, None),
    ("v AS w", None, None),
    ("v + 1 AS w", None, None),
    ("count(*) n", None, None),
    ("CASE WHEN v > 1 THEN 1 END n", None, None),
    ("count(*)", "count", "count(*)"),
    ("COUNT( * )", "count", "COUNT( * )"),
    ("count(DISTINCT v)", "count", "count(DISTINCT v)"),
    ("now()", "now", "now()"),
    ("max(v) + 1", "?column?", "max(v) + 1"),
    ("round(avg(v), 2)", "round", "round(avg(v), 2)"),
    ("pg_catalog.version()", "version", "pg_catalog.version()"),
    ("sum(v) OVER (PARTITION BY h ORDER BY ts)", "sum", "sum(v) OVER (PARTITION BY h ORDER BY ts)"),
    ("sum(v) OVER w", "sum", "sum(v) OVER w"),
    ("count(*) FILTER (WHERE v > 1)", "count", "count(*) FILTER (WHERE v > 1)"),
    ("avg(v) RANGE '5m' FILL PREV", "avg", "avg(v) RANGE '5m' FILL PREV"),
    ("CAST(v AS bigint)", "v", "CAST(v AS bigint)"),
    ("CAST(1 AS bigint)", "int8", "CAST(1 AS bigint)"),
    ("CAST(count(*) AS char)", "count", "CAST(count(*) AS char)"),
    ("CAST(v + 1 AS double precision)", "float8", "CAST(v + 1 AS double precision)"),
    ("CASE WHEN v > 1 THEN 'a' ELSE 'b' END", "case", "CASE WHEN v > 1 THEN 'a' ELSE 'b' END"),
    ("CASE WHEN v > 1 THEN 1 ELSE v END", "v", "CASE WHEN v > 1 THEN 1 ELSE v END"),
    ("CASE v WHEN 1 THEN CASE WHEN true THEN 2 END END", "case", "CASE v WHEN 1 THEN CASE WHEN true THEN 2 END END"),
    ("coalesce(v, 0)", "coalesce", "coalesce(v, 0)"),
    ("nullif(v, 0)", "nullif", "nullif(v, 0)"),
    ("greatest(1, 2)", "greatest", "greatest(1, 2)"),
    ("v IS NULL", "?column?", "v IS NULL"),
    ("v IS DISTINCT FROM 1", "?column?", "v IS DISTINCT FROM 1"),
    ("v BETWEEN 1 AND 2", "?column?", "v BETWEEN 1 AND 2"),
    ("NOT v", "?column?", "NOT v"),
    ("h LIKE 'a%'", "?column?", "h LIKE 'a%'"),
    ("v IN (1, 2)", "?column?", "v IN (1, 2)"),
    ("exists (SELECT 1)", "exists", "exists (SELECT 1)"),
    ("(SELECT max(v) FROM cpu)", "max", "(SELECT max(v) FROM cpu)"),
    ("(SELECT 1)", "?column?", "(SELECT 1)"),
    ("(SELECT v AS top FROM cpu)", "top", "(SELECT v AS top FROM cpu)"),
    ("extract(hour FROM ts)", "extract", "extract(hour FROM ts)"),
    ("date_trunc('hour', ts)", "date_trunc", "date_trunc('hour', ts)"),
    ("trim(h)", "btrim", "trim(h)"),
    ("trim(leading 'a' from h)", "ltrim", "trim(leading 'a' from h)"),
    ("left(h, 2)", "left", "left(h, 2)"),
    ("current_date", "current_date", "current_date"),
    ("interval '1 day'", "interval", "interval '1 day'"),
    ("ts + interval '1' day", "?column?", "ts + interval '1' day"),
    ("date '2024-01-01'", "date", "date '2024-01-01'"),
    ("(1, 2)", "row", "(1, 2)"),
]
PG_ITEMS = [
    ("v::text", "v"),
    ("'5'::int", "int4"),
    ("5::bigint::text", "text"),
    ("count(*)::text", "count"),
    ("v::double precision", "v"),
    ("'x'::character varying(10)", "varchar"),
    ("now()::timestamp with time zone", "now"),
    ("'2024-01-01'::timestamp with time zone", "timestamptz"),
    ("'{1}'::int[]", "int4"),
    ("-1::int", "?column?"),
    ("ARRAY[1, 2]", "array"),
    ("ARRAY(SELECT 1)", "array"),
    ("a[1]", "a"),
    ("(r).field", "field"),
    ("ts AT TIME ZONE 'UTC'", "timezone"),
    ('h COLLATE "C"', "h"),
    ('"My Col"', "My Col"),
    ("$1", "?column?"),
    ("$1::int", "int4"),
    ("a || b", "?column?"),
    ("current_schema()", "current_schema"),
    ("array_agg(v ORDER BY v)", "array_agg"),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY v)", "percentile_cont"),
]
MYSQL_ITEMS = [
    ("`v`", None),
    ("7 DIV 2", "7 DIV 2"),
    ("v MOD w", "v MOD w"),
    ("v DIV w q", None),
    ('"abc"', "abc"),
    ("'it''s'", "it's"),
    ("@@version", "@@version"),
    ("@@session.time_zone", "@@session.time_zone"),
    ("ts + INTERVAL 1 DAY", "ts + INTERVAL 1 DAY"),
    ("h REGEXP 'a'", "h REGEXP 'a'"),
    ("1 'one'", None),
    ("group_concat(h SEPARATOR ';')", "group_concat(h SEPARATOR ';')"),
    ("/* c */ 1 /* d */", "1"),
]
OWN = "the engine's"


@pytest.mark.parametrize(("item", "pg", "mysql"), ITEMS)
def test_an_expression_is_headed_as_each_server_heads_it(item: str, pg: str | None, mysql: str | None) -> None:
    for text in (f"SELECT {item}", f"SELECT {item} FROM cpu", f"SELECT DISTINCT {item} FROM cpu ORDER BY 1"):
        assert name_columns([OWN], text, Dialect.POSTGRESQL) == [pg or OWN]
        assert name_columns([OWN], text, Dialect.MYSQL) == [mysql or OWN]


@pytest.mark.parametrize(("item", "heading"), PG_ITEMS)
def test_postgresql_heads_an_expression(item: str, heading: str) -> None:
    assert name_columns([OWN], f"SELECT {item} FROM cpu", Dialect.POSTGRESQL) == [heading]


@pytest.mark.parametrize(("item", "heading"), MYSQL_ITEMS)
def test_mysql_heads_an_expression(item: str, heading: str | None) -> None:
    assert name_columns([OWN], f"SELECT {item} FROM cpu", Dialect.MYSQL) == [heading or OWN]


@pytest.mark.parametrize(
    ("text", "names", "shown"),
    [
        ("SELECT 1, 2", "ab", ["?column?", "?column?"]),
        ("SELECT *, count(*) FROM t", "abc", ["a", "b", "count"]),
        ("SELECT 1, t.*, 2 FROM t", "abcd", ["?column?", "b", "c", "?column?"]),
        ("SELECT 1, a.*, 2, b.*, 3 FROM a, b", "abcde", ["?column?", "b", "c", "d", "?column?"]),
        ("WITH x AS (SELECT 1 AS a) SELECT count(*) FROM x", "a", ["count"]),
        ("(SELECT 1) UNION ALL (SELECT 2)", "a", ["?column?"]),
        ("SELECT max(v) FROM a UNION SELECT 2", "a", ["max"]),
        ("VALUES (1, 2)", "ab", ["a", "b"]),
        ("SELECT count(*) FROM (SELECT 1 FROM t) s", "a", ["count"]),
        ("SELECT 1;", "a", ["?column?"]),
        ("SELECT 1 LIMIT 1", "a", ["?column?"]),
        ("SELECT DISTINCT ON (h) max(v) FROM t", "a", ["max"]),
        ("SELECT DISTINCT (v), 1 FROM t", "ab", ["v", "?column?"]),
        ("SELECT 1, 2, 3", "ab", ["a", "b"]),
        ("SELECT FROM t", "", []),
    ],
)
def test_headings_are_those_of_the_outermost_list(text: str, names: str, shown: list[str]) -> None:
    assert name_columns(list(names), text, Dialect.POSTGRESQL) == shown
