"""Filters looked into: trees, ranges of time, and comparisons beside DataFusion's own."""

from __future__ import annotations

import math
import pickle
from typing import Any

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine.reads import scan_batches
from tests.engine.scan.regions import Region, make_schema, put, row, rows_of
from tsdb.engine.scan.filters.compare import compare, is_in
from tsdb.engine.scan.filters.expression import Call, Constant, Node, Ref, decode_expression
from tsdb.engine.scan.filters.filter import Opaque, make_filter
from tsdb.engine.scan.filters.time_span import find_time_span
from tsdb.errors import InvalidArguments
from tsdb.model import TimeRange

HOST, when, V = pc.field("host"), pc.field("ts"), pc.field("v")
LOW, HIGH = TimeRange.ALL.start, TimeRange.ALL.end


def shape(node: Node) -> Any:
    """A tree as nested tuples."""
    if isinstance(node, Ref):
        return node.name
    if isinstance(node, Constant):
        return [node.value.as_py()]
    return (node.function, *(shape(argument) for argument in node.arguments))


def at(value: int, unit: str = "ms") -> pa.Scalar:
    return pa.array([value], pa.int64()).view(pa.timestamp(unit))[0]


@pytest.mark.parametrize(
    ("expression", "tree"),
    [
        (HOST == "a", ("equal", "host", ["a"])),
        (HOST == 'a") or (b == "', ("equal", "host", ['a") or (b == "'])),
        (pc.field('x == "y"') == 1, ("equal", 'x == "y"', [1])),
        (HOST.is_null(), ("is_null", "host")),
        (pc.field("b"), "b"),
        (pc.scalar(False), [False]),
        (~((HOST == "a") | (V > 1.0)), ("invert", ("or_kleene", ("equal", "host", ["a"]), ("greater", "v", [1.0])))),
        (
            (HOST == "a") & (HOST == "b") & (HOST == "c"),
            ("and_kleene", ("and_kleene", *(("equal", "host", [x]) for x in "ab")), ("equal", "host", ["c"])),
        ),
    ],
)
def test_an_expression_is_decoded_exactly(expression: pc.Expression, tree: Any) -> None:
    assert shape(decode_expression(expression)) == tree


def test_literals_keep_their_types_and_calls_their_options() -> None:
    node = decode_expression(pc.field("ts") == at(7, "ns"))
    assert isinstance(node, Call)
    assert isinstance(node.arguments[1], Constant)
    assert node.arguments[1].value.type == pa.timestamp("ns")
    listed = decode_expression(HOST.isin(["a", None]))
    assert isinstance(listed, Call)
    assert listed.options is not None
    assert listed.options["value_set"].as_py() == ["a", None]


@pytest.mark.parametrize(
    ("expression", "expected", "is_exact"),
    [
        (when >= at(5), (5, HIGH), True),
        (when > at(5), (6, HIGH), True),
        (when < at(5), (LOW, 5), True),
        (when <= at(5), (LOW, 6), True),
        (when == at(5), (5, 6), True),
        (pc.scalar(at(5)) < when, (6, HIGH), True),
        (when != at(5), (LOW, HIGH), False),
        (~(when != at(5)), (5, 6), True),
        ((when >= at(2)) & (when < at(7)), (2, 7), True),
        ((when == at(2)) | (when == at(9)), (2, 10), False),
        ((when == at(2)) | (when == at(3)), (2, 4), True),
        (~((when < at(2)) | (when > at(7))), (2, 8), True),
        ((when < at(2)) & (when > at(7)), (0, 0), True),
        (((when >= at(2)) & (V > 1.0)) | (when == at(1)), (1, HIGH), False),
        ((when >= at(2)) | (V > 1.0), (LOW, HIGH), False),
        (when.isin(pa.array([3, 5, 4], pa.timestamp("ms"))), (3, 6), True),
        (when.isin(pa.array([3, 6], pa.timestamp("ms"))), (3, 7), False),
        (when.is_null(), (0, 0), True),
        (when.is_valid(), (LOW, HIGH), True),
        (when == pa.scalar(None, pa.timestamp("ms")), (0, 0), True),
        # Other units: an instant between two ticks.
        (when >= at(2_500, "us"), (3, HIGH), True),
        (when > at(2_500, "us"), (3, HIGH), True),
        (when < at(2_500, "us"), (LOW, 3), True),
        (when <= at(2_500, "us"), (LOW, 3), True),
        (when == at(2_500, "us"), (0, 0), True),
        (when >= at(-2_500, "us"), (-2, HIGH), True),
        (when >= at(2, "s"), (2000, HIGH), True),
        (when <= at(2**63 - 1, "s"), (LOW, HIGH), True),
        (when >= at(2**63 - 1, "s"), (0, 0), True),
        (when > at(-(2**63), "s"), (LOW, HIGH), True),
    ],
)
def test_the_range_of_time_is_found(expression: pc.Expression, expected: tuple[int, int], is_exact: bool) -> None:
    span = find_time_span(decode_expression(expression), make_schema().time)
    assert (span.range, span.is_exact) == (TimeRange(*expected), is_exact)


