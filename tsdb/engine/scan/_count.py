"""How many rows there are."""

from __future__ import annotations

from tsdb.engine.scan._filter import make_filter
from tsdb.engine.scan._parts import Part, make_parts
from tsdb.engine.scan._plan import ScanPlan
from tsdb.engine.scan._segments import Segment, make_segments
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics


def count_rows(snapshot: Snapshot, *, statistics: ScanStatistics | None = None) -> int:
    """Return how many rows are visible: from series blocks where they tell, by a scan of keys where they do not."""
    counters = statistics or ScanStatistics()
    wanted = make_filter(snapshot.schema, None)
    segments = make_segments(snapshot.options, make_parts(snapshot, wanted, counters))
    known = [segment for segment in segments if _is_counted(segment)]
    plan = ScanPlan(snapshot, wanted, [segment for segment in segments if not _is_counted(segment)], counters)
    counters.add(segments_direct=len(known))
    snapshot.check()
    return sum(segment.parts[0].rows for segment in known) + sum(block.rows for block in plan.blocks(()))


def _is_counted(segment: Segment) -> bool:
    """Tell whether every row of a segment is visible, as far as is known without reading it."""
    part = segment.parts[0]
    return segment.is_direct and not part.source.facts.has_tombstones and _is_within(part)


def _is_within(part: Part) -> bool:
    return part.time_range.start <= int(part.time_min.min()) and int(part.time_max.max()) <= part.time_range.last
