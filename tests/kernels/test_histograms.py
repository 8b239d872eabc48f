"""Native histograms: the kernel against plain Python, and properties that must hold of any histogram."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.histogram_reference import CUSTOM, GAUGE, NOT_RESET, RESET, UNKNOWN, Hist
from tsdb._kernels import Histograms, prom_json

# The first call of Arrow in a process imports half of the world.
_patiently = settings(deadline=None)
_counts = st.integers(1, 50).map(float)
_schemas = st.integers(-2, 3)
_side = st.dictionaries(st.integers(-6, 8), _counts, max_size=5)


@st.composite
def exponential(draw: st.DrawFn, schemas: st.SearchStrategy[int] = _schemas) -> Hist:
    positive, negative = draw(_side), draw(_side)
    zero = draw(st.integers(0, 9).map(float))
    count = zero + sum(positive.values()) + sum(negative.values())
    schema, width = draw(schemas), draw(st.sampled_from([0.0, 0.001, 0.3, 1.0, 5.0]))
    plain = Hist(count, draw(st.integers(-99, 99).map(float)), positive, negative, schema, zero)
    return plain.widened(width)


@st.composite
def custom(draw: st.DrawFn) -> Hist:
    bounds = tuple(sorted(draw(st.sets(st.integers(-4, 9).map(float), min_size=1, max_size=6))))
    buckets = draw(st.dictionaries(st.integers(0, len(bounds)), _counts, max_size=5))
    return Hist(sum(buckets.values()), 1.0, buckets, {}, CUSTOM, bounds=bounds)


def pool_of(histograms: Sequence[Hist | None]) -> tuple[Histograms, pa.Array]:
    blobs = [None if each is None else each.encode() for each in histograms]
    pool, cells = Histograms.decode(pa.array(blobs, pa.binary()))
    return pool, pa.array(cells)


def read(pool: Histograms, cell: int = 0) -> Hist:
    return Hist.decode(pa.array(pool.encode(pa.array([cell], pa.int32())))[0].as_py())


def floats(values: Sequence[float]) -> pa.Array:
    return pa.array(values, pa.float64())


@_patiently
@given(st.lists(st.none() | exponential() | custom(), max_size=4))
def test_what_is_encoded_is_read_back(histograms: list[Hist | None]) -> None:
    pool, cells = pool_of(histograms)
    encoded = pa.array(pool.encode(cells)).to_pylist()
    assert [None if blob is None else Hist.decode(blob) for blob in encoded] == histograms
    assert len(pool) == sum(each is not None for each in histograms)


def test_integer_counts_are_differences() -> None:
    head = bytes([1, 0, 0, 0]) + (2).to_bytes(4, "little") + bytes(8) + np.float64(7).tobytes()
    sides = b"".join(
        [
            np.uint64(6).tobytes() + np.uint64(1).tobytes(),
            np.uint32(2).tobytes() + np.array([1, 2, 3, 1], "<i4").tobytes(),
            np.uint32(3).tobytes() + np.array([1, 2, -1], "<i8").tobytes(),
            np.uint32(0).tobytes() * 2 + np.uint32(0).tobytes(),
        ]
    )
    pool, _ = Histograms.decode(pa.array([head + sides], pa.binary()))
    assert read(pool) == Hist(6, 7, {1: 1, 2: 3, 6: 2}, {}, 2, 1)


@pytest.mark.parametrize("blob", [b"", b"\x02" + bytes(60), Hist(1, 1, {1: 1}).encode()[:-9], bytes(64)])
def test_bytes_that_are_no_histogram_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="row 1 is no histogram"):
        Histograms.decode(pa.array([None, blob], pa.binary()))


def test_cells_outside_of_the_pool_are_refused() -> None:
    pool, _ = pool_of([Hist(1, 1)])
    for cells in ([1], [-2]):
        with pytest.raises(ValueError, match="number of no histogram"):
            pool.statistic("count", pa.array(cells, pa.int32()))
    with pytest.raises(ValueError, match="each must be the number of a histogram"):
        pool.scale(pa.array([-1], pa.int32()), floats([1]), False)


@_patiently
@given(exponential(), exponential(), st.booleans())
def test_sums_and_differences_agree_with_their_definition(left: Hist, right: Hist, is_subtraction: bool) -> None:
    _check_combination(left, right, is_subtraction=is_subtraction)


@_patiently
@given(custom(), custom(), st.booleans())
def test_custom_bounds_meet_in_those_that_both_have(left: Hist, right: Hist, is_subtraction: bool) -> None:
    flag = _check_combination(left, right, is_subtraction=is_subtraction)
    assert flag == (0 if left.bounds == right.bounds else 2)


def _check_combination(left: Hist, right: Hist, *, is_subtraction: bool) -> int:
    pool, _ = pool_of([left, right])
    one, two = pa.array([0], pa.int32()), pa.array([1], pa.int32())
    found, cells, flags = pool.combine(one, pool, two, is_subtraction)
    assert pa.array(cells).to_pylist() == [0]
    assert read(found).is_close(left.plus(right, -1.0 if is_subtraction else 1.0))
    assert read(found).hint == (GAUGE if is_subtraction else UNKNOWN)
    return int(pa.array(flags)[0].as_py())


def test_exponential_and_custom_histograms_do_not_go_together() -> None:
    pool, _ = pool_of([Hist(1, 1, {1: 1}), Hist(1, 1, {0: 1}, schema=CUSTOM, bounds=(5.0,))])
    found, cells, flags = pool.combine(pa.array([0], pa.int32()), pool, pa.array([1], pa.int32()), False)
    assert len(found) == 0
    assert (pa.array(cells).to_pylist(), pa.array(flags).to_pylist()) == ([-1], [4])


@_patiently
@given(st.lists(exponential(st.just(0)), min_size=1, max_size=5))
def test_groups_are_added_up_in_any_order(histograms: list[Hist]) -> None:
    pool, cells = pool_of(histograms)
    groups = pa.array([0] * len(histograms), pa.int64())
    total, _, _, _ = pool.aggregate("sum", cells, groups, 1, 1)
    backwards, _, _, _ = pool.aggregate("sum", pa.array(cells.to_pylist()[::-1], pa.int32()), groups, 1, 1)
    assert read(total).is_close(read(backwards))
    mean, _, _, _ = pool.aggregate("avg", cells, groups, 1, 1)
    again = mean.scale(pa.array([0], pa.int32()), floats([len(histograms)]), False)
    assert read(again).is_close(read(total))


def test_the_mean_of_huge_histograms_does_not_overflow() -> None:
    pool, cells = pool_of([Hist(1e308, 1e308, {1: 1e308})] * 3)
    found, _, _, _ = pool.aggregate("avg", cells, pa.array([0, 0, 0], pa.int64()), 1, 1)
    assert read(found).count == pytest.approx(1e308)


@_patiently
@given(exponential() | custom())
def test_quantiles_ascend_and_fractions_lead_back(histogram: Hist) -> None:
    pool, _ = pool_of([histogram])
    if not histogram.count or (histogram.schema == CUSTOM and histogram.bounds[0] <= 0):
        return  # A custom bucket around zero is taken to lie above it by one and not by the other.
    ranks = [i / 10 for i in range(11)]
    cells = pa.array([0] * len(ranks), pa.int32())
    found = pa.array(pool.quantile(cells, floats(ranks))[0]).to_pylist()
    assert found == sorted(found)
    below = pa.array(pool.fraction(cells, floats([-math.inf] * len(ranks)), floats(found))[0]).to_pylist()
    # At the edge of a bucket there may be empty ones, in which any rank is the same.
    for rank, value, share in zip(ranks, found, below, strict=True):
        if value and not any(math.isclose(value, edge, abs_tol=1e-9) for edge in _edges(histogram)):
            assert share == pytest.approx(rank, abs=1e-6)


def _edges(histogram: Hist) -> list[float]:
    inner = [
        histogram.upper(i + at) for side in (histogram.positive, histogram.negative) for i in side for at in (-1, 0)
    ]
    return [*inner, *(-each for each in inner), histogram.width, -histogram.width]


@_patiently
@given(exponential() | custom(), st.floats(-20, 20))
def test_what_is_trimmed_from_both_ends_was_all(histogram: Hist, at: float) -> None:
    pool, _ = pool_of([histogram])
    below, above = (read(pool.trim(pa.array([0], pa.int32()), floats([at]), keeps)) for keeps in (True, False))
    assert 0 <= below.count <= histogram.count + 1e-9
    assert 0 <= above.count <= histogram.count + 1e-9
    if histogram.schema != CUSTOM:
        assert below.count + above.count == pytest.approx(histogram.count)


def test_trimming_where_nothing_is_keeps_the_sum() -> None:
    pool, _ = pool_of([Hist(3, 123.75, {1: 2}, {2: 1})])
    for at, keeps_below in ((math.inf, True), (2.0, True), (-math.inf, False), (-4.0, False)):
        assert read(pool.trim(pa.array([0], pa.int32()), floats([at]), keeps_below)).sum == 123.75
    cut = read(pool.trim(pa.array([0], pa.int32()), floats([math.sqrt(2)]), True))
    assert cut.count == pytest.approx(2)
    assert cut.positive == {1: pytest.approx(1)}
    assert cut.sum == pytest.approx(2**0.25 - math.sqrt(8))


@pytest.mark.parametrize(
    ("before", "after", "is_reset"),
    [
        (Hist(3, 1, {1: 3}), Hist(4, 1, {1: 4}), False),
        (Hist(3, 1, {1: 3}), Hist(2, 1, {1: 2}), True),
        (Hist(3, 1, {1: 2, 2: 1}), Hist(4, 1, {1: 4}), True),
        (Hist(3, 1, {1: 3}, schema=1), Hist(3, 1, {1: 3}), False),
        (Hist(3, 1, {1: 3}), Hist(3, 1, {1: 3}, schema=1), True),
        (Hist(3, 1, {-2: 1}, zero=2, width=0.1), Hist(3, 1, zero=3, width=0.5), False),
        (Hist(3, 1, zero=3, width=0.5), Hist(3, 1, zero=3, width=0.1), True),
        (Hist(3, 1, {0: 1}, zero=2, width=0.5), Hist(3, 1, zero=3, width=0.7), True),
        (Hist(2, 1, {0: 2}, schema=CUSTOM, bounds=(1, 5)), Hist(2, 1, {0: 2}, schema=CUSTOM, bounds=(1, 3)), False),
        (Hist(2, 1, {0: 2}, schema=CUSTOM, bounds=(1, 5)), Hist(2, 1, {1: 2}, schema=CUSTOM, bounds=(1, 3)), True),
        (Hist(1, 1, {1: 1}), Hist(2, 1, {0: 2}, schema=CUSTOM, bounds=(1,)), True),
        (Hist(1, 1, {1: 1}), Hist(9, 1, {1: 9}, hint=RESET), True),
    ],
)
def test_a_counter_reset_shows_in_any_bucket(before: Hist, after: Hist, is_reset: bool) -> None:
    pool, cells = pool_of([before, after])
    watched, found = pool.watched(pa.array([0, 2], pa.int64()), cells)
    hints = [read(watched, cell).hint for cell in pa.array(found).to_pylist()]
    assert hints == [UNKNOWN, RESET if is_reset else NOT_RESET]
    assert read(watched.forgetful(), 1).hint == UNKNOWN


def test_equal_means_the_same_buckets() -> None:
    one, same, other = Hist(2, 1, {1: 2}), Hist(2, 1, {1: 2, 5: 0.0}), Hist(2, 1, {2: 2})
    pool, _ = pool_of([one, same, other])
    left, right = pa.array([0, 0], pa.int32()), pa.array([1, 2], pa.int32())
    assert pa.array(pool.equal(left, pool, right)).to_pylist() == [1, 0]


def test_histograms_are_written_with_their_edges() -> None:
    first = Hist(9, 4, {0: 1, 1: 4}, {0: 1, 1: 2}, zero=1, width=0.01)
    second = Hist(4, 1e6, {0: 1, 2: 3}, schema=CUSTOM, bounds=(5.0, 10.0))
    pool, cells = pool_of([first, second])
    assert pool.texts(cells) == [
        "{count:9, sum:4, [-2,-1):2, [-1,-0.5):1, [-0.01,0.01]:1, (0.5,1]:1, (1,2]:4}",
        "{count:4, sum:1e+06, [-Inf,5]:1, (10,+Inf]:3}",
    ]
    text = prom_json(
        pa.array(['{"a":"b"}']), floats([0, 0]), pa.array([1, 1], pa.uint8()), pa.array([0, 1500]), False, pool, cells
    )
    assert json.loads(text) == {
        "metric": {"a": "b"},
        "histograms": [
            [
                0,
                {
                    "count": "9",
                    "sum": "4",
                    "buckets": [
                        [1, "-2", "-1", "2"],
                        [1, "-1", "-0.5", "1"],
                        [3, "-0.01", "0.01", "1"],
                        [0, "0.5", "1", "1"],
                        [0, "1", "2", "4"],
                    ],
                },
            ],
            [1.5, {"count": "4", "sum": "1000000", "buckets": [[3, "-Inf", "5", "1"], [0, "10", "+Inf", "3"]]}],
        ],
    }


def test_floats_and_histograms_of_a_series_are_written_apart() -> None:
    pool, _ = pool_of([Hist()])
    cells = pa.array([-1, 0], pa.int32())
    metrics, present = pa.array(["{}"]), pa.array([1, 1], pa.uint8())
    text = prom_json(metrics, floats([2.5, 0]), present, pa.array([0, 1000]), False, pool, cells)
    assert json.loads(text) == {
        "metric": {},
        "values": [[0, "2.5"]],
        "histograms": [[1, {"count": "0", "sum": "0"}]],
    }
