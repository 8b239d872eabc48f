"""`SeriesRuns` against numpy, row by row."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb._kernels import SeriesRuns, SteppedTimes, touched_chunks

INT64 = st.integers(-(2**63), 2**63 - 1)
STATES = ["count", "sum", "total", "min", "max", "spread"]

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "uint8": (pa.uint8(), st.integers(0, 2**8 - 1)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "uint16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "int64": (pa.int64(), st.integers(-(2**40), 2**40) | INT64),
    "uint64": (pa.uint64(), st.integers(0, 2**40) | st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats(-1e6, 1e6) | st.floats()),
}


@st.composite
def chunks(draw: st.DrawFn) -> tuple[pa.DataType, list[tuple[list[int], list[Any], list[tuple[int, int, int]]]]]:
    """Chunks of (times, values, stretches of (start, stop, group)); times ascend within a stretch."""
    kind, values = draw(st.sampled_from(sorted(TYPES)).map(TYPES.__getitem__))
    found = []
    for _ in range(draw(st.integers(0, 3))):
        times: list[int] = []
        stretches = []
        for _ in range(draw(st.integers(0, 4))):
            own = sorted(draw(st.lists(st.integers(-50, 50) | INT64, max_size=50)))
            stretches.append((len(times), len(times) + len(own), draw(st.integers(0, 3))))
            times += own
        column = draw(st.lists(st.none() | values, min_size=len(times), max_size=len(times)))
        found.append((times, column, stretches))
    return kind, found


def bucket_of(time: int, origin: int, width: int) -> int:
    return (time - origin) // width if width else 0


def ints(values: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def held(times: list[int]) -> Any:
    """Return times as they may be held: as steps where that is shorter."""
    array = pa.array(times, pa.int64())
    return SteppedTimes.pack(array) or array


def numpy_of(array: object) -> np.ndarray[Any, Any]:
    return np.asarray(pa.array(array))


def close(left: float, right: float) -> bool:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)


def same_float(left: float, right: float) -> bool:
    return (math.isnan(left) and math.isnan(right)) or (
        left == right and math.copysign(1, left) == math.copysign(1, right)
    )


def total_order(value: float) -> tuple[bool, float, float]:
    """NaN is the greatest, the negative zero less than the other."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))


@settings(deadline=None)
@given(chunks(), st.integers(0, 40), st.integers(0, 39), st.integers(-40, 0) | INT64, st.integers(0, 40) | INT64)
def test_states_of_cells_agree_with_a_loop_over_rows(
    drawn: tuple[pa.DataType, list[Any]], width: int, origin: int, first: int, last: int
) -> None:
    kind, parts = drawn
    origin = min(origin, max(width - 1, 0))
    runs = SeriesRuns(width=width, origin=origin)
    columns, wanted = [], defaultdict(list)
    for times, values, stretches in parts:
        added = runs.add(
            *(ints([each[at] for each in stretches]) for at in range(3)),
            held(times),
            (first, last),
        )
        if added:
            columns.append(pa.array(values, kind))
        for start, stop, group in stretches:
            for row in range(start, stop):
                if first <= times[row] <= last:
                    wanted[group, bucket_of(times[row], origin, width)].append(values[row])
    groups, buckets = (numpy_of(each).tolist() for each in runs.cells())
    assert list(zip(groups, buckets, strict=True)) == sorted(wanted)
    assert numpy_of(runs.rows()).tolist() == [len(wanted[cell]) for cell in sorted(wanted)]
    assert runs.row_count == sum(len(values) for values in wanted.values())
    (states,) = runs.aggregate([columns], [STATES], threads=2)
    has_nulls = any(column.null_count for column in columns)
    assert (states[0] is None) == (not has_nulls), "how many values there are is known if none is null"
    arrays = [numpy_of(runs.rows() if state is None else state) for state in states]
    for at, cell in enumerate(sorted(wanted)):
        check_cell(kind, [array[at].item() for array in arrays], wanted[cell])


