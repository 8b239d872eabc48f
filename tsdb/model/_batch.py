"""Rows on their way into one region: tags once per distinct series, everything else in columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.model._schema import RegionSchema
from tsdb.model._series import SeriesTable, distinct_series


class OpType(IntEnum):
    """The operation of a row."""

    PUT = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one region.

    - `series_index[i]` is the position in `series` of row i's tags.
    - `times` are in the unit of the region's time column.
    - `fields` holds the columns that were given; a field of the region that is absent is null in every row. With
      DELETE there are none.
    """

    series: SeriesTable
    series_index: npt.NDArray[np.uint32]
    times: npt.NDArray[np.int64]
    fields: dict[str, pa.Array]
    op: OpType = OpType.PUT

    def __post_init__(self) -> None:
        assert len(self.series_index) == len(self.times)
        assert all(len(column) == len(self.times) for column in self.fields.values())

    @property
    def rows(self) -> int:
        return len(self.times)

    @classmethod
    def from_arrow(cls, schema: RegionSchema, data: pa.RecordBatch, op: OpType = OpType.PUT) -> Batch:
        """Make a batch from plain columns: hash the tags of every row and keep each distinct series once.

        Parsers that already know the series of each row make batches without this.
        """
        names = [tag.name for tag in schema.tags]
        tags = [_tag_column(data, tag.name, tag.type) for tag in schema.tags]
        series, index = distinct_series(tags, names, data.num_rows)
        times = data.column(schema.time.name).cast(schema.time.type).cast(pa.int64())
        fields = {
            field.name: data.column(field.name).cast(field.type)
            for field in schema.fields
            if op is OpType.PUT and data.schema.get_field_index(field.name) >= 0
        }
        return cls(series, index, times.to_numpy(zero_copy_only=False), fields, op)


def _tag_column(data: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    if data.schema.get_field_index(name) < 0:
        return pa.nulls(data.num_rows, kind)
    return data.column(name).cast(kind)
