"""Worker processes for heavy queries.

DataFusion cannot be interrupted while it plans, nor always between two batches, and what expressions allocate is in no
memory budget. A process can be ended. A query that is large, or that reads more than one table, is planned and run in a
worker; its deadline, a KILL, a client that leaves or too much memory end the worker, and another one replaces it.

    server process                                         worker process
    ──────────────                                         ──────────────
    Planner prepares the text ── job ──────── control ──▶  Plans: DataFusion plans and runs it
    WorkerRecords reads       ◀─ batches ──── control ───
    Service opens tables,     ◀─ requests ─── calls ─────  RemoteSource, RemoteDataset
      runs scans, functions   ─── batches ─── one socket for each scan ──▶

The server keeps everything that has state: the catalog, regions and their snapshots, permissions, system tables.
Workers see text, schemas and batches. They are forked from a process that has imported what they need (`_fork_server`).
"""

from tsdb.query.workers._pool import Workers
from tsdb.query.workers._records import Lease, WorkerRecords
from tsdb.query.workers._requests import DescribeRequest, RunRequest
from tsdb.query.workers._service import QueryTables, travelling
from tsdb.query.workers._worker import WorkerOptions

__all__ = [
    "DescribeRequest",
    "Lease",
    "QueryTables",
    "RunRequest",
    "WorkerOptions",
    "WorkerRecords",
    "Workers",
    "travelling",
]
