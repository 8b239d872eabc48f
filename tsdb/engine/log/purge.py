"""Deciding which segments can go: pure, from what each segment holds and what each region has flushed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tsdb.engine.log.store import SegmentFacts

END_BYTES_MIN = 1 << 20
"""A segment that is being written is ended for a purge when it has grown to this."""


@dataclass(slots=True)
class SegmentState:
    """A segment and the last entry of each region in it."""

    number: int
    size_bytes: int
    max_entries: dict[int, int] = field(default_factory=dict)
    entries: int = 0
    """How many entries it holds, those of dropped regions included."""
    since_ms: int = 0
    """When it was begun; 0 if damage hides that."""


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge should do."""

    deletable: tuple[int, ...]
    pinning: tuple[int, ...]
    should_rotate: bool
    """The last segment is not needed and large enough: end it, so that it can be deleted too."""


def plan_purge(
    segments: Sequence[SegmentState],
    *,
    flushed: Mapping[int, int],
    threshold_bytes: int,
    held_from: int | None = None,
    unflushable: Collection[int] = (),
    has_active: bool = True,
) -> PurgePlan:
    """Choose the oldest segments that no region needs, never the last if that is being written.

    Segments from `held_from` on are kept whatever they hold. Regions that are `unflushable` pin segments like others,
    but asking for their flush is of no use.
    """
    pins = [_pins(segment, flushed) for segment in segments]
    count = 0
    while count < len(segments) - has_active and not pins[count]:
        if held_from is not None and segments[count].number >= held_from:
            break
        count += 1
    rest_bytes = sum(segment.size_bytes for segment in segments[count:])
    is_over = rest_bytes > threshold_bytes
    is_idle = has_active and count == len(segments) - 1 and not pins[-1] and bool(segments[-1].max_entries)
    should_rotate = is_idle and (is_over or segments[-1].size_bytes >= END_BYTES_MIN)
    pinning: dict[int, None] = {}
    for segment, regions in zip(segments[count:], pins[count:], strict=True):
        if rest_bytes <= threshold_bytes:
            break
        pinning.update(dict.fromkeys(region for region in regions if region not in unflushable))
        rest_bytes -= segment.size_bytes
    deletable = tuple(segment.number for segment in segments[:count])
    return PurgePlan(deletable, tuple(pinning), should_rotate)


def _pins(segment: SegmentState, flushed: Mapping[int, int]) -> list[int]:
    return [region for region, last in segment.max_entries.items() if flushed.get(region, -1) < last]


def describe_segment(
    segment: SegmentState, *, flushed: Mapping[int, int], held_from: int | None, is_last: bool
) -> SegmentFacts:
    """Tell why a segment is there."""
    pinning = tuple(sorted(_pins(segment, flushed)))
    if is_last:
        state, reason = "active", "it is being written"
    elif pinning:
        state, reason = "pinned", f"{len(pinning)} regions have entries in it that are not flushed"
    elif held_from is not None and segment.number >= held_from:
        state, reason = "held", f"the log is damaged from segment {held_from:016x} on"
    else:
        state, reason = "unneeded", "it is deleted when all before it are"
    return SegmentFacts(segment.number, segment.size_bytes, segment.entries, segment.since_ms, state, reason, pinning)
