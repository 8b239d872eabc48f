"""Decodes binary numerics: those of the usual size become integers with a scale, vectorized.

    number of digits, 2 bytes │ weight of the first │ sign │ decimals to show │ digits to the base of 10,000, 2 each

The caller decodes the rest one by one: more than four digits, numbers that the scale cannot hold exactly, and what is
not a number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DIGITS_MAX = 4
"""To the base of 10,000: sixteen decimal ones, which an integer of 64 bits holds with room to spare."""
_POWERS = 10 ** np.arange(15, dtype=np.int64)
_DECIMALS_MAX = 38
_NEGATIVE = 0x4000
_HEAD_BYTES = 8

Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]


def read_numerics(cells: pa.BinaryArray, scale: int) -> tuple[Integers, Truths]:
    """Return numerics times ten to the power of `scale`, and which of them were read; the others are 0."""
    rows = len(cells)
    data = cells.buffers()[2]
    if data is None or not rows:
        return np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    offsets = np.frombuffer(cells.buffers()[1], np.int32)[cells.offset : cells.offset + rows + 1].astype(np.int64)
    begin, width = offsets[:-1], np.diff(offsets)
    # Cells may end anywhere; what is read beyond the last of them counts for nothing.
    raw = np.frombuffer(data, np.uint8)
    padded = np.zeros(len(raw) + _HEAD_BYTES + 2 * DIGITS_MAX, np.int64)
    padded[: len(raw)] = raw

    def halves(at: int) -> Integers:
        return (padded[begin + at] << 8) | padded[begin + at + 1]

    count, sign, shown = halves(0), halves(4), halves(6)
    weight = halves(2).astype(np.uint16).view(np.int16).astype(np.int64)
    is_read = (
        cells.is_valid().to_numpy(zero_copy_only=False)
        & (width == _HEAD_BYTES + 2 * count)
        & (count <= DIGITS_MAX)
        & ((sign == 0) | (sign == _NEGATIVE))
        & (shown <= _DECIMALS_MAX)
    )
    total = np.zeros(rows, np.int64)
    for place in range(DIGITS_MAX):
        digit = np.where(is_read & (place < count), halves(_HEAD_BYTES + 2 * place), 0)
        exponent = 4 * (weight - place)
        # Neither the scale nor the decimals to show may cut off anything.
        cut = np.clip(-exponent - np.minimum(scale, shown), 0, 4)
        is_whole = (digit % _POWERS[cut] == 0) & (digit < 10_000) & (exponent + scale < len(_POWERS))
        is_read &= is_whole | (digit == 0)
        power = np.clip(exponent + scale, -4, len(_POWERS) - 1)
        total += np.where(power >= 0, digit * _POWERS[np.maximum(power, 0)], digit // _POWERS[np.maximum(-power, 0)])
    total = np.where(sign == _NEGATIVE, -total, total)
    return np.where(is_read, total, 0), is_read
