"""The newest or oldest row of each group of series, from the ends of row ranges: no times are read.

A row range is in the order of time, so its last row is the newest of its series, and a series block knows its time.
That leaves a row for each series, of which the latest is the newest of its group. A data file keeps the last rows of
all its series beside its decoded columns, because many queries read them.

Of segments, the latest in time come first: a group that has a row there needs none of an earlier segment, which may
then not be read at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from tsdb.engine.rows.series import Positions
from tsdb.engine.rows.source import keeps_ends
from tsdb.engine.scan.cells.run_query import Cells, Ends, RunQuery
from tsdb.engine.scan.plan.parts import Part
from tsdb.model import RegionSchema, TimeRange


class EndTask(Protocol):
    """What is read of a segment."""

    @property
    def groups(self) -> Positions:
        """The group of each series."""
        ...

    @property
    def time_range(self) -> TimeRange: ...


T = TypeVar("T", bound=EndTask)


class Outdone:
    """Knows for each group a time that rows must be beyond to be its end."""

    def __init__(self, count: int, *, is_newest: bool) -> None:
        self._is_newest = is_newest
        limits = np.iinfo(np.int64)
        self._known = np.full(count, limits.min if is_newest else limits.max, dtype=np.int64)

    def has_all(self, task: EndTask) -> bool:
        """Tell whether no row of a task can be the end of a group."""
        known, span = self._known[task.groups], task.time_range
        return bool(np.all(known > span.last if self._is_newest else known < span.start))

    def add(self, found: Iterable[Cells]) -> None:
        """Note the ends that groups have so far."""
        for cells in found:
            own, ends = self._known[cells.groups], cells.newest if self._is_newest else cells.oldest
            assert ends is not None
            self._known[cells.groups] = (np.maximum if self._is_newest else np.minimum)(own, ends.times)


def aggregate_ends(
    tasks: Sequence[T], query: RunQuery, group_count: int, aggregate: Callable[[T], list[Cells]]
) -> list[Cells]:
    """Return the cells of the tasks that can have the end of a group, in the order of tasks."""
    is_newest = query.newest is not None
    outdone = Outdone(group_count, is_newest=is_newest)
    numbers = sorted(range(len(tasks)), key=lambda at: tasks[at].time_range.start, reverse=is_newest)
    found: dict[int, list[Cells]] = {}
    for at in numbers:
        if not outdone.has_all(tasks[at]):
            found[at] = aggregate(tasks[at])
            outdone.add(found[at])
    return [cells for at in sorted(found) for cells in found[at]]


def take_ends(part: Part, schema: RegionSchema, query: RunQuery, groups: Positions) -> Cells | None:
    """Return the cells of a part from the ends of its row ranges; None if that takes a look at times."""
    source, span = part.source, part.time_range
    if not keeps_ends(source):
        return None
    is_newest = query.newest is not None
    times = part.time_max if is_newest else part.time_min
    if part.is_inside:
        chosen = _choose(groups, times, is_newest=is_newest)
    else:
        if bool(np.any(times > span.last if is_newest else times < span.start)):
            return None
        # A series whose newest row is before the time range, or its oldest behind it, has none inside.
        inside = np.flatnonzero((times >= span.start) & (times <= span.last))
        chosen = inside[_choose(groups[inside], times[inside], is_newest=is_newest)]
    rows = (part.stops[chosen] - 1) if is_newest else part.starts[chosen]
    names = (query.newest if is_newest else query.oldest) or ()
    stored = [schema.by_name[name].id for name in names if schema.by_name[name] is not schema.time]
    found = source.series_ends(stored, rows, is_newest=is_newest)
    if found is None:
        return None
    columns = iter(found)
    values = {
        name: pa.array(times[chosen]).view(schema.time.type) if schema.by_name[name] is schema.time else next(columns)
        for name in names
    }
    ends = Ends(times[chosen], values)
    count = len(chosen)
    return Cells(
        groups[chosen],
        np.zeros(count, dtype=np.int64),
        np.ones(count, dtype=np.int64),
        count,
        {},
        newest=ends if is_newest else None,
        oldest=None if is_newest else ends,
    )


def _choose(groups: Positions, times: Positions, *, is_newest: bool) -> Positions:
    """Return the series whose end is that of its group, ascending by group."""
    if len(groups) < 2 or bool(np.all(groups[1:] > groups[:-1])):
        return np.arange(len(groups))
    # Of equal times the last of the newest and the first of the oldest counts, as where runs are compared.
    order = np.lexsort((times, groups))
    ordered = groups[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    chosen: Positions = order[is_last if is_newest else is_first]
    return chosen