def check_cell(kind: pa.DataType, found: list[Any], values: list[Any]) -> None:
    count, added, total, least, greatest, mean, squares = found
    present = pa.array([each for each in values if each is not None], kind).to_pylist()
    assert count == len(present)
    if not present:
        return
    if pa.types.is_floating(kind):
        with np.errstate(all="ignore"):
            expected = float(np.sum(np.array(present, np.float64)))
        if math.isfinite(expected) and all(abs(each) < 1e12 for each in present):
            assert close(added, expected)
            assert close(total, expected)
            spread = np.array(present, np.float64)
            assert math.isclose(mean, spread.mean(), rel_tol=1e-9, abs_tol=1e-3)
            assert math.isclose(squares, ((spread - spread.mean()) ** 2).sum(), rel_tol=1e-6, abs_tol=1.0)
        assert same_float(least, min(present, key=total_order))
        assert same_float(greatest, max(present, key=total_order))
        return
    wrapped = sum(present) % 2**64
    assert added % 2**64 == wrapped
    assert math.isclose(total, float(sum(present)), rel_tol=1e-9, abs_tol=2.0**14)
    assert (least, greatest) == (min(present), max(present))


@settings(deadline=None)
@given(chunks(), st.integers(0, 40), st.booleans())
def test_the_ends_of_cells_are_their_newest_and_oldest_rows(
    drawn: tuple[pa.DataType, list[Any]], width: int, newest: bool
) -> None:
    runs, wanted, kept = SeriesRuns(width=width), defaultdict(list), []
    for times, _, stretches in drawn[1]:
        arrays = [ints([each[at] for each in stretches]) for at in range(3)]
        if runs.add(*arrays, held(times)):
            kept.append(times)
        for start, stop, group in stretches:
            for time in times[start:stop]:
                wanted[group, bucket_of(time, 0, width)].append(time)
    runs.cells()
    found = [numpy_of(each).tolist() for each in runs.ends(newest=newest)]
    choose: Callable[[list[int]], int] = max if newest else min
    assert found[2] == [choose(wanted[cell]) for cell in sorted(wanted)]
    assert [kept[chunk][row] for chunk, row in zip(found[0], found[1], strict=True)] == found[2]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["int8", "int32", "int64", "float64"]), st.booleans()), min_size=1, max_size=4),
    st.data(),
)
def test_whole_doubles_have_the_states_of_doubles_however_they_are_held(
    kinds: list[tuple[str, bool]], data: st.DataObject
) -> None:
    runs, wide, narrow = SeriesRuns(), [], []
    for name, has_nulls in kinds:
        whole = st.integers(-(2**6), 2**6) if name == "int8" else st.integers(-(2**30), 2**30)
        values = data.draw(st.lists(st.none() | whole if has_nulls else whole, min_size=1, max_size=50))
        wide.append(pa.array(values, pa.float64()))
        narrow.append(wide[-1].cast(TYPES[name][0]))
        runs.add(ints([0]), ints([len(values)]), ints([data.draw(st.integers(0, 2))]))
    runs.cells()
    (wanted,) = runs.aggregate([wide], [STATES])
    (found,) = runs.aggregate([narrow], [STATES], doubles=[True])
    for one, other in zip(wanted, found, strict=True):
        assert (one is None) == (other is None)
        assert one is None or other is None or pa.array(one).equals(pa.array(other))
    with pytest.raises(TypeError, match="no doubles"):
        runs.aggregate([[array.cast(pa.string()) for array in wide]], [["sum"]], doubles=[True])


