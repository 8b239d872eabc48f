"""The samples of tables, for PromQL.

Conditions on labels are decided on the distinct values of a tag, before any row is read. What a region holds arrives
series by series and in the order of time already; nothing is sorted again unless series of two regions are the same.

Of a table with native histograms these are read beside the values. A histogram that marks the end of a series comes
as the float that does: a search for ends finds both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.reading import Conditions, RegionReader, SeriesRequest, SeriesRows, TagIs, TagMatch
from tsdb.errors import InvalidArguments
from tsdb.model import (
    HISTOGRAM_COLUMN,
    ColumnInfo,
    Matcher,
    MetricView,
    RegionId,
    TableInfo,
    TimeRange,
)
from tsdb.promql.evaluation import STALE_BITS, SeriesSet, concat_labels
from tsdb.query.promql._histogram_ends import find_ends
from tsdb.query.promql._label_table import label_table
from tsdb.query.promql._series_index import SeriesIndexes
from tsdb.query.promql._tables import (
    MetricCatalog,
    SortedMatchers,
    chosen_columns,
    find_tables,
    has_histograms,
    may_match,
    split_matchers,
)
from tsdb.query.tables import matching_regions
from tsdb.units import Duration

_PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}


class OpensReaders(Protocol):
    """The part of the regions that reads."""

    def open_reader(
        self, region_id: RegionId, *, timeout: Duration | None = None, view: MetricView | None = None
    ) -> RegionReader: ...


@dataclass(slots=True)
class TableSeries:
    """The tables of a database as a source of samples."""

    catalog: MetricCatalog
    regions: OpensReaders
    database: str
    check: Callable[[], None] = lambda: None
    timeout: Duration | None = None
    field: str | None = None
    """Of tables with several fields, the one to read; None takes the first."""
    indexes: SeriesIndexes = dataclasses.field(default_factory=SeriesIndexes)
    """What is kept of series between queries."""
    on_cancel: Callable[[Callable[[], None]], None] = lambda stop: None
    """Has something called when the query is cancelled: what waits for another node is not reached by `check`."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that satisfy all conditions, with their samples from `start_ms` to `end_ms`."""
        chosen = split_matchers(matchers, self.database)
        parts: list[tuple[SeriesSet, bool]] = []
        for table in find_tables(self.catalog, chosen):
            self.check()
            column = self.column_of(table, chosen)
            if column is None or not may_match(table, chosen.labels):
                continue
            for region in self.regions_of(table, chosen.labels):
                part, is_distinct = self._read(table, region, column, chosen, start_ms, end_ms)
                if part.count:
                    parts.append((part, is_distinct))
        if len(parts) == 1 and parts[0][1]:
            return parts[0][0]
        return _put_together([part for part, _ in parts])

    def column_of(self, table: TableInfo, chosen: SortedMatchers) -> ColumnInfo | None:
        """Return the field of a table to read, None if no field is selected."""
        columns = chosen_columns(table, chosen.fields)
        if len(columns) > 1 and self.field is not None:
            return next((column for column in columns if column.name == self.field), None)
        return columns[0] if columns else None

    def regions_of(self, table: TableInfo, labels: Sequence[Matcher]) -> tuple[RegionId, ...]:
        """Return the regions that can hold series of a table with such labels."""
        stored = table
        if table.physical_table_id is not None:
            physical = self.catalog.table_by_id(table.physical_table_id)
            if physical is None:
                raise InvalidArguments("the physical table is gone", table=table.full_name)
            stored = physical
        if len(stored.region_numbers) == 1:
            return stored.region_ids
        return matching_regions(stored, series_filter(table, labels))

    @contextmanager
    def open(self, table: TableInfo, region: RegionId) -> Iterator[RegionReader]:
        """Open what a region has of a table."""
        view = table.view if table.is_logical else None
        reader = self.regions.open_reader(region, timeout=self.timeout, view=view)
        self.on_cancel(reader.interrupt)
        try:
            yield reader
        finally:
            reader.release()

    def _read(
        self, table: TableInfo, region: RegionId, column: ColumnInfo, chosen: SortedMatchers, start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, bool]:
        """Return the series of a region, and whether their labels are known to be distinct."""
        unit = table.time_index.type.arrow.unit
        span = time_range(start_ms, end_ms, unit)
        columns = [column.name]
        if has_histograms(table, column):
            columns.append(HISTOGRAM_COLUMN)
        with self.open(table, region) as reader:
            if unit == "ms" and len(columns) == 1:
                found = self.indexes.read(reader, region, table, column.name, chosen.labels, span)
                if found is not None:
                    labels, samples, is_distinct = found
                    return SeriesSet.of_samples(labels, samples), is_distinct
            rows = reader.series(SeriesRequest(series_filter(table, chosen.labels), span, columns))
        return _to_set(rows, table, column, unit), False


