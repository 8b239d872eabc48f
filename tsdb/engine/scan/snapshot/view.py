"""Reading the region of a physical table as if it were the region of a logical one.

A view is a snapshot whose sources show, for the same rows, other series: those of one table, with a tag for each label.
Scans decide everything about tags on series, so filters on labels cost what they cost in any table, and no row is
touched that they leave out.

- Series of one table are neighbours in every source, because `__table_id` is the first tag. A view takes that range.
- Sources are in the order of `__labels`, so that stays the first tag of a view, and labels follow it. Rows are merged
  in this order; nothing is sorted again.
- The hashes of series are those of the physical region. They identify what `__labels` does, so nothing is hashed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.index import TagTest, ValueSpan
from tsdb.engine.rows.series import FoundSeries, SeriesBlock
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Counters, Held, Source, SourceFacts, SourceReader, finds_series
from tsdb.engine.scan.filters.expression import Call, Node, Ref
from tsdb.engine.scan.snapshot.decoded_labels import DECODED
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.model import (
    METRIC_LABELS,
    METRIC_TABLE_ID,
    METRIC_TSID,
    Column,
    ColumnId,
    MetricView,
    RegionSchema,
    Semantic,
    SeriesTable,
    make_tags,
)

_OWN = frozenset({METRIC_TABLE_ID, METRIC_LABELS, METRIC_TSID})


def view_snapshot(snapshot: Snapshot, view: MetricView) -> Snapshot:
    """Return what a physical region holds of a logical table, or all of it with a tag for each label.

    The tags of its series are `__labels`, the labels by their names and, of a physical table, `__table_id` and
    `__tsid`. It releases the snapshot it is made from.
    """
    schema, show = view_sources(snapshot.schema, view)
    sources = tuple(show(source) for source in snapshot.sources)
    return replace(snapshot, schema=schema, sources=sources, on_release=snapshot.release)


def view_sources(physical: RegionSchema, view: MetricView) -> tuple[RegionSchema, Callable[[Source], Source]]:
    """Return the schema of a view and what makes a source one of its sources."""
    schema = _view_schema(physical, view)
    labels = [name for name, _ in view.tags if name not in _OWN]

    def show(source: Source) -> Source:
        return ViewSource(source, schema, view.table_id, labels)

    return schema, show


def _view_schema(physical: RegionSchema, view: MetricView) -> RegionSchema:
    own = [METRIC_TABLE_ID, METRIC_LABELS] if view.table_id is None else [METRIC_LABELS]
    columns = [physical.by_name[name] for name in own]
    first = physical.next_column_id
    shown = [(name, kind) for name, kind in view.tags if name not in own]
    columns += [Column(ColumnId(first + at), name, kind, Semantic.TAG) for at, (name, kind) in enumerate(shown)]
    fields = [physical.by_name[name] for name in view.fields if name in physical.by_name]
    return RegionSchema((*columns, physical.time, *fields), physical.version, first + len(view.tags))


def visible_rows(view: MetricView) -> Node | None:
    """Return the condition that leaves out rows of tables that were dropped; None if there is none."""
    if view.visible is None:
        return None
    options = pa.scalar({"value_set": list(view.visible)}, pa.struct([("value_set", pa.list_(pa.uint32()))]))
    return Call("is_in", (Ref(METRIC_TABLE_ID),), options)


class ViewSource:
    """A source of a physical region as a view shows it."""

    def __init__(self, source: Source, schema: RegionSchema, table_id: int | None, labels: Sequence[str]) -> None:
        self._source = source
        self._table_id = table_id
        self._labels = labels
        self.schema = schema

    def reader(self, counters: Counters | None = None) -> ViewReader:
        return ViewReader(self, self._source.reader(counters))

    @property
    def facts(self) -> SourceFacts:
        """Those of the whole source, which may have more rows and a longer span than the view."""
        return self._source.facts

    @cached_property
    def block(self) -> SeriesBlock:
        """Made when it is first asked for: a source that a filter on time leaves out costs nothing."""
        found = self._find_indexed()
        if found is not None:
            offsets = np.append(found.starts, found.stops[-1:] if len(found.stops) else 0)
            return SeriesBlock(self._show(found.table), offsets, found.time_min, found.time_max)
        whole = self._source.block
        low, high = self._find(whole)
        table = whole.table
        own = SeriesTable(table.tsid[low:high], table.check[low:high], table.read_tags().slice(low, high - low))
        return SeriesBlock(
            self._show(own), whole.offsets[low : high + 1], whole.time_min[low:high], whole.time_max[low:high]
        )

    def _find_indexed(self) -> FoundSeries | None:
        """Return the series of the table, which are neighbours, by an index; None if the whole block is to be read."""
        reader, table_id = self._source.reader(), self._table_id
        if table_id is None or not finds_series(reader) or reader.has_block:
            return None
        column = reader.schema.by_name[METRIC_TABLE_ID]
        if column.id not in reader.indexed_tags:
            return None
        return reader.find_series([TagTest(column.id, (ValueSpan(table_id, table_id),), partial(_equal, table_id))])

    def _find(self, whole: SeriesBlock) -> tuple[int, int]:
        if self._table_id is None:
            return 0, len(whole)
        ids = whole.table.read_tags().column(METRIC_TABLE_ID).to_numpy(zero_copy_only=False)
        low, high = np.searchsorted(ids, [self._table_id, self._table_id + 1])
        return int(low), int(high)

    def _show(self, series: SeriesTable) -> SeriesTable:
        tsid, check, tags = series.tsid, series.check, series.read_tags()
        texts = tags.column(METRIC_LABELS)
        shown = {METRIC_TABLE_ID: tags.column(METRIC_TABLE_ID), METRIC_LABELS: texts, METRIC_TSID: pa.array(tsid)}
        shown |= DECODED.columns(tsid, check, texts, self._labels)
        names = [tag.name for tag in self.schema.tags]
        return SeriesTable(tsid, check, make_tags([shown[name] for name in names], names, len(tsid)))


def _equal(table_id: int, values: pa.Array) -> npt.NDArray[np.bool_]:
    is_own: npt.NDArray[np.bool_] = pc.equal(values, table_id).fill_null(False).to_numpy(zero_copy_only=False)
    return is_own


class ViewReader:
    """Reads a view: rows have the numbers that they have in the whole source."""

    def __init__(self, view: ViewSource, rows: SourceReader) -> None:
        self._view = view
        self._rows = rows
        self.schema = view.schema
        self.facts = rows.facts
        self.identity = None

    @property
    def block(self) -> SeriesBlock:
        return self._view.block

    def times(self, rows: Slices) -> npt.NDArray[np.int64]:
        return self._rows.times(rows)

    def sequences(self, rows: Slices) -> npt.NDArray[np.uint64]:
        return self._rows.sequences(rows)

    def ops(self, rows: Slices) -> npt.NDArray[np.uint8] | None:
        return self._rows.ops(rows)

    def field(self, column: ColumnId, rows: Slices) -> pa.Array | None:
        return self._rows.field(column, rows)

    @property
    def piece_offsets(self) -> npt.NDArray[np.int64]:
        return self._rows.piece_offsets

    @property
    def holds_narrow(self) -> bool:
        return self._rows.holds_narrow

    def stored_type(self, column: ColumnId) -> pa.DataType | None:
        return self._rows.stored_type(column)

    def pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[pa.Array]]:
        return self._rows.pieces(numbers, columns)

    def pieces_as_held(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]]:
        return self._rows.pieces_as_held(numbers, columns)

    def has_pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> bool:
        return self._rows.has_pieces(numbers, columns)

    def pieces_at_hand(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]] | None:
        return self._rows.pieces_at_hand(numbers, columns)