def test_a_million_buckets_far_apart_are_found() -> None:
    times = np.arange(1_000_000, dtype=np.int64) * 1_000_000_007
    runs = SeriesRuns(width=1_000)
    assert runs.add(ints([0]), ints([len(times)]), ints([5]), pa.array(times)) == 1_000_000
    _, buckets = runs.cells()
    assert (numpy_of(buckets) == times // 1_000).all()


def test_more_runs_than_allowed_are_refused() -> None:
    runs = SeriesRuns(width=1, runs_max=10)
    with pytest.raises(ValueError, match="more than 10 runs"):
        runs.add(ints([0]), ints([20]), ints([0]), pa.array(np.arange(20)))


def test_stretches_outside_of_their_chunk_are_refused() -> None:
    with pytest.raises(ValueError, match="stretch 0: rows 0 to 3 are not a stretch of 2 rows"):
        SeriesRuns(width=1).add(ints([0]), ints([3]), ints([0]), pa.array([1, 2]))


def test_a_column_that_is_too_short_is_refused() -> None:
    runs = SeriesRuns()
    runs.add(ints([0]), ints([3]), ints([0]))
    runs.cells()
    with pytest.raises(ValueError, match="2 rows, expected 3"):
        runs.aggregate([[pa.array([1, 2])]], [["sum"]])


def test_texts_are_not_added() -> None:
    runs = SeriesRuns()
    runs.add(ints([0]), ints([1]), ints([0]))
    runs.cells()
    with pytest.raises(TypeError, match="Utf8 cannot be aggregated"):
        runs.aggregate([[pa.array(["a"])]], [["min"]])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(-60, 60) | INT64, max_size=40), st.integers(0, 3)), max_size=6),
    st.lists(st.integers(0, 200), max_size=4),
    st.integers(0, 40),
    st.integers(-60, 0) | INT64,
    st.integers(0, 60) | INT64,
    st.booleans(),
)
def test_stretches_over_several_chunks_are_those_of_each(
    series: list[tuple[list[int], int]], cuts: list[int], width: int, first: int, last: int, newest: bool
) -> None:
    """Rows that are cut into chunks anywhere give the cells, and the ends of cells, of one chunk."""
    times = [time for own, _ in series for time in sorted(own)]
    stops = np.cumsum([len(own) for own, _ in series]).astype(np.int64)
    starts = stops - np.array([len(own) for own, _ in series], dtype=np.int64)
    groups = np.array([group for _, group in series], dtype=np.int64)
    stretches = starts, stops, groups
    bounds = sorted({0, len(times), *(cut for cut in cuts if cut < len(times))})
    chunk_times = [pa.array(times[low:high], pa.int64()) for low, high in pairwise(bounds)]
    values = list(range(len(times)))
    column = pa.array([None if value % 5 == 0 else value for value in values], pa.int64())
    whole = SeriesRuns(width=width)
    whole.add(*stretches, pa.array(times, pa.int64()), (first, last))
    cut = SeriesRuns(width=width)
    numbers = list(range(len(bounds) - 1))
    added = cut.add_chunks(*stretches, ints(bounds), numbers, chunk_times, (first, last))
    assert touched_chunks(starts, stops, ints(bounds)) == (numbers, len(times)), "every row is of a stretch"
    columns = [
        column.slice(low, high - low) for (low, high), count in zip(pairwise(bounds), added, strict=True) if count
    ]
    assert [numpy_of(each).tolist() for each in cut.cells()] == [numpy_of(each).tolist() for each in whole.cells()]
    assert numpy_of(cut.rows()).tolist() == numpy_of(whole.rows()).tolist()
    own = [[column]] if len(numpy_of(whole.rows())) else [[]]
    (sums,) = cut.aggregate([columns], [["count", "sum", "max"]])
    (wanted,) = whole.aggregate(own, [["count", "sum", "max"]])
    for each, expected in zip(sums, wanted, strict=True):
        # Chunks that have runs may have no null where the whole has one.
        both = [pa.array(whole.rows() if state is None else state).to_pylist() for state in (each, expected)]
        assert both[0] == both[1]
    *_, end_times = cut.ends(newest=newest)
    assert pa.array(end_times).to_pylist() == pa.array(whole.ends(newest=newest)[2]).to_pylist()
    chunks, rows, _ = (pa.array(each).to_pylist() for each in cut.ends(newest=newest))
    (found,) = cut.end_values([columns], newest=newest)
    assert pa.array(found).to_pylist() == [columns[chunk][row].as_py() for chunk, row in zip(chunks, rows, strict=True)]


