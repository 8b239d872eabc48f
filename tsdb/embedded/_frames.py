"""Frames of other libraries as Arrow tables; none of these libraries is needed to use the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tsdb.errors import InvalidArguments


def to_arrow(data: Any, *, time: str | None = None) -> pa.Table:
    """Return pandas, polars, pyarrow, dictionaries, or anything else that speaks Arrow as an Arrow table."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        return _from_python(lambda: pa.table(dict(data)))
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return _from_python(lambda: pa.Table.from_pylist(_complete(data)))
    module = type(data).__module__.partition(".")[0]
    if module == "pandas":
        return _from_python(lambda: _from_pandas(data, time))
    if module == "polars" and hasattr(data, "collect"):  # a LazyFrame
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):  # polars, duckdb, our own results and others
        return _from_python(lambda: pa.table(data))
    raise InvalidArguments(
        f"data of type {type(data).__name__} cannot be used as a table",
        hint="give a DataFrame of pandas or polars, a pyarrow table, or a list of dictionaries",
    )


def is_frame(value: Any) -> bool:
    """Whether a variable of this value may be read as a table by its name."""
    if isinstance(value, pa.Table | pa.RecordBatch):
        return True
    kind = type(value)
    if kind.__module__.partition(".")[0] in ("pandas", "polars"):
        return kind.__name__ in ("DataFrame", "LazyFrame")
    return hasattr(kind, "__arrow_c_stream__")


def _complete(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Let every row have the keys of all: Arrow takes its columns from the first."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _from_pandas(frame: Any, time: str | None) -> pa.Table:
    if time is not None and time not in frame.columns and time in frame.index.names:
        frame = frame.reset_index()
    return pa.Table.from_pandas(frame, preserve_index=False)


def _from_python(convert: Any) -> pa.Table:
    try:
        table: pa.Table = convert()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArguments(f"the data cannot be used as a table: {error}") from error
    # Metadata of other libraries must not become part of a result.
    return table.replace_schema_metadata(None)
