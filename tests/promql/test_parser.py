"""The PromQL parser: what it reads, and how it says no."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.promql import (
    Aggregation,
    Binary,
    FunctionCall,
    NumberLiteral,
    PromqlSyntax,
    Unary,
    VectorSelector,
    expr_to_json,
    format_duration_ms,
    format_query,
    parse_duration_ms,
    parse_promql,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        (".5", 0.5),
        ("2.", 2),
        ("1e3", 1000),
        ("1_000_000", 1_000_000),
        ("0x1F", 31),
        ("017", 15),
        ("+Inf", float("inf")),
        ("5m", 300),
        ("1h30m", 5400),
        ("100ms", 0.1),
    ],
)
def test_numbers_come_in_many_forms(text: str, value: float) -> None:
    expr = parse_promql(text)
    assert isinstance(expr, NumberLiteral)
    assert expr.value == pytest.approx(value)


def test_power_binds_more_than_a_sign_and_goes_to_the_right() -> None:
    expr = parse_promql("-a ^ 2 ^ 3 * b")
    assert isinstance(expr, Binary)
    assert expr.op == "*"
    assert isinstance(expr.lhs, Unary)
    power = expr.lhs.expr
    assert isinstance(power, Binary)
    assert isinstance(power.rhs, Binary)


def test_words_of_the_language_can_name_metrics() -> None:
    for name in ("sum", "by", "offset", "start", "and:x", "topk"):
        expr = parse_promql(name)
        assert isinstance(expr, VectorSelector)
        assert expr.name == name


def test_names_may_be_any_text_in_quotes() -> None:
    expr = parse_promql('{"http.requests", "a label"="x"}')
    assert isinstance(expr, VectorSelector)
    assert expr.name == "http.requests"
    assert {matcher.name for matcher in expr.matchers} == {"__name__", "a label"}


def test_grouping_stands_before_or_behind_the_argument() -> None:
    first, second = parse_promql("sum by (a) (x)"), parse_promql("sum(x) by (a)")
    assert isinstance(first, Aggregation)
    assert isinstance(second, Aggregation)
    assert first.grouping == second.grouping == ("a",)


def test_comments_and_line_feeds_count_in_positions() -> None:
    with pytest.raises(PromqlSyntax, match=r"^3:6: parse error: unexpected end of input"):
        parse_promql("foo # a comment\n+\nbar +")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no expression found"),
        ("foo[", "expected duration"),
        ("{}", "at least one non-empty matcher"),
        ('{a=~".*"}', "at least one non-empty matcher"),
        ("rate(foo)", "expected type range vector"),
        ("foo[5m] + 1", "only scalar and instant vector"),
        ("1 == 1", "must use BOOL"),
        ("foo and 1", "not allowed in binary scalar expression"),
        ("(foo) offset 5m", "offset modifier must be preceded"),
        ("foo offset 1m offset 2m", "multiple times"),
        ("foo @ 1 @ 2", "multiple times"),
        ('foo{a=~"("}', "error parsing regexp"),
        ('foo{a=~"a)(b"}', "error parsing regexp"),
        ("unknown(1)", "unknown function"),
        ("sum(1)", "expected type instant vector"),
        ("topk(1)", "wrong number of arguments"),
        ("abs(foo, bar)", "expected 1 argument"),
        ("abs(foo,)", "trailing commas"),
        ("foo[0s]", "greater than 0"),
        ("5mm", "bad number or duration"),
        ("'abc", "unterminated"),
        ('"\\q"', "unknown escape"),
        ("a + on(x) group_left(x) b", "ON and GROUP"),
        ("a and on(x) group_left b", "no grouping allowed"),
        ("foo{a='b' c='d'}", "expected"),
        ('foo{__name__="bar"}', "must not be set twice"),
        ("1 fill(0) + 2", "unexpected"),
    ],
)
def test_wrong_queries_are_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(PromqlSyntax) as caught:
        parse_promql(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "-" * 100_000 + "1",
        "+".join(["1"] * 100_000),
        "abs(" * 100_000,
        "foo" + "[5m:]" * 100_000,
        "foo[" + "(" * 100_000,
        "{" + 'a="b",' * 200_000,
        '{a=~"' + "(" * 50_000 + '"}',
        "a or " * 100_000 + "b",
    ],
)
def test_hostile_queries_are_refused_quickly(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(PromqlSyntax):
        parse_promql(text)
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("foo/bar", "foo / bar"),
        ("SUM(foo)BY(a,b)", "sum by (a, b) (foo)"),
        ("rate(foo{a='b'}[300s]offset 60)", 'rate(foo{a="b"}[5m] offset 1m)'),
        ("a*on(x)group_left(y)b", "a * on (x) group_left (y) b"),
        ("a>bool 1", "a > bool 1"),
        ("foo[1h:5m]@start()", "foo[1h:5m] @ start()"),
        ('{"a.b"}', '{"a.b"}'),
        ("a+fill(0)b", "a + fill (0) b"),
        ("foo[ step()+ 1m]", "foo[step() + 1m]"),
        ("-foo", "-foo"),
    ],
)
def test_queries_have_one_layout(text: str, formatted: str) -> None:
    assert format_query(parse_promql(text)) == formatted


def test_long_queries_are_laid_out_on_several_lines() -> None:
    text = (
        "sum by (job) (rate(http_requests_total_of_the_first_kind[5m])) / sum by (job) (rate(other_requests_total[5m]))"
    )
    lines = format_query(parse_promql(text)).splitlines()
    assert [line.strip() for line in lines] == [
        "sum by (job) (rate(http_requests_total_of_the_first_kind[5m]))",
        "/",
        "sum by (job) (rate(other_requests_total[5m]))",
    ]


_names = st.sampled_from(["foo", "bar", "a:b", "sum", "x_1"])
_leaves = st.one_of(
    _names,
    st.integers(0, 10**6).map(str),
    _names.map(lambda name: f'{name}{{a="b",c=~"d.*"}}'),
    _names.map(lambda name: f"{name} offset 5m"),
    _names.map(lambda name: f"rate({name}[5m])"),
)
_queries = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%", "^"]), inner).map(
            lambda t: f"({t[0]}) {t[1]} ({t[2]})"
        ),
        inner.map(lambda each: f"-({each})"),
        inner.map(lambda each: f"sum without (a) (vector(1) * ({each}))"),
    ),
    max_leaves=12,
)


@given(_queries)
def test_a_formatted_query_reads_as_the_same_query(text: str) -> None:
    expr = parse_promql(text)
    again = parse_promql(format_query(expr))
    assert expr_to_json(again) == expr_to_json(expr)
    assert format_query(again) == format_query(expr)


@given(st.text(alphabet="ab{}[]()=~!\"'`,+-*/%^<>@:#\n 0159mshx\\_", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(PromqlSyntax):
        assert format_query(parse_promql(text))


@given(st.integers(1, 10**15))
def test_durations_read_back_the_same(ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(ms)) == ms


def test_durations_have_units_from_large_to_small_once_each() -> None:
    assert parse_duration_ms("1d12h") == 129_600_000
    for wrong in ("", "1", "m", "30m1h", "1m1m", "1.5h", "5 m", "-5m"):
        assert parse_duration_ms(wrong) is None


def test_the_tree_of_a_query_can_be_shown_as_json() -> None:
    shown = expr_to_json(parse_promql('sum(rate(foo{a="b"}[5m])) > 1'))
    assert shown["type"] == "binaryExpr"
    call = shown["lhs"]["expr"]
    assert call["func"] == {"name": "rate", "argTypes": ["matrix"], "variadic": 0, "returnType": "vector"}
    assert call["args"][0]["matchers"] == [{"name": "a", "value": "b", "type": "="}]
    assert call["args"][0]["range"] == 300_000


def test_a_call_knows_what_it_returns() -> None:
    expr = parse_promql("scalar(foo)")
    assert isinstance(expr, FunctionCall)
    assert expr.type.value == "scalar"
