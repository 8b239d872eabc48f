"""The result of a statement, convertible to several formats.

A result is complete when it is made: `arrow()`, `to_pandas()` and iteration give all rows each time. `fetchone`,
`fetchmany` and `fetchall` read on from where the last of them stopped, as in Python's DB-API.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import pyarrow as pa

from tsdb.errors import InvalidArguments

SHOWN_ROWS_MAX = 20
_FETCH_ROWS = 1_000
"""How many rows `fetchone` makes Python values of at a time."""

Row = tuple[Any, ...]
Description = tuple[str, str, None, None, None, None, None]


class Result:
    """Rows, or the number of rows that a statement changed."""

    def __init__(self, table: pa.Table, affected_rows: int | None) -> None:
        self._table = table
        self._position = 0
        self._fetched: Iterator[Row] | None = None
        self.affected_rows = affected_rows
        """How many rows were written or deleted; None for a statement that returns rows."""

    @property
    def column_names(self) -> list[str]:
        return list(self._table.column_names)

    @property
    def description(self) -> list[Description]:
        """Name and type of each column, as in Python's DB-API."""
        return [(field.name, str(field.type), None, None, None, None, None) for field in self._table.schema]

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return self._table

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas DataFrame; options are those of `pyarrow.Table.to_pandas`."""
        _need("pandas")
        return self._table.to_pandas(**options)

    def to_polars(self, *, lazy: bool = False) -> Any:
        """All rows as a polars DataFrame, or as a LazyFrame."""
        frame = _need("polars").from_arrow(self._table)
        return frame.lazy() if lazy else frame

    def to_numpy(self) -> dict[str, Any]:
        """All rows as one numpy array per column; nulls are NaN, NaT or None."""
        return {name: column.to_numpy() for name, column in zip(self.column_names, self._table.columns, strict=True)}

    df = to_pandas
    pl = to_polars
    fetchnumpy = to_numpy

    def fetchone(self) -> Row | None:
        """The next row, None if there are no more."""
        if self._fetched is None:
            self._fetched = _rows(self._table.slice(self._position))
        row = next(self._fetched, None)
        if row is not None:
            self._position += 1
        return row

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next rows, fewer than `size` at the end."""
        if size < 0:
            raise InvalidArguments(f"the number of rows is not negative, received {size}")
        return self._fetch(self._table.slice(self._position, size))

    def fetchall(self) -> list[Row]:
        """The rows that were not fetched yet as tuples of Python values."""
        return self._fetch(self._table.slice(self._position))

    def _fetch(self, table: pa.Table) -> list[Row]:
        self._position += table.num_rows
        self._fetched = None
        return list(_rows(table))

    def scalar(self) -> Any:
        """The first value of the first row."""
        row = next(iter(self), None)
        if not row:
            raise InvalidArguments("the result has no rows")
        return row[0]

    def __iter__(self) -> Iterator[Row]:
        return _rows(self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows for any library that reads Arrow: polars, DuckDB, pandas and others take a result as it is."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if self.affected_rows is not None:
            return f"<{self.affected_rows} rows affected>"
        return _drawn(self.column_names, self._shown(), len(self))

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        if self.affected_rows is not None:
            return f"<p>{self.affected_rows} rows affected</p>"
        head = "".join(f"<th>{escape(name)}</th>" for name in self.column_names)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._shown())
        more = len(self) - SHOWN_ROWS_MAX
        note = f"<p>… {more} more rows</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"

    def _shown(self) -> list[list[str]]:
        first = _rows(self._table.slice(0, SHOWN_ROWS_MAX))
        return [["NULL" if value is None else str(value) for value in row] for row in first]


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=_FETCH_ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _drawn(names: list[str], rows: list[list[str]], total: int) -> str:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)] if names else []
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [names, *rows]]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    if total > len(rows):
        lines.append(f"… {total - len(rows)} more")
    return "\n".join(line.rstrip() for line in lines)


def _need(library: str) -> Any:
    from importlib import import_module

    try:
        return import_module(library)
    except ImportError as error:
        raise InvalidArguments(f"{library} is not installed", hint=f"pip install {library}") from error
