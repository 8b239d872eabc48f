"""The labels of a table's series, kept between queries: from conditions to series without a look at any source.

An index belongs to one table in one region. Its labels are those of all registered series, its order that of labels, so
that a query takes rows of it: which, is decided on the distinct values of each label.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.scan import Registered, SeriesRegister, Snapshot
from tsdb.metric import view_sources
from tsdb.model import Column, RegionId, RegionSchema, TableInfo, TimeRange
from tsdb.promql import Matcher, match_values, matches_empty
from tsdb.promql.evaluation import LabelTable
from tsdb.query.promql._label_table import label_table
from tsdb.telemetry import gauge
from tsdb.units import Size

INDEX_BYTES_MAX = Size.parse("128MiB")
"""What all indexes together may take: room for about 250,000 series of ten labels in some sources."""

_LABEL_BYTES = 8
_CHOSEN_MAX = 64
_CHOSEN_CELLS_MAX = 16_384
"""How many selectors an index remembers, and of how many labels of series in all each may be."""

_BYTES = gauge("tsdb_promql_series_index_bytes", "Memory that the labels and stretches of series kept for PromQL take.")


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The series that a selector chooses."""

    numbers: npt.NDArray[np.uint32]
    labels: LabelTable


class _Labels:
    """The labels of all registered series."""

    def __init__(self, registered: Registered, table: TableInfo) -> None:
        self.version = registered.version
        self.labels = label_table(registered.series.read_tags(), table)
        self.order = self.labels.order().astype(np.uint32)
        """The numbers of series in the order of their labels."""
        self.is_distinct = len(self.labels.group()[1]) == self.labels.rows
        """No two series have the same labels; an empty label is the same as none."""
        self._chosen: dict[tuple[Matcher, ...], Chosen] = {}

    @property
    def nbytes(self) -> int:
        return self.labels.rows * len(self.labels.columns) * _LABEL_BYTES

    def choose(self, matchers: tuple[Matcher, ...]) -> Chosen:
        """Return the series that satisfy all conditions, in the order of their labels."""
        found = self._chosen.get(matchers)
        if found is None:
            numbers = self._find(matchers)
            labels = replace(self.labels.take(numbers.astype(np.intp)), is_ordered=self.is_distinct)
            found = Chosen(numbers, labels)
            if len(self._chosen) >= _CHOSEN_MAX:
                self._chosen = {}
            if labels.rows * (len(labels.columns) + 1) <= _CHOSEN_CELLS_MAX:
                self._chosen[matchers] = found
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


class SeriesIndex:
    """The series of one table in one region."""

    def __init__(self, table: TableInfo, schema: RegionSchema) -> None:
        self._table = table
        self._region_schema = schema
        if table.is_logical:
            shown, show = view_sources(schema, table)
            self._register = SeriesRegister(shown, show)
        else:
            self._register = SeriesRegister(schema, lambda source: source)
        self._labels = _Labels(self._register.registered, table)

    @property
    def nbytes(self) -> int:
        return self._register.nbytes + self._labels.nbytes

    def fits(self, table: TableInfo, schema: RegionSchema) -> bool:
        """Tell whether series still look as they did."""
        mine = self._region_schema
        return (schema is mine or schema.tags_key == mine.tags_key) and (
            table is self._table or (table.tags == self._table.tags and table.name == self._table.name)
        )

    def read(
        self, snapshot: Snapshot, column: Column, matchers: tuple[Matcher, ...], time_range: TimeRange
    ) -> tuple[LabelTable, _kernels.Samples, bool] | None:
        """Return the labels and samples of the series that satisfy all conditions, and whether their labels differ.

        None if a scan has to read them.
        """
        sources = self._register.learn(snapshot, time_range)
        if sources is None:
            return None
        labels = self._current()
        chosen = labels.choose(matchers)
        samples = self._register.read(snapshot, sources, column, chosen.numbers, time_range)
        if samples is None:
            return None
        found = chosen.labels
        if samples.series != found.rows:
            found = found.thin(pa.array(samples.places).to_numpy().astype(np.intp))
        return found, samples, labels.is_distinct

    def is_wasteful(self, snapshot: Snapshot) -> bool:
        return self._register.is_wasteful(snapshot)

    @property
    def version(self) -> int:
        """Grows when series come."""
        return self._register.registered.version

    @property
    def sources(self) -> int:
        """How many sources it has learned of since it was made."""
        return self._register.learned

    def _current(self) -> _Labels:
        registered, labels = self._register.registered, self._labels
        if registered.version != labels.version:
            labels = _Labels(registered, self._table)
            self._labels = labels
        return labels


class SeriesIndexes:
    """The indexes of a process: as many as fit, those used longest ago go first."""

    def __init__(self, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[RegionId, int], SeriesIndex] = OrderedDict()
        self._sizes: dict[tuple[RegionId, int], int] = {}

    @property
    def nbytes(self) -> int:
        return sum(self._sizes.values())

    def read(
        self,
        snapshot: Snapshot,
        region: RegionId,
        table: TableInfo,
        column: Column,
        matchers: tuple[Matcher, ...],
        time_range: TimeRange,
    ) -> tuple[LabelTable, _kernels.Samples, bool] | None:
        """Return labels and samples of series; None if a scan has to read them."""
        key = (region, table.id)
        index = self._find(key, table, snapshot.schema)
        sources, version = index.sources, index.version
        found = index.read(snapshot, column, matchers, time_range)
        if index.sources != sources:
            is_wasteful = index.version != version and index.is_wasteful(snapshot)
            self._weigh(key, index, is_wasteful=is_wasteful)
        return found

    def _find(self, key: tuple[RegionId, int], table: TableInfo, schema: RegionSchema) -> SeriesIndex:
        with self._lock:
            index = self._found.get(key)
            if index is None or not index.fits(table, schema):
                index = self._found[key] = SeriesIndex(table, schema)
            self._found.move_to_end(key)
            return index

    def _weigh(self, key: tuple[RegionId, int], index: SeriesIndex, *, is_wasteful: bool) -> None:
        """Keep to the bound, after an index has learned something; one that is mostly of the past begins anew."""
        size = index.nbytes
        is_unwanted = size > self._bytes_max or is_wasteful
        with self._lock:
            if self._found.get(key) is not index:
                return
            self._sizes[key] = size
            if is_unwanted:
                self._drop(key)
            while self._found and self.nbytes > self._bytes_max:
                self._drop(next(iter(self._found)))
            _BYTES.set(self.nbytes)

    def _drop(self, key: tuple[RegionId, int]) -> None:
        del self._found[key]
        self._sizes.pop(key, None)
