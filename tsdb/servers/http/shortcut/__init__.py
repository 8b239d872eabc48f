"""Queries that dashboards repeat: from the bytes of a request to the answer, without the layers between.

    bytes ─▶ headers as before? ─▶ parameters ─▶ a known shape? ─┬─▶ turn of a fast worker ─┬─▶ head and body
                                                                 └─▶ here, for one client  ─┘

A query of a known shape takes half a millisecond to compute, and as long in the layers that a request goes
through: a task, timeouts, the session, the planner, the streaming of the answer. Nearly all of that comes to the
same for each request of a client, so the shortcut keeps it:

- What a block of headers says (who asks, which time zone, which codings are accepted) is read once for each block.
- The session is made once for each client, route, block and database.
- A query that has no answer when `http.timeout` is over is answered without one, and refused at once if its turn would
  come later. What a worker declines is left to the application with the time that is left.
- Everything else is as ever. Rights, tables and their snapshots are looked up for each query, and it is in the process
  list. Whatever is unusual is left to the application, with the bytes as they came.

A client that is alone is answered inline, sooner than any worker could do it, by the rules for all queries that run
inline (`tsdb/servers/_inline.py`). docs/decisions/0013-fast-workers.md has the measurements.

`_routes` says what a route brings along: `/v1/sql` its own (`http/sql/_repeated.py`), PromQL another
(`http/prometheus/_repeated.py`). `_heads` has the blocks of headers, `_queries` the way of a request, `_exchange` that
of its answer.
"""

from tsdb.servers.http.shortcut._heads import BLOCK_BYTES_MAX, BLOCKS_MAX
from tsdb.servers.http.shortcut._queries import REQUEST_BYTES_MAX, SESSIONS_MAX, QueryShortcut
from tsdb.servers.http.shortcut._routes import Requested, ShortQuery, ShortRoute

__all__ = [
    "BLOCKS_MAX",
    "BLOCK_BYTES_MAX",
    "REQUEST_BYTES_MAX",
    "SESSIONS_MAX",
    "QueryShortcut",
    "Requested",
    "ShortQuery",
    "ShortRoute",
]
