"""Series that were written before, by the numbers of the reader that met them: what saves a request its look-ups.

    number of a series ─▶ region, and the place in the region's list of series (hashes and tags ready)

Only series of the metric engine are here, whose rows need nothing but to be put into the region of a physical table.
What was true when a series was entered is checked again for each table that a request names: that the catalog still
describes it by the same object.

Safe to use from many threads: whoever enters series holds the lock; what readers see is replaced, never changed, except
for numbers that were not known before.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.catalog import Catalog
from tsdb.model import LateTags, RegionId, RegionSchema, SeriesTable, TableInfo, take_tags

Positions = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]

UNKNOWN = -1
_READS_BEFORE_JOIN = 16
"""After so many reads without new series, the blocks of a region become one."""


class RegionSeries:
    """Series of one region, which only grow: the place of a series stays.

    Tags are read when somebody asks for them, which is when a segment of the log names a series for the first time,
    and when a memtable is flushed.
    """

    def __init__(self, region: RegionId, schema: RegionSchema) -> None:
        self.region = region
        self.schema = schema
        self._length = 0
        self._tsid = np.zeros(0, np.uint64)
        self._check = np.zeros(0, np.uint64)
        self._blocks: tuple[pa.RecordBatch, ...] = ()
        self._reads = 0

    def __len__(self) -> int:
        return self._length

    def add(self, series: SeriesTable) -> int:
        """Append series; the place of the first. The caller holds the directory's lock."""
        start, stop = self._length, self._length + len(series)
        if stop > len(self._tsid):
            more = max(stop, 2 * len(self._tsid)) - len(self._tsid)
            self._tsid = np.concatenate([self._tsid, np.zeros(more, np.uint64)])
            self._check = np.concatenate([self._check, np.zeros(more, np.uint64)])
        self._tsid[start:stop], self._check[start:stop] = series.tsid, series.check
        blocks = [*self._blocks, series.tags]
        while len(blocks) > 1 and 2 * len(blocks[-1]) >= len(blocks[-2]):
            blocks[-2:] = [pa.concat_batches(blocks[-2:])]
        self._blocks = tuple(blocks)
        self._length = stop
        self._reads = 0
        return start

    def take(self, places: Positions) -> SeriesTable:
        """Return the series at places."""
        late = LateTags(self.schema.arrow_tags, places.astype(np.uint32), self._read_tags)
        return SeriesTable(self._tsid[places], self._check[places], late)

    def _read_tags(self, places: Numbers) -> pa.RecordBatch:
        blocks = self._blocks
        if len(blocks) == 1:
            return take_tags(blocks[0], places.astype(np.int64))
        self._reads += 1
        if self._reads >= _READS_BEFORE_JOIN:
            self._join(blocks)
        order = np.argsort(places, kind="stable")
        ascending, start, taken = places[order].astype(np.int64), 0, []
        for block in blocks:
            low, high = np.searchsorted(ascending, [start, start + len(block)])
            if high > low:
                taken.append(take_tags(block, ascending[low:high] - start))
            start += len(block)
        back = np.empty(len(places), np.int64)
        back[order] = np.arange(len(places))
        return take_tags(pa.concat_batches(taken), back) if taken else blocks[0].slice(0, 0)

    def _join(self, blocks: tuple[pa.RecordBatch, ...]) -> None:
        joined = pa.concat_batches(blocks)
        # Somebody may have added to them meanwhile: then they stay as they are, and are joined another time.
        if self._blocks is blocks:
            self._blocks = (joined,)


@dataclass(frozen=True, slots=True)
class Found:
    """The series of a request that are known, of one region."""

    series: RegionSeries
    positions: Positions
    """In the request."""
    places: Positions
    """In the region's list."""


class SeriesDirectory:
    """The known series of one source, for requests of one database and physical table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._regions: list[RegionSeries] = []
        self._tables: list[TableInfo] = []
        # By the number of a series: which region, which place in it, which table.
        self._region_of = np.full(0, UNKNOWN, np.int32)
        self._place_of = np.zeros(0, np.int64)
        self._table_of = np.zeros(0, np.int32)

    def find(self, numbers: Numbers, catalog: Catalog) -> tuple[list[Found], Positions]:
        """Return what is known of series, by region, and the positions of those that are not known."""
        region_of = self._region_of
        if len(numbers) and int(numbers.max()) >= len(region_of):
            within = numbers < len(region_of)
            regions = np.full(len(numbers), UNKNOWN, np.int32)
            regions[within] = region_of[numbers[within]]
        else:
            regions = region_of[numbers]
        known = np.flatnonzero(regions >= 0)
        if len(known):
            self._check_tables(numbers[known], catalog)
            regions = np.where(regions >= 0, self._region_of[np.where(regions >= 0, numbers, 0)], UNKNOWN)
        return self._by_region(numbers, regions), np.flatnonzero(regions < 0)

    def _by_region(self, numbers: Numbers, regions: npt.NDArray[np.int32]) -> list[Found]:
        found = []
        for number, series in enumerate(self._regions):
            positions = np.flatnonzero(regions == number)
            if len(positions):
                found.append(Found(series, positions, self._place_of[numbers[positions]]))
        return found

    def _check_tables(self, numbers: Numbers, catalog: Catalog) -> None:
        """Forget the series of tables that are gone or not what they were."""
        named = np.zeros(len(self._tables), np.bool_)
        named[self._table_of[numbers]] = True
        for number in np.flatnonzero(named).tolist():
            table = self._tables[number]
            if catalog.find_table(table.database, table.name) is not table:
                with self._lock:
                    self._region_of[self._table_of == number] = UNKNOWN

    def add(
        self, series: RegionSeries, numbers: Numbers, tables: list[TableInfo], owner: Positions, start: int
    ) -> None:
        """Enter series, which are at places from `start` on; `owner` says which of the tables each is of."""
        with self._lock:
            self._grow(int(numbers.max()) + 1)
            known = {id(table): number for number, table in enumerate(self._tables)}
            translated = np.empty(len(tables), np.int32)
            for at, table in enumerate(tables):
                number = known.get(id(table))
                if number is None:
                    number = len(self._tables)
                    self._tables.append(table)
                translated[at] = number
            self._place_of[numbers] = np.arange(start, start + len(numbers))
            self._table_of[numbers] = translated[owner]
            # Last: a number with a region is complete.
            self._region_of[numbers] = self._regions.index(series)

    def region(self, region: RegionId, schema: RegionSchema) -> RegionSeries:
        """Return the list of a region's series, a new one when its schema is another than before."""
        with self._lock:
            for series in self._regions:
                if series.region == region and series.schema.version == schema.version:
                    return series
            series = RegionSeries(region, schema)
            self._regions.append(series)
            return series

    def put(self, series: RegionSeries, table: SeriesTable) -> int:
        with self._lock:
            return series.add(table)

    def forget(self, series: RegionSeries) -> None:
        """Forget a region's series, because it is not what it was."""
        with self._lock:
            self._region_of[self._region_of == self._regions.index(series)] = UNKNOWN

    def _grow(self, length: int) -> None:
        if length > len(self._region_of):
            length = max(length, 2 * len(self._region_of), 1024)
            more = length - len(self._region_of)
            self._place_of = np.concatenate([self._place_of, np.zeros(more, np.int64)])
            self._table_of = np.concatenate([self._table_of, np.zeros(more, np.int32)])
            self._region_of = np.concatenate([self._region_of, np.full(more, UNKNOWN, np.int32)])
