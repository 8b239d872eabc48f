"""Columns of a source as rows of the table: a row with a value that its column cannot have is rejected."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.cli.server import ServerAddress, run_statement
from tsdb.cli.transfer._batches import RejectedRow, RowsBatch, WriteBatch
from tsdb.cli.transfer._columns import Mask, TimeReading, read_column
from tsdb.cli.transfer._target import TableTarget, TargetOptions, check_columns, find_table, plan_table
from tsdb.model import DataType, cast_or_null

_SHOWN_CHARS_MAX = 60
_APPEND_NOTE = (
    "note: {table} is created without tags and keeps every row; if the import is interrupted, some rows may be written "
    "twice. --tags names the columns that identify a row together with its time"
)

Lines = npt.NDArray[np.int64]


@dataclass
class RowMaker:
    """Makes rows for one table; finds out about the table, or creates it, when the first columns are known."""

    address: ServerAddress
    options: TargetOptions
    times: TimeReading
    source: str
    target: TableTarget | None = None

    def open_table(self, names: Sequence[str], inferred: Mapping[str, DataType]) -> TableTarget:
        """Find the table, or create it with the types of a sample."""
        if self.target is None:
            found = find_table(self.address, self.options)
            if found is None:
                found = plan_table(self.options, inferred, self.times)
                with run_statement(self.address, found.create_text(), database=found.database):
                    pass
                if not found.tags:
                    print(_APPEND_NOTE.format(table=found.name), file=sys.stderr)
            check_columns(found, names)
            self.target = found
        return self.target

    def make(self, columns: Mapping[str, pa.Array], lines: Lines) -> tuple[list[WriteBatch], list[RejectedRow]]:
        """Return a batch of the rows that can be written, and those that cannot."""
        target = self.target
        assert target is not None
        is_bad = np.zeros(len(lines), dtype=np.bool_)
        reasons: dict[int, str] = {}
        values = []
        for name, column in columns.items():
            found, bad = coerce(column, target.columns[name], self.times)
            if name == target.time:
                bad = bad | pc.is_null(found).to_numpy(zero_copy_only=False).astype(np.bool_)
            for row in np.flatnonzero(bad & ~is_bad):
                reasons[int(row)] = _reason(name, column[int(row)], target.columns[name])
            is_bad |= bad
            values.append(found)
        fields = [target.columns[name].field(name) for name in columns]
        batch = pa.RecordBatch.from_arrays(values, schema=pa.schema(fields))
        if reasons:
            keep = pa.array(~is_bad)
            batch, kept = batch.filter(keep), lines[~is_bad]
        else:
            kept = lines
        rejected = [RejectedRow(f"{self.source}:{lines[row]}", reasons[row]) for row in sorted(reasons)]
        batches: list[WriteBatch] = []
        if batch.num_rows:
            batches.append(RowsBatch(target.name, target.database, batch, self.source, kept))
        return batches, rejected


def coerce(column: pa.Array, kind: DataType, times: TimeReading) -> tuple[pa.Array, Mask]:
    """Return values in the type of their column, and which of them cannot be."""
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pt.is_null(column.type):
        return pa.nulls(len(column), kind.arrow), np.zeros(len(column), dtype=np.bool_)
    if pt.is_large_string(column.type) or pt.is_string_view(column.type):
        column = column.cast(pa.string())
    if pt.is_string(column.type):
        return read_column(column, kind, times)
    if kind.is_timestamp and (pt.is_integer(column.type) or pt.is_floating(column.type)):
        return read_column(column.cast(pa.string()), kind, times)
    if pt.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit))
    values = cast_or_null(column, kind.arrow)
    is_bad = pc.and_(pc.is_valid(column), pc.is_null(values))
    return values, is_bad.to_numpy(zero_copy_only=False).astype(np.bool_)


def _reason(name: str, value: pa.Scalar, kind: DataType) -> str:
    found = value.as_py() if not pt.is_timestamp(value.type) else str(value)
    if found is None:
        return f"column {name}: the time is missing"
    text = str(found)
    shown = text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"
    return f"column {name}: {shown!r} is not a {kind.name}"
