"""Making data files for tests and comparing what is in them, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.clock import ManualClock
from tsdb.engine.index import IndexOptions
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.rows.run import Rows, Run, sort_rows
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import SourceReader
from tsdb.engine.sst import DataFile, FileReader, WrittenFile, write_sst
from tsdb.model import Batch, ColumnId, MergeMode, OpType, RegionOptions, RegionSchema, Semantic
from tsdb.store import MemoryStore, ObjectStore

DIRECTORY = "data/public/1"
LARGE = 1 << 30


def schema_of(
    tags: dict[str, pa.DataType], fields: dict[str, pa.DataType], time: pa.DataType | None = None
) -> RegionSchema:
    return RegionSchema.create(
        [
            *((name, kind, Semantic.TAG) for name, kind in tags.items()),
            ("ts", time or pa.timestamp("ms"), Semantic.TIMESTAMP),
            *((name, kind, Semantic.FIELD) for name, kind in fields.items()),
        ]
    )


def run_of(
    schema: RegionSchema, columns: dict[str, pa.Array], *, base_sequence: int = 0, op: OpType = OpType.PUT
) -> Run:
    """Sort plain columns into a run; row i has sequence `base_sequence + i`."""
    batch = Batch.from_arrow(schema, pa.record_batch(columns), op)
    sequences = np.arange(base_sequence, base_sequence + batch.rows, dtype=np.uint64)
    fields = {schema.by_name[name].id: values for name, values in batch.fields.items()}
    rows = Rows(batch.series, batch.series_index, batch.times, sequences, op, fields)
    return sort_rows(schema, [rows], drop_overwritten=False)


def hosts(schema: RegionSchema, *, series: int, points: int, base_sequence: int = 0, start: int = 0) -> Run:
    """A run of hosts with one float `usage` and one integer `count`, all times the same for each host."""
    rows = series * points
    random = np.random.default_rng(rows)
    return run_of(
        schema,
        {
            "host": pa.array([f"h{number:04}" for number in range(series) for _ in range(points)]),
            "ts": pa.array(np.tile(np.arange(start, start + points) * 1000, series)).cast(schema.time.type),
            "usage": pa.array(random.random(rows)),
            "count": pa.array(random.integers(0, 1 << 40, rows)),
        },
        base_sequence=base_sequence,
    )


HOSTS = schema_of({"host": pa.string()}, {"usage": pa.float64(), "count": pa.int64()})


@dataclass
class Files:
    """A store with data files of one region."""

    schema: RegionSchema
    options: RegionOptions = field(default_factory=RegionOptions)
    store: ObjectStore = field(default_factory=MemoryStore)
    keep_tombstones: bool = True
    row_group_rows: int = 102_400
    stripe_rows: int = 262_144
    index: IndexOptions | None = field(default_factory=IndexOptions)

    def merge(self, sources: Sequence[SourceReader]) -> Merge:
        return Merge(
            self.schema,
            self.options,
            [Selection.all_of(source) for source in sources],
            keep_tombstones=self.keep_tombstones,
            stripe_rows=self.stripe_rows,
        )

    def try_write(self, *sources: SourceReader) -> WrittenFile | None:
        return write_sst(
            self.merge(sources),
            schema=self.schema,
            options=self.options,
            store=self.store,
            directory=DIRECTORY,
            write_buffer_bytes=1 << 16,
            level=1,
            clock=ManualClock(1_700_000_000_000_000_000),
            row_group_rows=self.row_group_rows,
            index=self.index,
        )

    def write(self, *sources: SourceReader) -> WrittenFile:
        written = self.try_write(*sources)
        assert written is not None
        return written

    def open(self, written: WrittenFile, caches: Caches | None = None) -> DataFile:
        return DataFile(written.meta, store=self.store, directory=DIRECTORY, caches=caches or large_caches())

    def read(self, written: WrittenFile, caches: Caches | None = None) -> FileReader:
        return self.open(written, caches).reader()

    @property
    def paths(self) -> list[str]:
        return [each.path for each in self.store.list("")]


def large_caches() -> Caches:
    return Caches.of(sst_meta_bytes=LARGE, vector_bytes=LARGE, page_bytes=LARGE)


@dataclass
class Content:
    """All rows of a source or a merge."""

    tags: list[tuple[object, ...]]
    times: npt.NDArray[np.int64]
    sequences: npt.NDArray[np.uint64]
    ops: npt.NDArray[np.uint8]
    fields: dict[ColumnId, pa.Array]

    def as_stored(self, options: RegionOptions) -> Content:
        """What a file gives back: where a key has one row, the newest sequence stands for all."""
        if options.append_mode or options.merge_mode is not MergeMode.LAST_ROW:
            return self
        return replace(self, sequences=np.full_like(self.sequences, self.sequences.max()))

    def check_equal(self, other: Content) -> None:
        assert self.tags == other.tags
        assert np.array_equal(self.times, other.times)
        assert np.array_equal(self.sequences, other.sequences)
        assert np.array_equal(self.ops, other.ops)
        assert self.fields.keys() == other.fields.keys()
        for column, values in self.fields.items():
            assert values.type == other.fields[column].type
            assert bits(values).equals(bits(other.fields[column])), values.type


def content_of_merge(merge: Merge, schema: RegionSchema) -> Content | None:
    stripes = list(merge.stripes())
    if not stripes:
        return None
    series = _series_rows(merge.series.read_tags())
    return Content(
        [series[rank] for stripe in stripes for rank in stripe.ranks],
        np.concatenate([stripe.times for stripe in stripes]),
        np.concatenate([stripe.sequences for stripe in stripes]),
        np.concatenate([_filled(stripe.ops, stripe.rows) for stripe in stripes]),
        {column.id: pa.concat_arrays([stripe.read(column) for stripe in stripes]) for column in schema.fields},
    )


def content_of(source: SourceReader, rows: Slices | None = None) -> Content:
    """Read a source along some rows, all of them by default; the tags come from the block."""
    block = source.block
    rows = rows or Slices.one(0, block.rows)
    series = _series_rows(block.table.tags)
    ranks = np.repeat(np.arange(len(block)), np.diff(block.offsets))[rows.positions()]
    fields = {column.id: source.field(column.id, rows) for column in source.schema.fields}
    assert all(values is not None for values in fields.values())
    return Content(
        [series[rank] for rank in ranks],
        source.times(rows),
        source.sequences(rows),
        _filled(source.ops(rows), rows.rows),
        fields,
    )


def check_block(source: SourceReader) -> None:
    """The block says of every series what its rows say."""
    block = source.block
    times = source.times(Slices.one(0, block.rows))
    for start, stop, low, high in zip(
        block.offsets[:-1], block.offsets[1:], block.time_min, block.time_max, strict=True
    ):
        assert (times[start:stop].min(), times[start:stop].max()) == (low, high)


def bits(values: pa.Array) -> pa.Array:
    """Floats as integers, so that NaNs are told apart and zeroes have their sign; dictionaries as what they say."""
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    widths = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return values.view(widths[values.type]) if values.type in widths else values


def _series_rows(tags: pa.RecordBatch) -> list[tuple[object, ...]]:
    # Python has no times as far out as Arrow has.
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in tags.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True)) if columns else [()] * tags.num_rows


def _filled(ops: npt.NDArray[np.uint8] | None, rows: int) -> npt.NDArray[np.uint8]:
    return np.zeros(rows, dtype=np.uint8) if ops is None else ops
