"""Statements of a shape that was seen before: the same answers as when they are read."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.query.harness import BIGINT, DOUBLE, MILLIS, STRING, World, world
from tsdb.auth import Identity, PermissionDenied
from tsdb.model import TimeRange
from tsdb.query import Channel, Session, read_all
from tsdb.query._seen import SHAPES_MAX, SeenShapes, bound_of
from tsdb.sql.clauses import Declined
from tsdb.sql.lexer import tokenize
from tsdb.sql.select import Select, parse_select

HOUR = 3_600_000


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("seen")) as found:
        columns = [("ts", MILLIS), ("host", STRING), ("f", DOUBLE), ("n", BIGINT)]
        table = found.create("t", columns, tags=["host"])
        found.put(
            table,
            [{"host": host, "ts": at * HOUR, "f": at / 2, "n": at} for host in ("a", "it's", "c") for at in range(6)],
        )
        yield found


def planned(made: World, text: str, session: Session | None = None) -> pa.Table:
    """Return the answer of a planner that has seen nothing: a comment makes the text one that nobody recognises."""
    own = session or Session()
    fresh = Session(channel=own.channel, database=own.database, time_zone=own.time_zone)
    fresh.variables["series_aggregate"] = "off"
    return read_all(made.queries.query(text.replace("SELECT", "SELECT ALL", 1), fresh))


def ask(made: World, text: str, session: Session | None = None) -> pa.Table:
    return read_all(made.queries.query(text, session or Session()))


@pytest.mark.parametrize(
    "shape",
    [
        "SELECT host, max(f) FROM t WHERE host IN ({0}, {1}) GROUP BY host ORDER BY host",
        "SELECT host, n FROM t WHERE host = {0} AND ts >= 3600000",
        "SELECT count(*) FROM t WHERE host <> {0} OR host = {1}",
        "SELECT count(f) FROM t WHERE NOT host = {0} AND n > 2",
    ],
)
def test_strings_are_those_of_the_text_that_is_asked(made: World, shape: str) -> None:
    for first, second in (("'a'", "'c'"), ("'it''s'", "'a'"), ("'nobody'", "''"), ("'c'", "'c'")):
        text = shape.format(first, second)
        assert ask(made, text).to_pylist() == planned(made, text).to_pylist(), text


@pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">=", "<>"])
def test_times_are_those_of_the_text_that_is_asked(made: World, operator: str) -> None:
    for literal in (
        "'1970-01-01 02:00:00'",
        "'1970-01-01 02:00:00.0005'",
        "'1970-01-01'",
        "TIMESTAMP '1970-01-01 03:00:00'",
        "TIMESTAMP '1970-01-01T03:00:00Z'",
        "7200000",
        "-1",
        "'1969-12-31 23:00:00'",
        "'1970-01-01 03:00:00+01:00'",
    ):
        for text in (
            f"SELECT count(*) FROM t WHERE ts {operator} {literal}",
            f"SELECT n FROM t WHERE ts {operator} {literal}",
        ):
            assert ask(made, text).to_pylist() == planned(made, text).to_pylist(), text


def test_a_literal_of_another_type_is_left_to_the_planner(made: World) -> None:
    for literal in ("1", "2", "2.5", "3000000000", "99999999999999999999"):
        text = f"SELECT count(*) FROM t WHERE n > {literal}"
        assert ask(made, text).to_pylist() == planned(made, text).to_pylist(), text


def test_a_time_zone_is_part_of_what_a_statement_means(made: World) -> None:
    text = "SELECT count(*) FROM t WHERE ts >= '1970-01-01 02:00:00'"
    berlin = Session(time_zone="Europe/Berlin")
    for _ in range(2):
        assert ask(made, text).to_pylist() == [{"count(*)": 12}]
        assert ask(made, text, berlin).to_pylist() == [{"count(*)": 15}]


def test_other_numbers_outside_of_conditions_are_other_statements(made: World) -> None:
    for limit in (1, 2, 3):
        text = f"SELECT host, max(f) FROM t WHERE n >= 0 GROUP BY 1 ORDER BY 1 LIMIT {limit}"
        assert ask(made, text).num_rows == limit
        assert ask(made, f"SELECT n FROM t WHERE n >= 0 LIMIT {limit}").num_rows == limit


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT max(f) FROM t WHERE host = 'a'", "AggregateRecords"),
        ("SELECT max(f) + 1 FROM t WHERE host = 'a'", "OuterRecords"),
        ("SELECT f FROM t WHERE host = 'a'", "SelectionRecords"),
    ],
)
def test_switching_fast_paths_off_is_heeded_by_statements_seen_before(made: World, text: str, kind: str) -> None:
    kinds = set()
    for variable in ("on", "off"):
        session = Session()
        session.variables["series_aggregate"] = variable
        for _ in range(2):
            records = made.queries.query(text, session)
            kinds.add((variable, type(records).__name__))
            records.close()
    assert kinds == {("on", kind), ("off", "QueryRecords")}


def test_who_may_not_read_is_refused_what_others_have_asked_before(made: World) -> None:
    for text in ("SELECT max(f) FROM t WHERE host = 'a'", "SELECT f FROM t WHERE host = 'a'"):
        assert ask(made, text).num_rows
        stranger = Session(identity=Identity("s", can_read=False))
        with pytest.raises(PermissionDenied):
            ask(made, text, stranger)


def test_dialects_read_quotes_in_their_own_way(made: World) -> None:
    text = 'SELECT count(*) FROM t WHERE host = "a"'
    mysql = Session(channel=Channel.MYSQL)
    assert [ask(made, text, mysql).to_pylist() for _ in range(2)] == [[{"count(*)": 6}]] * 2


def test_a_table_of_the_same_name_is_another_table(made: World) -> None:
    text = "SELECT max(n) AS n FROM t WHERE host = 'a'"
    assert [ask(made, text).to_pylist() for _ in range(2)] == [[{"n": 5}]] * 2
    own = {"t": pa.table({"host": ["a", "a"], "n": [7, 8]})}
    assert read_all(made.queries.query(text, Session(), tables=own)).to_pylist() == [{"n": 8}]
    other = made.create("u", [("ts", MILLIS), ("host", STRING), ("n", STRING)], tags=["host"])
    made.put(other, [{"host": "a", "ts": 1, "n": "z"}])
    made.catalog.by_name["public", "t"] = other
    assert ask(made, text).to_pylist() == [{"n": "z"}]


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        (">=", TimeRange(2, TimeRange.ALL.end)),
        (">", TimeRange(2, TimeRange.ALL.end)),
        ("<", TimeRange(TimeRange.ALL.start, 2)),
        ("<=", TimeRange(TimeRange.ALL.start, 2)),
    ],
)
def test_an_instant_between_two_ticks_bounds_the_ticks_around_it(operator: str, wanted: TimeRange) -> None:
    assert bound_of(operator, 1_500_000, 1_000_000) == wanted
    assert bound_of("=", 1_500_000, 1_000_000).is_empty


def test_shapes_are_forgotten_when_there_are_too_many(made: World) -> None:
    seen: SeenShapes[int] = SeenShapes()
    table = made.catalog.by_name["public", "t"]
    for number in range(SHAPES_MAX + 1):
        text = f"SELECT n AS c{number} FROM t WHERE n > 1"
        select = parse_select(text, tokenize(text), Session().dialect)
        assert isinstance(select, Select)
        where = select.plain_where()
        assert not isinstance(where, Declined)
        seen.remember(text, Session(), where, select.table, table, 0)
    assert seen.find("SELECT n AS c0 FROM t WHERE n > 5", Session()) is None
    assert seen.find("SELECT n AS c1 FROM t WHERE n > 5", Session()) is not None
