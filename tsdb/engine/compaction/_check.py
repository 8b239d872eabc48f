"""Checking a merge while it is made: what goes into data files is what was in those that are merged.

| check                                                                                   | of          |
|-----------------------------------------------------------------------------------------|-------------|
| all selected rows pass through the merge, and the file has as many rows as come out of it | every file  |
| where no row is dropped, the sums of times and sequences are the same before and after    | every stripe |
| the keys and sequences that come out are those that a plain sort finds                    | one stripe in `SAMPLED` |
| values read back from the file are those that were written (`sst/_sample.py`)             | one row group in many |

What does not agree ends the compaction with an error: its files are deleted, and those it would replace stay.
Measured with 4 M rows of 14 columns, best of four: 1.82 s of CPU with all of this and 1.90 s without where files follow
each other, 2.10 s and 2.08 s where they interleave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tsdb.engine.errors import MergeMismatch
from tsdb.engine.rows.merge import MergeInput, Stripe
from tsdb.model import RegionOptions

SAMPLED = 32
"""Of so many stripes one is merged again in another way."""


class MergeAudit:
    """Sees the stripes of one merge."""

    def __init__(self, options: RegionOptions, *, keeps_tombstones: bool) -> None:
        self._options = options
        self._keeps_tombstones = keeps_tombstones
        self._stripes = 0
        self.rows_in = 0
        self.rows_out = 0

    def see(self, merged: MergeInput, stripe: Stripe) -> None:
        """Check a stripe; MergeMismatch if it is not what it should be."""
        self.rows_in += merged.rows
        self.rows_out += stripe.rows
        keeps_all = self._options.keeps_all(merged.sequence_min)
        if stripe.rows > merged.rows or (keeps_all and stripe.rows != merged.rows):
            raise MergeMismatch(f"{merged.rows} rows became {stripe.rows}")
        if stripe.rows == merged.rows:
            _compare_sums("times", merged.times, stripe.times)
            _compare_sums("sequences", merged.sequences, stripe.sequences)
        # Where rows of both kinds are in one merge, which are kept depends on each of them.
        is_mixed = self._options.append_mode and not keeps_all
        if self._stripes % SAMPLED == 0 and not is_mixed:
            self._compare_keys(merged, stripe, keeps_all=keeps_all)
        self._stripes += 1

    def finish(self, *, selected: int, written: int) -> None:
        """Compare the numbers of rows of the whole merge."""
        if self.rows_in != selected:
            raise MergeMismatch(f"{selected} rows were selected, {self.rows_in} were merged")
        if self.rows_out != written:
            raise MergeMismatch(f"{self.rows_out} rows came out of the merge, {written} are in the file")

    def _compare_keys(self, merged: MergeInput, stripe: Stripe, *, keeps_all: bool) -> None:
        ranks, times = np.concatenate(merged.ranks()), np.concatenate(merged.times)
        sequences = np.concatenate(merged.sequences)
        order = np.lexsort((sequences, times, ranks))
        if not keeps_all:
            order = order[_is_last_of_key(ranks[order], times[order])]
            if not self._keeps_tombstones and merged.ops is not None:
                order = order[merged.ops[order] == 0]
        pairs = ((ranks, stripe.ranks), (times, stripe.times), (sequences, stripe.sequences))
        if not all(np.array_equal(before[order], after) for before, after in pairs):
            raise MergeMismatch("the keys of a stripe are not those of the files that are merged")


def _is_last_of_key(ranks: npt.NDArray[np.uint32], times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell of every sorted row whether it is the last one, and so the newest, of its key."""
    is_last = np.ones(len(ranks), dtype=np.bool_)
    is_last[:-1] = (ranks[1:] != ranks[:-1]) | (times[1:] != times[:-1])
    return is_last


def _compare_sums(what: str, before: Sequence[npt.NDArray[np.generic]], after: npt.NDArray[np.generic]) -> None:
    """Sums of 64 bits, which wrap around alike."""
    found = np.uint64(0)
    with np.errstate(over="ignore"):
        for part in before:
            found += part.view(np.uint64).sum(dtype=np.uint64)
        if found != after.view(np.uint64).sum(dtype=np.uint64):
            raise MergeMismatch(f"the sum of {what} changed in a merge that drops no row")
