"""Columns in little memory: integers less their smallest or as steps, byte planes, zstd.

    numbers ─▶ less the smallest, or steps from one to the next ─▶ narrowest width ─▶ byte planes ─▶ zstd
    others  ─▶ an Arrow stream whose buffers are compressed

Byte planes lay the first bytes of all numbers side by side, then the second ones: high bytes repeat, low ones do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

PACKED_BYTES = 256
"""What the objects of a packed column take besides its bytes."""

_LEVEL = 1
_SAVED_MIN = 8
"""Bytes stay as they are if less than one in this many would be saved."""
_COMPRESSED_BYTES_MIN = 512
"""Fewer bytes than this are not compressed: that would take longer than all else."""


@cache
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=_LEVEL)


@dataclass(frozen=True, slots=True, eq=False)
class PackedNumbers:
    """Numbers without nulls."""

    rows: int
    kind: np.dtype[Any]
    base: int
    """The smallest number as 64 bits; of steps, the first."""
    is_stepped: bool
    width: int
    """Bytes of each; with 0 all are `base`."""
    is_compressed: bool
    content: bytes

    @property
    def nbytes(self) -> int:
        return len(self.content) + PACKED_BYTES

    def unpack(self) -> npt.NDArray[Any]:
        bits = np.full(self.rows, self.base, dtype=np.uint64) if self.width == 0 else self._restore(self._planes())
        return _of_bits(bits, self.kind)

    def _planes(self) -> npt.NDArray[np.uint64]:
        size = self.rows * self.width
        content = _codec().decompress(self.content, decompressed_size=size) if self.is_compressed else self.content
        planes = np.frombuffer(content, np.uint8).reshape(self.width, self.rows)
        return np.ascontiguousarray(planes.T).view(np.dtype(f"<u{self.width}")).ravel().astype(np.uint64)

    def _restore(self, narrow: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        if not self.is_stepped:
            return narrow + np.uint64(self.base) if self.base else narrow
        steps = (narrow >> np.uint64(1)) ^ (np.uint64(0) - (narrow & np.uint64(1)))
        steps[0] = self.base
        return np.cumsum(steps, dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class PackedArray:
    """Columns of any types, nulls included."""

    rows: int
    content: bytes

    @property
    def nbytes(self) -> int:
        return len(self.content) + PACKED_BYTES

    def unpack(self) -> pa.Array:
        return self.unpack_batch().column(0)

    def unpack_batch(self) -> pa.RecordBatch:
        with pa.ipc.open_stream(self.content) as stream:
            return stream.read_next_batch()


@dataclass(frozen=True, slots=True, eq=False)
class PackedColumn:
    """Numbers of a type of Arrow."""

    numbers: PackedNumbers
    kind: pa.DataType

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes

    def unpack(self) -> pa.Array:
        values = pa.array(self.numbers.unpack())
        return values if values.type == self.kind else values.view(self.kind)


Packed: TypeAlias = PackedColumn | PackedArray


def pack_numbers(values: npt.NDArray[Any]) -> PackedNumbers:
    """Pack integers or floats of any width."""
    bits = _bits(values)
    rows = len(bits)
    if values.dtype.kind == "f":
        return _pack(values, 0, bits, is_stepped=False)
    base = int(values.min()) & (1 << 64) - 1 if rows else 0
    offsets = bits - np.uint64(base)
    if rows < 2:
        return _pack(values, base, offsets, is_stepped=False)
    steps = np.zeros(rows, dtype=np.uint64)
    signed = np.diff(bits).view(np.int64)
    steps[1:] = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    # Steps repeat where numbers only grow: they are the better choice unless they need more room.
    if _width(steps) <= _width(offsets):
        return _pack(values, int(bits[0]), steps, is_stepped=True)
    return _pack(values, base, offsets, is_stepped=False)


def pack_column(values: pa.Array) -> Packed:
    """Pack a column as it is held."""
    kind = values.type
    is_plain = pt.is_integer(kind) or pt.is_float64(kind) or pt.is_float32(kind)
    if values.null_count == 0 and is_plain:
        return PackedColumn(pack_numbers(values.to_numpy()), kind)
    if values.null_count == 0 and (pt.is_timestamp(kind) or pt.is_duration(kind)):
        return PackedColumn(pack_numbers(values.view(pa.int64()).to_numpy()), kind)
    return pack_array(pa.RecordBatch.from_arrays([values], names=[""]))


def pack_array(batch: pa.RecordBatch) -> PackedArray:
    """Pack the columns of a batch with one column or more."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=_codec() if batch.nbytes >= _COMPRESSED_BYTES_MIN else None)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return PackedArray(batch.num_rows, sink.getvalue().to_pybytes())


def _pack(values: npt.NDArray[Any], base: int, bits: npt.NDArray[np.uint64], *, is_stepped: bool) -> PackedNumbers:
    width = _width(bits)
    content, is_compressed = b"", False
    if width:
        narrow = bits.astype(np.dtype(f"<u{width}"))
        planes = np.ascontiguousarray(narrow.view(np.uint8).reshape(len(narrow), width).T)
        content = planes.tobytes()
        if planes.nbytes >= _COMPRESSED_BYTES_MIN:
            small = _codec().compress(planes, asbytes=True)
            is_compressed = len(small) < planes.nbytes - planes.nbytes // _SAVED_MIN
            content = small if is_compressed else content
    return PackedNumbers(len(bits), values.dtype, base, is_stepped, width, is_compressed, content)


def _width(bits: npt.NDArray[np.uint64]) -> int:
    most = int(bits.max()) if len(bits) else 0
    return next(width for width in (0, 1, 2, 4, 8) if most < 1 << 8 * width)


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return numbers as 64 bits; those of signed ones wrap, so that their differences are right."""
    kind = values.dtype
    if kind.kind == "f":
        return values.view(np.dtype(f"<u{kind.itemsize}")).astype(np.uint64)
    return values.astype(np.int64).view(np.uint64) if kind.kind == "i" else values.astype(np.uint64)


def _of_bits(bits: npt.NDArray[np.uint64], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    if kind.kind == "f":
        return bits.astype(np.dtype(f"<u{kind.itemsize}")).view(kind)
    return bits.view(np.int64).astype(kind, copy=False) if kind.kind == "i" else bits.astype(kind, copy=False)
