"""A SELECT as a tree: how it is cut, what its pieces mean, and how a query over an aggregate is taken apart."""

from __future__ import annotations

import pytest

from tsdb.sql.clauses import Comparison, ConditionLiteral, Declined, IsNull, Junction, Match, Membership, Not
from tsdb.sql.lexer import tokenize
from tsdb.sql.outer_query import Apart, take_apart
from tsdb.sql.range_query import RangeQuery
from tsdb.sql.select import ITEMS_MAX, Select, find_key, number_of, parse_query, parse_select
from tsdb.sql.statements import Dialect
from tsdb.sql.tag_expression import TagExpression
from tsdb.sql.terms import Aggregate, Bucket, ColumnItem


def read(text: str, dialect: Dialect = Dialect.GENERIC) -> Select:
    found = parse_select(text, tokenize(text, dialect), dialect)
    assert isinstance(found, Select), found
    return found


def refused(text: str) -> str:
    found = parse_select(text, tokenize(text), Dialect.GENERIC)
    assert isinstance(found, Declined), found
    return found.reason


def test_a_query_is_cut_at_its_clauses_and_keeps_what_was_written() -> None:
    select = read(
        "SELECT host h, max(v) /* most */ AS m FROM db.t WHERE v > 1 AND host = 'a' GROUP BY 1, date_trunc('day', ts)"
        " HAVING count(*) > 2 ORDER BY m DESC NULLS LAST, 1 OFFSET 3 LIMIT 5"
    )
    assert select.table == ("db", "t")
    assert [(select.written(each.tokens), each.alias) for each in select.items] == [("host", "h"), ("max(v)", "m")]
    assert select.written(select.where_tokens) == "v > 1 AND host = 'a'"
    assert select.group is not None
    assert [select.written(each.tokens) for each in select.group] == ["1", "date_trunc('day', ts)"]
    assert select.having is not None
    assert select.written(select.having) == "count(*) > 2"
    assert [(select.written(each.tokens), each.is_descending, each.nulls_first) for each in select.order] == [
        ("m", True, False),
        ("1", False, False),
    ]
    assert (number_of(select.limit or ()), number_of(select.offset or ())) == (5, 3)
    assert select.shape == select.text.replace("WHERE v > 1 AND host = 'a' ", "\0")


@pytest.mark.parametrize(
    ("item", "term"),
    [
        ("host", ColumnItem("host")),
        ("t.host", ColumnItem("host")),
        ('"Host"', ColumnItem("Host")),
        ("count(*)", Aggregate("count", None)),
        ("COUNT(1)", Aggregate("count", None)),
        ("mean(t.f)", Aggregate("avg", "f")),
        ("sum((f) * 1e0)", Aggregate("total", "f")),
        ("last_value(f ORDER BY ts)", Aggregate("last_value", "f", is_newest=True, order="ts")),
        ("last_value(f ORDER BY ts DESC)", Aggregate("last_value", "f", is_newest=False, order="ts")),
        ("date_trunc('Hour', ts)", Bucket("ts", 3_600_000_000_000, is_calendar=True)),
        ("date_bin(INTERVAL '5 minutes', ts)", Bucket("ts", 300_000_000_000)),
        ("date_bin(INTERVAL '5' MINUTE, ts)", Bucket("ts", 300_000_000_000)),
        ("date_bin(INTERVAL 5 minute, ts)", Bucket("ts", 300_000_000_000)),
        ("date_bin(INTERVAL 1 DAY, ts)", Bucket("ts", 86_400_000_000_000, is_calendar=True)),
        (
            "date_bin(INTERVAL '1 day', ts, TIMESTAMP '1970-01-01T00:00:01Z')",
            Bucket("ts", 86_400_000_000_000, 1_000_000_000, is_utc=True, is_calendar=True),
        ),
    ],
)
def test_plain_items_are_understood(item: str, term: object) -> None:
    (found,) = read(f"SELECT {item} FROM t").items
    assert (found.term, found.alias) == (term, None)
    for named in (f"{item} AS x", f"{item} x", f'{item} "x"'):
        (found,) = read(f"SELECT {named} FROM t").items
        assert (found.term, found.alias) == (term, "x")


@pytest.mark.parametrize(
    ("item", "names"),
    [
        ("upper(host)", {"host"}),
        ("host || '-' || dc", {"host", "dc"}),
        ("CASE WHEN host = 'a' THEN 1 END", {"case", "when", "host", "then", "end"}),
        ("max(f) + 1", {"f"}),
        ("-f", {"f"}),
    ],
)
def test_other_items_are_expressions_with_the_words_that_can_be_columns(item: str, names: set[str]) -> None:
    (found,) = read(f"SELECT {item} AS x FROM t").items
    assert isinstance(found.term, TagExpression)
    assert (found.term.text, found.term.names) == (item, names)


@pytest.mark.parametrize("item", ["u.host", "u.host || 'x'", "random() < f", "host AS case"])
def test_what_is_no_expression_of_the_table_is_declined(item: str) -> None:
    (found,) = read(f"SELECT {item} FROM t").items
    assert isinstance(found.term, Declined)