def time_range(start_ms: int, end_ms: int, unit: str) -> TimeRange:
    """Return a range of time, both ends included, in the unit of a table."""
    if unit == "s":
        span = TimeRange(-(-start_ms // 1000), end_ms // 1000 + 1)
    else:
        factor = _PER_MILLISECOND.get(unit, 1)
        span = TimeRange(start_ms * factor, (end_ms + 1) * factor)
    found = TimeRange.ALL.intersection(span)
    return found if found.start < found.end else TimeRange(0, 0)


def series_filter(table: TableInfo, labels: Sequence[Matcher]) -> Conditions:
    """Return the condition on tags; a label that the table does not have has been decided on."""
    kinds = {tag.name: tag.type.arrow for tag in table.tags}
    known = [matcher for matcher in labels if matcher.name in kinds]
    return Conditions(TimeRange.ALL, tuple(_condition(matcher, kinds[matcher.name]) for matcher in known))


def _condition(matcher: Matcher, kind: pa.DataType) -> TagIs | TagMatch:
    if matcher.op == "=" and matcher.value and pa.types.is_string(kind):
        return TagIs.one_of(matcher.name, [matcher.value])
    return TagMatch(matcher)


def _in_milliseconds(times: npt.NDArray[np.int64], unit: str) -> npt.NDArray[np.int64]:
    if unit == "ms":
        return times
    return times * 1000 if unit == "s" else times // _PER_MILLISECOND[unit]


def _to_set(rows: SeriesRows, table: TableInfo, column: ColumnInfo, unit: str) -> SeriesSet:
    times = _in_milliseconds(rows.times, unit)
    values, histograms, offsets = rows.fields[column.name], rows.fields.get(HISTOGRAM_COLUMN), rows.offsets
    if not pa.types.is_float64(values.type):
        values = pc.cast(values, pa.float64(), safe=False)
    if histograms is not None:
        values, histograms = _split_samples(values, histograms)
    if values.null_count:
        valid = values.is_valid()
        kept = valid.to_numpy(zero_copy_only=False)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        times, values, offsets = times[kept], values.drop_null(), before[offsets]
        histograms = None if histograms is None else histograms.filter(valid)
    numbers: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    return SeriesSet(label_table(rows.tags, table), offsets, times, numbers, histograms)


def _split_samples(values: pa.Array, histograms: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Return the values, NaN where the sample is a histogram, and the histograms that are no marks of an end."""
    if histograms.null_count == len(histograms):
        return values, None
    is_end = find_ends(histograms)
    marks = np.full(len(histograms), np.nan)
    marks.view(np.uint64)[is_end] = STALE_BITS
    values = pc.if_else(histograms.is_valid(), pa.array(marks), values)
    if is_end.any():
        histograms = pc.if_else(pa.array(is_end), pa.scalar(None, histograms.type), histograms)
    return values, None if histograms.null_count == len(histograms) else histograms


def _put_together(parts: list[SeriesSet]) -> SeriesSet:
    """Return the series of several tables and regions, those with the same labels as one."""
    if not parts:
        return SeriesSet.empty()
    if len(parts) == 1 and len(parts[0].labels.group()[1]) == parts[0].labels.rows:
        return parts[0]
    labels = concat_labels([part.labels for part in parts])
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    times = np.concatenate([part.times for part in parts])
    values = np.concatenate([part.values for part in parts])
    histograms = _join_histograms(parts)
    groups, first = labels.group()
    if len(first) == labels.rows:
        return SeriesSet(labels, offsets, times, values, histograms)
    rows = np.repeat(groups, counts)
    order = np.lexsort((times, rows))
    totals = np.bincount(rows, minlength=len(first))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(totals)])
    histograms = None if histograms is None else histograms.take(pa.array(order))
    return SeriesSet(labels.take(first), offsets, times[order], values[order], histograms)


def _join_histograms(parts: Sequence[SeriesSet]) -> pa.Array | None:
    if all(part.histograms is None for part in parts):
        return None
    none = [pa.nulls(len(part.times), pa.binary()) if part.histograms is None else None for part in parts]
    return pa.concat_arrays([part.histograms if rest is None else rest for part, rest in zip(parts, none, strict=True)])
