"""The columns of a data file: those of the region under their ids, and the engine's own.

Parquet's field ids are the column ids of the region, so a rename changes no file. The engine's own columns have ids at
the end of the range and stand last; should a user's column have the same name, the engine's gets another underscore.

| column       | type   | when                                                     |
|--------------|--------|----------------------------------------------------------|
| `__tsid`     | uint64 | always                                                   |
| `__sequence` | uint64 | unless one sequence stands for all, which the footer says |
| `__op_type`  | uint8  | if a row may be a tombstone                              |
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from tsdb.engine.sst._types import leaf_count, storage_type
from tsdb.errors import Unsupported
from tsdb.model import Column, ColumnId, RegionSchema, Semantic

TSID = ColumnId((1 << 31) - 1)
SEQUENCE = ColumnId((1 << 31) - 2)
OP_TYPE = ColumnId((1 << 31) - 3)

_FIELD_ID = b"PARQUET:field_id"
_CODES = pa.int32()


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of a file that is to be written."""

    arrow: pa.Schema
    names: dict[ColumnId, str]
    whole: frozenset[str]
    """The names of floats that are stored as integers."""

    @classmethod
    def of(
        cls,
        schema: RegionSchema,
        *,
        has_sequences: bool,
        has_ops: bool,
        whole: frozenset[ColumnId] = frozenset(),
    ) -> FileColumns:
        fields = [_field(column, is_whole=column.id in whole) for column in schema.columns]
        names = {column.id: column.name for column in schema.columns}
        own = [(TSID, "__tsid", pa.uint64())]
        own += [(SEQUENCE, "__sequence", pa.uint64())] if has_sequences else []
        own += [(OP_TYPE, "__op_type", pa.uint8())] if has_ops else []
        for column_id, name, kind in own:
            names[column_id] = _free_name(name, names.values())
            fields.append(_identified(pa.field(names[column_id], kind, nullable=False), column_id))
        return cls(pa.schema(fields), names, frozenset(names[column] for column in whole))


def is_dictionary_tag(kind: pa.DataType) -> bool:
    """Whether tags of a type are handed to Parquet as codes of a dictionary."""
    stored = storage_type(kind)
    return bool(types.is_string(stored) or types.is_binary(stored))


def leaves_by_id(stored: pa.Schema) -> dict[ColumnId, range]:
    """Find which columns of Parquet make up each column of the file."""
    leaves = {}
    first = 0
    for field in stored:
        stop = first + leaf_count(field.type)
        leaves[ColumnId(int(field.metadata[_FIELD_ID]))] = range(first, stop)
        first = stop
    return leaves


def _field(column: Column, *, is_whole: bool) -> pa.Field:
    try:
        kind = pa.int64() if is_whole else storage_type(column.type)
    except Unsupported as error:
        raise Unsupported(error.message, hint=error.hint, column=column.name) from None
    if column.semantic is Semantic.TAG and is_dictionary_tag(column.type):
        kind = pa.dictionary(_CODES, kind)
    # A tombstone has no fields, not even those that may not be null.
    nullable = column.semantic is not Semantic.TIMESTAMP
    return _identified(pa.field(column.name, kind, nullable), column.id)


def _identified(field: pa.Field, column_id: ColumnId) -> pa.Field:
    return field.with_metadata({_FIELD_ID: str(column_id)})


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name
