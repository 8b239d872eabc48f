"""Which data files a flush writes: pure decisions.

    memtables ─▶ groups of one stored schema ─▶ windows of time, not too many ─▶ a file each

- A value is stored in the type it was written in, whatever type its column has by now. So memtables whose columns had
  other types go to separate files; consecutive ones that agree go to one.
- Rows that are merged and rows that append mode keeps go to separate files, so that the latter need no merge.
- A file spans a window of time, so that late rows stay out of the files of today. Rows of thousands of windows would be
  as many files, each with a price of its own: then neighbouring windows go to one, those with the fewest rows first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tsdb.engine.region.version import Version
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.rows.run import MemorySource
from tsdb.model import Column, RegionSchema, Semantic, TimeRange

FILES_MAX = 64
"""How many files the rows of one stored schema become at most."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFile:
    """A file to write."""

    schema: RegionSchema
    runs: tuple[MemorySource, ...]
    keeps_tombstones: bool
    """Something that is or will be in other files may be hidden by them."""


def plan_files(version: Version, memtables: Sequence[Memtable]) -> Iterator[PlannedFile]:
    """Choose the files for memtables of a version, oldest first."""
    older = [handle.meta.time_range for handle in version.files]

    def kind(memtable: Memtable) -> tuple[RegionSchema, bool]:
        return stored_schema(version.schema, memtable.schema), memtable.options.append_mode

    for (schema, _), group in itertools.groupby(memtables, kind):
        spans = []
        for runs in join_windows(_windows(list(group)), FILES_MAX):
            span = _span(runs)
            yield PlannedFile(schema, tuple(runs), any(each.overlaps(span) for each in older))
            spans.append(span)
        # What the files of this group hold is hidden by tombstones of the next one.
        older += spans


def stored_schema(current: RegionSchema, written: RegionSchema) -> RegionSchema:
    """Return the current schema with the types in which rows written under another version are stored."""
    columns = tuple(
        _stored(column, written.by_id.get(column.id)) if column.past and column.semantic is Semantic.FIELD else column
        for column in current.columns
    )
    return current if columns == current.columns else replace(current, columns=columns)


def _stored(column: Column, written: Column | None) -> Column:
    first = column.first
    # Rows that do not know the column get its default, in the type that it came with.
    kind = first.type if written is None else written.type
    return replace(column, type=kind, default=first.default if kind == first.type else None)


def _windows(memtables: Sequence[Memtable]) -> list[list[MemorySource]]:
    """Return the runs of each window, in the order of time."""
    windows: dict[int, list[MemorySource]] = {}
    for memtable in memtables:
        for start, runs in memtable.runs().items():
            windows.setdefault(start, []).extend(runs)
    return [windows[start] for start in sorted(windows)]


def join_windows(windows: list[list[MemorySource]], count_max: int) -> list[list[MemorySource]]:
    """Join neighbouring windows until there are few enough, in parts of about the same number of rows."""
    if len(windows) <= count_max:
        return windows
    rows = sum(run.facts.rows for runs in windows for run in runs)
    joined: list[list[MemorySource]] = []
    done = 0
    for left, runs in zip(range(len(windows), 0, -1), windows, strict=True):
        # A new part begins when the last one is full, and always while every window can have its own.
        if not joined or done * count_max >= rows * len(joined) or left <= count_max - len(joined):
            joined.append([])
        joined[-1] += runs
        done += sum(run.facts.rows for run in runs)
    return joined


def _span(runs: Sequence[MemorySource]) -> TimeRange:
    span = runs[0].facts.time_range
    for run in runs[1:]:
        span = span.union(run.facts.time_range)
    return span
