"""What a wrong statement is answered with: the code of each protocol, and a message without the engine's inside."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import tsdb
from tsdb.errors import TsdbError, wire_of
from tsdb.query.errors._rules import RULES, Rule

FORBIDDEN = re.compile(
    r"DataFusion|Arrow error|External error|Execution error|Error during planning|Schema error|Internal error"
    r"|Compute error|Cast error|Parser error|caused by|ParserError\(|TokenizerError\(|SQL error"
    r"|bug report|Utf8|LargeBinary|Decimal128|Date32|Time64|Int64\(|Float64\(|Boolean\(|MonthDayNano|Int64Array"
    r"|[A-Z]\w+ \{|Some\(|None\b|Expr::|Signature|UserDefined|Uniform\(|Exact\(|OneOf\(|PyErr|Traceback"
    r"|SELECT clause satisfies"
)
"""What belongs to the inside of the query engine, or is the printed form of one of its objects."""

# Statement, status, SQLSTATE, MySQL errno, and a part of the message.
CASES = [
    ("SELECT 1/0", 3001, "22012", 1365, "Divide by zero"),
    ("SELECT n % 0 FROM cpu", 3001, "22012", 1365, "Divide by zero"),
    ("DELETE FROM cpu WHERE n / 0 = 1", 3001, "22012", 1365, "Divide by zero"),
    ("EXPLAIN ANALYZE SELECT 1/0", 3001, "22012", 1365, "Divide by zero"),
    ("SELECT -9223372036854775808 / -1", 3001, "22003", 1690, "overflow"),
    ("SELECT abs(-9223372036854775808)", 3001, "22003", 1690, "overflow"),
    ("SELECT 256::TINYINT", 3001, "22003", 1690, "Can't cast value 256 to type Int8"),
    ("SELECT 1e30::BIGINT", 3001, "22003", 1690, "1e30"),
    ("SELECT 'a'::INT", 3001, "22P02", 1292, "Cannot cast string 'a' to Int32"),
    ("SELECT host::INT FROM cpu", 3001, "22P02", 1292, "Cannot cast string 'a' to Int32"),
    ("SELECT * FROM cpu WHERE usage = 'abc'", 3001, "22P02", 1292, "'abc'"),
    ("SELECT host::TIMESTAMP FROM cpu", 3001, "22007", 1292, "Cannot read 'a' as a timestamp"),
    ("SELECT '2020-13-01'::TIMESTAMP", 3001, "22007", 1292, "2020-13-01"),
    ("SELECT INTERVAL '1 foo'", 3000, "22007", 1292, "'1 foo' is not an interval"),
    ("SELECT date_bin('1 foo', ts) FROM cpu", 3001, "22007", 1292, "'1 foo' is not an interval"),
    ("SELECT now() - INTERVAL '999999999 days'", 3001, "22008", 1441, "out of range"),
    ("SELECT regexp_match('a', '(')", 3001, "2201B", 3685, "'(': unclosed group"),
    ("SELECT host FROM cpu WHERE host ~ '('", 3001, "2201B", 3685, "'(': unclosed group"),
    ("SELECT regexp_replace(host, '[', 'x') FROM cpu", 3001, "2201B", 3685, "unclosed character class"),
    ("SELECT regexp_extract(host, '(') FROM cpu", 3001, "2201B", 3685, "'('"),
    ("SELECT parse_json('{')", 3001, "22032", 3141, "JSON '{'"),
    ("SELECT json_path_exists('{}', '$.[')", 3001, "22023", 1210, "not a JSON path"),
    ("SELECT hst FROM cpu", 3000, "42703", 1054, "No field named hst. Did you mean 'cpu.host'?"),
    ("SELECT zzz FROM cpu", 3000, "42703", 1054, "No field named zzz. Valid fields are cpu.host,"),
    ("SELECT a.host FROM cpu", 3000, "42703", 1054, "Did you mean 'cpu.host'?"),
    ("SELECT avg(hst) RANGE '1h' FROM cpu ALIGN '1h'", 3000, "42703", 1054, "No field named hst"),
    ("SELECT * FROM cpuu", 4001, "42P01", 1146, "Table not found: tsdb.public.cpuu; did you mean cpu?"),
    ("SELECT * FROM cpu.cpu", 4001, "42P01", 1146, "Table not found: tsdb.cpu.cpu"),
    ("DROP TABLE cpuu", 4001, "42P01", 1146, "did you mean cpu?"),
    ("INSERT INTO cpuu VALUES (1)", 4001, "42P01", 1146, "did you mean cpu?"),
    (
        "INSERT INTO cpu (hst) VALUES ('a')",
        4002,
        "42703",
        1054,
        "Column hst does not exist in table cpu; did you mean host?",
    ),
    ("ALTER TABLE cpu DROP COLUMN zzz", 4002, "42703", 1054, "Column zzz does not exist in table cpu"),
    ("ADMIN flush_table('nope')", 1002, "42P01", 1146, "nope"),
    ('CREATE DATABASE "a b"', 1002, "42602", 1103, "a b"),
    ("SELECT foo(1)", 3000, "42883", 1305, "Invalid function 'foo'."),
    ("SELECT abss(1)", 3000, "42883", 1305, "Did you mean 'abs'?"),
    ("SELECT jsn_get_int('{}', 'a')", 3000, "42883", 1305, "Did you mean 'json_get_int'?"),
    ("SELECT row_number() FROM cpu", 3000, "42883", 1305, "needs OVER"),
    ("SELECT * FROM foo()", 3000, "42883", 1305, "no table function foo"),
    ("SELECT abs()", 3000, "42883", 1582, "'abs' expects arguments"),
    ("SELECT abs(1, 2)", 3000, "42883", 1582, "'abs' expects 1 argument but received 2"),
    ("SELECT abs('a')", 3000, "42883", 1582, "'abs' does not accept arguments of the types (String)"),
    (
        "SELECT substr('abc', 'x')",
        3000,
        "42883",
        1582,
        "'substr' does not accept arguments of the types (String, String)",
    ),
    ("SELECT sum(host) FROM cpu", 3000, "42883", 1582, "'sum' does not accept arguments of the types (String)"),
    ("SELECT array_element([1], 'x')", 3000, "42883", 1582, "(List<Int64>, String)"),
    ("SELECT max(*) FROM cpu", 3001, "42883", 1582, "count only"),
    ("SELECT coalesce()", 3000, "42883", 1582, "at least one argument"),
    ("SELECT host + 1 FROM cpu", 3000, "42804", 1210, "String + Int64"),
    ("SELECT NOT host FROM cpu", 3000, "42804", 1210, "boolean"),
    ("SELECT * FROM cpu WHERE usage", 3000, "42804", 1210, "cpu.usage"),
    ("SELECT CAST(now() AS BOOLEAN)", 3001, "42804", 1210, "Cannot cast TimestampNanosecond to Boolean"),
    ("SELECT ts + ts FROM cpu", 3000, "42804", 1210, "TimestampMillisecond"),
    ("SELECT host FROM cpu GROUP BY n", 3000, "42803", 1055, "cpu.host"),
    ("SELECT host FROM cpu WHERE sum(usage) > 1", 3000, "42803", 1055, "HAVING"),
    ("SELECT sum(sum(usage)) FROM cpu", 3000, "42803", 1055, "nested"),
    ("SELECT host FROM cpu a JOIN cpu b ON a.n = b.n", 3000, "42702", 1052, "host"),
    ("SELECT 1 FROM cpu, cpu", 3000, "42712", 1066, "twice"),
    ("SELECT 1 UNION SELECT 1, 2", 3000, "42601", 1222, "number of columns"),
    ("SELECT (SELECT host FROM cpu)", 3001, "21000", 1242, "more than one row"),
    ("SELECT * FROM cpu LIMIT 'a'", 3001, "22023", 1210, "LIMIT"),
    ("SELECT * FROM cpu LIMIT -1", 3001, "22023", 1210, "LIMIT"),
    ("SELECT * FROM cpu LIMIT (SELECT 1)", 1001, "0A000", 1235, "LIMIT"),
    ("SELCT 1", 1001, "42601", 1064, "did you mean SELECT?"),
    ("SELECT * FORM cpu", 1001, "42601", 1064, "FORM"),
    ("MERGE INTO cpu USING t ON true", 1001, "0A000", 1235, "MERGE"),
    ("SELECT * FROM cpu WHERE", 2000, "42601", 1149, "Invalid SQL syntax"),
    ("SELECT lag(host, n) OVER () FROM cpu", 3001, "42883", 1582, "constant"),
    ("SELECT to_timestamp('x', '%Y')", 3001, "22007", 1292, "Cannot read 'x' as a timestamp of the format '%Y'"),
    ("SELECT to_time('x')", 3001, "22007", 1292, "Cannot read 'x' as a time, tried the formats"),
    ("SELECT extract(foo FROM ts) FROM cpu", 3001, "22007", 1292, "'foo' not supported"),
    ("SELECT to_date('x')", 3001, "22008", 1441, "the date is out of range"),
    ("SELECT arrow_cast(x'ff', 'Utf8')", 3001, "22021", 1300, "not valid UTF-8"),
    ("SELECT usage * 1e300::DOUBLE::DECIMAL(3,1) FROM cpu", 3001, "22003", 1690, "Cannot cast 1e300 to Decimal(3, 1)"),
    ("SELECT sqrt(-1)", 3001, "22023", 1210, "square root"),
    ("SELECT regexp_count(host, concat(host, '(')) FROM cpu", 3001, "2201B", 3685, "'a('"),
    ("SELECT approx_percentile_cont(usage, usage) FROM cpu", 3001, "42883", 1582, "must be a literal"),
    ("WITH a AS (SELECT 1), a AS (SELECT 2) SELECT 1", 3000, "42712", 1066, "more than once"),
    ("SELECT 1, 1 FROM (SELECT 1 a, 1 a)", 3000, "42712", 1066, "two columns of the result have the same name"),
    ("SELECT b'2'", 3000, "22P02", 1292, "'2' is not a literal"),
    ("SELECT x'zz'", 3000, "22P02", 1292, "'zz' is not a literal"),
    ("SELECT host ~ 'a{100}{100}{100}' FROM cpu", 3001, "2201B", 3685, "the regular expression is too large"),
    ("SELECT 1 FROM cpu WHERE host SIMILAR TO 'a{100}{100}{100}'", 3001, "2201B", 3685, "too large"),
    ("SELECT regexp_like(host, 'a{100}{100}{100}') FROM cpu", 3001, "2201B", 3685, "too large"),
    ("SELECT regexp_match(host, 'a{100}{100}{100}') FROM cpu", 3001, "2201B", 3685, "too large"),
    ("SELECT regexp_replace(host, 'a{100}{100}{100}', '') FROM cpu", 3001, "2201B", 3685, "too large"),
    ("SELECT regexp_count(host, 'a{100}{100}{100}') FROM cpu", 3001, "2201B", 3685, "'a{100}{100}{100}'"),
    (f"SELECT parse_json('{'[' * 300}{']' * 300}')", 3001, "22032", 3141, "nested too deeply"),
    (f"SELECT json_to_string('{'[' * 300}{']' * 300}')", 3001, "22032", 3141, "nested too deeply"),
    ("SELECT 'a' LIKE 'a' ESCAPE 'bb'", 3000, "22023", 1210, "escape character"),
    ("SELECT array_agg(n)[1:2:0] FROM cpu", 3001, "22023", 1210, "stride"),
    ("SELECT * FROM cpu WHERE n > $1", 3001, "22023", 1210, "the parameter $1 has no value"),
    ("SELECT host FROM cpu WHERE min(n) OVER () > 1", 3001, "42P20", 3593, "a window function cannot be in WHERE"),
    ("SELECT count(*) FROM cpu GROUP BY row_number() OVER ()", 3001, "42P20", 3593, "GROUP BY"),
    ("SELECT sum(n) OVER (ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING) FROM cpu", 3001, "42P20", 3593, "frame"),
    ("SELECT sum(n) OVER (ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) FROM cpu", 3000, "42P20", 3593, "frame"),
    ("SELECT n FROM cpu ORDER BY 5", 3000, "42P10", 1054, "out of bounds, specified: 5"),
    ("SELECT n FROM cpu GROUP BY 5", 3000, "42P10", 1054, "position 5"),
    ("SELECT DISTINCT ON (host) n FROM cpu ORDER BY n", 3000, "42P10", 1054, "DISTINCT ON"),
    ("SELECT grouping(n) FROM cpu", 3001, "42803", 1055, "grouping takes keys of GROUP BY"),
    ("SELECT grouping(n) OVER () FROM cpu", 3001, "42803", 1055, "grouping takes keys of GROUP BY"),
    ("SELECT * FROM (VALUES (1), (1, 2)) q", 3000, "42601", 1222, "got 2 values in row 1"),
    ("SELECT (SELECT (SELECT n)) FROM cpu", 3001, "0A000", 1235, "subquery is not supported in this place"),
    ("SELECT n IN (SELECT n FROM cpu) FROM cpu", 3001, "0A000", 1235, "write it as a join"),
    ("SELECT * FROM cpu, LATERAL (SELECT cpu.n) q", 3001, "0A000", 1235, "write it as a join"),
    (
        "SELECT 1 FROM cpu x JOIN cpu y ON x.n = (SELECT max(n) FROM cpu WHERE host = x.host)",
        3001,
        "0A000",
        1235,
        "write it as a join",
    ),
    ("SELECT * FROM cpu WHERE unnest(range(1, 2)) = 1", 3001, "0A000", 1235, "unnest is not supported in this place"),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT a.i + b.i FROM r a, r b) SELECT * FROM r",
        3001,
        "0A000",
        1235,
        "Multiple recursive references to the same CTE are not supported",
    ),
    ("SELECT unnest(n) FROM cpu", 3000, "42804", 1210, "array"),
    ("SELECT n.x FROM cpu", 3000, "42804", 1210, "Int32"),
    ("SELECT string_agg(host, host) FROM cpu", 3001, "42883", 1582, "delimiter must be a string literal"),
    ("SELECT host FROM cpu ORDER BY random(n)", 3001, "42883", 1582, "Function 'random' takes no arguments"),
    ("SELECT host FROM cpu ORDER BY atan()", 3001, "42883", 1582, "Function 'atan' expects arguments"),
    ("SELECT host FROM cpu WHERE union_tag(0, '') IS NULL", 3001, "42883", 1582, "expected 1 argument"),
    ("SELECT nth_value(n, 'x') FROM cpu", 3001, "42883", 1582, "nth_value"),
    ("SELECT nth_value(n) OVER () FROM cpu", 3001, "42883", 1582, "integer literal"),
    ("SELECT * FROM generate_series('a', 'b')", 3000, "42883", 1582, "must be an INTEGER"),
    ("SELECT * FROM generate_series()", 3000, "42883", 1582, "requires 1 to 3 arguments"),
    ("SELECT lpad(host, u) FROM (SELECT host, 9223372036854775807 + n AS u FROM cpu)", 3001, None, None, ""),
]


@pytest.fixture(scope="module")
def database() -> Iterator[tsdb.Connection]:
    with tsdb.connect() as connection:
        connection.sql(
            "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, usage DOUBLE, n INT, PRIMARY KEY (host))"
        )
        connection.sql("INSERT INTO cpu VALUES ('a', 1000, 1.5, 1), ('b', 2000, 2.5, 0)")
        yield connection


@pytest.mark.parametrize(("text", "status", "sqlstate", "errno", "part"), CASES, ids=[case[0] for case in CASES])
def test_a_wrong_statement_has_its_codes_and_a_message_in_the_terms_of_sql(
    database: tsdb.Connection, text: str, status: int, sqlstate: str | None, errno: int | None, part: str
) -> None:
    with pytest.raises(TsdbError) as caught:
        database.sql(text)
    error, wire = caught.value, wire_of(caught.value)
    assert part in str(error)
    assert not FORBIDDEN.search(str(error)), str(error)
    assert (error.status.value, wire.http) == (status, 400)
    assert sqlstate is None or (wire.sqlstate, wire.mysql_errno) == (sqlstate, errno)
    assert error.statement == text


def test_every_rule_is_applied_to_a_text_of_this_version_of_the_engine(
    database: tsdb.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: set[Rule] = set()
    render = Rule.render

    def record(rule: Rule, match: re.Match[str], text: str) -> str:
        applied.add(rule)
        return render(rule, match, text)

    monkeypatch.setattr(Rule, "render", record)
    for text, *_ in CASES:
        with pytest.raises(TsdbError):
            database.sql(text)
    assert [rule.pattern.pattern for rule in RULES if rule not in applied] == []
