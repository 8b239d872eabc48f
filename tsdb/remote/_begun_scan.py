"""The client's end of a scan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tsdb.engine.reading import ScanRequest
from tsdb.remote._link import CallStream, Link
from tsdb.remote._message import Part, pack
from tsdb.telemetry import TraceSpan
from tsdb.waits import Place

_MORE = pack({"op": "more"})


class BegunScan:
    """A scan whose rows arrive on a stream, or have arrived with the plan."""

    __slots__ = ("_first", "call", "link", "request", "span")

    def __init__(
        self,
        link: Link,
        call: CallStream | None,
        *,
        request: ScanRequest,
        first: tuple[dict[str, Any], list[pa.Buffer]] | None = None,
        span: TraceSpan | None = None,
    ) -> None:
        self.link = link
        self.call = call
        """None once the stream was given back."""
        self.request = request
        self.span = span
        """Of a request of its own; rows that come with a plan are part of the plan's."""
        self._first = first

    def is_for(self, request: ScanRequest) -> bool:
        own = self.request
        return (own.share, list(own.columns), own.rows) == (request.share, list(request.columns), request.rows)

    def ask(self, head: dict[str, Any], buffers: list[Part], give_up_ns: int) -> None:
        assert self.call is not None
        self.call.ask(head, buffers, give_up_ns)

    def ask_more(self) -> None:
        assert self.call is not None
        self.call.stream.send_packed(_MORE)

    def next_message(self, place: Place | None) -> tuple[dict[str, Any], list[pa.Buffer]]:
        first, self._first = self._first, None
        if first is not None:
            return first
        assert self.call is not None
        return self.call.answer(place)
