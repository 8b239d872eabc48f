"""The series block of a data file: as a blob of the index file, and made again from the file itself without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.sst._container import IndexDamaged
from tsdb.engine.sst._types import from_storage
from tsdb.model import RegionSchema, SeriesTable, hash_tags, make_tags

SERIES_BLOB = "series"

_OWN = ("tsid", "check", "row_start", "time_min", "time_max")
_ROWS = b"tsdb:rows"


def encode_block(block: SeriesBlock) -> bytes:
    """Encode a block as Arrow IPC: hashes, first row and span of time of each series, then its tags."""
    own = [block.table.tsid, block.table.check, block.offsets[:-1], block.time_min, block.time_max]
    tags = block.table.read_tags()
    fields = [pa.field(name, pa.array(values[:0]).type) for name, values in zip(_OWN, own, strict=True)]
    schema = pa.schema([*fields, *tags.schema], metadata={_ROWS: str(block.rows)})
    batch = pa.RecordBatch.from_arrays([*map(pa.array, own), *tags.columns], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decode_block(blob: bytes, schema: RegionSchema) -> SeriesBlock:
    """Decode a block of a file written under `schema`; IndexDamaged if it does not fit."""
    try:
        with pa.ipc.open_stream(blob) as reader:
            rows = int(reader.schema.metadata[_ROWS])
            batch = reader.read_next_batch()
    except (pa.ArrowException, OSError, KeyError, TypeError, StopIteration) as error:
        raise IndexDamaged(f"its series block cannot be decoded: {error}") from error
    tags = batch.columns[len(_OWN) :]
    if [column.type for column in tags] != [tag.type for tag in schema.tags]:
        raise IndexDamaged("its series block has other tags than the file")
    tsid, check, starts, time_min, time_max = (column.to_numpy() for column in batch.columns[: len(_OWN)])
    table = SeriesTable(tsid, check, make_tags(tags, [tag.name for tag in schema.tags], batch.num_rows))
    return SeriesBlock(table, np.append(starts, rows), time_min, time_max)


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
