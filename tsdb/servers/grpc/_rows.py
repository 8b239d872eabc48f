"""Tables of a request as rows for the database: each series once, times as integers, the rest as fields."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.errors import InvalidArguments
from tsdb.ingest import TableRows
from tsdb.model import Kind, Semantic
from tsdb.servers.grpc._types import GivenColumn, GivenTable

_COMBINED_MAX = 1 << 62
_UNTOLD = (Kind.JSON, Kind.VECTOR)
"""Types that cannot be derived from the Arrow type."""


def time_column(table: GivenTable) -> GivenColumn:
    """Return the column with the times of the rows."""
    found = [column for column in table.columns if column.semantic is Semantic.TIMESTAMP]
    if len(found) != 1:
        raise InvalidArguments(
            f"table {table.name}: expected one column of the semantic TIMESTAMP, received {len(found)}"
        )
    (time,) = found
    if not time.type.is_timestamp:
        raise InvalidArguments(f"table {table.name}, column {time.name}: {time.type.name} is not a type of timestamps")
    if time.values.null_count:
        row = time.values.is_null().index(True).as_py()
        raise InvalidArguments(f"table {table.name}, row {row}: column {time.name} is not null but input has null")
    return time


def check_table(table: GivenTable) -> None:
    """Refuse a table or columns without a name, and names that come twice."""
    if not table.name:
        raise InvalidArguments("a table needs a name")
    seen: set[str] = set()
    for column in table.columns:
        if not column.name:
            raise InvalidArguments(f"table {table.name}: a column needs a name")
        if column.name in seen:
            raise InvalidArguments(f"table {table.name}: column name `{column.name}` is duplicated")
        seen.add(column.name)


def make_rows(table: GivenTable) -> TableRows:
    """Return the rows of a table."""
    time = time_column(table)
    tags = [column for column in table.columns if column.semantic is Semantic.TAG]
    fields = [column for column in table.columns if column.semantic is Semantic.FIELD]
    series, index = group_tags(tags, table.rows)
    return TableRows(
        table=table.name,
        tags=series,
        series_index=index,
        times=time.values.cast(pa.int64()).to_numpy(),
        unit=time.type.arrow.unit,
        fields={column.name: column.values for column in fields},
        columns=tuple("" if column is time else column.name for column in table.columns),
        places=np.arange(table.rows, dtype=np.int64),
        types={column.name: column.type for column in table.columns if column.type.kind in _UNTOLD},
    )


def group_tags(tags: list[GivenColumn], rows: int) -> tuple[pa.RecordBatch, npt.NDArray[np.uint32]]:
    """Return the distinct series, and for each row which of them is its own."""
    if not tags:
        none = pa.RecordBatch.from_struct_array(pa.array([{}] if rows else [], pa.struct([])))
        return none, np.zeros(rows, np.uint32)
    names = [tag.name for tag in tags]
    if rows == 1:
        return pa.RecordBatch.from_arrays([tag.values for tag in tags], names), np.zeros(1, np.uint32)
    combined, bound = np.zeros(rows, np.int64), 1
    for tag in tags:
        codes = tag.values.dictionary_encode(null_encoding="encode")
        if bound * max(1, len(codes.dictionary)) >= _COMBINED_MAX:
            seen, combined = np.unique(combined, return_inverse=True)
            bound = len(seen)
        combined = combined * len(codes.dictionary) + codes.indices.to_numpy()
        bound *= len(codes.dictionary)
    _, first, index = np.unique(combined, return_index=True, return_inverse=True)
    chosen = pa.array(first)
    return pa.RecordBatch.from_arrays([tag.values.take(chosen) for tag in tags], names), index.astype(np.uint32)


def make_keys(table: GivenTable) -> pa.Table:
    """Return what names the rows to be deleted: tags and time by their names."""
    time_column(table)
    keys = [column for column in table.columns if column.semantic is not Semantic.FIELD]
    return pa.table([column.values for column in keys], [column.name for column in keys])
