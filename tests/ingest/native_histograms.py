"""Native histograms as messages of remote write: one to begin with, and all that make sense."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from tests.ingest.prometheus_messages import Series, messages, write_request, write_request_v2

STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
CUSTOM = -53

_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_COUNTS = st.integers(0, 1 << 50)


def whole(*counts: int, time: int = 1000, total: float = 2.5, offset: int = 0) -> Any:
    """A histogram of schema 0 with one span of buckets."""
    made = messages["Histogram"](count_int=sum(counts), sum=total, zero_threshold=0.001, timestamp=time)
    if counts:
        made.positive_spans.add(offset=offset, length=len(counts))
        made.positive_deltas.extend(after - before for before, after in zip((0, *counts), counts, strict=False))
    return made


def request_of(labels: dict[str, str], *histograms: Any, floats: Series | None = None, version: int = 1) -> Any:
    """A request with histograms of one series and, before it, a series of floats."""
    make = write_request if version == 1 else write_request_v2
    request = make([*([] if floats is None else [floats]), (list(labels.items()), [])])
    request.timeseries[-1].histograms.extend(histograms)
    return request


@st.composite
def valid(draw: st.DrawFn) -> Any:
    """Any histogram that makes sense: counts of both kinds, bounds that are powers, and bounds that are given."""
    made = messages["Histogram"](
        sum=draw(st.floats(width=64)),
        timestamp=draw(st.integers(-(1 << 40), 1 << 40)),
        reset_hint=draw(st.integers(0, 3)),
    )
    is_float, is_custom = draw(st.booleans()), draw(st.booleans())
    held = _put_side(draw, made.positive_spans, made.positive_deltas, made.positive_counts, is_float, is_custom)
    if is_custom:
        made.schema = CUSTOM
        reach = sum(span.offset + span.length for span in made.positive_spans)
        bounds = draw(st.sets(_FINITE, min_size=reach, max_size=reach + 3))
        made.custom_values.extend(sorted(bounds))
    else:
        made.schema, made.zero_threshold = draw(st.integers(-4, 8)), draw(st.floats(0, 1))
        held += _put_side(draw, made.negative_spans, made.negative_deltas, made.negative_counts, is_float, is_custom)
        zero = draw(_COUNTS)
        held += zero
        if is_float:
            made.zero_count_float = zero / 3
        else:
            made.zero_count_int = zero
    if is_float:
        made.count_float = draw(st.floats(0.5, 1e9))
    else:
        made.count_int = held
    return made


def _put_side(draw: st.DrawFn, spans: Any, deltas: Any, counts: Any, is_float: bool, is_custom: bool) -> int:
    """Draw the spans and buckets of one side; how many observations they hold."""
    lengths = draw(st.lists(st.integers(0, 4), max_size=4))
    for at, length in enumerate(lengths):
        spans.add(offset=draw(st.integers(-5 if at == 0 and not is_custom else 0, 5)), length=length)
    held = draw(st.lists(_COUNTS, min_size=sum(lengths), max_size=sum(lengths)))
    if is_float:
        counts.extend(each / 7 for each in held)
    else:
        deltas.extend(after - before for before, after in zip([0, *held], held, strict=False))
    return sum(held)
