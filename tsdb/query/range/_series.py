"""Where one series ends and the next begins, in a table sorted by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt


def series_starts(columns: Sequence[pa.ChunkedArray], rows: int) -> np.ndarray:
    """Return the first row of every run of equal values; NULL equals NULL."""
    if rows == 0:
        return np.zeros(0, np.int64)
    changes = np.zeros(rows, bool)
    changes[0] = True
    for column in columns:
        codes = _codes(column.combine_chunks())
        changes[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changes)


def _codes(values: pa.Array) -> np.ndarray:
    """Return numbers that are equal where values are."""
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pt.is_null(values.type):
        return np.zeros(len(values), np.int64)
    if pt.is_nested(values.type) or pt.is_interval(values.type):
        # No kernel compares these, and hardly anyone groups by them.
        values = pa.array([repr(value) for value in values.to_pylist()])
    if pt.is_string_view(values.type):
        values = values.cast(pa.string())
    if pt.is_binary_view(values.type):
        values = values.cast(pa.binary())
    encoded = values.dictionary_encode(null_encoding="encode")
    codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False)
    return codes
