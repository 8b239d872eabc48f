"""Blobs in pages: Arrow IPC streams of which single record batches can be read.

    schema │ page │ page │ … │ end                   a blob, which is a stream like any other
    offset, length, crc32c, … of each page           its directory, a blob of its own

To read everything, read the stream; to read little, read the directory and then some pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.index._container import IndexDamaged, IndexFile, crc32c

_PIECE_BYTES = 1 << 20
"""How much is read at once of a blob of which everything is read."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


def directory_blob(name: str) -> str:
    """Return the name of the blob that tells where the pages of a blob are."""
    return f"{name}.pages"


@dataclass(frozen=True, slots=True, eq=False)
class PageDirectory:
    """Where the pages of a blob are, and what its owner says of each."""

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    checks: npt.NDArray[np.uint32]
    facts: pa.RecordBatch
    """One row for each page."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def stops(self) -> npt.NDArray[np.int64]:
        """Where pages end."""
        return self.offsets + self.lengths

    @property
    def nbytes(self) -> int:
        return int(self.offsets.nbytes + self.lengths.nbytes + self.checks.nbytes + self.facts.nbytes)


def encode_pages(
    schema: pa.Schema, pages: Iterable[pa.RecordBatch], facts: Callable[[], Mapping[str, pa.Array]]
) -> tuple[bytes, bytes]:
    """Return a blob and its directory; `facts` is asked at the end and has a value for each page under each name."""
    sink = pa.BufferOutputStream()
    ends = [schema.serialize().size]
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED) as writer:
        for page in pages:
            writer.write_batch(page)
            ends.append(sink.tell())
    blob: bytes = sink.getvalue().to_pybytes()
    view = memoryview(blob)
    checks = [crc32c(0, bytes(view[start:end])) for start, end in pairwise(ends)]
    columns = {
        "offset": pa.array(ends[:-1], pa.int64()),
        "length": pa.array(np.diff(ends), pa.int64()),
        "crc32c": pa.array(checks, pa.uint32()),
        **facts(),
    }
    return blob, _encode_batch(pa.record_batch(columns))


def _encode_batch(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


class PagedBlob:
    """A blob of an index file that is read page by page."""

    def __init__(self, index: IndexFile, name: str, schema: pa.Schema) -> None:
        """IndexDamaged if it is not there, or its directory is not what it should be."""
        self._index = index
        self.name = name
        self._schema = schema
        self.size_bytes = index.size_of(name)
        self.directory = self._read_directory()

    def _read_directory(self) -> PageDirectory:
        content = self._index.blob(directory_blob(self.name))
        if content is None:
            raise IndexDamaged(f"{self.name} has no directory of pages")
        batch = decode_batch(content)
        try:
            offsets, lengths, checks = (batch.column(name).to_numpy() for name in ("offset", "length", "crc32c"))
        except (KeyError, pa.ArrowException) as error:
            raise IndexDamaged(f"the directory of {self.name} is not one of pages: {error}") from error
        facts = batch.select([name for name in batch.schema.names if name not in ("offset", "length", "crc32c")])
        return PageDirectory(offsets, lengths, checks, facts)

    def bytes_of(self, pages: npt.NDArray[np.int64]) -> int:
        """Return how many bytes some pages take."""
        return int(self.directory.lengths[pages].sum())

    def read(self, page: int) -> pa.RecordBatch:
        """Read a page from the store."""
        found = self.directory
        content = self._index.part(
            self.name, int(found.offsets[page]), int(found.lengths[page]), int(found.checks[page])
        )
        return self._decode(content)

    def read_all(self) -> Iterator[pa.RecordBatch]:
        """Read every byte of the blob, many pages with one request, and yield its pages."""
        found, position, page = self.directory, 0, 0
        for content in self._index.pieces(self.name, self._piece_ends()):
            while page < len(found) and (stop := int(found.stops[page]) - position) <= len(content):
                own = content[int(found.offsets[page]) - position : stop]
                if crc32c(0, own) != found.checks[page]:
                    raise IndexDamaged(f"the checksum of a page of {self.name} is wrong")
                yield self._decode(own)
                page += 1
            position += len(content)

    def _piece_ends(self) -> list[int]:
        """Return where pieces of about a megabyte end, each with the end of a page; the last with that of the blob."""
        found = self.directory
        bounds = np.concatenate([[0], found.stops, [self.size_bytes]])
        follow = len(found) > 0 and np.array_equal(found.offsets[1:], found.stops[:-1])
        if not (follow and np.all(np.diff(bounds) >= 0) and np.all(found.lengths >= 0)):
            raise IndexDamaged(f"the pages of {self.name} do not follow each other")
        is_last = np.append(np.diff(found.stops // _PIECE_BYTES) > 0, True)
        return [*found.stops[is_last].tolist(), self.size_bytes]

    def _decode(self, content: bytes) -> pa.RecordBatch:
        try:
            return pa.ipc.read_record_batch(pa.ipc.read_message(content), self._schema)
        except (pa.ArrowException, OSError) as error:
            raise IndexDamaged(f"a page of {self.name} cannot be decoded: {error}") from error


def decode_batch(content: bytes) -> pa.RecordBatch:
    """Decode a stream of one record batch; IndexDamaged if it is none."""
    try:
        with pa.ipc.open_stream(content) as reader:
            return reader.read_next_batch()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise IndexDamaged(f"a blob cannot be decoded: {error}") from error
