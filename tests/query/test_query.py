"""Queries over tables of real regions: rows, order, names, and the errors of those that mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.query.harness import BIGINT, DOUBLE, MILLIS, STRING, World, cpu, world
from tsdb.errors import InvalidSyntax, Status, TsdbError
from tsdb.model import ColumnInfo, DataType, Kind, Semantic, TableInfo, ViewInfo, type_of_field
from tsdb.query import Channel, Session


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as opened:
        cpu(opened)
        yield opened


def status_of(made: World, text: str, session: Session | None = None) -> Status:
    with pytest.raises(TsdbError) as caught:
        made.table(text, session)
    return caught.value.status


def test_columns_come_in_the_order_of_the_table_and_rows_in_the_order_of_key_and_time(made: World) -> None:
    found = made.table("SELECT * FROM cpu")
    assert found.schema.names == ["ts", "host", "usage", "n", "up"]
    assert made.rows("SELECT host, ts FROM cpu") == [(host, 1000 * step) for host in "ab" for step in range(3)]


def test_rows_of_several_segments_and_regions_are_sorted_together(made: World) -> None:
    table = made.create("t", [("host", STRING), ("ts", MILLIS), ("v", BIGINT)], tags=["host"], regions=2)
    for region, hosts in enumerate((("b", None), ("a", "c"))):
        for start in (0, 10_000_000_000):
            made.put(table, [{"host": host, "ts": start, "v": 1} for host in hosts], region=region)
            made.flush(table)
    expected = [(host, at) for host in (None, "a", "b", "c") for at in (0, 10_000_000_000)]
    assert made.rows("SELECT host, ts FROM t") == expected
    assert made.rows("SELECT host FROM t WHERE v = 1") == [(host,) for host, _ in expected]
    assert made.rows("SELECT count(*) FROM t") == [(8,)]
    assert made.rows("SELECT host, count(*) FROM t GROUP BY host ORDER BY host NULLS FIRST") == [
        (host, 2) for host in (None, "a", "b", "c")
    ]


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("SELECT count(*), max(usage), 1, 'x' FROM cpu", ["count(*)", "max(cpu.usage)", "Int64(1)", 'Utf8("x")']),
        ("SELECT ucase('x'), mod(5, 3)", ['upper(Utf8("x"))', "mod(Int64(5),Int64(3))"]),
        ("SELECT locate('a', 'b', 1)", ['locate(Utf8("a"),Utf8("b"),Int64(1))']),
        ("SELECT ts > 1000 FROM cpu", ["cpu.ts > Int64(1000)"]),
        ("SELECT '2020-01-01'::TIMESTAMP", ['arrow_cast(Utf8("2020-01-01"),Utf8("Timestamp(ms)"))']),
        ("SELECT database()", ["database()"]),
        ("SELECT @@time_zone", ["@@time_zone"]),
    ],
)
def test_headers_are_those_of_the_users_text(made: World, text: str, headers: list[str]) -> None:
    assert made.table(text).schema.names == headers


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("SELECT * FROM nothing", Status.TABLE_NOT_FOUND),
        ("SELECT * FROM nowhere.cpu", Status.TABLE_NOT_FOUND),
        ("SELECT * FROM pg_catalog.pg_class", Status.TABLE_NOT_FOUND),
        ("SELECT nothing FROM cpu", Status.PLAN_QUERY),
        ("SELECT nothing()", Status.PLAN_QUERY),
        ("SELECT sum(host) FROM cpu", Status.PLAN_QUERY),
        ("SELECT * FROM cpu WHERE up = 'perhaps'", Status.PLAN_QUERY),
        ("SELECT 1 +", Status.INVALID_SYNTAX),
        ("SELECT 1 LIMIT 1 WHERE 1", Status.UNSUPPORTED),
        ("SELECT 1 LIMIT (SELECT 1)", Status.UNSUPPORTED),
        ("SELECT " + "(" * 60 + "1" + ")" * 60, Status.INVALID_SYNTAX),
        ("SELECT 1/0", Status.ENGINE_EXECUTE_QUERY),
        ("SELECT 'x'::INT", Status.ENGINE_EXECUTE_QUERY),
        ("SELECT parse_json('{')", Status.ENGINE_EXECUTE_QUERY),
        ("SELECT @@nothing", Status.INVALID_ARGUMENTS),
        ("SET datafusion.execution.batch_size = 1", Status.UNSUPPORTED),
        ("CREATE TABLE x AS SELECT 1", Status.UNSUPPORTED),
        ("DROP TABLE cpu", Status.UNSUPPORTED),
        ("INSERT INTO cpu SELECT * FROM cpu", Status.UNSUPPORTED),
        ("COPY cpu TO '/tmp/x.csv'", Status.UNSUPPORTED),
    ],
)
def test_a_query_that_cannot_run_says_why(made: World, text: str, status: Status) -> None:
    assert status_of(made, text) is status


def test_a_missing_table_is_named_in_full(made: World) -> None:
    with pytest.raises(TsdbError, match=r"^Failed to plan SQL: Table not found: tsdb\.public\.nothing$"):
        made.table("SELECT * FROM nothing")


def test_errors_of_functions_are_told_in_their_own_words(made: World) -> None:
    with pytest.raises(TsdbError) as caught:
        made.table("SELECT parse_json('{')")
    assert "parse JSON" in str(caught.value)
    assert "PyErr" not in str(caught.value)


def test_filters_that_contradict_themselves_find_nothing(made: World) -> None:
    assert made.rows("SELECT * FROM cpu WHERE host = 'a' AND host = 'b' AND n = 1") == []
    assert made.rows("SELECT n FROM cpu WHERE (1 = 2 OR host = 'a') AND n = 1") == [(1,)]
    assert made.rows("SELECT count(*) FROM cpu WHERE host = 'a' AND host = 'b' AND usage > 1") == [(0,)]


def test_stacked_derived_tables_keep_every_layer(made: World) -> None:
    layers = "SELECT i + 1 AS i FROM (SELECT i + 1 AS i FROM (SELECT n + 1 AS i FROM cpu WHERE n = 0 AND host = 'a'))"
    assert made.rows(f"SELECT i FROM ({layers})") == [(3,)]


def test_the_text_of_a_view_is_planned_where_the_view_is_named(made: World) -> None:
    query = 'SELECT "host", max("usage") AS "top" FROM "public"."cpu" GROUP BY "host"'
    made.catalog.views_by_name[("public", "tops")] = ViewInfo(1, "public", "tops", "CREATE VIEW …", query)
    named = ViewInfo(2, "other", "named", "CREATE VIEW …", "SELECT * FROM public.tops", columns=("h", "Most"))
    made.catalog.views_by_name[("other", "named")] = named
    for session in (Session(), Session(channel=Channel.MYSQL), Session(channel=Channel.POSTGRES)):
        assert made.rows("SELECT * FROM tops WHERE host = 'b'", session) == [("b", 22.0)]
        assert made.rows("SELECT * FROM other.named ORDER BY h", session) == [("a", 12.0), ("b", 22.0)]
    assert made.table("SELECT * FROM other.named").schema.names == ["h", "Most"]
    assert made.rows("SELECT count(*) FROM tops JOIN other.named ON tops.host = named.h") == [(2,)]


def test_a_view_that_does_not_fit_any_more_is_an_error_of_the_query(made: World) -> None:
    views = made.catalog.views_by_name
    views[("public", "broken")] = ViewInfo(1, "public", "broken", "", "SELECT gone FROM public.cpu")
    views[("public", "ouroboros")] = ViewInfo(2, "public", "ouroboros", "", "SELECT * FROM public.ouroboros")
    assert status_of(made, "SELECT * FROM broken") is Status.PLAN_QUERY
    assert status_of(made, "SELECT * FROM ouroboros") is Status.INVALID_ARGUMENTS
    assert made.rows("SELECT count(*) FROM cpu") == [(6,)]


def test_numbers_are_a_hundred_or_as_many_as_a_limit_asks_for(made: World) -> None:
    assert made.rows("SELECT count(*), max(number) FROM numbers") == [(100, 99)]
    assert made.rows("SELECT number FROM numbers LIMIT 3") == [(0,), (1,), (2,)]
    assert len(made.rows("SELECT number, number * 10 FROM numbers LIMIT 1000")) == 1000
    assert made.rows("SELECT number FROM numbers WHERE number > 97") == [(98,), (99,)]
    assert made.rows("SELECT number FROM numbers ORDER BY number DESC LIMIT 200") == [(99 - n,) for n in range(100)]


def test_types_that_arrow_does_not_tell_survive_in_results(made: World) -> None:
    kinds = [("ts", MILLIS), ("j", DataType(Kind.JSON)), ("v", DataType(Kind.VECTOR, dimension=2))]
    table = made.create("docs", kinds)
    made.put(table, [{"ts": 1, "j": '{"a":1}', "v": b"\0" * 8}])
    schema = made.table("SELECT j, v AS w, j AS k FROM docs").schema
    assert [type_of_field(field) for field in schema] == [kinds[1][1], kinds[2][1], kinds[1][1]]
    assert made.rows("SELECT json_get_int(j, 'a') FROM docs") == [(1,)]


def test_results_hold_plain_types(made: World) -> None:
    schema = made.table("SELECT now(), 'x' || host, arrow_cast('x', 'Utf8View') FROM cpu").schema
    assert schema.types == [pa.timestamp("ns"), pa.string(), pa.string()]


def test_extra_tables_are_visible_by_their_bare_names_to_one_query(made: World) -> None:
    extra = {"seen": pa.table({"host": ["a"], "x": [7]}), "cpu": pa.table({"y": [1]})}
    assert made.table("SELECT x FROM seen", tables=extra).to_pydict() == {"x": [7]}
    assert made.table("SELECT * FROM cpu", tables=extra).to_pydict() == {"y": [1]}
    assert made.table("SELECT x, y FROM seen, cpu WHERE x > y", tables=extra).num_rows == 1
    assert made.table("SELECT * FROM empty", tables={"empty": extra["seen"].slice(0, 0)}).num_rows == 0
    assert status_of(made, "SELECT x FROM seen") is Status.TABLE_NOT_FOUND


def test_tables_that_describe_the_database_can_be_queried(made: World) -> None:
    text = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'cpu' ORDER BY ordinal_position LIMIT 2"
    )
    assert made.rows(text) == [("ts",), ("host",)]
    postgres = Session(channel=Channel.POSTGRES)
    assert made.rows("SELECT relname FROM pg_catalog.pg_class WHERE relname = 'cpu'", postgres) == [("cpu",)]


def test_files_of_an_external_table_are_read(made: World, tmp_path: Path) -> None:
    path = tmp_path / "cities.parquet"
    pq.write_table(pa.table({"city": ["Oslo", "Bern"], "pop": [7, 1]}), path)
    columns = (ColumnInfo(0, "city", STRING, Semantic.FIELD), ColumnInfo(1, "pop", BIGINT, Semantic.FIELD))
    options = {"location": str(path), "format": "parquet"}
    table = TableInfo(2000, "public", "cities", columns, engine="file", options=options, region_numbers=())
    made.catalog.by_name[("public", "cities")] = table
    assert made.rows("SELECT city FROM cities WHERE pop > 1") == [("Oslo",)]
    path.unlink()
    assert status_of(made, "SELECT * FROM cities") is Status.STORAGE_UNAVAILABLE


def test_names_are_found_in_the_database_of_the_session(made: World) -> None:
    table = made.create("cpu", [("ts", MILLIS), ("v", DOUBLE)], database="other")
    made.put(table, [{"ts": 5, "v": 1.5}])
    other = Session(database="other")
    assert made.rows("SELECT v FROM cpu", other) == [(1.5,)]
    assert made.rows("SELECT count(*) FROM public.cpu", other) == [(6,)]
    assert made.rows("SELECT c.v FROM tsdb.other.cpu AS c WHERE c.ts = 5") == [(1.5,)]


def test_the_dialect_is_that_of_the_session(made: World) -> None:
    assert made.rows('SELECT "x" FROM cpu WHERE `host` = "a" LIMIT 1', Session(channel=Channel.MYSQL)) == [("x",)]
    assert made.rows('SELECT "host" FROM cpu LIMIT 1', Session(channel=Channel.POSTGRES)) == [("a",)]
    with pytest.raises(InvalidSyntax):
        made.table("SELECT `host` FROM cpu", Session(channel=Channel.POSTGRES))


def test_constant_expressions_are_evaluated(made: World) -> None:
    values = made.queries.evaluate(["1 + 1", "'2020-01-01'::TIMESTAMP", "NULL", "interval '1h'"], Session())
    assert [str(each.type) for each in values] == ["int64", "timestamp[ms]", "null", "month_day_nano_interval"]
    assert values[0].as_py() == 2
    assert made.queries.evaluate([], Session()) == []


def test_the_schema_of_a_query_is_known_without_running_it(made: World) -> None:
    schema = made.queries.schema_of("SELECT host, 1/0 AS x FROM cpu", Session())
    assert (schema.names, schema.types) == (["host", "x"], [pa.string(), pa.int64()])


def test_types_are_those_that_both_sides_are_brought_to(made: World) -> None:
    assert made.rows("SELECT 1 UNION ALL SELECT 'a' ORDER BY 1") == [("1",), ("a",)]
    assert made.table("SELECT 1 AS x UNION ALL SELECT 2.5").schema.types == [pa.float64()]
    assert made.rows("SELECT CASE WHEN n = 0 THEN 1 ELSE 0.5 END FROM cpu WHERE host = 'a' AND n < 2") == [
        (1.0,),
        (0.5,),
    ]
    assert made.queries.schema_of("SELECT 1 AS x UNION ALL SELECT 2.5", Session()).types == [pa.float64()]


def test_columns_of_views_compare_as_those_of_tables(made: World) -> None:
    views = made.catalog.views_by_name
    views[("public", "late")] = ViewInfo(1, "public", "late", "", "SELECT ts, n FROM public.cpu WHERE ts > 0")
    views[("public", "later")] = ViewInfo(
        2, "public", "later", "", "SELECT * FROM public.late WHERE ts > 1000", ("at", "n")
    )
    assert made.rows("SELECT count(*) FROM late WHERE ts > 1000") == [(2,)]
    assert made.rows("SELECT count(*) FROM later WHERE at < 1500") == [(0,)]
    assert made.rows("SELECT count(*) FROM late AS l (x, y) WHERE x = 2000") == [(2,)]


def test_views_that_read_each_other_are_refused(made: World) -> None:
    views = made.catalog.views_by_name
    views[("public", "left")] = ViewInfo(1, "public", "left", "", 'SELECT * FROM public."right" WHERE ts > 0')
    views[("public", "right")] = ViewInfo(2, "public", "right", "", 'SELECT * FROM public."left" WHERE ts > 0')
    assert status_of(made, 'SELECT * FROM "left" WHERE ts > 0') is Status.INVALID_ARGUMENTS


def test_medians_of_integers_are_integers(made: World) -> None:
    found = made.table("SELECT median(n), approx_median(n), median(usage) FROM cpu WHERE n < 2")
    assert found.schema.names == ["median(cpu.n)", "approx_median(cpu.n)", "median(cpu.usage)"]
    assert found.schema.types == [pa.int64(), pa.int64(), pa.float64()]
    assert found.column(0).to_pylist() == [0]


def test_first_and_last_values_follow_the_order_of_the_table(made: World) -> None:
    assert made.rows("SELECT host, last_value(n), first_value(n) FROM cpu GROUP BY host ORDER BY host") == [
        ("a", 2, 0),
        ("b", 2, 0),
    ]


def test_range_queries_are_evaluated(made: World) -> None:
    text = "SELECT ts, host, sum(n) RANGE '2s' FROM cpu ALIGN '2s' ORDER BY host, ts"
    assert made.rows(text) == [(0, "a", 1), (2000, "a", 2), (0, "b", 1), (2000, "b", 2)]
    assert made.rows(f"SELECT count(*) FROM ({text}) AS r") == [(4,)]
