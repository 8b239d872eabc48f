"""Parts: what pruning leaves of each source.

    sources ─ time range ─▶ sources that overlap ─ tags ─▶ series kept ─ span of each ─▶ row ranges

Making parts reads series blocks only. Which rows of a series lie in the time range is found when a part is about to
be read, and only for series that are partly outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.metrics import INDEX_APPLIED, INDEX_EXCLUDED_SERIES
from tsdb.engine.rows.series import FoundSeries, Positions, conform_series
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import SourceReader, find_time
from tsdb.engine.scan.filters.filter import Check, Mask, ScanFilter, SeriesFrame, TagIs, match_series, remaining_checks
from tsdb.engine.scan.plan.indexed import find_indexed
from tsdb.engine.scan.plan.tag_index import look_up
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.engine.tuning import ScanTuning
from tsdb.model import LateTags, SeriesTable, TagKeeper, TimeRange, take_tags

Times = npt.NDArray[np.int64]

_TUNING = ScanTuning()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Series of one source, in order, each with a range of its rows."""

    source: SourceReader
    series: SeriesTable
    """As the current schema has them."""
    starts: Positions
    stops: Positions
    time_min: Times
    """No row of the series is earlier; for a row range that was cut this may be too early."""
    time_max: Times
    checks: tuple[Check, ...]
    """What is still to be checked on rows."""
    time_range: TimeRange
    """Rows outside are not wanted."""
    is_inside: bool
    """All rows of all row ranges are known to be in the time range."""
    tuning: ScanTuning

    @property
    def rows(self) -> int:
        """The rows of all row ranges, those outside of the time range included."""
        return int(np.add.reduce(self.stops - self.starts))

    def slice(self, first: int, last: int) -> Part:
        """Return the series from `first` to before `last`."""
        if (first, last) == (0, len(self.starts)):
            return self
        cut = slice(first, last)
        return replace(
            self,
            series=slice_series(self.series, first, last),
            starts=self.starts[cut],
            stops=self.stops[cut],
            time_min=self.time_min[cut],
            time_max=self.time_max[cut],
        )

    def take(self, positions: Positions) -> Part:
        """Return some of the series, in order."""
        return replace(
            self,
            series=take_late(self.series, positions),
            starts=self.starts[positions],
            stops=self.stops[positions],
            time_min=self.time_min[positions],
            time_max=self.time_max[positions],
        )

    def within(self, time_range: TimeRange) -> Part:
        """Return the part with a smaller range of time; nothing is read yet."""
        is_inside = self.is_inside and time_range.contains(self.time_range)
        return replace(self, time_range=self.time_range.intersection(time_range), is_inside=is_inside)

    def narrowed(self) -> Part:
        """Return exactly the rows in the time range: the row ranges of all series, some of them perhaps empty."""
        if self.is_inside:
            return self
        if self.time_range.is_empty:
            return replace(self, stops=self.starts, is_inside=True)
        first, last = self.time_range.start, self.time_range.last
        outside = (self.time_max < first) | (self.time_min > last)
        stops = np.where(outside, self.starts, self.stops)
        astride = ~outside & ((self.time_min < first) | (self.time_max > last))
        if not astride.any():
            return replace(self, stops=stops, is_inside=True)
        starts = self.starts.copy()
        is_long = astride & (stops - starts > self.tuning.probe_rows_min)
        for at in np.flatnonzero(is_long):
            starts[at] = find_time(self.source, first, int(starts[at]), int(stops[at]))
            stops[at] = find_time(self.source, last + 1, int(starts[at]), int(stops[at]))
        where = np.flatnonzero(astride & ~is_long)
        if len(where) == 1:
            # A query of one series, which should not wait for machinery.
            (at,) = where
            times = self.source.times(Slices.one(int(starts[at]), int(stops[at])))
            low, high = np.searchsorted(times, first), np.searchsorted(times, last, side="right")
            starts[at], stops[at] = starts[at] + low, starts[at] + high
        elif len(where) and self.source.holds_narrow:
            starts[where], stops[where] = _narrow_in_pieces(self.source, starts[where], stops[where], first, last)
        elif len(where):
            rows = Slices(starts[where], stops[where])
            offsets = np.append(0, np.cumsum(rows.lengths))
            slices = _kernels.time_slices(pa.array(offsets), pa.array(self.source.times(rows)), first, last)
            low, high = (pa.array(each).to_numpy() for each in slices)
            shift = rows.starts - offsets[:-1]
            starts[where], stops[where] = low + shift, high + shift
        time_min, time_max = np.maximum(self.time_min, first), np.minimum(self.time_max, last)
        return replace(self, starts=starts, stops=stops, time_min=time_min, time_max=time_max, is_inside=True)

    def estimate(self) -> tuple[Positions, Positions]:
        """Guess where the time range starts and stops in each row range, as if rows were spread evenly over time."""
        if self.is_inside:
            return self.starts, self.stops
        first, last = self.time_range.start, self.time_range.last
        low = self.time_min.astype(np.float64)
        ticks = self.time_max.astype(np.float64) - low + 1
        rows = self.stops - self.starts
        before = np.clip((first - low) / ticks, 0, 1) * rows
        until = np.clip((last + 1 - low) / ticks, 0, 1) * rows
        starts = self.starts + np.minimum(before.astype(np.int64), rows)
        return starts, np.clip(self.starts + np.ceil(until).astype(np.int64), starts, self.stops)


