"""Partitioned tables: a query opens the regions that can hold matching rows, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsdb
from tests.storage import IN_CLUSTER
from tsdb.embedded import Connection
from tsdb.engine import Engine
from tsdb.engine.reading import Call, Conditions, Constant, Node, Ref, TagIs, TagMatch
from tsdb.errors import Status, TsdbError
from tsdb.model import ColumnInfo, DataType, Kind, Matcher, RegionId, Semantic, TableInfo, TimeRange, region_id
from tsdb.query import matching_regions
from tsdb.remote import RemoteRegions

OPERATORS = ["equal", "less", "less_equal", "greater", "greater_equal", "not_equal"]
RULES = [
    ("host < 'g'", "host >= 'g' AND host < 'p'", "host >= 'p'"),
    ("n < 10", "n >= 10 AND host < 'h'", "n >= 10 AND host >= 'h'"),
    ("host = 'a'", "host <> 'a' AND n <> 5", "host <> 'a' AND n = 5"),
]
HOSTS = ["", "a", "g", "h", "m", "p", "z"]
NUMBERS = [-1, 5, 9, 10, 11]


def table_of(rules: tuple[str, ...], columns: tuple[str, ...] = ("host", "n")) -> TableInfo:
    kinds = {"host": Kind.STRING, "n": Kind.INT64, "v": Kind.FLOAT64}
    infos = [ColumnInfo(at, name, DataType(kind), Semantic.TAG) for at, (name, kind) in enumerate(kinds.items())]
    infos[-1] = ColumnInfo(2, "v", DataType(Kind.FLOAT64), Semantic.FIELD)
    infos.append(ColumnInfo(5, "s", DataType(Kind.STRING), Semantic.FIELD))
    time = ColumnInfo(3, "ts", DataType(Kind.TIMESTAMP_MILLISECOND), Semantic.TIMESTAMP, nullable=False)
    return TableInfo(
        id=1024,
        database="public",
        name="t",
        columns=(*infos, time),
        primary_key=("host", "n"),
        region_numbers=tuple(range(len(rules))),
        partition_columns=columns,
        partition_rules=rules,
        next_column_id=4,
    )


def compare(column: str, function: str, value: Any, *, is_flipped: bool = False) -> Node:
    kind = pa.string() if column == "host" else pa.int64()
    sides = (Ref(column), Constant(pa.scalar(value, kind)))
    return Call(function, sides[::-1] if is_flipped else sides)


def one_of(column: str, values: list[Any]) -> Node:
    kind = pa.string() if column == "host" else pa.int64()
    return Call("is_in", (Ref(column),), pa.scalar({"value_set": values}, pa.struct([("value_set", pa.list_(kind))])))


ATOMS = st.one_of(
    st.builds(compare, st.just("host"), st.sampled_from(OPERATORS), st.sampled_from(HOSTS), is_flipped=st.booleans()),
    st.builds(compare, st.just("n"), st.sampled_from(OPERATORS), st.sampled_from(NUMBERS), is_flipped=st.booleans()),
    st.builds(one_of, st.just("host"), st.lists(st.none() | st.sampled_from(HOSTS), min_size=1, max_size=3)),
    st.builds(one_of, st.just("n"), st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3)),
)
FILTERS = st.recursive(
    ATOMS,
    lambda inner: st.builds(
        lambda function, left, right: Call(function, (left, right)),
        st.sampled_from(["and_kleene", "or_kleene"]),
        inner,
        inner,
    ),
    max_leaves=5,
)


def holds(node: Node, row: dict[str, Any]) -> bool | None:
    """Evaluate a filter with Arrow, one row at a time."""
    assert isinstance(node, Call)
    if node.function in ("and_kleene", "or_kleene"):
        left, right = (pa.scalar(holds(each, row), pa.bool_()) for each in node.arguments)
        return getattr(pc, node.function)(left, right).as_py()
    if node.function == "is_in":
        (column,) = node.arguments
        assert isinstance(column, Ref)
        return row[column.name] is not None and row[column.name] in node.options["value_set"].as_py()  # type: ignore[index]
    kinds = {"host": pa.string(), "n": pa.int64()}
    sides = [
        pa.scalar(row[each.name], kinds[each.name]) if isinstance(each, Ref) else each.value  # type: ignore[union-attr]
        for each in node.arguments
    ]
    return getattr(pc, node.function)(*sides).as_py()


@given(st.sampled_from(RULES), FILTERS, st.sampled_from([None, *HOSTS]), st.sampled_from([None, *NUMBERS]))
def test_a_row_that_matches_is_in_a_region_that_is_read(
    rules: tuple[str, ...], filter: Node, host: str | None, number: int | None
) -> None:
    table = table_of(rules)
    assert table.partition_rule is not None
    if not holds(filter, {"host": host, "n": number}):
        return
    row = pa.table({"host": pa.array([host], pa.string()), "n": pa.array([number], pa.int64())})
    (own,) = table.partition_rule.route(row)
    assert region_id(1024, int(own)) in matching_regions(table, filter)


def regions(table: TableInfo, filter: Any) -> list[int]:
    return [region & 0xFFFF for region in matching_regions(table, filter)]


def test_regions_that_cannot_match_are_left_out() -> None:
    by_host, by_both = table_of(RULES[0], ("host",)), table_of(RULES[1])
    assert regions(by_host, None) == [0, 1, 2]
    assert regions(by_host, compare("host", "equal", "m")) == [1]
    assert regions(by_host, compare("host", "greater", "g", is_flipped=True)) == [0, 1]
    assert regions(by_host, one_of("host", ["a", "z"])) == [0, 2]
    assert regions(by_host, (pc.field("host") >= "h") & (pc.field("v") > 5.0)) == [1, 2]
    assert regions(by_host, (pc.field("host") == "a") | (pc.field("host") == "b")) == [0]
    assert regions(by_host, (pc.field("host") == "a") | (pc.field("v") > 5.0)) == [0, 1, 2]
    assert regions(by_host, Conditions(TimeRange.ALL, (TagIs.one_of("host", ["q", "z"]),))) == [2]
    assert regions(by_host, Conditions(TimeRange.ALL, (TagMatch(Matcher("host", "=", "h")),))) == [1]
    assert regions(by_host, Conditions(TimeRange.ALL, (TagMatch(Matcher("host", "=~", "h.*")),))) == [0, 1, 2]
    both = Call("and_kleene", (compare("n", "equal", 11), compare("host", "equal", "m")))
    assert regions(by_both, both) == [2]
    # Nothing can match; something has to be read all the same.
    never = Call("and_kleene", (compare("host", "equal", "a"), compare("host", "equal", "z")))
    assert regions(by_host, never) == [0]
    many = Call("and_kleene", (one_of("n", list(range(20, 40))), one_of("host", [f"x{at}" for at in range(30)])))
    assert regions(by_both, many) == [2]


def test_what_may_have_had_another_type_rules_nothing_out() -> None:
    by_field = table_of(("v < 10", "v >= 10"), ("v",))
    assert regions(by_field, pc.field("v") == 3.0) == [0, 1]
    by_text = table_of(("s < 'm'", "s >= 'm'"), ("s",))
    assert regions(by_text, pc.field("s") == "a") == [0]
    by_time = table_of(("s < '2024-01-01'", "s >= '2024-01-01'"), ("s",))
    assert regions(by_time, pc.field("s") == "2025") == [0, 1]
    retyped = replace(by_text, partition_rules=("s < 10", "s >= 10"))
    assert regions(retyped, pc.field("s") == "a") == [0, 1]
    by_number = table_of(("n < 10", "n >= 10"), ("n",))
    assert regions(by_number, pc.field("n") == pa.scalar(3, pa.int32())) == [0, 1]
    assert regions(by_number, pc.field("n").cast(pa.string()) == "3") == [0, 1]


@pytest.fixture
def db() -> Iterator[Connection]:
    with tsdb.connect() as connection:
        connection.sql(
            "CREATE TABLE t (host STRING, ts TIMESTAMP(3) TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
            "PARTITION ON COLUMNS (host) (host < 'g', host >= 'g' AND host < 'p', host >= 'p')"
        )
        connection.sql("INSERT INTO t VALUES ('a', 1, 1), ('h', 2, 2), ('m', 3, 3), ('z', 4, 4)")
        yield connection


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    numbers: list[int] = []
    owner = RemoteRegions if IN_CLUSTER else Engine
    original = owner.open_reader

    def open_reader(regions: Any, region: RegionId, **given: Any) -> Any:
        numbers.append(region & 0xFFFF)
        return original(regions, region, **given)

    monkeypatch.setattr(owner, "open_reader", open_reader)
    return numbers


@pytest.mark.parametrize(
    ("text", "rows", "wanted"),
    [
        ("SELECT v FROM t WHERE host = 'h'", [2.0], [1]),
        ("SELECT v FROM t WHERE host >= 'h' AND v > 2 ORDER BY v", [3.0, 4.0], [1, 2]),
        ("SELECT v FROM t WHERE host = 'a' ORDER BY ts DESC LIMIT 1", [1.0], [0]),
        ("SELECT v + 0 FROM t WHERE host = 'z'", [4.0], [2]),
        ("SELECT v + 0 FROM t WHERE host IN ('a', 'b', 'c', 'z') ORDER BY 1", [1.0, 4.0], [0, 2]),
        ("SELECT max(v) FROM t WHERE host = 'm'", [3.0], [1]),
        ("SELECT max(v) FROM t WHERE length(host) = 1 AND host > 'p'", [4.0], [2]),
        ("SELECT sum(v) FROM t", [10.0], [0, 1, 2]),
        ("SELECT sum(v) FROM t WHERE host = 'a' OR v > 3", [5.0], [0, 1, 2]),
        ("SELECT v FROM t WHERE host = 'b'", [], [0]),
    ],
)
def test_a_query_opens_the_regions_that_can_match(
    db: Connection, opened: list[int], text: str, rows: list[float], wanted: list[int]
) -> None:
    for _ in range(2):
        opened.clear()
        assert db.sql(text).arrow().column(0).to_pylist() == rows
        assert sorted(set(opened)) == wanted


def test_promql_opens_the_regions_that_can_match(db: Connection, opened: list[int]) -> None:
    found = db.promql('t{host="m"}', start=0.003, end=0.003, step=1)
    assert found.arrow().num_rows == 1
    assert opened == [1]


def test_explain_tells_how_many_regions_were_read(db: Connection) -> None:
    plan = "\n".join(db.sql("EXPLAIN ANALYZE SELECT v + 0 FROM t WHERE host = 'z'").arrow().column("plan").to_pylist())
    assert "regions=1 of 3" in plan
    plan = "\n".join(db.sql("EXPLAIN ANALYZE SELECT v + 0 FROM t").arrow().column("plan").to_pylist())
    assert "regions=3," in plan


def test_a_region_that_is_gone_is_told_only_if_it_is_read(db: Connection) -> None:
    services = db._database().services
    table = services.catalog.find_table("public", "t")
    assert table is not None
    services.regions.drop(table.region_ids[2]).result(timeout=30)
    assert db.sql("SELECT v + 0 FROM t WHERE host = 'a'").arrow().num_rows == 1
    for text in ("SELECT v + 0 FROM t", "SELECT v FROM t", "SELECT max(v) FROM t", "SELECT * FROM t a, t b"):
        with pytest.raises(TsdbError) as caught:
            db.sql(text).arrow()
        # The metadata of a cluster still has a place for it.
        assert caught.value.status is (Status.REGION_NOT_READY if IN_CLUSTER else Status.REGION_NOT_FOUND)
