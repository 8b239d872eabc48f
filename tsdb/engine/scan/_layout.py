"""Pieces of series, read one after the other, as whole columns: series by series, each in the order of its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from tsdb import _kernels
from tsdb.engine.rows.series import Positions


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Which series a piece has rows of, in order, and how many of each."""

    places: Positions
    """Among all series."""
    counts: Positions


class Layout:
    """Where the rows of pieces go. `series` is how many there are in all."""

    def __init__(self, pieces: Sequence[Placed], series: int) -> None:
        self._pieces = pieces
        self.offsets: Positions = np.zeros(series + 1, dtype=np.int64)
        """The rows of series i are `offsets[i]` to `offsets[i + 1]`."""
        for piece in pieces:
            self.offsets[piece.places + 1] += piece.counts
        np.cumsum(self.offsets, out=self.offsets)
        filled = [piece.places for piece in pieces if len(piece.places)]
        self._is_in_order = all(one[-1] <= other[0] for one, other in pairwise(filled))
        """Laid end to end, pieces are as they should be."""

    def column(self, chunks: Sequence[pa.Array]) -> pa.Array:
        """Return a column, given what each piece has of it."""
        if self._is_in_order:
            return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        if _has_words(chunks[0].type) and not any(chunk.null_count for chunk in chunks):
            return pa.array(_kernels.interleave_runs(chunks, *self._arrow, pa.array(self.offsets)))
        return pa.concat_arrays(chunks).take(self._order)

    def numbers(self, chunks: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """The same for plain integers."""
        if len(chunks) == 1:
            return chunks[0]
        numbers: npt.NDArray[np.int64] = self.column([pa.array(chunk) for chunk in chunks]).to_numpy()
        return numbers

    @cached_property
    def _arrow(self) -> tuple[list[pa.Array], list[pa.Array]]:
        return [pa.array(piece.places) for piece in self._pieces], [pa.array(piece.counts) for piece in self._pieces]

    @cached_property
    def _order(self) -> pa.Array:
        """For each row of the answer where it is among all pieces laid end to end."""
        rows = int(self.offsets[-1])
        return pa.array(_kernels.interleave_runs(self._numbered(rows), *self._arrow, pa.array(self.offsets)))

    def _numbered(self, rows: int) -> list[pa.Array]:
        ends = np.cumsum([0, *(int(piece.counts.sum()) for piece in self._pieces)])
        numbers = pa.array(np.arange(rows, dtype=np.int64))
        return [numbers.slice(int(start), int(stop - start)) for start, stop in pairwise(ends)]


def _has_words(kind: pa.DataType) -> bool:
    return bool(types.is_float64(kind) or types.is_int64(kind) or types.is_uint64(kind) or types.is_timestamp(kind))
