"""Range queries as text: what is found, how it is cut, what is refused."""

from __future__ import annotations

import pytest

from tsdb.errors import InvalidSyntax, Status, TsdbError, Unsupported
from tsdb.sql.lexer import tokenize
from tsdb.sql.range_query import FillKind, RangePlanError, RangeQuery, find_range
from tsdb.sql.statements import Dialect


def found(text: str, dialect: Dialect = Dialect.GENERIC) -> RangeQuery:
    query = find_range(text, tokenize(text, dialect))
    assert query is not None
    return query


def rendered(query: RangeQuery) -> list[str]:
    names = [f"c{number}" for number in range(len(query.calls))]
    return [item.expression.render(query.text, names) for item in query.items]


def test_a_query_is_cut_at_its_clauses() -> None:
    query = found(
        "SELECT ts, host h, max(v) RANGE '1h30m' FILL 0 FROM db.t AS x WHERE v > 1"
        " ALIGN '1m' TO '2024-01-01' BY (host, v % 2) FILL PREV ORDER BY ts DESC LIMIT 3 OFFSET 1"
    )
    assert query.text[query.source.start : query.source.end] == "db.t AS x"
    assert (query.where, query.tail) == ("v > 1", "LIMIT 3 OFFSET 1")
    assert query.align.ms == 60_000
    assert query.origin is not None
    assert query.origin.timestamp == "2024-01-01"
    assert query.by is not None
    assert [query.text[each.start : each.end] for each in query.by] == ["host", "v % 2"]
    assert query.order is not None
    assert query.order.render(query.text, []) == "ts DESC"
    assert [item.alias for item in query.items] == [None, "h", None]
    [call] = query.calls
    assert (call.text, call.function, call.argument, call.span.ms) == ("max(v)", "max", "v", 5_400_000)
    assert call.fill is not None
    assert call.fill.label == "0"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT align, range FROM t",
        "SELECT * FROM range(0, 10)",
        "SELECT range(1, 5), align('x')",
        "SELECT * FROM t align WHERE align.v > 1",
        "SELECT sum(v) OVER (ORDER BY ts RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "SELECT sum(v) OVER (ORDER BY abs(ts) RANGE 5 PRECEDING) FROM t",
        "SELECT sum(v) OVER w FROM t WINDOW w AS (ORDER BY abs(ts) RANGE 5 PRECEDING)",
        "SELECT min(v) fill FROM t",
        "SELECT 'ALIGN', 'x RANGE' FROM t -- ALIGN '5s'",
    ],
)
def test_other_statements_hold_none(text: str) -> None:
    assert find_range(text, tokenize(text)) is None


@pytest.mark.parametrize(
    ("item", "expected", "calls"),
    [
        ("max(v) RANGE '1m'", "c0 ", ["max(v)"]),
        ("2 * max(v) RANGE '1m' FILL NULL + 1", "2 * c0  + 1", ["max(v)"]),
        ("round(max(v) RANGE '1m' + 1)", "round(c0  + 1)", ["max(v)"]),
        ("(min(v) + max(v)) RANGE '1m'", "(c0 + c1) ", ["min(v)", "max(v)"]),
        ("((min(v) + 1) * (2 - max(v + 1))) RANGE '1m'", "((c0 + 1) * (2 - c1)) ", ["min(v)", "max(v + 1)"]),
        ("(round(max(v)) + 1) RANGE '1m'", "(c0 + 1) ", ["round(max(v))"]),
        ("max(v) RANGE '1m' - MAX(v) RANGE '1m'", "c0  - c1 ", ["max(v)", "MAX(v)"]),
        ("max(v) RANGE '1m' - max(v) RANGE '1m'", "c0  - c0 ", ["max(v)"]),
        ("count(DISTINCT v) RANGE '1m'", "c0 ", ["count(DISTINCT v)"]),
        (
            "quantile(0.5) WITHIN GROUP (ORDER BY v) RANGE '1m'",
            "c0 ",
            ["quantile(0.5) WITHIN GROUP (ORDER BY v)"],
        ),
        ("CASE WHEN max(v) RANGE '1m' > 1 THEN 'x' END", "CASE WHEN c0  > 1 THEN 'x' END", ["max(v)"]),
        ("max((SELECT 1)) RANGE '1m'", "c0 ", ["max((SELECT 1))"]),
    ],
)
def test_range_covers_the_call_before_it(item: str, expected: str, calls: list[str]) -> None:
    query = found(f"SELECT {item} FROM t ALIGN '1m'")
    assert rendered(query) == [expected]
    assert [call.text for call in query.calls] == calls


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("5s", 5_000),
        ("1y", 31_536_000_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("007m", 420_000),
        ("1ms", 1),
        ("1m1ms", 60_001),
    ],
)
def test_durations_are_sums_of_units(written: str, ms: int) -> None:
    assert found(f"SELECT max(v) RANGE '{written}' FROM t ALIGN '1m'").calls[0].span.ms == ms


