"""The rows of an aggregate over runs; the thread that wants them computes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.lending import Borrower, Lender, LentRegion
from tsdb.engine.reading import (
    Aggregated,
    CellsRequest,
    CellsRun,
    PlannedCells,
    RegionReader,
    RunStatistics,
    merge_aggregated,
)
from tsdb.model import RegionId, TimeRange
from tsdb.query._checkpoint import threads_max
from tsdb.query.lifetime import Executing, QueryLife
from tsdb.query.series_aggregate._fit import FittedQuery, RunFilter
from tsdb.query.series_aggregate._over_tags import BoundQuery, UndecidedTags
from tsdb.query.series_aggregate._result import OutOfRange, check_buckets, make_rows
from tsdb.query.session import Records
from tsdb.query.tables import TableDataset, TableRegions, matching_regions
from tsdb.sql.clauses import Declined
from tsdb.sql.terms import Aggregate

# How many times as far back each further try looks for the newest buckets.
_WIDENING = 16


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AggregateRun:
    """An aggregate with the columns of its answer, whatever its conditions are."""

    fitted: FittedQuery
    schema: pa.Schema
    kinds: Sequence[pa.DataType]
    """The types of the schema."""


class LentAggregate(NamedTuple):
    """An aggregate that another process can compute, in the numbers of what it was lent."""

    run: int
    filter: RunFilter
    regions: Sequence[LentRegion]


class NeedsPlanner(Exception):
    """Only a planned query has the rows, and there is no fallback."""


class AggregateRecords:
    """One batch of rows, or those of a planned query if the runs turn out to have no answer."""

    def __init__(
        self,
        run: AggregateRun,
        bound: BoundQuery,
        dataset: TableDataset,
        life: QueryLife,
        *,
        threads: int,
        plan: Callable[[], Records] | None = None,
    ) -> None:
        """`bound` is what `bind_expressions` returns.

        `plan` runs the fallback when rows are iterated; without it, NeedsPlanner is raised instead.
        """
        self._plan = plan
        self._bound = bound
        self._aggregate_run = run
        self.fitted = run.fitted
        self._dataset = dataset
        self._life = life
        self._schema = run.schema
        self._kinds = run.kinds
        self._threads = threads
        self._is_read_to_end = False
        self._clock = life.clock
        self._rows_ns = 0
        """What ordering and finishing the answer took."""
        self._running: Records | None = None
        """The fallback."""
        self._fallback_reason = ""
        self.statistics = RunStatistics()

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def scans(self) -> list[TableDataset]:
        """What it reads, for EXPLAIN ANALYZE."""
        return [self._dataset]

    def describe(self) -> str:
        """Say what is aggregated, in one line; series blocks give the number of series."""
        try:
            planned = self._plan_cells()
        except UndecidedTags:
            return f"{self._describe(0)}, unless an expression over tags fails"
        return self._describe(sum(each.series for each in planned))

    def _describe(self, series: int) -> str:
        fitted = self.fitted
        aggregates = [term for term in fitted.columns if isinstance(term, Aggregate)]
        columns = ", ".join(f"{term.function}({term.column or '*'})" for term in aggregates)
        bucket = f", bucket={fitted.runs.width} ticks" if fitted.has_bucket else ""
        regions = self._regions
        sources = sum(region.sources for region in regions)
        return (
            f"SeriesAggregate: {fitted.table.full_name}, by=[{', '.join(fitted.runs.keys)}]{bucket}, "
            f"aggregates=[{columns}], regions={len(regions)}, sources={sources}, series={series}"
        )

    def describe_run(self) -> str:
        """Say what it took, once the rows have been read."""
        counts = self.statistics
        if self._fallback_reason:
            return f"{self._describe(counts.series)}, left to the planner: {self._fallback_reason}"
        return (
            f"{self._describe(counts.series)}, runs={counts.runs}, cells={counts.cells}, "
            f"pieces={counts.pieces}, blocks={counts.blocks}, plan_ms={counts.plan_ns / 1e6:.3f}, "
            f"run_ms={counts.run_ns / 1e6:.3f}, rows_ms={self._rows_ns / 1e6:.3f}"
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        found = self.aggregate()
        if isinstance(found, Declined):
            if self._plan is None:
                raise NeedsPlanner(found.reason)
            self._running = self._plan()
            yield from self._running
        elif found.num_rows:
            yield found

    def aggregate(self) -> pa.RecordBatch | Declined:
        """Compute all rows and release the snapshot; Declined says why only the planner can answer."""
        with Executing(self._life):
            try:
                found = self._aggregate()
                started_ns = self._clock.monotonic_ns()
                batch = make_rows(self.fitted, found, self._schema, self._kinds)
                self._rows_ns = self._clock.monotonic_ns() - started_ns
                self._is_read_to_end = True
                return batch
            except (OutOfRange, UndecidedTags) as error:
                return self._decline(str(error))
            except ScanTooLarge:
                # The planner can hold groups on disk.
                return self._decline("there are too many groups or values to hold")

    def lend(self, lender: Lender) -> LentAggregate | None:
        """Return what another process needs to compute the rows; None if only this one can.

        Until the rows have come back, or the caller gives up, this keeps what is read.
        """
        if self._bound.evaluate is not None:  # expressions over tags are for the planner
            return None
        regions = [lender.lend(each) for each in self._regions]
        lent = [each for each in regions if each is not None]
        if len(lent) < len(regions):
            return None
        return LentAggregate(lender.number_of(self._aggregate_run), self._bound.request.filter, lent)

    def end_lent(self, *, is_answered: bool) -> None:
        """Let go of what was lent; raises if the query was cancelled in the meantime, or is past its deadline."""
        try:
            self._life.check()
            self._is_read_to_end = is_answered
        finally:
            self.close()

    def _decline(self, reason: str) -> Declined:
        self._fallback_reason = reason
        return Declined(reason)

    def _aggregate(self) -> Aggregated:
        fitted = self.fitted
        planned = self._plan_cells()
        span = _span_of(planned)
        if span is None and (fitted.over_tags or fitted.computed):
            # The expressions are not checked yet; one that is wrong for all tags is still an error.
            raise UndecidedTags("there are no series to evaluate an expression over tags for")
        if fitted.has_bucket and span is not None:
            check_buckets(fitted, span)
        if fitted.is_by_bucket_alone and span is not None:
            return self._aggregate_end(planned, span)
        return self._run(planned, TimeRange.ALL)

    @cached_property
    def _regions(self) -> list[RegionReader]:
        """The regions in which rows can match."""
        return self._dataset.regions.matching(self._bound.request.filter)

    def _plan_cells(self) -> list[PlannedCells]:
        """Have every region plan its part."""
        bound = self._bound
        return [region.plan_cells(bound.request, bound.evaluate) for region in self._regions]

    def _run(self, planned: Sequence[PlannedCells], within: TimeRange) -> Aggregated:
        """Return the cells of all regions together."""
        regions = zip(self._regions, planned, strict=True)
        found = merge_aggregated(
            [region.cells(CellsRun(each.number, within, threads_max(self._threads))) for region, each in regions]
        )
        self.statistics = found.statistics
        return found

    def _aggregate_end(self, planned: Sequence[PlannedCells], span: TimeRange) -> Aggregated:
        """Aggregate only as many buckets, from the requested end, as there are rows in the answer."""
        fitted = self.fitted
        width, origin = fitted.runs.width, fitted.runs.origin
        wanted = (fitted.limit or 0) + fitted.offset
        is_newest = fitted.order[0].is_descending
        buckets = max(1, wanted)
        while True:
            if is_newest:
                bucket = (span.last - origin) // width
                start = (bucket - buckets + 1) * width + origin
                within = TimeRange(max(span.start, start), span.end)
            else:
                bucket = (span.start - origin) // width
                stop = (bucket + buckets) * width + origin
                within = TimeRange(span.start, min(span.end, stop))
            found = self._run(planned, within)
            if within == span or (found.cells is not None and len(found.cells) >= wanted):
                return found
            buckets *= _WIDENING

    def close(self) -> None:
        """Stop the work and let go of snapshots; from any thread, any number of times."""
        if self._running is not None:
            self._running.close()
        if not self._is_read_to_end:
            self._life.cancel()
        self._life.end()

    def __del__(self) -> None:
        self._life.end()


class RepeatedAggregate:
    """An aggregate of a known shape, for another process to compute, or for this one."""

    __slots__ = ("_filter", "_open_reader", "_readers", "key", "run", "start")

    def __init__(
        self,
        key: Hashable,
        run: AggregateRun,
        filter: RunFilter,
        open_reader: Callable[[RegionId], RegionReader],
        start: Callable[[], AggregateRecords],
    ) -> None:
        self.key = key
        """What it has in common with others of its shape."""
        self.run = run
        self._filter = filter
        self._open_reader = open_reader
        self.start = start
        """Begins it in this process, without a fallback."""
        self._readers: list[RegionReader] = []

    @classmethod
    def can_be(cls, run: AggregateRun) -> bool:
        """Return whether an aggregate needs nothing but its own table's regions."""
        table = run.fitted.table
        is_plain = table.physical_table_id is None and table.view is None
        return is_plain and not run.fitted.over_tags and not run.fitted.computed

    def lend(self, lender: Lender) -> LentAggregate | None:
        """Take snapshots of the regions and return what another process needs; None if only this one can read them."""
        table = self.run.fitted.table
        regions = table.region_ids if len(table.region_numbers) == 1 else matching_regions(table, self._filter)
        lent = []
        for region in regions:
            reader = self._open_reader(region)
            self._readers.append(reader)
            part = lender.lend(reader)
            if part is None:
                return None
            lent.append(part)
        return LentAggregate(lender.number_of(self.run), self._filter, lent)

    def release(self) -> None:
        """Let go of what was lent; any number of times."""
        while self._readers:
            self._readers.pop().release()


def borrowed_records(lent: LentAggregate, borrower: Borrower, life: QueryLife) -> AggregateRecords:
    """Return the rows of an aggregate of another process; without a fallback, which is there."""
    run: AggregateRun = borrower.held(lent.run)
    fitted = run.fitted
    readers = {each.region_id: borrower.open(each) for each in lent.regions}
    regions = TableRegions(fitted.table, readers.__getitem__)
    dataset = TableDataset(fitted.table, regions, life, is_ordered=False)
    return AggregateRecords(run, BoundQuery(CellsRequest(lent.filter, fitted.runs)), dataset, life, threads=1)


def _span_of(planned: Sequence[PlannedCells]) -> TimeRange | None:
    """Return a range of time that all matching rows lie in; None when no row matches."""
    spans = [each.time_range for each in planned if each.time_range is not None]
    if not spans:
        return None
    return TimeRange(min(span.start for span in spans), max(span.end for span in spans))
