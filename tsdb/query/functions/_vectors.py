"""Many vectors at once: the elements of all of them in one array of floats, and where each one ends.

A vector is stored as its elements, little-endian 32-bit floats one after the other; written it is `[1,2.5,-3]`. Both
forms come in as bytes, and they are distinguished by content: an array is text if every value of it reads as a written
vector. Bytes that happen to spell one would have to do so in every row.

Invariant: rows that are null have no elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import FunctionError

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

_ELEMENT = np.dtype("<f4")
# What a written vector is made of: numbers, among them `inf`, `infinity` and `NaN`.
_PATTERN = r"^\s*\[[\s\d,.eE+\-infatyNIA]*\]\s*$"
_WRITTEN = re.compile(_PATTERN.encode())


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """The vectors of some rows."""

    elements: Floats
    offsets: Integers
    """Row i has the elements `offsets[i]` to `offsets[i + 1]`."""
    is_valid: Booleans

    def __len__(self) -> int:
        return len(self.is_valid)

    @property
    def dimensions(self) -> Integers:
        return np.diff(self.offsets)

    def keep(self, is_kept: Booleans) -> VectorColumn:
        """The same rows, null except where they are kept."""
        is_kept = is_kept & self.is_valid
        if is_kept.all() or bool((is_kept == self.is_valid).all()):
            return self
        sizes = np.where(is_kept, self.dimensions, 0)
        chosen = self.elements[np.repeat(is_kept, self.dimensions)]
        return VectorColumn(chosen, _ends(sizes), is_kept)

    def with_elements(self, elements: Floats) -> VectorColumn:
        return VectorColumn(elements, self.offsets, self.is_valid)

    def reduce(self, fold: Callable[[Floats], Any]) -> npt.NDArray[Any]:
        """Fold every row; `fold` gets rows of equal dimension as a matrix and returns one value for each."""
        return self.by_dimension(lambda rows, matrix: fold(matrix))

    def by_dimension(self, fold: Callable[[Integers, Floats], Any]) -> npt.NDArray[Any]:
        """As `reduce`, for folds that also need to know which rows they get."""
        sizes, rows = self.dimensions, np.arange(len(self))
        if len(self) and self.is_valid.all() and bool((sizes == sizes[0]).all()):
            return np.asarray(fold(rows, self.elements.reshape(len(self), int(sizes[0]))))
        result = np.zeros(len(self), np.float64)
        for size in np.unique(sizes[self.is_valid]):
            chosen = rows[self.is_valid & (sizes == size)]
            places = self.offsets[chosen][:, None] + np.arange(size)
            result[chosen] = fold(chosen, self.elements[places])
        return result

    def to_array(self) -> pa.Array:
        """As stored."""
        data = np.ascontiguousarray(self.elements, _ELEMENT)
        offsets = (self.offsets * _ELEMENT.itemsize).astype(np.int32)
        buffers = [_validity(self.is_valid), pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)


def floats(values: npt.NDArray[Any], is_valid: Booleans) -> pa.Array:
    """Numbers as an array, null where a row is not valid."""
    return pa.array(values.astype(np.float32), mask=~is_valid)


def _ends(sizes: npt.NDArray[Any]) -> Integers:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def _validity(is_valid: Booleans) -> pa.Buffer | None:
    return None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def read_vectors(values: pa.Array, *, call: str) -> VectorColumn:
    """Read vectors, stored or written; FunctionError for anything else."""
    if _is_written(values):
        return _repeated(values, lambda distinct: parse_vectors(distinct, call=call))
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if (sizes % _ELEMENT.itemsize).any():
        raise FunctionError(f"{call}: {_shown(values, sizes % _ELEMENT.itemsize != 0)} is not a vector")
    # Rebuilt, the buffer holds the bytes of these rows only: none of rows sliced off, none under nulls.
    packed = pa.concat_arrays([values.fill_null(b"")])
    begin = int(np.frombuffer(packed.buffers()[1], np.int32)[packed.offset]) if len(packed) else 0
    data = packed.buffers()[2]
    total = int(sizes.sum())
    raw = b"" if data is None or not total else memoryview(data)[begin : begin + total]
    return VectorColumn(np.frombuffer(raw, _ELEMENT), _ends(sizes // _ELEMENT.itemsize), is_valid)


def _is_written(values: pa.Array) -> bool:
    present = values.drop_null()
    if not len(present):
        return False
    # Stored vectors need not be looked at one by one: the first nearly always decides.
    if _WRITTEN.match(present[0].as_py()) and pc.all(pc.match_substring_regex(present, _PATTERN)).as_py():
        return True
    # What cannot be stored elements must be meant as text, and reading it as such says what is wrong with it.
    sizes = pc.binary_length(present)
    return bool(pc.any(pc.not_equal(pc.bit_wise_and(sizes, _ELEMENT.itemsize - 1), 0)).as_py())


def _repeated(values: pa.Array, read: Callable[[pa.Array], VectorColumn]) -> VectorColumn:
    """Read each distinct value once: a constant is in every row."""
    encoded = values.dictionary_encode()
    distinct = read(encoded.dictionary)
    is_valid = encoded.is_valid().to_numpy(zero_copy_only=False)
    codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    if not len(distinct):
        return VectorColumn(np.empty(0, np.float32), np.zeros(len(values) + 1, np.int64), is_valid)
    sizes = np.where(is_valid, distinct.dimensions[codes], 0)
    offsets = _ends(sizes)
    places = np.repeat(distinct.offsets[codes] - offsets[:-1], sizes) + np.arange(int(offsets[-1]))
    return VectorColumn(distinct.elements[places], offsets, is_valid)


def parse_vectors(values: pa.Array, *, call: str) -> VectorColumn:
    """Read written vectors, from text or the bytes of text."""
    try:
        texts = pc.utf8_trim_whitespace(values.cast(pa.string()))
    except pa.ArrowInvalid as error:
        raise FunctionError(f"{call}: a value is neither a vector nor text") from error
    is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
    is_enclosed = pc.and_(pc.starts_with(texts, "["), pc.ends_with(texts, "]"))
    is_bad = pc.fill_null(pc.invert(is_enclosed), False).to_numpy(zero_copy_only=False)
    if is_bad.any():
        raise FunctionError(f"{call}: {_shown(texts, is_bad)} is not a vector: it is not enclosed in brackets")
    bodies = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(texts, 1, -1).fill_null(""))
    is_empty = pc.equal(bodies, "").to_numpy(zero_copy_only=False)
    lists = pc.split_pattern(bodies.filter(pa.array(~is_empty)), ",")
    written = pc.replace_substring_regex(pc.utf8_trim_whitespace(lists.flatten()), r"^\+", "")
    try:
        elements = written.cast(pa.float32())
    except pa.ArrowInvalid as error:
        raise FunctionError(f"{call}: a vector has an element that is not a number: {error}") from error
    sizes = np.zeros(len(texts), np.int64)
    sizes[~is_empty] = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return VectorColumn(elements.to_numpy(zero_copy_only=False), _ends(sizes), is_valid)


def write_vectors(vectors: VectorColumn) -> pa.Array:
    """Write vectors as `[1,2.5,-3]`: the fewest digits that read back the same, never an exponent."""
    # Plain digits come from Arrow; it writes an exponent where numbers are very large or very small.
    texts = pa.array(vectors.elements).cast(pa.string())
    odd = pc.or_(pc.match_substring(texts, "e"), pc.match_substring(texts, "nan"))
    rows = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    if len(rows):
        spelled = texts.to_numpy(zero_copy_only=False)
        for row in rows:
            spelled[row] = _positional(vectors.elements[row])
        texts = pa.array(spelled, pa.string())
    offsets = pa.array(vectors.offsets.astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    written = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(pa.array(vectors.is_valid), written, None)


def _positional(number: np.float32) -> str:
    return "NaN" if np.isnan(number) else np.format_float_positional(number, unique=True, trim="-")


def _shown(values: pa.Array, is_bad: Any) -> str:
    """The first bad value, for a message."""
    value = values[int(np.flatnonzero(is_bad)[0])].as_py()
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
