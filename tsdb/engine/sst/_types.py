"""How a column's type is stored in Parquet: as itself wherever Parquet keeps every bit of it, else as a plain relative.

| type                    | stored as             | because                                                       |
|-------------------------|-----------------------|---------------------------------------------------------------|
| timestamp in seconds    | int64                 | Parquet begins at milliseconds, and times 1000 overflows      |
| time32 in seconds       | int32                 | the same                                                      |
| date64                  | int64                 | Parquet's date counts days                                    |
| month_day_nano_interval | fixed_size_binary(16) | Parquet's own interval has milliseconds                       |
| dictionary              | its values            | Parquet chooses its own dictionaries                          |
| float64                 | int64, if all of a    | steps between integers are short                              |
|                         | file are whole        |                                                               |

The region's schema in the footer says what a column was, so readers get the type back that was written.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import RegionSchema

_INTERVAL_BYTES = pa.binary(16)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values are stored; Unsupported if there is none that keeps them."""
    if types.is_nested(kind):
        return _nested(kind)
    if types.is_interval(kind):
        return _INTERVAL_BYTES
    if types.is_dictionary(kind):
        return storage_type(kind.value_type)
    if types.is_date64(kind) or (types.is_timestamp(kind) and kind.unit == "s"):
        return pa.int64()
    if types.is_time32(kind) and kind.unit == "s":
        return pa.int32()
    return kind


def check_storable(schema: RegionSchema) -> None:
    """Raise InvalidArguments if a column has a type that files cannot store."""
    for column in schema.columns:
        try:
            storage_type(column.type)
        except Unsupported as error:
            raise InvalidArguments(error.message, column=column.name, hint=error.hint) from None


def to_storage(values: pa.Array) -> pa.Array:
    """Return values in the type in which they are stored, every bit of them kept."""
    wanted = storage_type(values.type)
    if values.type == wanted:
        return values
    return values.view(wanted) if types.is_interval(values.type) else values.cast(wanted)


def from_storage(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return stored values in the type they had."""
    if values.type == kind:
        return values
    if types.is_interval(kind):
        return values.view(kind)
    if types.is_dictionary(kind):
        return pc.dictionary_encode(from_storage(values, kind.value_type)).cast(kind)
    # A float that was stored as an integer is the same again, however large.
    return values.cast(kind, safe=not types.is_floating(kind))


def leaf_count(kind: pa.DataType) -> int:
    """How many columns of Parquet a stored column takes."""
    return sum(leaf_count(child) for child in _children(kind)) if types.is_nested(kind) else 1


def _children(kind: pa.DataType) -> list[pa.DataType]:
    if types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(at).type for at in range(kind.num_fields)]


def _nested(kind: pa.DataType) -> pa.DataType:
    is_known = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not (is_known or types.is_struct(kind) or types.is_map(kind)) or not _children(kind):
        raise _unsupported(kind)
    # Values inside others are converted by casts, and for these there is none.
    if any(types.is_interval(child) or types.is_dictionary(child) for child in _children(kind)):
        raise _unsupported(kind)
    stored = [storage_type(child) for child in _children(kind)]
    if types.is_map(kind):
        return pa.map_(*stored)
    if types.is_struct(kind):
        return pa.struct([_retyped(kind.field(at), child) for at, child in enumerate(stored)])
    item = _retyped(kind.value_field, stored[0])
    if types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    return pa.large_list(item) if types.is_large_list(kind) else pa.list_(item)


def _retyped(field: Any, kind: pa.DataType) -> Any:
    return pa.field(field.name, kind, field.nullable)


def _unsupported(kind: pa.DataType) -> Unsupported:
    return Unsupported(f"columns of type {kind} cannot be stored in data files", hint="choose another type")