def _narrow_in_pieces(
    source: SourceReader, starts: Positions, stops: Positions, first: int, last: int
) -> tuple[Positions, Positions]:
    """Return where the rows of row ranges with times from `first` to `last` start and stop; no times are copied."""
    offsets = source.piece_offsets
    numbers, _ = _kernels.touched_chunks(starts, stops, offsets)
    runs = _kernels.SeriesRuns(runs_max=len(starts) + len(offsets))
    (times,) = source.pieces_as_held(numbers, [source.schema.time.id])
    added = runs.add_chunks(starts, stops, np.arange(len(starts)), offsets, numbers, times, (first, last))
    begins = offsets[[number for number, count in zip(numbers, added, strict=True) if count]]
    where = pa.array(runs.cells()[0]).to_numpy()
    low, high = starts.copy(), starts.copy()
    for newest, bounds in ((False, low), (True, high)):
        chunks, rows, _ = (pa.array(each).to_numpy() for each in runs.ends(newest=newest))
        bounds[where] = begins[chunks] + rows + newest
    return low, high


def rows_within(source: SourceReader, span: TimeRange) -> tuple[Positions, Positions]:
    """Return where the rows of every series that lie in a range of time start and stop.

    The times of a few series are read at a time, so that it takes no memory to speak of.
    """
    block = source.block
    part = Part(
        source=source,
        series=block.table,
        starts=block.offsets[:-1],
        stops=block.offsets[1:],
        time_min=block.time_min,
        time_max=block.time_max,
        checks=(),
        time_range=span,
        is_inside=False,
        tuning=_TUNING,
    )
    pieces = [
        part.slice(first, last).narrowed()
        for first, last in group_rows(part.starts, part.stops, _TUNING.probe_rows_min)
    ]
    return np.concatenate([piece.starts for piece in pieces]), np.concatenate([piece.stops for piece in pieces])


def slice_series(series: SeriesTable, first: int, last: int) -> SeriesTable:
    """Return neighbouring series; nothing is copied."""
    return SeriesTable(series.tsid[first:last], series.check[first:last], series.read_tags().slice(first, last - first))


def take_late(series: SeriesTable, positions: Positions) -> SeriesTable:
    """Return some of the series; their tags are taken when they are read, which many queries never do."""
    if series.late is not None:
        return series.take(positions)
    tags, numbers = series.read_tags(), positions.astype(np.uint32)
    late = LateTags(tags.schema, numbers, _TakenTags(tags, numbers))
    return SeriesTable(series.tsid[positions], series.check[positions], late)


class _TakenTags(TagKeeper):
    """Some rows of tags that are there, taken when they are read and then kept."""

    def __init__(self, tags: pa.RecordBatch, numbers: npt.NDArray[np.uint32]) -> None:
        self._tags = tags
        self._numbers = numbers
        self._taken: pa.RecordBatch | None = None

    def read_tags(self, numbers: npt.NDArray[np.uint32]) -> pa.RecordBatch:
        if numbers is not self._numbers:
            return take_tags(self._tags, numbers.astype(np.int64))
        if self._taken is None:
            self._taken = take_tags(self._tags, numbers.astype(np.int64))
        return self._taken


