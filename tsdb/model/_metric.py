"""The columns that a physical table of the metric engine shows.

The schema of a physical table grows with the labels of its logical tables, so that all of them are visible. Its region
does not know them: there, all labels of a row are one text. Only the field of native histograms, which comes with the
first of them, changes the region too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tsdb.errors import InvalidArguments
from tsdb.model._alter import AddColumn
from tsdb.model._schema import ColumnId, Semantic
from tsdb.model._table import HISTOGRAM_COLUMN, METRIC_TABLE_ID, ColumnIndex, ColumnInfo, TableInfo
from tsdb.model._types import DataType, Kind

METRIC_TSID = "__tsid"
"""The column of a physical table that shows the number of a row's series."""

_GRANULARITY = "10240"
_FALSE_POSITIVE_RATE = "0.01"


def add_labels(physical: TableInfo, labels: Iterable[str]) -> TableInfo:
    """Return a physical table that shows labels too; the same one if it shows them already."""
    indexes = _label_indexes(physical)
    wanted = [
        (METRIC_TABLE_ID, DataType(Kind.UINT32), False, indexes),
        (METRIC_TSID, DataType(Kind.UINT64), False, ()),
        *((label, DataType(Kind.STRING), True, indexes) for label in labels),
    ]
    added = [
        ColumnInfo(ColumnId(0), name, kind, Semantic.TAG, nullable=nullable, indexes=indexed)
        for name, kind, nullable, indexed in wanted
        if name not in physical.by_name
    ]
    if not added:
        return physical
    first = physical.next_column_id
    numbered = tuple(replace(column, id=ColumnId(first + at)) for at, column in enumerate(added))
    return replace(
        physical,
        columns=(*physical.columns, *numbered),
        primary_key=(*physical.primary_key, *(column.name for column in numbered)),
        next_column_id=first + len(numbered),
    )


def add_histogram(physical: TableInfo) -> tuple[TableInfo, AddColumn]:
    """Return a physical table that lacks the field of native histograms with it, and what that is to its region."""
    taken = physical.by_name.get(HISTOGRAM_COLUMN)
    if taken is not None:
        raise InvalidArguments(
            f"table {physical.name} cannot have native histograms: its column {HISTOGRAM_COLUMN} is a"
            f" {taken.semantic.value} of type {taken.type.name}",
            hint="write them to another physical table",
        )
    kind = DataType(Kind.BINARY)
    column = ColumnInfo(ColumnId(physical.next_column_id), HISTOGRAM_COLUMN, kind, Semantic.FIELD)
    widened = replace(physical, columns=(*physical.columns, column), next_column_id=physical.next_column_id + 1)
    return widened, AddColumn(HISTOGRAM_COLUMN, kind.arrow, Semantic.FIELD)


def _label_indexes(physical: TableInfo) -> tuple[ColumnIndex, ...]:
    """The index that a physical table's options declare for its labels."""
    options = physical.options
    if options.get("index.type") != "skipping":
        return ()
    said = (
        ("granularity", options.get("index.granularity", _GRANULARITY)),
        ("false_positive_rate", options.get("index.false_positive_rate", _FALSE_POSITIVE_RATE)),
        ("type", "BLOOM"),
    )
    return (ColumnIndex("skipping", said),)
