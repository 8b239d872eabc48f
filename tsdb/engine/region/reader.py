"""Reading a region of this process: `RegionReader` over a snapshot.

Requests are taken as they are, and answers refer to what lies in memory: nothing is encoded or copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

import pyarrow as pa

from tsdb._kernels import Samples
from tsdb.engine.reading import (
    Bounds,
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
from tsdb.engine.scan import (
    Aggregated,
    Conditions,
    Evaluate,
    LearnedSeries,
    Partition,
    Projection,
    RegionScan,
    RowFilter,
    RunPlan,
    ScanFilter,
    ScanStatistics,
    SeriesRegisters,
    Snapshot,
    list_series,
    make_filter,
    matching_rows,
    partition_scan,
    plan_scan,
    scan_series,
    view_snapshot,
    visible_rows,
)
from tsdb.model import MetricView, RegionId, RegionSchema, TimeRange


class LocalReader:
    """A snapshot, or a view of it as the table of the metric engine."""

    def __init__(
        self,
        region_id: RegionId,
        snapshot: Snapshot,
        registers: SeriesRegisters,
        *,
        view: MetricView | None = None,
        parallelism: int = 1,
        check: Callable[[], None] = no_check,
    ) -> None:
        self.region_id = region_id
        self._whole = snapshot
        self._registers = registers
        self._view = view
        self._shown = snapshot if view is None else None
        hidden = None if view is None else visible_rows(view)
        self._also = () if hidden is None else (hidden,)
        self._parallelism = parallelism
        self._check = check
        self._statistics = ScanStatistics()
        self._numbers = count()
        self._scans: dict[int, list[Partition]] = {}
        self._cells: dict[int, RunPlan] = {}
        self._learned: LearnedSeries | None = None

    @property
    def _snapshot(self) -> Snapshot:
        """What is read. A view is made when it is first needed: PromQL mostly reads the whole region."""
        if self._shown is None:
            assert self._view is not None
            self._shown = view_snapshot(self._whole, self._view)
        return self._shown

    @property
    def whole(self) -> Snapshot | None:
        """The snapshot, if all of it is shown."""
        return self._whole if self._view is None else None

    @property
    def is_released(self) -> bool:
        return self._whole.is_released

    @property
    def schema(self) -> RegionSchema:
        return self._snapshot.schema

    @property
    def sources(self) -> int:
        return len(self._whole.sources)

    def plan_scan(self, filter: RowFilter, ahead: RowsAhead | None = None) -> PlannedScan:
        plan = plan_scan(self._snapshot, self._filter(filter), self._statistics)
        partitions = partition_scan(plan, self._parallelism)
        self._statistics.add(fragments=len(partitions))
        number = next(self._numbers)
        self._scans[number] = partitions
        return PlannedScan(number, len(partitions), len(plan.segments))

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        snapshot = self._snapshot
        projection = Projection(snapshot, request.columns)
        partition = self._scans[request.plan][request.share]
        batches = partition.batches(projection, memory_bytes_max=snapshot.memory_bytes_max // self._parallelism)
        return batches if request.rows is None else _first_rows(batches, request.rows)

    def bounds(self, filter: RowFilter) -> Bounds | None:
        found = matching_rows(self._snapshot, self._filter(filter))
        return None if found is None else Bounds(*found)

    def plan_cells(self, request: CellsRequest, evaluate: Evaluate | None = None) -> PlannedCells:
        filter = request.filter
        if evaluate is not None and isinstance(filter, Conditions):
            filter = filter.answered_by(evaluate)
        scan = RegionScan(self._snapshot, self._statistics, self._check)
        plan = RunPlan(scan, self._filter(filter), request.query, evaluate)
        number = next(self._numbers)
        self._cells[number] = plan
        return PlannedCells(number, plan.series, plan.time_range)

    def cells(self, request: CellsRun) -> Aggregated:
        return self._cells[request.plan].run(within=request.within, threads=request.threads)

    def series(self, request: SeriesRequest) -> SeriesRows:
        found = scan_series(self._snapshot, request.filter, request.time_range, request.columns, also=self._also)
        return SeriesRows(found.series.read_tags(), found.offsets, found.times, found.fields)

    def list_series(self, filter: RowFilter, time_range: TimeRange) -> Sequence[pa.RecordBatch]:
        return list_series(self._snapshot, self._filter(filter, within=time_range))

    def known_series(self, request: KnownSeriesRequest) -> KnownSeries | None:
        learned = self._learn(request.time_range, is_selective=request.is_selective)
        if learned is None:
            return None
        register, registered = learned.register, learned.register.registered
        return KnownSeries((register.number, registered.version), registered.series.read_tags())

    def samples(self, request: SamplesRequest) -> Samples | None:
        learned = self._learned
        if learned is None or learned.time_range != request.time_range:
            learned = self._learn(request.time_range)
        if learned is None:
            return None
        column = self._whole.schema.by_name[request.column]
        span = request.time_range.intersection(self._whole.visible)
        return learned.register.read(self._whole, learned.sources, column, request.numbers, span)

    def statistics(self) -> Mapping[str, int]:
        return self._statistics.to_dict()

    def interrupt(self) -> None:
        """Nothing is waited for here: checks end what runs."""

    def release(self) -> None:
        self._whole.release()

    def _learn(self, time_range: TimeRange, *, is_selective: bool = False) -> LearnedSeries | None:
        self._learned = self._registers.learn(
            self.region_id, self._view, self._whole, time_range, is_selective=is_selective
        )
        return self._learned

    def _filter(self, filter: RowFilter, *, within: TimeRange = TimeRange.ALL) -> ScanFilter:
        return make_filter(self._snapshot.schema, filter, within=within, also=self._also)


def _first_rows(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield so many rows; what makes more of them is not asked for these."""
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return