def make_parts(snapshot: Snapshot, wanted: ScanFilter, statistics: ScanStatistics) -> list[Part]:
    """Prune all sources of a snapshot."""
    time_range = wanted.time_range.intersection(snapshot.visible)
    frames: list[tuple[SeriesTable, SeriesFrame, Mask]] = []
    found = []
    series_total = index_files = excluded = 0
    tuning = snapshot.tuning
    for source in snapshot.sources:
        if not source.facts.rows or time_range.is_empty or not source.facts.time_range.overlaps(time_range):
            continue
        reader = source.reader(statistics)
        indexed = find_indexed(reader, snapshot.schema, wanted)
        if indexed is not None:
            series_total += indexed.series_count
            excluded += indexed.series_count - len(indexed.found.table)
            index_files += 1
            found.append(_make_found(reader, indexed.found, snapshot, wanted, time_range))
            continue
        series = conform_series(reader.block.table, reader.schema, snapshot.schema)
        series_total += len(series)
        if wanted.is_of_time_alone and time_range.contains(source.facts.time_range):
            found.append(_make_whole(reader, series, tuning))
            continue
        looked_up = look_up(series, wanted, tuning)
        if looked_up is not None:
            found.append(_make_looked_up(reader, series, *looked_up, wanted, time_range, tuning))
            continue
        frame, matching = _match(wanted, series, frames)
        found.append(_make_part(reader, series, frame, matching, wanted, time_range, tuning))
    parts = [part for part in found if len(part.starts)]
    statistics.add(
        sources_total=len(snapshot.sources),
        sources_pruned_by_time=len(snapshot.sources) - len(found),
        sources_pruned_by_series=len(found) - len(parts),
        series_total=series_total,
        series_kept=sum(len(part.starts) for part in parts),
    )
    if index_files:
        statistics.add(index_files=index_files, series_excluded_by_index=excluded)
        INDEX_APPLIED.inc(index_files)
        INDEX_EXCLUDED_SERIES.inc(excluded)
    return parts


def _make_found(
    source: SourceReader, found: FoundSeries, snapshot: Snapshot, wanted: ScanFilter, time_range: TimeRange
) -> Part:
    """Make a part of series that an index found, among which are all that match."""
    series = conform_series(found.table, source.schema, snapshot.schema)
    frame = SeriesFrame(series.read_tags(), wanted.tags)
    kept = match_series(wanted, frame) & (found.time_max >= time_range.start) & (found.time_min <= time_range.last)
    checks = remaining_checks(wanted, frame, kept)
    where = np.flatnonzero(kept)
    time_min, time_max = found.time_min[where], found.time_max[where]
    span = (int(time_min.min()), int(time_max.max())) if len(where) else None
    chosen = series if len(where) == len(series) else take_late(series, where)
    starts, stops = found.starts[where], found.stops[where]
    return _part_of(source, chosen, starts, stops, time_min, time_max, span, checks, time_range, snapshot.tuning)


def matching_rows(snapshot: Snapshot, wanted: ScanFilter) -> tuple[TimeRange, int] | None:
    """Return a range of time that all matching rows lie in, and about how many there are; None when there are none.

    Series blocks tell it: duplicates count, and so do rows that only a look at them would rule out.
    """
    parts = make_parts(snapshot, wanted, ScanStatistics())
    if not parts:
        return None
    span = TimeRange(min(part.time_range.start for part in parts), max(part.time_range.end for part in parts))
    rows = 0
    for part in parts:
        starts, stops = part.estimate()
        rows += int((stops - starts).sum())
    return span, rows


