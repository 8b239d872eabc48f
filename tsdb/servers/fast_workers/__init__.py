"""Fast workers: processes that compute small queries while several clients ask at a time.

One process executes Python on one core at a time, however many threads it has. So when a client is not alone, an
aggregate over series or a PromQL query that takes milliseconds is computed in another process:

    event loop                                              fast worker
    ──────────                                              ───────────
    query of a known shape ─────▶ its snapshot is lent ──▶  reads the same files, and memtables in shared memory
    waits ◀──────────────────── the encoded answer ───────  aggregates, encodes

- Everything with state stays here: the catalog, permissions, the process list, snapshots. What is acknowledged is
  visible: the snapshot is taken here, when the query has its turn.
- Queries take turns in the order of their arrival; a worker has three at a time and need not wait for the next.
- A query whose turn would come after its deadline is refused at once; one whose turn has not come by then is not
  computed, and its client is told in time.
- A worker answers or declines. What it declines, because it takes longer than the soft deadline or has a large answer,
  runs as if there were no workers, and so does everything when a worker has ended. It is not tried again for a while.
- Workers are started when they are first needed, and end when they are not needed for a minute.

`_pool` and `_worker` are the side of the event loop, `_process` that of the workers;
docs/decisions/0013-fast-workers.md has the measurements.
"""

from tsdb.servers.fast_workers._pool import FastWorkers, on_event_loop
from tsdb.servers.fast_workers._process import (
    ANSWER_BYTES_MAX,
    VECTOR_BYTES_MAX,
    VECTOR_BYTES_MIN,
    Encode,
    FastWorkerProgram,
    Lent,
)
from tsdb.servers.fast_workers._statements import FastStatements, single_query
from tsdb.servers.fast_workers._worker import FastAnswer

__all__ = [
    "ANSWER_BYTES_MAX",
    "VECTOR_BYTES_MAX",
    "VECTOR_BYTES_MIN",
    "Encode",
    "FastAnswer",
    "FastStatements",
    "FastWorkerProgram",
    "FastWorkers",
    "Lent",
    "on_event_loop",
    "single_query",
]
