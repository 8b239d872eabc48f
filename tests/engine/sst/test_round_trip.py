"""What is written is what is read: any schema, any values, any cut into stripes and row groups."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.sst.files import (
    DIRECTORY,
    HOSTS,
    Files,
    check_block,
    content_of,
    content_of_merge,
    hosts,
    run_of,
    schema_of,
)
from tsdb.engine.manifest import index_path
from tsdb.engine.rows.run import Run
from tsdb.engine.rows.slices import Slices
from tsdb.engine.sst import FileReader, storage_type
from tsdb.errors import Unsupported
from tsdb.model import ColumnId, MergeMode, OpType, RegionOptions, RegionSchema

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.one_of(st.sampled_from([-(1 << 63), (1 << 63) - 1, 0, -1]), st.integers(-(1 << 63), (1 << 63) - 1))
DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Kind:
    """A type, with values and how they become an array."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    make: Callable[[list[Any], pa.DataType], pa.Array] = lambda values, kind: pa.array(values, kind)


def _viewed(width: pa.DataType) -> Callable[[list[Any], pa.DataType], pa.Array]:
    return lambda values, kind: pa.array(values, width).view(kind)


def _cast(plain: pa.DataType) -> Callable[[list[Any], pa.DataType], pa.Array]:
    return lambda values, kind: pa.array(values, plain).cast(kind)


def _encoded(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind.value_type).dictionary_encode().cast(kind)


def _integers(kind: pa.DataType, *, signed: bool) -> Kind:
    width = kind.bit_width
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    return Kind(kind, st.one_of(st.sampled_from([low, high]), st.integers(low, high)))


# Two NaNs of different bits: Prometheus tells a stale series from a missing value by them.
FLOAT64_BITS = st.one_of(
    st.sampled_from([0x7FF8000000000001, 0x7FF0000000000002, -(1 << 63), 0, 0x7FF0000000000000, -0x10000000000000]),
    INT64,
)

