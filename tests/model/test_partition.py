"""Partition rules: what they accept, that they tile, and where rows go."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tsdb.errors import InvalidArguments, InvalidSyntax, Status
from tsdb.model import DataType, Kind, PartitionRule
from tsdb.model._partition_expr import parse_rule

TYPES = {
    "a": DataType(Kind.INT32),
    "b": DataType(Kind.STRING),
    "f": DataType(Kind.FLOAT64),
    "u": DataType(Kind.UINT64),
    "ok": DataType(Kind.BOOLEAN),
    "t": DataType(Kind.TIMESTAMP_MILLISECOND),
    "d": DataType(Kind.DATE),
    "Odd name": DataType(Kind.INT64),
    "j": DataType(Kind.JSON),
}


def rule(columns: str, *expressions: str) -> PartitionRule:
    return PartitionRule.parse(columns.split(","), expressions, TYPES)


def table(**columns: list[Any]) -> pa.Table:
    return pa.table({name: pa.array(values, TYPES[name].arrow) for name, values in columns.items()})


@pytest.mark.parametrize(
    ("columns", "expressions", "place"),
    [
        ("a", ["a < 10", "a > 10 AND a < 20", "a >= 20"], "`a=10` is not covered"),
        ("b", ["b < 'abc'", "b >= 'abca' AND b < 'o'", "b >= 'o'"], "`b=abc` is not covered"),
        ("b", ["b >= 'a'", "b <= 'o'"], "`b=a` is overlapped"),
        ("a", ["a < 10"], "`a=10` is not covered"),
        ("a", ["a > 10"], "`a<10` is not covered"),
        ("a", ["a <= 10", "a > 12"], "`a>10` is not covered"),
        ("f", ["f < 1.5", "f > 1.5"], "`f=1.5` is not covered"),
        ("f", ["f <= 10", "f >= 11"], "`f>10` is not covered"),
        ("a,b", ["a < 10", "a >= 10 AND b < 'm'"], "`a=10, b=m` is not covered"),
        ("a,b", ["a < 10 OR b < 'm'", "a >= 10"], "`a=10, b<m` is overlapped"),
        ("ok", ["ok = true"], "`ok<1` is not covered"),
        ("u", ["u > 0"], "`u=0` is not covered"),
    ],
)
def test_rules_that_do_not_tile_are_refused_with_the_place(columns: str, expressions: list[str], place: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        rule(columns, *expressions)
    assert caught.value.message == f"Checkpoint {place}"
    assert caught.value.status is Status.INVALID_ARGUMENTS


@pytest.mark.parametrize(
    ("columns", "expressions"),
    [
        ("a", ["a < 10", "a >= 10 AND a < 20", "a >= 20"]),
        ("a", ["a <= 10", "a >= 11"]),
        ("a", ["a < 10.5", "a > 10.5"]),
        ("a", ["a < 3000000000"]),
        ("u", ["u >= 0"]),
        ("b", ["b >= ''"]),
        ("b", ["b <= 'a'", "b > 'a'"]),
        ("f", ["f < -1", "f >= -1 AND f < -0", "f >= 0"]),
        ("ok", ["ok = true", "ok = FALSE"]),
        ("a,b", ["a < 10", "a = 10 AND b < 'a'", "a = 10 AND b >= 'a' AND b < 'o'", "a = 10 AND b >= 'o'", "a > 10"]),
        ("a,b", ["a < 10 OR (a = 10 AND b < 'x')", "a > 10 OR a = 10 AND b >= 'x'"]),
        ("a", ["a = 5", "a <> 5"]),
        ("t", ["t < '2024-01-01 00:00:00'", "t >= '2024-01-01 00:00:00'"]),
        ("d", ["d < '2024-01-01'", "d >= '2024-01-01'"]),
        ("a,b", ["a < 1", "a >= 1"]),
        ("a", []),
    ],
)
def test_rules_that_tile_are_accepted(columns: str, expressions: list[str]) -> None:
    assert len(rule(columns, *expressions).texts) == len(expressions)


@pytest.mark.parametrize(
    ("columns", "text", "canonical"),
    [
        ("a", "`a`<5", "a < 5"),
        ("a", "A < 5", "a < 5"),
        ("a", "(((a < 5)))", "a < 5"),
        ("a", "5>a", "a < 5"),
        ("a", "a != - 5", "a <> -5"),
        ("a", "a<+5", "a < 5"),
        ("a", "a < 007", "a < 7"),
        ("f", "f < 1e3", "f < 1000.0"),
        ("b", "b < 'it''s'", "b < 'it''s'"),
        ("b", 'b < "m"', "b < 'm'"),
        ("ok", "ok = TRUE", "ok = true"),
        ("Odd name", '"Odd name" < 1', '"Odd name" < 1'),
        ("a,b", "a < 1 and (b > 'x' or b < 'y')", "a < 1 AND (b > 'x' OR b < 'y')"),
        ("a,b", "(a < 1 and b > 'x') or b < 'y'", "a < 1 AND b > 'x' OR b < 'y'"),
        ("a,b", "a < 1 and (a > 0 and b > 'x')", "a < 1 AND (a > 0 AND b > 'x')"),
    ],
)
def test_rules_print_in_one_form_that_reads_back(columns: str, text: str, canonical: str) -> None:
    names = columns.split(",")
    assert str(parse_rule(text, names)) == canonical
    assert parse_rule(canonical, names) == parse_rule(text, names)


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            "a",
            "a <",
            "< 5",
            "a < 5 AND",
            "a < 5)",
            "(a < 5",
            "a < b",
            "1 < 2",
            "a + 1 < 5",
            "a < 5 b",
            "a LIKE 'x'",
        ],
        *[
            "NOT a < 5",
            "a < NULL",
            "a IN (1, 2)",
            "a < 5; b",
            "c < 5",
            "a < 'x",
            "a < 1e999",
            "a < " + "9" * 50,
            "a < 5x",
        ],
        *["(" * 300 + "a < 5" + ")" * 300, " OR ".join(["a < 5"] * 300), "a BETWEEN 1 AND 5", "a == 5", "a < 5 # x"],
    ],
)
def test_what_is_not_a_rule_is_a_syntax_error(text: str) -> None:
    with pytest.raises(InvalidSyntax):
        rule("a,b", text)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        *[
            ("a", "a < 'x'"),
            ("b", "b < 5"),
            ("a", "a < true"),
            ("ok", "ok < 1"),
            ("u", "u < -1"),
            ("t", "t < 'monday'"),
        ],
        *[("j", "j < 'x'"), ("a", "a < 99999999999999999999"), ("f", "f < 'x'"), ("t", "t < 1e30")],
    ],
)
def test_a_literal_that_does_not_fit_its_column_is_refused(columns: str, text: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        rule(columns, text)
    assert caught.value.status is Status.INVALID_ARGUMENTS


def test_a_rule_given_twice_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="Duplicate expr: a < 5"):
        rule("a", "a < 5", "a >= 5", "5 > a")


def test_rules_with_too_many_cells_are_refused() -> None:
    many = " OR ".join(f"a = {number}" for number in range(150))
    with pytest.raises(InvalidArguments, match="too many boundaries"):
        PartitionRule.parse(
            ["a", "x", "y", "z"],
            [many, *(many.replace("a", name) for name in "xyz")],
            dict.fromkeys("axyz", DataType(Kind.INT32)),
        )


def test_each_row_is_routed_to_its_region() -> None:
    rows = table(a=[15, 5, 25, 10, None, 20, 4], b=list("abcdefg"))
    found = rule("a", "a < 10", "a >= 10 AND a < 20", "a >= 20").route(rows)
    assert found.tolist() == [1, 0, 2, 1, 0, 2, 0]


def test_a_table_without_rules_has_one_region_and_no_rows_have_none() -> None:
    rows = table(a=[15, 16])
    assert rule("a").route(rows).tolist() == [0, 0]
    assert rule("a", "a < 10", "a >= 10").route(rows.slice(0, 0)).tolist() == []


def test_a_null_goes_where_it_certainly_belongs_and_otherwise_to_the_first_region() -> None:
    rules = rule("a,b", "a > 10 AND b < 'm'", "a <= 10", "a > 10 AND b >= 'm'")
    rows = table(a=[None, 5, 20, None], b=["x", None, None, None])
    assert rules.route(rows).tolist() == [0, 1, 0, 0]


def test_numbers_are_compared_exactly() -> None:
    border = (1 << 53) + 1
    types = {"n": DataType(Kind.INT64), "u": DataType(Kind.UINT64)}
    signed = PartitionRule.parse(["n"], [f"n < {border}", f"n >= {border}"], types)
    assert signed.route(pa.table({"n": [border - 1, border, border + 1]})).tolist() == [0, 1, 1]
    top = (1 << 64) - 1
    unsigned = PartitionRule.parse(["u"], [f"u < {top}", f"u = {top}"], types)
    assert unsigned.route(pa.table({"u": pa.array([0, top - 1, top], pa.uint64())})).tolist() == [0, 0, 1]
    half = PartitionRule.parse(["n"], ["n < 10.5", "n > 10.5"], types)
    assert half.route(pa.table({"n": [10, 11]})).tolist() == [0, 1]
    negative = PartitionRule.parse(["n"], ["n <= -10.5", "n > -10.5"], types)
    assert negative.route(pa.table({"n": [-11, -10]})).tolist() == [0, 1]


def test_numbers_that_are_none_are_above_all_others() -> None:
    rules = rule("f", "f < 0", "f >= 0")
    rows = table(f=[float("-inf"), -0.0, float("inf"), float("nan")])
    assert rules.route(rows).tolist() == [0, 1, 1, 1]


def test_times_and_truths_are_routed_by_their_value() -> None:
    day = 19723
    assert rule("d", "d < '2024-01-01'", "d >= '2024-01-01'").route(
        pa.table({"d": pa.array([day - 1, day], pa.int32()).cast(pa.date32())})
    ).tolist() == [0, 1]
    assert rule("t", "t < '2024-01-01 00:00:00'", "t >= 1704067200000").route(
        pa.table({"t": pa.array([1704067199999, 1704067200000], pa.timestamp("ms"))})
    ).tolist() == [0, 1]
    assert rule("ok", "ok = true", "ok = false").route(table(ok=[True, False, None])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_are_routed_in_every_form_that_carries_them(kind: pa.DataType) -> None:
    rules = rule("b", "b < 'm'", "b >= 'm'")
    chunks = [pa.array(["a", None, "z"], pa.string()).cast(kind), pa.array([], pa.string()).cast(kind)]
    assert rules.route(pa.table({"b": pa.chunked_array(chunks)})).tolist() == [0, 0, 1]
    assert rules.route(pa.record_batch({"b": chunks[0]})).tolist() == [0, 0, 1]
    assert rules.route(pa.table({"b": pa.nulls(2, pa.string())})).tolist() == [0, 0]


def test_regions_that_cannot_hold_a_value_are_pruned() -> None:
    rules = rule("a,b", "a < 10", "a >= 10 AND b < 'm'", "a >= 10 AND b >= 'm'")
    assert rules.prune({}) == [0, 1, 2]
    assert rules.prune({"a": (5, 9)}) == [0]
    assert rules.prune({"a": (None, 10)}) == [0, 1, 2]
    assert rules.prune({"a": (10, None), "b": ("x", "x")}) == [2]
    assert rules.prune({"a": (10, None)}) == [0, 1, 2], "a row without b may be in the first region"
    assert rules.prune({"a": (11, 11), "b": ("a", "b")}) == [1]
    assert rule("a").prune({"a": (1, 2)}) == [0]


_NUMBERS = st.sampled_from([-3, -1, 0, 1, 2, 5])
_TEXTS = st.sampled_from(["", "a", "ab", "m", "é"])


@st.composite
def tilings(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Rules that tile: cut the space in two again and again. Each rule also as Python, the second of a pair."""
    rules = [("", "")]
    for _ in range(draw(st.integers(1, 5))):
        text, python = rules.pop(draw(st.integers(0, len(rules) - 1)))
        if draw(st.booleans()):
            value: Any = draw(_NUMBERS)
            column, literal = "a", str(value)
        else:
            value = draw(_TEXTS)
            column, literal = "b", f"'{value}'"
        low, high = draw(st.sampled_from([("<", ">="), ("<=", ">"), ("=", "<>")]))
        for sign in (low, high):
            as_python = {"=": "==", "<>": "!="}.get(sign, sign)
            rules.append(
                (
                    f"{text} AND {column} {sign} {literal}" if text else f"{column} {sign} {literal}",
                    f"{python} and {column} {as_python} {value!r}" if python else f"{column} {as_python} {value!r}",
                )
            )
    return [text for text, _ in rules], rules


