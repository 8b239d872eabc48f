"""Plain selections answer what the planner would answer, and leave everything else to it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tsdb
from tests.storage import IN_CLUSTER
from tsdb.database import Session, read_all
from tsdb.query import QueryEngine
from tsdb.query.selection import SelectionRecords
from tsdb.sql import tokenize

COLUMNS = ["host", "dc", "ts", "f", "i", "u", "s", "b"]


@pytest.fixture(scope="module")
def db() -> Iterator[tsdb.Connection]:
    with tsdb.connect() as connection:
        connection.sql(
            "CREATE TABLE t (host STRING, dc STRING, ts TIMESTAMP TIME INDEX, f DOUBLE, i INT, u BIGINT UNSIGNED, "
            "s STRING, b BOOLEAN, PRIMARY KEY (host, dc))"
        )
        for part in range(3):
            rows = ", ".join(
                f"({_or_null(n % 5, repr(f'h{n % 4}'))}, 'd{n % 2}', {n * 10 + part}, {_or_null(n % 7, n / 4)}, "
                f"{_or_null(n % 6, n - 20)}, {n}, {_or_null(n % 3, repr(chr(97 + n % 5)))}, {_or_null(n % 2, 'true')})"
                for n in range(40)
            )
            connection.sql(f"INSERT INTO t VALUES {rows}")
            if part < 2:
                connection.flush("t")
        connection.sql("DELETE FROM t WHERE i = 3")
        yield connection


def _or_null(chance: int, text: object) -> str:
    return "NULL" if chance == 0 else str(text)


def _engine(db: tsdb.Connection) -> QueryEngine:
    return db._database().services.queries


def _planned(db: tsdb.Connection, text: str) -> pa.Table:
    session = Session()
    return read_all(_engine(db)._run(text, tokenize(text, session.dialect), session, {}))


_CONDITIONS = st.one_of(
    st.tuples(st.sampled_from(["host", "dc", "s"]), st.sampled_from(["'h1'", "'d0'", "'a'", "''", "'zz'"])),
    st.tuples(st.just("ts"), st.integers(-5, 450).map(str)),
    st.tuples(st.just("f"), st.one_of(st.integers(-3, 12).map(str), st.sampled_from(["2.25", "1e1", "0.1"]))),
    st.tuples(st.sampled_from(["i", "u"]), st.integers(-25, 45).map(str)),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4, unique=True) | st.just(["*"]),
    conditions=st.lists(st.tuples(_CONDITIONS, st.sampled_from(["=", "<", "<=", ">", ">="])), max_size=4),
    limit=st.none() | st.integers(1, 150),
)
def test_a_selection_answers_what_the_planner_answers(
    db: tsdb.Connection,
    columns: list[str],
    conditions: list[tuple[tuple[str, str], str]],
    limit: int | None,
) -> None:
    text = f"SELECT {', '.join(columns)} FROM t"
    if conditions:
        text += " WHERE " + " AND ".join(f"{column} {operator} {literal}" for (column, literal), operator in conditions)
    if limit is not None:
        text += f" LIMIT {limit}"
    got, wanted = db.sql(text).arrow(), _planned(db, text)
    assert got.schema.equals(wanted.schema, check_metadata=True)
    assert got.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT host, f AS value FROM public.t WHERE host = 'h1' AND ts >= 5 LIMIT 3",
        'SELECT "host" FROM tsdb.public.t WHERE i = -4',
        "SELECT host FROM t WHERE host = 'h1' OR host = 'h2'",
        "SELECT host FROM t WHERE host IN ('h1', 'h2', 'h3', 'nobody') AND NOT (f > 2 AND i <> 3)",
        "SELECT host, ts FROM t WHERE ts > '1970-01-01 00:00:00' AND ts <= TIMESTAMP '1970-01-01 00:00:00.3005'",
        "SELECT host, ts FROM t WHERE ts BETWEEN 20 AND 90 AND s IS NOT NULL AND 5 <= u",
        "SELECT host FROM t WHERE host NOT IN ('h1', 'h2')",
        "SELECT host FROM t WHERE host LIKE 'h%' AND host NOT LIKE '%2'",
        "SELECT host FROM t WHERE host ~ '^h[12]$'",
        "SELECT t.host, f g, i AS \"I\" FROM t WHERE t.host = 'h1' AND t.ts < 200",
        "SELECT * FROM t ORDER BY ts DESC LIMIT 5",
        "SELECT host, f AS g FROM t WHERE host = 'h1' ORDER BY ts DESC LIMIT 3",
        "SELECT ts, ts AS again, i FROM t WHERE i > 3 AND dc = 'd1' ORDER BY ts ASC LIMIT 7",
        "SELECT u FROM t WHERE ts >= 100 AND ts < 120 ORDER BY ts LIMIT 1000",
        "SELECT u FROM t WHERE u = 7 ORDER BY ts DESC LIMIT 1",
        "SELECT u FROM t WHERE host = 'nobody' ORDER BY ts DESC LIMIT 1",
    ],
)
def test_plain_selections_are_recognised(db: tsdb.Connection, text: str) -> None:
    session = Session()
    records = _engine(db).query(text, session)
    assert isinstance(records, SelectionRecords)
    got, wanted = read_all(records), _planned(db, text)
    if IN_CLUSTER and "ORDER BY" not in text:
        # Several threads of a datanode read: rows come in any order, and any of them are the first.
        assert got.num_rows == wanted.num_rows
        if "LIMIT" in text:
            return
        order = [(name, "ascending") for name in wanted.column_names]
        got, wanted = got.sort_by(order).combine_chunks(), wanted.sort_by(order).combine_chunks()
    assert got.equals(wanted)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t",
        "SELECT host, host FROM t",
        "SELECT DISTINCT host FROM t",
        "SELECT host FROM t ORDER BY host",
        "SELECT host FROM t ORDER BY ts",
        "SELECT host FROM t ORDER BY f LIMIT 2",
        "SELECT i AS ts FROM t ORDER BY ts LIMIT 2",
        "SELECT host FROM t ORDER BY ts DESC NULLS LAST LIMIT 2",
        "SELECT host FROM t ORDER BY ts LIMIT 20000",
        "SELECT host FROM t WHERE NOT b",
        "SELECT host FROM t WHERE f = i",
        "SELECT host FROM t WHERE i = 1.5",
        "SELECT host FROM t WHERE i = 3000000000",
        "SELECT host FROM t WHERE b = 'true'",
        "SELECT host FROM t WHERE ts > 'yesterday'",
        "SELECT host FROM t WHERE ts > TIMESTAMP '1970-01-01 00:00:00' + INTERVAL '1 hour'",
        "SELECT host FROM t WHERE host ILIKE 'h%'",
        "SELECT host FROM t WHERE host LIKE 'h\\_%'",
        "SELECT host FROM t LIMIT 0",
        "SELECT host FROM t AS x",
        "SELECT host FROM t, t AS y",
        "SELECT number FROM numbers",
        "SELECT 1 FROM t",
    ],
)
def test_everything_else_is_left_to_the_planner(db: tsdb.Connection, text: str) -> None:
    try:
        records = _engine(db).query(text, Session())
    except tsdb.TsdbError:
        return
    assert not isinstance(records, SelectionRecords)
    records.close()


def test_a_closed_selection_lets_go_of_its_snapshot(db: tsdb.Connection) -> None:
    records = _engine(db).query("SELECT * FROM t", Session())
    records.close()
    with pytest.raises(tsdb.TsdbError):
        list(records)


def test_rows_of_several_files_come_in_the_order_of_the_key_whether_or_not_files_follow_each_other() -> None:
    with tsdb.connect() as db:
        db.sql("CREATE TABLE o (host STRING, dc STRING, ts TIMESTAMP TIME INDEX, v BIGINT, PRIMARY KEY (host, dc))")
        for start in (0, 10, 20):
            rows = ", ".join(
                f"({host}, {dc}, {start + step}, {step})"
                for host in ("'a'", "'b'")
                for dc in ("NULL", "'d'")
                for step in range(3)
            )
            db.sql(f"INSERT INTO o VALUES {rows}")
            db.flush("o")
        wanted = [
            (host, dc, start + step)
            for host in ("a", "b")
            for dc in (None, "d")
            for start in (0, 10, 20)
            for step in (1, 2)
        ]
        of_one, without = wanted[18:], [row for row in wanted if row[1] is None]
        for condition, kept in (("", wanted), ("AND host = 'b' AND dc = 'd'", of_one), ("AND dc IS NULL", without)):
            answer = db.sql(f"SELECT host, dc, ts FROM o WHERE v > 0 {condition}").arrow()
            answer = answer.set_column(2, "ts", answer.column("ts").cast(pa.int64()))
            assert [tuple(row.values()) for row in answer.to_pylist()] == kept
