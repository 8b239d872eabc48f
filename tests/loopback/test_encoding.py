"""What travels arrives as it was, and what cannot travel is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine.scan.regions import Region, put, row
from tests.loopback_regions import travel
from tsdb.engine.reading import (
    Call,
    CellsRequest,
    CellsRun,
    ComputedKey,
    Conditions,
    Constant,
    Ref,
    RunQuery,
    ScanRequest,
    SeriesRows,
    TagIs,
    TagMatch,
    TagsAsked,
    as_node,
)
from tsdb.engine.scan import ScanStatistics
from tsdb.model import Matcher, MetricView, TimeRange
from tsdb.remote.codec import decode_value, encode_value

NODE = Call(
    "and_kleene",
    (
        Call("greater", (Ref("v"), Constant(pa.scalar(1.5)))),
        Call("is_in", (Ref("n"),), pa.scalar({"value_set": [1, 2]}, pa.struct([("value_set", pa.list_(pa.int64()))]))),
    ),
)
CONDITIONS = Conditions(
    TimeRange.ALL,
    (TagIs.one_of("host", ["a"]), TagMatch(Matcher("dc", "!~", "x.*")), TagsAsked(frozenset({"host"}), 0)),
    NODE,
)


@pytest.mark.parametrize(
    "value",
    [
        None,
        ScanRequest(3, 1, ["host", "ts"]),
        ScanRequest(3, 1, ["host", "ts"], 5),
        CellsRun(2, TimeRange(-5, 7), 4),
        CellsRequest(CONDITIONS, RunQuery(("host", "(upper(host))"), {"(upper(host))": ComputedKey(("host",), 0)}, 60)),
        MetricView(7, (("host", pa.string()), ("n", pa.int64())), ("val",), (7, 8)),
        pa.scalar(False),
        {("v", "count"): np.array([1, 2]), ("v", "max"): np.array([1.5, np.inf])},
        SeriesRows(pa.record_batch({"host": ["a"]}), np.array([0, 1]), np.array([9]), {"v": pa.array([None], "f8")}),
        pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([]))),
        np.array([3, 1], dtype=np.uint32),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_arrives_as_it_was(value: object) -> None:
    message = encode_value(value)
    assert isinstance(message, bytes)
    arrived = decode_value(message)
    assert type(arrived) is type(value)
    assert encode_value(arrived) == message


def test_an_expression_that_the_engine_understands_arrives_as_a_tree() -> None:
    expression = pc.field("host").isin(["a", "b"]) & (pc.field("ts") > pa.scalar(5, pa.timestamp("ms")))
    message = encode_value(expression)
    arrived = decode_value(message)
    assert isinstance(arrived, Call)
    assert encode_value(arrived) == message == encode_value(as_node(expression))


def test_any_other_expression_arrives_as_it_was() -> None:
    expression = pc.utf8_length(pc.field("host")) > 3
    assert decode_value(encode_value(expression)).equals(expression)


def test_rows_without_columns_keep_their_number() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert travel(batch).num_rows == 3


@pytest.mark.parametrize("value", [lambda: None, Region([put(row("a", 1))]).snapshot(), ScanStatistics(), object()])
def test_what_is_no_value_cannot_travel(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        encode_value({"request": [value]})
