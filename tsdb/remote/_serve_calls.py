"""The server's end of a stream of calls: readers, and everything that is answered at once.

    {"op": verb, "args": […], "left": ns, "reader": number or "open": [region, view], "released": [readers],
     "trace": traceparent, "call": number}
        ◀─ {"ok": value, "reader": number of a reader that was opened, "sources": in how many places its rows are,
            "statistics": what the reader has counted so far}
        ◀─ {"error": …}
        ◀─ {"ask": [number of an expression, tags]}, answered by {"op": "answer"}
        ◀─ {"rows": batch} …, each answered by {"op": "more"}, and an "end" with the last one or after it

Whatever is sent has the number of the request as its "call": a client does not take it for the answer to the next one.

A plan for a scan whose columns are known has the first of these: shares are read one after the other then.

A request holds a slot while it computes, and none while it waits for its client. Of a scan, the client gets at most
`WINDOW_BATCHES` before it asks for more. A client that does not want the rest ends the stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tsdb.clock import Clock
from tsdb.engine.reading import KnownSeries, KnownSeriesRequest, RegionReader
from tsdb.errors import Cancelled, TsdbError
from tsdb.model import RegionId
from tsdb.remote._errors import BadMessage, lower_error
from tsdb.remote._message import Part
from tsdb.remote._readers import Readers
from tsdb.remote._serve_rows import RowMessages
from tsdb.remote._served import NodeVerbs, ServedRegions
from tsdb.remote._slots import RequestSlots
from tsdb.remote._streams import WINDOW_BATCHES, ServerStream
from tsdb.remote.codec import lower_into, lower_value, raise_value
from tsdb.telemetry import continue_trace, entered, get_logger
from tsdb.units import Duration

READER_VERBS = frozenset({"bounds", "cells", "series", "list_series", "samples", "statistics"})
REGION_VERBS = frozenset(
    {
        *("create_region", "schema", "stat", "time_range", "files"),
        *("compactions", "wal_segments", "storage_requests", "skip_log_object"),
    }
)
NODE_VERBS = frozenset({"open_regions", "close_region", "region_ids", "takeovers", "backup"})
DEFAULT_LEFT = Duration.of_seconds(60)
"""What a request has that does not say how much time is left."""

_log = get_logger("tsdb.remote")
_serving = threading.local()
"""The stream that a thread serves."""


class _EvaluationFailed(Exception):
    """The client could not compute an expression; it knows why."""


class CallsEnd:
    """Answers the calls of one stream, one after the other."""

    def __init__(
        self,
        stream: ServerStream,
        session: int,
        *,
        regions: Callable[[], ServedRegions],
        node: NodeVerbs,
        readers: Readers,
        slots: RequestSlots,
        clock: Clock,
    ) -> None:
        self._stream = stream
        self._session = session
        self._regions = regions
        self._node = node
        self._readers = readers
        self._slots = slots
        self._clock = clock
        self._number: int | None = None
        """Of the request that is being answered."""

    def run(self) -> None:
        """Answer until the client ends the stream."""
        _serving.stream = self._stream
        while (message := self._stream.receive()) is not None:
            head, buffers = message
            for number in head.get("released", ()):
                self._readers.release(number, self._session)
            # The last batches of a scan are asked for before it is known that they were the last.
            if head["op"] != "more":
                self._number = head.get("call")
                self._answer(head, buffers)

    def _answer(self, head: dict[str, Any], buffers: list[pa.Buffer]) -> None:
        try:
            with entered(continue_trace(f"datanode.{head['op']}", head.get("trace"))):
                self._run_verb(_Call(head, buffers, self._clock))
        except _EvaluationFailed:
            self._tell({"evaluation": "failed"})
        except Exception as error:  # whatever went wrong, the client is told
            if self._stream.is_broken:
                raise
            if not isinstance(error, TsdbError):
                _log.exception("a request of another node failed", op=head.get("op"))
            self._tell({"error": lower_error(error)})

    def _tell(self, head: dict[str, Any], buffers: list[Part] | tuple[Part, ...] = ()) -> None:
        """Send a message that belongs to the request."""
        self._stream.send(head if self._number is None else {**head, "call": self._number}, buffers)

    def _run_verb(self, call: _Call) -> None:
        op = call.op
        if op in REGION_VERBS:
            self._reply(call, lambda: getattr(self._regions(), op)(*call.args))
        elif op in NODE_VERBS:
            # These take long and compute little: they must not keep queries waiting.
            self._send(call, lower_value(getattr(self._node, op)(*call.args)))
        elif "open" in call.head:
            self._open(call)
        else:
            with self._readers.use(call.head["reader"], self._session) as reader:
                self._send_rows(call, self._read(call, reader, {}))

    def _open(self, call: _Call) -> None:
        region_id, view = raise_value(call.head["open"], call.buffers)
        opened: list[int] = []

        def check() -> None:
            # A reader is used by several streams: the one that matters is that of this thread.
            stream: ServerStream | None = getattr(_serving, "stream", None)
            if stream is not None and stream.is_broken:
                raise Cancelled("the client disconnected")
            if opened:
                self._readers.check(opened[0])

        self._readers.check_room()
        with self._slot(call):
            reader = self._regions().open_reader(RegionId(region_id), timeout=call.timeout, view=view, check=check)
        number = self._readers.add(reader, self._session, call.timeout)
        opened.append(number)
        # In use until the last row is sent: the client may release it once it has read that.
        with self._readers.use(number, self._session):
            try:
                self._node.check_read()
                rows = self._read(call, reader, {"reader": number, "sources": reader.sources})
            except BaseException:
                # The client does not learn of its number.
                self._readers.release(number, self._session)
                raise
            self._send_rows(call, rows)

    def _read(self, call: _Call, reader: RegionReader, also: dict[str, Any]) -> RowMessages | None:
        """Answer; return the rows that are still to be sent."""
        op = call.op
        if op == "scan":
            (request,) = call.args
            return RowMessages(reader, request, self._clock)
        if op == "plan_scan":
            return self._plan_scan(call, reader, also)
        if op == "plan_cells":
            (request,) = call.args
            evaluate = self._evaluator(call) if call.head.get("evaluates") else None
            self._reply(call, lambda: reader.plan_cells(request, evaluate), also, reader)
        elif op == "known_series":
            self._reply(call, lambda: _known_series(reader, *call.args), also, reader)
        elif op == "reader_schema":
            self._reply(call, lambda: reader.schema, also, reader)
        elif op in READER_VERBS:
            self._reply(call, lambda: getattr(reader, op)(*call.args), also, reader)
        else:
            raise BadMessage(f"there is no verb {op!r}")
        return None

    def _reply(
        self,
        call: _Call,
        compute: Callable[[], object],
        also: dict[str, Any] | None = None,
        reader: RegionReader | None = None,
    ) -> None:
        with self._slot(call):
            lowered = lower_value(compute())
        if reader is not None:
            # The client may ask for it when the query is over, and the reader with it.
            also = {**(also or {}), "statistics": dict(reader.statistics())}
        self._send(call, lowered, also)

    def _send(self, call: _Call, lowered: tuple[Any, list[Part]], also: dict[str, Any] | None = None) -> None:
        head, buffers = lowered
        self._tell({"ok": head, **(also or {})}, buffers)

    @contextmanager
    def _slot(self, call: _Call) -> Iterator[None]:
        self._slots.acquire(call.deadline_ns, lambda: self._stream.is_broken)
        try:
            yield
        finally:
            self._slots.release()

    @contextmanager
    def _without_slot(self, call: _Call) -> Iterator[None]:
        """Wait for the client; others may compute meanwhile."""
        self._slots.release()
        try:
            yield
        finally:
            # Even if the client is gone: the slot is given back once more.
            self._slots.acquire(call.deadline_ns + (1 << 62), lambda: False)

    def _evaluator(self, call: _Call) -> Callable[[int, pa.RecordBatch], pa.Array]:
        def evaluate(number: int, tags: pa.RecordBatch) -> pa.Array:
            head, buffers = lower_value(tags)
            with self._without_slot(call):
                self._tell({"ask": [number, head]}, buffers)
                answer = self._stream.receive()
            if answer is None:
                raise Cancelled("the client disconnected")
            if answer[0].get("op") != "answer":
                raise _EvaluationFailed
            return raise_value(answer[0]["value"], answer[1])

        return evaluate

    def _plan_scan(self, call: _Call, reader: RegionReader, also: dict[str, Any]) -> RowMessages | None:
        wanted, ahead = call.args
        with self._slot(call):
            planned = reader.plan_scan(wanted)
            head, buffers = lower_value(planned)
            rows = None
            if ahead is not None and planned.shares:
                request = ahead.request_for(planned)
                rows = RowMessages(reader, request, self._clock)
                first, body = rows.make()
                also = {**also, **first, "rows_of": lower_into(request, buffers), "at": len(buffers)}
                buffers += body
        self._send(call, (head, buffers), {"statistics": dict(reader.statistics()), **also})
        return rows

    def _send_rows(self, call: _Call, rows: RowMessages | None) -> None:
        while rows is not None and not rows.is_over:
            if rows.made >= WINDOW_BATCHES and self._stream.receive() is None:
                raise Cancelled("the client disconnected")
            with self._slot(call):
                message = rows.make()
            self._tell(*message)


class _Call:
    """A request, as it arrived."""

    __slots__ = ("_args", "buffers", "deadline_ns", "head", "op", "timeout")

    def __init__(self, head: dict[str, Any], buffers: list[pa.Buffer], clock: Clock) -> None:
        self.head = head
        self.buffers = buffers
        self.op: str = head["op"]
        left = head.get("left")
        self.timeout = None if left is None else Duration(max(0, left))
        self.deadline_ns = clock.monotonic_ns() + (DEFAULT_LEFT if left is None else left)
        self._args: list[Any] | None = None

    @property
    def args(self) -> list[Any]:
        if self._args is None:
            self._args = raise_value(self.head["args"], self.buffers)
        return self._args


def _known_series(reader: RegionReader, request: KnownSeriesRequest) -> KnownSeries | None:
    """Leave out the labels that the client holds."""
    known = reader.known_series(request)
    return KnownSeries(known.version, None) if known is not None and known.version == request.held else known