KINDS = [
    Kind(pa.bool_(), st.booleans()),
    *(_integers(kind, signed=True) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(_integers(kind, signed=False) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    Kind(pa.float16(), st.integers(-(1 << 15), (1 << 15) - 1), _viewed(pa.int16())),
    Kind(pa.float32(), INT32, _viewed(pa.int32())),
    Kind(pa.float64(), FLOAT64_BITS, _viewed(pa.int64())),
    Kind(pa.string(), st.text(max_size=5)),
    Kind(pa.large_string(), st.text(max_size=5)),
    Kind(pa.binary(), st.binary(max_size=5)),
    Kind(pa.binary(3), st.binary(min_size=3, max_size=3)),
    Kind(pa.date32(), INT32, _viewed(pa.int32())),
    Kind(pa.date64(), INT64, _viewed(pa.int64())),
    *(Kind(pa.timestamp(unit), INT64, _viewed(pa.int64())) for unit in ("s", "ms", "us", "ns")),
    Kind(pa.timestamp("s", "UTC"), INT64, _viewed(pa.int64())),
    Kind(pa.time32("s"), st.integers(0, DAY_SECONDS - 1), _viewed(pa.int32())),
    Kind(pa.time32("ms"), st.integers(0, DAY_SECONDS * 1000 - 1), _viewed(pa.int32())),
    Kind(pa.time64("us"), st.integers(0, DAY_SECONDS * 10**6 - 1), _viewed(pa.int64())),
    Kind(pa.time64("ns"), st.integers(0, DAY_SECONDS * 10**9 - 1), _viewed(pa.int64())),
    *(Kind(pa.duration(unit), INT64, _viewed(pa.int64())) for unit in ("s", "ms", "us", "ns")),
    Kind(pa.decimal128(38, 10), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda value: Decimal(f"{value}e-10"))),
    Kind(pa.month_day_nano_interval(), st.tuples(INT32, INT32, INT64)),
    Kind(pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", ""]), _encoded),
    Kind(pa.dictionary(pa.int32(), pa.int64()), st.sampled_from([1, 2, 3]), _encoded),
    Kind(pa.list_(pa.int64()), st.lists(st.none() | INT64, max_size=3)),
    Kind(pa.list_(pa.timestamp("s")), st.lists(st.none() | INT64, max_size=3), _cast(pa.list_(pa.int64()))),
    Kind(pa.struct([("x", pa.float64()), ("y", pa.string())]), st.just({"x": 1.5, "y": None})),
    Kind(pa.map_(pa.string(), pa.int32()), st.lists(st.tuples(st.text(max_size=2), INT32), max_size=2)),
]
TAG_KINDS = [
    Kind(pa.string(), st.sampled_from(["", "a", "b", "é", "zz"])),
    Kind(pa.int64(), st.sampled_from([-(1 << 63), 0, (1 << 63) - 1])),
    Kind(pa.bool_(), st.booleans()),
    Kind(pa.timestamp("s"), st.sampled_from([-(1 << 63), 5]), _viewed(pa.int64())),
]


@dataclass(frozen=True)
class Case:
    schema: RegionSchema
    runs: list[Run]
    options: RegionOptions
    keep_tombstones: bool
    stripe_rows: int
    row_group_rows: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tags = draw(st.lists(st.sampled_from(TAG_KINDS), max_size=3))
    fields = draw(st.lists(st.sampled_from(KINDS), max_size=4))
    unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    schema = schema_of(
        {f"tag.{at}": kind.type for at, kind in enumerate(tags)},
        {f"field {at}": kind.type for at, kind in enumerate(fields)},
        pa.timestamp(unit),
    )
    options = draw(
        st.sampled_from(
            [RegionOptions(), RegionOptions(merge_mode=MergeMode.LAST_NON_NULL), RegionOptions(append_mode=True)]
        )
    )
    runs: list[Run] = []
    for number in range(draw(st.integers(1, 3))):
        op = OpType.PUT if options.append_mode else draw(st.sampled_from([OpType.PUT, OpType.PUT, OpType.DELETE]))
        runs.append(_draw_run(draw, schema, tags, fields, base_sequence=number * 1000, op=op))
    return Case(
        schema,
        runs,
        options,
        keep_tombstones=draw(st.booleans()),
        stripe_rows=draw(st.sampled_from([1, 10, 1000])),
        row_group_rows=draw(st.sampled_from([1, 7, 1000])),
    )


def _draw_run(
    draw: st.DrawFn, schema: RegionSchema, tags: list[Kind], fields: list[Kind], *, base_sequence: int, op: OpType
) -> Run:
    rows = draw(st.integers(1, 30))

    def values(kind: Kind) -> pa.Array:
        drawn = draw(st.lists(st.none() | kind.values, min_size=rows, max_size=rows))
        return kind.make(drawn, kind.type)

    times = st.one_of(st.integers(0, 5), st.sampled_from([-(1 << 63), (1 << 63) - 1]))
    columns = {
        **{tag.name: values(kind) for tag, kind in zip(schema.tags, tags, strict=True)},
        "ts": values(Kind(schema.time.type, times, _viewed(pa.int64()))).fill_null(pa.scalar(3, schema.time.type)),
        **{column.name: values(kind) for column, kind in zip(schema.fields, fields, strict=True)},
    }
    return run_of(schema, columns, base_sequence=base_sequence, op=op)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_a_file_holds_exactly_the_merged_rows(case: Case) -> None:
    files = Files(
        case.schema,
        case.options,
        keep_tombstones=case.keep_tombstones,
        stripe_rows=case.stripe_rows,
        row_group_rows=case.row_group_rows,
    )
    expected = content_of_merge(files.merge(case.runs), case.schema)
    written = files.try_write(*case.runs)
    if expected is None:
        assert written is None
        assert files.paths == []
        return
    assert written is not None
    file = files.read(written)
    assert file.schema == case.schema
    content_of(file).check_equal(expected.as_stored(case.options))
    check_block(file)
    assert written.meta.rows == len(expected.times)
    assert written.meta.time_range.start == expected.times.min()
    assert written.meta.time_range.last == expected.times.max()
    assert (written.meta.sequence_min, written.meta.sequence_max) == (
        expected.sequences.min(),
        expected.sequences.max(),
    )
    assert written.meta.has_tombstones == bool(expected.ops.any())
    keys = list(zip(expected.tags, expected.times.tolist(), strict=True))
    assert written.meta.is_unique == (len(set(keys)) == len(keys))
    files.store.delete(index_path(DIRECTORY, written.meta.file_id))
    rebuilt = files.read(written)
    content_of(rebuilt).check_equal(expected.as_stored(case.options))
    check_block(rebuilt)
    assert np.array_equal(rebuilt.block.table.tsid, written.block.table.tsid)
    assert np.array_equal(rebuilt.block.table.check, written.block.table.check)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), st.data())
def test_every_type_survives_in_columns_long_enough_for_every_encoding(kind: Kind, data: st.DataObject) -> None:
    distinct = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=40))
    rows = 2_000
    random = np.random.default_rng(len(distinct))
    schema = schema_of({}, {"v": kind.type})
    values = kind.make([distinct[at] for at in random.integers(0, len(distinct), rows)], kind.type)
    files = Files(schema, row_group_rows=900)
    run = run_of(schema, {"ts": pa.array(range(rows), pa.timestamp("ms")), "v": values})
    expected = content_of_merge(files.merge([run]), schema)
    assert expected is not None
    content_of(files.read(files.write(run))).check_equal(expected.as_stored(files.options))


