"""Regions as another node would serve them, in one process: every request and every answer is encoded and decoded.

    query ─ request ─▶ bytes ─▶ request ─▶ LocalReader ─ answer ─▶ bytes ─▶ answer ─▶ query

What is not a plain value or Arrow data raises TypeError, so suites that pass through here prove that a remote region
could answer them (`tsdb/remote/codec.py`). Calls of `Evaluate` go the same way in the other direction. Errors and
`check`, which stay in the process of the query, are handed on as they are.
"""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pytest

from tsdb.engine import Engine
from tsdb.engine.reading import (
    Aggregated,
    Bounds,
    CellsRequest,
    CellsRun,
    Evaluate,
    KnownSeries,
    KnownSeriesRequest,
    PlannedCells,
    PlannedScan,
    RegionReader,
    RowFilter,
    RowsAhead,
    Samples,
    SamplesRequest,
    ScanRequest,
    SeriesRequest,
    SeriesRows,
    no_check,
)
from tsdb.model import MetricView, RegionId, RegionSchema, TimeRange
from tsdb.remote.codec import decode_value, encode_value
from tsdb.units import Duration

T = TypeVar("T")


def travel(value: T) -> T:
    """Return what arrives when a value is sent."""
    return typing.cast(T, decode_value(encode_value(value)))


class LoopbackReader:
    """A reader whose requests and answers travel."""

    calls: ClassVar[Counter[str]] = Counter()
    """How often each verb was used in this process."""

    def __init__(self, reader: RegionReader, check: Callable[[], None]) -> None:
        self._reader = reader
        self._check = check
        self.schema: RegionSchema = travel(reader.schema)
        self.sources: int = travel(reader.sources)

    def plan_scan(self, filter: RowFilter, ahead: RowsAhead | None = None) -> PlannedScan:
        return self._call("plan_scan", self._reader.plan_scan, filter, ahead)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        self.calls["scan"] += 1
        for batch in self._reader.scan(travel(request)):
            self._check()
            yield travel(batch)

    def bounds(self, filter: RowFilter) -> Bounds | None:
        return self._call("bounds", self._reader.bounds, filter)

    def plan_cells(self, request: CellsRequest, evaluate: Evaluate | None = None) -> PlannedCells:
        self.calls["plan_cells"] += 1
        self._check()

        def ask(number: int, tags: pa.RecordBatch) -> pa.Array:
            assert evaluate is not None
            self.calls["evaluate"] += 1
            return travel(evaluate(*travel((number, tags))))

        return travel(self._reader.plan_cells(travel(request), None if evaluate is None else ask))

    def cells(self, request: CellsRun) -> Aggregated:
        return self._call("cells", self._reader.cells, request)

    def series(self, request: SeriesRequest) -> SeriesRows:
        return self._call("series", self._reader.series, request)

    def list_series(self, filter: RowFilter, time_range: TimeRange) -> Sequence[pa.RecordBatch]:
        return self._call("list_series", self._reader.list_series, filter, time_range)

    def known_series(self, request: KnownSeriesRequest) -> KnownSeries | None:
        found = self._reader.known_series(travel(request))
        if found is not None and found.version == request.held:
            self.calls["held_series"] += 1
            found = KnownSeries(found.version, None)
        self.calls["known_series"] += 1
        return travel(found)

    def samples(self, request: SamplesRequest) -> Samples | None:
        return self._call("samples", self._reader.samples, request)

    def statistics(self) -> Mapping[str, int]:
        return self._call("statistics", self._reader.statistics)

    def interrupt(self) -> None:
        self._reader.interrupt()

    def release(self) -> None:
        self._reader.release()

    def _call(self, name: str, verb: Callable[..., T], *arguments: object) -> T:
        self.calls[name] += 1
        self._check()
        return travel(verb(*(travel(each) for each in arguments)))


def read_through_loopback(patch: pytest.MonkeyPatch) -> None:
    """Let every engine that is opened from now on give readers whose requests and answers travel."""
    open_local = Engine.open_reader

    def open_reader(
        engine: Engine,
        region_id: RegionId,
        *,
        timeout: Duration | None = None,
        view: MetricView | None = None,
        check: Callable[[], None] = no_check,
    ) -> LoopbackReader:
        reader = open_local(engine, travel(region_id), timeout=travel(timeout), view=travel(view))
        return LoopbackReader(reader, check)

    patch.setattr(Engine, "open_reader", open_reader)
    for name in ("schema", "stat", "files", "time_range"):
        verb = getattr(Engine, name)

        def ask(engine: Engine, region_id: RegionId, *, verb: Callable[..., Any] = verb, **named: object) -> Any:
            return travel(verb(engine, travel(region_id), **travel(named)))

        patch.setattr(Engine, name, ask)