def test_a_filter_is_split_by_what_it_takes_to_decide_it() -> None:
    wanted = make_filter(make_schema(), (HOST == "a") & (when > at(5)) & ((HOST == "b") | (V > 1.0)) & (V < 3.0))
    assert wanted.time_range == TimeRange(6, HIGH)
    assert [shape(check) for check in wanted.on_series if not isinstance(check, Opaque)] == [("equal", "host", ["a"])]
    assert wanted.row_names == {"host", "v"}
    assert len(wanted.on_rows) == 2


def test_a_function_that_only_arrow_knows_is_left_to_it_as_a_whole() -> None:
    wanted = make_filter(make_schema(), pc.equal(pc.utf8_upper(HOST), "A"))
    (check,) = wanted.on_series
    assert isinstance(check, Opaque)


def test_a_function_that_only_arrow_knows_is_evaluated_on_rows() -> None:
    region = Region([put(row("a", 1, 2.0, n=2), row("b", 1, 3.0, n=7), row("c", 2, None, n=1))])
    n = pc.field("n")
    for expression, hosts in (
        (pc.equal(pc.multiply(n, 2), 4), ["a"]),
        ((pc.add(n, 1) > 3) | (HOST == "a"), ["a", "b"]),
        (pc.equal(pc.add(pc.scalar(1), 1), 2), ["a", "b", "c"]),
        (pc.equal(pc.add(pc.scalar(1), 1), 3), []),
    ):
        assert [each["host"] for each in rows_of(scan_batches(region.snapshot(), ["host"], expression))] == hosts


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="column: nope"):
        make_filter(make_schema(), pc.field("nope") == 1)


def test_a_column_within_a_column_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="not supported"):
        make_filter(make_schema(), pc.field("host", "inner") == 1)


FLOATS = [-0.0, 0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, -math.nan, 5e-324, -5e-324, None]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("function", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_floats_compare_as_datafusion_compares_them(kind: pa.DataType, function: str) -> None:
    signs = {"equal": "=", "not_equal": "<>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
    left = pa.array([x for x in FLOATS for _ in FLOATS]).cast(kind)
    right = pa.array(FLOATS * len(FLOATS)).cast(kind)
    context = datafusion.SessionContext()
    context.register_record_batches("t", [[pa.record_batch({"l": left, "r": right})]])
    (batch,) = context.sql(f"select l {signs[function]} r as x from t").collect()
    expected = batch.column(0).to_pylist()
    assert compare(function, left, right).to_pylist() == expected
    one_by_one = [compare(function, left.slice(number, 1), right[number])[0].as_py() for number in range(len(left))]
    assert one_by_one == expected


def test_membership_of_null_and_in_lists_with_null_is_unknown() -> None:
    values = pa.array(["a", "b", None])
    assert is_in(values, pa.array(["a", "x"])).to_pylist() == [True, False, None]
    assert is_in(values, pa.array(["a", None])).to_pylist() == [True, None, None]
    assert is_in(values, pa.array([], pa.string())).to_pylist() == [False, False, None]


def test_membership_sees_through_units_and_zeros() -> None:
    times = pa.array([1, 2], pa.timestamp("ms"))
    assert is_in(times, pa.array([1_000, 1_500], pa.timestamp("us"))).to_pylist() == [True, False]
    zeros = pa.array(np.array([0.0, -0.0, math.nan]))
    assert is_in(zeros, pa.array([0.0])).to_pylist() == [True, True, False]
    assert is_in(zeros, pa.array([math.nan])).to_pylist() == [False, False, True]
    assert is_in(pa.array([1, 300], pa.int16()), pa.array([1, 1 << 40])).to_pylist() == [True, False]


def test_timestamps_outside_of_64_bits_are_compared_all_the_same() -> None:
    times = pa.array([1, None], pa.timestamp("ns"))
    assert compare("less", times, at(2**62, "s")).to_pylist() == [True, None]
    assert compare("greater", times, at(-(2**62), "s")).to_pylist() == [True, None]
    assert compare("equal", times, at(2**62, "s")).to_pylist() == [False, None]
    assert compare("not_equal", times, at(2**62, "s")).to_pylist() == [True, None]


def test_a_tree_travels_without_pandas() -> None:
    # Arrow itself pickles a time with nanoseconds as an object of pandas.
    moment = pa.scalar(1_700_000_000_123_456_789, pa.timestamp("ns"))
    condition = (pc.field("ts") > moment) & pc.field("other").isin(pa.array([moment.value, None], moment.type))
    tree = decode_expression(condition)
    sent = pickle.dumps(tree, pickle.HIGHEST_PROTOCOL)
    assert b"pandas" not in sent
    assert repr(pickle.loads(sent)) == repr(tree)