def number(text: str) -> ConditionLiteral:
    return ConditionLiteral(text, is_string=False)


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("a = 1", Comparison("a", "=", number("1"))),
        ("5 <= t.a", Comparison("a", ">=", number("5"))),
        ("a <> -1.5", Comparison("a", "<>", number("-1.5"))),
        ("a IN ('x', 'y')", Membership("a", (ConditionLiteral("x", True), ConditionLiteral("y", True)))),
        ("a NOT LIKE 'x%'", Not(Match("a", ConditionLiteral("x%", True), is_regex=False))),
        ("a !~ 'x'", Not(Match("a", ConditionLiteral("x", True), is_regex=True))),
        ("a IS NOT NULL", Not(IsNull("a"))),
        ("ts > TIMESTAMP '2024-01-01'", Comparison("ts", ">", ConditionLiteral("2024-01-01", True, is_timestamp=True))),
        (
            "(a = 1 OR NOT b = 2)",
            Junction((Comparison("a", "=", number("1")), Not(Comparison("b", "=", number("2")))), is_and=False),
        ),
        ("a BETWEEN 1 AND 2", Junction((Comparison("a", ">=", number("1")), Comparison("a", "<=", number("2"))), True)),
    ],
)
def test_conditions_of_columns_and_literals_are_understood(condition: str, wanted: object) -> None:
    select = read(f"SELECT a FROM t WHERE {condition} AND z = 9")
    assert [each.plain for each in select.where] == [wanted, Comparison("z", "=", number("9"))]


@pytest.mark.parametrize(
    "condition",
    ["a = b", "a + 1 = 2", "a = 1 + 1", "b", "a = 'x' 'y'", "a = 1 x", "f(a) = 1", "a IN (1, b)", "u.a = 1"],
)
def test_other_conditions_are_not_plain(condition: str) -> None:
    select = read(f"SELECT a FROM t WHERE z = 9 AND {condition}")
    assert [each.plain is None for each in select.where] == [False, True]
    assert isinstance(select.plain_where(), Declined)


def test_literals_know_where_they_stand() -> None:
    text = "SELECT a FROM t WHERE a = 'x' AND b > -5"
    first, second = (each.plain for each in read(text).where)
    assert isinstance(first, Comparison)
    assert isinstance(second, Comparison)
    assert (first.literal.place, second.literal.place) == (text.index("'x'"), text.index("5"))


def test_conditions_that_nest_too_deeply_are_the_planners() -> None:
    for opened, closed in (("(", ")"), ("NOT ", "")):
        assert read(f"SELECT a FROM t WHERE {opened * 20}a = 1{closed * 20}").where[0].plain is not None
        assert read(f"SELECT a FROM t WHERE {opened * 5000}a = 1{closed * 5000}").where[0].plain is None


def test_too_many_columns_are_the_planners() -> None:
    assert refused(f"SELECT {', '.join(['a'] * (ITEMS_MAX + 1))} FROM t") == "it has too many columns"


def test_keys_stand_for_columns_before_they_stand_for_names_of_the_answer() -> None:
    select = read("SELECT upper(host) AS host, dc AS d FROM t GROUP BY host, d, 1, 3, e")
    assert select.group is not None
    found = [find_key(select, key, {"host", "dc"}) for key in select.group]
    texts = [each.reason if isinstance(each, Declined) else select.written(each.tokens) for each in found]
    assert texts == [
        "host",
        "dc",
        "upper(host)",
        "it refers to a column number that does not exist",
        "there is no column e",
    ]


def test_range_queries_are_read_as_such() -> None:
    text = "SELECT ts, max(f) RANGE '1m' FROM t ALIGN '1m'"
    assert isinstance(parse_query(text, tokenize(text), Dialect.GENERIC), RangeQuery)


def apart(text: str) -> Apart | Declined:
    return take_apart(read(text), {"host", "dc", "f", "ts"})


def test_a_query_over_an_aggregate_is_taken_apart() -> None:
    text = (
        "SELECT host, max(f)-min(f) AS d FROM t WHERE f > 1 GROUP BY host HAVING count(*) > 3 ORDER BY max(f) LIMIT 2"
    )
    found = apart(text)
    assert isinstance(found, Apart)
    assert found.below == (
        "SELECT host AS __k0, max(f) AS __a0, min(f) AS __a1, count(*) AS __a2 FROM t WHERE f > 1 GROUP BY host"
    )
    assert " ".join(found.above.split()) == (
        "SELECT __k0, __a0 - __a1 AS d FROM __cells WHERE __a2 > 3 ORDER BY __a0 LIMIT 2"
    )
    assert found.below[text.index("f > 1") - found.shift :].startswith("f > 1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT f + 1 FROM t", "it has no aggregate"),
        ("SELECT * FROM t", "it has no aggregate"),
        ("SELECT max(f) + 1 FROM t GROUP BY 7", "it refers to a column number that does not exist"),
        ("SELECT max(f) + 1 AS m FROM t GROUP BY m", "it is grouped by an aggregate"),
        ("SELECT max(f) + 1 AS host FROM t GROUP BY host", "the answer calls something else host"),
        ("SELECT max(f) FROM t GROUP BY host HAVING host > 'a'", "HAVING compares something with a text"),
        ("SELECT max(f) + 1 FROM t GROUP BY ROLLUP (host)", "it has ROLLUP"),
    ],
)
def test_what_cannot_be_taken_apart_says_why(text: str, reason: str) -> None:
    assert apart(text) == Declined(reason)
