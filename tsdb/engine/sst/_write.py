"""Writing a data file: merged rows in, one Parquet file and its index out.

    merge ─▶ row groups ─▶ Parquet, durable ─▶ its footer read again ─▶ index, durable or absent ─▶ WrittenFile

- The next stripe is merged on another thread while the last one is encoded: memory holds these two and what the next
  one is merged from.
- The file is no part of anything until the manifest names it. If writing fails, what there is of it is deleted as far
  as the store lets us; a crash leaves it to the sweep of orphans.
- An index that cannot be written costs speed, not rows: the file goes on without one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from tsdb.clock import Clock
from tsdb.engine.errors import FileCorrupted
from tsdb.engine.index import (
    BloomBuilder,
    IndexOptions,
    TextBuilder,
    bloom_blob,
    directory_blob,
    encode_index,
    encode_inverted,
    fulltext_blob,
    inverted_blob,
    is_indexable,
    is_searchable,
    is_skippable,
)
from tsdb.engine.manifest import FILE_ID_BYTES, FileMeta, data_path, index_path
from tsdb.engine.rows.cache import Caches, MetaKey
from tsdb.engine.rows.merge import Merge
from tsdb.engine.rows.read_ahead import one_ahead
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.sst._block import encode_block
from tsdb.engine.sst._columns import OP_TYPE, SEQUENCE, TSID, FileColumns
from tsdb.engine.sst._encoding import Encodings, choose_encodings
from tsdb.engine.sst._footer import Footer, encode_key_values, read_footer
from tsdb.engine.sst._parquet import ParquetWriter
from tsdb.engine.sst._row_groups import Portion, RowGroups, Tally
from tsdb.engine.sst._sample import WrittenSamples
from tsdb.engine.sst._whole import whole_columns
from tsdb.errors import TsdbError
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.model import METRIC_LABELS, ColumnId, MergeMode, RegionOptions, RegionSchema, TimeRange
from tsdb.store import ObjectStore, Purpose, StoreError, crash_point, requests_for

_log = logging.getLogger("tsdb.sst")

_INDEX = IndexOptions()


def ignore_rows(rows: int) -> None:
    """Nobody watches the progress."""


@dataclass(frozen=True, slots=True, eq=False)
class WrittenFile:
    """A file that is durable, with what a reader would have to load first."""

    meta: FileMeta
    block: SeriesBlock
    footer: Footer

    def remember(self, caches: Caches) -> None:
        """Put what is at hand into the caches, so that the first query need not read it."""
        file_id = self.meta.file_id
        caches.sst_meta.put(MetaKey(file_id, "footer"), self.footer, self.footer.nbytes)
        caches.sst_meta.put(MetaKey(file_id, "block"), self.block, self.block.nbytes)


def write_sst(
    merge: Merge,
    *,
    schema: RegionSchema,
    options: RegionOptions,
    store: ObjectStore,
    directory: str,
    write_buffer_bytes: int,
    level: int,
    clock: Clock,
    row_group_rows: int,
    ids: Ids = SYSTEM_IDS,
    keeps_sequences: bool = False,
    index: IndexOptions | None = _INDEX,
    note_rows: Callable[[int], None] = ignore_rows,
    has_samples: bool = False,
) -> WrittenFile | None:
    """Write the rows of a merge, made under `schema` and `options`, to a new file; None if no row is left.

    `note_rows` is told how many rows are written, row group by row group. With `has_samples`, some row groups are read
    back and compared with what was written.

    `keeps_sequences` is for rows that other files may have versions of from between them: each keeps its own sequence.
    Without `index`, no index file is written.
    """
    file_id = ids.token(FILE_ID_BYTES)
    has_sequences = _needs_sequences(merge, options, keeps_sequences=keeps_sequences)
    whole = whole_columns(merge.sources, schema)
    columns = FileColumns.of(schema, has_sequences=has_sequences, has_ops=merge.may_have_tombstones, whole=whole)
    groups = RowGroups(merge, schema, columns, rows_max=row_group_rows)
    filters = [] if index is None else list(_filter_builders(schema, options, index))
    writing = _Writing(store, data_path(directory, file_id), write_buffer_bytes, schema, columns, filters, note_rows)
    samples = writing.samples = WrittenSamples() if has_samples else None
    with ThreadPoolExecutor(1, thread_name_prefix="sst-merge") as executor:
        portions = one_ahead(groups.portions(), executor)
        first = next(portions, None)
        if first is None:
            return None
        portions = chain([first], portions)
        del first  # its memory is free when it is written
        try:
            crash_point("sst.write.before_parquet")
            size_bytes = writing.run(groups, portions)
            crash_point("sst.write.after_parquet")
            footer = _verify(store, writing.path, size_bytes, groups.tally)
            _check_keys(groups.tally, options, writing.path)
            if samples is not None:
                samples.compare(store, writing.path, footer)
            block = groups.tally.block(merge.series)
            built = _NO_INDEX
            if index is not None:
                built = _write_index(store, index_path(directory, file_id), file_id, block, schema, index, filters)
            crash_point("sst.write.after_index")
        except BaseException:
            delete_files(store, directory, file_id)
            raise
    meta = FileMeta(
        file_id=file_id,
        size_bytes=size_bytes,
        index_size_bytes=built.size_bytes,
        level=level,
        created_ms=clock.now_ns() // 1_000_000,
        indexes=built.names,
        **_describe(groups.tally, block, footer),
    )
    return WrittenFile(meta, block, footer)


def _needs_sequences(merge: Merge, options: RegionOptions, *, keeps_sequences: bool) -> bool:
    """Whether rows must tell when they were written.

    Where a key has one row, only rows of other files compete with it, and those are all older or all younger: what a
    flush writes came after everything in files, and before everything else. Then one number stands for all rows. A
    compaction may leave files aside that were written in between: there every row keeps its own.
    """
    sequence_min, sequence_max = merge.sequence_range
    has_one_row_per_key = options.merge_mode is MergeMode.LAST_ROW and not options.append_mode
    return sequence_min != sequence_max and (keeps_sequences or not has_one_row_per_key)


@requests_for(Purpose.SWEEP)
def delete_files(store: ObjectStore, directory: str, file_id: str) -> None:
    """Delete a file and its index, as far as the store lets us."""
    for path in (index_path(directory, file_id), data_path(directory, file_id)):
        with suppress(StoreError):
            store.delete(path)


class _FilterBuilder(NamedTuple):
    """What builds the filters of a column."""

    column: str
    blob: str
    builder: BloomBuilder | TextBuilder


class _Writing:
    """The writing of one Parquet file."""

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        buffer_bytes: int,
        schema: RegionSchema,
        columns: FileColumns,
        filters: Sequence[_FilterBuilder],
        note_rows: Callable[[int], None],
    ) -> None:
        self.path = path
        self._store = store
        self._buffer_bytes = buffer_bytes
        self._schema = schema
        self._columns = columns
        self._filters = filters
        self._note_rows = note_rows
        self.samples: WrittenSamples | None = None

    def run(self, groups: RowGroups, portions: Iterator[list[Portion]]) -> int:
        """Write all row groups and the footer; return the size of the file, which is durable then."""
        rest = map(groups.table, map(self._filtered, chain.from_iterable(portions)))
        head = next(rest)
        encodings = self._encodings(head)
        tables = chain([head], rest)
        del head
        with self._store.writer(self.path, self._buffer_bytes) as sink:
            writer = ParquetWriter(sink, self._columns.arrow, encodings)
            for table in tables:
                if self.samples is not None:
                    self.samples.add(table)
                writer.write(table)
                self._note_rows(table.num_rows)
            return writer.finish(self._key_values(groups.tally))

    def _filtered(self, portion: Portion) -> Portion:
        """Add the values of a row group to the filters of skipping and full-text indexes."""
        for each in self._filters:
            each.builder.add(portion.columns[each.column])
        return portion

    def _encodings(self, head: pa.Table) -> Encodings:
        names = self._columns.names
        steady = {names[column] for column in (self._schema.time.id, SEQUENCE) if column in names}
        return choose_encodings(head, steady=steady, hashes={names[TSID]})

    def _key_values(self, tally: Tally) -> dict[str, str]:
        names = self._columns.names
        tags = [tag.name for tag in self._schema.tags]
        assert OP_TYPE in names or not tally.has_tombstones
        return encode_key_values(
            self._schema,
            constant_sequence=None if SEQUENCE in names else tally.sequence_max,
            sorted_by=[*tags, self._schema.time.name, *([names[SEQUENCE]] if SEQUENCE in names else [])],
            facts={
                "sequence_min": tally.sequence_min,
                "sequence_max": tally.sequence_max,
                "series": tally.series,
                "has_tombstones": tally.has_tombstones,
                "is_unique": tally.is_unique,
            },
        )


def _verify(store: ObjectStore, path: str, size_bytes: int, tally: Tally) -> Footer:
    """Read the footer again: a store that lost the end of the file is found out before anyone relies on it."""
    footer = read_footer(store, path, size_bytes)
    if footer.rows != tally.rows:
        raise FileCorrupted(
            file=path,
            reason=f"it holds {footer.rows} rows, {tally.rows} were written",
            hint="the write can be tried again",
        )
    return footer


def _check_keys(tally: Tally, options: RegionOptions, path: str) -> None:
    """A merge that keeps the last row of each key has one row per key; anything else is a bug to stop here."""
    may_repeat = options.keeps_all(tally.sequence_max) or options.merge_mode is MergeMode.LAST_NON_NULL
    if not (tally.is_unique or may_repeat):
        raise TsdbError("a key has several rows after the merge", file=path, hint="this is a bug, please report it")


def _describe(tally: Tally, block: SeriesBlock, footer: Footer) -> dict[str, Any]:
    """What the rows themselves say of the file."""
    return {
        "time_range": TimeRange(int(block.time_min.min()), int(block.time_max.max()) + 1),
        "rows": tally.rows,
        "series": len(block),
        "row_groups": footer.row_groups,
        "sequence_min": tally.sequence_min,
        "sequence_max": tally.sequence_max,
        "has_tombstones": tally.has_tombstones,
        "is_unique": tally.is_unique,
        "schema_version": footer.schema.version,
        "footer_checksum": footer.checksum,
    }


class _BuiltIndex(NamedTuple):
    """What an index file came to."""

    size_bytes: int
    names: tuple[str, ...]
    """Its blobs besides the series block."""


_NO_INDEX = _BuiltIndex(0, ())


def _write_index(
    store: ObjectStore,
    path: str,
    file_id: str,
    block: SeriesBlock,
    schema: RegionSchema,
    options: IndexOptions,
    filters: Sequence[_FilterBuilder],
) -> _BuiltIndex:
    """Write the index file, or none if that fails."""
    try:
        inverted = _encode_tags(block, schema, options)
        series = encode_block(block, options.tuning.page_series if inverted else len(block))
        indexes = {**inverted, **{each.blob: each.builder.finish() for each in filters}}
        blobs = {name: blob for name, (blob, _) in indexes.items()}
        # Directories are read first, and with one request if they are at the end.
        directories = {directory_blob(name): directory for name, (_, directory) in indexes.items()}
        parts = encode_index(file_id, {**blobs, **series, **directories})
        crash_point("sst.write.before_index")
        store.put(path, parts)
    except (StoreError, OSError, pa.ArrowException) as error:
        _log.warning("the index of a data file cannot be written, queries of it will be slower: %s", error)
        with suppress(StoreError):
            store.delete(path)
        return _NO_INDEX
    return _BuiltIndex(sum(len(part) for part in parts), tuple(indexes))


def _filter_builders(schema: RegionSchema, options: RegionOptions, index: IndexOptions) -> Iterator[_FilterBuilder]:
    """Yield what builds the skipping and full-text indexes that the table declares."""
    fields = {column.id: column for column in schema.fields}
    for declared in options.skipping:
        column = fields.get(ColumnId(declared.column))
        if column is not None and is_skippable(column.type):
            yield _FilterBuilder(column.name, bloom_blob(column.id), BloomBuilder(declared))
    for searched in options.fulltext:
        column = fields.get(ColumnId(searched.column))
        if column is not None and is_searchable(column.type):
            builder = TextBuilder(searched, index.memory_bytes_max)
            yield _FilterBuilder(column.name, fulltext_blob(column.id), builder)


def _encode_tags(block: SeriesBlock, schema: RegionSchema, options: IndexOptions) -> dict[str, tuple[bytes, bytes]]:
    """Return the inverted indexes of the tags, with their directories; a file of few series has none.

    What they find is looked up in the pages of the series block, so they are of no use if that is one piece.
    """
    if len(block) < options.tuning.series_min or len(block) <= options.tuning.page_series:
        return {}
    tags = block.table.read_tags()
    indexable = [tag for tag in schema.tags if is_indexable(tag.type) and tag.name != METRIC_LABELS]
    return {inverted_blob(tag.id): encode_inverted(tags.column(tag.name), options) for tag in indexable}
