"""Parquet files, read batch by batch; the position is the number of rows that lie behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tsdb.cli.transfer._blocks import UnreadableSource
from tsdb.cli.transfer._progress import SizeUnit
from tsdb.cli.transfer._rows import RowMaker
from tsdb.cli.transfer._source import FileSource, Piece
from tsdb.model import DataType, type_of_field

BATCH_ROWS = 10_000


class ParquetSource(FileSource):
    """A Parquet file."""

    unit: SizeUnit = "rows"

    def __init__(self, name: str, maker: RowMaker, columns: Sequence[str] = ()) -> None:
        if name == "-":
            raise UnreadableSource("Parquet cannot be read from the standard input", hint="name a file")
        super().__init__(name)
        self._maker = maker
        self._wanted = columns
        try:
            self._file = pq.ParquetFile(name)
        except (OSError, pa.ArrowInvalid) as error:
            raise UnreadableSource(f"{name} cannot be read as Parquet: {error}") from error

    @property
    def size(self) -> int | None:
        return int(self._file.metadata.num_rows)

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        schema = self._file.schema_arrow
        names = [name for name in schema.names if not self._wanted or name in self._wanted]
        self._maker.open_table(names, {name: self._type(schema.field(name)) for name in names})
        row = position.get("row", 0)
        groups, skipped = self._groups_from(row)
        at = skipped
        for batch in self._file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names, use_threads=False):
            start = max(0, row - at)
            part = batch.slice(start)
            first = at + start
            at += batch.num_rows
            if part.num_rows:
                lines = np.arange(first + 1, first + 1 + part.num_rows, dtype=np.int64)
                columns = {name: part.column(name) for name in names}
                batches, rejected = self._maker.make(columns, lines)
                yield Piece(batches, {"row": at}, at, rejected)

    def _type(self, field: pa.Field) -> DataType:
        known = type_of_field(field)
        if known is None:
            raise UnreadableSource(
                f"the column {field.name} of {self.name} has the type {field.type}, which tables do not support",
                hint="leave it out with --columns",
            )
        return known

    def _groups_from(self, row: int) -> tuple[list[int], int]:
        """Return the row groups that hold a row and those behind it, and how many rows lie before them."""
        before = 0
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if before + rows > row:
                return list(range(group, self._file.num_row_groups)), before
            before += rows
        return [], before
