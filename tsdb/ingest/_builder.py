"""Collects rows one by one and makes the columns of a table of them once.

For protocols whose messages are Python objects already. Tags are interned per distinct series; a field that a row lacks
is null, and so is one that earlier rows lacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from tsdb.ingest.rows import TableRows
from tsdb.model import DataType, Kind

VALUE_COLUMN = "tsdb_value"
"""The field of protocols that know one value per row."""


class RowsBuilder:
    """The rows of one table while a request is read."""

    def __init__(
        self,
        table: str,
        unit: str,
        types: Mapping[str, DataType],
        *,
        columns: tuple[str, ...] = (),
        tags: tuple[str, ...] = (),
    ) -> None:
        """`types` names every field that a row may have, `tags` those that the table has even if no row does."""
        self.table = table
        self._unit = unit
        self._types = dict(types)
        self._columns = columns
        self._tags = tags
        self._series: dict[tuple[tuple[str, str], ...], int] = {}
        self._index: list[int] = []
        self._times: list[int] = []
        self._places: list[int] = []
        self._values: dict[str, list[object]] = {name: [] for name in self._types}

    def declare(self, field: str, kind: DataType) -> None:
        """Let rows from now on have one more field, unless they may have it already."""
        if field not in self._types:
            self._types[field] = kind
            self._values[field] = []

    def series(self, tags: tuple[tuple[str, str], ...]) -> int:
        """Return the number of a series."""
        return self._series.setdefault(tags, len(self._series))

    def add(self, series: int, time: int, values: Mapping[str, object], *, place: int) -> None:
        """Add a row."""
        row = len(self._times)
        for name, value in values.items():
            column = self._values[name]
            if len(column) < row:
                column.extend([None] * (row - len(column)))
            column.append(value)
        self._index.append(series)
        self._times.append(time)
        self._places.append(place)

    def build(self) -> TableRows:
        """Make the columns."""
        rows = len(self._times)
        for column in self._values.values():
            column.extend([None] * (rows - len(column)))
        return TableRows(
            table=self.table,
            tags=make_tags(list(self._series), self._tags),
            series_index=np.array(self._index, np.uint32),
            times=np.array(self._times, np.int64),
            unit=self._unit,
            fields={name: pa.array(column, self._types[name].arrow) for name, column in self._values.items()},
            columns=self._columns,
            places=np.array(self._places, np.int64),
            types={name: kind for name, kind in self._types.items() if kind.kind is Kind.JSON},
        )


def single_value_rows(samples: Iterable[tuple[str, tuple[tuple[str, str], ...], float, int]]) -> list[TableRows]:
    """Make rows of samples (table, tags, value, time in milliseconds); their places are their indexes."""
    builders: dict[str, RowsBuilder] = {}
    for place, (table, tags, value, time_ms) in enumerate(samples):
        builder = builders.get(table)
        if builder is None:
            builder = builders[table] = RowsBuilder(table, "ms", {VALUE_COLUMN: DataType(Kind.FLOAT64)})
        builder.add(builder.series(tags), time_ms, {VALUE_COLUMN: value}, place=place)
    return [builder.build() for builder in builders.values()]


def make_tags(series: list[tuple[tuple[str, str], ...]], first: tuple[str, ...] = ()) -> pa.RecordBatch:
    """One row per series, one column per tag: the `first`, then all that any series has, as they appear."""
    names = list(dict.fromkeys([*first, *(name for tags in series for name, _ in tags)]))
    if not names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(series), pa.struct([])))
    found = [dict(tags) for tags in series]
    arrays = [pa.array([each.get(name) for each in found], pa.string()) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names)
