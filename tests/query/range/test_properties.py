"""Range queries against a slow evaluation by their definition."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.query.range.plain_runner import PlainRunner
from tests.query.range.slow_reference import AGGREGATES, SlowCall, Value, evaluate
from tsdb.query.range import plan_range
from tsdb.query.range._plan import Form
from tsdb.sql.lexer import tokenize
from tsdb.sql.range_query import find_range

FILLS = st.sampled_from([None, None, "NULL", "PREV", "LINEAR", 7])
ROWS = st.dictionaries(
    st.tuples(st.integers(-60, 60), st.sampled_from("ab")), st.none() | st.integers(-9, 9), min_size=0, max_size=20
).map(lambda rows: [(time, series, value) for (time, series), value in rows.items()])
BINNED = ["sum", "min", "max", "count", "avg", "first_value", "last_value"]


def table_of(rows: list[tuple[int, str, Value]], kind: pa.DataType, scale: int = 1) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([time * scale for time, _, _ in rows], pa.int64()).cast(kind),
            "host": pa.array([series for _, series, _ in rows], pa.string()),
            "v": pa.array([value for _, _, value in rows], pa.int64()),
        }
    )


def statement(calls: list[tuple[str, SlowCall]], align: int, origin: int) -> str:
    items = [
        f"{name}(v) RANGE '{call.span}ms'" + ("" if call.fill is None else f" FILL {call.fill}") + f" AS c{number}"
        for number, (name, call) in enumerate(calls)
    ]
    to = f"(arrow_cast({origin}, 'Timestamp(ms)'))"
    return f"SELECT ts, host, {', '.join(items)} FROM t ALIGN '{align}ms' TO {to} ORDER BY host, ts"


def calls_of(names: list[str]) -> st.SearchStrategy[list[tuple[str, SlowCall]]]:
    def build(name: str, span: int, fill: str | int | None) -> tuple[str, SlowCall]:
        return name, SlowCall(AGGREGATES[name], span, fill)

    return st.lists(st.builds(build, st.sampled_from(names), st.integers(1, 40), FILLS), min_size=1, max_size=3)


def check(
    rows: list[tuple[int, str, Value]], calls: list[tuple[str, SlowCall]], align: int, origin: int, kind: str = "ms"
) -> None:
    runner = PlainRunner()
    scale = {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind]
    runner.add("t", table_of(rows, pa.timestamp(kind), scale), tags=("host",))
    expected = evaluate(rows, [call for _, call in calls], align=align, origin=origin)
    got = runner.rows(statement(calls, align, origin))
    assert len(got) == len(expected)
    for mine, (slot, series, *values) in zip(got, expected, strict=True):
        assert mine[:2] == (slot * scale, series)  # type: ignore[operator]
        assert list(mine[2:]) == [value if value is None else pytest.approx(value) for value in values]


QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(ROWS, calls_of(BINNED), st.integers(1, 20), st.integers(-50, 50), st.sampled_from(["ms", "us", "ns"]))
def test_aggregates_made_of_parts_follow_the_definition(
    rows: list[tuple[int, str, Value]], calls: list[tuple[str, SlowCall]], align: int, origin: int, kind: str
) -> None:
    check(rows, calls, align, origin, kind)


@QUICK
@given(ROWS, calls_of([*BINNED, "median"]), st.integers(1, 20), st.integers(-50, 50))
def test_all_aggregates_follow_the_definition(
    rows: list[tuple[int, str, Value]], calls: list[tuple[str, SlowCall]], align: int, origin: int
) -> None:
    check(rows, [*calls, ("median", SlowCall(AGGREGATES["median"], 30))], align, origin)


@QUICK
@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 63), (1 << 63) - 1)
            | st.integers(-(1 << 63), -(1 << 63) + 50)
            | st.integers((1 << 63) - 50, (1 << 63) - 1),
            st.just("a"),
            st.integers(0, 9),
        ),
        max_size=6,
        unique_by=lambda row: row[0],
    ),
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(-(1 << 40), 1 << 40),
    st.sampled_from(["sum", "median"]),
    st.sampled_from(["ms", "us", "ns"]),
)
def test_slots_at_the_ends_of_time_are_exact_or_left_out(
    rows: list[tuple[int, str, Value]], span: int, align: int, origin: int, name: str, unit: str
) -> None:
    scale = {"ms": 1, "us": 1_000, "ns": 1_000_000}[unit]
    runner = PlainRunner()
    runner.add("t", table_of(rows, pa.timestamp(unit)), tags=("host",))
    call = SlowCall(AGGREGATES[name], span)
    in_ms = [(time // scale, series, value) for time, series, value in rows]
    slots = [(slot * scale, *rest) for slot, *rest in evaluate(in_ms, [call], align=align, origin=origin)]  # type: ignore[operator]
    assert runner.rows(statement([(name, call)], align, origin)) == [row for row in slots if row[0] >= -(1 << 63)]


def test_seconds_beyond_what_milliseconds_hold_are_computed_in_seconds() -> None:
    runner = PlainRunner()
    far = (1 << 62) - (1 << 62) % 10
    runner.add("t", table_of([(far + 3, "a", 1), (far + 4, "a", 2)], pa.timestamp("s")), tags=("host",))
    for name in ("sum", "median"):
        rows = runner.rows(f"SELECT ts, {name}(v) RANGE '20s' FROM t ALIGN '10s'")
        assert [row[0] for row in rows] == [far - 10, far]


@pytest.mark.parametrize(
    ("item", "form"),
    [
        ("sum(v) RANGE '10s'", Form.SINGLE),
        ("median(v) RANGE '3s'", Form.SINGLE),
        ("sum(v) RANGE '1d'", Form.BINNED),
        ("sum(v) RANGE '15s'", Form.BINNED),
        ("sum(v) RANGE '10001ms'", Form.STEPPED),
        ("sum(v) RANGE '100001ms'", Form.BINNED),
        ("median(v) RANGE '20s'", Form.STEPPED),
        ("count(DISTINCT v) RANGE '20s'", Form.STEPPED),
        ("first_value(v ORDER BY host) RANGE '20s'", Form.STEPPED),
    ],
)
def test_the_form_follows_from_spans_and_aggregates(item: str, form: Form) -> None:
    runner = PlainRunner()
    runner.add("t", table_of([(0, "a", 1)], pa.timestamp("ms")), tags=("host",))
    text = f"SELECT {item} FROM t ALIGN '10s'"
    query = find_range(text, tokenize(text))
    assert query is not None
    assert plan_range(query, runner).form is form
