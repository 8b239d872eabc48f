"""Rows whose columns are only known when the request has been read: one per attribute, with the type of its values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tsdb.ingest._builder import make_tags
from tsdb.ingest.otlp._attributes import Value, to_json, to_text
from tsdb.ingest.rows import TableRows
from tsdb.model import DataType, Kind

_KINDS: dict[type, Kind] = {
    str: Kind.STRING,
    bool: Kind.BOOLEAN,
    int: Kind.INT64,
    float: Kind.FLOAT64,
    bytes: Kind.BINARY,
    list: Kind.JSON,
    dict: Kind.JSON,
}


class TypedColumns:
    """The rows of one table: fields that all have, and attributes that some have."""

    def __init__(
        self,
        table: str,
        unit: str,
        *,
        first: Mapping[str, DataType],
        last: Mapping[str, DataType],
        tags: tuple[str, ...],
    ) -> None:
        self.table = table
        self._unit = unit
        self._first, self._last, self._tags = first, last, tags
        self._series: dict[tuple[tuple[str, str], ...], int] = {}
        self._index: list[int] = []
        self._times: list[int] = []
        self._places: list[int] = []
        self._fixed: dict[str, list[object]] = {name: [] for name in (*first, *last)}
        self._attributes: dict[str, dict[int, Value]] = {}

    def add(
        self,
        tags: tuple[tuple[str, str], ...],
        time: int,
        values: Mapping[str, object],
        found: Mapping[str, Value],
        *,
        place: int,
    ) -> None:
        """Add a row with a value for every fixed field, and its attributes by the names of their columns."""
        row = len(self._times)
        for name, column in self._fixed.items():
            column.append(values[name])
        for name, value in found.items():
            self._attributes.setdefault(name, {})[row] = value
        self._index.append(self._series.setdefault(tags, len(self._series)))
        self._times.append(time)
        self._places.append(place)

    def build(self) -> list[TableRows]:
        """Make the columns; nothing if there are no rows."""
        rows = len(self._times)
        if not rows:
            return []
        types = dict(self._first)
        fields = {name: pa.array(self._fixed[name], kind.arrow) for name, kind in self._first.items()}
        for name, found in self._attributes.items():
            types[name], fields[name] = _make_column(found, rows)
        for name, kind in self._last.items():
            types[name], fields[name] = kind, pa.array(self._fixed[name], kind.arrow)
        columns = ("", *self._first, *self._tags, *self._attributes, *self._last)
        return [
            TableRows(
                table=self.table,
                tags=make_tags(list(self._series), self._tags),
                series_index=np.array(self._index, np.uint32),
                times=np.array(self._times, np.int64),
                unit=self._unit,
                fields=fields,
                columns=columns,
                places=np.array(self._places, np.int64),
                types={name: kind for name, kind in types.items() if kind.kind is Kind.JSON},
            )
        ]


def _make_column(found: Mapping[int, Value], rows: int) -> tuple[DataType, pa.Array]:
    kind = _common_kind({_KINDS[type(value)] for value in found.values()})
    values: list[object] = [None] * rows
    for row, value in found.items():
        if kind is Kind.JSON:
            values[row] = to_json(value)
        elif kind is Kind.STRING:
            values[row] = to_text(value)
        else:
            values[row] = value
    return DataType(kind), pa.array(values, DataType(kind).arrow)


def _common_kind(kinds: set[Kind]) -> Kind:
    if len(kinds) == 1:
        return next(iter(kinds))
    return Kind.FLOAT64 if kinds == {Kind.INT64, Kind.FLOAT64} else Kind.STRING
