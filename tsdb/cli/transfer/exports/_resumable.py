"""An export of a table that continues where an earlier one was interrupted.

The table is read in windows of time, one after the other. A window that was read to its end is in the part, and counts
from the next time that the state is saved; one that was interrupted is read again. The first and the last time are
fixed at the start. So an export that was interrupted has the rows of one that was not: each window as it was when it
was read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO

import pyarrow as pa

from tsdb.cli.transfer._progress import ProgressView, showing
from tsdb.cli.transfer.exports._formats import RowEncoder, kept_batches, write_parquet
from tsdb.cli.transfer.exports._kept import ExportState, KeptExport, changed_columns
from tsdb.cli.transfer.exports._table import ExportedTable
from tsdb.cli.transfer.exports._windows import Window, rows_per_window, windows_by_length, windows_by_rows
from tsdb.errors import InvalidArguments

SAVE_SECONDS = 0.5
WINDOWS_MAX = 1_000_000


@dataclass(frozen=True)
class ResumePlan:
    """What an export is, and how it is to be run."""

    settings: Mapping[str, str]
    """What has to be the same to continue it."""
    encoder: RowEncoder
    is_parquet: bool
    length: int | None
    """The length of a window, in the unit of the time column."""
    is_restart: bool
    is_quiet: bool


class ResumableExport:
    """Runs one export of a table to a file, from its state on."""

    def __init__(self, source: ExportedTable, kept: KeptExport, plan: ResumePlan) -> None:
        self._source = source
        self._kept = kept
        self._plan = plan
        self._saved_at = 0.0

    def run(self) -> ExportState:
        """Export everything; what was read is kept, whatever ends it."""
        with self._kept.opened() as file:
            if self._plan.is_restart:
                self._kept.forget()
            schema = self._source.schema()
            state = self._kept.load(dict(self._plan.settings), _columns(schema), size=file.seek(0, os.SEEK_END))
            is_continued = state is not None
            if state is None:
                state, rows = self._begin(file, schema)
            else:
                rows = 0 if state.is_read else self._source.count(state.next, state.last)
            total = state.rows + state.left_out + rows
            with showing(
                str(self._kept.path), total, is_quiet=self._plan.is_quiet, unit="rows", rows=state.rows
            ) as view:
                if is_continued and not self._plan.is_quiet:
                    view.note(f"{self._kept.path}: continues after {state.rows:,} rows; --restart starts over")
                state = self._read(file, state, rows, view)
            self._finish(file, schema, state)
        return state

    def _begin(self, file: BinaryIO, schema: pa.Schema) -> tuple[ExportState, int]:
        self._kept.forget()
        first, last, rows = self._source.span()
        file.truncate(0)
        file.seek(0)
        file.write(self._plan.encoder.head(schema))
        settings = dict(self._plan.settings)
        return ExportState(settings, _columns(schema), first, last, next=first, size=file.tell()), rows

    def _read(self, file: BinaryIO, state: ExportState, rows: int, view: ProgressView) -> ExportState:
        """Read what is missing, window by window."""
        file.truncate(state.size)
        file.seek(state.size)
        view.update(state.rows + state.left_out, state.rows)
        saved = state
        try:
            for first, last in self._windows(state, rows):
                state = self._read_window(file, state, first, last, view)
                if time.monotonic() - self._saved_at >= SAVE_SECONDS:
                    self._save(file, state)
                    saved = state
        finally:
            if state is not saved:
                self._save(file, state)
        return state

    def _windows(self, state: ExportState, rows: int) -> Iterable[Window]:
        if state.is_read:
            return ()
        if self._plan.length is not None:
            if (state.last - state.next) // self._plan.length >= WINDOWS_MAX:
                raise InvalidArguments(f"there are more than {WINDOWS_MAX:,} windows", hint="pass a longer --window")
            return windows_by_length(state.next, state.last, self._plan.length)
        rows_max = rows_per_window(rows)
        return windows_by_rows(state.next, state.last, rows, rows_max=rows_max, count=self._source.count)

    def _read_window(
        self, file: BinaryIO, state: ExportState, first: int, last: int, view: ProgressView
    ) -> ExportState:
        rows, left_out = state.rows, state.left_out
        with self._source.read(first, last) as result:
            if _columns(result.schema) != state.columns:
                raise changed_columns()
            for batch in result:
                pieces, without = self._plan.encoder.encode(batch)
                file.writelines(pieces)
                rows += batch.num_rows - without
                left_out += without
                view.update(rows + left_out, rows)
        return replace(state, next=last + 1, size=file.tell(), rows=rows, left_out=left_out)

    def _save(self, file: BinaryIO, state: ExportState) -> None:
        """Save a state, after what it counts on."""
        _sync(file)
        self._kept.save(state)
        self._saved_at = time.monotonic()

    def _finish(self, file: BinaryIO, schema: pa.Schema, state: ExportState) -> None:
        _sync(file)
        if not self._plan.is_parquet:
            self._kept.finish(self._kept.part)
            return
        title = f"{self._kept.path}, as Parquet"
        with (
            showing(title, state.rows, is_quiet=self._plan.is_quiet, unit="rows") as view,
            self._kept.part.open("rb") as part,
            _whole(self._kept) as whole,
        ):
            write_parquet(whole, schema, _counted(kept_batches(part), view.update))


@contextmanager
def _whole(kept: KeptExport) -> Iterator[BinaryIO]:
    """Open a file beside the others that gets the final name when it is complete."""
    path = kept.part.with_name(f"{kept.part.name}.whole")
    try:
        with path.open("wb") as file:
            yield file
            _sync(file)
        kept.finish(path)
    finally:
        path.unlink(missing_ok=True)


def _counted(batches: Iterable[pa.RecordBatch], update: Callable[[int, int], None]) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        update(rows, rows)


def _columns(schema: pa.Schema) -> list[list[str]]:
    return [[field.name, str(field.type)] for field in schema]


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
