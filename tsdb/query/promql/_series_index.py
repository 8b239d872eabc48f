"""The labels of a table's series, kept between queries: from conditions to the numbers of series.

A region numbers the series of a table once and for all (`known_series`). Their labels are kept here in that order, with
the order of labels beside it. A query decides conditions on the distinct values of each label and asks the region for
the samples of the series it chose, by number.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.reading import KnownSeries, KnownSeriesRequest, RegionReader, Samples, SamplesRequest
from tsdb.model import Matcher, RegionId, TableInfo, TimeRange, match_values, matches_empty
from tsdb.promql.evaluation import LabelTable
from tsdb.query.promql._label_table import label_table
from tsdb.telemetry import CacheCounts, CacheStatistics, gauge, report_cache
from tsdb.units import Size

INDEX_BYTES_MAX = Size.parse("64MiB")
"""What the labels of all tables together may take: room for about 800,000 series of ten labels."""

_LABEL_BYTES = 8
_CHOSEN_MAX = 512
_CHOSEN_CELLS_MAX = 131_072
"""How many selectors an index remembers, and of how many labels of series in all: a megabyte of codes, and a few times
that as text."""
_CHOSEN_PART_MAX = 1 / 8
"""How much of that one selector may take."""

_BYTES = gauge("tsdb_promql_series_index_bytes", "Memory used by labels of series cached for PromQL.")


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The series that a selector chooses."""

    numbers: npt.NDArray[np.uint32]
    labels: LabelTable

    @property
    def cells(self) -> int:
        return self.labels.rows * (len(self.labels.columns) + 1)


class Selectors:
    """What the selectors that were used last have chosen. Bounded; thread-safe."""

    def __init__(self, count_max: int = _CHOSEN_MAX, cells_max: int = _CHOSEN_CELLS_MAX) -> None:
        self._count_max = count_max
        self._cells_max = cells_max
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[Matcher, ...], Chosen] = OrderedDict()
        self.cells = 0

    def find(self, matchers: tuple[Matcher, ...]) -> Chosen | None:
        with self._lock:
            found = self._held.get(matchers)
            if found is not None:
                self._held.move_to_end(matchers)
            return found

    def keep(self, matchers: tuple[Matcher, ...], chosen: Chosen) -> None:
        if chosen.cells > self._cells_max * _CHOSEN_PART_MAX:
            return
        with self._lock:
            if matchers in self._held:
                return
            self._held[matchers] = chosen
            self.cells += chosen.cells
            while self.cells > self._cells_max or len(self._held) > self._count_max:
                self.cells -= self._held.popitem(last=False)[1].cells


class _Labels:
    """The labels of all known series of one table in one region."""

    def __init__(self, known: KnownSeries, table: TableInfo) -> None:
        assert known.tags is not None
        self.version = known.version
        self._table = table
        self.labels = label_table(known.tags, table)
        self.order = self.labels.order().astype(np.uint32)
        """The numbers of series in the order of their labels."""
        self.is_distinct = len(self.labels.group()[1]) == self.labels.rows
        """No two series have the same labels; an empty label is the same as none."""
        self._chosen = Selectors()
        self.nbytes = self.labels.rows * len(self.labels.columns) * _LABEL_BYTES

    def is_of(self, table: TableInfo) -> bool:
        """Return whether series still look as they did."""
        mine = self._table
        return table is mine or (table.tags == mine.tags and table.name == mine.name)

    def choose(self, matchers: tuple[Matcher, ...]) -> Chosen:
        """Return the series that satisfy all conditions, in the order of their labels."""
        found = self._chosen.find(matchers)
        if found is None:
            numbers = self._find(matchers)
            labels = replace(self.labels.take(numbers.astype(np.intp)), is_ordered=self.is_distinct)
            found = Chosen(numbers, labels)
            self._chosen.keep(matchers, found)
        return found

    def _find(self, matchers: tuple[Matcher, ...]) -> npt.NDArray[np.uint32]:
        is_chosen: npt.NDArray[np.bool_] | None = None
        for matcher in matchers:
            column = self.labels.columns.get(matcher.name)
            if column is None:
                if not matches_empty(matcher):
                    return self.order[:0]
                continue
            matching = match_values(matcher, column.values.arrow)[column.codes]
            is_chosen = matching if is_chosen is None else is_chosen & matching
        return self.order if is_chosen is None else self.order[is_chosen[self.order]]


class SeriesIndexes:
    """The labels of the tables of a process: as many as fit, those used longest ago go first."""

    def __init__(self, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._full_bytes = self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[RegionId, int], _Labels] = OrderedDict()
        self._nbytes = 0
        self._counts = CacheCounts()
        report_cache(self, SeriesIndexes.statistics)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def limit_to(self, share: float) -> None:
        """Hold at most this part of the bound from now on."""
        with self._lock:
            self.bytes_max = int(self._full_bytes * share)
            self._evict()

    def statistics(self) -> CacheStatistics:
        with self._lock:
            return self._counts.of("series_index", self.bytes_max, self._nbytes, len(self._held))

    def read(
        self,
        reader: RegionReader,
        region: RegionId,
        table: TableInfo,
        column: str,
        matchers: tuple[Matcher, ...],
        time_range: TimeRange,
    ) -> tuple[LabelTable, Samples, bool] | None:
        """Return the labels and samples of the series that satisfy all conditions, and whether their labels differ.

        None if a scan has to read them.
        """
        key = (region, table.id)
        held = self._find(key, table)
        is_selective = any(matcher.op in ("=", "=~") for matcher in matchers)
        version = None if held is None else held.version
        known = reader.known_series(KnownSeriesRequest(time_range, version, is_selective))
        if known is None:
            return None
        labels = held if held is not None and held.version == known.version else self._make(key, known, table)
        chosen = labels.choose(matchers)
        samples = reader.samples(SamplesRequest(time_range, column, chosen.numbers))
        if samples is None:
            return None
        found = chosen.labels
        if samples.series != found.rows:
            found = found.thin(pa.array(samples.places).to_numpy().astype(np.intp))
        return found, samples, labels.is_distinct

    def _find(self, key: tuple[RegionId, int], table: TableInfo) -> _Labels | None:
        with self._lock:
            held = self._held.get(key)
            if held is None or not held.is_of(table):
                self._counts.misses += 1
                return None
            self._counts.hits += 1
            self._held.move_to_end(key)
            return held

    def _make(self, key: tuple[RegionId, int], known: KnownSeries, table: TableInfo) -> _Labels:
        labels = _Labels(known, table)
        with self._lock:
            self._drop(key)
            if labels.nbytes <= self.bytes_max:
                self._held[key] = labels
                self._nbytes += labels.nbytes
            self._evict()
        return labels

    def _evict(self) -> None:
        while self._nbytes > self.bytes_max:
            self._drop(next(iter(self._held)))
            self._counts.evictions += 1
        _BYTES.set(self._nbytes)

    def _drop(self, key: tuple[RegionId, int]) -> None:
        gone = self._held.pop(key, None)
        if gone is not None:
            self._nbytes -= gone.nbytes
