"""Which Parquet encoding a column gets, decided from a sample of its first rows.

| values                          | repeated                    | otherwise                                       |
|---------------------------------|-----------------------------|-------------------------------------------------|
| the time index, sequences       | DELTA_BINARY_PACKED always: steps are small and mostly equal                  |
| integers, times, dates          | dictionary below 1/64, if   | DELTA_BINARY_PACKED                             |
|                                 | its codes are shorter than  |                                                 |
|                                 | the steps between values    |                                                 |
| floats that are whole numbers   | as integers, if the steps between them are short (`_whole.py`); else          |
|                                 | dictionary below 1/8        | BYTE_STREAM_SPLIT: counters differ in few bytes |
| floats with fractions           | dictionary below 1/2        | BYTE_STREAM_SPLIT                               |
| series ids                      | dictionary below 1/8        | PLAIN: hashes do not compress                   |
| strings, binaries, decimals     | dictionary, which Parquet gives up by itself when it grows too large          |
| booleans, nested values         | PLAIN                                                                         |

"Below" is the share of distinct values in the sample. Measured with zstd over 400 k rows: gauges of two decimals
(share 0.48) take 16 bits a value as dictionary and 38 split, counters (0.91) 26 and 14, whole percentages (0.01) 6 and
5 but the dictionary reads twice as fast. Integers that walk (a percentage by a few points) take 7 bits as dictionary
and 3 as steps (2.3 laid out along bytes, `_parquet.py`), which are written in half the time; statuses that jump between
five numbers take 3 and 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

SAMPLE_ROWS = 10_000
_SAMPLE_RANGES = 10
_STEP_GROUP = 32
DELTA = "DELTA_BINARY_PACKED"
_SPLIT = "BYTE_STREAM_SPLIT"
_PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True)
class Encodings:
    """The choice for all columns of a file, in the words of pyarrow."""

    dictionary: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)


def choose_encodings(rows: pa.Table, *, steady: set[str], hashes: set[str]) -> Encodings:
    """Choose for every column; `steady` ones move in small steps whatever the sample says, `hashes` are random."""
    chosen = Encodings()
    sample = _sample(rows)
    for name, column in zip(sample.column_names, sample.columns, strict=True):
        encoding = DELTA if name in steady else _choose(column, is_hash=name in hashes)
        if encoding is None:
            chosen.dictionary.append(name)
        else:
            chosen.others[name] = encoding
    return chosen


def _sample(rows: pa.Table) -> pa.Table:
    """Take row ranges from all over the table, so that both repetition within series and variety between them show."""
    return pa.concat_tables([rows.slice(start, stop - start) for start, stop in _row_ranges(rows.num_rows)])


def sample_ranges(values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Take row ranges from all over some values."""
    return [values[start:stop] for start, stop in _row_ranges(len(values))]


def _row_ranges(rows: int) -> list[tuple[int, int]]:
    if rows <= SAMPLE_ROWS:
        return [(0, rows)]
    length = SAMPLE_ROWS // _SAMPLE_RANGES
    starts = np.linspace(0, rows - length, _SAMPLE_RANGES).astype(int)
    return [(int(start), int(start) + length) for start in starts]


def _choose(column: pa.ChunkedArray, *, is_hash: bool) -> str | None:
    """Return an encoding, or None for a dictionary."""
    kind = column.type
    if types.is_nested(kind) or types.is_boolean(kind) or types.is_null(kind):
        return _PLAIN
    if is_hash:
        return None if _distinct_share(column) < 1 / 8 else _PLAIN
    if types.is_float32(kind) or types.is_float64(kind):
        repeated_below = 1 / 8 if _is_whole(column) else 1 / 2
        return None if _distinct_share(column) < repeated_below else _SPLIT
    if types.is_integer(kind) or types.is_temporal(kind):
        return None if _distinct_share(column) < 1 / 64 and _codes_are_shorter(column) else DELTA
    return None


def _distinct_share(column: pa.ChunkedArray) -> float:
    values = len(column) - column.null_count
    return pc.count_distinct(column, mode="only_valid").as_py() / values if values else 0.0


def _codes_are_shorter(column: pa.ChunkedArray) -> bool:
    """Whether the codes of a dictionary take fewer bits than the steps between values do."""
    values = _as_integers(column)
    code_bits = math.ceil(math.log2(max(2, len(np.unique(values)))))
    return code_bits + 1 < step_bits(values)


def _as_integers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    values = column.drop_null().combine_chunks()
    if not types.is_integer(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    integers: npt.NDArray[np.int64] = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return integers


def step_bits(values: npt.NDArray[np.int64]) -> float:
    """Estimate the bits of a value in DELTA_BINARY_PACKED: every 32 steps have a width of their own."""
    steps = np.diff(values)
    whole = len(steps) // _STEP_GROUP * _STEP_GROUP
    if not whole:
        return 0.0
    groups = steps[:whole].reshape(-1, _STEP_GROUP)
    spans = (groups.max(axis=1) - groups.min(axis=1)).view(np.uint64).astype(np.float64)
    return float(np.ceil(np.log2(spans + 1)).mean())


def _is_whole(column: pa.ChunkedArray) -> bool:
    values = column.drop_null().to_numpy()
    finite = values[np.isfinite(values)]
    return bool(np.all(finite == np.floor(finite)))
