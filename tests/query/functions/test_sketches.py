"""Sketches: distinct counts and quantiles from states that can be merged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.functions.asking import ask, check, error

STATE = "uddsketch_state(128, 0.01, v)"


def quantile(values: list[float], q: float, *, buckets: int = 128, error: float = 0.01) -> float | None:
    table = pa.table({"v": pa.array(values, pa.float64())})
    answer = ask(f"SELECT uddsketch_calc({q}, uddsketch_state({buckets}, {error}, v)) FROM t", table=table)
    return answer.column(0)[0].as_py()  # type: ignore[no-any-return]


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_hll_counts_few_values_exactly(rows: int) -> None:
    table = pa.table({"x": pa.array([f"host-{n}" for n in range(rows)] * 2, pa.string())})
    assert ask("SELECT hll_count(hll(x)) FROM t", table=table).to_pydict() == {"hll_count(hll(t.x))": [rows]}


@pytest.mark.parametrize(("rows", "most_off"), [(4000, 2), (6000, 150), (60_000, 1500)])
def test_hll_counts_many_values_within_its_error(rows: int, most_off: int) -> None:
    table = pa.table({"x": np.arange(rows)})
    count = ask("SELECT hll_count(hll(x)) FROM t", table=table).column(0)[0].as_py()
    assert abs(count - rows) <= most_off


def test_hll_merge_counts_what_is_in_any_state() -> None:
    for rows in (100, 30_000):
        numbers = np.arange(rows)
        table = pa.table({"x": np.concatenate([numbers, numbers]), "g": np.repeat([0, 1, 2, 3], rows // 2)})
        whole = ask("SELECT hll_count(hll(x)) FROM t", table=table).column(0)[0].as_py()
        parts = "SELECT hll_count(hll_merge(s)) FROM (SELECT g, hll(x) AS s FROM t GROUP BY g)"
        assert ask(parts, table=table).column(0)[0].as_py() == whole


def test_hll_skips_nulls_and_takes_a_filter() -> None:
    table = pa.table({"x": ["a", None, "b", "a"], "g": [1, 1, 2, 2]})
    answer = ask("SELECT hll_count(hll(x) FILTER (WHERE g = 1)), hll_count(hll(DISTINCT x)) FROM t", table=table)
    assert answer.to_pylist() == [
        {"hll_count(hll(t.x) FILTER (WHERE t.g = Int64(1)))": 1, "hll_count(hll(t.x))": 2},
    ]


def test_hll_of_nothing_counts_zero() -> None:
    table = pa.table({"x": pa.array([], pa.string())})
    assert ask("SELECT hll_count(hll(x)), hll_count(hll_merge(x::BYTEA)) FROM t", table=table).to_pylist() == [
        {"hll_count(hll(t.x))": 0, "hll_count(hll_merge(t.x))": 0}
    ]
    check("hll_count(NULL)", None)


def test_hll_refuses_bytes_that_are_no_state() -> None:
    assert "not a state" in error("hll_count(X'00')")
    assert "not a state" in error("hll_count(hll_merge(X'0101'))")


@pytest.mark.parametrize(("q", "near"), [(0.0, 10.0), (0.1, 20.0), (0.5, 60.0), (0.95, 100.0), (1.0, 100.0)])
def test_quantile_is_within_the_error_of_a_value(q: float, near: float) -> None:
    found = quantile([10.0 * n for n in range(1, 11)], q)
    assert found == pytest.approx(near, rel=0.0101)


def test_quantile_of_nothing_is_null() -> None:
    assert quantile([], 0.5) is None
    check("uddsketch_calc(0.5, NULL)", None)


def test_quantiles_of_negative_numbers_and_zero() -> None:
    values = [-100.0, -1.0, 0.0, 0.0, 5.0]
    assert [quantile(values, q) for q in (0.0, 0.3, 0.5)] == [
        pytest.approx(-100, rel=0.0101), pytest.approx(-1, rel=0.0101), 0.0,
    ]  # fmt: skip


def test_buckets_are_joined_until_they_fit() -> None:
    values = [1.001**n for n in range(5000)]
    coarse = quantile(values, 0.5, buckets=16)
    fine = quantile(values, 0.5, buckets=4096)
    assert fine == pytest.approx(values[2500], rel=0.0101)
    assert coarse == pytest.approx(values[2500], rel=0.5)
    assert coarse != fine


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-3 or x == 0), min_size=1, max_size=60), st.data())
def test_merged_states_answer_as_one_state_of_all(values: list[float], data: st.DataObject) -> None:
    q = data.draw(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]))
    table = pa.table({"v": values, "g": [n % 3 for n in range(len(values))]})
    merged = ask(
        f"SELECT uddsketch_calc({q}, uddsketch_merge(128, 0.01, s)) FROM (SELECT {STATE} AS s FROM t GROUP BY g)",
        table=table,
    )
    assert merged.column(0)[0].as_py() == pytest.approx(quantile(values, q), rel=1e-9)


def test_states_of_different_parameters_do_not_merge() -> None:
    for merge in ("uddsketch_merge(64, 0.01, s)", "uddsketch_merge(128, 0.1, s)"):
        with pytest.raises(Exception, match="different parameters"):
            ask(f"SELECT {merge} FROM (SELECT uddsketch_state(128, 0.01, 1.0) AS s)")


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("uddsketch_calc(1.5, X'00')", "0 to 1"),
        ("uddsketch_calc(0.5, X'00')", "not a state"),
        ("uddsketch_state(0, 0.01, 1.0)", "number of buckets"),
        ("uddsketch_state(128, 1.0, 1.0)", "the error"),
        ("uddsketch_state(128, NULL, 1.0)", "null"),
    ],
)
def test_sketch_refuses(expression: str, named: str) -> None:
    assert named in error(expression)
