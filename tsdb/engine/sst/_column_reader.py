"""Decoding columns of one data file; opened at the first column that is really needed, not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tsdb.engine.errors import FileCorrupted, StorageUnavailable
from tsdb.engine.rows.vectors import hold_times
from tsdb.engine.sst._columns import OP_TYPE, SEQUENCE, TSID
from tsdb.engine.sst._footer import Footer
from tsdb.engine.sst._input import reading
from tsdb.engine.sst._plain import PlainDecoder, PlainLeaf
from tsdb.engine.sst._types import from_storage
from tsdb.model import ColumnId

T = TypeVar("T")


class ColumnReader:
    """Reads columns of row groups. A context manager; for one thread."""

    def __init__(
        self,
        path: str,
        footer: Footer,
        open_source: Callable[[], pa.NativeFile],
        read_range: Callable[[int, int], bytes] | None = None,
        *,
        holds_narrow: bool = False,
        may_be_mended: Callable[[], bool] = lambda: False,
    ) -> None:
        """`read_range` reads bytes of the file by offset and length; without it, the file is opened for that too.

        With `holds_narrow`, decoded numbers come in the narrowest type that has room for them. When the file is
        damaged or cannot be read, `may_be_mended` says whether it is worth to open it once more.
        """
        self._may_be_mended = may_be_mended
        self._holds_narrow = holds_narrow
        self._path = path
        self._footer = footer
        self._open_source = open_source
        self._plain = PlainDecoder(footer.metadata, read_range or self._read_source)
        self.decoded: list[int] = []
        """The row groups of which columns were decoded."""
        self._source: pa.NativeFile | None = None
        self._file: pq.ParquetFile | None = None
        self._is_reopened = False

    def __enter__(self) -> ColumnReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def decode(self, row_group: int, column: ColumnId) -> Any:
        """Return one column: numbers without nulls as numpy, which kernels take at less cost, others as Arrow.

        Numbers of 64 bits may come in a narrower type, times as steps: memory is what scans wait for.
        """
        return self._mended(lambda: self._decode(row_group, column))

    def read_stored(self, row_group: int, columns: Sequence[ColumnId]) -> list[pa.Array]:
        """Return columns as they are stored."""
        return self._mended(lambda: self._read_stored(row_group, columns))

    def _mended(self, read: Callable[[], T]) -> T:
        """Read; if the local copy of a remote file is damaged, read again from the file itself."""
        try:
            return read()
        except (FileCorrupted, StorageUnavailable):
            if self._is_reopened or not self._may_be_mended():
                raise
        self._is_reopened = True
        self.close()
        self._source = self._file = None
        return read()

    def _decode(self, row_group: int, column: ColumnId) -> Any:
        schema = self._footer.schema
        is_narrow = self._holds_narrow and self._footer.is_narrow(column)
        values = self._decode_plain(row_group, column, is_narrow=is_narrow)
        if values is None:
            (values,) = self._read_stored(row_group, [column])
        elif is_narrow:
            self.decoded.append(row_group)
            return _plain(values)
        self.decoded.append(row_group)
        if column in (TSID, SEQUENCE, OP_TYPE):
            return values.to_numpy()
        if column == schema.time.id:
            return hold_times(values) if self._holds_narrow else values.view(pa.int64()).to_numpy()
        return _plain(from_storage(values, schema.by_id[column].type))

    def _decode_plain(self, row_group: int, column: ColumnId, *, is_narrow: bool) -> pa.Array | None:
        plain: PlainLeaf | None = self._footer.plain.get(column)
        if plain is None:
            return None
        offsets = self._footer.row_offsets
        rows = int(offsets[row_group + 1] - offsets[row_group])
        with reading(self._path):
            values = self._plain.decode(row_group, plain, rows, is_narrow=is_narrow)
            if values is not None and len(values) != rows:
                raise FileCorrupted(file=self._path, reason=f"row group {row_group} is not what the footer says")
            return values

    def _read_stored(self, row_group: int, columns: Sequence[ColumnId]) -> list[pa.Array]:
        # Asked for in the order of the file, columns come in that order.
        order = sorted(columns, key=lambda column: self._footer.leaves[column].start)
        leaves = [leaf for column in order for leaf in self._footer.leaves[column]]
        with reading(self._path):
            table = self._open().reader.read_row_group(row_group, column_indices=leaves, use_threads=False)
            offsets = self._footer.row_offsets
            if (table.num_columns, table.num_rows) != (len(columns), offsets[row_group + 1] - offsets[row_group]):
                raise FileCorrupted(file=self._path, reason=f"row group {row_group} is not what the footer says")
            return [_joined(table.column(order.index(column))) for column in columns]

    def _read_source(self, offset: int, length: int) -> bytes:
        content: bytes = self._opened().read_at(length, offset)
        return content

    def _opened(self) -> pa.NativeFile:
        if self._source is None:
            self._source = self._open_source()
        return self._source

    def _open(self) -> pq.ParquetFile:
        if self._file is None:
            # One read per column and no read-ahead: what is read is what is cached.
            self._file = pq.ParquetFile(
                self._opened(), metadata=self._footer.metadata, pre_buffer=False, page_checksum_verification=True
            )
        return self._file


def _plain(values: pa.Array) -> Any:
    """Return numbers without nulls as numpy, and everything else as it is."""
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    return values.to_numpy() if is_number and not values.null_count else values


def _joined(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; dictionaries of several chunks become one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.unify_dictionaries().chunks)
