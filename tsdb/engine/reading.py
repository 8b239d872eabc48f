"""Reading a region, wherever it is: what can be asked, and what comes back.

A query opens a reader for each region it reads. The reader shows what the region held when it was opened:

    open_reader ─┬▶ plan_scan ─▶ scan, share by share          rows, for the planner and for plain selections
                 ├▶ plan_cells ─▶ cells, in any range of time   aggregates over series
                 ├▶ series, list_series                         whole series with their rows, and without
                 ├▶ known_series ─▶ samples                     series under numbers that stay, for PromQL
                 ├▶ bounds, statistics
                 └▶ release

Requests and answers are values that can travel: frozen dataclasses of numbers, names, ranges of time, filters and Arrow
data. A local reader takes and returns them as they are; a remote one encodes them. What a plan consists of stays at the
region, and its answer gives the plan a number. What only the caller can compute, which is expressions over tags, the
region asks for in the course of `plan_cells`: `Evaluate` takes Arrow data and returns it.

Nothing here refers to snapshots, sources or files; other packages know this module and `tsdb.engine` only.
`tests/loopback_regions.py` is a second implementation, which encodes everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb._kernels import Samples
from tsdb.engine.index import TextAll, TextAny, TextHolds, TextNode, TextTest, is_selective
from tsdb.engine.rows.slices import Positions
from tsdb.engine.scan import (
    Aggregated,
    Call,
    Cells,
    ComputedKey,
    Conditions,
    Constant,
    Ends,
    Evaluate,
    GroupKeys,
    Node,
    Ref,
    RowExpression,
    RowFilter,
    RunQuery,
    RunStatistics,
    ScanStatistics,
    TagIs,
    TagMatch,
    TagsAsked,
    Undecodable,
    decode_expression,
    decode_serialised,
    is_understood,
    joined,
    merge_aggregated,
    sortable_bits,
    text_test,
)
from tsdb.model import RegionSchema, TimeRange


def as_node(filter: RowExpression | None) -> Node | None:
    """Return a filter as a tree that can be looked into; None if it refers to columns in another way."""
    try:
        return None if filter is None else decode_expression(filter)
    except Undecodable:
        return None


SeriesNumbers: TypeAlias = npt.NDArray[np.uint32]

NO_STATISTICS: Mapping[str, int] = ScanStatistics().to_dict()
"""What a reader has counted that has read nothing."""


def no_check() -> None:
    """Nothing ends the query before its deadline."""


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan that is ready to be read."""

    number: int
    shares: int
    """How many threads can read it; each share has about the same number of rows."""
    segments: int
    """A share is sorted by series and time within a segment; segments follow one another."""


@dataclass(frozen=True, slots=True)
class RowsAhead:
    """What of a scan is read as soon as it is planned, share after share: another node sends it along."""

    columns: Sequence[str]
    """Of a scan that is sorted as a whole: it has one share of one segment."""
    columns_unsorted: Sequence[str]
    """Of any other one: the keys to sort it by are among them."""
    rows: int | None = None
    """How many rows are wanted of a scan that is sorted as a whole; None for all."""

    def request_for(self, planned: PlannedScan) -> ScanRequest:
        """Return what is read first of a scan."""
        if planned.shares <= 1 and planned.segments <= 1:
            return ScanRequest(planned.number, 0, self.columns, self.rows)
        return ScanRequest(planned.number, 0, self.columns_unsorted)


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """One share of a planned scan."""

    plan: int
    share: int
    columns: Sequence[str]
    rows: int | None = None
    """How many rows are wanted, from the beginning; None for all."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What series blocks tell of the rows that match a filter."""

    time_range: TimeRange
    """All of them lie in it."""
    rows: int
    """About how many there are: duplicates count, and rows that only a look at them would rule out."""


@dataclass(frozen=True, slots=True, eq=False)
class CellsRequest:
    """An aggregation: the rows that match, by groups of series and buckets of time."""

    filter: RowFilter
    query: RunQuery


@dataclass(frozen=True, slots=True)
class PlannedCells:
    """An aggregation that is ready to be run."""

    number: int
    series: int
    """How many series are read, in all sources together."""
    time_range: TimeRange | None
    """All matching rows lie in it; None when no row matches."""


