"""Writing what a compaction merges: files in, files out, in bounded memory.

Inputs are read once, from front to back, past the caches of data. Memory holds one row group of each input, the stripes
that are merged and encoded, and the series blocks; `estimate_input_bytes` and `stripe_rows_of` say how much that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tsdb.clock import Clock
from tsdb.engine.compaction._check import MergeAudit
from tsdb.engine.errors import MergeMismatch
from tsdb.engine.index import IndexOptions
from tsdb.engine.manifest import FileMeta
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.merge import STRIPE_ROWS, Merge, Selection
from tsdb.engine.scan import rows_within
from tsdb.engine.sst import (
    DataFile,
    FileReader,
    WrittenFile,
    delete_files,
    estimate_row_bytes,
    ignore_rows,
    plan_row_group_rows,
    write_sst,
)
from tsdb.engine.tuning import MergeTuning
from tsdb.ids import Ids
from tsdb.model import RegionOptions, RegionSchema, TimeRange
from tsdb.store import ObjectStore

_STRIPE_ROWS_MIN = 1024
_STRIPES_HELD = 4
# Hashes, offsets and times of a series, and its tags, in its block and in the union of all.
_SERIES_BYTES = 200
LEVEL = 1


@dataclass(frozen=True, slots=True, eq=False)
class CompactionTask:
    """A rewriting that was decided on."""

    schema: RegionSchema
    """With the types in which the values of these files are stored."""
    options: RegionOptions
    inputs: tuple[DataFile, ...]
    spans: tuple[TimeRange, ...]
    keeps_tombstones: bool
    index: IndexOptions | None
    """How index files are built; None: they are not."""


def stripe_rows_of(schema: RegionSchema, tuning: MergeTuning) -> int:
    """Return how many rows a stripe has."""
    return max(_STRIPE_ROWS_MIN, min(STRIPE_ROWS, tuning.stripe_bytes_max // estimate_row_bytes(schema)))


def estimate_input_bytes(schema: RegionSchema, tuning: MergeTuning, meta: FileMeta) -> int:
    """Guess what a file takes in memory while it is merged."""
    rows = min(meta.rows, plan_row_group_rows(schema, tuning.row_group_bytes_max))
    # Text may be longer than its type says: its stored size counts.
    stored = 4 * meta.size_bytes // max(1, meta.rows)
    return rows * max(estimate_row_bytes(schema), stored) + meta.series * _SERIES_BYTES


def estimate_task_bytes(schema: RegionSchema, tuning: MergeTuning, files: Sequence[FileMeta]) -> int:
    """Guess what a whole task takes."""
    held = _STRIPES_HELD * stripe_rows_of(schema, tuning) + plan_row_group_rows(schema, tuning.row_group_bytes_max)
    rows = min(sum(meta.rows for meta in files), held)
    return sum(estimate_input_bytes(schema, tuning, meta) for meta in files) + rows * estimate_row_bytes(schema)


def write_files(
    task: CompactionTask,
    *,
    store: ObjectStore,
    directory: str,
    caches: Caches,
    write_buffer_bytes: int,
    clock: Clock,
    ids: Ids,
    tuning: MergeTuning,
    check: Callable[[], None],
    note_rows: Callable[[int], None] = ignore_rows,
) -> list[WrittenFile]:
    """Write the files of a task; `note_rows` is told of rows as they are written.

    If that fails, or `check` raises, files are deleted as far as the store lets us.
    """
    written: list[WrittenFile] = []
    try:
        sources = [source.passing_reader() for source in task.inputs]
        for span in task.spans:
            check()
            selections = [_select(source, span) for source in sources if source.facts.time_range.overlaps(span)]
            file = _write_file(
                task,
                [each for each in selections if each.rows],
                store=store,
                directory=directory,
                write_buffer_bytes=write_buffer_bytes,
                clock=clock,
                ids=ids,
                tuning=tuning,
                check=check,
                note_rows=note_rows,
            )
            if file is not None:
                written.append(file)
    except BaseException:
        for file in written:
            caches.evict_file(file.meta.file_id)
            delete_files(store, directory, file.meta.file_id)
        raise
    return written


def _write_file(
    task: CompactionTask,
    selections: list[Selection],
    *,
    store: ObjectStore,
    directory: str,
    write_buffer_bytes: int,
    clock: Clock,
    ids: Ids,
    tuning: MergeTuning,
    check: Callable[[], None],
    note_rows: Callable[[int], None],
) -> WrittenFile | None:
    if not selections:
        return None
    audit = MergeAudit(task.options, keeps_tombstones=task.keeps_tombstones)
    merge = Merge(
        task.schema,
        task.options,
        selections,
        keep_tombstones=task.keeps_tombstones,
        stripe_rows=stripe_rows_of(task.schema, tuning),
        ahead_rows_min=tuning.ahead_rows_min,
        check=check,
        audit=audit.see,
    )
    file = write_sst(
        merge,
        schema=task.schema,
        options=task.options,
        store=store,
        directory=directory,
        write_buffer_bytes=write_buffer_bytes,
        level=LEVEL,
        clock=clock,
        ids=ids,
        row_group_rows=plan_row_group_rows(task.schema, tuning.row_group_bytes_max),
        keeps_sequences=True,
        index=task.index,
        note_rows=note_rows,
        has_samples=True,
    )
    try:
        audit.finish(selected=sum(each.rows for each in selections), written=0 if file is None else file.meta.rows)
    except MergeMismatch:
        if file is not None:
            delete_files(store, directory, file.meta.file_id)
        raise
    return file


def _select(source: FileReader, span: TimeRange) -> Selection:
    if span.contains(source.facts.time_range):
        return Selection.all_of(source)
    starts, stops = rows_within(source, span)
    return Selection(source, starts, np.maximum(starts, stops))
