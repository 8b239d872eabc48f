"""A reader of a region on another node.

It is opened with its first request, and released with a later one: neither costs a round trip. Several threads may use
it; each request takes a stream of its own. What the region does not know, expressions over tags, it asks for on the
stream of the request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from tsdb.clock import Clock
from tsdb.engine.reading import (
    NO_STATISTICS,
    Aggregated,
    Bounds,
    CellsRequest,
    CellsRun,
    Evaluate,
    KnownSeries,
    KnownSeriesRequest,
    PlannedCells,
    PlannedScan,
    RowFilter,
    RowsAhead,
    Samples,
    SamplesRequest,
    ScanRequest,
    SeriesRequest,
    SeriesRows,
)
from tsdb.errors import Cancelled, DeadlineExceeded
from tsdb.model import MetricView, RegionId, RegionSchema, TimeRange
from tsdb.remote._arrow import raise_rows
from tsdb.remote._begun_scan import BegunScan
from tsdb.remote._errors import NodeUnavailable, StaleStream, raise_error
from tsdb.remote._link import CallStream, Link
from tsdb.remote._message import Part
from tsdb.remote._streams import BROKEN, ClientStream, text_of
from tsdb.remote.codec import lower_into, lower_value, raise_value
from tsdb.telemetry import AttributeValue, SpanKind, TraceSpan, current_span, entered
from tsdb.units import Duration
from tsdb.waits import current_place

T = TypeVar("T")

TIMEOUT_MAX = Duration.of_seconds(3600)
"""How long a request of a query without a deadline may take."""
GRACE = Duration.of_seconds(2)
"""What a datanode gets to say itself that a deadline has passed, before the stream is cancelled."""


class Places(Protocol):
    """Finds the datanode of a region, again if it has moved."""

    def at_place(self, region_id: RegionId, ask: Callable[[Link], T]) -> T: ...


class RemoteReader:
    """What a region held when it was first asked, for one query."""

    def __init__(
        self,
        places: Places,
        region_id: RegionId,
        *,
        timeout: Duration | None,
        view: MetricView | None,
        check: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.region_id = region_id
        self._places = places
        self._view = view
        self._check = check
        self._clock = clock
        self._opened_for = current_span()
        """What threads of DataFusion work for, if the query is traced."""
        place = current_place()
        self._place = None if place is None else place.elsewhere
        """What the step occupies that they work for."""
        self._timeout = timeout
        self._deadline_ns = clock.monotonic_ns() + (TIMEOUT_MAX if timeout is None else timeout)
        self._opening = threading.Lock()
        self._link: Link | None = None
        self._statistics: Mapping[str, int] = NO_STATISTICS
        self._number = 0
        self._sources = 0
        self._schema: RegionSchema | None = None
        self._lock = threading.Lock()
        self._busy: set[ClientStream] = set()
        self._begun: dict[int, BegunScan] = {}
        """Scans whose first rows came with their plans, by the numbers of these."""
        self._is_over = False

    @property
    def schema(self) -> RegionSchema:
        if self._schema is None:
            self._schema = self._ask("reader_schema")
        return self._schema

    @property
    def sources(self) -> int:
        """In how many places rows are held; it is learned with the first request."""
        if not self._number:
            self._ask("statistics")
        return self._sources

    def plan_scan(self, filter: RowFilter, ahead: RowsAhead | None = None) -> PlannedScan:
        found: PlannedScan = self._ask("plan_scan", filter, ahead)
        return found

    def bounds(self, filter: RowFilter) -> Bounds | None:
        found: Bounds | None = self._ask("bounds", filter)
        return found

    def plan_cells(self, request: CellsRequest, evaluate: Evaluate | None = None) -> PlannedCells:
        found: PlannedCells = self._ask("plan_cells", request, evaluate=evaluate)
        return found

    def cells(self, request: CellsRun) -> Aggregated:
        found: Aggregated = self._ask("cells", request)
        return found

    def series(self, request: SeriesRequest) -> SeriesRows:
        found: SeriesRows = self._ask("series", request)
        return found

    def list_series(self, filter: RowFilter, time_range: TimeRange) -> Sequence[pa.RecordBatch]:
        found: Sequence[pa.RecordBatch] = self._ask("list_series", filter, time_range)
        return found

    def known_series(self, request: KnownSeriesRequest) -> KnownSeries | None:
        found: KnownSeries | None = self._ask("known_series", request)
        return found

    def samples(self, request: SamplesRequest) -> Samples | None:
        found: Samples | None = self._ask("samples", request)
        return found

    def statistics(self) -> Mapping[str, int]:
        """What the datanode said last, with the last answer: it can be asked for when the query is over."""
        return self._statistics

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share; the datanode makes the next batch meanwhile."""
        with self._lock:
            begun = self._begun.pop(request.plan, None)
        if begun is None or not begun.is_for(request):
            if begun is not None:
                self._end(begun)
            begun = self._begin(request)
        head: dict[str, Any] = {}
        schema: pa.Schema | None = None
        read = 0
        try:
            while True:
                head, buffers = begun.next_message(self._place)
                self._statistics = head.get("statistics", self._statistics)
                is_last = "rows" not in head or "end" in head
                if is_last:
                    # The stream is free already: a caller that has enough of the rows does not read to the end.
                    self._end(begun, is_read=True)
                if "rows" not in head:
                    break
                batch = raise_rows(buffers, schema)
                schema = batch.schema
                self._check()
                yield batch
                if is_last:
                    break
                read += 1
                if read > 1:
                    begun.ask_more()
        except BROKEN as error:
            raise self._broken(begun.call, begun.link, error) from error
        finally:
            self._end(begun)
            if begun.span is not None:
                _end_scan(begun.span, head)
        if "error" in head:
            raise raise_error(head["error"])

    def interrupt(self) -> None:
        """End what waits for the datanode: the query was cancelled."""
        with self._lock:
            self._is_over = True
            # Under the lock: afterwards a stream may belong to another query.
            for stream in self._busy:
                stream.cancel()

    def release(self) -> None:
        """End the query: the datanode is told with the next request. More calls do nothing."""
        self.interrupt()
        with self._lock:
            link, self._link = self._link, None
            begun, self._begun = list(self._begun.values()), {}
        for each in begun:
            self._end(each)
        if link is not None:
            link.release(self._number)

    @property
    def _give_up_ns(self) -> int:
        return self._deadline_ns + GRACE

    def _ask(self, op: str, *args: object, evaluate: Evaluate | None = None) -> Any:
        self._check()
        if self._link is None:
            with self._opening:
                if self._link is None:
                    return self._places.at_place(
                        self.region_id, lambda link: self._exchange(link, op, args, evaluate, opens=True)
                    )
        link = self._link
        if link is None:
            raise Cancelled("the query is over")
        return self._exchange(link, op, args, evaluate)

    def _exchange(
        self, link: Link, op: str, args: tuple[object, ...], evaluate: Evaluate | None, *, opens: bool = False
    ) -> Any:
        lowered, buffers = lower_value(list(args))
        head = self._head(op, lowered)
        if opens:
            head["open"] = lower_into([self.region_id, self._view], buffers)
        if evaluate is not None:
            head["evaluates"] = True
        with entered(self._trace(link, head)):
            return self._asked(link, head, buffers, evaluate, opens=opens)

    def _asked(
        self, link: Link, head: dict[str, Any], buffers: list[Part], evaluate: Evaluate | None, *, opens: bool
    ) -> Any:
        call = self._take(link)
        failure: list[BaseException] = []
        is_read = is_kept = False
        try:
            call.ask(head, buffers, self._give_up_ns)
            head, arrived = call.answer(self._place)
            while "ask" in head:
                self._compute(call, head["ask"], arrived, evaluate, failure)
                head, arrived = call.answer(self._place)
            is_kept = "rows_of" in head and "end" not in head
            is_read = not is_kept
        except BROKEN as error:
            raise self._broken(call, link, error) from error
        finally:
            if not is_kept:
                self._return(link, call, is_read=is_read)
        if "rows_of" in head:
            first = head, arrived[head["at"] :]
            request = raise_value(head["rows_of"], arrived)
            self._keep(request.plan, BegunScan(link, call if is_kept else None, request=request, first=first))
        self._statistics = head.get("statistics", self._statistics)
        if failure:
            raise failure[0]
        if "error" in head:
            raise raise_error(head["error"])
        if opens:
            self._opened(link, head["reader"], head["sources"])
        return raise_value(head["ok"], arrived)

    def _opened(self, link: Link, number: int, sources: int) -> None:
        with self._lock:
            self._number, self._sources = number, sources
            if not self._is_over:
                self._link = link
                return
        link.release(number)

    def _head(self, op: str, args: Any) -> dict[str, Any]:
        left = None if self._timeout is None else max(0, self._deadline_ns - self._clock.monotonic_ns())
        return {"op": op, "args": args, "left": left, "reader": self._number}

    def _trace(self, link: Link, head: dict[str, Any]) -> TraceSpan | None:
        """Begin the span of a request, if the query is traced, and have the datanode continue its trace."""
        parent = current_span() or self._opened_for
        if parent is None:
            return None
        where: dict[str, AttributeValue] = {"server.address": link.address, "region": int(self.region_id)}
        span = parent.child(f"datanode.{head['op']}", SpanKind.CLIENT, where)
        head["trace"] = span.traceparent
        return span

    def _compute(
        self, call: CallStream, asked: list[Any], buffers: list[Any], evaluate: Evaluate | None, failure: list[Any]
    ) -> None:
        """Compute an expression that the region asks for; what goes wrong is raised here, not there."""
        assert evaluate is not None
        number, tags = asked[0], raise_value(asked[1], buffers)
        try:
            value, sent = lower_value(evaluate(number, tags))
        except Exception as error:  # noqa: BLE001 - raised when the region has ended the request
            failure.append(error)
            call.stream.send({"op": "failed"})
        else:
            call.stream.send({"op": "answer", "value": value}, sent)

    def _begin(self, request: ScanRequest) -> BegunScan:
        link = self._link
        assert link is not None, "a scan has been planned"
        args, buffers = lower_value([request])
        head = self._head("scan", args)
        span = self._trace(link, head)
        begun = BegunScan(link, self._take(link), request=request, span=span)
        try:
            begun.ask(head, buffers, self._give_up_ns)
        except BROKEN as error:
            broken = self._broken(begun.call, link, error)
            self._end(begun)
            if span is not None:
                span.fail(broken)
                span.end()
            raise broken from error
        return begun

    def _keep(self, plan: int, begun: BegunScan) -> None:
        """Keep the first rows of a scan until they are asked for."""
        with self._lock:
            if not self._is_over:
                self._begun[plan] = begun
                return
        self._end(begun)

    def _end(self, begun: BegunScan, *, is_read: bool = False) -> None:
        """Give the stream of a scan back, if it has not been given back."""
        call, begun.call = begun.call, None
        if call is not None:
            self._return(begun.link, call, is_read=is_read)

    def _take(self, link: Link) -> CallStream:
        opening: list[ClientStream] = []

        def watch(stream: ClientStream) -> None:
            opening.append(stream)
            self._watch(stream)

        try:
            call = link.take(self._deadline_ns, self._place, watch)
        except NodeUnavailable as error:
            with self._lock:
                self._busy.difference_update(opening)
            if self._is_over:
                raise Cancelled("the query was cancelled") from error
            raise
        if not opening:
            self._watch(call.stream)
        return call

    def _watch(self, stream: ClientStream) -> None:
        """Let a stream end with the query."""
        with self._lock:
            self._busy.add(stream)
            if self._is_over:
                stream.cancel()

    def _return(self, link: Link, call: CallStream, *, is_read: bool) -> None:
        with self._lock:
            self._busy.discard(call.stream)
        if is_read:
            link.give(call)
        else:
            link.discard(call)

    def _broken(self, call: CallStream | None, link: Link, error: BaseException) -> Exception:
        """Say why there is no answer."""
        if self._is_over:
            return Cancelled("the query was cancelled")
        self._check()
        if self._clock.monotonic_ns() >= self._deadline_ns:
            return DeadlineExceeded(
                "the datanode did not answer before the deadline", address=link.address, region_id=self.region_id
            )
        kind = NodeUnavailable if call is None or call.is_fresh or self._link is not None else StaleStream
        return kind(text_of(error), address=link.address, region_id=self.region_id)


def _end_scan(span: TraceSpan, head: dict[str, Any]) -> None:
    """End the span of a scan; `head` is that of the last message."""
    if "error" in head:
        span.fail(raise_error(head["error"]))
    span.end()
