"""Times in CSV and tables: as text, unless the request has an `epoch`.

    timestamp    2024-01-30 12:30:00.500    in the zone of the session, with the digits of the column's unit
    date         2024-01-30
    time         12:30:00.500

A timestamp beyond the years that text can represent remains an integer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.errors import InvalidArguments
from tsdb.model import local_times
from tsdb.servers.http.sql._formats import Epoch

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_OUT_OF_RANGE = "<value out of range: "


def shown_times(batch: pa.RecordBatch, *, epoch: Epoch | None, zone: str) -> pa.RecordBatch:
    """Return a batch whose columns of times are text, or with an epoch integers of that unit."""
    columns = [_shown(column, epoch, zone) for column in batch.columns]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    # A column that has become text no longer has its SQL type.
    fields = [
        field if new is old else pa.field(field.name, new.type)
        for field, new, old in zip(batch.schema, columns, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _shown(column: pa.Array, epoch: Epoch | None, zone: str) -> pa.Array:
    kind = column.type
    if pt.is_timestamp(kind):
        return _text(local_times(column, zone)) if epoch is None else _in_epoch(column, epoch)
    if epoch is None and (pt.is_date(kind) or pt.is_time(kind)):
        return column.cast(pa.string())
    return column


def _text(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    is_far = pc.starts_with(text, _OUT_OF_RANGE)
    if not pc.any(is_far).as_py():
        return text
    return pc.if_else(is_far, column.cast(pa.int64()).cast(pa.string()), text)


def _in_epoch(column: pa.Array, epoch: Epoch) -> pa.Array:
    """Return timestamps as integers of a unit, rounded down."""
    numbers = column.cast(pa.int64())
    have, wanted = _PER_SECOND[column.type.unit], _PER_SECOND[epoch]
    if wanted >= have:
        try:
            return pc.multiply_checked(numbers, wanted // have)
        except pa.ArrowInvalid as error:
            raise InvalidArguments(f"a timestamp is out of range for epoch={epoch}") from error
    whole = np.floor_divide(numbers.fill_null(0).to_numpy(zero_copy_only=False), have // wanted)
    return pc.if_else(numbers.is_null(), None, pa.array(whole, pa.int64()))
