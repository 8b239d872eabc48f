"""Aggregates from runs against the planner: random tables, random queries, the same answers."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.query.harness import World, world
from tests.query.series_aggregate.tables import BEGIN, END, OPTIONS, STEPS, MetricPast, Past, Step
from tsdb.errors import TsdbError
from tsdb.model import RegionOptions
from tsdb.query import Session, read_all

SLACK = 1e-9
EXAMPLES = int(os.environ.get("TSDB_SERIES_AGGREGATE_EXAMPLES", "30"))
QUERIES_PER_TABLE = 12

_NUMBERS = ["f", "g", "i", "b", "u"]
_BUCKETS = st.sampled_from(
    [
        "date_trunc('hour', ts)",
        "date_trunc('minute', ts)",
        "date_trunc('day', ts)",
        "date_trunc('week', ts)",
        "date_bin(INTERVAL '40 minutes', ts)",
        "date_bin(INTERVAL '40 minutes', ts, TIMESTAMP '1970-01-01 00:15:00')",
        "date_bin(INTERVAL '1 hour', ts, TIMESTAMP '2024-02-29 23:59:59.5')",
        "date_trunc('month', ts)",
    ]
)
_AGGREGATES = st.one_of(
    st.just("count(*)"),
    st.builds("{}({})".format, st.sampled_from(["count", "sum", "avg"]), st.sampled_from(_NUMBERS)),
    # Not of `g`: which of a group's values the planner calls the least when one is NaN depends on their order, and when
    # all are infinite it is the largest finite number.
    st.builds("{}({})".format, st.sampled_from(["min", "max"]), st.sampled_from(["f", "i", "b", "u"])),
    st.builds("{}({})".format, st.sampled_from(["stddev", "var_pop", "var_samp"]), st.sampled_from(["i"])),
    st.sampled_from(["median(f)", "median(i)", "approx_median(f)"]),
    st.builds("{}(ts)".format, st.sampled_from(["min", "max", "count"])),
    st.builds("{}({})".format, st.sampled_from(["count", "min", "max"]), st.sampled_from(["s", "o", "host"])),
)
_COMPUTED = [
    "max(f) - min(f)",
    "sum(i) * 2 + count(*)",
    "coalesce(avg(f), -1)",
    "CASE WHEN count(b) > 1 THEN 'many' ELSE 'few' END",
    "abs(min(i))",
    "max(ts) - min(ts)",
    "max(f) - median(f)",
]
_OVER_TAGS = ["upper(host)", "coalesce(dc, 'none')", "host = 'a'", "length(host)", "host || dc", "dc IS NULL"]
_HAVING = [" HAVING count(*) > 1", " HAVING max(f) > 0.5 OR min(i) IS NULL", " HAVING sum(i) BETWEEN -20 AND 20"]
_ENDS = st.builds(
    "{}_value({} ORDER BY ts{})".format,
    st.sampled_from(["first", "last"]),
    st.sampled_from([*_NUMBERS, "s", "o", "ts"]),
    st.sampled_from(["", " DESC", " ASC"]),
)
_TIMES = st.integers(BEGIN // 600_000 - 1, END // 600_000 + 1).map(lambda n: n * 600_000)
_CONDITIONS = st.one_of(
    st.builds("ts {} {}".format, st.sampled_from([">=", "<", ">", "<=", "="]), _TIMES),
    st.builds("ts {} {}".format, st.sampled_from([">=", "<"]), _TIMES),
    st.sampled_from(
        [
            "ts >= TIMESTAMP '1970-01-01 00:00:00'",
            "ts < '1970-01-01 02:00:00.0005'",
            "ts < TIMESTAMP '1970-01-01 02:00:00.0005'",
            "ts >= '1970-01-01 01:00:00.0005'::TIMESTAMP(9)",
            "ts BETWEEN -600000 AND 7200000",
            "host = 'a'",
            "host IN ('a', 'b', 'nobody')",
            "host <> 'a'",
            "host NOT IN ('b', 'c', 'd', 'e')",
            "host IS NULL",
            "dc IS NOT NULL",
            "(host = 'a' OR dc = 'x')",
            "NOT (host = 'b' AND dc = 'y')",
            "host > 'a'",
            "host = 'nobody'",
            "f > 1.5",
            "i <= 10",
            "(b > 0 OR host = 'c')",
            "s = 'p'",
            "u IS NULL",
            "host LIKE 'a%'",
            "dc NOT LIKE '_'",
            "(host LIKE '%b' OR dc = 'x')",
            "host LIKE '\\_%'",
            "host ~ '^[ab]$'",
            "host !~ 'a|c'",
            "s ~ '.'",
            "host ~ '('",
            "host ILIKE 'A'",
            "f + 1 > 2",
            "host ~* 'A|C'",
            "upper(host) IN ('A', 'C')",
            "length(dc) + 1 > 1",
            "coalesce(dc, 'none') <> 'x'",
            "(upper(host) = 'B' OR dc LIKE 'x')",
            "(upper(host) = 'B' OR f > 1)",
            "CASE WHEN host = 'a' AND dc = 'x' THEN true ELSE host = 'b' END",
            "host::int > 1",
        ]
    ),
)


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, bool]:
    """A query with `{table}` in it, and whether the order of its rows is told."""
    tags = draw(st.lists(st.sampled_from(["host", "dc", "host", "dc", *_OVER_TAGS]), max_size=2, unique=True))
    keys = [*tags, *draw(st.lists(_BUCKETS, max_size=1))]
    keys = draw(st.permutations(keys))
    is_grouped = bool(keys)
    ends = draw(st.lists(_ENDS, max_size=2)) if {*tags} == {"host", "dc"} else []
    aggregates = draw(st.lists(_AGGREGATES, min_size=0 if ends else 1, max_size=3)) + ends
    aggregates = list(dict.fromkeys(aggregates))
    if draw(st.booleans()):
        aggregates.append(draw(st.sampled_from(_COMPUTED)))
    items = [*keys, *(f"{each} AS a{at}" if draw(st.booleans()) else each for at, each in enumerate(aggregates))]
    text = f"SELECT {', '.join(items)} FROM {{table}}"
    conditions = draw(st.lists(_CONDITIONS, max_size=3))
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    if is_grouped:
        positions = draw(st.booleans())
        text += " GROUP BY " + ", ".join(str(at + 1) if positions else key for at, key in enumerate(keys))
        text += draw(st.sampled_from(["", "", *_HAVING]))
    is_ordered = draw(st.booleans()) and is_grouped
    if is_ordered:
        ways = st.sampled_from(["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"])
        text += " ORDER BY " + ", ".join(f"{at + 1}{draw(ways)}" for at in draw(st.permutations(range(len(keys)))))
        text += draw(st.sampled_from(["", " LIMIT 3", " LIMIT 2 OFFSET 1", " LIMIT 0", " OFFSET 2"]))
    return text, is_ordered


@st.composite
def end_queries(draw: st.DrawFn) -> tuple[str, bool]:
    """The newest or oldest row of each series and nothing else, or both of them."""
    ends = draw(st.lists(_ENDS, min_size=1, max_size=4, unique=True))
    conditions = draw(st.lists(_CONDITIONS, max_size=2))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT dc, {', '.join(ends)}, host FROM {{table}}{where} GROUP BY host, dc", False


_RANGED = st.one_of(
    st.builds("{}({})".format, st.sampled_from(["count", "sum", "avg"]), st.sampled_from(["f", "i", "u"])),
    st.builds("{}({})".format, st.sampled_from(["min", "max"]), st.sampled_from(["f", "i", "ts"])),
    st.sampled_from(["count(*)", "stddev(i)", "median(f)", "max(f + 1)", "count(ts)"]),
)
_FILLS = st.sampled_from(["", "", " FILL NULL", " FILL PREV", " FILL LINEAR", " FILL 3"])


@st.composite
def range_queries(draw: st.DrawFn) -> tuple[str, bool]:
    """A range query: windows as wide as their steps, wider ones, narrower ones, several widths."""
    by = draw(st.sampled_from([None, (), ("host",), ("dc",), ("dc", "host"), ("upper(host)",)]))
    calls = draw(st.lists(_RANGED, min_size=1, max_size=3, unique=True))
    if by is None or len(by) == 2:
        ends = ["last_value(f)", "first_value(i ORDER BY ts)", "first_value(s)", "last_value(u ORDER BY ts DESC)"]
        calls += draw(st.lists(st.sampled_from(ends), max_size=2, unique=True))
    align = draw(st.sampled_from(["1h", "20m", "1h", "1d"]))
    span = st.sampled_from([align, align, align, "2h", "10m", "1h30m"])
    common = draw(span)
    spans = [draw(span) if draw(st.booleans()) else common for _ in calls]
    items = [
        f"{call} RANGE '{each}'{draw(_FILLS)} AS a{at}"
        for at, (call, each) in enumerate(zip(calls, spans, strict=True))
    ]
    keys = ["ts", *(("host", "dc") if by is None else by)]
    conditions = draw(st.lists(_CONDITIONS, max_size=2))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    to = draw(st.sampled_from(["", " TO '1970-01-01 00:07:00'", " TO '2024-02-29 23:59:59.5'"]))
    group = "" if by is None else f" BY ({', '.join(by)})"
    tail = draw(_FILLS) if " FILL" not in "".join(items) else ""
    order = ", ".join(str(at + 1) for at in range(len(keys)))
    return (
        f"SELECT {', '.join([*keys, *items])} FROM {{table}}{where} ALIGN '{align}'{to}{group}{tail} ORDER BY {order}",
        True,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root: Path = tmp_path_factory.mktemp("differential")
    with world(root) as found:
        yield found


def answer(made: World, text: str, *, is_on: bool) -> pa.Table | TsdbError:
    session = Session()
    session.variables["series_aggregate"] = "on" if is_on else "off"
    try:
        return read_all(made.queries.query(text, session))
    except TsdbError as error:
        return error


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in table.columns
    ]
    return list(zip(*columns, strict=True))


def sort_key(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(each is None, isinstance(each, float) and math.isnan(each), str(type(each)), repr(each)) for each in row]


def is_same(left: Any, right: Any, slack: float = SLACK) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=SLACK, abs_tol=slack)
    return type(left) is type(right) and bool(left == right)


_MEANS, _SPREADS = re.compile(r"\b(avg|mean)\(b\)"), re.compile(r"\b(var|stddev)\w*\(b\)")


def slack_of(made: World, text: str) -> float:
    """Return how far floats may be apart: where the largest integers cancel each other, the order of adding tells."""
    has_spreads = bool(_SPREADS.search(text))
    table = re.search(r" FROM (\w+)", text)
    if table is None or not (has_spreads or _MEANS.search(text)):
        return SLACK
    bounds = answer(made, f"SELECT max(b), min(b) FROM {table[1]}", is_on=False)
    assert not isinstance(bounds, TsdbError)
    largest = max((abs(float(each)) for each in rows_of(bounds)[0] if each is not None), default=0.0)
    return SLACK * max(1.0, largest**2 if has_spreads else largest)


def check_same(made: World, text: str, *, is_ordered: bool) -> None:
    slack = slack_of(made, text)
    got, wanted = answer(made, text, is_on=True), answer(made, text, is_on=False)
    if not isinstance(got, TsdbError):
        # Asked again, it is a statement whose shape was seen before.
        again = answer(made, text, is_on=True)
        assert not isinstance(again, TsdbError), text
        assert again.schema.equals(got.schema, check_metadata=True), text
        # What is left to the planner is added up in whichever order its threads come.
        pairs = zip(sorted(rows_of(again), key=sort_key), sorted(rows_of(got), key=sort_key), strict=True)
        assert all(is_same(*pair, slack) for rows in pairs for pair in zip(*rows, strict=True)) or "nan" in str(got), (
            text
        )
    if isinstance(wanted, TsdbError) or isinstance(got, TsdbError):
        assert type(got) is type(wanted), text
        return
    assert got.schema.equals(wanted.schema, check_metadata=True), f"{text}\n{got.schema}\n{wanted.schema}"
    left, right = rows_of(got), rows_of(wanted)
    if not is_ordered:
        left, right = sorted(left, key=sort_key), sorted(right, key=sort_key)
    assert len(left) == len(right), f"{text}\n{left}\n{right}"
    for one, other in zip(left, right, strict=True):
        assert all(is_same(*pair, slack) for pair in zip(one, other, strict=True)), f"{text}\n{left}\n{right}"


_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=_CHECKS)
@given(
    options=OPTIONS,
    regions=st.sampled_from([1, 1, 2]),
    steps=STEPS,
    texts=st.lists(queries() | queries() | end_queries() | range_queries(), min_size=1, max_size=QUERIES_PER_TABLE),
)
def test_runs_answer_what_the_planner_answers(
    made: World, options: RegionOptions, regions: int, steps: list[Step], texts: list[tuple[str, bool]]
) -> None:
    past = Past(made, options, regions)
    for step in steps:
        past.go_through(step)
    for text, is_ordered in texts:
        if options.append_mode and "_value(" in text:
            continue  # of two rows at one time either can be the last
        check_same(made, text.format(table=past.name), is_ordered=is_ordered)


_FIELDS = re.compile(r"\b[gibuso]\b")


@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=_CHECKS)
@given(options=OPTIONS, steps=STEPS, texts=st.lists(queries(), min_size=1, max_size=QUERIES_PER_TABLE))
def test_runs_of_metrics_answer_what_the_planner_answers(
    made: World, options: RegionOptions, steps: list[Step], texts: list[tuple[str, bool]]
) -> None:
    past = MetricPast(made, options)
    for step in steps:
        past.go_through(step)
    for text, is_ordered in texts:
        if options.append_mode and "_value(" in text:
            continue  # of two rows at one time either can be the last
        check_same(made, _FIELDS.sub("f", text).format(table=past.name), is_ordered=is_ordered)
