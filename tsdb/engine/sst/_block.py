"""The series block of a data file: as a blob of the index file, whole or in pages, and made again from the file itself
without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.index import IndexDamaged, IndexFile, PagedBlob, directory_blob, encode_pages
from tsdb.engine.rows.series import FoundSeries, Positions, SeriesBlock
from tsdb.engine.sst._types import from_storage
from tsdb.model import RegionSchema, SeriesTable, hash_tags, make_tags

SERIES_BLOB = "series"

_OWN = ("tsid", "check", "row_start", "time_min", "time_max")
_OWN_TYPES = (pa.uint64(), pa.uint64(), pa.int64(), pa.int64(), pa.int64())
_FIRST_SERIES, _FIRST_ROW = "series_start", "row_start"
_ROWS = b"tsdb:rows"
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


def encode_block(block: SeriesBlock, page_series: int) -> dict[str, bytes]:
    """Encode a block as blobs of Arrow IPC: hashes, first row and span of time of each series, then its tags.

    A block of more than `page_series` series is in pages of so many, with a directory.
    """
    own = [block.table.tsid, block.table.check, block.offsets[:-1], block.time_min, block.time_max]
    tags = block.table.read_tags()
    schema = _schema(tags.schema, block.rows)
    batch = pa.RecordBatch.from_arrays([*map(pa.array, own), *tags.columns], schema=schema)
    # The dictionary of a column stands in front of the first page; pages could not be read without it.
    is_whole = len(block) <= page_series or any(pa.types.is_dictionary(kind) for kind in tags.schema.types)
    starts = [0] if is_whole else range(0, len(block), page_series)
    pages = (batch.slice(start, len(block) if is_whole else page_series) for start in starts)
    firsts = np.array(starts)
    facts = {_FIRST_SERIES: pa.array(firsts), _FIRST_ROW: pa.array(block.offsets[firsts])}
    blob, directory = encode_pages(schema, pages, lambda: facts)
    return {SERIES_BLOB: blob} if is_whole else {SERIES_BLOB: blob, directory_blob(SERIES_BLOB): directory}


def _schema(tags: pa.Schema, rows: int) -> pa.Schema:
    fields = [pa.field(name, kind) for name, kind in zip(_OWN, _OWN_TYPES, strict=True)]
    return pa.schema([*fields, *tags], metadata={_ROWS: str(rows)})


def decode_block(blob: bytes, schema: RegionSchema) -> SeriesBlock:
    """Decode a block of a file written under `schema`; IndexDamaged if it does not fit."""
    try:
        # Arrow's threads take longer to start than pages take to decode.
        with pa.ipc.open_stream(blob, options=_ONE_THREAD) as reader:
            rows = int(reader.schema.metadata[_ROWS])
            batches = list(reader)
            batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:
        raise IndexDamaged(f"its series block cannot be decoded: {error}") from error
    table, starts, time_min, time_max = _columns(batch, schema)
    return SeriesBlock(table, np.append(starts, rows), time_min, time_max)


def _columns(
    batch: pa.RecordBatch, schema: RegionSchema
) -> tuple[SeriesTable, Positions, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return series, first rows and spans of time of a decoded page."""
    tags = batch.columns[len(_OWN) :]
    if [column.type for column in tags] != [tag.type for tag in schema.tags]:
        raise IndexDamaged("its series block has other tags than the file")
    tsid, check, starts, time_min, time_max = (column.to_numpy() for column in batch.columns[: len(_OWN)])
    table = SeriesTable(tsid, check, make_tags(tags, [tag.name for tag in schema.tags], batch.num_rows))
    return table, starts, time_min, time_max