@given(tilings(), st.lists(st.tuples(st.integers(-5, 7), st.text("abmné", max_size=2)), min_size=1, max_size=30))
def test_every_row_lands_in_the_one_region_whose_rule_holds(
    tiling: tuple[list[str], list[tuple[str, str]]], rows: list[tuple[int, str]]
) -> None:
    texts, rules = tiling
    assume(len(set(texts)) == len(texts))
    made = rule("a,b", *texts)
    given_rows = table(a=[a for a, _ in rows], b=[b for _, b in rows])
    expected = [[eval(python, {"a": a, "b": b}) for _, python in rules].index(True) for a, b in rows]
    assert made.route(given_rows).tolist() == expected
    assert PartitionRule.parse(["a", "b"], made.texts, TYPES).texts == made.texts
    for a, b in rows[:3]:
        assert made.route(table(a=[a], b=[b]))[0] in made.prune({"a": (a, a), "b": (b, b)})


@given(tilings(), st.data())
def test_rules_without_one_of_them_or_with_one_changed_do_not_tile(
    tiling: tuple[list[str], list[tuple[str, str]]], data: st.DataObject
) -> None:
    texts, rules = tiling
    assume(len(set(texts)) == len(texts))
    gone = data.draw(st.integers(0, len(texts) - 1))
    witnesses = [(a, b) for a in range(-5, 8) for b in ("", "\0", "a", "aa", "ab", "b", "m", "n", "z", "é", "éé")]
    assume(any(eval(rules[gone][1], {"a": a, "b": b}) for a, b in witnesses))
    kept = texts[:gone] + texts[gone + 1 :]
    with pytest.raises(InvalidArguments, match="is not covered"):
        rule("a,b", *kept)
