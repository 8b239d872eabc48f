"""Checking what is left of a filter on rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.scan.filters.compare import Value
from tsdb.engine.scan.filters.evaluate import evaluate
from tsdb.engine.scan.filters.expression import Node
from tsdb.engine.scan.filters.filter import Check, Opaque, SeriesFrame, evaluate_opaque
from tsdb.engine.scan.readers.block import Block
from tsdb.model import RegionSchema


class RowFrame:
    """Rows as a filter sees them; what is about tags only is evaluated on series and spread over their rows."""

    def __init__(self, schema: RegionSchema, block: Block, series: SeriesFrame, tags: frozenset[str]) -> None:
        self._schema = schema
        self._block = block
        self._series = series
        self._tags = tags

    @property
    def rows(self) -> int:
        return self._block.rows

    def decide(self, node: Node) -> Value | None:
        if not node.names <= self._tags:
            return None
        return self._series.value(node).take(pa.array(self._block.runs.per_row()))

    def column(self, name: str) -> pa.Array:
        column = self._schema.by_name[name]
        if column is self._schema.time:
            return pa.array(self._block.times()).view(column.type)
        if name in self._tags:
            return self._series.column(name).take(pa.array(self._block.runs.per_row()))
        return self._block.read(column)


class RowChecker:
    """Applies what is left of a filter to blocks."""

    def __init__(self, schema: RegionSchema, tags: frozenset[str], checks: tuple[Check, ...]) -> None:
        self._schema = schema
        self._tags = tags
        self._checks = checks
        self._series: SeriesFrame | None = None

    def select(self, block: Block) -> Block:
        """Return the rows that pass all checks."""
        if not self._checks or not block.rows:
            return block
        # Neighbouring blocks are mostly of the same series, whose tags are then looked at once.
        tags = block.series.read_tags()
        if self._series is None or self._series.series is not tags:
            self._series = SeriesFrame(tags, self._tags)
        frame = RowFrame(self._schema, block, self._series, self._tags)
        mask = _evaluate(self._checks[0], frame)
        for check in self._checks[1:]:
            if not mask.true_count:
                break
            mask = pc.and_kleene(mask, _evaluate(check, frame))
        if mask.true_count == block.rows:
            return block
        return block.select(pc.indices_nonzero(mask).to_numpy().astype(np.int64))


def _evaluate(check: Check, frame: RowFrame) -> pa.Array:
    if isinstance(check, Opaque):
        return evaluate_opaque(check, pa.record_batch({name: frame.column(name) for name in check.names}))
    found = evaluate(check, frame)
    return pa.repeat(found, frame.rows) if isinstance(found, pa.Scalar) else found
