"""Floats that are stored as integers.

Many a measurement is a float by type and a whole number by nature: a percentage, a count of bytes, whatever comes by a
protocol that knows floats only. Parquet has no encoding for steps between floats. As integers in DELTA_BINARY_PACKED,
percentages that walk take 0.38 bytes a value where the best encoding of floats takes 0.84.

A column is stored so if every value of every source is a whole number, bit for bit (which `-0.0` and NaN are not), and
the steps between them are short. What is stored as integers is known to be whole when files are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.rows.source import SourceReader
from tsdb.engine.sst._encoding import sample_ranges, step_bits
from tsdb.model import Column, ColumnId, RegionSchema

STEP_BITS_MAX = 12
"""Longer steps are left to the encodings of floats, which find what is common to their bytes."""

_FLOAT = pa.float64()
_PART = 1 << 16


class _StoresWhole(Protocol):
    def stores_whole(self, column: ColumnId) -> bool: ...


class _HoldsPieces(Protocol):
    def held_pieces(self, column: ColumnId) -> Iterator[pa.Array]: ...


def whole_columns(sources: Iterable[SourceReader], schema: RegionSchema) -> frozenset[ColumnId]:
    """Return the fields that can be stored as integers, wherever rows of these sources go together."""
    sources = list(sources)
    fields = [column for column in schema.fields if column.type == _FLOAT]
    return frozenset(column.id for column in fields if _is_whole_in_all(sources, column))


def _is_whole_in_all(sources: Sequence[SourceReader], column: Column) -> bool:
    """Whether no value contradicts, and there is one at all."""
    found = False
    for source in sources:
        is_whole = _is_whole_in(source, column)
        if is_whole is False:
            return False
        found |= is_whole is True
    return found


def _is_whole_in(source: SourceReader, column: Column) -> bool | None:
    """Whether the values of a source are whole; None if it has none."""
    if column.id not in source.schema.by_id:
        first = column.first
        return _are_whole_in_all([pa.array([first.default], first.type)])
    if _is_in_memory(source):
        return _are_whole_in_all(source.held_pieces(column.id))
    return _may_store_whole(source) and source.stores_whole(column.id)


def _are_whole_in_all(pieces: Iterable[pa.Array]) -> bool | None:
    found = None
    for values in pieces:
        if values.null_count < len(values):
            if not are_whole(values):
                return False
            found = True
    return found


def _is_in_memory(source: object) -> TypeGuard[_HoldsPieces]:
    return hasattr(source, "held_pieces")


def _may_store_whole(source: object) -> TypeGuard[_StoresWhole]:
    return hasattr(source, "stores_whole")


def are_whole(values: pa.Array) -> bool:
    """Tell whether floats are whole numbers, all bits of them, in short steps."""
    if values.type != _FLOAT:
        return False
    floats: npt.NDArray[np.float64] = (values.drop_null() if values.null_count else values).to_numpy()
    with np.errstate(invalid="ignore"):
        for start in range(0, len(floats), _PART):
            part = floats[start : start + _PART]
            again = part.astype(np.int64).astype(np.float64)
            if not np.array_equal(again.view(np.int64), part.view(np.int64)):
                return False
    return step_bits(np.concatenate(sample_ranges(floats)).astype(np.int64)) <= STEP_BITS_MAX
