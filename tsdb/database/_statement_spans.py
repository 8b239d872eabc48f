"""The spans of statements, where they are traced.

A statement is a part of its request. One whose text has a comment with a `traceparent`, as sqlcommenter writes them,
continues that trace instead: clients of MySQL and PostgreSQL have no other place for it.
"""

from __future__ import annotations

from tsdb.query import Session
from tsdb.telemetry import (
    TraceSpan,
    begin_trace,
    current_span,
    is_tracing,
    parse_traceparent,
    traceparent_of_comment,
)

TEXT_CHARS_MAX = 4096
"""How much of a statement its span has."""


def begin_statement(name: str, text: str, shown: str, session: Session) -> TraceSpan | None:
    """Begin the span of a statement or PromQL query; None if it is not traced. `shown` is its text without secrets."""
    parent = current_span()
    if parent is None and not is_tracing():
        return None
    attributes = {
        "db.system.name": "tsdb",
        "db.namespace": session.database,
        "db.operation.name": name,
        "db.query.text": shown[:TEXT_CHARS_MAX],
        "protocol": str(session.channel),
    }
    sender = parse_traceparent(traceparent_of_comment(text))
    if sender is not None and (parent is None or parent.trace_id != sender.trace_id):
        return begin_trace(name, sender, attributes=attributes)
    return None if parent is None else parent.child(name, attributes=attributes)
