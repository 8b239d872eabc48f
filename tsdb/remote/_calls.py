"""A single request to a datanode that is answered at once."""

from __future__ import annotations

from typing import Any

from tsdb.clock import Clock
from tsdb.errors import DeadlineExceeded
from tsdb.remote._errors import NodeUnavailable, StaleStream, raise_error
from tsdb.remote._link import Link
from tsdb.remote._message import Part
from tsdb.remote._streams import BROKEN, text_of
from tsdb.remote.codec import lower_value, raise_value
from tsdb.telemetry import SpanKind, span
from tsdb.units import Duration

GRACE = Duration.of_seconds(2)
"""What a datanode gets to say itself that a deadline has passed, before the stream is cancelled."""


def call_node(link: Link, op: str, args: list[object], timeout: Duration, clock: Clock) -> Any:
    """Ask a datanode for something; NodeUnavailable if it does not answer, DeadlineExceeded if that takes too long."""
    deadline_ns = clock.monotonic_ns() + timeout
    lowered, buffers = lower_value(args)
    head = {"op": op, "args": lowered, "left": int(timeout)}
    with span(f"datanode.{op}", SpanKind.CLIENT, {"server.address": link.address}) as traced:
        if traced:
            head["trace"] = traced.traceparent
        return _exchange(link, head, buffers, deadline_ns, timeout, clock)


def _exchange(
    link: Link, head: dict[str, Any], buffers: list[Part], deadline_ns: int, timeout: Duration, clock: Clock
) -> Any:
    call = link.take(deadline_ns)
    try:
        call.ask(head, buffers, deadline_ns + GRACE)
        answer, arrived = call.answer()
    except BROKEN as error:
        link.discard(call)
        if clock.monotonic_ns() >= deadline_ns:
            raise DeadlineExceeded(
                f"the datanode did not answer within {timeout}", address=link.address, request=head["op"]
            ) from error
        kind = NodeUnavailable if call.is_fresh else StaleStream
        raise kind(text_of(error), address=link.address) from error
    except BaseException:
        link.discard(call)
        raise
    link.give(call)
    if "error" in answer:
        raise raise_error(answer["error"])
    return raise_value(answer["ok"], arrived)