def test_chunks_that_are_longer_than_their_times_are_refused() -> None:
    with pytest.raises(ValueError, match="chunk 0: 0 to 5 are not 3 rows"):
        SeriesRuns(width=1).add_chunks(ints([0]), ints([5]), ints([0]), ints([0, 5]), [0], [pa.array([1, 2, 3])])


def test_a_chunk_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no chunk 1"):
        SeriesRuns().add_chunks(ints([0]), ints([5]), ints([0]), ints([0, 5]), [1])


@pytest.mark.parametrize(
    ("stretches", "touched"),
    [
        ([(0, 1)], [0]),
        ([(9, 11)], [0, 1]),
        ([(10, 10), (25, 30)], [2]),
        ([(3, 4), (29, 30)], [0, 2]),
        ([(0, 30)], [0, 1, 2]),
        ([], []),
    ],
)
def test_chunks_are_touched_that_rows_of_stretches_lie_in(stretches: list[tuple[int, int]], touched: list[int]) -> None:
    starts, stops = (ints([each[at] for each in stretches]) for at in range(2))
    rows = sum(stop - start for start, stop in stretches)
    assert touched_chunks(starts, stops, ints([0, 10, 20, 30])) == (touched, rows)


def test_signed_integers_of_several_types_are_one_column() -> None:
    runs = SeriesRuns()
    runs.add_chunks(ints([0]), ints([6]), ints([0]), ints([0, 2, 4, 6]), [0, 1, 2])
    runs.cells()
    columns = [pa.array([-128, 1], pa.int8()), pa.array([2**40, None]), pa.array([7, 300], pa.int16())]
    (found,) = runs.aggregate([columns], [["count", "sum", "min", "max"]])
    assert [pa.array(each).to_pylist() for each in found] == [[5], [2**40 + 180], [-128], [2**40]]
    with pytest.raises(TypeError, match="chunks of Int8 and of UInt8"):
        runs.aggregate([[columns[0], pa.array([1, 2], pa.uint8()), columns[2]]], [["sum"]])


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
def test_numpy_arrays_are_columns_like_those_of_arrow(kind: str) -> None:
    values = np.arange(10, dtype=kind)
    runs = SeriesRuns(width=4, origin=0, runs_max=10)
    assert runs.add_chunks(ints([0]), ints([10]), ints([0]), ints([0, 10]), [0], [ints(list(range(10)))]) == [3]
    runs.cells()
    states = [["sum", "max"]] * 3
    plain, arrow, part = runs.aggregate([[values], [pa.array(values)], [np.arange(12, dtype=kind)[2:]]], states)
    assert [numpy_of(each).tolist() for each in plain] == [numpy_of(each).tolist() for each in arrow]
    assert numpy_of(part[1]).tolist() == [5, 9, 11]


@pytest.mark.parametrize(
    "column",
    [
        np.arange(20)[::2],
        np.arange(10).reshape(2, 5),
        np.arange(10, dtype=">i8"),
        np.frombuffer(bytes(81), np.int64, count=10, offset=1),
        np.array(["a"] * 10),
    ],
    ids=["strided", "two dimensions", "other byte order", "not aligned", "no numbers"],
)
def test_a_buffer_that_is_not_plain_numbers_is_refused(column: Any) -> None:
    runs = SeriesRuns(width=0, origin=0, runs_max=10)
    runs.add_chunks(ints([0]), ints([10]), ints([0]), ints([0, 10]), [0])
    runs.cells()
    with pytest.raises(TypeError, match="expected an Arrow array"):
        runs.aggregate([[column]], [["max"]])