class BlockPages:
    """A series block that is read page by page."""

    def __init__(self, index: IndexFile, schema: RegionSchema, *, rows: int, series: int) -> None:
        tags = pa.schema([pa.field(tag.name, tag.type) for tag in schema.tags])
        self.blob = PagedBlob(index, SERIES_BLOB, _schema(tags, rows))
        self._schema = schema
        facts = self.blob.directory.facts
        self._first_rows = np.append(facts.column(_FIRST_ROW).to_numpy(), rows)
        self._first_series = np.append(facts.column(_FIRST_SERIES).to_numpy(), series)

    def starts(self) -> list[tuple[int, int]]:
        """Return the number of the first series of each page, and its first row."""
        return list(zip(self._first_series[:-1].tolist(), self._first_rows[:-1].tolist(), strict=True))

    def pages_of(self, positions: Positions) -> Positions:
        """Return the pages that have some series, which are in order."""
        return np.unique(self._page_of(positions))

    def _page_of(self, positions: Positions) -> Positions:
        return self._first_series.searchsorted(positions, side="right") - 1

    def gather(self, positions: Positions, read: Mapping[int, pa.RecordBatch]) -> FoundSeries:
        """Return series, which are in order, out of the pages that have them."""
        if not len(positions):
            return self._nothing(positions)
        pages = np.array(list(read))
        found = [_columns(batch, self._schema) for batch in read.values()]
        table = _joined([each[0] for each in found])
        # A series ends where the next one begins, which may be in the next page.
        ends = [np.append(each[1][1:], self._first_rows[page + 1]) for each, page in zip(found, pages, strict=True)]
        lengths = self._first_series[pages + 1] - self._first_series[pages]
        if len(table) != lengths.sum():
            raise IndexDamaged("a page of its series block has other series than its directory says")
        shifts = np.cumsum(lengths) - lengths - self._first_series[pages]
        places = positions + shifts[pages.searchsorted(self._page_of(positions))]
        starts, time_min, time_max = (np.concatenate([each[at] for each in found])[places] for at in (1, 2, 3))
        return FoundSeries(positions, table.take(places), starts, np.concatenate(ends)[places], time_min, time_max)

    def _nothing(self, positions: Positions) -> FoundSeries:
        none = np.empty(0, np.int64)
        table = SeriesTable.of_tags(self._schema, [pa.nulls(0, tag.type) for tag in self._schema.tags], 0)
        return FoundSeries(positions, table, none, none, none, none)


def _joined(tables: Sequence[SeriesTable]) -> SeriesTable:
    if len(tables) == 1:
        return tables[0]
    tags = pa.concat_batches([table.read_tags() for table in tables])
    return SeriesTable(
        np.concatenate([table.tsid for table in tables]), np.concatenate([table.check for table in tables]), tags
    )


@dataclass(frozen=True, slots=True, eq=False)
class RowGroupKeys:
    """The key columns of one row group: what a block is made of when there is no index."""

    tags: list[pa.Array]
    """As they are stored."""
    tsid: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]


def rebuild_block(groups: Iterable[RowGroupKeys], schema: RegionSchema) -> SeriesBlock:
    """Make the block from the rows; a series may go on from one row group to the next."""
    names = [tag.name for tag in schema.tags]
    found: list[tuple[list[pa.Array], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = []
    starts: list[npt.NDArray[np.int64]] = []
    times: list[npt.NDArray[np.int64]] = []
    before: tuple[np.uint64, np.uint64] | None = None
    rows = 0
    for group in groups:
        tags = hashable_tags(group.tags, schema)
        _, check = hash_tags(tags, names, len(group.tsid))
        is_first = _is_first(group.tsid, check, before)
        positions = np.flatnonzero(is_first)
        chosen = pa.array(positions)
        found.append(([column.take(chosen) for column in tags], group.tsid[positions], check[positions]))
        starts.append(positions + rows)
        times.append(group.times)
        before = group.tsid[-1], check[-1]
        rows += len(group.tsid)
    columns = [
        from_storage(pa.concat_arrays([_plain(tags[at]) for tags, _, _ in found]), tag.type)
        for at, tag in enumerate(schema.tags)
    ]
    tsid = np.concatenate([part for _, part, _ in found])
    table = SeriesTable(tsid, np.concatenate([part for _, _, part in found]), make_tags(columns, names, len(tsid)))
    offsets = np.concatenate([*starts, [rows]])
    # Rows of a series are sorted by time.
    flat = np.concatenate(times)
    return SeriesBlock(table, offsets, flat[offsets[:-1]], flat[offsets[1:] - 1])


def _is_first(
    tsid: npt.NDArray[np.uint64], check: npt.NDArray[np.uint64], before: tuple[np.uint64, np.uint64] | None
) -> npt.NDArray[np.bool_]:
    """Tell of every row whether its series begins with it; `before` are the hashes of the row in front."""
    is_first = np.empty(len(tsid), dtype=np.bool_)
    is_first[0] = before is None or before != (tsid[0], check[0])
    is_first[1:] = (tsid[1:] != tsid[:-1]) | (check[1:] != check[:-1])
    return is_first


def hashable_tags(stored: Sequence[pa.Array], schema: RegionSchema) -> list[pa.Array]:
    """Return stored tags so that they hash as they did: codes of a dictionary hash as what they stand for."""
    return [
        values if pa.types.is_dictionary(values.type) else from_storage(values, tag.type)
        for values, tag in zip(stored, schema.tags, strict=True)
    ]


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
