"""Values on their way into columns: what is kept is what was sent, whatever the types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tsdb.database.writing.values import convert, scale_times
from tsdb.model import ColumnId, ColumnInfo, DataType, InvalidTimestamp, Kind, Semantic, can_widen, check_range

UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS = [
    *(Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64),
    *(Kind.FLOAT32, Kind.FLOAT64),
]


def is_time(value: int, unit: str) -> bool:
    try:
        check_range(value, unit)
    except InvalidTimestamp:
        return False
    return -(1 << 63) <= value < 1 << 63


@given(
    st.lists(INT64 | st.integers(-(10**13), 10**13), max_size=8),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(sorted(UNITS)),
)
def test_times_are_rounded_towards_the_past_or_marked_as_out_of_range(
    times: list[int], source: str, target: str
) -> None:
    scaled, bad = scale_times(np.array(times, dtype=np.int64), source, target)
    wanted = [time * UNITS[source] // UNITS[target] for time in times]
    fits = [is_time(time, target) for time in wanted]
    assert [not each for each in fits] == ([False] * len(times) if bad is None else bad.tolist())
    assert [time for time, is_good in zip(wanted, fits, strict=True) if is_good] == [
        int(time) for time, is_good in zip(scaled, fits, strict=True) if is_good
    ]


@given(st.data(), st.sampled_from(NUMBERS), st.sampled_from(NUMBERS))
def test_a_number_is_the_same_number_in_its_column_or_refused(
    data: st.DataObject, given_kind: Kind, kind: Kind
) -> None:
    source, target = DataType(given_kind), DataType(kind)
    if source.is_float:
        width = source.arrow.bit_width
        cells = st.floats(width=32 if width == 32 else 64, allow_nan=False)
    else:
        bits, is_signed = source.arrow.bit_width, given_kind.value.startswith("I")
        cells = st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else st.integers(0, (1 << bits) - 1)
    sent = data.draw(st.lists(st.none() | cells, min_size=1, max_size=6))
    column = ColumnInfo(ColumnId(0), "c", target, Semantic.FIELD)
    kept, bad = convert(pa.array(sent, source.arrow), None, column)
    assert kept.type == target.arrow
    refused = [False] * len(sent) if bad is None else bad.tolist()
    for value, found, is_refused in zip(sent, kept.to_pylist(), refused, strict=True):
        assert is_refused or found == value
        assert not (is_refused and value is None)
        if is_refused and can_widen(source.arrow, target.arrow):
            assert isinstance(value, int)
            assert abs(value) > 1 << 53
