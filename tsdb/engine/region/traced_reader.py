"""A reader of a region for a query that is traced: a span for each request, with what it read.

The span belongs to the current one, or where there is none, as on threads of DataFusion, to the one for which the
reader was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from tsdb._kernels import Samples
from tsdb.engine.reading import (
    CellsRequest,
    CellsRun,
    KnownSeries,
    KnownSeriesRequest,
    PlannedCells,
    PlannedScan,
    RowsAhead,
    SamplesRequest,
    ScanRequest,
    SeriesRequest,
    SeriesRows,
    no_check,
)
from tsdb.engine.region.reader import LocalReader
from tsdb.engine.scan import Aggregated, Evaluate, RowFilter, SeriesRegisters, Snapshot
from tsdb.model import MetricView, RegionId, TimeRange
from tsdb.telemetry import TraceSpan, current_span

SHOWN = (
    "sources_total",
    "sources_pruned_by_time",
    "sources_pruned_by_series",
    "series_kept",
    "rows_read",
    "rows_returned",
    "bytes_read",
    "index_bytes_read",
    "rows_excluded_by_index",
    "rows_excluded_by_fulltext",
    "vector_hits",
    "vector_misses",
)
"""The statistics that spans have, as far as the reader has counted them by then."""

T = TypeVar("T")


class TracedReader(LocalReader):
    """A local reader whose requests are spans."""

    def __init__(
        self,
        region_id: RegionId,
        snapshot: Snapshot,
        registers: SeriesRegisters,
        *,
        opened_for: TraceSpan,
        view: MetricView | None = None,
        parallelism: int = 1,
        check: Callable[[], None] = no_check,
    ) -> None:
        super().__init__(region_id, snapshot, registers, view=view, parallelism=parallelism, check=check)
        self._opened_for = opened_for

    def plan_scan(self, filter: RowFilter, ahead: RowsAhead | None = None) -> PlannedScan:
        return self._traced("region.plan_scan", lambda: super(TracedReader, self).plan_scan(filter, ahead))

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        span = self._begin("region.scan")
        rows = 0
        try:
            for batch in super().scan(request):
                rows += batch.num_rows
                yield batch
        except Exception as error:
            span.fail(error)
            raise
        finally:
            span.set(rows=rows, share=request.share)
            self._end(span)

    def plan_cells(self, request: CellsRequest, evaluate: Evaluate | None = None) -> PlannedCells:
        return self._traced("region.plan_cells", lambda: super(TracedReader, self).plan_cells(request, evaluate))

    def cells(self, request: CellsRun) -> Aggregated:
        return self._traced("region.cells", lambda: super(TracedReader, self).cells(request))

    def series(self, request: SeriesRequest) -> SeriesRows:
        return self._traced("region.series", lambda: super(TracedReader, self).series(request))

    def list_series(self, filter: RowFilter, time_range: TimeRange) -> Sequence[pa.RecordBatch]:
        return self._traced("region.list_series", lambda: super(TracedReader, self).list_series(filter, time_range))

    def known_series(self, request: KnownSeriesRequest) -> KnownSeries | None:
        return self._traced("region.known_series", lambda: super(TracedReader, self).known_series(request))

    def samples(self, request: SamplesRequest) -> Samples | None:
        return self._traced("region.samples", lambda: super(TracedReader, self).samples(request))

    def _traced(self, name: str, ask: Callable[[], T]) -> T:
        span = self._begin(name)
        try:
            return ask()
        except Exception as error:
            span.fail(error)
            raise
        finally:
            self._end(span)

    def _begin(self, name: str) -> TraceSpan:
        return (current_span() or self._opened_for).child(name, region=int(self.region_id), sources=self.sources)

    def _end(self, span: TraceSpan) -> None:
        counted = self.statistics()
        span.set({name: counted[name] for name in SHOWN if counted.get(name)})
        span.end()
