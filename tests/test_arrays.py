"""Arrays as kernels return them, and what arrays of Arrow take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tsdb import _kernels
from tsdb.arrays import array_bytes, as_numpy

ARRAYS = [
    pa.array([1.5, 2.5, 3.5]),
    pa.array([1, None, 3], pa.int32()),
    pa.array([True, None] * 9),
    pa.array([1, 2], pa.timestamp("ms")),
    pa.array(["a", None, "ccc"]),
    pa.array(["a", "a", "b"]).dictionary_encode(),
    pa.array([], pa.int64()),
    pa.array(range(100), pa.int16()).slice(10, 50),
]


@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: str(values.type))
def test_bytes_are_those_that_arrow_counts(values: pa.Array) -> None:
    # Bits that are begun count as bytes, of values and of nulls together.
    assert abs(array_bytes(values) - values.nbytes) <= 1


def test_a_view_of_plain_numbers_cannot_be_written_to() -> None:
    (tables,) = _kernels.LineParser(1 << 10, 1 << 20).parse(b"m v=1 7\nm v=2 8", factor=1, default_time=0)
    times = as_numpy(tables.times)
    assert times.tolist() == [7, 8]
    assert times.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        times[0] = 1


def test_what_is_no_plain_memory_is_refused() -> None:
    (tables,) = _kernels.LineParser(1 << 10, 1 << 20).parse(b"m v=1 7", factor=1, default_time=0)
    with pytest.raises(TypeError, match="plain memory"):
        as_numpy(tables.fields)
