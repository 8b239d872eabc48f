"""How long a result may become when slots are made here, beyond the reach of the query engine's memory limit."""

from __future__ import annotations

import numpy as np

from tsdb.errors import InvalidArguments, Status

ROWS_MAX = 20_000_000


class TooManySlots(InvalidArguments):
    """The slots are so close, or the gaps and ranges so wide, that the result would not fit into memory."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED


def check_rows(counts: np.ndarray) -> None:
    """Refuse to make more slots than allowed; `counts` are those of each series or stretch, of any size."""
    if counts.astype(np.float64).sum() > ROWS_MAX:
        raise TooManySlots(
            f"the range query has more than {ROWS_MAX} slots", hint="choose a wider ALIGN, less time or fewer series"
        )
