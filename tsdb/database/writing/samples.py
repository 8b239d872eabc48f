"""Samples of Prometheus into tables: known series straight into their region, others by way of rows and tables.

    samples ─▶ which series are known? ─ others ─▶ rows of tables ─▶ Writer (creates, widens, rejects) ─▶ now known
                        └─ known ─▶ one batch for each physical region, however many metrics there are

Rows of series that are not known are written first: if they are rejected, nothing is written.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tsdb.catalog import AnyCatalog
from tsdb.database.writing.region_series import Positions, RegionSeries
from tsdb.database.writing.rejections import count_accepted, count_written
from tsdb.database.writing.request import WriteRequest
from tsdb.database.writing.send import RegionBatch
from tsdb.database.writing.series_directory import Found, SeriesDirectory
from tsdb.database.writing.writer import Writer
from tsdb.engine import Regions
from tsdb.engine.errors import RegionNotFound, SchemaOutdated
from tsdb.ingest import WriteOutcome
from tsdb.ingest.prometheus import MetricRows, Samples
from tsdb.metric import make_series
from tsdb.model import HISTOGRAM_COLUMN, Batch, RegionId, TableInfo

DIRECTORIES_MAX = 64
"""For how many databases, or sources of numbers, known series are remembered."""

_Key: TypeAlias = tuple[tuple[int, int], str, str, Hashable]
_MILLISECONDS = pa.timestamp("ms")


class SampleWriter:
    """Writes samples. Safe to use from many threads."""

    def __init__(self, catalog: AnyCatalog, regions: Regions, writer: Writer) -> None:
        self._catalog = catalog
        self._regions = regions
        self._writer = writer
        self._lock = threading.Lock()
        self._directories: OrderedDict[_Key, SeriesDirectory] = OrderedDict()

    def write(self, samples: Samples, request: WriteRequest) -> WriteOutcome:
        """Write samples; they are durable and visible when this returns. IngestRejected if some do not fit."""
        if request.is_dry or not request.new_table.is_metric:
            return self._write_rows(samples.tables(), request)
        directory = self._directory(samples, request)
        found, unknown = self._find(directory, samples)
        outcome = WriteOutcome(0)
        if len(unknown):
            tables = samples.tables(unknown)
            outcome = self._write_rows(tables, request)
            self._learn(directory, samples, tables, request)
        written, failures = 0, []
        sent = self._writer.send([_part(samples, each) for each in found], request.token)
        for each, result in zip(found, sent, strict=True):
            written += result.rows
            if isinstance(result.error, SchemaOutdated | RegionNotFound):
                # The table is not what it was when its series were entered: plan their rows.
                directory.forget(each.series)
                outcome = _add(outcome, self._write_rows(samples.tables(each.positions), request))
            elif result.error is not None:
                failures.append(result.error)
        count_accepted(request.protocol, written)
        if failures:
            raise failures[0]
        return replace(outcome, rows=outcome.rows + written)

    def begin(self, samples: Samples, request: WriteRequest) -> Future[int] | None:
        """Write samples whose series are known and of one region, without waiting for the end; None if they are not.

        The future may end with SchemaOutdated or RegionNotFound: then nothing was written, and `write` has to plan the
        rows.
        """
        if request.is_dry or not request.new_table.is_metric or samples.histograms is not None:
            return None
        found, unknown = self._find(self._directory(samples, request), samples)
        if len(unknown) or len(found) != 1:
            return None
        writing = self._writer.begin(_part(samples, found[0]), request.token)
        writing.add_done_callback(partial(count_written, request.protocol))
        return writing

    def _directory(self, samples: Samples, request: WriteRequest) -> SeriesDirectory:
        key = (samples.source, request.database, request.physical_table, request.rights)
        with self._lock:
            found = self._directories.get(key)
            if found is None or found.is_worn:
                # Numbers of earlier generations will not come again.
                source, generation = samples.source
                for old in [old for old in self._directories if old[0][0] == source and old[0][1] < generation]:
                    del self._directories[old]
                found = self._directories[key] = SeriesDirectory()
            self._directories.move_to_end(key)
            while len(self._directories) > DIRECTORIES_MAX:
                self._directories.popitem(last=False)
            return found

    def _find(self, directory: SeriesDirectory, samples: Samples) -> tuple[list[Found], Positions]:
        if samples.histograms is not None:
            # A table that has no room for histograms gets it by the way of series that are not known.
            directory.forget_without_histograms(samples.numbers[samples.with_histograms()])
        return directory.find(samples.numbers, self._catalog)

    def _write_rows(self, tables: list[MetricRows], request: WriteRequest) -> WriteOutcome:
        return self._writer.write([each.rows for each in tables], request)

    def _learn(
        self, directory: SeriesDirectory, samples: Samples, tables: list[MetricRows], request: WriteRequest
    ) -> None:
        """Enter the series of rows that were just written, as far as their tables are logical and of one region."""
        by_region: dict[RegionId, list[tuple[TableInfo, MetricRows]]] = {}
        for each in tables:
            table = self._catalog.find_table(each.rows.database or request.database, each.rows.table)
            if table is None or not table.is_logical:
                continue
            if {tag.name for tag in table.tags}.issuperset(each.rows.tag_names):
                regions = self._catalog.stored_in(table).region_ids
                if len(regions) == 1:
                    by_region.setdefault(regions[0], []).append((table, each))
        for region, members in by_region.items():
            schema = self._regions.schema(region)
            if schema.time.type == _MILLISECONDS:
                self._enter(directory, directory.region(region, schema), samples, members)

    def _enter(
        self,
        directory: SeriesDirectory,
        series: RegionSeries,
        samples: Samples,
        members: list[tuple[TableInfo, MetricRows]],
    ) -> None:
        positions = np.concatenate([each.positions for _, each in members])
        owner = np.repeat(np.arange(len(members)), [len(each.positions) for _, each in members])
        table_ids = np.array([table.id for table, _ in members], np.uint32)[owner]
        made = make_series(series.schema, pa.array(table_ids), samples.labels(positions))
        directory.enter(series, samples.numbers[positions], made, [table for table, _ in members], owner)


def _part(samples: Samples, found: Found) -> RegionBatch:
    """Return samples of known series as a batch of their region."""
    schema = found.series.schema
    index, times, fields = samples.index, samples.times, {schema.fields[0].name: samples.values}
    if len(found.positions) != len(samples.numbers):
        local = np.full(len(samples.numbers), -1, np.int64)
        local[found.positions] = np.arange(len(found.positions))
        rows = np.flatnonzero(local[index] >= 0)
        index, times = local[index[rows]].astype(np.uint32), times[rows]
        fields = samples.fields(rows, schema.fields[0].name)
    elif samples.histograms is not None:
        fields[HISTOGRAM_COLUMN] = samples.histograms
    batch = Batch(found.series.take(found.places), index, times, fields)
    return RegionBatch(found.series.region, batch, schema.version)


def _add(one: WriteOutcome, other: WriteOutcome) -> WriteOutcome:
    return WriteOutcome(
        one.rows + other.rows,
        tuple(dict.fromkeys((*one.created_tables, *other.created_tables))),
        tuple(dict.fromkeys((*one.added_columns, *other.added_columns))),
        (*one.rejections, *other.rejections),
    )
