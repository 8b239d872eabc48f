"""Spans of traces, and the one that the current work belongs to.

    begin_trace ─▶ TraceSpan ─▶ child ─▶ child …           each is sent to the collector when it ends

The current span is a context variable: it follows a request through coroutines, and to the threads of `StepPool`, which
copies the context. What runs on other threads is given the span. Work without a current span is not traced, and costs
one look at the variable: whether a request is traced is decided once, at its beginning (`Tracing.begin`).

Spans are our own and not those of OpenTelemetry's SDK, where a request that is not sampled costs 20 µs for each of its
spans (decision 0029).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from enum import Enum
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar

AttributeValue = str | bool | int | float

TEXT_CHARS_MAX = 4096
"""Longer values of attributes are cut."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_IN_COMMENT = re.compile(r"/\*[^*]{0,2000}?\btraceparent\s*=\s*'([0-9a-f-]{55})'")
_STATE_CHARS_MAX = 512
_NO_ATTRIBUTES: Mapping[str, AttributeValue] = MappingProxyType({})
_T = TypeVar("_T")


class SpanKind(Enum):
    """The part that a span has in a call between processes."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2


class RemoteSpan(NamedTuple):
    """A span of another process, as the header `traceparent` of W3C Trace Context describes it."""

    trace_id: int
    span_id: int
    is_sampled: bool
    state: str = ""
    """The header `tracestate`, which is passed on as it is."""


def parse_traceparent(text: str | None, state: str = "") -> RemoteSpan | None:
    """Return what the header says; None if there is none, or if it is invalid, as the standard wants it."""
    found = None if text is None else _TRACEPARENT.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_id, span_id = found[1], int(found[2], 16), int(found[3], 16)
    if version == "ff" or (version == "00" and found[5]) or not trace_id or not span_id:
        return None
    return RemoteSpan(trace_id, span_id, bool(int(found[4], 16) & 1), state[:_STATE_CHARS_MAX])


def traceparent_of_comment(text: str) -> str | None:
    """Return the `traceparent` in a comment of a statement, `/*traceparent='00-…-01'*/`, as sqlcommenter writes it."""
    if "traceparent" not in text:
        return None
    found = _IN_COMMENT.search(text)
    return None if found is None else found[1]


class SpanSink(Protocol):
    """What spans need of the tracing they belong to."""

    def now_ns(self) -> int: ...

    def new_span_id(self) -> int: ...

    def send(self, span: TraceSpan) -> None:
        """Take a span that has ended; never waits."""


class TraceSpan:
    """A piece of work of a sampled trace. Any thread may use it; as a context manager, it is the current one."""

    __slots__ = (
        "_token",
        "attributes",
        "end_ns",
        "error",
        "kind",
        "name",
        "parent_id",
        "sink",
        "span_id",
        "start_ns",
        "state",
        "trace_id",
    )

    def __init__(
        self,
        sink: SpanSink,
        name: str,
        *,
        trace_id: int,
        parent_id: int | None,
        kind: SpanKind,
        attributes: Mapping[str, AttributeValue],
        state: str = "",
    ) -> None:
        self.sink = sink
        self.name = name
        self.trace_id = trace_id
        self.parent_id = parent_id
        self.span_id = sink.new_span_id()
        self.kind = kind
        self.attributes: dict[str, AttributeValue] = dict(attributes)
        self.state = state
        self.start_ns = sink.now_ns()
        self.end_ns = 0
        self.error: str | None = None
        """Why the work failed."""
        self._token: Token[TraceSpan | None] | None = None

    @property
    def trace_id_text(self) -> str:
        return f"{self.trace_id:032x}"

    @property
    def traceparent(self) -> str:
        """What continues the trace in another process."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"

    def child(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, AttributeValue] = _NO_ATTRIBUTES,
        **more: AttributeValue,
    ) -> TraceSpan:
        """Begin a span inside this one."""
        return TraceSpan(
            self.sink,
            name,
            trace_id=self.trace_id,
            parent_id=self.span_id,
            kind=kind,
            attributes={**attributes, **more},
            state=self.state,
        )

    def set(self, attributes: Mapping[str, AttributeValue] = _NO_ATTRIBUTES, **more: AttributeValue) -> None:
        self.attributes.update(attributes, **more)

    def fail(self, error: BaseException) -> None:
        """The work has failed; the first reason counts."""
        if self.error is None:
            self.error = str(error)[:TEXT_CHARS_MAX] or type(error).__name__
            self.attributes["error.type"] = type(error).__name__
            status = getattr(error, "status", None)
            if status is not None:
                self.attributes["tsdb.status"] = str(getattr(status, "title", status))

    def end(self) -> None:
        """The work is over; more calls do nothing."""
        if not self.end_ns:
            self.end_ns = max(self.start_ns, self.sink.now_ns())
            self.sink.send(self)

    def end_with(self, done: Any) -> None:
        """End as a future did: a callback for `add_done_callback`."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self.fail(error)
        self.end()

    def __enter__(self) -> TraceSpan:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        token, self._token = self._token, None
        _reset(token)
        if error is not None and not isinstance(error, GeneratorExit):
            self.fail(error)
        self.end()


_CURRENT: ContextVar[TraceSpan | None] = ContextVar("tsdb_trace_span", default=None)

current_span = _CURRENT.get
"""Return the span that the current work belongs to; None if it is not traced."""


def fail_span(error: BaseException) -> None:
    """The work of the current span, if there is one, has failed."""
    found = _CURRENT.get()
    if found is not None:
        found.fail(error)


class _Untraced:
    """Stands for a span where nothing is traced."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def set(self, attributes: Mapping[str, AttributeValue] = _NO_ATTRIBUTES, **more: AttributeValue) -> None:
        """Nothing takes attributes."""

    @property
    def traceparent(self) -> str:
        return ""

    def __enter__(self) -> _Untraced:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing has begun."""


_UNTRACED = _Untraced()


def span(
    name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Mapping[str, AttributeValue] = _NO_ATTRIBUTES
) -> TraceSpan | _Untraced:
    """Begin a span inside the current one, for a `with` block; where nothing is traced, what is returned is false."""
    parent = _CURRENT.get()
    return _UNTRACED if parent is None else parent.child(name, kind, attributes)


def entered(found: TraceSpan | None) -> TraceSpan | _Untraced:
    """Return a span for a `with` block, which ends it; None does nothing there."""
    return found or _UNTRACED


class _Using:
    """Makes a span the current one for a `with` block."""

    __slots__ = ("_span", "_token")

    def __init__(self, found: TraceSpan) -> None:
        self._span = found
        self._token: Token[TraceSpan | None] | None = None

    def __enter__(self) -> _Using:
        self._token = _CURRENT.set(self._span)
        return self

    def __exit__(self, *_: object) -> None:
        _reset(self._token)


def using_span(found: TraceSpan | None) -> _Using | _Untraced:
    """Work for a span in a `with` block, without ending it; None changes nothing."""
    return _UNTRACED if found is None else _Using(found)


def iterate_within(found: TraceSpan, items: Iterator[_T]) -> Iterator[_T]:
    """Yield items that are made while a span is the current one; between them it is not."""
    while True:
        with using_span(found):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def _reset(token: Token[TraceSpan | None] | None) -> None:
    try:
        if token is not None:
            _CURRENT.reset(token)
    except ValueError:
        # A generator that nobody wanted to the end is closed in another context, which has no span of this.
        return