@pytest.mark.parametrize("written", ["", "90", "1.5h", "1m1d", "1s1s", "-5s", "5 s", "5x", "٣s", "1S"])
def test_a_malformed_duration_is_a_syntax_error(written: str) -> None:
    for text in (
        f"SELECT max(v) RANGE '{written}' FROM t ALIGN '1m'",
        f"SELECT max(v) RANGE '1m' FROM t ALIGN '{written}'",
    ):
        with pytest.raises(InvalidSyntax, match="not a duration"):
            found(text)


@pytest.mark.parametrize("written", ["0s", "0h0m", "99999999999999y"])
def test_a_duration_of_nothing_or_beyond_all_time_cannot_be_planned(written: str) -> None:
    with pytest.raises(RangePlanError):
        found(f"SELECT max(v) RANGE '1m' FROM t ALIGN '{written}'")
    assert RangePlanError.status is Status.PLAN_QUERY


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ts FROM t ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t",
        "SELECT min(v) FILL PREV RANGE '5s' FROM t ALIGN '5s'",
        "SELECT min(v) FILL PREV, max(v) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT *, min(v) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT t.*, min(v) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT max(min(v) RANGE '5s') RANGE '10s' FROM t ALIGN '5s'",
        "SELECT (min(v) RANGE '5s') RANGE '10s' FROM t ALIGN '5s'",
        "SELECT min(v) * 2 RANGE '5s' FROM t ALIGN '5s'",
        "SELECT v RANGE '5s' FROM t ALIGN '5s'",
        "SELECT (v + 1) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT sum(v) OVER (ORDER BY ts) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT (sum(v) OVER (ORDER BY ts)) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT DISTINCT ON (ts) min(v) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' BY host",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' BY (host,)",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' BY (max(v) RANGE '5s')",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' TO",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' TO 5",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' TO ()",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' FILL",
        "SELECT min(v) RANGE '5s' FILL FROM t ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' FILL PREV FILL NULL",
        "SELECT min(v) RANGE '5s' FROM t FILL PREV WHERE v > 1 ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' WHERE v > 1",
        "SELECT min(v) RANGE '5s' FROM t GROUP BY ts ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' ORDER BY",
        "SELECT min(v) RANGE '5s' FROM ALIGN '5s'",
        "SELECT min(v) RANGE '5s',, ts FROM t ALIGN '5s'",
        "SELECT min(v) RANGE () FROM t ALIGN '5s'",
        "SELECT min(v) RANGE 5 FROM t ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t ALIGN ('5s'",
        "SELECT x FROM (SELECT min(v) RANGE '5s' FROM t)",
        "SELECT min(v) RANGE '5s'",
    ],
)
def test_what_breaks_the_rules_is_a_syntax_error(text: str) -> None:
    with pytest.raises(InvalidSyntax):
        find_range(text, tokenize(text))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ts FROM t ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t",
        "SELECT min(v) FILL PREV RANGE '5s' FROM t ALIGN '5s'",
        "SELECT *, min(v) RANGE '5s' FROM t ALIGN '5s'",
        "SELECT max(min(v) RANGE '5s') RANGE '10s' FROM t ALIGN '5s'",
        "SELECT min(v) * 2 RANGE '5s' FROM t ALIGN '5s'",
        "SELECT min(v) RANGE '5s' FROM t ALIGN '5s' BY host",
    ],
)
def test_broken_rules_are_told_with_line_and_column(text: str) -> None:
    with pytest.raises(InvalidSyntax, match="at line 1, column"):
        find_range(text, tokenize(text))


def test_a_filter_is_not_supported() -> None:
    for operand in ("sum(v) FILTER (WHERE v > 1)", "(sum(v) FILTER (WHERE v > 1) + 1)"):
        with pytest.raises(Unsupported):
            found(f"SELECT {operand} RANGE '5s' FROM t ALIGN '5s'")


