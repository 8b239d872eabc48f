"""Tag columns of rows, made from the tags of their series.

Rows come sorted by series, so a tag column is runs of equal values. Tags are never stored per row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.series import Positions


def repeat_tags(values: pa.Array, ranks: Positions, lengths: Positions, kind: pa.DataType) -> pa.Array:
    """Return the tag of run after run: `values[ranks[i]]` in `lengths[i]` rows, as `kind`."""
    if pa.types.is_string(kind):
        return _repeat_strings(values, ranks, lengths)
    if pa.types.is_string_view(kind):
        return _repeat_views(values.take(pa.array(ranks)).cast(kind), lengths)
    return values.take(pa.array(np.repeat(ranks, lengths)))


def _repeat_strings(values: pa.Array, ranks: Positions, lengths: Positions) -> pa.Array:
    offsets, content = (pa.array(part) for part in _kernels.repeat_strings(values, pa.array(ranks), pa.array(lengths)))
    validity = _repeat_validity(values.take(pa.array(ranks)), lengths) if values.null_count else None
    return pa.Array.from_buffers(values.type, len(offsets) - 1, [validity, offsets.buffers()[1], content.buffers()[1]])


def _repeat_views(values: pa.Array, lengths: Positions) -> pa.Array:
    _, views, *content = values.buffers()
    sixteen = np.frombuffer(views, dtype="V16", count=values.offset + len(values))[values.offset :]
    repeated: npt.NDArray[np.void] = np.repeat(sixteen, lengths)
    validity = _repeat_validity(values, lengths) if values.null_count else None
    return pa.Array.from_buffers(values.type, len(repeated), [validity, pa.py_buffer(repeated), *content])


def _repeat_validity(values: pa.Array, lengths: Positions) -> pa.Buffer:
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(np.repeat(valid, lengths), bitorder="little"))