@dataclass(frozen=True, slots=True)
class CellsRun:
    """A planned aggregation over a range of time."""

    plan: int
    within: TimeRange = TimeRange.ALL
    threads: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class SeriesRequest:
    """Rows of whole series."""

    filter: RowFilter
    time_range: TimeRange
    columns: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class SeriesRows:
    """Series that have rows, in order, and their rows in the order of time."""

    tags: pa.RecordBatch
    """A row for each series."""
    offsets: Positions
    """The rows of series i are `offsets[i]` to `offsets[i + 1]`."""
    times: npt.NDArray[np.int64]
    fields: Mapping[str, pa.Array]


@dataclass(frozen=True, slots=True)
class KnownSeriesRequest:
    """The series of a region that may have rows in a range of time, and others."""

    time_range: TimeRange
    held: tuple[int, int] | None = None
    """The version that the caller holds."""
    is_selective: bool = False
    """The caller wants few of the series: finding these by an index may cost less than to learn of all."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownSeries:
    """Series under numbers: number i is row i of the tags. Later versions of the same register only add rows."""

    version: tuple[int, int]
    """The register and its version."""
    tags: pa.RecordBatch | None
    """May be left out if the caller holds this version."""


@dataclass(frozen=True, slots=True, eq=False)
class SamplesRequest:
    """Times and values of series by their numbers, in this order."""

    time_range: TimeRange
    """The same as in the request for the series."""
    column: str
    numbers: SeriesNumbers


class RegionReader(Protocol):
    """What a region held when it was opened, for one query. Safe to use from many threads."""

    @property
    def schema(self) -> RegionSchema: ...

    @property
    def sources(self) -> int:
        """In how many places, files and memory, rows are held."""

    def plan_scan(self, filter: RowFilter, ahead: RowsAhead | None = None) -> PlannedScan:
        """Decide what a scan reads; what the caller will read at once may come along."""

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the visible rows of a share that match; it can be read again."""

    def bounds(self, filter: RowFilter) -> Bounds | None:
        """Return what is known of matching rows without reading any; None when there are none."""

    def plan_cells(self, request: CellsRequest, evaluate: Evaluate | None = None) -> PlannedCells:
        """Decide what an aggregation reads. `evaluate` computes the expressions over tags that the request numbers."""

    def cells(self, request: CellsRun) -> Aggregated:
        """Aggregate, or raise ScanTooLarge."""

    def series(self, request: SeriesRequest) -> SeriesRows:
        """Return the visible rows of the series that match, or raise ScanTooLarge."""

    def list_series(self, filter: RowFilter, time_range: TimeRange) -> Sequence[pa.RecordBatch]:
        """Return the tags of the series that match and may have rows in a range of time, some perhaps repeatedly.

        Rows that are past their time to live count as long as they are there.
        """

    def known_series(self, request: KnownSeriesRequest) -> KnownSeries | None:
        """Return the series under their numbers; None if `series` has to read them."""

    def samples(self, request: SamplesRequest) -> Samples | None:
        """Return the samples of series that `known_series` numbered, or raise ScanTooLarge.

        None if `series` has to read them. To travel, samples have `columns()` and `places`.
        """

    def statistics(self) -> Mapping[str, int]:
        """Return what reading has taken so far, by counter."""

    def interrupt(self) -> None:
        """The query was cancelled: calls of other threads that wait for another node end soon."""

    def release(self) -> None:
        """End the query: files may be deleted now. More calls do nothing."""


__all__ = [
    "NO_STATISTICS",
    "Aggregated",
    "Bounds",
    "Call",
    "Cells",
    "CellsRequest",
    "CellsRun",
    "ComputedKey",
    "Conditions",
    "Constant",
    "Ends",
    "Evaluate",
    "GroupKeys",
    "KnownSeries",
    "KnownSeriesRequest",
    "Node",
    "PlannedCells",
    "PlannedScan",
    "Positions",
    "Ref",
    "RegionReader",
    "RowFilter",
    "RowsAhead",
    "RunQuery",
    "RunStatistics",
    "Samples",
    "SamplesRequest",
    "ScanRequest",
    "SeriesNumbers",
    "SeriesRequest",
    "SeriesRows",
    "TagIs",
    "TagMatch",
    "TagsAsked",
    "TextAll",
    "TextAny",
    "TextHolds",
    "TextNode",
    "TextTest",
    "as_node",
    "decode_serialised",
    "is_selective",
    "is_understood",
    "joined",
    "merge_aggregated",
    "no_check",
    "sortable_bits",
    "text_test",
]
