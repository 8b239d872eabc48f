"""Every value of the region interface arrives as it was, and bytes that are no message are refused."""

from __future__ import annotations

import math
import struct
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.harness import SCHEMA
from tsdb.engine.errors import ManifestFenced, RegionBusy, RegionNotFound, SchemaOutdated
from tsdb.engine.reading import (
    Aggregated,
    Bounds,
    Call,
    Cells,
    CellsRequest,
    Conditions,
    Constant,
    Ends,
    GroupKeys,
    KnownSeries,
    Ref,
    RunQuery,
    RunStatistics,
    TagIs,
    TagMatch,
    TextAll,
    TextAny,
    TextHolds,
    TextTest,
)
from tsdb.errors import Busy, Status, TsdbError
from tsdb.model import Matcher, MergeMode, RegionOpening, RegionOptions, TimeRange, region_id
from tsdb.remote import BadMessage, ProtocolMismatch, RemoteError
from tsdb.remote._errors import lower_error, raise_error
from tsdb.remote._message import PROTOCOL_VERSION, pack, unpack
from tsdb.remote.codec import CLASSES, decode_value, encode_value
from tsdb.units import Duration, Size

TYPES = [
    pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.timestamp("ns"),
    pa.timestamp("ms", "UTC"), pa.date32(), pa.decimal128(20, 3), pa.list_(pa.int32()), pa.null(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.struct([("a", pa.int64()), ("b", pa.string())]),
]  # fmt: skip

floats = st.floats(width=64)
numbers = st.integers(-(1 << 70), 1 << 70)
texts = st.text(max_size=8)
times = st.integers(-(1 << 62), 1 << 62)
ranges = st.builds(lambda one, other: TimeRange(min(one, other), max(one, other)), times, times)


@st.composite
def arrays(draw: st.DrawFn, rows: int | None = None) -> pa.Array:
    kind = draw(st.sampled_from(TYPES))
    count = draw(st.integers(0, 5)) if rows is None else rows
    return pa.nulls(count, kind) if draw(st.booleans()) else _filled(draw, kind, count)


def _filled(draw: st.DrawFn, kind: pa.DataType, count: int) -> pa.Array:
    whole = pa.array(draw(st.lists(st.none() | st.integers(0, 99), min_size=count + 1, max_size=count + 1)), pa.int64())
    if pa.types.is_list(kind):
        made = pa.array([None if value is None else [value] * (value % 3) for value in whole.to_pylist()], kind)
    elif pa.types.is_struct(kind):
        made = pa.array([None if value is None else {"a": value, "b": str(value)} for value in whole.to_pylist()], kind)
    elif pa.types.is_dictionary(kind):
        made = whole.cast(pa.string()).dictionary_encode()
    elif pa.types.is_null(kind):
        made = pa.nulls(count + 1)
    elif pa.types.is_date(kind) or pa.types.is_decimal(kind):
        made = whole.cast(pa.int32()).cast(kind)
    else:
        made = whole.cast(pa.string()).cast(kind) if pa.types.is_binary(kind) else whole.cast(kind)
    return made.slice(1)  # what is sent need not begin where its buffers do


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows, columns = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(
        [draw(arrays(rows)) for _ in range(columns)], names=[str(at) for at in range(columns)]
    )


vectors = st.builds(
    lambda kind, values: np.array(values, dtype=kind),
    st.sampled_from(["<i8", "<u4", "<f8", "<f4", "|u1", "<M8[ms]"]),
    st.lists(st.integers(0, 100), max_size=5),
) | st.builds(lambda values: np.array(values, dtype=bool), st.lists(st.booleans(), max_size=5))
scalars = st.builds(lambda array: array[0], arrays(1)) | st.builds(pa.scalar, floats)
nodes = st.recursive(
    st.builds(Ref, texts) | st.builds(Constant, scalars),
    lambda inner: st.builds(Call, texts, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=6,
)
words = st.recursive(
    st.builds(TextHolds, texts, st.booleans(), st.booleans()),
    lambda inner: (
        st.builds(TextAll, st.lists(inner, max_size=3).map(tuple))
        | st.builds(TextAny, st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=4,
)
conditions = st.builds(
    Conditions,
    ranges,
    st.lists(
        st.builds(TagIs.one_of, texts, st.lists(texts, max_size=3))
        | st.builds(TagMatch, st.builds(Matcher, texts, st.sampled_from(["=", "!~"]), texts)),
        max_size=3,
    ).map(tuple),
    st.none() | nodes,
    st.lists(st.builds(TextTest, texts, words), max_size=2).map(tuple),
)
plain = (
    st.none() | st.booleans() | numbers | floats | texts | st.binary(max_size=9)
    | st.builds(Duration, st.integers(0, 1 << 62)) | st.builds(Size, st.integers(0, 1 << 62))
    | st.sampled_from(MergeMode)
)  # fmt: skip
interface = (
    conditions | nodes | ranges | st.builds(Bounds, ranges, st.integers(0, 9)) | st.just(SCHEMA)
    | st.builds(CellsRequest, conditions, st.builds(RunQuery, st.tuples(texts), width=st.integers(0, 1 << 40)))
    | st.builds(KnownSeries, st.tuples(st.integers(0, 9), st.integers(0, 9)), st.none() | batches())
    | st.builds(RegionOptions, st.booleans(), ttl=st.none() | st.builds(Duration, st.integers(0, 9)))
    | st.builds(RegionOpening, st.just(region_id(1, 2)), texts, st.integers(0, 9), st.just((1, 2)))
)  # fmt: skip
values = st.recursive(
    plain | vectors | arrays() | batches() | scalars | st.sampled_from(TYPES) | interface,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(texts | st.tuples(texts, st.integers()), inner, max_size=3)
        | st.frozensets(texts | st.integers(), max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_a_value_arrives_as_it_was(value: Any) -> None:
    message = encode_value(value)
    arrived = decode_value(message)
    assert same(arrived, value), (arrived, value)


def same(one: Any, other: Any) -> bool:
    """Compare values of which many have no equality, or one that does not know NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype) and one.tobytes() == other.tobytes()
    if isinstance(one, pa.Scalar):
        return one.type == other.type and same(one.as_py(), other.as_py())
    if isinstance(one, pa.Array | pa.RecordBatch | pa.DataType):
        return bool(one.equals(other)) and getattr(one, "type", None) == getattr(other, "type", None)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one), list(other)) and all(same(one[key], other[key]) for key in one)
    if is_dataclass(one):
        return all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return bool(one == other)


def test_what_refers_to_one_array_twice_still_does() -> None:
    rows = np.array([3, 4])
    ends = Ends(np.array([1, 2]), {"v": pa.array([1.0, None])})
    cells = Cells(
        np.array([0, 1]),
        np.array([0, 0]),
        rows,
        7,
        {("v", "count"): rows, ("v", "sum"): np.array([1.5, math.nan])},
        ends,
    )
    sent = Aggregated(GroupKeys(2, [np.array([0, 1])], [pa.array(["a", None])]), cells, RunStatistics(1, 2))
    arrived = decode_value(encode_value(sent))
    assert arrived.cells.states["v", "count"] is arrived.cells.rows
    assert same(arrived, sent)


def test_arrays_of_objects_cannot_travel() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        encode_value(np.array([object()]))


def test_a_tree_that_is_too_deep_is_refused() -> None:
    node: Any = Ref("a")
    for _ in range(400):
        node = Call("invert", (node,))
    with pytest.raises(BadMessage, match="cannot be sent"):
        encode_value(node)


def test_another_version_is_refused_with_both_versions() -> None:
    message = bytearray(encode_value([1, 2]))
    message[3] = PROTOCOL_VERSION + 1
    with pytest.raises(
        ProtocolMismatch, match=f"version {PROTOCOL_VERSION + 1}.*version {PROTOCOL_VERSION}.*same release"
    ):
        decode_value(bytes(message))


SENT = encode_value(
    {
        "batch": pa.record_batch({"s": ["a", "bc", None], "d": pa.array(["x", "y", "x"]).dictionary_encode()}),
        "plain": pa.record_batch({"s": ["a", "bc", None], "l": [[1], None, [2, 3]]}),
        "rows": (np.arange(4), np.array([True, False]), pa.scalar(1.5), pa.scalar([1, 2]), b"bytes"),
        "filter": Conditions(TimeRange(1, 9), (TagIs.one_of("host", ["a"]),), Call("not_known", (Ref("a"),))),
        "schema": SCHEMA,
        "opaque": (pc.utf8_length(pc.field("host")) > 3) & pc.field("a").isin([1, 2]),
    }
)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=6), st.integers(0, 40))
def test_damaged_messages_are_refused_or_hold_sound_values(changes: list[tuple[int, int]], cut: int) -> None:
    message = bytearray(SENT)
    for at, value in changes:
        message[at % len(message)] = value
    try:
        arrived = decode_value(bytes(message[: len(message) - cut]))
    except (BadMessage, ProtocolMismatch):
        return
    look_at(arrived)


heads = st.recursive(
    st.none() | st.integers(-5, 1 << 40) | texts | st.sampled_from([*"ltsmvedzifyEbacknxp", *CLASSES]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=12,
)


@settings(max_examples=250, deadline=None)
@given(heads, st.lists(st.binary(max_size=64), max_size=3))
def test_any_head_is_refused_or_holds_sound_values(head: Any, buffers: list[bytes]) -> None:
    try:
        look_at(decode_value(pack(head, buffers)))
    except (BadMessage, ProtocolMismatch):
        return


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_refused(message: bytes) -> None:
    with pytest.raises((BadMessage, ProtocolMismatch)):
        decode_value(message)


def look_at(value: Any) -> None:
    """Use what arrived: something that points elsewhere would end the process."""
    if isinstance(value, pa.Array | pa.RecordBatch):
        value.to_pylist()
    elif isinstance(value, dict):
        for key, each in value.items():
            look_at(key)
            look_at(each)
    elif isinstance(value, list | tuple | frozenset):
        for each in value:
            look_at(each)
    else:
        repr(value)


def test_messages_begin_at_any_address() -> None:
    sent = {"v": np.arange(5), "t": pa.array(["a", "b"])}
    for offset in range(8):
        moved = pa.py_buffer(bytes(offset) + encode_value(sent)).slice(offset)
        _, buffers = unpack(moved)
        assert all(buffer.address % 8 == 0 for buffer in buffers)
        assert same(decode_value(moved), sent)


@pytest.mark.parametrize(
    "error",
    [
        RegionNotFound(region_id=5),
        SchemaOutdated(region_id=5, expected=1, current=2),
        RegionBusy("full", retry_after_seconds=7, table="t"),
        ManifestFenced(region_id=1, version=2, epoch=3, found_version=4, found_epoch=None, may_have_landed=True),
        Busy("later", hint="wait"),
        pa.ArrowInvalid("no"),
        OverflowError("more"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_arrive_with_their_class_and_all_they_say(error: Exception) -> None:
    arrived = raise_error(lower_error(error))
    assert (type(arrived), str(arrived)) == (type(error), str(error))
    assert vars(arrived) == vars(error)
    if isinstance(error, TsdbError):
        assert arrived.status is error.status  # type: ignore[attr-defined]
        assert same(vars(decode_value(encode_value([error]))[0]), vars(error))


def test_an_error_without_a_class_here_keeps_its_status() -> None:
    sent = lower_error(RegionBusy("full")) | {"class": "of.a.later.Release"}
    arrived = raise_error(sent)
    assert isinstance(arrived, RemoteError)
    assert (arrived.status, arrived.message) == (Status.REGION_BUSY, "full")
    assert str(raise_error(lower_error(KeyError("x")))) == "KeyError: 'x'"
