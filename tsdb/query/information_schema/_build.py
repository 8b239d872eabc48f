"""Columns of values into a table of a known schema: what every describing table is put together with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

ColumnValues: TypeAlias = Sequence[Any] | pa.Array | str | int | float | bool | None
"""One value for each row, or one for all of them."""


def build_table(schema: pa.Schema, rows: int, columns: Mapping[str, ColumnValues]) -> pa.Table:
    """Return a table of `rows` rows. A column that is not given is null; one that the schema lacks is an error."""
    unknown = columns.keys() - set(schema.names)
    if unknown:
        raise KeyError(f"no such columns: {sorted(unknown)}")
    return pa.table([_column(field, rows, columns.get(field.name)) for field in schema], schema)


def _column(field: pa.Field, rows: int, values: ColumnValues) -> pa.Array:
    if values is None:
        if rows and not field.nullable:
            raise ValueError(f"column {field.name} cannot be null")
        return pa.nulls(rows, field.type)
    if isinstance(values, str | int | float | bool):
        return pa.repeat(pa.scalar(values, field.type), rows)
    return values if isinstance(values, pa.Array) else pa.array(values, field.type)
