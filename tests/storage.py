"""Where databases and servers of tests keep their data files: in a directory, or with `TSDB_TEST_STORAGE=S3` in S3.
With `cluster` and `partitioned` they are those of frontends (`tests/through_frontend.py`).

Suites do not know about it: what a suite opens in a directory, or starts as a server, gets a root in a bucket of moto,
which is that of the directory whenever it is opened again; what a suite opens in memory gets one of its own. There is
no file cache, so every read of a file is a request, and databases in this process are flushed after each write, so that
there are files to read.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tsdb.components
import tsdb.components._local as local_databases
from tests.store.services import S3Server, running_s3
from tsdb.components import LocalDatabase, LocalOptions
from tsdb.kv import KvStore
from tsdb.store import LocalStore, MemoryStore, ObjectStore
from tsdb.units import Size

_MODE = os.environ.get("TSDB_TEST_STORAGE", "")
IN_S3 = _MODE == "S3"
IN_CLUSTER = _MODE in ("cluster", "partitioned")
IS_PARTITIONED = _MODE == "partitioned"
local_files_only = pytest.mark.skipif(IN_S3 or IN_CLUSTER, reason="looks at local data files")
"""For tests that make no sense with data files elsewhere."""

_BUFFER = Size(1)
"""A write buffer that every write fills."""


@cache
def shared_s3() -> S3Server:
    """The server of this test process, started when it is first asked for."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running_s3())


def root_of(directory: Path) -> str:
    return f"of{directory.resolve()}"


def store_of(directory: Path) -> ObjectStore:
    """Return where the data files are of what a suite has opened in a directory."""
    return shared_s3().store(root_of(directory)) if IN_S3 else LocalStore(directory)


def server_environment(component: str, directory: Path) -> dict[str, str]:
    """Return the variables that put the data files of a server where those of this run are."""
    if not IN_S3 or component != "standalone":
        return {}
    without_cache = {"TSDB_STANDALONE__STORAGE__CACHE_CAPACITY": "0"}
    return {**shared_s3().environment(root_of(directory / "data"), directory / "data" / "wal"), **without_cache}


def install() -> None:
    """Let databases that are opened in this process have their data files in S3."""
    open_local = local_databases.open_local

    def open_in_s3(
        store: ObjectStore, kv: KvStore, wal_directory: Path, *, options: LocalOptions | None = None, **more: Any
    ) -> LocalDatabase:
        if isinstance(store, LocalStore):
            store = shared_s3().store(root_of(store.root))
        elif isinstance(store, MemoryStore):
            store = shared_s3().store()
        options = options or LocalOptions()
        options = replace(options, engine=replace(options.engine, global_write_buffer_size=_BUFFER))
        return open_local(store, kv, wal_directory, options=options, **more)

    for module in (local_databases, tsdb.components):
        module.open_local = open_in_s3  # type: ignore[attr-defined]
