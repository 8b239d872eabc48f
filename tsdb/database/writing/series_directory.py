"""Series that were written before, by the numbers of the reader that met them: what saves a request its look-ups.

    number of a series ─▶ region, and the place among the series of that region (hashes ready, tags at hand)

Only series of the metric engine are here, whose rows need nothing but to be put into the region of a physical table.
What was true when a series was entered is checked again for each table that a request names: that the catalog still
describes it by the same object.

Thread-safe: series are entered under a lock; what readers see is replaced, never changed, except for numbers that were
not known before.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tsdb import _kernels
from tsdb.catalog import AnyCatalog
from tsdb.database.writing.region_series import Places, Positions, RegionSeries
from tsdb.model import RegionId, RegionSchema, SeriesTable, TableInfo

Numbers = npt.NDArray[np.uint32]

UNKNOWN = -1
_NOWHERE: Positions = np.zeros(0, np.int64)
_STALE_MAX = 100_000
"""How many entries may be of no use any more, beside as many as are, before everything is entered anew."""


@dataclass(frozen=True, slots=True)
class Found:
    """The series of a request that are known, of one region."""

    series: RegionSeries
    positions: Positions
    """In the request."""
    places: Places
    """Among the series of the region."""


class SeriesDirectory:
    """The known series of one source, for requests of one database and physical table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._regions: list[RegionSeries] = []
        self._tables: list[TableInfo] = []
        self._table_numbers: dict[int, int] = {}
        """By the identity of a table, which is in `tables` and so does not go away."""
        # By the number of a series: which region, which place in it, which table.
        self._region_of = np.full(0, UNKNOWN, np.int32)
        self._place_of = np.zeros(0, np.uint32)
        self._table_of = np.zeros(0, np.int32)
        self._checked: tuple[object, npt.NDArray[np.bool_]] = None, np.zeros(0, np.bool_)
        """A state of the catalog, and by their numbers the tables that were found unchanged in it."""

    @property
    def is_worn(self) -> bool:
        """Whether most entries are of tables that changed since."""
        entries = sum(len(series) for series in self._regions) + len(self._tables)
        return entries > 2 * len(self._region_of) + _STALE_MAX

    def find(self, numbers: Numbers, catalog: AnyCatalog) -> tuple[list[Found], Positions]:
        """Return what is known of series, by region, and the positions of those that are not known."""
        whole = self._find_whole(numbers, catalog)
        if whole is not None:
            return [whole], _NOWHERE
        regions = self._regions_of(numbers)
        is_known = regions >= 0
        if is_known.any():
            known = numbers if is_known.all() else numbers[is_known]
            if self._forget_changed(known, catalog):
                regions = self._regions_of(numbers)
        return self._by_region(numbers, regions), np.flatnonzero(regions < 0)

    def _find_whole(self, numbers: Numbers, catalog: AnyCatalog) -> Found | None:
        """Return where all series are, as nearly always, in one region and of tables found unchanged before."""
        state, is_checked = self._checked
        if state is not catalog.state:
            return None
        # The regions first: what has one there has its place and table in whatever the others are by now.
        region_of = self._region_of
        found = _kernels.find_known(numbers, region_of, self._place_of, self._table_of, is_checked.view(np.uint8))
        if found is None:
            return None
        region, places = found
        return Found(self._regions[region], np.arange(len(numbers)), np.frombuffer(places, np.uint32))

    def _regions_of(self, numbers: Numbers) -> npt.NDArray[np.int32]:
        region_of = self._region_of
        if not len(numbers) or int(numbers.max()) < len(region_of):
            return region_of[numbers]
        regions = np.full(len(numbers), UNKNOWN, np.int32)
        within = numbers < len(region_of)
        regions[within] = region_of[numbers[within]]
        return regions

    def _by_region(self, numbers: Numbers, regions: npt.NDArray[np.int32]) -> list[Found]:
        found = []
        for number, series in enumerate(self._regions):
            positions = np.flatnonzero(regions == number)
            if len(positions):
                chosen = numbers if len(positions) == len(numbers) else numbers[positions]
                found.append(Found(series, positions, self._place_of[chosen]))
        return found

    def _forget_changed(self, numbers: Numbers, catalog: AnyCatalog) -> bool:
        """Forget the series of tables that are gone or not what they were; whether there are any."""
        state, is_checked = self._checked
        tables = self._table_of[numbers]
        if state is not catalog.state or len(is_checked) < len(self._tables):
            state, is_checked = catalog.state, np.zeros(len(self._tables), np.bool_)
        elif is_checked[tables].all():
            return False
        changed = False
        for number in np.unique(tables).tolist():
            table = self._tables[number]
            if catalog.find_table(table.database, table.name) is not table:
                changed = True
                with self._lock:
                    self._region_of[self._table_of == number] = UNKNOWN
            else:
                is_checked[number] = True
        # Of a catalog that changed meanwhile, nothing was found out.
        if state is catalog.state:
            self._checked = state, is_checked
        return changed

    def forget_without_histograms(self, numbers: Numbers) -> None:
        """Forget those of some series whose tables have no field for native histograms."""
        known = numbers[self._regions_of(numbers) >= 0]
        for number in np.unique(self._table_of[known]).tolist():
            if self._tables[number].histogram is None:
                with self._lock:
                    self._region_of[self._table_of == number] = UNKNOWN

    def enter(
        self, series: RegionSeries, numbers: Numbers, made: SeriesTable, tables: list[TableInfo], owner: Positions
    ) -> None:
        """Enter series of a region under their numbers; `owner` says which of the tables each is of."""
        with self._lock:
            start = series.add(made)
            self._grow(int(numbers.max()) + 1)
            translated = np.array([self._table_number(table) for table in tables], np.int32)
            self._place_of[numbers] = np.arange(start, start + len(numbers))
            self._table_of[numbers] = translated[owner]
            # Last: a number with a region is complete.
            self._region_of[numbers] = self._regions.index(series)

    def _table_number(self, table: TableInfo) -> int:
        number = self._table_numbers.get(id(table))
        if number is None:
            number = self._table_numbers[id(table)] = len(self._tables)
            self._tables.append(table)
        return number

    def region(self, region: RegionId, schema: RegionSchema) -> RegionSeries:
        """Return the series of a region, none when its schema is another than before."""
        with self._lock:
            for series in self._regions:
                if series.region == region and series.schema.version == schema.version:
                    return series
            series = RegionSeries(region, schema)
            self._regions.append(series)
            return series

    def forget(self, series: RegionSeries) -> None:
        """Forget a region's series, because it is not what it was."""
        with self._lock:
            self._region_of[self._region_of == self._regions.index(series)] = UNKNOWN

    def _grow(self, length: int) -> None:
        if length > len(self._region_of):
            more = max(length, 2 * len(self._region_of), 1024) - len(self._region_of)
            self._place_of = np.concatenate([self._place_of, np.zeros(more, np.uint32)])
            self._table_of = np.concatenate([self._table_of, np.zeros(more, np.int32)])
            self._region_of = np.concatenate([self._region_of, np.full(more, UNKNOWN, np.int32)])