@pytest.mark.parametrize("whole", [True, False])
def test_floats_survive_bit_by_bit_in_every_encoding(whole: bool) -> None:
    random = np.random.default_rng(1)
    raw = random.integers(0, 1 << 63, 5_000).astype(np.int64)
    if whole:
        raw = random.integers(0, 3, 5_000).astype(np.float64).view(np.int64)
    raw[:6] = [0x7FF8000000000001, 0x7FF0000000000002, -(1 << 63), 0, 0x7FF0000000000000, -0x10000000000000]
    schema = schema_of({}, {"v": pa.float64()})
    values = pa.array(raw).view(pa.float64())
    files = Files(schema)
    run = run_of(schema, {"ts": pa.array(range(5_000), pa.timestamp("ms")), "v": values})
    read = files.read(files.write(run)).field(schema.fields[0].id, Slices.one(0, 5_000))
    assert read is not None
    assert read.view(pa.int64()).equals(pa.array(raw))


def test_files_written_from_files_hold_the_same_rows() -> None:
    files = Files(HOSTS, row_group_rows=100, stripe_rows=250)
    runs = [hosts(HOSTS, series=20, points=50, base_sequence=at * 1000, start=at * 25) for at in range(3)]
    expected = content_of_merge(files.merge(runs), HOSTS)
    assert expected is not None
    parts = [files.open(files.write(run)).passing_reader() for run in runs]
    merged = files.read(files.write(*parts))
    content_of(merged).check_equal(expected.as_stored(files.options))
    assert merged.facts.rows == 20 * 100


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)), max_size=60))
def test_reading_along_slices_is_slicing(row_ranges: list[tuple[int, int]]) -> None:
    file, times, usage = _sliced_file()
    points = sorted(min(start + shift, 1000) for start, length in row_ranges for shift in (0, length))
    starts, stops = np.array(points[::2], dtype=np.int64), np.array(points[1::2], dtype=np.int64)
    rows = Slices(starts, stops)
    chosen = rows.positions()
    assert np.array_equal(file.times(rows), times[chosen])
    assert len(file.sequences(rows)) == len(chosen)
    read = file.field(HOSTS.by_name["usage"].id, rows)
    assert read is not None
    assert read.to_pylist() == usage.take(pa.array(chosen)).to_pylist()


@functools.cache
def _sliced_file() -> tuple[FileReader, npt.NDArray[np.int64], pa.Array]:
    files = Files(HOSTS, row_group_rows=64)
    run = hosts(HOSTS, series=20, points=50)
    everything = Slices.one(0, 1000)
    file = files.read(files.write(run))
    return file, run.times(everything), run.field(HOSTS.by_name["usage"].id, everything)


def test_a_column_that_the_file_does_not_have_is_none() -> None:
    files = Files(HOSTS)
    file = files.read(files.write(hosts(HOSTS, series=2, points=2)))
    assert file.field(ColumnId(99), Slices.one(0, 4)) is None


def test_no_rows_left_is_no_file() -> None:
    files = Files(HOSTS, keep_tombstones=False)
    put = hosts(HOSTS, series=2, points=2)
    delete = run_of(
        HOSTS,
        {"host": pa.array(["h0000", "h0000", "h0001", "h0001"]), "ts": pa.array([0, 1000] * 2, pa.timestamp("ms"))},
        base_sequence=100,
        op=OpType.DELETE,
    )
    assert files.try_write(put, delete) is None
    assert files.paths == []


def test_user_columns_may_have_the_names_of_the_engines_own() -> None:
    schema = schema_of({"__tsid": pa.string()}, {"__sequence": pa.float64(), "__op_type": pa.bool_()})
    columns = {
        "__tsid": pa.array(["x", "y"]),
        "ts": pa.array([1, 2], pa.timestamp("ms")),
        "__sequence": pa.array([0.5, 1.5]),
        "__op_type": pa.array([True, None]),
    }
    files = Files(schema)
    run = run_of(schema, columns, base_sequence=7)
    expected = content_of_merge(files.merge([run]), schema)
    assert expected is not None
    content_of(files.read(files.write(run))).check_equal(expected.as_stored(files.options))


@pytest.mark.parametrize(
    "kind",
    [
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.dense_union([pa.field("a", pa.int64())]),
        pa.struct([]),
        pa.list_(pa.month_day_nano_interval()),
    ],
)
def test_a_type_that_cannot_be_stored_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(Unsupported, match="cannot be stored"):
        storage_type(kind)