@pytest.mark.parametrize(
    ("written", "kind", "label"),
    [
        ("null", FillKind.NULL, "NULL"),
        ("Prev", FillKind.PREV, "PREV"),
        ("LINEAR", FillKind.LINEAR, "LINEAR"),
        ("6", FillKind.CONSTANT, "6"),
        ("-1.5", FillKind.CONSTANT, "-1.5"),
        ("'it''s'", FillKind.CONSTANT, "it's"),
        ("true", FillKind.CONSTANT, "true"),
    ],
)
def test_fills_are_read_behind_range_behind_align_and_before_it(written: str, kind: FillKind, label: str) -> None:
    for text in (
        f"SELECT max(v) RANGE '5s' FILL {written} FROM t ALIGN '5s'",
        f"SELECT max(v) RANGE '5s' FROM t ALIGN '5s' FILL {written}",
        f"SELECT max(v) RANGE '5s' FROM t FILL {written} ALIGN '5s'",
    ):
        fill = found(text).calls[0].fill
        assert fill is not None
        assert (fill.kind, fill.label) == (kind, label)


def test_a_calls_own_fill_wins() -> None:
    query = found("SELECT max(v) RANGE '5s' FILL 1, min(v) RANGE '5s' FROM t ALIGN '5s' FILL PREV")
    assert [call.fill and call.fill.label for call in query.calls] == ["1", "PREV"]


def test_the_innermost_and_earliest_query_is_found_first() -> None:
    inner = "SELECT ts, max(v) RANGE '5s' AS m FROM t ALIGN '5s'"
    text = f"SELECT ts, avg(m) RANGE '1m' FROM ({inner}) ALIGN '1m' BY ()"
    query = found(text)
    assert text[query.start : query.end] == inner
    assert not query.is_whole
    ctes = f"WITH a AS ({inner}), b AS (SELECT ts, min(m) RANGE '5s' FROM a ALIGN '5s' BY ()) SELECT * FROM b"
    assert found(ctes).start == len("WITH a AS (")
    second = ctes.replace(inner, "SELECT 1")
    query = found(second)
    assert second[query.start : query.end].startswith("SELECT ts, min(m)")
    assert [(scope.text, scope.names) for scope in query.scopes] == [("WITH a AS (SELECT 1)", frozenset({"a"}))]


def test_the_body_of_a_with_sees_all_of_its_ctes_and_is_the_whole() -> None:
    query = found("WITH a AS (SELECT 1), b (x) AS (SELECT 2) SELECT max(v) RANGE '5s' FROM a ALIGN '5s' BY ()")
    assert query.is_whole
    assert [scope.names for scope in query.scopes] == [{"a", "b"}]


def test_order_behind_a_set_operation_belongs_to_all_of_it() -> None:
    text = "SELECT max(v) RANGE '5s' FROM t ALIGN '5s' UNION ALL SELECT 1 ORDER BY 1"
    query = found(text)
    assert text[query.start : query.end] == "SELECT max(v) RANGE '5s' FROM t ALIGN '5s'"
    assert not query.is_whole
    last = "SELECT 1 UNION ALL SELECT max(v) RANGE '5s' FROM t ALIGN '5s' ORDER BY 1 LIMIT 2"
    query = found(last)
    assert (query.order, query.tail) == (None, "")
    assert last[query.end :] == " ORDER BY 1 LIMIT 2"


def test_double_quotes_hold_durations_in_mysql() -> None:
    query = found('SELECT max(`v`) RANGE "5s" FROM t ALIGN "1m" FILL "6"', Dialect.MYSQL)
    assert query.calls[0].span.ms == 5_000
    assert query.calls[0].fill is not None
    assert query.calls[0].fill.label == "6"


@pytest.mark.parametrize(
    ("origin", "is_now", "expression"),
    [
        ("NOW", True, None),
        ("now()", True, None),
        ("'now'", True, None),
        ("(now() - INTERVAL '1' day)", False, "now() - INTERVAL '1' day"),
    ],
)
def test_origins_are_read(origin: str, is_now: bool, expression: str | None) -> None:
    query = found(f"SELECT max(v) RANGE '5s' FROM t ALIGN '5s' TO {origin} BY ()")
    assert query.origin is not None
    assert (query.origin.is_now, query.origin.expression) == (is_now, expression)
    assert query.by == ()


def test_every_truncation_of_a_query_is_refused_or_read_without_a_crash() -> None:
    text = (
        "WITH a AS (SELECT 1) SELECT ts, (min(v) + first_value(v ORDER BY x)) RANGE ('1 day'::INTERVAL) FILL -1 y "
        "FROM a WHERE v > 1 ALIGN '5s' TO NOW BY (host) FILL PREV ORDER BY max(v) RANGE '5s' LIMIT 1"
    )
    tokens = tokenize(text)
    outcomes = set()
    for token in tokens:
        part = text[: token.end]
        try:
            outcomes.add(find_range(part, tokenize(part)) is not None)
        except TsdbError as error:
            outcomes.add(error.status)
    assert outcomes == {True, False, Status.INVALID_SYNTAX}
