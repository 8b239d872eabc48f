"""Samples of Prometheus into tables: known series straight into their region, others by way of rows and tables.

    samples ─▶ which series are known? ─ others ─▶ rows of tables ─▶ Ingestion (creates, widens, refuses) ─▶ now known
                        └─ known ─▶ one batch for each physical region, however many metrics there are

Rows of series that are not known are written first: if they are refused, nothing is written.
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

from tsdb.auth import Access
from tsdb.database._services import Services
from tsdb.database.writing.columns import stored_in
from tsdb.database.writing.region_series import Positions, RegionSeries
from tsdb.database.writing.rejections import count_accepted
from tsdb.database.writing.series_directory import Found, SeriesDirectory
from tsdb.database.writing.writer import Ingestion, IngestRequest
from tsdb.engine.errors import RegionNotFound, SchemaOutdated
from tsdb.errors import Cancelled
from tsdb.ingest import TableRows, WriteOutcome
from tsdb.ingest.prometheus import MetricRows, Samples
from tsdb.metric import make_series
from tsdb.model import HISTOGRAM_COLUMN, Batch, RegionId, TableInfo
from tsdb.query import WriteToken

DIRECTORIES_MAX = 64
"""For how many databases, or sources of numbers, known series are remembered."""

_Key: TypeAlias = tuple[tuple[int, int], str, str, Hashable]
_MILLISECONDS = pa.timestamp("ms")


class SampleWriter:
    """Writes samples. Safe to use from many threads."""

    def __init__(self, services: Services, ingestion: Ingestion) -> None:
        self._services = services
        self._ingestion = ingestion
        self._lock = threading.Lock()
        self._directories: OrderedDict[_Key, SeriesDirectory] = OrderedDict()

    def write(self, samples: Samples, request: IngestRequest) -> WriteOutcome:
        """Write samples; they are durable and visible when this returns. IngestRejected if some do not fit."""
        if request.is_dry or not request.new_table.is_metric:
            return self._write_tables(samples.tables(), request)
        directory = self._directory(samples, request)
        found, unknown = self._find(directory, samples)
        outcome = WriteOutcome(0)
        if len(unknown):
            tables = samples.tables(unknown)
            outcome = self._write_tables(tables, request)
            self._learn(directory, samples, tables, request)
        token, stopped = request.session.token or WriteToken(), None
        futures = []
        try:
            for each in found:
                token.enter()
                futures.append((each, self._send(samples, each)))
        except Cancelled as error:
            stopped = error
        written = 0
        for each, future in futures:
            try:
                rows = future.result()
                written += rows
                token.note(rows=rows)
            except (SchemaOutdated, RegionNotFound):
                # The table is not what it was when its series were entered: look at everything again.
                directory.forget(each.series)
                more = self._write_tables(samples.tables(each.positions), request)
                outcome = _add(outcome, more)
        count_accepted(request.protocol, written)
        if stopped is not None:
            raise stopped
        return replace(outcome, rows=outcome.rows + written)

    def begin(self, samples: Samples, request: IngestRequest) -> Future[int] | None:
        """Write samples whose series are known and of one region, without waiting for the end; None if they are not.

        The future may end with SchemaOutdated or RegionNotFound: then nothing was written, and `write` is to look at
        everything again.
        """
        if request.is_dry or not request.new_table.is_metric or samples.histograms is not None:
            return None
        found, unknown = self._find(self._directory(samples, request), samples)
        if len(unknown) or len(found) != 1:
            return None
        token = request.session.token or WriteToken()
        token.enter()
        writing = self._send(samples, found[0])
        writing.add_done_callback(partial(_count, request.protocol, token))
        return writing

    def _directory(self, samples: Samples, request: IngestRequest) -> SeriesDirectory:
        key = (samples.source, request.session.database, _physical_name(request), _rights(request))
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
        return directory.find(samples.numbers, self._services.catalog)

    def _send(self, samples: Samples, found: Found) -> Future[int]:
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
        try:
            return self._services.regions.write(
                found.series.region,
                batch,
                timeout=self._services.options.write_timeout,
                schema_version=schema.version,
            )
        except (SchemaOutdated, RegionNotFound) as error:
            refused: Future[int] = Future()
            refused.set_exception(error)
            return refused

    def _write_tables(self, tables: list[MetricRows], request: IngestRequest) -> WriteOutcome:
        if all(each.physical_table is None for each in tables):
            return self._ingestion.write([each.rows for each in tables], request)
        many: dict[str | None, list[TableRows]] = {}
        for each in tables:
            many.setdefault(each.physical_table, []).append(each.rows)
        outcome = WriteOutcome(0)
        for name, rows in many.items():
            hints = request.hints if name is None else {**request.hints, "physical_table": name}
            outcome = _add(outcome, self._ingestion.write(rows, replace(request, hints=hints)))
        return outcome

    def _learn(
        self, directory: SeriesDirectory, samples: Samples, tables: list[MetricRows], request: IngestRequest
    ) -> None:
        """Enter the series of rows that were just written, as far as their tables are logical and of one region."""
        by_region: dict[RegionId, list[tuple[TableInfo, MetricRows]]] = {}
        for each in tables:
            table = self._services.catalog.find_table(each.rows.database or request.session.database, each.rows.table)
            if table is None or not table.is_logical:
                continue
            if {tag.name for tag in table.tags}.issuperset(each.rows.tags.schema.names):
                regions = stored_in(self._services, table).region_ids
                if len(regions) == 1:
                    by_region.setdefault(regions[0], []).append((table, each))
        for region, members in by_region.items():
            schema = self._services.regions.schema(region)
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


def _count(protocol: str, token: WriteToken, written: Future[int]) -> None:
    if written.exception() is None:
        token.note(rows=written.result())
        count_accepted(protocol, written.result())


def _rights(request: IngestRequest) -> Hashable:
    """What tells users apart who may not write everywhere.

    A series may name the database that it belongs to. It is known only to those who wrote it with the same rights,
    which were checked then.
    """
    identity = request.session.identity
    if identity is None or identity.grants is None or Access.WRITE in identity.anywhere:
        return None
    return frozenset(identity.grants.scopes.items())


def _physical_name(request: IngestRequest) -> str:
    return request.hints.get("physical_table") or request.new_table.physical_table


def _add(one: WriteOutcome, other: WriteOutcome) -> WriteOutcome:
    return WriteOutcome(
        one.rows + other.rows,
        tuple(dict.fromkeys((*one.created_tables, *other.created_tables))),
        tuple(dict.fromkeys((*one.added_columns, *other.added_columns))),
        (*one.rejections, *other.rejections),
    )
