"""The native histograms among samples.

A selector that only `histogram_count`, `histogram_sum` or `histogram_avg` uses is watched: each of its histograms is
compared with the one before it for a counter reset, so that sums of some with and some without a reset get a warning.
Elsewhere resets are detected between the samples that are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql._ast import TRIMS, Binary, Expr, FunctionCall, Subquery, VectorSelector
from tsdb.promql._errors import PromqlFailure
from tsdb.promql.evaluation._source import SeriesSet
from tsdb.promql.evaluation._values import Bools, Cells, Natives, Times

if TYPE_CHECKING:
    from tsdb.promql.evaluation._context import EvalContext

_STATISTICS = frozenset({"histogram_avg", "histogram_count", "histogram_sum"})
_OF_BUCKETS = frozenset({"histogram_fraction", "histogram_quantile", "histogram_quantiles"})


def to_cells(array: object) -> Cells:
    """Return the cells of a kernel."""
    result: Cells = pa.array(array).to_numpy(zero_copy_only=False)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class SampleNatives:
    """For each sample the number of a histogram in the pool, -1 for a float."""

    pool: _kernels.Histograms
    cells: Cells

    def take(self, chosen: Bools | slice) -> SampleNatives:
        return SampleNatives(self.pool, self.cells[chosen])

    def encode(self) -> pa.Array | None:
        """Return the histograms in their stored form."""
        return pa.array(self.pool.encode(pa.array(self.cells))) if (self.cells >= 0).any() else None


def watched_selectors(expr: Expr) -> frozenset[int]:
    """Return the ids of the selectors that are watched: no bucket of theirs is looked at, and no sample is skipped."""
    found = set()
    pending = [(expr, False, False)]
    while pending:
        node, is_wanted, is_vetoed = pending.pop()
        if isinstance(node, VectorSelector) and is_wanted and not is_vetoed:
            found.add(id(node))
        if isinstance(node, FunctionCall):
            is_wanted |= node.name in _STATISTICS
            is_vetoed |= node.name in _OF_BUCKETS
        is_vetoed |= isinstance(node, Subquery) or (isinstance(node, Binary) and node.op in TRIMS)
        pending.extend((child, is_wanted, is_vetoed) for child in node.children())
    return frozenset(found)


def sample_natives(context: EvalContext, found: SeriesSet, *, is_watched: bool) -> SampleNatives | None:
    """Return the histograms among samples that `context.select` gave."""
    if found.histograms is None:
        return None
    key = (id(found), is_watched)
    if key not in context.decoded:
        try:
            pool, cells = _kernels.Histograms.decode(found.histograms)
        except _kernels.MalformedInput as error:
            raise PromqlFailure("a selector of the query finds bytes that are no native histogram") from error
        context.count(len(pool) * (pool.width // 2))
        if is_watched:
            pool, cells = pool.watched(pa.array(found.offsets), cells)
        context.decoded[key] = SampleNatives(pool, to_cells(cells))
    return context.decoded[key]


def last_natives(found: SeriesSet, natives: SampleNatives | None, ats: Times, lookback_ms: int) -> Natives | None:
    """Return which of the last samples at each step are histograms."""
    if natives is None:
        return None
    places = np.arange(len(found.times), dtype=np.float64)
    values, _, _ = _kernels.prom_instant(
        pa.array(found.offsets), pa.array(found.times), pa.array(places), pa.array(ats), lookback_ms
    )
    chosen: npt.NDArray[np.float64] = pa.array(values).to_numpy(zero_copy_only=False)
    cells = natives.cells[chosen.astype(np.int64)].reshape(found.labels.rows, len(ats))
    return Natives.of(natives.pool, cells)
