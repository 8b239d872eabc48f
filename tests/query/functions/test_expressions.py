"""Functions typed by their arguments, functions of the session, and the headers of rewritten calls."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.query.functions.asking import ask, check, column, error, value
from tsdb import __version__
from tsdb.query.functions import FUNCTION_NAMES, functions_for
from tsdb.query.session import Channel, Session
from tsdb.sql.function_headers import visible_header

CASES = [
    ("if(true, 1, 2)", 1),
    ("if(NULL, 'a', 'b')", "b"),
    ("if(0, 'a', 'b')", "b"),
    ("if(-1, 'a', 'b')", "a"),
    ("if(0.0, 'a', 'b')", "b"),
    ("if(0.5, 'a', 'b')", "a"),
    ("if(1 > 2, 1, 2.5)", 2.5),
    ("if(true, NULL, 3)", None),
    ("if(true, if(false, 1, 2), 3)", 2),
    ("isnull(NULL)", True),
    ("isnull(0)", False),
    ("NOT isnull('x')", True),
    ("mod(17, 5)", 2),
    ("mod(-17, 5)", -2),
    ("mod(17.5, 5)", 2.5),
    ("mod(2 + 3, 1 + 1)", 1),
    ("mod(NULL, 5)", None),
    ("clamp(5, 1, 3)", 3),
    ("clamp(-5, 1, 3)", 1),
    ("clamp(2, 1, 3)", 2),
    ("clamp(0.5, 0, 1)", 0.5),
    ("clamp(NULL, 0, 1)", None),
    ("clamp_min(1, 3)", 3),
    ("clamp_min(5, 3)", 5),
    ("clamp_max(5.5, 3)", 3.0),
    ("clamp_max(1, 3)", 1),
    ("read_preference()", "LEADER"),
    ("database()", "public"),
    ("schema()", "public"),
    ("current_schema()", "public"),
    ("version()", __version__),
    ("session_user()", "tsdb"),
    ("current_user()", "tsdb"),
    ("current_user", "tsdb"),
    ("user()", "tsdb"),
]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_expression_gives(expression: str, expected: object) -> None:
    check(expression, expected)


def test_clamp_refuses_bounds_the_wrong_way_round() -> None:
    assert error("clamp(10, 9, 8)") == "clamp() got min '9' > max '8'"
    assert error("clamp(1.0, 0.5, 0.25)") == "clamp() got min '0.5' > max '0.25'"


@pytest.mark.parametrize("call", ["clamp(1, NULL, 2)", "clamp(1, 0, NULL)", "clamp_min(1, NULL)", "clamp_max(1, NULL)"])
def test_clamp_refuses_a_bound_that_is_null_for_every_row(call: str) -> None:
    assert "not NULL" in error(call)


def test_clamp_takes_bounds_from_columns() -> None:
    table = pa.table({"v": [5, 5, 5, None], "lo": [6, 0, None, 0], "hi": [9, 3, 9, 9]})
    assert column("clamp(v, lo, hi)", table) == [6, 3, None, None]


def test_mod_by_zero_is_an_error() -> None:
    with pytest.raises(Exception, match="Divide by zero"):
        value("mod(1, 0)")


@pytest.mark.parametrize(
    ("channel", "version"),
    [
        (Channel.HTTP, __version__),
        (Channel.MYSQL, f"8.4.2-tsdb-{__version__}"),
        (Channel.POSTGRES, f"PostgreSQL 16.3 tsdb {__version__}"),
    ],
)
def test_version_speaks_the_language_of_the_client(channel: Channel, version: str) -> None:
    assert ask("SELECT version()", session=Session(channel=channel)).to_pylist() == [{"version()": version}]


def test_functions_of_the_session_tell_what_it_chose() -> None:
    session = Session(database="metrics", user="ann", connection_id=77)
    answer = ask("SELECT database(), current_user(), connection_id(), pg_backend_pid()", session=session)
    assert list(answer.to_pylist()[0].values()) == ["metrics", "ann", 77, 77]
    assert [str(kind) for kind in answer.schema.types] == ["string", "string", "uint32", "uint64"]


def test_functions_of_the_session_stand_beside_columns() -> None:
    table = pa.table({"v": [1, 2]})
    assert column("concat(database(), '-', v)", table) == ["public-1", "public-2"]


HEADERS = [
    ("locate('o', 'foo', 2)", 'locate(Utf8("o"),Utf8("foo"),Int64(2))'),
    ("elt(1, 'a', 'b')", 'elt(Int64(1),Utf8("a"),Utf8("b"))'),
    ("if(1, 'yes', 'no')", 'if(Int64(1),Utf8("yes"),Utf8("no"))'),
    ("if(v > 1, if(true, 1, 2), 3)", "if(t.v > Int64(1),if(Boolean(true),Int64(1),Int64(2)),Int64(3))"),
    ("if(v > 1, CASE WHEN v = 2 THEN 5 ELSE 6 END, 3)",
     "if(t.v > Int64(1),CASE WHEN t.v = Int64(2) THEN Int64(5) ELSE Int64(6) END,Int64(3))"),
    ("if(true, 'THEN (', ' ELSE ) END')", 'if(Boolean(true),Utf8("THEN ("),Utf8(" ELSE ) END"))'),
    ("isnull(v) AND isnull(NULL)", "isnull(t.v) AND isnull(NULL)"),
    ("mod(v, 2) + 1", "mod(t.v,Int64(2)) + Int64(1)"),
    ("mod(mod(v, 7), 2)", "mod(mod(t.v,Int64(7)),Int64(2))"),
    ("clamp(v, 0, 1)", "clamp(t.v,Int64(0),Int64(1))"),
    ("clamp_min(v, mod(v, 3))", "clamp_min(t.v,mod(t.v,Int64(3)))"),
    ("clamp_max(-5, -7)", "clamp_max(Int64(-5),Int64(-7))"),
    ("to_unixtime('2024-01-01')", 'to_unixtime(Utf8("2024-01-01"))'),
    ("sum(to_unixtime(v))", "sum(to_unixtime(t.v))"),
    ("date_add(DATE '2020-01-01', '1 day')", 'date_add(Utf8("2020-01-01"),Utf8("1 day"))'),
    ("json_object('a', v, 'b', 'c,d')", 'json_object(Utf8("a"),t.v,Utf8("b"),Utf8("c,d"))'),
    ("coalesce(v, 1) IS NULL", "coalesce(t.v,Int64(1)) IS NULL"),
    ("coalesce(v) + 1", "coalesce(t.v) + Int64(1)"),
    ("v AS my__name", "my__name"),
    ("database()", "database()"),
    ("session_user()", "session_user()"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "header"), HEADERS, ids=[case[0] for case in HEADERS])
def test_header_shows_the_call_as_it_was_written(expression: str, header: str) -> None:
    assert ask(f"SELECT {expression} FROM t", table=pa.table({"v": [1]})).column_names == [header]


@pytest.mark.parametrize(
    "header", ["", "a", "coalesce(", "if__test(", "CASE WHEN if__test(a", "elt__2(", 'Utf8("coalesce(")']
)
def test_a_header_that_is_no_rewritten_call_stays(header: str) -> None:
    assert visible_header(header) == header


def test_every_function_has_a_name_users_can_call_or_an_inner_one() -> None:
    names = {each.name for each in functions_for(Session())}
    assert {name for name in names if "__" not in name} <= FUNCTION_NAMES
    assert {"if", "ucase", "json_get_int", "matches_term", "date_format", "locate"} <= FUNCTION_NAMES


def test_functions_that_do_not_depend_on_the_session_are_made_once() -> None:
    first, second = functions_for(Session()), functions_for(Session(time_zone="+08:00"))
    shared = {id(each) for each in first} & {id(each) for each in second}
    assert len(shared) >= len(first) - 12
