"""Traces of requests whose protocol has no place for a trace context but the texts of statements."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from tsdb.telemetry import begin_trace, entered, is_tracing, parse_traceparent, traceparent_of_comment


def trace_texts(name: str, protocol: str, texts: Iterable[str]) -> AbstractContextManager[object]:
    """Trace a request with these texts in a `with` block, if it is to be traced.

    It continues the trace of the first `traceparent` in a comment; statements with others continue theirs.
    """
    if not is_tracing():
        return entered(None)
    found = (traceparent_of_comment(text) for text in texts)
    sender = parse_traceparent(next((each for each in found if each is not None), None))
    return entered(begin_trace(name, sender, attributes={"protocol": protocol}))
