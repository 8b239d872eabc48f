"""Has the threads of DataFusion return memory that nobody uses.

DataFusion allocates with mimalloc. There a thread keeps what it once needed until it allocates again, and threads that
wait for a query never do: a few sorts of a million rows left 200 MB that way. Small queries make the threads look at
what they keep. What they find free goes back to the system when they look again, some time later.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from datafusion import SessionConfig, SessionContext

ROUNDS, QUERIES_PER_ROUND = 4, 3
"""One round returned a third of what is free, and more than four hardly anything."""
PAUSE_SECONDS = 0.15
"""Longer than mimalloc waits before it returns free memory."""

_ROWS, _BATCH_ROWS = 2000, 100
_QUERY = "SELECT number % 97, count(*), max(CAST(number AS text)) FROM few GROUP BY 1 ORDER BY 1"


def return_idle_memory(parallelism: int) -> None:
    """Take half a second, and about 40 ms of a processor."""
    context = SessionContext(SessionConfig().with_target_partitions(parallelism))
    few = pa.table({"number": np.arange(_ROWS)})
    context.register_record_batches("few", [few.to_batches(_BATCH_ROWS)])
    for _ in range(ROUNDS):
        time.sleep(PAUSE_SECONDS)
        for _ in range(QUERIES_PER_ROUND):
            context.sql(_QUERY).collect()
