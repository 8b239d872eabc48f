"""Numbers of 64 bits in memory: most integers are small, and are held in the narrowest type that has room for all of a
column. So are the doubles of a data file if all of them are whole: percentages, counts, sizes.

What is read of a column is widened again, unless the reader takes narrow values: memory is what scans wait for.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

WIDE = pa.int64()
"""The type whose values may be held in a narrower one."""
DOUBLE = pa.float64()
"""The type whose values may be held as integers."""

_NARROW = ((1 << 7, pa.int8()), (1 << 15, pa.int16()), (1 << 31, pa.int32()))


def narrowed(values: pa.Array) -> pa.Array:
    """Return integers of 64 bits in the narrowest type that holds all of them, and everything else as it is."""
    if values.type != WIDE:
        return values
    low, high = pc.min_max(values).values()
    if not low.is_valid:  # no value at all
        return values.cast(pa.int8(), safe=False)
    least, most = low.as_py(), high.as_py()
    for bound, kind in _NARROW:
        if -bound <= least and most < bound:
            return values.cast(kind, safe=False)
    return values


def concat_held(arrays: Sequence[pa.Array]) -> pa.Array:
    """Lay arrays of one column end to end, in the widest of their types."""
    kinds = {values.type for values in arrays}
    if len(kinds) > 1:
        widest = max(kinds, key=lambda kind: kind.bit_width)
        arrays = [values.cast(widest) for values in arrays]
    return pa.concat_arrays(arrays)


def widened(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers in the type they were written with; everything else has it, times are numbers."""
    # A double that is held as an integer is the same again, however large.
    return values.cast(kind, safe=False) if is_narrower(values, kind) else values


def is_narrower(values: pa.Array, kind: pa.DataType) -> bool:
    """Tell whether values of a type are held in another one."""
    return kind in (WIDE, DOUBLE) and values.type != kind
