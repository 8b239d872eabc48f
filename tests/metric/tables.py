"""Descriptions of a physical table and of logical tables on it, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.model import ColumnId, ColumnInfo, DataType, Kind, Semantic, TableInfo

STRING, DOUBLE, MILLIS = DataType(Kind.STRING), DataType(Kind.FLOAT64), DataType(Kind.TIMESTAMP_MILLISECOND)


def table_of(name: str, labels: Sequence[str], *, number: int = 0, options: dict[str, str] | None = None) -> TableInfo:
    """A table of the metric engine as CREATE TABLE drafts it: time `ts`, field `val` and labels."""
    columns = (
        ColumnInfo(ColumnId(0), "ts", MILLIS, Semantic.TIMESTAMP, nullable=False),
        ColumnInfo(ColumnId(1), "val", DOUBLE, Semantic.FIELD),
        *(ColumnInfo(ColumnId(2 + at), label, STRING, Semantic.TAG) for at, label in enumerate(labels)),
    )
    return TableInfo(
        number,
        "public",
        name,
        columns,
        tuple(labels),
        engine="metric",
        options=options or {},
        next_column_id=len(columns),
    )
