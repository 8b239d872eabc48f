"""Which of many stored native histograms say that their series has ended: those whose sum is the mark of an end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.promql.evaluation import STALE_BITS

_SUM_AT = 16
"""Where the sum stands in a stored histogram."""


def find_ends(histograms: pa.Array) -> npt.NDArray[np.bool_]:
    """Return for each histogram whether it marks an end; nulls and what is no histogram do not."""
    found = np.zeros(len(histograms), np.bool_)
    _, offsets, content = histograms.buffers()
    if content is None or not len(histograms):
        return found
    bounds = np.frombuffer(offsets, np.int32)[histograms.offset : histograms.offset + len(histograms) + 1]
    rows = np.flatnonzero(np.diff(bounds) >= _SUM_AT + 8)
    if histograms.null_count:
        rows = rows[histograms.is_valid().to_numpy(zero_copy_only=False)[rows]]
    places = bounds[rows].astype(np.int64)[:, None] + np.arange(_SUM_AT, _SUM_AT + 8)
    sums = np.frombuffer(content, np.uint8)[places].view("<u8").reshape(len(rows))
    found[rows] = sums == STALE_BITS
    return found
