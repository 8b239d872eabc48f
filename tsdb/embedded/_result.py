"""The answer to a statement, in whatever form its reader wants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tsdb.errors import InvalidArguments

SHOWN_ROWS_MAX = 20


class Result:
    """Rows, or the number of rows a statement has changed. Complete when it is made: it can be read again and again."""

    def __init__(self, table: pa.Table, affected_rows: int | None) -> None:
        self._table = table
        self.affected_rows = affected_rows
        """How many rows were written or deleted; None for a statement that answers with rows."""

    @property
    def column_names(self) -> list[str]:
        return list(self._table.column_names)

    def arrow(self) -> pa.Table:
        """All rows as a table of Arrow."""
        return self._table

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a DataFrame of pandas; options are those of `pyarrow.Table.to_pandas`."""
        _need("pandas")
        return self._table.to_pandas(**options)

    def to_polars(self) -> Any:
        """All rows as a DataFrame of polars."""
        polars = _need("polars")
        return polars.from_arrow(self._table)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values."""
        columns = [column.to_pylist() for column in self._table.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, None if there is none."""
        return next(iter(self), None)

    def scalar(self) -> Any:
        """The first value of the first row."""
        row = self.fetchone()
        if not row:
            raise InvalidArguments("the answer has no rows")
        return row[0]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self._table.to_batches(max_chunksize=1_000):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        if self.affected_rows is not None:
            return f"<{self.affected_rows} rows affected>"
        first = Result(self._table.slice(0, SHOWN_ROWS_MAX), None)
        shown = [["NULL" if value is None else str(value) for value in row] for row in first]
        return _drawn(self.column_names, shown, len(self))


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
