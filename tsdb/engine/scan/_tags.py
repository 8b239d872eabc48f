"""Tag columns of rows, made from the tags of their series.

Rows come sorted by series, so a tag column is runs of equal values. Tags are never stored per row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.rows.series import Positions


def repeat_tags(values: pa.Array, ranks: Positions, lengths: Positions) -> pa.Array:
    """Return the tag of run after run: `values[ranks[i]]` in `lengths[i]` rows."""
    if pa.types.is_string(values.type):
        return _repeat_strings(values, ranks, lengths)
    return values.take(pa.array(np.repeat(ranks, lengths)))


def _repeat_strings(values: pa.Array, ranks: Positions, lengths: Positions) -> pa.Array:
    offsets, content = (pa.array(part) for part in _kernels.repeat_strings(values, pa.array(ranks), pa.array(lengths)))
    validity = _repeat_validity(values.take(pa.array(ranks)), lengths) if values.null_count else None
    return pa.Array.from_buffers(values.type, len(offsets) - 1, [validity, offsets.buffers()[1], content.buffers()[1]])


def _repeat_validity(values: pa.Array, lengths: Positions) -> pa.Buffer:
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(np.repeat(valid, lengths), bitorder="little"))
