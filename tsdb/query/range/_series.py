"""Where one series ends and the next begins, in a table sorted by them; and types no kernel of Arrow handles."""

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
    encoded = values.dictionary_encode(null_encoding="encode")
    codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False)
    return codes


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type that every kernel knows: views are texts and bytes like others."""
    if pt.is_string_view(kind):
        return pa.string()
    return pa.binary() if pt.is_binary_view(kind) else kind


def without_views(table: pa.Table) -> pa.Table:
    """Return a table whose columns have plain types."""
    fields = [field.with_type(plain_type(field.type)) for field in table.schema]
    schema = pa.schema(fields, table.schema.metadata)
    return table if schema.types == table.schema.types else table.cast(schema)
