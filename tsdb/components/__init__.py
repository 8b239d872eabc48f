"""The four components and the embedded database: the only place where concrete objects are made and put together."""

from __future__ import annotations

from tsdb.components._local import LocalDatabase, LocalOptions, open_directory, open_local, open_memory, open_read_only
from tsdb.components._run import run_component

__all__ = [
    "LocalDatabase",
    "LocalOptions",
    "open_directory",
    "open_local",
    "open_memory",
    "open_read_only",
    "run_component",
]
