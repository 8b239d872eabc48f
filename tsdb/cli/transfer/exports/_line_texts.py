"""Rows as line protocol, made column by column.

A field that is null is left out; so are NaN and infinities, which line protocol cannot say. A row without any field
cannot be written at all: it is counted. An empty tag is a tag that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.cli.shown import TimeStyle, cell_texts
from tsdb.model import NS_PER_UNIT


def line_texts(batch: pa.RecordBatch, *, measurement: str, time: str, tags: Sequence[str]) -> tuple[bytes, int]:
    """Return the lines of a batch, and how many rows cannot be lines."""
    series = pa.array([_escaped(measurement, ", ")] * batch.num_rows, pa.string())
    for tag in tags:
        series = pc.binary_join_element_wise(series, _tag_texts(batch.column(tag), tag), "")
    fields = [name for name in batch.schema.names if name != time and name not in tags]
    joined = pa.array([""] * batch.num_rows, pa.string())
    for name in fields:
        joined = pc.binary_join_element_wise(joined, _field_texts(batch.column(name), name), "")
    has_fields = pc.not_equal(joined, "")
    values = pc.utf8_slice_codeunits(joined, start=1)
    lines = pc.binary_join_element_wise(series, values, _nanoseconds(batch.column(time)), " ")
    kept = lines.filter(has_fields)
    left_out = batch.num_rows - len(kept)
    if not len(kept):
        return b"", left_out
    whole = pa.ListArray.from_arrays(pa.array([0, len(kept)], pa.int32()), kept)
    return pc.binary_join(whole, "\n")[0].as_py().encode() + b"\n", left_out


def _escaped(text: str, characters: str) -> str:
    for each in characters.replace(" ", "") + " ":
        text = text.replace(each, f"\\{each}")
    return text.replace("\n", "\\n")


def _tag_texts(column: pa.Array, name: str) -> pa.Array:
    values = cell_texts(column, "UTC", TimeStyle.RFC3339)
    for each in (",", "=", " "):
        values = pc.replace_substring(values, each, f"\\{each}")
    pairs = pc.binary_join_element_wise(f",{_escaped(name, ',= ')}=", values, "")
    is_there = pc.fill_null(pc.not_equal(values, ""), False)
    return pc.if_else(is_there, pairs, "")


def _field_texts(column: pa.Array, name: str) -> pa.Array:
    """Return `,name=value` of each row, nothing where there is no value."""
    kind = column.type
    if pt.is_floating(kind):
        finite = pc.fill_null(pc.is_finite(column), False)
        values = pc.if_else(finite, column, pa.scalar(None, kind)).cast(pa.string())
    elif pt.is_unsigned_integer(kind) or pt.is_signed_integer(kind):
        suffix = "u" if pt.is_unsigned_integer(kind) else "i"
        values = pc.binary_join_element_wise(column.cast(pa.string()), suffix, "")
    elif pt.is_boolean(kind):
        values = column.cast(pa.string())
    else:
        texts = cell_texts(column, "UTC", TimeStyle.RFC3339)
        escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        values = pc.binary_join_element_wise('"', escaped, '"', "")
    return pc.fill_null(pc.binary_join_element_wise(f",{_escaped(name, ',= ')}=", values, ""), "")


def _nanoseconds(column: pa.Array) -> pa.Array:
    numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return pa.array(numbers * np.int64(NS_PER_UNIT[column.type.unit]), pa.int64()).cast(pa.string())
