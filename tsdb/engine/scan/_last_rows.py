"""The newest row of every series, read from the ends of runs.

The series blocks say when each series was written last and in which source. If that is one source, and its last row of
the series is a put that stands alone, this row is the answer. Otherwise (two sources end at the same time, the last row
is a tombstone, values of several rows make one) the series is merged like in any other scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.rows.series import Positions, union_ordered
from tsdb.engine.rows.slices import Slices
from tsdb.engine.scan._blocks import Block, DirectBlock, Stretches
from tsdb.engine.scan._filter import Mask, make_filter
from tsdb.engine.scan._merged import Bundle, read_merged
from tsdb.engine.scan._parts import Part, make_parts
from tsdb.engine.scan._plan import block_rows
from tsdb.engine.scan._projection import Projection, empty_columns
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics
from tsdb.errors import InvalidArguments
from tsdb.model import MergeMode, OpType, TimeRange


def last_rows(
    snapshot: Snapshot,
    filter: pc.Expression | None,
    columns: Sequence[str],
    *,
    statistics: ScanStatistics | None = None,
) -> pa.RecordBatch:
    """Return the newest visible row of every series that matches, in order; the filter is about tags only."""
    counters = statistics or ScanStatistics()
    projection = Projection(snapshot.schema, columns)
    wanted = make_filter(snapshot.schema, filter)
    if wanted.on_rows or not (wanted.time_range == TimeRange.ALL or wanted.time_range.is_empty):
        raise InvalidArguments("the newest rows can be chosen by tags only", filter=filter)
    snapshot.check()
    parts = make_parts(snapshot, wanted, counters)
    found = list(_newest_blocks(snapshot, parts, projection, counters)) if parts else []
    batch = _join(projection, found)
    counters.add(rows_returned=batch.num_rows)
    return batch


def _newest_blocks(
    snapshot: Snapshot, parts: list[Part], projection: Projection, statistics: ScanStatistics
) -> Iterator[tuple[Positions, Block]]:
    """Yield rows, each the newest of its series unless a later block has it too, with their places among all series."""
    union, places = union_ordered([part.series for part in parts])
    unclear, claims = _find_claims(parts, places, len(union))
    for part, place, claimed in zip(parts, places, claims, strict=True):
        chosen = np.flatnonzero(claimed & ~unclear[place])
        is_answer = _find_answers(snapshot, part, chosen)
        unclear[place[chosen[~is_answer]]] = True
        ends = part.take(chosen[is_answer]).last_row_each()
        statistics.add(rows_read=ends.rows)
        yield place[chosen[is_answer]], DirectBlock(ends, Stretches(ends), 0, ends.rows)
    if not unclear.any():
        return
    ranks = np.flatnonzero(unclear)
    bundle = Bundle(tuple(parts), union, tuple(places)).take(ranks)
    stripe_rows = block_rows(projection.columns, snapshot.memory_bytes_max)
    for merged in read_merged(snapshot.schema, snapshot.options, bundle, stripe_rows=stripe_rows):
        snapshot.check()
        statistics.add(rows_read=merged.rows)
        yield ranks[merged.first + merged.runs.ranks], merged.select(np.cumsum(merged.runs.lengths) - 1)


def _find_claims(parts: list[Part], places: list[Positions], series: int) -> tuple[Mask, list[Mask]]:
    """Find the series that several parts were written to last, and for each part those it was written to last."""
    newest = np.full(series, np.iinfo(np.int64).min)
    for part, place in zip(parts, places, strict=True):
        newest[place] = np.maximum(newest[place], part.time_max)
    claims = [part.time_max == newest[place] for part, place in zip(parts, places, strict=True)]
    count = np.zeros(series, dtype=np.int64)
    for place, claimed in zip(places, claims, strict=True):
        count[place] += claimed
    return count > 1, claims


def _find_answers(snapshot: Snapshot, part: Part, chosen: Positions) -> Mask:
    """Tell for some series of a part whether its last row is the answer."""
    last = part.stops[chosen] - 1
    is_answer = np.ones(len(chosen), dtype=np.bool_)
    if part.source.facts.has_tombstones:
        ops = part.source.ops(Slices(last, last + 1))
        is_answer &= True if ops is None else ops == OpType.PUT
    if _joins_rows(snapshot, part) and not part.source.facts.is_unique:
        # The row before may have the same time; without one the last row is compared with itself.
        several = part.starts[chosen] < last
        before = np.where(several, last - 1, last)
        times = [part.source.times(Slices(rows, rows + 1)) for rows in (before, last)]
        is_answer &= ~several | (times[0] != times[1])
    return is_answer


def _joins_rows(snapshot: Snapshot, part: Part) -> bool:
    """Tell whether the values of a row can come from several rows of the same key."""
    options = snapshot.options
    return options.merge_mode is MergeMode.LAST_NON_NULL and not options.keeps_all(part.source.facts.sequence_min)


def _join(projection: Projection, found: list[tuple[Positions, Block]]) -> pa.RecordBatch:
    """Put blocks together in the order of series; of rows of one series the last stays."""
    ranks = np.concatenate([places for places, _ in found] or [np.empty(0, np.int64)])
    _, newest = np.unique(ranks[::-1], return_index=True)
    if not projection.columns:
        return empty_columns(len(newest))
    table = pa.Table.from_batches([projection.make_batch(block) for _, block in found], projection.arrow)
    arrays = [column.combine_chunks() for column in table.take(pa.array(len(ranks) - 1 - newest)).columns]
    return pa.RecordBatch.from_arrays(arrays, schema=projection.arrow)
