"""Floats that are whole numbers are stored as integers, and come back bit for bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.sst.files import DIRECTORY, Files, run_of, schema_of
from tsdb.engine.manifest import data_path
from tsdb.engine.rows.run import Run
from tsdb.engine.rows.slices import Slices
from tsdb.engine.sst import FileReader, WrittenFile
from tsdb.model import AddColumn, RegionSchema, alter

SCHEMA = schema_of({"host": pa.string()}, {"usage": pa.float64()})
USAGE = SCHEMA.by_name["usage"].id
WALK = [40.0 + step % 7 for step in range(100)]


def run_with(values: list[float | None], *, start: int = 0, schema: RegionSchema = SCHEMA) -> Run:
    times = pa.array(np.arange(start, start + len(values))).cast(pa.timestamp("ms"))
    hosts = pa.array(["a"] * len(values))
    columns = {"host": hosts, "ts": times, "usage": pa.array(values, pa.float64())}
    return run_of(schema, columns, base_sequence=start)


def stored_type(files: Files, written: WrittenFile) -> pa.DataType:
    path = data_path(DIRECTORY, written.meta.file_id)
    content = files.store.get_range(path, 0, written.meta.size_bytes)
    return pa.parquet.read_schema(pa.BufferReader(content)).field("usage").type


def bits(values: pa.Array) -> npt.NDArray[np.int64]:
    assert values.type == pa.float64()
    found: npt.NDArray[np.int64] = values.to_numpy(zero_copy_only=False).view(np.int64)
    return found


def usage_of(file: FileReader) -> pa.Array:
    values = file.field(USAGE, Slices.one(0, file.facts.rows))
    assert values is not None
    return values


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.integers(-50, 50).map(float),
            st.sampled_from([2.0**53, -(2.0**63), 2.0**63, -0.0, 0.5, float("nan"), float("inf"), -float("inf")]),
        ),
        min_size=1,
        max_size=80,
    )
)
def test_values_come_back_bit_for_bit_however_they_are_stored(values: list[float | None]) -> None:
    files = Files(SCHEMA)
    run = run_with(values)
    found = usage_of(files.read(files.write(run)))
    (expected,) = run.held_pieces(USAGE)
    assert found.is_valid().equals(expected.is_valid())
    assert np.array_equal(bits(found.drop_null()), bits(expected.drop_null()))


@pytest.mark.parametrize(
    ("values", "is_whole"),
    [
        (WALK, True),
        ([*WALK, None, 3.0], True),
        ([*WALK, 0.5], False),
        ([*WALK, -0.0], False),
        ([*WALK, float("nan")], False),
        ([*WALK, float("inf")], False),
        ([float((step * 7919) % 100_003) for step in range(500)], False),
        ([None, None], False),
    ],
    ids=["walk", "with nulls", "a fraction", "minus zero", "not a number", "infinite", "long steps", "nothing"],
)
def test_whole_numbers_in_short_steps_are_stored_as_integers(values: list[float | None], is_whole: bool) -> None:
    files = Files(SCHEMA)
    assert stored_type(files, files.write(run_with(values))) == (pa.int64() if is_whole else pa.float64())


def test_files_are_merged_as_integers_only_if_all_are_stored_so() -> None:
    files = Files(SCHEMA)
    first, second, odd = (
        files.read(files.write(run_with(values, start=start)))
        for values, start in ((WALK, 0), (WALK, 1000), ([0.25], 2000))
    )
    merged = files.write(first, second)
    assert stored_type(files, merged) == pa.int64()
    assert usage_of(files.read(merged)).to_pylist() == WALK * 2
    merged = files.write(first, odd)
    assert stored_type(files, merged) == pa.float64()
    assert usage_of(files.read(merged)).to_pylist() == [*WALK, 0.25]


@pytest.mark.parametrize(("default", "is_whole"), [(2.0, True), (2.5, False), (None, True)])
def test_the_default_of_a_column_that_came_later_counts(default: float | None, is_whole: bool) -> None:
    older = schema_of({"host": pa.string()}, {})
    without = run_of(older, {"host": pa.array(["a"]), "ts": pa.array([0], pa.timestamp("ms"))}, base_sequence=7)
    newer = alter(older, [AddColumn("usage", pa.float64(), default=default)])
    files = Files(newer)
    written = files.write(without, run_with(WALK, start=100, schema=newer))
    assert stored_type(files, written) == (pa.int64() if is_whole else pa.float64())
    found = files.read(written).field(newer.by_name["usage"].id, Slices.one(0, written.meta.rows))
    assert found is not None
    assert found.to_pylist() == [default, *WALK]