def _make_looked_up(
    source: SourceReader,
    series: SeriesTable,
    positions: Positions,
    done: TagIs,
    wanted: ScanFilter,
    time_range: TimeRange,
    tuning: ScanTuning,
) -> Part:
    """Make a part of series that an index found for a condition; nothing is as long as all series are."""
    block, first, last = source.block, time_range.start, time_range.last

    def pick(chosen: Positions) -> tuple[npt.NDArray[np.int64], tuple[int, int] | None]:
        found, span = _kernels.pick_stretches(chosen, block.offsets, block.time_min, block.time_max, first, last)
        return np.frombuffer(memoryview(found), np.int64).reshape(5, -1), span

    picked, span = pick(positions)
    checks = wanted.on_rows
    others = tuple(check for check in wanted.on_series if check is not done)
    if others or any(check.names & wanted.tags for check in checks):
        frame = SeriesFrame(series.take_tags(picked[0]), wanted.tags)
        matching = match_series(replace(wanted, on_series=others), frame)
        checks = remaining_checks(wanted, frame, matching)
        picked, span = pick(picked[0][matching])
    where, starts, stops, time_min, time_max = picked
    return _part_of(
        source, take_late(series, where), starts, stops, time_min, time_max, span, checks, time_range, tuning
    )


def _make_whole(source: SourceReader, series: SeriesTable, tuning: ScanTuning) -> Part:
    """Make a part of all rows."""
    block = source.block
    return Part(
        source=source,
        series=series,
        starts=block.offsets[:-1],
        stops=block.offsets[1:],
        time_min=block.time_min,
        time_max=block.time_max,
        checks=(),
        time_range=source.facts.time_range,
        is_inside=True,
        tuning=tuning,
    )


def _match(
    wanted: ScanFilter, series: SeriesTable, known: list[tuple[SeriesTable, SeriesFrame, Mask]]
) -> tuple[SeriesFrame, Mask]:
    """Match series, once for all sources that have the same ones; comparing hashes is cheaper than matching tags."""
    for table, frame, mask in known:
        if table is series or (np.array_equal(table.tsid, series.tsid) and np.array_equal(table.check, series.check)):
            return frame, mask
    frame = SeriesFrame(series.read_tags(), wanted.tags)
    mask = match_series(wanted, frame)
    known.append((series, frame, mask))
    return frame, mask


def _make_part(
    source: SourceReader,
    series: SeriesTable,
    frame: SeriesFrame,
    matching: Mask,
    wanted: ScanFilter,
    time_range: TimeRange,
    tuning: ScanTuning,
) -> Part:
    block = source.block
    kept = matching & (block.time_max >= time_range.start) & (block.time_min <= time_range.last)
    checks = remaining_checks(wanted, frame, kept)
    offsets = block.offsets
    if bool(kept.all()):
        starts, stops, time_min, time_max = offsets[:-1], offsets[1:], block.time_min, block.time_max
    else:
        where = np.flatnonzero(kept)
        low, high = (int(where[0]), int(where[-1]) + 1) if len(where) else (0, 0)
        if high - low == len(where):
            series = slice_series(series, low, high)
            starts, stops = offsets[low:high], offsets[low + 1 : high + 1]
            time_min, time_max = block.time_min[low:high], block.time_max[low:high]
        else:
            series = take_late(series, where)
            starts, stops = offsets[where], offsets[where + 1]
            time_min, time_max = block.time_min[where], block.time_max[where]
    span = (int(time_min.min()), int(time_max.max())) if len(starts) else None
    return _part_of(source, series, starts, stops, time_min, time_max, span, checks, time_range, tuning)


def _part_of(
    source: SourceReader,
    series: SeriesTable,
    starts: Positions,
    stops: Positions,
    time_min: Times,
    time_max: Times,
    span: tuple[int, int] | None,
    checks: tuple[Check, ...],
    time_range: TimeRange,
    tuning: ScanTuning,
) -> Part:
    """Make a part; `span` is the earliest and the latest time of its series, None if there are none."""
    own = time_range if span is None else TimeRange(span[0], span[1] + 1)
    is_inside = time_range.contains(own)
    return Part(
        source=source,
        series=series,
        starts=starts,
        stops=stops,
        time_min=time_min,
        time_max=time_max,
        checks=checks,
        time_range=own if is_inside else time_range.intersection(own),
        is_inside=is_inside,
        tuning=tuning,
    )


def group_rows(starts: Positions, stops: Positions, rows_max: int) -> Iterator[tuple[int, int]]:
    """Cut row ranges into groups of at most about `rows_max` rows: yield the first and the last of each group."""
    total = np.cumsum(stops - starts)
    first = 0
    while first < len(total):
        done = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + rows_max, side="right")))
        yield first, last
        first = last
