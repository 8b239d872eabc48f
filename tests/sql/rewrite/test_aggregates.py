"""Aggregates and vectors as the query engine gets them, and the names of their columns as users see them."""

from __future__ import annotations

import pytest

from tsdb.sql.lexer import tokenize
from tsdb.sql.rewrite import RewriteRules, TokenLayout, header_of, rewrite


def edited(text: str) -> str:
    return rewrite(TokenLayout(text, tokenize(text)), RewriteRules())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT vec_sum(v) FROM t", "SELECT vec_sum__list(array_agg(v)) FROM t"),
        ("SELECT Vec_Avg(v) FROM t", "SELECT vec_avg__list(array_agg(v)) FROM t"),
        ("SELECT hll(DISTINCT a.x) AS s", "SELECT hll__list(array_agg(hll__place( a.x))) AS s"),
        (
            "SELECT uddsketch_state(128, 0.01, v) FILTER (WHERE x > 1) OVER (PARTITION BY y), 1",
            "SELECT uddsketch_state__list(128, 0.01, array_agg(v) FILTER (WHERE x > 1) OVER (PARTITION BY y)), 1",
        ),
        ("SELECT hll_merge(s) OVER w FROM t", "SELECT hll_merge__list(array_agg(s) OVER w) FROM t"),
        ("SELECT vec_sum(v)::INT64", "SELECT arrow_cast(vec_sum__list(array_agg(v)),'Int64')"),
        (
            "SELECT vec_sum(v) FILTER (WHERE mod(a, 2) = 0)",
            "SELECT vec_sum__list(array_agg(v) FILTER (WHERE coalesce(coalesce(a) % coalesce(2)) = 0))",
        ),
        (
            "SELECT geo_path(a, b, ts) FROM t",
            "SELECT geo_path__list(array_agg(geo_path__point(a, b, CAST(ts AS BIGINT)))) FROM t",
        ),
        ("SELECT vec_sum(v, w), uddsketch_state(v)", "SELECT vec_sum(v, w), uddsketch_state(v)"),
        (
            "SELECT vec_add('[1]', v), vec_kth_elem(v, 1)",
            "SELECT vec_add(CAST('[1]' AS BYTEA), CAST(v AS BYTEA)), vec_kth_elem(CAST(v AS BYTEA), 1)",
        ),
        ("SELECT vec_dim(1.5)", "SELECT vec_dim(CAST('1.5' AS BYTEA))"),
    ],
)
def test_call_becomes(text: str, expected: str) -> None:
    assert edited(text) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("vec_sum__list(array_agg(t.v))", "vec_sum(t.v)"),
        (
            "hll__list(array_agg(hll__place(t.x)) FILTER (WHERE t.a > Int64(1)))",
            "hll(t.x) FILTER (WHERE t.a > Int64(1))",
        ),
        (
            'f(uddsketch_state__list(Int64(1),Float64(0.1),array_agg(DISTINCT t.v) PARTITION BY [t.a, b])) + Utf8(",")',
            'f(uddsketch_state(Int64(1),Float64(0.1),DISTINCT t.v) PARTITION BY [t.a, b]) + Utf8(",")',
        ),
        ("geo_path__list(array_agg(geo_path__point(t.a,t.b,t.ts)))", "geo_path(t.a,t.b,t.ts)"),
        ('anomaly_score_mad__frame(f(t.v,t.w),Utf8("rows -1 0"),t.ts) ROWS', "anomaly_score_mad(f(t.v,t.w)) ROWS"),
        ("mine__list(array_agg(t.v))", "mine__list(array_agg(t.v))"),
    ],
)
def test_header_shows_the_call(header: str, expected: str) -> None:
    assert header_of(header) == expected
