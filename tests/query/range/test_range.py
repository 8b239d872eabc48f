"""What range queries answer: headers, values, order, errors."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.query.range.plain_runner import PlainRunner
from tsdb.errors import InvalidSyntax, Status, TsdbError
from tsdb.query.errors import OutOfMemory
from tsdb.query.range import plan_range
from tsdb.query.range._limits import TooManySlots
from tsdb.sql.lexer import tokenize
from tsdb.sql.range_query import find_range
from tsdb.sql.statements import Dialect


def probe(**options: object) -> PlainRunner:
    runner = PlainRunner(**options)  # type: ignore[arg-type]
    runner.add(
        "probe",
        pa.table(
            {
                "ts": pa.array([1_000, 7_000, 31_000, 2_000], pa.timestamp("ms")),
                "site": ["n", "n", "n", "s"],
                "temp": pa.array([4, 10, 22, 7], pa.int64()),
            }
        ),
        tags=("site",),
    )
    return runner


@pytest.mark.parametrize(
    ("items", "clauses", "expected"),
    [
        (
            "sum(temp) RANGE '20s'",
            "ALIGN '10s'",
            "n -10:14 n 0:14 n 20:22 n 30:22 s -10:7 s 0:7",
        ),
        (
            "sum(temp) RANGE '20s'",
            "ALIGN '10s' FILL PREV",
            "n -10:14 n 0:14 n 10:14 n 20:22 n 30:22 s -10:7 s 0:7",
        ),
        (
            "sum(temp) RANGE '20s' FILL LINEAR",
            "ALIGN '10s'",
            "n -10:14.0 n 0:14.0 n 10:18.0 n 20:22.0 n 30:22.0 s -10:7.0 s 0:7.0",
        ),
        (
            "count(temp) RANGE '20s' FILL 99",
            "ALIGN '10s'",
            "n -10:2 n 0:2 n 10:0 n 20:1 n 30:1 s -10:1 s 0:1",
        ),
        (
            "sum(temp) RANGE '3s', sum(temp) RANGE '10s'",
            "ALIGN '10s'",
            "n 0:4/14 n 30:22/22 s 0:7/7",
        ),
    ],
)
def test_the_worked_example_holds(items: str, clauses: str, expected: str) -> None:
    rows = probe().rows(f"SELECT site, ts, {items} FROM probe {clauses}")
    shown = " ".join(f"{site} {int(ts) // 1000}:{'/'.join(map(str, values))}" for site, ts, *values in rows)  # type: ignore[call-overload]
    assert shown == expected


def test_an_origin_moves_the_slots() -> None:
    text = "SELECT ts, sum(temp) RANGE '10s' FROM probe ALIGN '10s' TO '1970-01-01 00:00:05' BY ()"
    assert probe().rows(text) == [(-5_000, 11), (5_000, 10), (25_000, 22)]


@pytest.mark.parametrize(
    ("origin", "options", "first"),
    [
        ("", {}, 0),
        ("", {"time_zone": "+08:00"}, -57_600_000),
        ("", {"time_zone": "Asia/Shanghai"}, -57_600_000),
        ("TO NOW", {"now_ms": 86_400_000 * 3 + 500}, 500),
        ("TO '1970-01-02 00:00:00'", {"time_zone": "+08:00"}, -28_800_000),
        ("TO '1970-01-02T00:00:00Z'", {"time_zone": "+08:00"}, 0),
        ("TO (arrow_cast(250000, 'Timestamp(µs)') - INTERVAL '1' day)", {}, 250),
        ("TO ('1970-01-01 00:00:00.750')", {}, 750),
        ("TO (DATE '1970-01-05')", {}, 0),
    ],
)
def test_slots_are_counted_from_the_zone_from_now_or_from_a_time(
    origin: str, options: dict[str, object], first: int
) -> None:
    assert probe(**options).rows(f"SELECT ts, count(*) RANGE '1d' FROM probe ALIGN '1d' {origin} BY ()") == [(first, 4)]


def headers(items: str, clauses: str = "ALIGN '10s'") -> list[str]:
    return probe().query(f"SELECT {items} FROM probe {clauses}").column_names


@pytest.mark.parametrize(
    ("item", "header"),
    [
        ("ts", "ts"),
        ("probe.ts", "ts"),
        ("site", "site"),
        ("temp_high", None),
        ("min(temp) RANGE '5s'", "min(probe.temp) RANGE 5s"),
        ("MIN(probe.temp) RANGE '5s' FILL 6", "min(probe.temp) RANGE 5s FILL 6"),
        ("2 * min(temp) RANGE '5s'", "Int64(2) * min(probe.temp) RANGE 5s"),
        ("count(*) RANGE '5s' FILL NULL", "count(Int64(1)) RANGE 5s FILL NULL"),
        ("round(max(temp) RANGE '1m' + 1)", "round(max(probe.temp) RANGE 1m + Int64(1))"),
        (
            "(min(temp) + max(temp)) RANGE '5s' FILL prev",
            "min(probe.temp) RANGE 5s FILL PREV + max(probe.temp) RANGE 5s FILL PREV",
        ),
        ("concat(site, 'x')", 'concat(probe.site,Utf8("x"))'),
        ("ts + INTERVAL '1' day AS later", "later"),
        ("min(temp) RANGE '5s' least", "least"),
        (
            "min(temp) RANGE (INTERVAL '1' day)",
            'min(probe.temp) RANGE IntervalMonthDayNano("IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }")',
        ),
        ("min(temp) RANGE ('1 day'::INTERVAL)", 'min(probe.temp) RANGE Utf8("1 day")'),
        ("first_value(temp) RANGE '5s'", "first_value(probe.temp) RANGE 5s"),
        (
            "first_value(temp ORDER BY temp DESC) RANGE '5s'",
            "first_value(probe.temp) ORDER BY [probe.temp DESC NULLS FIRST] RANGE 5s",
        ),
    ],
)
def test_headers_name_the_aggregate_its_range_and_its_fill(item: str, header: str | None) -> None:
    if header is None:
        with pytest.raises(TsdbError):
            headers(f"{item}, max(temp) RANGE '5s'")
        return
    assert headers(f"{item}, max(temp) RANGE '7s' AS other")[0] == header


def test_a_fill_for_all_shows_in_every_header() -> None:
    assert headers("min(temp) RANGE '5s', max(temp) RANGE '5s' FILL 1", "ALIGN '10s' FILL PREV") == [
        "min(probe.temp) RANGE 5s FILL PREV",
        "max(probe.temp) RANGE 5s FILL 1",
    ]


def test_groups_may_be_expressions_and_constants() -> None:
    runner = probe()
    text = "SELECT temp % 2, ts, sum(temp) RANGE '1m' FROM probe ALIGN '1m' BY (temp % 2) ORDER BY temp % 2"
    assert runner.query(text).column_names[0] == "probe.temp % Int64(2)"
    assert runner.rows(text) == [(0, 0, 36), (1, 0, 7)]
    for by in ("()", "(1)", "('x')", "(1, 2)"):
        assert runner.rows(f"SELECT ts, sum(temp) RANGE '1m' FROM probe ALIGN '1m' BY {by}") == [(0, 43)]
    inside = (
        "SELECT temp % 2 + 10 AS k, sum(temp) RANGE '1m' FROM probe p ALIGN '1m' BY (p.site, temp % 2) ORDER BY k, site"
    )
    assert runner.rows(inside) == [(10, 36), (11, 7)]


def test_null_is_a_group_of_its_own() -> None:
    runner = PlainRunner()
    runner.add(
        "t", pa.table({"ts": pa.array([0, 0, 1, 5], pa.timestamp("ms")), "k": ["a", None, None, "a"]}), tags=("k",)
    )
    rows = runner.rows("SELECT k, ts, count(*) RANGE '1ms' FILL NULL FROM t ALIGN '1ms' ORDER BY k, ts")
    assert rows == [("a", 0, 1), *(("a", at, 0) for at in range(1, 5)), ("a", 5, 1), (None, 0, 1), (None, 1, 1)]


def test_a_table_without_tags_is_one_group() -> None:
    runner = PlainRunner()
    runner.add("t", pa.table({"ts": pa.array([0, 1, 2], pa.timestamp("ms")), "v": [1, 2, 3]}))
    assert runner.rows("SELECT ts, sum(v) RANGE '2ms' FROM t ALIGN '2ms'") == [(0, 3), (2, 3)]


def test_first_and_last_go_by_time_and_take_nulls() -> None:
    runner = PlainRunner()
    times = pa.array([3, 0, 2, 1], pa.timestamp("ms"))
    runner.add("t", pa.table({"ts": times, "v": pa.array([None, 5, 6, 7], pa.int64()), "w": [1, 2, 3, 4]}))
    text = "SELECT first_value(v) RANGE '9ms' AS a, last_value(v) RANGE '9ms' AS b, {} AS c FROM t ALIGN '9ms'"
    assert runner.rows(text.format("last_value(v ORDER BY w) RANGE '9ms'")) == [(5, None, 7)]
    assert runner.rows(text.format("last_value(w) RANGE '4ms'")) == [(5, None, 1)]


@pytest.mark.parametrize(("unit", "scale"), [("s", 0.001), ("ms", 1), ("us", 1_000), ("ns", 1_000_000)])
def test_slots_come_in_the_unit_of_the_column(unit: str, scale: float) -> None:
    runner = PlainRunner()
    times = [int(ms * scale) for ms in (-11_000, -1_000, 0, 9_000)]
    runner.add("t", pa.table({"ts": pa.array(times, pa.timestamp(unit)), "v": [1, 2, 4, 8]}))
    table = runner.query("SELECT ts, sum(v) RANGE '20s' FROM t ALIGN '10s'")
    assert table.schema.field("ts").type == pa.timestamp(unit)
    expected = [(int(ms * scale), total) for ms, total in [(-30_000, 1), (-20_000, 3), (-10_000, 14), (0, 12)]]
    assert runner.rows("SELECT ts, sum(v) RANGE '20s' FROM t ALIGN '10s'") == expected
    assert runner.rows("SELECT ts, sum(v) RANGE '10001ms' FROM t ALIGN '10s'")[-1] == (0, 12)


def test_parts_of_a_second_align_a_column_of_seconds() -> None:
    runner = PlainRunner()
    runner.add("t", pa.table({"ts": pa.array([0, 1, 2, 3], pa.timestamp("s")), "v": [1, 2, 4, 8]}))
    assert runner.rows("SELECT ts, sum(v) RANGE '1500ms' FROM t ALIGN '1500ms'") == [(0, 3), (1, 4), (3, 8)]


def test_conditions_order_limit_and_distinct_apply() -> None:
    runner = probe()
    text = "SELECT ts, max(temp) RANGE '10s' AS m FROM probe WHERE temp > 4 ALIGN '10s' ORDER BY m DESC LIMIT 2"
    assert runner.rows(text) == [(30_000, 22), (0, 10)]
    by_range = "SELECT site FROM probe ALIGN '10s' ORDER BY max(temp) RANGE '10s', ts"
    with pytest.raises(InvalidSyntax):
        runner.rows(by_range)
    named = (
        "SELECT site, max(temp) RANGE '10s' FROM probe ALIGN '10s' ORDER BY max(temp) RANGE '10s' DESC LIMIT 1 OFFSET 1"
    )
    assert runner.rows(named) == [("n", 10)]
    assert runner.rows("SELECT DISTINCT site, count(*) RANGE '10s' > 0 FROM probe ALIGN '10s' ORDER BY site") == [
        ("n", True),
        ("s", True),
    ]
    shadow = "SELECT max(temp) RANGE '10s' AS ts FROM probe ALIGN '10s' ORDER BY ts DESC"
    assert runner.rows(shadow) == [(22,), (10,), (7,)]


def test_without_order_rows_come_by_series_and_time() -> None:
    rows = probe().rows("SELECT ts, site, sum(temp) RANGE '20s' FROM probe ALIGN '1s'")
    assert rows == sorted(rows, key=lambda row: (row[1], row[0]))


def test_no_rows_give_no_slots_and_the_same_columns() -> None:
    for fill in ("", "FILL PREV", "FILL LINEAR"):
        for span in ("1s", "10s", "60s"):
            text = f"SELECT ts, site, avg(temp) RANGE '{span}' AS a FROM probe WHERE temp > 99 ALIGN '10s' {fill}"
            table = probe().query(text)
            assert table.num_rows == 0
            assert table.schema.types == [pa.timestamp("ms"), pa.string(), pa.float64()]


def gaps() -> PlainRunner:
    runner = PlainRunner()
    values = pa.array([None, 2, None, 6, None, None], pa.int64())
    runner.add(
        "t",
        pa.table(
            {
                "ts": pa.array([0, 1, 2, 4, 5, 0], pa.timestamp("ms")),
                "k": ["a", "a", "a", "a", "a", "b"],
                "v": values,
                "f": values.cast(pa.float32()),
                "s": pa.array([None, "x", None, "y", None, None]),
            }
        ),
        tags=("k",),
    )
    return runner


@pytest.mark.parametrize(
    ("item", "expected", "kind"),
    [
        ("max(v) RANGE '1ms' FILL NULL", [None, 2, None, None, 6, None, None], pa.int64()),
        ("max(v) RANGE '1ms' FILL PREV", [None, 2, 2, 2, 6, 6, None], pa.int64()),
        ("max(v) RANGE '1ms' FILL -1", [-1, 2, -1, -1, 6, -1, -1], pa.int64()),
        ("max(v) RANGE '1ms' FILL LINEAR", [2 - 4 / 3, 2, 2 + 4 / 3, 2 + 8 / 3, 6, 6 + 4 / 3, None], pa.float64()),
        ("max(f) RANGE '1ms' FILL LINEAR", [2 - 4 / 3, 2, 2 + 4 / 3, 2 + 8 / 3, 6, 6 + 4 / 3, None], pa.float32()),
        ("max(s) RANGE '1ms' FILL PREV", [None, "x", "x", "x", "y", "y", None], pa.string()),
        ("max(s) RANGE '1ms' FILL 'none'", ["none", "x", "none", "none", "y", "none", "none"], pa.string()),
        ("count(v) RANGE '1ms' FILL 5", [0, 1, 0, 0, 1, 0, 0], pa.int64()),
        ("count(DISTINCT v) RANGE '1ms' FILL 5", [0, 1, 0, 0, 1, 0, 0], pa.int64()),
    ],
)
def test_fills_stay_within_their_series(item: str, expected: list[object], kind: pa.DataType) -> None:
    table = gaps().query(f"SELECT {item} AS x FROM t ALIGN '1ms'")
    assert table.schema.field("x").type == kind
    got = table.column("x").to_pylist()
    if pa.types.is_floating(kind):
        got = [value if value is None else pytest.approx(value, rel=1e-6) for value in got]
    assert got == expected


def test_a_call_without_fill_beside_one_with_gets_the_gaps_as_null() -> None:
    rows = gaps().rows("SELECT ts, min(v) RANGE '1ms', max(v) RANGE '1ms' FILL 0 FROM t ALIGN '1ms' BY ()")
    assert rows == [(0, None, 0), (1, 2, 2), (2, None, 0), (3, None, 0), (4, 6, 6), (5, None, 0)]


def plan_status(text: str) -> Status:
    with pytest.raises(TsdbError) as caught:
        probe().query(text)
    assert "__range" not in str(caught.value)
    return caught.value.status


@pytest.mark.parametrize(
    ("items", "clauses", "status"),
    [
        ("max(temp) RANGE (INTERVAL '1 month')", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s'", "ALIGN (INTERVAL '1 year')", Status.PLAN_QUERY),
        ("max(temp) RANGE (INTERVAL '0' day)", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE (INTERVAL '-1' day)", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE (now() - now())", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE ('5s')", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE (ts)", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s'", "ALIGN '0s'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s'", "ALIGN '5s' TO 'soon'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s'", "ALIGN '5s' TO (1)", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s'", "ALIGN '5s' TO (NULL)", Status.PLAN_QUERY),
        ("max(site) RANGE '5s' FILL LINEAR", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s' FILL 'x'", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s' FILL 1.5", "ALIGN '5s'", Status.PLAN_QUERY),
        ("abs(temp) RANGE '5s'", "ALIGN '5s'", Status.PLAN_QUERY),
        ("round(max(temp)) RANGE '5s' + abs(temp) RANGE '5s'", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(nothing) RANGE '5s'", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s'", "ALIGN '5s' BY (nothing)", Status.PLAN_QUERY),
        ("temp, max(temp) RANGE '5s'", "ALIGN '5s'", Status.ENGINE_EXECUTE_QUERY),
        ("site, max(temp) RANGE '5s'", "ALIGN '5s' BY ()", Status.ENGINE_EXECUTE_QUERY),
        ("max(temp) RANGE '5s', max(temp) RANGE '5s'", "ALIGN '5s'", Status.PLAN_QUERY),
        ("max(temp) RANGE '5s'", "WHERE nothing > 1 ALIGN '5s'", Status.PLAN_QUERY),
    ],
)
def test_what_cannot_be_planned_says_so(items: str, clauses: str, status: Status) -> None:
    assert plan_status(f"SELECT {items} FROM probe {clauses}") is status


def test_a_missing_table_is_told_as_such() -> None:
    for by in ("", "BY ()"):
        assert plan_status(f"SELECT max(v) RANGE '5s' FROM nothing ALIGN '5s' {by}") is Status.TABLE_NOT_FOUND


def test_slots_without_end_are_refused() -> None:
    runner = PlainRunner()
    runner.add("t", pa.table({"ts": pa.array([-(1 << 62), 1 << 62], pa.timestamp("ms")), "v": [1, 2]}))
    with pytest.raises(TooManySlots):
        runner.query("SELECT ts, max(v) RANGE '5s' FILL PREV FROM t ALIGN '5s'")
    with pytest.raises(TooManySlots):
        runner.query("SELECT ts, max(v) RANGE '1y' FROM t ALIGN '1ms'")


def test_range_queries_share_the_memory_of_slots() -> None:
    runner = PlainRunner(slot_bytes=1_000_000)
    runner.add("t", pa.table({"ts": pa.array([0, 4_000_000], pa.timestamp("ms")), "v": [1, 2]}))
    text = "SELECT ts, max(v) RANGE '1s' FILL PREV FROM t ALIGN '1s'"
    assert runner.query(text).num_rows == 4_001
    with pytest.raises(OutOfMemory):
        runner.query(text.replace("ALIGN '1s'", "ALIGN '500ms'"))
    runner.slots.release()
    assert runner.query(text).num_rows == 4_001


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT * FROM probe WHERE temp > 4)",
        "(SELECT ts AS at, temp AS t2, site FROM probe WHERE temp > 4) AS x",
        "(SELECT * FROM probe WHERE temp > 4 UNION ALL SELECT * FROM probe WHERE temp > 99) x",
    ],
)
def test_a_subquery_is_a_source_when_by_is_given(source: str) -> None:
    column = "t2" if "t2" in source else "temp"
    time = "at" if "t2" in source else "ts"
    rest = f"sum({column}) RANGE '10s' FROM {source} ALIGN '10s'"
    assert probe().rows(f"SELECT site, {time}, {rest} BY (site)") == [("n", 0, 10), ("n", 30_000, 22), ("s", 0, 7)]
    with pytest.raises(InvalidSyntax, match="BY"):
        probe().rows(f"SELECT {time}, {rest}")


def test_of_several_timestamps_the_one_that_descends_from_a_time_index_is_taken() -> None:
    inside = "SELECT arrow_cast(0, 'Timestamp(ns)') AS zero, ts AS at, temp FROM probe"
    assert probe().rows(f"SELECT at, sum(temp) RANGE '1m' FROM ({inside}) ALIGN '1m' BY ()") == [(0, 43)]
    without = "SELECT arrow_cast(0, 'Timestamp(ns)') AS a, arrow_cast(0, 'Timestamp(ns)') AS b, temp FROM probe"
    with pytest.raises(InvalidSyntax, match="time index"):
        probe().query(f"SELECT sum(temp) RANGE '1m' FROM ({without}) ALIGN '1m' BY ()")
    with pytest.raises(InvalidSyntax, match="time index"):
        probe().query("SELECT sum(temp) RANGE '1m' FROM (SELECT temp FROM probe) ALIGN '1m' BY ()")


def test_a_join_is_a_source_and_names_keep_their_relations() -> None:
    text = (
        "SELECT a.ts, a.site, sum(a.temp + b.temp) RANGE '20s' FROM probe a JOIN probe b ON a.ts = b.ts"
        " ALIGN '10s' BY (a.site) ORDER BY a.site, a.ts"
    )
    runner = probe()
    assert runner.query(text).column_names == ["ts", "site", "sum(a.temp + b.temp) RANGE 20s"]
    assert runner.rows(text)[:2] == [(-10_000, "n", 28), (0, "n", 28)]


def test_range_queries_nest_in_ctes_subqueries_and_set_operations() -> None:
    inner = "SELECT ts, site, max(temp) RANGE '10s' AS m FROM probe ALIGN '10s'"
    runner = probe()
    assert runner.rows(f"WITH x AS ({inner}) SELECT site, sum(m) FROM x GROUP BY site ORDER BY site") == [
        ("n", 32),
        ("s", 7),
    ]
    assert runner.rows(f"SELECT ts, sum(m) RANGE '1m' FROM ({inner}) AS y ALIGN '1m' BY ()") == [(0, 39)]
    assert runner.rows(f"WITH x AS ({inner}) SELECT ts, sum(m) RANGE '1m' FROM x ALIGN '1m' BY () LIMIT 1") == [(0, 39)]
    again = "(WITH b AS (SELECT * FROM probe) SELECT * FROM b) c"
    shadowed = f"WITH probe AS ({inner}) SELECT ts, sum(m) RANGE '1m' FROM {again} ALIGN '1m' BY ()"
    assert runner.rows(shadowed) == [(0, 39)]
    union = f"SELECT m FROM ({inner}) a UNION ALL SELECT min(temp) RANGE '1m' FROM probe ALIGN '1m' ORDER BY 1 LIMIT 2"
    assert runner.rows(union) == [(4,), (7,)]


def test_quoted_names_keep_their_case_in_every_dialect() -> None:
    table = pa.table({"Time": pa.array([0], pa.timestamp("ms")), "Host": ["a"], "V": [3]})
    for dialect, quote in ((Dialect.GENERIC, '"'), (Dialect.POSTGRESQL, '"'), (Dialect.MYSQL, "`")):
        runner = PlainRunner(dialect=dialect)
        runner.add("T", table, time="Time", tags=("Host",))
        text = "SELECT 'Time', 'Host', max('V') RANGE '5s' FROM 'T' ALIGN '5s'".replace("'", quote)
        text = text.replace(f"{quote}5s{quote}", "'5s'")
        assert runner.rows(text) == [(0, "a", 3)]
        assert runner.query(text).column_names == ["Time", "Host", "max(T.V) RANGE 5s"]


def test_the_plan_tells_its_sql() -> None:
    text = "SELECT max(temp) RANGE '5s' FROM probe ALIGN '5s'"
    query = find_range(text, tokenize(text))
    assert query is not None
    runner = probe()
    assert runner.run(plan_range(query, runner).sql).num_rows == 4


def test_a_window_over_results_is_left_to_the_query_engine() -> None:
    frame = "PARTITION BY site ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    item = f"sum(max(temp) RANGE '10s') OVER ({frame})"
    assert probe().rows(f"SELECT site, {item} AS total FROM probe ALIGN '10s' ORDER BY site, ts") == [
        ("n", 10),
        ("n", 32),
        ("s", 7),
    ]


def test_minima_and_maxima_of_any_type_slide_over_bins() -> None:
    runner = PlainRunner()
    numbers = [2.0, float("inf"), -1.0, None]
    runner.add(
        "t",
        pa.table(
            {
                "ts": pa.array([0, 1, 2, 4], pa.timestamp("ms")),
                "f": numbers,
                "s": ["b", "c", None, "a"],
                "d": pa.array([1, 2, 3, 4], pa.int32()).cast(pa.date32()),
                "b": [True, False, None, True],
            }
        ),
    )
    for column in ("f", "s", "d", "b", "upper(s)", "ts"):
        items = f"min({column}) RANGE '2ms' AS low, max({column}) RANGE '3ms' AS high"
        binned = runner.query(f"SELECT ts, {items} FROM t ALIGN '1ms'")
        stepped = runner.query(f"SELECT ts, {items}, median(f) RANGE '1ms' AS m FROM t ALIGN '1ms'").drop_columns("m")
        assert str(binned.to_pylist()) == str(stepped.to_pylist())
        assert binned.schema.types == stepped.schema.types


def test_groups_of_every_type_are_told_apart() -> None:
    runner = probe()
    for by in ("substr(site, 1, 1)", "temp > 5", "arrow_cast(site, 'Utf8View')", "[site]", "temp * 1.5", "NULL"):
        rows = runner.rows(f"SELECT ts, count(*) RANGE '2m' FILL NULL FROM probe ALIGN '1m' BY ({by})")
        assert sum(count for at, count in rows if at == 0) == 4


@pytest.mark.parametrize(
    ("by", "item", "expected"),
    [
        ("temp % 2", "temp % 2 + 10", 10),
        ("temp % 2", "10 + temp % 2", 10),
        ("temp % 2", "10 * temp % 2", None),
        ("temp + 1", "temp + 1 - 1", 4),
        ("temp + 1", "2 - temp + 1", None),
        ("temp + 1", "temp + 1 * 2", None),
        ("temp + 1", "(temp + 1) * 2", 10),
        ("temp + 1", "abs(temp + 1)", 5),
        ("temp > 5 AND temp < 9", "NOT (temp > 5 AND temp < 9)", True),
        ("temp > 5 AND temp < 9", "temp > 5 AND temp < 9 OR true", True),
        ("temp > 5 OR temp < 9", "temp > 5 OR temp < 9 AND false", None),
        ("abs(temp)", "abs(temp)::DOUBLE + 0.5", 4.5),
        ("site", "(SELECT count(site) FROM probe) + 1", 5),
        ("1", "1", 1),
    ],
)
def test_a_group_is_found_where_it_stands_as_a_whole(by: str, item: str, expected: object) -> None:
    text = f"SELECT {item} AS x, min(temp) RANGE '1m' AS low FROM probe ALIGN '1m' BY ({by}) ORDER BY low, 1 LIMIT 1"
    if expected is None:
        assert plan_status(text) is Status.ENGINE_EXECUTE_QUERY
    else:
        assert probe().rows(text)[0][0] == expected


def test_a_place_in_the_select_list_orders_although_it_is_also_a_group() -> None:
    text = "SELECT max(temp) RANGE '10s' AS m FROM probe ALIGN '10s' BY (1) ORDER BY 1 DESC"
    assert probe().rows(text) == [(22,), (10,)]
